"""Entry point of the `poolcli` command and of `python -m poolcli`."""

from __future__ import annotations

import gc
import os
import sys

STREAMS = (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))


def replace_closed_streams() -> None:
    """Puts something in the place of closed streams, so that no file that is opened gets their numbers.

    Nothing can be read there, and what is printed on standard error is lost; standard output fails as soon as anything
    is written to it, as closed ones do.
    """
    for number, (name, mode, flags) in enumerate(STREAMS):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  # for as long as the process lives


def main() -> None:
    """Runs the command line and exits with its code."""
    try:
        from poolcli.system.signals import Stopped, install_handlers, remove_handlers

        install_handlers()
    except KeyboardInterrupt:  # until the handlers stand, which takes some milliseconds, Python has its own
        print("poolcli: interrupted", file=sys.stderr)
        sys.exit(130)
    if None in (sys.stdin, sys.stdout, sys.stderr):
        replace_closed_streams()
    # OpenBLAS, which poolcli never calls, starts a thread and a buffer for each core when numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = _run()
    except Stopped as stop:
        print(f"poolcli: {stop}", file=sys.stderr)
        if "asyncio" in sys.modules:  # which would name what Zarr had begun, and what it was about to
            sys.modules["logging"].getLogger("asyncio").disabled = True
            sys.modules["warnings"].simplefilter("ignore")
        code = stop.exit_code
    except OSError as error:
        from poolcli.errors import PoolError
        from poolcli.message_fields import printable

        if isinstance(error, PoolError):  # with --debug
            raise
        # A stream has no name: standard output itself cannot be written, a full disk or a closed pipe.
        if not isinstance(error, BrokenPipeError):
            print(f"poolcli: {printable(str(error.filename or 'standard output'))}: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 1
    remove_handlers()
    gc.freeze()  # skip the final gc pass: 0.09 of 0.76 CPU s for one PNG
    sys.exit(code)


def _run() -> int:
    """The exit code of the command line; a signal that something in it has swallowed or disguised still counts."""
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
