"""CPU seconds and memory, store to store: python -m tests.bench.stores [--folder FOLDER] [--peers PYTHON].

Each contender is a process of its own, started in turn, and its CPU time is counted whole, imports and all. `--peers`
is a Python of an environment of its own that has ngff-zarr, whose dependencies exclude those of the tests.
"""

from __future__ import annotations

import argparse
import json
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
from typing import Any

import numpy as np

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


def contenders(peers: str | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is timed, by name: commands, to which the input and the output are added."""

    def avg(*options: str) -> tuple[str, ...]:
        return (*POOLCLI, "avg", "-q", *options)

    def pyramid(levels: int) -> tuple[str, ...]:
        return (*POOLCLI, "pyramid", "-q", "--levels", str(levels))

    yield "avg k2s2", avg(*HALVE)
    yield "avg k2s2, one thread", avg(*HALVE, "--threads", "1")
    yield "avg k3s2p1", avg("-k", "3", "-s", "2", "-p", "1")
    yield "pyramid of 2 levels", pyramid(2)
    yield "pyramid of 6 levels", pyramid(6)
    yield "dask coarsen", (sys.executable, "-c", DASK)
    if peers:
        yield "ngff-zarr bin shrink, 2 levels", (peers, "-c", NGFF)


def main() -> None:
    """Makes the volume, runs all contenders in turn, and prints the median of each and the ratios."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stores", description=__doc__)
    parser.add_argument("--folder", help="where the volume is kept, or made")
    parser.add_argument("--peers", help="the Python of an environment with ngff-zarr")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(asked.folder or temporary)
        source = folder / NAME
        maker = get_context("spawn").Process(target=volume, args=(folder,))  # else its memory counts as the contenders'
        maker.start()
        maker.join()
        found: dict[str, list[tuple[float, int]]] = {}
        for _ in range(asked.rounds):
            for name, command in contenders(asked.peers):
                found.setdefault(name, []).append(run(command, source, folder / "out.zarr"))
    cpu = {name: statistics.median(each[0] for each in runs) for name, runs in found.items()}
    peak = {name: max(each[1] for each in runs) for name, runs in found.items()}
    for name, seconds in cpu.items():
        print(f"{name:<34}{seconds:>8.2f} CPU s{peak[name] / 1024:>8.0f} MB")
    print(json.dumps(ratios(cpu)))


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


def ratios(cpu: dict[str, float]) -> dict[str, Any]:
    """What is promised, as measured."""
    pairs = {
        "k2s2 / dask coarsen": ("avg k2s2", "dask coarsen"),
        "pyramid of 2 levels / ngff-zarr bin shrink": ("pyramid of 2 levels", "ngff-zarr bin shrink, 2 levels"),
        "k2s2 / ngff-zarr bin shrink, which copies too": ("avg k2s2", "ngff-zarr bin shrink, 2 levels"),
        "k3s2p1 / k2s2": ("avg k3s2p1", "avg k2s2"),
        "pyramid of 6 levels / of 2": ("pyramid of 6 levels", "pyramid of 2 levels"),
    }
    return {name: round(cpu[a] / cpu[b], 2) for name, (a, b) in pairs.items() if a in cpu and b in cpu}


if __name__ == "__main__":
    main()
