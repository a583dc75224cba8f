"""Where generated cases meet a row of the table of differences: which outputs, or the whole case.

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
from tests.conformance.peers import Array

Mask = Any  # an array of booleans over the output, or one bool for all of it


@dataclass(frozen=True)
class Exclusion:
    """What one row of the table takes out of the comparison: a `case`, or the `value` or `index` of some outputs."""

    row: str
    peer: str
    what: Literal["case", "value", "index"]
    where: Callable[[Case], Mask]


def excluded(peer: str, what: str, case: Case) -> Array:
    """The outputs of the case whose `what` a row of the table takes out."""
    mask = np.zeros(case.plan.output_shape, bool)
    for exclusion in EXCLUSIONS:
        if (exclusion.peer, exclusion.what) == (peer, what):
            mask |= exclusion.where(case)
    return mask


def count(case: Case, flags: Any) -> Array:
    """How many elements of each window are flagged, or the sum of their numbers."""
    found: Array = np.broadcast_to(flags, case.x.shape).astype(np.int64)
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
    return np.equal(count(case, True), 0)


def empty_maximum(case: Case) -> Mask:
    """Maxima of windows without input."""
    return empty(case) if case.plan.op == "max" else False


def _is_float(case: Case, *but: str) -> bool:
    return case.x.dtype.kind not in "iub" and case.x.dtype.name not in but


def empty_float_maximum(case: Case) -> Mask:
    """The same of floats: integers have no value below their lowest."""
    return empty_maximum(case) if _is_float(case) else False


def empty_maximum_kept_in_float16(case: Case) -> Mask:
    """The same, and OpenVINO keeps -inf in float16."""
    return empty_maximum(case) if _is_float(case, "float16") else False


def empty_wide_maximum(case: Case) -> Mask:
    """The same of integers whose lowest value is not that of int32 cut to the type."""
    return empty_maximum(case) if case.x.dtype.name in ("int16", "uint32", "int64", "uint64") else False


def empty_average(case: Case) -> Mask:
    """Averages of windows without input whose padding is not counted."""
    counts = any(w.counted != "inside" for w in case.plan.windows if isinstance(w, Sliding))
    return empty(case) if case.plan.op == "avg" and not counts else False


def nans(case: Case) -> Array:
    """How many elements of each window are nan."""
    return count(case, np.isnan(case.x) if _is_float(case) else False)


def nan_in(op: str) -> Callable[[Case], Mask]:
    """Windows of `op` that hold nan."""
    return lambda case: nans(case) > 0 if case.plan.op == op else False


def nan_later_in(op: str) -> Callable[[Case], Mask]:
    """Windows of `op` that hold nan, but not as their first element."""
    return lambda case: (nans(case) > 0) & ~first(case, np.isnan(case.x)) if case.plan.op == op else False


def repeated_nan(case: Case) -> Mask:
    """Maxima of windows that hold more than one nan."""
    return nans(case) > 1 if case.plan.reducer.picks else False


def only_lowest(case: Case) -> Mask:
    """Maxima of windows that hold nothing but the lowest value of their type."""
    if case.plan.op != "max":
        return False
    lowest = -np.inf if _is_float(case) else lookup(case.x.dtype).limits[0]
    return (count(case, case.x == lowest) == count(case, True)) & ~empty(case)


def only_minus_infinity(case: Case) -> Mask:
    """Maxima of windows that hold nothing but -inf; in float16 OpenVINO keeps it."""
    return only_lowest(case) if _is_float(case, "float16") else False


def only_minus_infinity_anywhere(case: Case) -> Mask:
    """The same, in float16 too."""
    return only_lowest(case) if _is_float(case) else False


def integers_to_one_bin(case: Case) -> Mask:
    """Adaptive averages of integers to one bin: the sum leaves the type, or truncating is not rounding."""
    if case.plan.op != "adaptive-avg" or case.x.dtype.kind not in "iu" or set(case.plan.output_shape[2:]) != {1}:
        return False
    axes = tuple(range(2, case.x.ndim))
    total, limits = case.x.sum(axes, np.int64, keepdims=True), np.iinfo(case.x.dtype)
    exact = case.x.mean(axes, np.float64, keepdims=True)
    return (total < limits.min) | (total > limits.max) | (np.rint(exact) != np.trunc(exact))


def missed_by_reciprocal(case: Case) -> Mask:
    """Averages of 8-bit integers that round otherwise when multiplied by a float32 1 / divisor."""
    if case.plan.op != "avg" or case.x.dtype.name not in ("int8", "uint8"):
        return False
    total, divisor = count(case, case.x), np.ones((1,) * case.x.ndim)
    for axis in case.plan.axes:
        factor = axis.windows.divisor(np.arange(axis.windows.output))
        divisor = divisor * factor.reshape([-1 if i == axis.position else 1 for i in range(case.x.ndim)])
    safe = np.where(divisor == 0, 1, divisor)
    product = total.astype(np.float32) * (np.float32(1) / safe.astype(np.float32))
    return np.rint(product) != np.rint(total / safe)


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
    if case.plan.op != "lp" or power is None or power % 2 == 0:
        return False
    with np.errstate(all="ignore"):
        terms = case.x.astype(np.float64) ** power
        special = count(case, ~np.isfinite(terms)) > 0
        finite = np.where(np.isfinite(terms), terms, 0)
        return special | (abs(total(case, finite)) <= 1e-3 * total(case, abs(finite)))


def total(case: Case, numbers: Array) -> Array:
    """The sum of the numbers of each window."""
    for axis in case.plan.axes:
        spans = [list(axis.windows.span(o)) for o in range(axis.windows.output)]
        numbers = np.stack([numbers.take(span, axis.position).sum(axis.position) for span in spans], axis.position)
    return numbers


def truncated(case: Case) -> Mask:
    """Averages of integers whose exact value rounds otherwise than it truncates."""
    if case.plan.op != "avg" or case.x.dtype.kind != "i":
        return False
    exact, _ = run(case_of(case.op, case.x.astype(np.float64)).plan, case.x.astype(np.float64), engine="numpy")
    return np.rint(exact) != np.trunc(exact)


def _openvino(peer: str) -> tuple[Exclusion, ...]:
    return (
        Exclusion("empty-average", peer, "value", empty_average),
        Exclusion("empty-max", peer, "value", empty_maximum_kept_in_float16),
        Exclusion("empty-max-integers", peer, "value", empty_wide_maximum),
        Exclusion("empty-max-index", peer, "index", empty_maximum),
        Exclusion("nan-in-max", peer, "value", nan_in("max")),
        Exclusion("nan-in-max", peer, "index", nan_in("max")),
        Exclusion("nan-in-adaptive-max", peer, "value", nan_later_in("adaptive-max")),
        Exclusion("nan-in-adaptive-max", peer, "index", nan_later_in("adaptive-max")),
        Exclusion("minus-infinity", peer, "value", only_minus_infinity),
        Exclusion("lowest-index", peer, "index", only_lowest),
        Exclusion("reciprocal", peer, "value", missed_by_reciprocal),
        Exclusion("adaptive-integers", peer, "value", integers_to_one_bin),
    )


EXCLUSIONS = (
    *_openvino("OpenVINO"),
    *_openvino("nGraph, as AvgPool-1"),
    Exclusion("same-short", "ONNX Runtime", "case", moved_pads),
    Exclusion("same-dilated", "ONNX Runtime", "case", moved_pads),
    Exclusion("nan-onnx", "ONNX Runtime", "value", nan_later_in("max")),
    Exclusion("nan-onnx", "ONNX Runtime", "index", nan_later_in("max")),
    Exclusion("empty-max-onnx", "ONNX Runtime", "value", empty_float_maximum),
    Exclusion("empty-index-onnx", "ONNX Runtime", "index", empty_maximum),
    Exclusion("empty-average-onnx", "ONNX Runtime", "value", empty_average),
    Exclusion("nan-index", "PyTorch", "index", repeated_nan),
    Exclusion("empty-index", "PyTorch", "index", empty_maximum),
    Exclusion("integers-pytorch", "PyTorch", "value", truncated),
    Exclusion("nan-tensorflow", "TensorFlow", "value", nan_in("max")),
    Exclusion("nan-index-tensorflow", "TensorFlow", "index", nan_in("max")),
    Exclusion("minus-infinity-tensorflow", "TensorFlow", "value", only_minus_infinity_anywhere),
    Exclusion("same-3d-tensorflow", "TensorFlow", "case", moved_3d),
    Exclusion("lp-digits-pytorch", "PyTorch", "value", cancelled),
)
