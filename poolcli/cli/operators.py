"""The help of each operator and its other names, and the functions that find an operator by any of its names."""

from __future__ import annotations

import re

from poolcli.arguments import one_of
from poolcli.errors import RequestError
from poolcli.message_fields import field


class OperatorHelp:
    """One line of help, the arguments of examples, and other names.

    Names in frameworks need no alias if they differ by a suffix: `AvgPool-14` and `avg_pool2d` are found as avg.
    """

    def __init__(self, text: str, *examples: str, aliases: tuple[str, ...] = ()) -> None:
        self.text, self.examples, self.aliases = text, examples, aliases


# fmt: off
OPERATOR_HELP = {
    "avg": OperatorHelp(
        "Average of every window (OpenVINO AvgPool, nGraph AvgPool).",
        "samples/astronaut.png -o half.png -k 2 -s 2",
        "samples/features.npy -o y.npy -k 3 -s 2 -p 1 --include-pad",
        "samples -o small/ -k 2 -s 2",
        aliases=("average", "mean"),
    ),
    "max": OperatorHelp(
        "Maximum of every window; argmax with --indices (MaxPool).",
        "samples/features.npy -o y.npy -k 2 -s 2 --indices where.npy",
        "samples/volume.h5 -o y.h5 -k 2,3,3 -s 2,3,3",
        "samples -o small/ -k 2 -s 2",
        aliases=("maximum",),
    ),
    "min": OperatorHelp(
        "Minimum of every window; argmin with --indices.",
        "samples/astronaut.png -o dark.png -k 4 -s 4",
        "samples/features.npy -o y.npy -k 2 -s 2 --indices where.npy",
        "samples -o small/ -k 2 -s 2",
        aliases=("minimum",),
    ),
    "mode": OperatorHelp(
        "Most frequent value (mode) of every window, for label maps.",
        "samples/astronaut.png -o small.png -k 2 -s 2",
        "samples/volume.h5 -o half.h5 -k 2,2,2 -s 2",
        "samples/volume.h5 -o y.npy -k 3 -s 3",
        aliases=("majority",),
    ),
    "median": OperatorHelp(
        "Median of every window; integers round half to even.",
        "samples/astronaut.png -o calm.png -k 3 -s 2 -p 1",
        "samples/volume.h5 -o half.h5 -k 2,2,2 -s 2",
        "samples/features.npy -o y.npy -k 3 -s 2 -p 1",
        aliases=("med",),
    ),
    "sum": OperatorHelp(
        "Sum of every window; integers become int64 or uint64.",
        "samples/volume.h5 -o y.h5 -k 2,2,2 -s 2",
        "samples/astronaut.png -o sums.npy -k 3 -s 3",
        "samples/features.npy -o y.npy -k 3 -s 2 -p 1",
        aliases=("total", "add"),
    ),
    "std": OperatorHelp(
        "Standard deviation of every window, as floats.",
        "samples/features.npy -o y.npy -k 3 -s 2 -p 1",
        "samples/astronaut.png -o spread.npy -k 5 -s 5 --ddof 1",
        "samples/volume.h5 -o y.h5 -k 2,3,3 -s 2,3,3",
        aliases=("stdev", "stddev", "deviation"),
    ),
    "lp": OperatorHelp(
        "The p-norm of every window (ONNX LpPool, PyTorch lp_pool).",
        "samples/features.npy -o y.npy -k 2 -s 2",
        "samples/features.npy -o z.npy -k 3 -s 2 --p 3 --like pytorch",
        "samples/astronaut.png -o norms.npy -k 2 -s 2 --dtype float32",
        aliases=("norm", "lpnorm"),
    ),
    "adaptive-avg": OperatorHelp(
        "Average to a given output size (OpenVINO AdaptiveAvgPool).",
        "samples/features.npy -o y.npy --output-size 7",
        "samples/astronaut.png -o small.png --output-size 64,64",
        "samples -o small/ --output-size 8",
        aliases=("adaptive-average", "adaptive-mean", "adaptive"),
    ),
    "adaptive-max": OperatorHelp(
        "Maximum to a given output size (OpenVINO AdaptiveMaxPool).",
        "samples/features.npy -o y.npy --output-size 7",
        "samples/astronaut.png -o small.png --output-size 64,64",
        "samples/volume.h5 -o y.h5 --output-size 4,8,8",
        aliases=("adaptive-maximum",),
    ),
    "area": OperatorHelp(
        "Mean over equal areas, to any output size (as OpenCV INTER_AREA).",
        "samples/astronaut.png -o small.png --output-size 100,150",
        "samples/features.npy -o y.npy --output-size 12",
        "'samples/*.png' -o small/ --fit 100x80",
        aliases=("inter-area", "box"),
    ),
}
# fmt: on


# The suffix of an operator's name in frameworks, as in max_pool2d, and the separators of its parts.
_POOL_SUFFIX = re.compile(r"pool(ing)?(\d?d?\d*)$")
_SEPARATORS = re.compile(r"[-_]")


def parse_operator(word: str, name: str = "op") -> str:
    """The operator that `word` names; refuses other words as values of the field `name`.

    >>> parse_operator("mean"), parse_operator("MaxPool-14"), parse_operator("F.adaptive_avg_pool2d")
    ('avg', 'max', 'adaptive-avg')
    """
    if word.lower().startswith("global"):
        raise RequestError(f"{field(name)} is {word!r}; write {adaptive(word)} with {field('output_size', 1)}")
    return find_operator(word) or one_of(name, word, tuple(OPERATOR_HELP))


def adaptive(word: str) -> str:
    """The adaptive operator that comes closest to an operator such as `global_max_pool` or `avg`."""
    return "adaptive-max" if "max" in word.lower() else "adaptive-avg"


def find_operator(word: str) -> str | None:
    """The operator that `word` names, or None."""
    plain = _POOL_SUFFIX.sub("", _plain(word.rpartition(".")[2]))
    return next((op for op, row in OPERATOR_HELP.items() if plain in map(_plain, (op, *row.aliases))), None)


def _plain(word: str) -> str:
    return _SEPARATORS.sub("", word.lower())
