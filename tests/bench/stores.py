"""Stores beside others: python -m tests.bench.stores [--folder FOLDER] [--peers PYTHON].

Each contender is a process of its own, started in turn, and its CPU time is counted whole, imports and all; a ratio is
the median of those of each round. `--peers` is a Python of an environment of its own that has ngff-zarr, whose
dependencies exclude those of the tests.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from tests.processes import fresh

Figure = tuple[str, float, str]  # what was measured, its value and unit
SHAPE = (513, 641, 769)
CHUNK = 128
NAME = "volume.zarr"
LONGEST = 300  # seconds
POOLCLI = (sys.executable, "-m", "poolcli")
HALVE = ("-k", "2", "-s", "2", "--rounding-type", "ceil")
DASK = """
import sys
import dask
import dask.array as da
import numpy as np
dask.config.set(scheduler="threads")
x = da.from_zarr(sys.argv[1])
trimmed = da.coarsen(np.mean, x, {0: 2, 1: 2, 2: 2}, trim_excess=True).astype("u1")
trimmed.rechunk((128, 128, 128)).to_zarr(sys.argv[2])
"""
NGFF = """
import sys
import dask.array as da
import ngff_zarr
image = ngff_zarr.to_ngff_image(da.from_zarr(sys.argv[1]), dims=("z", "y", "x"))
levels = ngff_zarr.to_multiscales(image, scale_factors=[2], chunks=128, method=ngff_zarr.Methods.DASK_BIN_SHRINK)
ngff_zarr.to_ngff_zarr(sys.argv[2], levels)
"""


NGFF_ZARR = "ngff-zarr bin shrink, which copies the first level too"
RATIOS = (  # a contender, and the one that its CPU time is divided by
    ("avg k2s2", "dask coarsen"),
    ("avg k2s2", NGFF_ZARR),
    ("pyramid of 2 levels", NGFF_ZARR),
    ("avg k3s2p1", "avg k2s2"),
    ("pyramid of 5 levels", "pyramid of 1 levels"),
    ("pyramid of 5 levels", "pyramid of 2 levels"),
)


def contenders(peers: str | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is timed, by name: commands, to which the input and the output are added."""

    def avg(*options: str) -> tuple[str, ...]:
        return (*POOLCLI, "avg", "-q", *options)

    def pyramid(levels: int) -> tuple[str, ...]:
        return (*POOLCLI, "pyramid", "-q", "--levels", str(levels))

    yield "avg k2s2", avg(*HALVE)
    yield "avg k2s2, one thread", avg(*HALVE, "-j", "1")
    yield "avg k3s2p1", avg("-k", "3", "-s", "2", "-p", "1")
    for levels in (1, 2, 5):
        yield f"pyramid of {levels} levels", pyramid(levels)
    yield "dask coarsen", (sys.executable, "-c", DASK)
    if peers:
        yield NGFF_ZARR, (peers, "-c", NGFF)


def main() -> None:
    """Makes the volume, and measures and prints all figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stores", description=__doc__)
    parser.add_argument("--folder", help="where the volume is kept, or made")
    parser.add_argument("--peers", help="the Python of an environment with ngff-zarr")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # which installed packages would not feel, and a checkout does
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(asked.folder or temporary)
        source = made(folder)
        for name, value, unit in (*of_stores(source, asked.peers, asked.rounds), sparse(folder)):
            print(f"{name:<66}{value:>10.2f} {unit}")


def of_stores(source: Path, peers: str | None, rounds: int) -> Iterator[Figure]:
    """What each contender takes, and some beside others."""
    found: dict[str, list[tuple[float, float]]] = {}
    for name, command in contenders(None):
        if name.startswith("avg"):
            run(command, source)  # once before: kernels
    for _ in range(rounds):
        for name, command in contenders(peers):
            found.setdefault(name, []).append(run(command, source))
    for name, runs in found.items():
        yield name, statistics.median(seconds for seconds, _ in runs), "CPU s"
        yield f"{name}, most memory", max(peak for _, peak in runs), "MB"
    for own, peer in RATIOS:
        if peer in found:
            of_rounds = zip(found[own], found[peer], strict=True)
            yield f"{own} / {peer}", statistics.median(one[0] / other[0] for one, other in of_rounds), ""


def sparse(folder: Path) -> Figure:
    """The most memory for a store of 20 GB of which next to nothing is there, under a limit of 1 GB."""
    import zarr

    here = folder / "sparse"
    here.mkdir(exist_ok=True)
    array = zarr.create_array(here / "x.zarr", shape=(2720,) * 3, dtype="u1", chunks=(125,) * 3, overwrite=True)
    array[2719, 2719, 2719] = 9
    words = ("max", "x.zarr", "-o", "y.zarr", "-k", "25", "-s", "25", "--layout", "DHW", "--overwrite")
    result = fresh(here, *words, "--max-memory", "1G", "-q", timeout=LONGEST)
    if (result.code, result.err) != (0, ""):
        raise RuntimeError(result.err)
    return "20 GB sparse under --max-memory 1G, most memory", result.peak / 1024, "MB"


def made(folder: Path) -> Path:
    """The volume, which is made where it is not there, in a process of its own: else the memory that this takes counts
    as that of the contenders.
    """
    path = folder / NAME
    if not path.exists():
        maker = get_context("spawn").Process(target=volume, args=(path,))
        maker.start()
        maker.join()
    return path


def volume(path: Path) -> None:
    """253 MB of uint8 as microscopes give it: smooth, with noise; zstd, chunks of 128."""
    import zarr

    rng = np.random.default_rng(0)
    array = zarr.create_array(path, shape=SHAPE, dtype="u1", chunks=(CHUNK,) * 3, dimension_names=("z", "y", "x"))
    z, y, x = (np.sin(np.arange(n) / 53) for n in SHAPE)
    for start in range(0, SHAPE[0], CHUNK):
        smooth = 128 + 60 * z[start : start + CHUNK, None, None] * y[:, None] * x
        array[start : start + CHUNK] = np.clip(smooth + rng.normal(0, 4, smooth.shape), 0, 255).astype("u1")


def run(command: Sequence[str], source: Path) -> tuple[float, float]:
    """The CPU seconds of a process and of all that it starts, and the most memory of one of them, in MB."""
    output = source.with_name("out.zarr")
    shutil.rmtree(output, ignore_errors=True)
    ours = command[1:3] == ("-m", "poolcli")
    words = [*command, str(source), "-o", str(output)] if ours else [*command, str(source), str(output)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        _, status, used = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        raise
    if status:
        raise RuntimeError(f"{words}: ended with {os.waitstatus_to_exitcode(status)}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    shutil.rmtree(output, ignore_errors=True)
    return seconds, used.ru_maxrss / 1024


if __name__ == "__main__":
    main()
