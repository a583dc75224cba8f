"""CPU seconds for a folder of pictures of 6 megapixels, halved: python -m tests.bench.pictures [--folder FOLDER].

Each contender is a process of its own, started in turn with as many workers as there are cores, and its CPU time is
counted whole, imports and workers and all. Pillow reduces by its own integer sums; of 16 bits a channel, which it does
not read, tifffile and numpy take its place. vipsthumbnail, where it is installed, decodes a JPEG at half its size,
which is no mean of its pixels. All find their modules compiled, as a program that was installed does: a first run of
each is not counted.
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
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

HEIGHT, WIDTH = 2000, 3000
WORKERS = len(os.sched_getaffinity(0))
REDUCED = """
import sys
from multiprocessing import Pool
from pathlib import Path
from PIL import Image
def halve(path):
    with Image.open(path) as image:
        how = {"quality": "keep"} if image.format == "JPEG" else {"compress_level": 6}
        small = image.reduce(2)
        if image.format == "JPEG":
            small.format, small.quantization = image.format, image.quantization
            how = {"qtables": image.quantization, "subsampling": "4:2:0"}
        small.save(Path(sys.argv[2], path.name), **how)
with Pool(WORKERS) as pool:
    pool.map(halve, sorted(Path(sys.argv[1]).iterdir()), 1)
"""
AVERAGED = """
import sys
from multiprocessing import Pool
from pathlib import Path
import numpy, tifffile
def halve(path):
    x = tifffile.imread(path).astype("u4")
    small = ((x[::2, ::2] + x[1::2, ::2] + x[::2, 1::2] + x[1::2, 1::2] + 2) >> 2).astype("u2")
    tifffile.imwrite(Path(sys.argv[2], path.name), small, photometric="rgb", PACKED)
with Pool(WORKERS) as pool:
    pool.map(halve, sorted(Path(sys.argv[1]).iterdir()), 1)
"""
PACKED = {".tif": {"compression": "zlib", "predictor": True}, ".tiff": {}}  # as tifffile takes it
PEERS = {
    ".jpg": REDUCED,
    ".png": REDUCED,
    **{suffix: AVERAGED.replace("PACKED", f"**{how}") for suffix, how in PACKED.items()},
}
# Of PNG as vips has it, without filters, and with those that others try.
THUMBNAILS = {
    ".jpg": ["[Q=90]"],
    ".png": ["[compression=6]", "[compression=6,filter=all]"],
    ".tif": ["[compression=deflate,predictor=horizontal]"],
    ".tiff": ["[compression=none]"],
}


def main() -> None:
    """Makes the folders, runs all contenders in turn, and prints the median of each and the ratios."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pictures", description=__doc__)
    parser.add_argument("--folder", help="where the pictures are kept, or made")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=24, help="how many pictures are in each folder")
    parser.add_argument("--only", help="a suffix, such as .jpg")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(asked.folder or temporary)
        for suffix in [asked.only] if asked.only else PEERS:
            source = pictures(folder / suffix[1:], suffix, asked.count)
            found: dict[str, list[float]] = {}
            for number in range(asked.rounds + 1):
                for name, command in contenders(source, Path(temporary, "out"), suffix):
                    seconds = cpu_of(command, Path(temporary), asked.count)
                    if number:
                        found.setdefault(name, []).append(seconds)
            ours, *others = ((name, statistics.median(runs)) for name, runs in found.items())
            print(f"{suffix:<6}{ours[0]:<42}{ours[1]:>8.2f} CPU s")
            for name, seconds in others:
                print(f"{'':<6}{name:<42}{seconds:>8.2f} CPU s{ours[1] / seconds:>8.2f} of it")


def contenders(source: Path, output: Path, suffix: str) -> Iterator[tuple[str, list[str]]]:
    """What is timed, by name; poolcli comes first."""
    ends = [str(source), "-o", f"{output}/", "-k", "2", "-s", "2", "-q", "--jobs", str(WORKERS)]
    yield "poolcli", [sys.executable, "-m", "poolcli", "avg", *ends]
    peer = PEERS[suffix].replace("WORKERS", str(WORKERS))
    yield (
        "Pillow" if peer.find("PIL") > 0 else "tifffile, numpy",
        [sys.executable, "-c", peer, str(source), str(output)],
    )
    if shutil.which("vipsthumbnail"):
        names = [str(path) for path in sorted(source.iterdir())]
        size = f"{WIDTH // 2}x{HEIGHT // 2}"
        for how in THUMBNAILS[suffix]:
            yield f"vipsthumbnail {how}", ["vipsthumbnail", *names, "-s", size, "-o", f"{output}/%s{suffix}{how}"]


def cpu_of(command: list[str], temporary: Path, count: int) -> float:
    """The CPU seconds of a process and of all that it starts."""
    output, environment = temporary / "out", os.environ | {"PYTHONPYCACHEPREFIX": str(temporary / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert sum(1 for path in output.iterdir() if not path.name.startswith(".")) == count
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pictures(folder: Path, suffix: str, count: int) -> Path:
    """A folder of pictures as cameras make them: smooth, with noise."""
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    save = _saver(suffix)
    rng = np.random.default_rng(0)
    rows, columns = np.sin(np.arange(HEIGHT) / 97)[:, None, None], np.sin(np.arange(WIDTH) / 71)[:, None]
    for number in range(count):
        smooth = 128 + 50 * rows * columns * np.cos(number + np.arange(3))
        save(folder / f"{number:03}{suffix}", smooth + rng.normal(0, 3, (HEIGHT, WIDTH, 3)))
    return folder


def _saver(suffix: str) -> Callable[[Path, Any], object]:
    """What stores a picture of numbers from 0 to 255."""
    if suffix in PACKED:
        import tifffile

        how: dict[str, Any] = {"photometric": "rgb", **PACKED[suffix]}
        return lambda path, x: tifffile.imwrite(path, (x * 257).astype("u2"), **how)
    from PIL import Image

    settings = {"quality": 90} if suffix == ".jpg" else {"compress_level": 6}
    return partial(_save_8_bits, Image, settings)


def _save_8_bits(image: Any, settings: dict[str, int], path: Path, x: Any) -> None:
    image.fromarray(x.astype("u1")).save(path, **settings)


if __name__ == "__main__":
    main()
