"""Entry point of the `poolcli` command and of `python -m poolcli`."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from contextlib import suppress

STREAMS = (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))
# What an error without a file name is about: the place of what is printed, or a current folder that has been removed.
# Others, such as too many open files, are about this process.
UNNAMED = {errno.ENOENT: "current folder"} | dict.fromkeys(
    (errno.EBADF, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EDQUOT), "standard output"
)


def prepare_streams() -> None:
    """Opens /dev/null in place of closed standard streams, so that no other file gets their descriptors, and escapes
    characters that the encoding of standard output lacks.

    Standard output is opened for reading only: writing to it fails, as it does to a closed one.
    """
    for number, (name, mode, flags) in enumerate(STREAMS):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  # open until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def main() -> None:
    """Runs the command line and exits with its code."""
    try:
        from poolcli.system.signals import Stopped, install_handlers, remove_handlers

        install_handlers()
    except KeyboardInterrupt:  # from Python's own handler, until ours are installed
        print("poolcli: interrupted", file=sys.stderr)
        sys.exit(130)
    prepare_streams()
    if os.environ.get("COLUMNS", "").strip("0") == "":
        os.environ.pop("COLUMNS", None)  # Rich would take 0 for the width
    # When numpy is imported, OpenBLAS starts a thread with a buffer for each core; poolcli never calls it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = _run()
    except Stopped as stop:
        with suppress(OSError):  # the terminal is closed
            print(f"poolcli: {stop}", file=sys.stderr)
        if "asyncio" in sys.modules:  # it would log the pending tasks of Zarr
            sys.modules["logging"].getLogger("asyncio").disabled = True
            sys.modules["warnings"].simplefilter("ignore")
        code = stop.exit_code
    except OSError as error:
        from poolcli.errors import PoolError
        from poolcli.message_fields import printable

        if isinstance(error, PoolError):  # with --debug
            raise
        place = str(error.filename or UNNAMED.get(error.errno or 0, "this process"))
        if not isinstance(error, BrokenPipeError):
            print(f"poolcli: {printable(place)}: {error.strerror}", file=sys.stderr)
        with suppress(OSError):  # of too many open files; without this, the flush at exit would fail, too
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 1
    remove_handlers()
    gc.freeze()  # skips the final collection: 0.09 of 0.76 CPU s for one PNG
    sys.exit(code)


def _run() -> int:
    """Runs the command line and returns its exit code; raises Stopped also if a library swallowed the exception."""
    from poolcli.system.signals import check_stopped

    try:
        from poolcli.cli import run

        code = run(sys.argv[1:])
        sys.stdout.flush()
    except Exception:
        check_stopped()
        raise
    check_stopped()
    return code


if __name__ == "__main__":
    main()
