"""Times poolcli against whoever is installed: python -m tests.bench [--further] [--growth] [--cold] [--json]."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from math import exp, log
from typing import Any

import numpy as np

from poolcli.engine import run
from tests.bench.cold import cold_starts
from tests.bench.contenders import CORES, contenders
from tests.bench.plain_loop import plain_loop
from tests.bench.rows import FURTHER, GROWTH, LISTED, Array, Row
from tests.bench.timing import copier, least_cpu, medians, reader

SLOW = 0.5  # seconds: a contender that takes longer is timed once
PACKAGES = ("numpy", "numba", "openvino", "onnxruntime", "torch", "opencv-python-headless", "pillow")


def main() -> None:
    """Runs the tables that are asked for and prints them."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--further", action="store_true", help="kernels, strides, layouts and types beyond the list")
    parser.add_argument("--growth", action="store_true", help="how the time grows with window and size")
    parser.add_argument("--cold", action="store_true", help="whole processes against bare ones")
    parser.add_argument("--loop", action="store_true", help="CPU time of one thread, against a plain loop")
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    asked = parser.parse_args()
    keep_freed_memory()
    every = [*LISTED, *(FURTHER if asked.further else ()), *(r for f in GROWTH.values() for r in f() if asked.growth)]
    rows = [row for row in every if asked.only in row.name]
    if asked.loop:
        print(*loop_lines(rows, asked.rounds), sep="\n")
        return
    results = [measure(row, asked.rounds) for row in rows]
    document: dict[str, Any] = {"machine": machine(), "rows": results}
    if asked.cold:
        document["cold"] = cold_starts(asked.rounds)
    if asked.json:
        print(json.dumps(document))
        return
    print(", ".join(f"{key} {value}" for key, value in document["machine"].items()))
    print(table(results))
    for row in document.get("cold", ()):
        print(f"{row['name']:<42}{row['seconds']:>9.3f} s, bare {row['bare']:.3f} s{row['ratio']:>8.2f}")


def keep_freed_memory() -> None:
    """Starts again with an allocator that keeps what is freed, so that no contender's time is that of page faults."""
    settings = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
    if platform.system() == "Linux" and not settings.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, "-m", "tests.bench", *sys.argv[1:]], os.environ | settings)  # noqa: S606


def measure(row: Row, rounds: int) -> dict[str, Any]:
    """The row's medians, or the one time of a slow contender; every answer is compared with poolcli's first."""
    x = row.array()
    calls, slow, agree = {}, {}, {}
    ours: Array | None = None
    for name, call in contenders(row, x):
        if row.alone and name != "poolcli":
            continue
        try:
            start = time.perf_counter()
            answer = call()
            seconds = time.perf_counter() - start
            if seconds <= SLOW:
                seconds = seconds_of(call)
        except Exception:
            if name == "poolcli":
                raise
            continue  # the framework refuses the row
        if ours is None:
            ours = answer
        else:
            agree[name] = compare(row, ours, answer)
            if seconds > SLOW:
                slow[name] = seconds * 1000
                continue
        calls[name] = call
    assert ours is not None
    limits: dict[str, Callable[[], Any]] = {"limit": copier(x.nbytes + ours.nbytes), "reading": reader(x.nbytes)}
    times = medians({**calls, **limits}, rounds) | slow
    peers = {name: ms for name, ms in times.items() if name not in ("poolcli", *limits)}
    best = min(peers, key=peers.__getitem__) if peers else None
    print(f"{row.name}: {times}", file=sys.stderr, flush=True)
    return {"name": row.name, "ms": times, "best": best, "agree": agree} | {
        "x_best": times["poolcli"] / peers[best] if best else None,
        "x_limit": times["poolcli"] / times["limit"],
        "x_reading": times["poolcli"] / times["reading"],
        "exact": exactness(row, x, ours),
    }


