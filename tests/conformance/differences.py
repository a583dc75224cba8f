"""Where poolcli differs from a framework on purpose: one row each, with an example that both sides are run on.

`python -m tests.conformance.differences` prints the table for the README.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool

REFUSED = "refused"
nan, inf = np.nan, np.inf
FLOAT_LOWEST = float(np.finfo(np.float32).min)


def line(*values: float, dtype: str = "float32") -> np.ndarray[Any, np.dtype[Any]]:
    """A tensor N=1 C=1 W."""
    return np.array(values, dtype).reshape(1, 1, -1)


def count_to(n: int, dtype: str = "float32") -> np.ndarray[Any, np.dtype[Any]]:
    """1, 2, ... n as a tensor N=1 C=1 W."""
    return line(*range(1, n + 1), dtype=dtype)


@dataclass(frozen=True)
class Difference:
    """One row. `theirs` and `ours` are the flat values, or the indices where `indices` is true, or REFUSED."""

    name: str
    peer: str
    case: str
    they: str
    we: str
    op: Any
    x: Any
    theirs: Any
    ours: Any
    indices: bool = False


DIFFERENCES = (
    Difference(
        "empty-average", "OpenVINO", "average of a window without input, padding not counted",
        "nan, -0.0 or 0, by where the window lies", "nan; integers are refused",
        AvgPool(2, 4, rounding_type="ceil"), count_to(7), [1.5, 5.5, -0.0], [1.5, 5.5, nan],
    ),
    Difference(
        "empty-max", "OpenVINO", "maximum of a window without input", "lowest finite number", "-inf",
        MaxPool(2, 3, 1, 1, rounding_type="ceil"), count_to(5), [1, 4, FLOAT_LOWEST], [1, 4, -inf],
    ),
    Difference(
        "empty-max-index", "OpenVINO", "index of a window without input", "0 of its plane", "-1",
        MaxPool(2, 3, 1, 1, rounding_type="ceil"), count_to(5), [0, 3, 0], [0, 3, -1], indices=True,
    ),
    Difference(
        "nan-in-max", "OpenVINO", "maximum of a window that holds nan", "nan is passed over", "nan",
        MaxPool(3, 1, 1, 1), line(1, nan, 3, 2), [1, 3, 3, 3], [nan, nan, nan, 3],
    ),
    Difference(
        "nan-in-adaptive-max", "OpenVINO", "adaptive maximum of a window that holds nan",
        "nan only where it comes first", "nan",
        AdaptiveMaxPool(4), line(1, nan, 3, 2, 5, 4), [1, nan, 5, 5], [nan, nan, 5, 5],
    ),
    Difference(
        "minus-infinity", "OpenVINO", "maximum of nothing but -inf", "lowest finite number", "-inf",
        MaxPool(2, 2), line(-inf, -inf, -inf, -inf), [FLOAT_LOWEST] * 2, [-inf, -inf],
    ),
    Difference(
        "lowest-index", "OpenVINO", "index where the maximum is the lowest value of the type (uint8 0)",
        "0 of its plane", "the position",
        MaxPool(2, 2), line(0, 0, 0, 0, 5, 0, dtype="uint8"), [0, 0, 4], [0, 2, 4], indices=True,
    ),
    Difference(
        "float64", "OpenVINO", "float64", "computed in float32", "kept",
        AvgPool(2, 2), line(1e300, 1e300, dtype="float64"), [float(np.finfo(np.float32).max)], [1e300],
    ),
    Difference(
        "int64", "OpenVINO", "int64 beyond 32 bits", "cut to 32 bits", "kept",
        MaxPool(2, 2), line(2**40 + 1, 0, dtype="int64"), [1], [2**40 + 1],
    ),
    Difference(
        "adaptive-integers", "OpenVINO", "adaptive average of integers to one bin",
        "sum cut to the type, then truncated", "rounded half to even, as everywhere",
        AdaptiveAvgPool(1), np.full((1, 1, 4, 4), 127, np.int8), [7], [127],
    ),
    Difference(
        "batch-0", "OpenVINO", "batch or channel of length 0", "refused", "an empty result",
        AvgPool(2, 2), np.zeros((0, 1, 4), np.float32), REFUSED, [],
    ),
    Difference(
        "same-short", "ONNX Runtime", "same_* where the kernel is shorter than the stride",
        "negative pads move the windows", "pads are never negative",
        AvgPool(1, 4, auto_pad="same_upper", like="onnx"), count_to(11), [2, 6, 10], [1, 5, 9],
    ),
    Difference(
        "same-dilated", "ONNX Runtime", "same_* with dilation", "pads for the undilated kernel, another size",
        "pads for the dilated kernel",
        AvgPool(3, 1, dilations=2, auto_pad="same_upper", like="onnx"), count_to(5), [3, 3, 3], [2, 3, 3, 3, 4],
    ),
    Difference(
        "too-large-onnx", "ONNX Runtime", "window longer than the padded input, by less than the stride",
        "one window over what there is", "refused",
        AvgPool(9, 2, like="onnx"), count_to(8), [4.5], REFUSED,
    ),
    Difference(
        "nan-onnx", "ONNX Runtime", "maximum of a window that holds nan", "nan only where it comes first", "nan",
        MaxPool(3, 1, 1, 1, like="onnx"), line(1, nan, 3, 2), [1, 3, nan, 3], [nan, nan, nan, 3],
    ),
    Difference(
        "empty-max-onnx", "ONNX Runtime", "maximum of a dilated window without input", "lowest finite number", "-inf",
        MaxPool(2, 1, 1, 1, 2, like="onnx"), line(7), [FLOAT_LOWEST], [-inf],
    ),
    Difference(
        "empty-average-onnx", "ONNX Runtime", "average of a dilated window without input", "0",
        "nan; integers are refused",
        AvgPool(2, 1, 1, 1, 2, like="onnx", exclude_pad=True), line(7), [0], [nan],
    ),
    Difference(
        "integers-onnx", "ONNX Runtime", "averages of integers and of float64", "refused", "computed",
        AvgPool(2, 2, like="onnx"), line(1, 2, dtype="float64"), REFUSED, [1.5],
    ),
    Difference(
        "nan-index", "PyTorch", "index of nan", "the last nan of the window", "the first",
        MaxPool(2, like="pytorch"), line(nan, nan), [1], [0], indices=True,
    ),
    Difference(
        "empty-index", "PyTorch", "index of a dilated window without input", "outside the input", "-1",
        MaxPool(2, 1, 1, 1, 2, like="pytorch"), line(7), [1], [-1], indices=True,
    ),
    Difference(
        "too-large-pytorch", "PyTorch", "ceil: window longer than the padded input, by less than the stride",
        "one window over what there is", "refused",
        AvgPool(9, 2, rounding_type="ceil", like="pytorch"), count_to(8), [4.5], REFUSED,
    ),
    Difference(
        "avg-3d-short", "PyTorch", "3-D average whose kernel is longer than the unpadded input", "refused (2-D is not)",
        "computed",
        AvgPool(4, 4, 2, 2, like="pytorch", exclude_pad=True), np.ones((1, 1, 3, 3, 3), np.float32), REFUSED, [1.0],
    ),
    Difference(
        "integers-pytorch", "PyTorch", "averages of int64", "truncated toward zero", "rounded half to even",
        AvgPool(2, like="pytorch"), line(1, 2, -3, -4, dtype="int64"), [1, -3], [2, -4],
    ),
    Difference(
        "channel-0", "PyTorch", "maximum with a channel axis of length 0", "refused", "an empty result",
        MaxPool(2, like="pytorch"), np.zeros((1, 0, 4), np.float32), REFUSED, [],
    ),
)  # fmt: skip


def markdown() -> str:
    """The table as the README shows it."""
    rows = [f"| {d.peer} | {d.case} | {d.they} | {d.we} |" for d in DIFFERENCES]
    return "\n".join(["| framework | case | it gives | poolcli gives |", "|---|---|---|---|", *rows])


if __name__ == "__main__":
    print(markdown())
