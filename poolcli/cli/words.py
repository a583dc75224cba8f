"""What the help says of each operator: one row each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """One line of help, examples of its use, and what the elements are called that it picks."""

    text: str
    examples: tuple[str, ...]
    elements: str = ""


OPERATOR_WORDS = {
    "avg": Words(
        "Average of every window (OpenVINO AvgPool, nGraph AvgPool).",
        (
            "poolcli avg photo.png -o half.png -k 2 -s 2",
            "poolcli avg x.npy -o y.npy -k 3 -s 2 -p 1 --include-pad --rounding-type ceil",
        ),
    ),
    "max": Words(
        "Maximum of every window, and where it is (OpenVINO MaxPool).",
        (
            "poolcli max x.npy -o y.npy -k 2 -s 2 --indices where.npy",
            "poolcli max volumes/ -o pooled/ -k 2,3,3 -s 2,3,3 -r",
        ),
        "maxima",
    ),
    "min": Words(
        "Minimum of every window, and where it is (the dual of MaxPool).",
        (
            "poolcli min depth.tif -o near.tif -k 4 -s 4",
            "poolcli min x.npy -o y.npy -k 3 -s 2 -p 1 --indices where.npy",
        ),
        "minima",
    ),
    "mode": Words(
        "The value that occurs most often in every window (for labels).",
        ("poolcli mode labels.tif -o small.tif -k 2 -s 2", "poolcli mode labels.h5 -o half.h5 -k 2,2,2 -s 2"),
    ),
    "lp": Words(
        "The p-norm of every window (ONNX LpPool, PyTorch lp_pool).",
        ("poolcli lp x.npy -o y.npy -k 2 -s 2", "poolcli lp x.npy -o y.npy -k 3 -s 2 --p 3 --like pytorch"),
    ),
    "adaptive-avg": Words(
        "Averages to a given output size (OpenVINO AdaptiveAvgPool).",
        ("poolcli adaptive-avg photos/ -o thumbs/ --output-size 224,224",),
    ),
    "adaptive-max": Words(
        "Maxima to a given output size, and where they are (OpenVINO AdaptiveMaxPool).",
        ("poolcli adaptive-max x.h5:/features -o y.npy --output-size 7,7 --indices where.npy",),
        "maxima",
    ),
}


def listed(words: Iterable[str], joint: str = "or") -> str:
    """The words in a sentence.

    >>> listed(["avg", "max", "adaptive-avg"]), listed(["avg", "max"], "and"), listed(["avg"])
    ('avg, max or adaptive-avg', 'avg and max', 'avg')
    """
    *others, last = words
    return f"{', '.join(others)} {joint} {last}" if others else last
