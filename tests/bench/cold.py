"""Whole processes: poolcli against bare programs that do the least that the job needs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

BARE = """
import typer
app = typer.Typer()
@app.command()
def one(x: int = 1):
    {body}
@app.command()
def two(x: int = 1):
    pass
app()
"""
PILLOW = "from PIL import Image; Image.open({0!r}).reduce(2).save({1!r}, compress_level=4)"  # the level of poolcli
NUMPY = "import numpy as np; x = np.load({0!r}); np.save({1!r}, x[..., ::2, ::2])"


def cold_starts(rounds: int) -> list[dict[str, Any]]:
    """Median seconds of each command and of its bare counterpart, taken in turn."""
    with tempfile.TemporaryDirectory() as place:
        return [_compare(name, ours, bare, rounds) for name, ours, bare in _commands(Path(place))]


def _commands(place: Path) -> list[tuple[str, list[str], list[str]]]:
    plain, numpy = place / "bare.py", place / "bare_numpy.py"
    plain.write_text(BARE.format(body="pass"))
    numpy.write_text(BARE.format(body="import numpy"))
    tiny, large, photo, out = (str(place / name) for name in ("tiny.npy", "large.npy", "photo.png", "out"))
    np.save(tiny, np.ones((1, 1, 4, 4), np.float32))
    pixels = np.linspace(0, 255, 3000 * 4000 * 3).astype(np.uint8).reshape(3000, 4000, 3)
    np.save(large, np.ascontiguousarray(pixels.transpose(2, 0, 1)[None]))
    Image.fromarray(pixels).save(photo, compress_level=1)
    poolcli = [sys.executable, "-m", "poolcli"]
    halve = ["-k", "2", "-s", "2", "--overwrite", "-q"]
    python = [sys.executable, "-c"]
    return [
        ("--help", [*poolcli, "--help"], [sys.executable, str(plain), "--help"]),
        ("shape, typed", [*poolcli, "shape", "avg", "1,3,32,32", "-k", "2"], [sys.executable, str(plain), "one"]),
        ("avg of a tiny tensor", [*poolcli, "avg", tiny, "-o", out + ".npy", *halve],
         [sys.executable, str(numpy), "one"]),
        ("avg of a 12 MP PNG", [*poolcli, "avg", photo, "-o", out + ".png", *halve],
         [*python, PILLOW.format(photo, out + "2.png")]),
        ("avg of a 12 MP .npy", [*poolcli, "avg", large, "-o", out + ".npy", *halve],
         [*python, NUMPY.format(large, out + "2.npy")]),
    ]  # fmt: skip


def _compare(name: str, ours: list[str], bare: list[str], rounds: int) -> dict[str, Any]:
    spent: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(rounds + 1):  # the first is not counted
        for key, command in (("ours", ours), ("bare", bare)):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            spent[key].append(time.perf_counter() - start)
    seconds, base = median(spent["ours"][1:]), median(spent["bare"][1:])
    return {"name": name, "seconds": seconds, "bare": base, "ratio": seconds / base}
