"""The help of each operator and its other names, and the functions that find an operator by any of its names."""

from __future__ import annotations

import re

from poolcli.arguments import one_of
from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.suggestions import MEANT


class OperatorHelp:
    """One line of help, other names, and the arguments of examples.

    Names in frameworks need no alias if they differ by a suffix: `AvgPool-14` and `avg_pool2d` are found as avg.
    """

    def __init__(self, text: str, aliases: str, *examples: str) -> None:
        self.text, self.aliases, self.examples = text, aliases.split(), examples


# fmt: off
OPERATOR_HELP = {
    "avg": OperatorHelp(
        "Average of every window (OpenVINO AvgPool, nGraph AvgPool).", "average mean",
        "samples/astronaut.png -o half.png -k 2 -s 2", "samples -o small/ -k 2 -s 2",
        "samples/features.npy -o y.npy -k 3 -s 2 -p 1 --include-pad",
    ),
    "max": OperatorHelp(
        "Maximum of every window; argmax with --indices (MaxPool).", "maximum",
        "samples -o small/ -k 2 -s 2", "samples/volume.h5 -o y.h5 -k 2,3,3 -s 2,3,3",
        "samples/features.npy -o y.npy -k 2 -s 2 --indices where.npy",
    ),
    "min": OperatorHelp(
        "Minimum of every window; argmin with --indices.", "minimum",
        "samples -o small/ -k 2 -s 2", "samples/astronaut.png -o dark.png -k 4 -s 4",
        "samples/features.npy -o y.npy -k 2 -s 2 --indices where.npy",
    ),
    "mode": OperatorHelp(
        "Most frequent value (mode) of every window, for label maps.", "majority",
        "samples/volume.h5 -o y.npy -k 3 -s 3", "samples/volume.h5 -o half.h5 -k 2,2,2 -s 2",
        "samples/astronaut.png -o small.png -k 2 -s 2",
    ),
    "median": OperatorHelp(
        "Median of every window; integers round half to even.", "med",
        "samples/volume.h5 -o half.h5 -k 2,2,2 -s 2", "samples/features.npy -o y.npy -k 3 -s 2 -p 1",
        "samples/astronaut.png -o calm.png -k 3 -s 2 -p 1",
    ),
    "sum": OperatorHelp(
        "Sum of every window; integers become int64 or uint64.", "total add",
        "samples/volume.h5 -o y.h5 -k 2,2,2 -s 2", "samples/astronaut.png -o sums.npy -k 3 -s 3",
        "samples/features.npy -o y.npy -k 3 -s 2 -p 1",
    ),
    "std": OperatorHelp(
        "Standard deviation of every window, as floats.", "stdev stddev deviation",
        "samples/volume.h5 -o y.h5 -k 2,3,3 -s 2,3,3", "samples/features.npy -o y.npy -k 3 -s 2 -p 1",
        "samples/astronaut.png -o spread.npy -k 5 -s 5 --ddof 1",
    ),
    "lp": OperatorHelp(
        "The p-norm of every window (ONNX LpPool, PyTorch lp_pool).", "norm lpnorm",
        "samples/features.npy -o y.npy -k 2 -s 2", "samples/features.npy -o z.npy -k 3 -s 2 --p 3 --like pytorch",
        "samples/astronaut.png -o norms.npy -k 2 -s 2 --dtype float32",
    ),
    "adaptive-avg": OperatorHelp(
        "Average to a given output size (OpenVINO AdaptiveAvgPool).", "adaptive-average adaptive-mean adaptive",
        "samples -o small/ --output-size 8", "samples/features.npy -o y.npy --output-size 7",
        "samples/astronaut.png -o small.png --output-size 64,64",
    ),
    "adaptive-max": OperatorHelp(
        "Maximum to a given output size (OpenVINO AdaptiveMaxPool).", "adaptive-maximum",
        "samples/features.npy -o y.npy --output-size 7", "samples/volume.h5 -o y.h5 --output-size 4,8,8",
        "samples/astronaut.png -o small.png --output-size 64,64",
    ),
    "area": OperatorHelp(
        "Mean over equal areas, to any output size (as OpenCV INTER_AREA).", "inter-area box",
        "'samples/*.png' -o small/ --fit 100x80", "samples/features.npy -o y.npy --output-size 12",
        "samples/astronaut.png -o small.png --output-size 100,150",
    ),
}
# fmt: on


# The suffix of an operator's name in frameworks, as in max_pool2d.
_POOL_SUFFIX = re.compile(r"pool(ing)?(\d?d?\d*)$")


def parse_operator(name: str, text: str) -> str:
    """The operator that `text` names; refuses other words as values of the field `name`.

    >>> parse_operator("op", "mean"), parse_operator("op", "MaxPool-14"), parse_operator("op", "F.adaptive_avg_pool2d")
    ('avg', 'max', 'adaptive-avg')
    """
    if found := find_operator(text):
        return found
    meant = instead_of(text)
    if meant.startswith("poolcli"):
        raise RequestError(f"{field(name)} is {text!r}; use {meant.removeprefix('poolcli ')}")
    return one_of(name, text, tuple(OPERATOR_HELP))


def instead_of(word: str) -> str:
    """What to use in place of a word that is no command; "" if that is not known."""
    plain = _POOL_SUFFIX.sub("", word.lower().replace("_", "-")).rstrip("-")
    return next((meant for known, meant in MEANT.items() if _plain(known) == _plain(plain)), "")


def find_operator(word: str) -> str | None:
    """The operator that `word` names, or None."""
    plain = _POOL_SUFFIX.sub("", _plain(word.rpartition(".")[2]))
    return next((op for op, row in OPERATOR_HELP.items() if plain in map(_plain, (op, *row.aliases))), None)


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")
