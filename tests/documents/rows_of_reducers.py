"""Checks of docs/rules.md: maxima, modes, norms, and what is missing; each row is tried out."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
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
from tests.documents.checks import Row, row_of, table_of
from tests.documents.console import typed
from tests.documents.markdown import Table
from tests.documents.rows_of_plans import RULES, fits, line


@table_of(RULES, "maxima")
def _extremes(table: Table) -> None:
    for row in table.rows:
        EXTREMES[row[0]]()
    assert [row[0] for row in table.rows] == list(EXTREMES)


def wins(given: list[float], largest: tuple[float, int], smallest: tuple[float, int]) -> None:
    """Which element of one window wins, and where it is; signs of zeros count."""
    for pool, (value, index) in ((max_pool, largest), (min_pool, smallest)):
        values, indices = pool(line(*given), len(given), return_indices=True)
        assert [str(float(v)) for v in values.ravel()] == [str(float(value))]
        assert indices.tolist() == [[[index]]]


def _infinities() -> None:
    for infinity in (-np.inf, np.inf):
        wins([infinity, infinity], (infinity, 0), (infinity, 0))


def _zeros() -> None:
    wins([0.0, -0.0], (0.0, 0), (-0.0, 0))
    wins([-0.0, 0.0], (0.0, 0), (-0.0, 0))


def _nothing_to_compare() -> None:
    for dtype, lowest, highest in (("float32", -np.inf, np.inf), ("int8", -128, 127)):
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
    "value": lambda: wins([3, 5, 5, 2, 2], (5, 1), (2, 3)),
    "nan": lambda: wins([1, np.nan, 9, np.nan], (np.nan, 1), (np.nan, 1)),
    "infinities": _infinities,
    "zeros of both signs": _zeros,
    "window without input": _nothing_to_compare,
    "indices": _positions,
    "indices, adaptive": _positions_of_bins,
}


@row_of(RULES, "mode")
def _mode(row: Row) -> None:
    assert mode_pool(line(7, 3, 7, 9, 4, 9, 4, dtype="uint16"), 3, strides=2).tolist() == [[[7, 4, 4]]]
    assert mode_pool(line(9, 3, 3, 9, dtype="int8"), 4).tolist() == [[[3]]]


@row_of(RULES, "modes of colour images")
def _whole_pixels(row: Row) -> None:
    pixels = np.array([[[9, 1, 0], [2, 7, 0], [2, 3, 0], [9, 1, 0], [5, 5, 0], [5, 6, 0]]], "uint8")
    Image.fromarray(pixels).save("labels.png")
    typed("poolcli mode labels.png -o modes.png -k 1,6")
    with Image.open("modes.png") as image:
        assert np.asarray(image).tolist() == [[[9, 1, 0]]]


@row_of(RULES, "padding of modes")
def _votes(row: Row) -> None:
    padded = mode_pool(line(5, 6, 6, dtype="uint8"), 3, strides=3, pads_begin=2, pads_end=1)
    assert padded.tolist() == [[[5, 6]]]


@row_of(RULES, "modes of windows without input")
def _mode_of_nothing(row: Row) -> None:
    assert [fits(ModePool(2, 4, rounding_type=word), "uint8", 7) for word in ("ceil", "floor")] == [False, True]


@row_of(RULES, "labels")
def _labels(row: Row) -> None:
    types = ("uint8", "int64", "bool", "float16", "bfloat16")
    assert [fits(ModePool(2), dtype) for dtype in types] == [True, True, True, False, False]


@row_of(RULES, "median")
def _median(row: Row) -> None:
    assert median_pool(line(9, 1, 4, 7), 3).tolist() == [[[4, 4]]]
    assert median_pool(line(9, 1, 4, 7), 4).tolist() == [[[5.5]]]
    assert median_pool(line(0, 1, 2, 3, dtype="int8"), 2).tolist() == [[[0, 2, 2]]]


@row_of(RULES, "medians of floats")
def _median_of_floats(row: Row) -> None:
    found = median_pool(line(float("nan"), 2, 3, -0.0, -0.0), 2)
    np.testing.assert_array_equal(found, [[[float("nan"), 2.5, 1.5, 0]]])
    assert not np.signbit(found[0, 0, -1])


@row_of(RULES, "padding of medians")
def _padding_of_medians(row: Row) -> None:
    assert median_pool(line(5, 6), 3, strides=3, pads=2).tolist() == [[[5, 6]]]
    assert isnan(median_pool(line(5, 6), 1, pads=1)[0, 0, 0])
    assert not fits(MedianPool(1, pads=1), "uint8")


@row_of(RULES, "medians of images")
def _median_of_images(row: Row) -> None:
    pixels = np.array([[[9, 1, 0, 0], [2, 7, 0, 255], [3, 3, 5, 200]]], "uint8")
    Image.fromarray(pixels).save("x.png")
    typed("poolcli median x.png -o y.png -k 1,3")
    with Image.open("y.png") as image:
        assert np.asarray(image).tolist() == [[[3, 3, 0, 200]]]


@row_of(RULES, "standard deviation", "stability")
def _deviation(row: Row) -> None:
    x = line(1, 2, 3, 6)
    assert std_pool(x, 2, strides=2).tolist() == [[[0.5, 1.5]]]
    assert std_pool(x, 3, ddof=1)[0, 0, 0] == 1
    far = line(2**40 + 1, 2**40 + 3, dtype="float64")
    assert std_pool(far, 2).tolist() == std_pool(far.astype("int64"), 2).tolist() == [[[1]]]


@row_of(RULES, "deviations of integers")
def _deviations_of_integers(row: Row) -> None:
    names = ("bool", "uint8", "int16", "float16", "float32", "int32", "uint64", "float64")
    types = [StdPool(2).plan((1, 1, 4), name).output_dtype for name in names]
    assert types == ["float32"] * 5 + ["float64"] * 3
    with pytest.raises(RequestError, match="a standard deviation of uint8 needs a float type"):
        StdPool(2).plan((1, 1, 4), "uint8", output_dtype="uint8")


@row_of(RULES, "deviations of few")
def _deviations_of_few(row: Row) -> None:
    x = line(5, 1, 3, float("inf"))
    np.testing.assert_array_equal(std_pool(x, 2, pads=1), [[[0, 2, 1, float("nan"), float("nan")]]])
    np.testing.assert_array_equal(std_pool(x, 1, ddof=1), [[[float("nan")] * 4]])


@row_of(RULES, "sums of integers")
def _sums_of_integers(row: Row) -> None:
    types = {name: sum_pool(line(1, 1, dtype=name), 2).dtype.name for name in ("bool", "int8", "uint8", "uint64")}
    assert types == {"bool": "int64", "int8": "int64", "uint8": "uint64", "uint64": "uint64"}
    assert sum_pool(line(2**62, 2**62 - 1, dtype="int64"), 2).tolist() == [[[2**63 - 1]]]
    assert sum_pool(line(255, 255, dtype="uint8"), 2, dtype="uint16").tolist() == [[[510]]]
    with pytest.raises(RequestError):
        sum_pool(line(255, 255, dtype="uint8"), 2, dtype="uint8")


@row_of(RULES, "sums beyond 64 bits")
def _sums_beyond(row: Row) -> None:
    x = line(2**62, 2**62, dtype="int64")
    assert SumPool(2).plan(x.shape, x.dtype).output_dtype == "int64"
    with pytest.raises(RequestError, match="dtype='float64'"):
        sum_pool(x, 2)
    assert sum_pool(x, 2, dtype="float64").tolist() == [[[2.0**63]]]


@row_of(RULES, "sums of floats")
def _sums_of_floats(row: Row) -> None:
    found = sum_pool(line(1, 2**-24, 2**-24), 3)
    assert (found.tolist(), found.dtype.name) == ([[[1 + 2**-23]]], "float32")


@row_of(RULES, "padding of sums")
def _padding_of_sums(row: Row) -> None:
    assert sum_pool(line(1, 2), 1, strides=2, pads=1).tolist() == [[[0, 2]]]


def norms(x: Any, p: float, **more: Any) -> list[Any]:
    """The Lp norms of windows of 2 that do not overlap."""
    found: list[Any] = lp_pool(x, 2, strides=2, p=p, **more).tolist()[0][0]
    return found


@row_of(RULES, "norm")
def _norm(row: Row) -> None:
    assert norms(line(3, -4, 0, -5), 2) == [5, 5]
    assert norms(line(3, -4, 0, -5), 1) == [7, 5]
    assert LpPool(2).p == 2
    assert not fits(lambda: LpPool(2, p=0.5))


@row_of(RULES, "padding")
def _norm_of_padding(row: Row) -> None:
    assert lp_pool(line(3, 4), 2, strides=2, pads_begin=1, pads_end=1).tolist() == [[[3, 4]]]
    assert lp_pool(line(3, 4), 2, dilations=3, pads_begin=1, pads_end=1).tolist() == [[[0]]]


@row_of(RULES, "range")
def _norm_in_range(row: Row) -> None:
    for scale in (2.0**100, 2.0**-100):
        assert norms(line(3 * scale, 4 * scale), 2) == [5 * scale]
    for scale in (2.0**1000, 2.0**-1000):
        assert norms(line(3 * scale, 4 * scale, dtype="float64"), 2) == [5 * scale]


@row_of(RULES, "integers, bool")
def _norm_of_integers(row: Row) -> None:
    assert [fits(LpPool(2), dtype) for dtype in ("int8", "bool", "float16")] == [False, False, True]
    assert norms(line(3, 4, dtype="uint8"), 2, dtype="float32") == [5]


@row_of(RULES, "without `--like`", "`--like onnx`", "`--like openvino`, `ngraph`, `tensorflow`")
def _norm_by_dialect(row: Row) -> None:
    assert LpPool(2).like == "onnx"
    assert [fits(lambda p=p: LpPool(2, p=p)) for p in (1, 3, 2.5)] == [True, True, False]
    assert [fits(LpPool(2, 2, like=like)) for like in ("openvino", "ngraph", "tensorflow")] == [False] * 3


@row_of(RULES, "`--like pytorch`")
def _norm_of_pytorch(row: Row) -> None:
    assert norms(line(3, -4, -3, 4), 1, like="pytorch") == [-1, 1]
    assert isnan(norms(line(-3, 2), 3, like="pytorch")[0])
    clipped = lp_pool(line(1, 1, 2), 2, strides=2, p=1, rounding_type="ceil", like="pytorch")
    assert clipped.tolist() == [[[2, 4]]]
    padded = LpPool(2, 2, pads_begin=1, pads_end=1, like="pytorch")
    refused = [fits(op) for op in (padded, LpPool(2, 2, dilations=2, like="pytorch"))]
    assert refused == [False, False]


@row_of(RULES, "missing, a sum")
def _missing_of_a_sum(row: Row) -> None:
    x = line(1, -9, 5, 7, -9, -9)
    assert avg_pool(x, 3, strides=3, missing=-9).tolist() == [[[3, 7]]]
    assert avg_pool(x, 3, strides=3, missing=-9, divisor_override=2).tolist() == [[[3, 3.5]]]
    assert avg_pool(x, 3, strides=3, pads_begin=1, missing=-9, exclude_pad=False).tolist() == [[[0.5, 6]]]
    assert sum_pool(x, 3, strides=3, missing=-9).tolist() == [[[6, 7]]]
    assert isnan(sum_pool(x, 2, strides=2, missing=-9)[0, 0, 2])
    assert lp_pool(x, 3, strides=3, missing=-9, p=1).tolist() == [[[6, 7]]]


@row_of(RULES, "missing, any other")
def _missing_of_a_comparison(row: Row) -> None:
    x = line(1, 9, 5, 9, 9, 2, dtype="uint8")
    for pool, expected in (
        (max_pool, [5, 2]),
        (min_pool, [1, 2]),
        (mode_pool, [1, 2]),
        (median_pool, [3, 2]),
        (std_pool, [2, 0]),
    ):
        assert pool(x, 3, strides=3, missing=9).tolist() == [[expected]]


@row_of(RULES, "missing, nothing left")
def _missing_alone(row: Row) -> None:
    x = line(9, 9, 1)
    values, at = max_pool(x, 2, strides=2, pads_end=1, missing=[9, 0], return_indices=True)
    assert (isnan(values[0, 0, 0]), at.tolist()) == (True, [[[-1, 2]]])
    assert avg_pool(x.astype("uint8"), 2, missing=[9, 0]).tolist() == [[[9, 1]]]
    values = max_pool(x, 2, strides=4, rounding_type="ceil", missing=9)
    assert values.tolist()[0][0][1:] == max_pool(x, 2, strides=4, rounding_type="ceil").tolist()[0][0][1:]


@row_of(RULES, "missing, few left")
def _missing_of_few(row: Row) -> None:
    x = line(1, -9, 3, -9, -9, 6)
    assert avg_pool(x, 3, strides=3, missing=-9, min_count=2).tolist()[0][0][0] == 2
    shares = [std_pool(x, 3, strides=3, missing=-9, min_count=f"{share}%") for share in (33, 34, 67)]
    assert [int(np.isnan(found).sum()) for found in shares] == [0, 1, 2]
    shared = area_pool(line(1, -9, 3), 2, missing=-9, min_count="50%")  # a window of 1 and half an element
    assert shared.tolist() == [[[1, 3]]]
    assert isnan(area_pool(line(-9, 2, 3), 2, missing=-9, min_count=1)[0, 0, 0])


@row_of(RULES, "missing, equality")
def _missing_by_equality(row: Row) -> None:
    assert avg_pool(line(0.1, 3), 2, missing=0.1).tolist() == [[[3]]]
    for number in (-1, 256, 0.5, float("nan")):
        with pytest.raises(RequestError):
            AvgPool(2).plan((1, 1, 2), "uint8", missing=number)


@row_of(RULES, "missing, colours")
def _missing_of_colours(row: Row) -> None:
    Image.new("RGBA", (4, 4)).save("x.png")
    shown, code = typed("$ poolcli avg x.png -o y.png -k 2 --missing 0")
    assert (code, "--missing is for numbers, and these are colours" in shown) == (2, True)
