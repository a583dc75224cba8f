"""Where generated cases meet a row of the table of differences, which outputs or the whole case; and the comparison of
all others with the answer of a framework.

Each predicate is held against its row's own example (test_differences.py), and says no more than the row does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from poolcli.dtypes import lookup
from poolcli.engine import run
from poolcli.windows import Sliding, ceil_div
from tests.conformance.cases import Case, case_of
from tests.conformance.peers import Answer, Array

Mask = Any  # an array of booleans over the output, or one bool for all of it


@dataclass(frozen=True)
class Exclusion:
    """What one row of the table takes out of the comparison: a `case`, or the `value` or `index` of some outputs of an
    operator, of these types.
    """

    row: str
    peer: str
    what: Literal["case", "value", "index"]
    op: str
    where: Callable[[Case], Mask]
    holds_for: Callable[[str], bool] = lambda dtype: True

    def mask(self, case: Case) -> Mask:
        """The outputs that it takes out."""
        return self.where(case) if self.op in (case.plan.op, "any") and self.holds_for(case.x.dtype.name) else False


def excluded(peer: str, what: str, case: Case) -> Array:
    """The outputs of the case whose `what` a row of the table takes out."""
    mask = np.zeros(case.plan.output_shape, bool)
    for exclusion in EXCLUSIONS:
        if (exclusion.peer, exclusion.what) == (peer, what):
            mask |= exclusion.mask(case)
    return mask


def total(case: Case, numbers: Any) -> Array:
    """The sum of the numbers of each window, or how many of its elements are flagged."""
    found: Array = np.broadcast_to(numbers, case.x.shape)
    found = found.astype(np.int64) if found.dtype.kind in "biu" else found
    for axis in case.plan.axes:
        spans = [list(axis.windows.span(o)) for o in range(axis.windows.output)]
        found = np.stack([found.take(span, axis.position).sum(axis.position) for span in spans], axis.position)
    return found


def first(case: Case, flags: Array) -> Array:
    """Whether the first element of each window is flagged."""
    for axis in case.plan.axes:
        spans = [axis.windows.span(o) for o in range(axis.windows.output)]
        flags = np.stack(
            [flags.take(s[0], axis.position) if s else flags.take(0, axis.position) * False for s in spans],
            axis.position,
        )
    return flags


def empty(case: Case) -> Array:
    """Windows without input."""
    return np.equal(total(case, True), 0)


def empty_and_uncounted(case: Case) -> Mask:
    """Windows without input whose padding is not counted."""
    counts = any(w.counted != "inside" for w in case.plan.windows if isinstance(w, Sliding))
    return False if counts else empty(case)


def is_float(dtype: str) -> bool:
    return "float" in dtype


def is_wider_float(dtype: str) -> bool:
    return dtype in ("float32", "float64")  # in others OpenVINO keeps -inf


def nans(case: Case) -> Array:
    """How many elements of each window are nan."""
    return total(case, np.isnan(case.x))


def has_nan(case: Case) -> Mask:
    return nans(case) > 0


def has_nan_later(case: Case) -> Mask:
    """Windows that hold nan, but not as their first element."""
    return (nans(case) > 0) & ~first(case, np.isnan(case.x))


def repeated_nan(case: Case) -> Mask:
    """Maxima of windows that hold more than one nan."""
    return nans(case) > 1 if case.plan.reducer.picks else False


def only_lowest(case: Case) -> Mask:
    """Windows that hold nothing but the lowest value of their type."""
    lowest = -np.inf if is_float(case.x.dtype.name) else lookup(case.x.dtype).limits[0]
    return (total(case, case.x == lowest) == total(case, True)) & ~empty(case)


def integers_to_one_bin(case: Case) -> Mask:
    """Adaptive averages of integers to one bin: the sum leaves the type, or truncating is not rounding."""
    if case.x.dtype.kind not in "iu" or set(case.plan.output_shape[2:]) != {1}:
        return False
    axes = tuple(range(2, case.x.ndim))
    sums, limits = case.x.sum(axes, np.int64, keepdims=True), np.iinfo(case.x.dtype)
    exact = case.x.mean(axes, np.float64, keepdims=True)
    return (sums < limits.min) | (sums > limits.max) | (np.rint(exact) != np.trunc(exact))


def missed_by_reciprocal(case: Case) -> Mask:
    """Averages that round otherwise when multiplied by a float32 1 / divisor."""
    sums, divisor = total(case, case.x), np.ones((1,) * case.x.ndim)
    for axis in case.plan.axes:
        factor = axis.windows.divisor(np.arange(axis.windows.output))
        divisor = divisor * factor.reshape([-1 if i == axis.position else 1 for i in range(case.x.ndim)])
    safe = np.where(divisor == 0, 1, divisor)
    product = sums.astype(np.float32) * (np.float32(1) / safe.astype(np.float32))
    return np.rint(product) != np.rint(sums / safe)


def moved_pads(case: Case) -> bool:
    """same_* where ONNX Runtime's pads, of the undilated kernel and also negative, lead to other windows."""
    word = str(case.plan.attributes["auto_pad"])
    if not word.startswith("same"):
        return False
    sliding = [w for w in case.plan.windows if isinstance(w, Sliding)]
    cropped = case.plan.op == "avg" and any(w.dilation > 1 for w in sliding)  # at the end of the negative padding
    for w in sliding:
        total = (ceil_div(w.size, w.stride) - 1) * w.stride + w.kernel - w.size
        begin = int(total / 2) if word == "same_upper" else int((total + 1) / 2)
        output = int((w.size + total - w.extent) / w.stride) + 1
        if (begin, output) != (w.pad_begin, w.output) or (cropped and total - begin != w.pad_end):
            return True
    return False