def seconds_of(call: Callable[[], object]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(row: Row, ours: Array, theirs: Array) -> bool:
    """Whether a peer's answer is poolcli's, borders aside where the peer has no padding rule (OpenCV's blur)."""
    if row.layout == "NHWC":
        ours = ours.transpose(0, 3, 1, 2)
    if row.layout == "HWC" and theirs.ndim == 4:
        ours = ours.transpose(2, 0, 1)[None]
    edge = getattr(row.op, "pads_begin", 0) or 0
    inner = (..., *(slice(edge, n - edge or None) for n in ours.shape[-2:])) if row.layout is None else ...
    ours, theirs = ours[inner].astype(np.float64), theirs[inner].astype(np.float64)
    tolerance = 1 if row.dtype.startswith("u") else 1e-3
    return ours.shape == theirs.shape and bool(np.allclose(ours, theirs, rtol=1e-4, atol=tolerance))


def exactness(row: Row, x: Array, ours: Array) -> bool:
    """Whether the other engine gives the same (checked where it takes no minutes)."""
    if x.size > 4_000_000:
        return True
    plan = row.op.plan(x.shape, x.dtype, layout=row.layout)
    return bool(np.allclose(run(plan, x, engine="numpy")[0].astype(float), ours.astype(float), rtol=1e-3))


def table(results: Sequence[dict[str, Any]]) -> str:
    """The rows with the limit, the best peer and the loop, and the geometric mean of poolcli over the best peer."""
    heads = f"{'loop':>9}{'x best':>8}{'x limit':>9}{'x reading':>10}"
    lines = [f"{'case':<42}{'limit ms':>9}{'poolcli':>9}{'best peer':>24}{heads}"]
    for r in results:
        wrong = [name for name, fine in r["agree"].items() if not fine]
        best = f"{r['best']} {r['ms'][r['best']]:.2f}" if r["best"] else "-"
        loop = f"{r['ms']['plain loop']:.2f}" if "plain loop" in r["ms"] else "-"
        ratio = f"{r['x_best']:.2f}" if r["best"] else "-"
        note = f"  differs: {', '.join(wrong)}" if wrong else ""
        lines.append(
            f"{r['name']:<42}{r['ms']['limit']:>9.2f}{r['ms']['poolcli']:>9.2f}{best:>24}{loop:>9}{ratio:>8}"
            f"{r['x_limit']:>9.2f}{r['x_reading']:>10.2f}{note}"
        )
    ratios = [r["x_best"] for r in results if r["best"]]
    if ratios:
        lines.append(f"geometric mean of poolcli / best peer: {exp(sum(map(log, ratios)) / len(ratios)):.2f}")
    return "\n".join(lines)


def loop_lines(rows: Sequence[Row], rounds: int) -> Iterator[str]:
    """poolcli on one thread beside the plain loop, in CPU time, for each row that this can compute."""
    ratios = []
    yield f"{processor()}\n{'case':<42}{'poolcli':>9}{'loop':>9}{'ratio':>8}"
    for row in rows:
        x = row.array()
        loop = plain_loop(row, x)
        if loop is None:
            continue
        plan = row.op.plan(x.shape, x.dtype)
        out = np.empty(plan.output_shape, np.float32)
        calls: dict[str, Callable[[], Any]] = {
            "poolcli": partial(row.op, x, out=out, engine="numba", threads=1),
            "loop": loop,
        }
        calls["poolcli"]()
        assert np.allclose(out, loop(), rtol=1e-6)
        ms = least_cpu(calls, rounds)
        ratios.append(ms["poolcli"] / ms["loop"])
        yield f"{row.name:<42}{ms['poolcli']:>9.3f}{ms['loop']:>9.3f}{ratios[-1]:>8.2f}"
    yield f"geometric mean of poolcli / plain loop: {exp(sum(map(log, ratios)) / max(len(ratios), 1)):.2f}"


def processor() -> str:
    """The name of the processor, and its widest vectors."""
    with suppress(OSError), open("/proc/cpuinfo") as file:
        found = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines() if ":" in line)
        fields = {name.strip(): value.strip() for name, value in found.items()}
        widest = next((name for name in ("avx512f", "avx2") if name in fields.get("flags", "").split()), "no AVX2")
        return f"{fields.get('model name', platform.processor())} ({widest.removesuffix('f')})"
    return platform.processor() or platform.machine()


def machine() -> dict[str, str]:
    """Processor, cores and versions."""
    found = {
        "processor": processor(),
        "cores": str(CORES),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
