"""Where poolcli differs from a framework on purpose: one row each, with an example that both sides are run on.

sweep.py puts the table into docs/differences.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, LpPool, MaxPool

REFUSED = "refused"
nan, inf = np.nan, np.inf
FLOAT_LOWEST = float(np.finfo(np.float32).min)
FLOAT_LARGEST = float(np.finfo(np.float32).max)


def line(*values: float, dtype: str = "float32") -> np.ndarray[Any, np.dtype[Any]]:
    """A tensor N=1 C=1 W."""
    return np.array(values, dtype).reshape(1, 1, -1)


def count_to(n: int, dtype: str = "float32") -> np.ndarray[Any, np.dtype[Any]]:
    """1, 2, ... n as a tensor N=1 C=1 W."""
    return line(*range(1, n + 1), dtype=dtype)


class Unchecked:
    """What a record refuses to be, for asking a framework; `plan` makes the record and so is refused."""

    def __init__(self, record: Any, **given: Any) -> None:
        self._record, self._given = record, given

    def __getattr__(self, name: str) -> Any:
        return self._given[name] if name in self._given else getattr(self._record, name)

    def __repr__(self) -> str:
        return f"{self._record.__name__}({self._given})"

    def plan(self, *arguments: Any, **words: Any) -> Any:
        return self._record(**self._given).plan(*arguments, **words)


@dataclass(frozen=True)
class Difference:
    """One row, and its example: `theirs` and `ours` are flat values (indices where `asked` says so) or REFUSED.

    `marks` are those of the tables of types that it explains, if any.
    `also` is what the framework gives on other processors, where its code for them computes otherwise.
    `asked`: `values` of a call that also gives indices where it can, `indices`, or `values alone`.
    """

    name: str
    marks: str
    peer: str
    case: str
    they: str
    we: str
    why: str
    op: Any
    x: Any
    theirs: Any
    ours: Any
    asked: str = "values"
    also: Any = None


NOTHING = "the mean of nothing is undefined"
LIMITS = "the identity of the maximum"
POSITION = "there is no position"
NAN = "NaN propagates"
EXACT = "the input type keeps its precision and range"
TOO_LARGE = "the shape formula gives no window"
ONE_RULE = "one rule for every type and shape"
DIGITS = "large windows lose precision"
CAN = "no reason to reject it"
LEAVING = line(3 * 2**100, 4 * 2**100, 3 / 2**100, 4 / 2**100)

LIKE = {"OpenVINO": "openvino", "ONNX Runtime": "onnx", "PyTorch": "pytorch", "TensorFlow": "tensorflow"}


def shared(peers: Collection[str], name: str, marks: str, *row: Any) -> list[Difference]:
    """A row of several frameworks; its operator is a record and the length of windows that lie side by side."""
    case, they, we, why, (record, kernel), *example = row
    made = {like: record(kernel, strides=kernel, like=like) for like in LIKE.values()}
    return [
        Difference(f"{name}-{like}", marks, peer, case, they, we, why, made[like], *example)
        for peer, like in LIKE.items()
        if peer in peers
    ]


DIFFERENCES = (
    Difference(
        "empty-average", "e", "OpenVINO", "average of a window without input, padding not counted",
        "nan, -0.0 or 0, by where the window lies", "nan; integers are refused", NOTHING,
        AvgPool(2, strides=4, rounding_type="ceil"), count_to(7), [1.5, 5.5, -0.0], [1.5, 5.5, nan],
    ),
    Difference(
        "empty-max", "e", "OpenVINO", "maximum of a window without input, float32 and float64",
        "lowest finite number of float32", "-inf", LIMITS,
        MaxPool(2, strides=3, pads=1, rounding_type="ceil"), count_to(5), [1, 4, FLOAT_LOWEST], [1, 4, -inf],
    ),
    Difference(
        "empty-max-integers", "e", "OpenVINO", "maximum of a window without input, int16, uint32 and 64-bit integers",
        "lowest int32, cut to the type", "lowest value of the type", LIMITS,
        MaxPool(2, strides=3, pads=1, rounding_type="ceil"), count_to(5, "int16"), [1, 4, 0], [1, 4, -(2**15)],
    ),
    Difference(
        "empty-max-index", "e", "OpenVINO", "index of a window without input", "0 of its plane", "-1", POSITION,
        MaxPool(2, strides=3, pads=1, rounding_type="ceil"), count_to(5), [0, 3, 0], [0, 3, -1], "indices",
    ),
    Difference(
        "nan-in-max", "n", "OpenVINO", "maximum of a window that holds nan", "NaN is ignored", "nan", NAN,
        MaxPool(3, strides=1, pads=1), line(1, nan, 3, 2), [1, 3, 3, 3], [nan, nan, nan, 3],
    ),
    Difference(
        "nan-in-adaptive-max", "n", "OpenVINO", "adaptive maximum of a window that holds nan",
        "nan only where it comes first", "nan", NAN,
        AdaptiveMaxPool(4), line(1, nan, 3, 2, 5, 4), [1, nan, 5, 5], [nan, nan, 5, 5],
    ),
    Difference(
        "minus-infinity", "i", "OpenVINO", "maximum of nothing but `-inf`, float32 and float64",
        "lowest finite number of float32", "-inf", EXACT,
        MaxPool(2, strides=2), line(-inf, -inf, -inf, -inf), [FLOAT_LOWEST] * 2, [-inf, -inf],
    ),
    Difference(
        "lowest-index", "i", "OpenVINO", "index where the maximum is the lowest value of the type (uint8 0, -inf)",
        "0 of its plane", "the position", "the position is known",
        MaxPool(2, strides=2), line(0, 0, 0, 0, 5, 0, dtype="uint8"), [0, 0, 4], [0, 2, 4], "indices",
    ),
    Difference(
        "float64", "s", "OpenVINO", "float64", "computed in float32", "computed in float64 or wider", EXACT,
        AvgPool(2, strides=2), line(1 + 2**-40, 1 + 2**-40, dtype="float64"), [1], [1 + 2**-40],
    ),
    Difference(
        "float64-infinity", "ln", "OpenVINO", "float64 beyond float32, also infinities", "largest number of float32",
        "kept",
        EXACT, MaxPool(1, strides=1), line(1e300, inf, -inf, dtype="float64"),
        [FLOAT_LARGEST, FLOAT_LARGEST, FLOAT_LOWEST], [1e300, inf, -inf],
    ),
    Difference(
        "int64", "l", "OpenVINO", "64-bit integers beyond 32 bits", "cut to 32 bits", "kept", EXACT,
        MaxPool(2, strides=2), line(2**40 + 1, 0, dtype="int64"), [1], [2**40 + 1],
    ),
    Difference(
        "int32-average", "ls", "OpenVINO",
        "averages, adaptive maxima and maxima without indices of integers beyond 2**24",
        "rounded to float32", "kept", EXACT,
        AdaptiveMaxPool(1), line(2**24 + 1, 0, dtype="int32"), [2**24], [2**24 + 1],
    ),
    Difference(
        "uint32-max", "l", "OpenVINO", "maxima of uint32 beyond 2**31",
        "compared as int32: the larger one is negative", "the larger one", EXACT,
        MaxPool(2, strides=2), line(2**32 - 1, 0, dtype="uint32"), [0], [2**32 - 1],
    ),
    Difference(
        "one-channel", "c", "OpenVINO", "averages of one channel of int16, uint16, 32- and 64-bit integers",
        "refused for some shapes, such as 1x1x4", "computed", CAN,
        AvgPool(2, strides=2), line(0, 1, 2, 3, dtype="int32"), REFUSED, [0, 2],
    ),
    Difference(
        "reciprocal", "", "OpenVINO", "averages of int8 and uint8 that lie half-way",
        "multiplied by the rounded 1 / divisor, so some miss the even number (one channel without AVX-512: divided)",
        "rounded half to even", ONE_RULE,
        AvgPool(14, strides=1), line(*[6] * 7, *[7] * 7, dtype="int8"), [7], [6], also=[6],
    ),
    Difference(
        "adaptive-integers", "g", "OpenVINO", "adaptive average of integers to one bin",
        "sum cut to the type, then truncated", "rounded half to even, as everywhere", ONE_RULE,
        AdaptiveAvgPool(1), np.full((1, 1, 4, 4), 127, np.int8), [7], [127],
    ),
    Difference(
        "bool-average", "+", "OpenVINO", "averages of bool", "bool", "refused without `--dtype`",
        "an average is a number",
        AvgPool(2, strides=2), line(1, 1, 0, 0, dtype="bool"), [1, 0], REFUSED,
    ),
    Difference(
        "output-size-0", "", "OpenVINO", "output_size 0", "an empty result", "refused", "almost certainly a mistake",
        Unchecked(AdaptiveAvgPool, output_size=0), count_to(4), [], REFUSED,
    ),
    Difference(
        "same-short", "", "ONNX Runtime", "same_* where the kernel is shorter than the stride",
        "negative pads move the windows, or (maxima without indices, averages up to opset 18) refused",
        "pads are never negative", "the text of ONNX pads, it does not crop",
        AvgPool(1, strides=4, auto_pad="same_upper", like="onnx"), count_to(11), [2, 6, 10], [1, 5, 9],
    ),
    Difference(
        "same-dilated", "", "ONNX Runtime", "same_* with dilation",
        "pads for the undilated kernel: another size, or refused", "pads for the dilated kernel",
        "the text of ONNX: ceil(input / stride) outputs",
        AvgPool(3, strides=1, dilations=2, auto_pad="same_upper", like="onnx"), count_to(5), [3, 3, 3], [2, 3, 3, 3, 4],
    ),
    Difference(
        "ignored-pads-onnx", "", "ONNX Runtime", "auto_pad with pads of the kernel's length or longer also given",
        "refused", "pads are ignored, the report says so", "shorter ones are ignored too",
        MaxPool(2, strides=2, pads=2, auto_pad="valid", like="onnx"), count_to(4), REFUSED, [2, 4],
    ),
    Difference(
        "too-large-onnx", "", "ONNX Runtime", "floor: window longer than the padded input, by less than the stride",
        "one window over what there is", "refused", TOO_LARGE,
        AvgPool(9, strides=2, like="onnx"), count_to(8), [4.5], REFUSED,
    ),
    Difference(
        "far-too-large-onnx", "", "ONNX Runtime", "floor and ceil: the same, by one stride up to less than two",
        "an empty result", "refused", TOO_LARGE,
        AvgPool(10, strides=2, like="onnx"), count_to(8), [], REFUSED,
    ),
    Difference(
        "nan-onnx", "n", "ONNX Runtime", "maximum of a window that holds nan",
        "nan only where it comes first (without indices: in some places)", "nan", NAN,
        MaxPool(3, strides=1, pads=1, like="onnx"), line(1, nan, 3, 2), [1, 3, nan, 3], [nan, nan, nan, 3],
    ),
    Difference(
        "minus-infinity-onnx", "i", "ONNX Runtime", "maximum of nothing but `-inf`, float32 without indices",
        "lowest finite number (over two axes at times `-inf`)", "-inf", EXACT,
        MaxPool(2, strides=2, like="onnx"), line(-inf, -inf), [FLOAT_LOWEST], [-inf], "values alone",
    ),
    Difference(
        "empty-max-onnx", "e", "ONNX Runtime", "maximum of a dilated window without input, float32 and float64",
        "lowest finite number",
        "-inf", LIMITS, MaxPool(2, strides=1, pads=1, dilations=2, like="onnx"), line(7), [FLOAT_LOWEST], [-inf],
    ),
    Difference(
        "empty-index-onnx", "e", "ONNX Runtime", "index of a dilated window without input", "before its plane", "-1",
        POSITION, MaxPool(2, strides=1, pads=1, dilations=2, like="onnx"), np.ones((1, 2, 1), np.float32), [-1, 0],
            [-1, -1], "indices",
    ),
    Difference(
        "empty-average-onnx", "e", "ONNX Runtime", "average of a dilated window without input, padding not counted",
        "0", "nan; integers are refused", NOTHING,
        AvgPool(2, strides=1, pads=1, dilations=2, like="onnx", exclude_pad=True), line(7), [0], [nan],
    ),
    Difference(
        "nan-index", "n", "PyTorch", "index where a window holds several nan", "the last nan", "the first",
        "the same as for equal maxima", MaxPool(2, like="pytorch"), line(nan, nan), [1], [0], "indices",
    ),
    Difference(
        "empty-index", "e", "PyTorch", "index of a dilated window without input", "outside the input", "-1", POSITION,
        MaxPool(2, strides=1, pads=1, dilations=2, like="pytorch"), line(7), [1], [-1], "indices",
    ),
    Difference(
        "integers-pytorch", "r", "PyTorch", "averages of int64", "truncated toward zero", "rounded half to even",
        ONE_RULE,
        AvgPool(2, like="pytorch"), line(1, 2, -3, -4, dtype="int64"), [1, -3], [2, -4],
    ),
    Difference(
        "integer-range-pytorch", "l", "PyTorch", "averages of int64 whose sum leaves 64 bits",
        "the sum wraps around", "kept", EXACT,
        AvgPool(2, like="pytorch"), line(2**62, 2**62, dtype="int64"), [-(2**62)], [2**62],
    ),
    Difference(
        "divisor-pytorch", "d", "PyTorch", "divisor_override below 0, sum of 0", "0", "-0", ONE_RULE,
        AvgPool((1, 2), divisor_override=-3, like="pytorch"), line(0, 0).reshape(1, 1, 1, 2), [0.0], [-0.0],
    ),
    Difference(
        "small-divisor-pytorch", "d", "PyTorch", "divisor_override smaller than the window, int64",
        "computed", "refused: results may leave the type", EXACT,
        AvgPool((1, 2), divisor_override=1, like="pytorch"), line(1, 2, dtype="int64").reshape(1, 1, 1, 2), [3],
        REFUSED,
    ),
    Difference(
        "halves-pytorch", "s", "PyTorch", "adaptive 3-D averages of float16 and bfloat16", "summed in the same type",
        "summed in float64", DIGITS, AdaptiveAvgPool((1, 1, 2), like="pytorch"),
        np.ones((1, 1, 1, 1, 8192), np.float16), [0.5, 0.5], [1, 1],
    ),
    Difference(
        "lp-integers-pytorch", "+", "PyTorch", "Lp norms of integers and bool",
        "float32", "refused without `--dtype`", "a norm is no integer",
        LpPool(2, like="pytorch"), line(3, 4, dtype="int32"), [5], REFUSED,
    ),
    Difference(
        "lp-range-onnx", "l", "ONNX Runtime", "Lp norms of numbers whose powers leave float32", "inf or 0",
        "the norm, which is in range", EXACT,
        LpPool(2, strides=2), LEAVING, [inf, 0], [5 * 2**100, 5 / 2**100],
    ),
    Difference(
        "lp-range-pytorch", "l", "PyTorch", "Lp norms of numbers whose powers leave the type", "inf or 0",
        "the norm, which is in range", EXACT,
        LpPool(2, like="pytorch"), LEAVING, [inf, 0], [5 * 2**100, 5 / 2**100],
    ),
    Difference(
        "lp-digits-pytorch", "s", "PyTorch", "signed sums of Lp norms that cancel", "summed in float32",
        "summed in float64", DIGITS,
        LpPool(4, p=1, like="pytorch"), line(2**24, 1, 1, -(2**24)), [0], [2],
    ),
    Difference(
        "output-size-0-pytorch", "", "PyTorch", "output_size 0", "an empty result", "refused",
        "almost certainly a mistake",
        Unchecked(AdaptiveAvgPool, output_size=0, like="pytorch"), count_to(4), [], REFUSED,
    ),
    Difference(
        "too-large-tensorflow", "", "TensorFlow", "VALID: window longer than the input, by less than two strides",
        "an empty result", "refused", TOO_LARGE,
        AvgPool(3, strides=1, auto_pad="valid", like="tensorflow"), count_to(2), [], REFUSED,
    ),
    Difference(
        "same-3d-tensorflow", "", "TensorFlow", "SAME over three axes where the kernel is shorter than the stride",
        "without oneDNN, negative pads move the windows (over one or two they do not)", "pads are never negative",
        ONE_RULE,
        MaxPool(1, strides=(4, 1, 1), auto_pad="same_upper", like="tensorflow"), count_to(11).reshape(1, 1, 11, 1, 1),
        [2, 6, 10], [1, 5, 9], also=[1, 5, 9],
    ),
    Difference(
        "nan-tensorflow", "n", "TensorFlow", "maximum of a window that holds nan",
        "the largest number, or the lowest finite (over three axes nan where it comes last)", "nan", NAN,
        MaxPool(3, strides=1, auto_pad="same_upper", like="tensorflow"), line(1, nan, 3, 2), [1, 3, 3, 3], [nan, nan,
            nan, 3],
    ),
    Difference(
        "nan-index-tensorflow", "n", "TensorFlow", "index of a window that holds nan", "that of the largest number",
        "that of nan", NAN, MaxPool((1, 3), strides=1, auto_pad="same_upper", like="tensorflow"),
        line(1, nan, 3, 2).reshape(1, 1, 1, 4), [0, 2, 1, 2], [1, 1, 1, 2], "indices",
    ),
    Difference(
        "minus-infinity-tensorflow", "i", "TensorFlow", "maximum of nothing but `-inf`, over one and two axes",
        "lowest finite number", "-inf", EXACT,
        MaxPool(2, strides=2, auto_pad="valid", like="tensorflow"), line(-inf, -inf), [FLOAT_LOWEST], [-inf],
    ),
    Difference(
        "halves-tensorflow", "s", "TensorFlow", "averages of float16 and bfloat16",
        "summed in the same type (bfloat16: without oneDNN)", "summed in float64", DIGITS,
        AvgPool(3, strides=3, like="tensorflow"), line(256, 1, 1).astype(ml_dtypes.bfloat16), [85.5], [86], also=[86],
    ),
    Difference(
        "nan-average-tensorflow", "", "TensorFlow",
        "averages over three axes that hold nan, float32 of 8 channels and more",
        "without oneDNN, NaN is ignored", "nan", NAN,
        AvgPool((1, 1, 2), strides=(1, 1, 2), like="tensorflow"), np.full((1, 8, 1, 1, 2), [nan, 1], np.float32),
        [1] * 8, [nan] * 8, also=[nan] * 8,
    ),
    *shared(
        LIKE, "float32-sum", "s", "averages (and Lp norms) of float32", "summed in float32",
        "summed in float64", DIGITS, (AvgPool, 4), line(2**24, 1, 1, 1), [2**22], [2**22 + 1],
    ),
    *shared(
        ("PyTorch", "TensorFlow"), "float64-sum", "s", "averages (and Lp norms) of float64", "summed in float64",
        "compensated summation", DIGITS,
        (AvgPool, 4), line(2**53, 1, 1, 1, dtype="float64"), [2**51], [2**51 + 1],
    ),
    *shared(
        LIKE, "sum-range", "l", "averages whose sum leaves the type in which it is summed", "inf", "kept", EXACT,
        (AvgPool, 2), line(FLOAT_LARGEST, FLOAT_LARGEST), [inf], [FLOAT_LARGEST],
    ),
    *shared(
        LIKE, "zeros", "z", "maxima of 0 and -0",
        "the first, or (ONNX Runtime and TensorFlow) either, by their places", "0", "0 is above -0, wherever it is",
        (MaxPool, 2), line(-0.0, 0.0, 0.0, -0.0), [-0.0, 0.0], [0.0, 0.0],
    ),
    *shared(
        ("OpenVINO", "ONNX Runtime", "TensorFlow"), "axes", "", "more than 3 spatial axes", "refused", "computed", CAN,
        (MaxPool, 2), np.ones((1, 1, 2, 2, 2, 2), np.float32), REFUSED, [1],
    ),
)  # fmt: skip


def markdown() -> str:
    """The table as docs/differences.md shows it."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for d in DIFFERENCES:
        rows.setdefault((d.marks, d.case, d.they, d.we, d.why), []).append(d.peer)
    head = ["| framework | mark | case | it gives | poolcli gives | because |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *(f"| {', '.join(peers)} | {' | '.join(row)} |" for row, peers in rows.items())])