def moved_3d(case: Case) -> bool:
    """SAME over three axes where a kernel is so much shorter than its stride that the pads would be negative."""
    sliding = [w for w in case.plan.windows if isinstance(w, Sliding)]
    short = any((w.output - 1) * w.stride + w.kernel < w.size - 1 for w in sliding)
    return case.plan.attributes["auto_pad"] == "same_upper" and len(sliding) == 3 and short


def cancelled(case: Case) -> Mask:
    """Norms of odd and broken powers whose signed sum is small beside its terms, or not finite."""
    power = case.plan.reducer.power
    if power is None or power % 2 == 0:
        return False
    with np.errstate(all="ignore"):
        terms = case.x.astype(np.float64) ** power
        special = total(case, ~np.isfinite(terms)) > 0
        finite = np.where(np.isfinite(terms), terms, 0)
        return special | (abs(total(case, finite)) <= 1e-3 * total(case, abs(finite)))


def truncated(case: Case) -> Mask:
    """Averages whose exact value rounds otherwise than it truncates."""
    exact, _ = run(case_of(case.op, case.x.astype(np.float64)).plan, case.x.astype(np.float64), engine="numpy")
    return np.rint(exact) != np.trunc(exact)


OF_OPENVINO: tuple[tuple[str, Any, str, Any, Callable[[str], bool]], ...] = (
    ("empty-average", "value", "avg", empty_and_uncounted, lambda _: True),
    ("empty-max", "value", "max", empty, is_wider_float),
    ("empty-max-integers", "value", "max", empty, ("int16", "uint32", "int64", "uint64").__contains__),
    ("empty-max-index", "index", "max", empty, lambda _: True),
    ("nan-in-max", "value", "max", has_nan, is_float),
    ("nan-in-max", "index", "max", has_nan, is_float),
    ("nan-in-adaptive-max", "value", "adaptive-max", has_nan_later, is_float),
    ("nan-in-adaptive-max", "index", "adaptive-max", has_nan_later, is_float),
    ("minus-infinity", "value", "max", only_lowest, is_wider_float),
    ("lowest-index", "index", "max", only_lowest, lambda _: True),
    ("reciprocal", "value", "avg", missed_by_reciprocal, ("int8", "uint8").__contains__),
    ("adaptive-integers", "value", "adaptive-avg", integers_to_one_bin, lambda _: True),
)
EXCLUSIONS = (
    *(Exclusion(row[0], peer, *row[1:]) for peer in ("OpenVINO", "nGraph, as AvgPool-1") for row in OF_OPENVINO),
    Exclusion("same-short", "ONNX Runtime", "case", "any", moved_pads),
    Exclusion("same-dilated", "ONNX Runtime", "case", "any", moved_pads),
    Exclusion("nan-onnx", "ONNX Runtime", "value", "max", has_nan_later, is_float),
    Exclusion("nan-onnx", "ONNX Runtime", "index", "max", has_nan_later, is_float),
    Exclusion("empty-max-onnx", "ONNX Runtime", "value", "max", empty, is_float),
    Exclusion("empty-index-onnx", "ONNX Runtime", "index", "max", empty),
    Exclusion("empty-average-onnx", "ONNX Runtime", "value", "avg", empty_and_uncounted),
    Exclusion("nan-index", "PyTorch", "index", "any", repeated_nan, is_float),
    Exclusion("empty-index", "PyTorch", "index", "max", empty),
    Exclusion("integers-pytorch", "PyTorch", "value", "avg", truncated, lambda dtype: dtype.startswith("int")),
    Exclusion("nan-tensorflow", "TensorFlow", "value", "max", has_nan, is_float),
    Exclusion("nan-index-tensorflow", "TensorFlow", "index", "max", has_nan, is_float),
    Exclusion("minus-infinity-tensorflow", "TensorFlow", "value", "max", only_lowest, is_float),
    Exclusion("same-3d-tensorflow", "TensorFlow", "case", "any", moved_3d),
    Exclusion("lp-digits-pytorch", "PyTorch", "value", "lp", cancelled),
)


CLOSE = {"float16": 1e-3, "bfloat16": 8e-3}  # a unit in the last place; other floats 1e-5


def compare(peer: str, case: Case, answer: Answer, engine: str) -> None:
    """Asserts equal shapes, types and indices, equal maxima and integers, and averages of floats within 1e-5.

    Outputs that a row of the table of differences takes out are compared in shape only.
    """
    values, indices = answer
    ours, at = run(case.plan, case.x, engine=engine, indices=indices is not None)
    assert (ours.shape, ours.dtype) == (values.shape, values.dtype), case
    kept = ~excluded(peer, "value", case)
    if case.plan.reducer.picks or case.x.dtype.kind in "iub":
        np.testing.assert_array_equal(_exact(ours[kept]), _exact(values[kept]), str(case))
    else:
        # TensorFlow sums float16 in float16.
        close = 4e-3 if (peer, case.x.dtype.name) == ("TensorFlow", "float16") else CLOSE.get(case.x.dtype.name, 1e-5)
        np.testing.assert_allclose(
            ours[kept].astype(np.float64), values[kept].astype(np.float64), close, 1e-5, err_msg=str(case)
        )
    if at is not None and indices is not None:
        kept = ~excluded(peer, "index", case)
        np.testing.assert_array_equal(at[kept], indices[kept], str(case))


def _exact(values: Array) -> Array:
    """bfloat16 as float32, which numpy can compare."""
    return values.astype(np.float32) if values.dtype.name == "bfloat16" else values
