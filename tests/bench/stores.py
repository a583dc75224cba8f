"""Stores and clusters beside what is meant: python -m tests.bench.stores [--folder FOLDER] [--peers PYTHON].

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
from typing import NamedTuple

import numpy as np

from tests.bench.cluster import cluster_figures
from tests.bench.goals import reached
from tests.processes import fresh

SHAPE = (513, 641, 769)
CHUNK = 128
NAME = "volume.zarr"
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


class Ratio(NamedTuple):
    """A contender, and the one that its CPU time is divided by."""

    own: str
    peer: str


NGFF_ZARR = "ngff-zarr bin shrink, which copies the first level too"
RATIOS = {
    Ratio("avg k2s2", "dask coarsen"): 0.6,
    Ratio("avg k2s2", NGFF_ZARR): 0.3,
    Ratio("pyramid of 2 levels", NGFF_ZARR): None,
    Ratio("avg k3s2p1", "avg k2s2"): 1.6,
    Ratio("pyramid of 5 levels", "pyramid of 1 levels"): 1.5,
    Ratio("pyramid of 5 levels", "pyramid of 2 levels"): None,
}


def contenders(peers: str | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is timed, by name: commands, to which the input and the output are added."""

    def avg(*options: str) -> tuple[str, ...]:
        return (*POOLCLI, "avg", "-q", *options)

    def pyramid(levels: int) -> tuple[str, ...]:
        return (*POOLCLI, "pyramid", "-q", "--levels", str(levels))

    yield "avg k2s2", avg(*HALVE)
    yield "avg k2s2, one thread", avg(*HALVE, "--threads", "1")
    yield "avg k3s2p1", avg("-k", "3", "-s", "2", "-p", "1")
    for levels in (1, 2, 5):
        yield f"pyramid of {levels} levels", pyramid(levels)
    yield "dask coarsen", (sys.executable, "-c", DASK)
    if peers:
        yield NGFF_ZARR, (peers, "-c", NGFF)


def main() -> None:
    """Makes the volume, runs all contenders in turn, and prints the median of each and the ratios."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stores", description=__doc__)
    parser.add_argument("--folder", help="where the volume is kept, or made")
    parser.add_argument("--peers", help="the Python of an environment with ngff-zarr")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(asked.folder or temporary)
        maker = get_context("spawn").Process(target=volume, args=(folder,))  # else its memory counts as the contenders'
        maker.start()
        maker.join()
        found: dict[str, list[tuple[float, int]]] = {}
        for _ in range(asked.rounds):
            for name, command in contenders(asked.peers):
                found.setdefault(name, []).append(run(command, folder / NAME, folder / "out.zarr"))
        for name, runs in found.items():
            seconds, peak = statistics.median(each[0] for each in runs), max(each[1] for each in runs)
            print(f"{name:<58}{seconds:>8.2f} CPU s{peak / 1024:>8.0f} MB")
        for pair, goal in RATIOS.items():
            if pair.peer in found:
                rounds = zip(found[pair.own], found[pair.peer], strict=True)
                ratio = statistics.median(own[0] / peer[0] for own, peer in rounds)
                print(f"{f'{pair.own} / {pair.peer}':<58}{ratio:>8.2f}{reached(ratio, goal):>9}")
        for figure, value, goal in (sparse(folder), *cluster_figures(folder, folder / NAME, asked.rounds)):
            print(f"{figure:<58}{value:>8.2f}{reached(value, goal):>9}", flush=True)


def sparse(folder: Path) -> tuple[str, float, float]:
    """The most memory, in MB, for a store of 20 GB of which next to nothing is there, under a limit of 1 GB."""
    import zarr

    here = folder / "sparse"
    here.mkdir(exist_ok=True)
    array = zarr.create_array(here / "x.zarr", shape=(2720,) * 3, dtype="u1", chunks=(125,) * 3, overwrite=True)
    array[2719, 2719, 2719] = 9
    words = ("max", "x.zarr", "-o", "y.zarr", "-k", "25", "-s", "25", "--layout", "DHW", "--overwrite")
    found = fresh(here, *words, "--max-memory", "1G", "-q", timeout=None)
    assert (found.code, found.err) == (0, "")
    return "20 GB sparse under 1 GB, peak MB", found.peak / 1024, 1000


def volume(folder: Path) -> Path:
    """253 MB of uint8 as microscopes give it: smooth, with noise; zstd, chunks of 128."""
    import zarr

    path = folder / NAME
    if path.exists():
        return path
    rng = np.random.default_rng(0)
    array = zarr.create_array(path, shape=SHAPE, dtype="u1", chunks=(CHUNK,) * 3, dimension_names=("z", "y", "x"))
    z, y, x = (np.sin(np.arange(n) / 53) for n in SHAPE)
    for start in range(0, SHAPE[0], CHUNK):
        smooth = 128 + 60 * z[start : start + CHUNK, None, None] * y[:, None] * x
        array[start : start + CHUNK] = np.clip(smooth + rng.normal(0, 4, smooth.shape), 0, 255).astype("u1")
    return path


def run(command: Sequence[str], source: Path, output: Path) -> tuple[float, int]:
    """The CPU seconds of a process and of all that it starts, and the most memory of one of them, in KiB."""
    shutil.rmtree(output, ignore_errors=True)
    ours = command[1:3] == ("-m", "poolcli")
    words = [*command, str(source), "-o", str(output)] if ours else [*command, str(source), str(output)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{words}: ended with {os.waitstatus_to_exitcode(status)}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    shutil.rmtree(output, ignore_errors=True)
    return seconds, used.ru_maxrss


if __name__ == "__main__":
    main()
