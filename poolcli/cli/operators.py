"""What the help says of each operator, and what else people call it: one row each."""

from __future__ import annotations

import re
from dataclasses import dataclass

from poolcli.arguments import one_of
from poolcli.errors import RequestError
from poolcli.message_fields import field


@dataclass(frozen=True, slots=True)
class Words:
    """One line of help, examples of its use, and what else people call the operator.

    The names that frameworks give it need no row: `AvgPool-14`, `avg_pool2d` and `AveragePooling2D` are read as avg.
    """

    text: str
    examples: tuple[str, ...]
    also: tuple[str, ...] = ()


OPERATOR_HELP = {
    "avg": Words(
        "Average of every window (OpenVINO AvgPool, nGraph AvgPool).",
        (
            "poolcli avg samples/astronaut.png -o half.png -k 2 -s 2",
            "poolcli avg samples/features.npy -o y.npy -k 3 -s 2 -p 1 --include-pad",
            "poolcli avg samples -o small/ -k 2 -s 2",
        ),
        ("average", "mean"),
    ),
    "max": Words(
        "Maximum of every window; argmax with --indices (MaxPool).",
        (
            "poolcli max samples/features.npy -o y.npy -k 2 -s 2 --indices where.npy",
            "poolcli max samples/volume.h5 -o y.h5 -k 2,3,3 -s 2,3,3",
            "poolcli max samples -o small/ -k 2 -s 2",
        ),
        ("maximum",),
    ),
    "min": Words(
        "Minimum of every window; argmin with --indices.",
        (
            "poolcli min samples/astronaut.png -o dark.png -k 4 -s 4",
            "poolcli min samples/features.npy -o y.npy -k 2 -s 2 --indices where.npy",
            "poolcli min samples -o small/ -k 2 -s 2",
        ),
        ("minimum",),
    ),
    "mode": Words(
        "Most frequent value (mode) of every window, for label maps.",
        (
            "poolcli mode samples/astronaut.png -o small.png -k 2 -s 2",
            "poolcli mode samples/volume.h5 -o half.h5 -k 2,2,2 -s 2",
            "poolcli mode samples/volume.h5 -o y.npy -k 3 -s 3",
        ),
        ("majority",),
    ),
    "median": Words(
        "Median of every window; integers round half to even.",
        (
            "poolcli median samples/astronaut.png -o calm.png -k 3 -s 2 -p 1",
            "poolcli median samples/volume.h5 -o half.h5 -k 2,2,2 -s 2",
            "poolcli median samples/features.npy -o y.npy -k 3 -s 2 -p 1",
        ),
        ("med",),
    ),
    "sum": Words(
        "Sum of every window; integers become 64 bits long.",
        (
            "poolcli sum samples/volume.h5 -o y.h5 -k 2,2,2 -s 2",
            "poolcli sum samples/astronaut.png -o sums.npy -k 3 -s 3",
            "poolcli sum samples/features.npy -o y.npy -k 3 -s 2 -p 1",
        ),
        ("total", "add"),
    ),
    "std": Words(
        "Standard deviation of every window, as floats.",
        (
            "poolcli std samples/features.npy -o y.npy -k 3 -s 2 -p 1",
            "poolcli std samples/astronaut.png -o spread.npy -k 5 -s 5 --ddof 1",
            "poolcli std samples/volume.h5 -o y.h5 -k 2,3,3 -s 2,3,3",
        ),
        ("stdev", "stddev", "deviation"),
    ),
    "lp": Words(
        "The p-norm of every window (ONNX LpPool, PyTorch lp_pool).",
        (
            "poolcli lp samples/features.npy -o y.npy -k 2 -s 2",
            "poolcli lp samples/features.npy -o z.npy -k 3 -s 2 --p 3 --like pytorch",
            "poolcli lp samples/astronaut.png -o norms.npy -k 2 -s 2 --dtype float32",
        ),
        ("norm", "lpnorm"),
    ),
    "adaptive-avg": Words(
        "Average to a given output size (OpenVINO AdaptiveAvgPool).",
        (
            "poolcli adaptive-avg samples/features.npy -o y.npy --output-size 7",
            "poolcli adaptive-avg samples/astronaut.png -o small.png --output-size 64,64",
            "poolcli adaptive-avg samples -o small/ --output-size 8",
        ),
        ("adaptive-average", "adaptive-mean", "adaptive"),
    ),
    "adaptive-max": Words(
        "Maximum to a given output size (OpenVINO AdaptiveMaxPool).",
        (
            "poolcli adaptive-max samples/features.npy -o y.npy --output-size 7",
            "poolcli adaptive-max samples/astronaut.png -o small.png --output-size 64,64",
            "poolcli adaptive-max samples/volume.h5 -o y.h5 --output-size 4,8,8",
        ),
        ("adaptive-maximum",),
    ),
    "area": Words(
        "Mean over equal areas, to any output size (as OpenCV INTER_AREA).",
        (
            "poolcli area samples/astronaut.png -o small.png --output-size 100,150",
            "poolcli area samples/features.npy -o y.npy --output-size 12",
            "poolcli area 'samples/*.png' -o small/ --fit 100x80",
        ),
        ("inter-area", "box"),
    ),
}


# What frameworks put behind the name of an operator, and what they join its parts with.
_BEHIND = re.compile(r"pool(ing)?(\d?d?\d*)$")
_JOINTS = re.compile(r"[-_]")


def parse_operator(word: str, name: str = "op") -> str:
    """The operator that people mean by `word`, the value of the field `name`; refuses what is none.

    >>> parse_operator("mean"), parse_operator("MaxPool-14"), parse_operator("F.adaptive_avg_pool2d")
    ('avg', 'max', 'adaptive-avg')
    """
    if word.lower().startswith("global"):
        raise RequestError(f"{field(name)} is {word!r}; write {adaptive(word)} with {field('output_size', 1)}")
    return find_operator(word) or one_of(name, word, tuple(OPERATOR_HELP))


def adaptive(word: str) -> str:
    """The adaptive operator that is nearest to what `word` names: `global_max_pool`, `avg`."""
    return "adaptive-max" if "max" in word.lower() else "adaptive-avg"


def sliding(op: str) -> str:
    """The operator with a kernel that is nearest to an adaptive one, or to `area`."""
    return "max" if "max" in op else "avg"


def find_operator(word: str) -> str | None:
    """The same; None for what is no operator."""
    plain = _BEHIND.sub("", _joined(word.rpartition(".")[2]))
    return next((op for op, row in OPERATOR_HELP.items() if plain in map(_joined, (op, *row.also))), None)


def _joined(word: str) -> str:
    return _JOINTS.sub("", word.lower())
