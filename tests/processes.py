"""What the processes that tests start begin with, whatever started pytest itself; and poolcli in one of them."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import subprocess
import sys
import warnings
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from poolcli.system.processes import context

# Packages that are slow to import or optional.
HEAVY = {
    "PIL", "dask", "distributed", "fsspec", "google", "h5py", "hdf5plugin", "imagecodecs", "llvmlite", "ml_dtypes",
    "numba", "onnx", "pillow_heif", "tifffile", "zarr",
}  # fmt: skip


def hear_signals() -> None:
    """Makes SIGINT, SIGTERM and SIGHUP heard here, and so in every child: `nohup pytest &` hands them down ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


def pytest_configure() -> None:
    hear_signals()
    import_module("poolcli.formats.hdf5")  # which poolcli imports in a fork, and each fork of a test would again
    if hasattr(os, "register_at_fork"):  # poolcli forks where a library may crash, and says itself that it did
        os.register_at_fork(after_in_child=faulthandler.disable)


@dataclass(frozen=True)
class Run:
    """How a process of poolcli ended: its exit code (-n for signal n), its streams, and its memory at most, in KiB."""

    code: int
    out: bytes
    err: str
    peak: int


def forked(folder: Path, *arguments: str) -> Run:
    """poolcli in a fork of this process, which has loaded everything already; `peak` counts what it takes on top."""
    _load()
    process = context().Process(target=_main, args=(folder, arguments))  # no daemon, which could start none of its own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, of which this one needs none
        process.start()
    process.join(60)
    process.kill()
    process.join()
    out, err, peak = ((folder.parent / name).read_bytes() for name in ("out", "err", "peak"))
    return Run(process.exitcode, out, err.decode(), int(peak))


MEASURED = """
import resource, sys
from poolcli.__main__ import main
try:
    main()
finally:
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
    with open("../peak", "w") as stream:
        stream.write(str(max(peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)))
"""


def fresh(folder: Path, *arguments: str, timeout: float | None = 60, stdin: IO[bytes] | None = None) -> Run:
    """poolcli in a process that has loaded nothing yet; `peak` is all that it takes.

    The process reads its peak itself: what `wait4` tells counts the memory of the one that started it, too.
    """
    command = [sys.executable, "-c", MEASURED, *arguments]
    result = subprocess.run(command, cwd=folder, stdin=stdin, capture_output=True, timeout=timeout, check=False)
    return Run(result.returncode, result.stdout, result.stderr.decode(), int((folder.parent / "peak").read_text()))


@cache
def _load() -> None:
    """Pools a picture once here, so that no fork has to load what that takes."""
    from poolcli.cli import run

    import_module("poolcli.__main__")
    picture = Path(__file__).parents[1] / "samples" / "astronaut.png"
    with TemporaryDirectory() as folder:
        run(["avg", str(picture), "-o", f"{folder}/y.npy", "-k", "2", "-s", "2", "--engine", "numpy", "-q"])


def _main(folder: Path, arguments: tuple[str, ...]) -> None:
    from poolcli.__main__ import main

    os.chdir(folder)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder.parent / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    sys.argv = ["poolcli", *arguments]
    before = _peak()
    try:
        main()
    finally:
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        (folder.parent / "peak").write_text(str(max(_peak(), children) - before))


def _peak() -> int:
    """The most memory that this process has held, in KiB."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
