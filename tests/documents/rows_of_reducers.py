"""Checks of docs/rules.md: maxima, modes, norms, and what is missing; each row is tried out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from PIL import Image

from poolcli import (
    AdaptiveMaxPool,
    AvgPool,
    LpPool,
    MedianPool,
    ModePool,
    RequestError,
    StdPool,
    SumPool,
    area_pool,
    avg_pool,
    lp_pool,
    max_pool,
    median_pool,
    min_pool,
    mode_pool,
    std_pool,
    sum_pool,
)
from tests.documents.checks import Row, results_of, row_of, table_of
from tests.documents.console import typed
from tests.documents.markdown import Table
from tests.documents.rows_of_plans import RULES, fits, line

nan, inf = np.nan, np.inf


@table_of(RULES, "maxima")
def _extremes(table: Table) -> None:
    for row in table.rows:
        EXTREMES[row[0]]()
    assert [row[0] for row in table.rows] == list(EXTREMES)


def wins(*cases: tuple[list[float], tuple[float, int], tuple[float, int]]) -> None:
    """Which element of one window is the largest and the smallest, and where it is; signs of zeros count."""
    for given, largest, smallest in cases:
        for pool, (value, index) in ((max_pool, largest), (min_pool, smallest)):
            values, indices = pool(line(*given), len(given), return_indices=True)
            assert [str(float(v)) for v in values.ravel()] == [str(float(value))]
            assert indices.tolist() == [[[index]]]


def _nothing_to_compare() -> None:
    for dtype, lowest, highest in (("float32", -inf, inf), ("int8", -128, 127)):
        for pool, nothing in ((max_pool, lowest), (min_pool, highest)):
            x = line(*range(7), dtype=dtype)
            values, indices = pool(x, 2, strides=4, rounding_type="ceil", return_indices=True)
            assert (values[0, 0, 2], indices[0, 0, 2]) == (nothing, -1)


def _positions() -> None:
    for pool, ends in ((max_pool, (15, 7, 3)), (min_pool, (0, 0, 0))):
        x = np.arange(16, dtype="float32").reshape(2, 2, 4)
        found = [pool(x, 4, strides=1, axis=axis, return_indices=True)[1] for axis in (0, 1, 2)]
        corner = -1 if pool is max_pool else 0
        assert tuple(int(at.ravel()[corner]) for at in found) == ends


def _positions_of_bins() -> None:
    x = np.arange(16, dtype="float32").reshape(2, 2, 4)
    assert AdaptiveMaxPool(2)(x, return_indices=True)[1].tolist() == [[[1, 3]] * 2] * 2


EXTREMES: dict[str, Callable[[], None]] = {
    "value": lambda: wins(([3, 5, 5, 2, 2], (5, 1), (2, 3))),
    "nan": lambda: wins(([1, nan, 9, nan], (nan, 1), (nan, 1))),
    "infinities": lambda: wins(([-inf, -inf], (-inf, 0), (-inf, 0)), ([inf, inf], (inf, 0), (inf, 0))),
    "zeros of both signs": lambda: wins(([0.0, -0.0], (0.0, 0), (-0.0, 0)), ([-0.0, 0.0], (0.0, 0), (-0.0, 0))),
    "window without input": _nothing_to_compare,
    "indices": _positions,
    "indices, adaptive": _positions_of_bins,
}


def refused(call: Callable[[], Any], match: str = ".") -> bool:
    """Whether the call is refused, with these words."""
    with pytest.raises(RequestError, match=match):
        call()
    return True


def pooled(op: str, pixels: Any) -> Any:
    """The only pixel of a picture that is pooled by the command."""
    Image.fromarray(np.array([pixels], "uint8")).save("x.png")
    typed(f"poolcli {op} x.png -o y.png -k 1,{len(pixels)} --overwrite")
    with Image.open("y.png") as image:
        return np.asarray(image)


def norms(x: Any, p: float, **more: Any) -> Any:
    """The Lp norms of windows of 2 that do not overlap."""
    return lp_pool(x, 2, strides=2, p=p, **more)


def dtypes(op: Any, *names: str) -> list[str]:
    """The types of the results for these types of the input."""
    return [op.plan((1, 1, 4), name).output_dtype for name in names]


FAR = line(2**40 + 1, 2**40 + 3, dtype="float64")
HALF = line(2**62, 2**62, dtype="int64")  # of what 64 bits hold
FEW = line(5, 1, 3, inf)
LABELS = line(1, 9, 5, 9, 9, 2, dtype="uint8")
GAPS = line(1, -9, 5, 7, -9, -9)
MOST = line(1, -9, 3, -9, -9, 6)
NINES = line(9, 9, 1)

results_of(RULES, {
    "mode": lambda: [
        (mode_pool(line(7, 3, 7, 9, 4, 9, 4, dtype="uint16"), 3, strides=2), [7, 4, 4]),
        (mode_pool(line(9, 3, 3, 9, dtype="int8"), 4), [3]),
    ],
    "modes of colour images": lambda: [
        (pooled("mode", [[9, 1, 0], [2, 7, 0], [2, 3, 0], [9, 1, 0], [5, 5, 0], [5, 6, 0]]), [9, 1, 0]),
    ],
    "padding of modes": lambda: [
        (mode_pool(line(5, 6, 6, dtype="uint8"), 3, strides=3, pads_begin=2, pads_end=1), [5, 6]),
    ],
    "modes of windows without input": lambda: [
        ([fits(ModePool(2, strides=4, rounding_type=word), "uint8", 7) for word in ("ceil", "floor")], [False, True]),
    ],
    "labels": lambda: [
        ([fits(ModePool(2), dtype) for dtype in ("uint8", "int64", "bool", "float16", "bfloat16")], [1, 1, 1, 0, 0]),
    ],
    "median": lambda: [
        (median_pool(line(9, 1, 4, 7), 3), [4, 4]),
        (median_pool(line(9, 1, 4, 7), 4), [5.5]),
        (median_pool(line(0, 1, 2, 3, dtype="int8"), 2), [0, 2, 2]),
    ],
    "medians of floats": lambda: [
        (median_pool(line(nan, 2, 3, -0.0, -0.0), 2), [nan, 2.5, 1.5, 0]),
        (np.signbit(median_pool(line(-0.0, -0.0), 2)), False),
    ],
    "padding of medians": lambda: [
        (median_pool(line(5, 6), 3, strides=3, pads=2), [5, 6]),
        (median_pool(line(5, 6), 1, pads=1), [nan, 5, 6, nan]),
        (fits(MedianPool(1, pads=1), "uint8"), False),
    ],
    "medians of images": lambda: [
        (pooled("median", [[9, 1, 0, 0], [2, 7, 0, 255], [3, 3, 5, 200]]), [3, 3, 0, 200]),
    ],
    "standard deviation": lambda: [
        (std_pool(line(1, 2, 3, 6), 2, strides=2), [0.5, 1.5]),
        (std_pool(line(1, 2, 3), 3, ddof=1), 1),
    ],
    "stability": lambda: [(std_pool(FAR, 2), 1), (std_pool(FAR.astype("int64"), 2), 1)],
    "deviations of integers": lambda: [
        (dtypes(StdPool(2), "bool", "uint8", "int16", "float16", "float32"), ["float32"] * 5),
        (dtypes(StdPool(2), "int32", "uint64", "float64"), ["float64"] * 3),
        (refused(lambda: StdPool(2).plan((1, 1, 4), "uint8", output_dtype="uint8"),
                 "a standard deviation of uint8 needs a float type"), True),
    ],
    "deviations of few": lambda: [
        (std_pool(FEW, 2, pads=1), [0, 2, 1, nan, nan]),
        (std_pool(FEW, 1, ddof=1), [nan] * 4),
    ],
    "sums of integers": lambda: [
        (dtypes(SumPool(2), "bool", "int8", "uint8", "uint64"), ["int64", "int64", "uint64", "uint64"]),
        (sum_pool(line(2**62, 2**62 - 1, dtype="int64"), 2), 2**63 - 1),
        (sum_pool(line(255, 255, dtype="uint8"), 2, dtype="uint16"), 510),
        (refused(lambda: sum_pool(line(255, 255, dtype="uint8"), 2, dtype="uint8")), True),
    ],
    "sums beyond 64 bits": lambda: [
        (dtypes(SumPool(2), "int64"), ["int64"]),
        (refused(lambda: sum_pool(HALF, 2), "dtype='float64'"), True),
        (sum_pool(HALF, 2, dtype="float64"), 2.0**63),
    ],
    "sums of floats": lambda: [
        (sum_pool(line(1, 2**-24, 2**-24), 3), 1 + 2**-23),
        (dtypes(SumPool(2), "float32"), ["float32"]),
    ],
    "padding of sums": lambda: [(sum_pool(line(1, 2), 1, strides=2, pads=1), [0, 2])],
    "norm": lambda: [
        (norms(line(3, -4, 0, -5), 2), [5, 5]),
        (norms(line(3, -4, 0, -5), 1), [7, 5]),
        (LpPool(2).p, 2),
        (fits(lambda: LpPool(2, p=0.5)), False),
    ],
    "padding": lambda: [
        (lp_pool(line(3, 4), 2, strides=2, pads_begin=1, pads_end=1), [3, 4]),
        (lp_pool(line(3, 4), 2, dilations=3, pads_begin=1, pads_end=1), 0),
    ],
    "range": lambda: [
        (norms(line(3 * scale, 4 * scale, dtype=dtype), 2), 5 * scale)
        for dtype, power in (("float32", 100), ("float64", 1000)) for scale in (2.0**power, 2.0**-power)
    ],
    "integers, bool": lambda: [
        ([fits(LpPool(2), dtype) for dtype in ("int8", "bool", "float16")], [False, False, True]),
        (norms(line(3, 4, dtype="uint8"), 2, dtype="float32"), 5),
    ],
    "`--like pytorch`": lambda: [
        (norms(line(3, -4, -3, 4), 1, like="pytorch"), [-1, 1]),
        (norms(line(-3, 2), 3, like="pytorch"), nan),
        (lp_pool(line(1, 1, 2), 2, strides=2, p=1, rounding_type="ceil", like="pytorch"), [2, 4]),
        (fits(LpPool(2, strides=2, pads_begin=1, pads_end=1, like="pytorch")), False),
        (fits(LpPool(2, strides=2, dilations=2, like="pytorch")), False),
    ],
    "missing, a sum": lambda: [
        (avg_pool(GAPS, 3, strides=3, missing=-9), [3, 7]),
        (avg_pool(GAPS, 3, strides=3, missing=-9, divisor_override=2), [3, 3.5]),
        (avg_pool(GAPS, 3, strides=3, pads_begin=1, missing=-9, exclude_pad=False), [0.5, 6]),
        (sum_pool(GAPS, 3, strides=3, missing=-9), [6, 7]),
        (sum_pool(GAPS, 2, strides=2, missing=-9), [1, 12, nan]),
        (lp_pool(GAPS, 3, strides=3, missing=-9, p=1), [6, 7]),
    ],
    "missing, any other": lambda: [
        (pool(LABELS, 3, strides=3, missing=9), expected)
        for pool, expected in ((max_pool, [5, 2]), (min_pool, [1, 2]), (mode_pool, [1, 2]), (median_pool, [3, 2]),
                               (std_pool, [2, 0]))
    ],
    "missing, nothing left": lambda: [
        (found, expected)
        for found, expected in zip(
            max_pool(NINES, 2, strides=2, pads_end=1, missing=[9, 0], return_indices=True), ([nan, 1], [-1, 2]),
            strict=True)
    ] + [
        (avg_pool(NINES.astype("uint8"), 2, missing=[9, 0]), [9, 1]),
        (max_pool(NINES, 2, strides=4, rounding_type="ceil", missing=9)[..., 1:],
         max_pool(NINES, 2, strides=4, rounding_type="ceil")[..., 1:]),
    ],
    "missing, few left": lambda: [
        (avg_pool(MOST, 3, strides=3, missing=-9, min_count=2), [2, nan]),
        *((std_pool(MOST, 3, strides=3, missing=-9, min_count=f"{share}%"), expected)
          for share, expected in ((33, [1, 0]), (34, [1, nan]), (67, [nan, nan]))),
        (area_pool(line(1, -9, 3), 2, missing=-9, min_count="50%"), [1, 3]),  # a window of 1 and half an element
        (area_pool(line(-9, 2, 3), 2, missing=-9, min_count=1)[..., 0], nan),
    ],
    "missing, equality": lambda: [
        (avg_pool(line(0.1, 3), 2, missing=0.1), 3),
        *((refused(partial(AvgPool(2).plan, (1, 1, 2), "uint8", missing=number)), True)
          for number in (-1, 256, 0.5, nan)),
    ],
})  # fmt: skip


@row_of(RULES, "without `--like`", "`--like onnx`", "`--like openvino`, `ngraph`, `tensorflow`")
def _norm_by_dialect(row: Row) -> None:
    assert LpPool(2).like == "onnx"
    assert [fits(lambda p=p: LpPool(2, p=p)) for p in (1, 3, 2.5)] == [True, True, False]
    assert [fits(LpPool(2, strides=2, like=like)) for like in ("openvino", "ngraph", "tensorflow")] == [False] * 3


@row_of(RULES, "missing, colours")
def _missing_of_colours(row: Row) -> None:
    Image.new("RGBA", (4, 4)).save("x.png")
    shown, code = typed("$ poolcli avg x.png -o y.png -k 2 --missing 0")
    assert (code, "--missing is for numbers, and these are colours" in shown) == (2, True)
