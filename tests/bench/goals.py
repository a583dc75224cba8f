"""What each row is meant to reach."""

from __future__ import annotations

from typing import Any, NamedTuple


class Goal(NamedTuple):
    """The most that poolcli may take, over the best of the others (or one, by its name) and over the limit; None where
    nothing is promised.
    """

    of_best: float | None = None
    of_limit: float | None = None
    peer: str | None = None


STRIDED = 1.0  # of strides of 2 and more over windows of 5 to 9
GOALS: dict[str, Goal] = {
    "avg 8x64x112x112 k3 s2 p1": Goal(0.6, 1.3),
    "avg 8x256x35x35 k3 s1 p1": Goal(0.75, 3),
    "avg 12 MP k2 s2": Goal(0.75, 1.2),
    "avg 12 MP k4 s4": Goal(0.6, 1.25),
    "avg 12 MP k5 s3": Goal(0.25, 2.3),
    "avg 3x1080x1920 k15 s1 p7": Goal(0.7),
    "avg 3x1080x1920 k63 s1 p31": Goal(0.8),
    "avg 3-D 8x64x256x256 k2 s2": Goal(0.4, 1.25),
    "avg 3-D 8x64x256x256 k3 s1 p1": Goal(0.3),
    "avg 1-D 16x64x65536 k8 s4": Goal(0.25, 1.2),
    "max 8x64x112x112 k3 s2 p1": Goal(0.45),
    "max 12 MP k2 s2": Goal(0.45, 1.2),
    "adaptive-avg 12 MP to 224": Goal(0.3, 1.4),
    "adaptive-max 12 MP to 224, indices": Goal(0.4, 2),
    "adaptive-avg 64x2048x7x7 to 1": Goal(1.1, 1.2),
    "adaptive-max 64x2048x7x7 to 1, indices": Goal(0.5),
    "adaptive-max 4x64x512x512 to 7, indices": Goal(0.3, 1.4),
    "adaptive-avg 64x100x100 to 224": Goal(0.2),
    "avg 256x64x7x7 k3 s1 p1, small maps": Goal(0.6),
    "avg 8x64x112x112 k3 s2 p1 float64": Goal(0.6, peer="PyTorch"),
    "area uint8 HWC 12 MP to 1333x1000": Goal(1.2, peer="OpenCV"),
    "area 12 MP to 1024x768": Goal(1.2, peer="OpenCV"),
    "median 12 MP k3 s1 p1 uint8": Goal(4, peer="OpenCV"),
    "uint8 HWC 12 MP k2 s2": Goal(0.95),
    "uint8 HWC 12 MP k4 s4": Goal(0.35),
    "uint8 HWC 12 MP k8 s8": Goal(0.35),
    **{f"avg 2x32x256x256 k{k} s{s}": Goal(STRIDED) for k in (5, 7, 9) for s in (3, 4) if (k, s) != (7, 4)},
    "avg 2x32x256x256 k7 s4": Goal(1.3),
}
MEAN = 0.45  # the geometric mean of all rows over the best of the others


class Beside(NamedTuple):
    """A row that may take at most `most` times as long as another."""

    row: str
    other: str
    most: float


STANDARD = "avg 8x64x112x112 k3 s2 p1"
BESIDE = (
    Beside("avg 1x3x2000x3000 k2 s2 uint16", "avg 1x3x2000x3000 k2 s2 uint8", 2.6),  # 1.3 by bytes
    Beside("avg 1x3x2000x3000 k2 s2 int16", "avg 1x3x2000x3000 k2 s2 uint8", 2.6),
    Beside("lp 8x64x112x112 k3 s2 p1", STANDARD, 1.3),
    Beside("min 8x64x112x112 k3 s2 p1", "max 8x64x112x112 k3 s2 p1", 1.3),
    Beside("sum 12 MP k2 s2", "avg 12 MP k2 s2", 1.1),
    Beside("std 12 MP k2 s2", "avg 12 MP k2 s2", 2),
    Beside(f"{STANDARD}, channels last", STANDARD, 1.3),
    Beside(f"{STANDARD}, part", STANDARD, 1.3),
    Beside(f"{STANDARD}, rows reversed", STANDARD, 1.3),
    Beside(f"{STANDARD}, columns reversed", STANDARD, 1.3),
    Beside(f"{STANDARD}, transposed", STANDARD, 1.3),
)


class Cold(NamedTuple):
    """The most that a process may take, over a bare one's time, and in seconds more than that."""

    times: float | None = None
    seconds: float | None = None


COLD = {
    "--help": Cold(times=1.15),
    "shape, typed": Cold(times=1.4),
    "avg of a tiny tensor": Cold(times=1.4),
    "avg of a 12 MP PNG": Cold(seconds=0.25),
    "avg of a 12 MP .npy": Cold(seconds=0.25),
}


def beside(results: list[dict[str, Any]]) -> list[str]:
    """A line for each row that is measured by another, where both were timed."""
    times = {result["name"]: result["ms"]["poolcli"] for result in results}
    pairs = [(row, other, most) for row, other, most in BESIDE if row in times and other in times]
    return [
        f"{row:<48}{times[row] / times[other]:>6.2f}{reached(times[row] / times[other], most):>9} of {other}"
        for row, other, most in pairs
    ]


def marks(result: dict[str, Any]) -> tuple[str, str]:
    """The goals of a row, and marks where they were missed: over the others, and over the limit."""
    goal, times = GOALS.get(result["name"], Goal()), result["ms"]
    peer = goal.peer if goal.peer in times else result["best"]
    of_best = reached(times["poolcli"] / times[peer], goal.of_best) if peer else ""
    return of_best, reached(result["x_limit"], goal.of_limit)


def reached(ratio: float, goal: float | None) -> str:
    """The goal, and a mark where it was missed."""
    return "" if goal is None else f"({goal:g}{'' if ratio <= goal else ' !'})"
