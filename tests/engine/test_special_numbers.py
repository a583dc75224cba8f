"""Numbers at the ends of their types, ties, and what is no number: in every engine they do what the rules say."""

from __future__ import annotations

from fractions import Fraction
from math import fsum, prod

import ml_dtypes
import numpy as np
import pytest

import poolcli
from poolcli.arguments import DTypeName, Engine
from poolcli.engine import run
from tests.profiles import sized, slow

pytestmark = pytest.mark.compiles

ENGINES = ("numpy", "numba")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_mean_does_not_depend_on_other_windows_whose_sums_overflow(engine: Engine) -> None:
    window = [[1000.0, 1e20, -1e20], [1e43, -1e20, 1000.0], [-1e43, 1e20, 7.0]]  # the order of additions shows
    means = []
    for other in (1.0, 1.7e308):
        x = np.full((1, 1, 3, 6), other)
        x[..., :3] = window
        means.append(poolcli.avg_pool(x, 3, strides=3, engine=engine)[0, 0, 0].tolist())
    assert means[0][0] == means[1][0]
    assert means[1][1] == 1.7e308


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_mean_of_large_numbers_that_cancel_is_in_range_for_every_output_type(
    engine: Engine, dtype: DTypeName
) -> None:
    x = np.array([[[1.7e308, 1.7e308, -1.7e308, -1.7e308], [1.0, 2.0, 3.0, 4.0], [np.inf, 1.0, 1.0, 1.0]]])
    assert poolcli.avg_pool(x, 4, engine=engine, dtype=dtype).tolist() == [[[0.0], [2.5], [np.inf]]]


FLOATING = {  # an operator, and the type of its output
    "avg": (poolcli.AvgPool(3), "float64"),
    "adaptive-avg": (poolcli.AdaptiveAvgPool(3), "float16"),
    "sum": (poolcli.SumPool(3), "float64"),
    "std": (poolcli.StdPool(3), "float64"),
    "lp": (poolcli.LpPool(3), "bfloat16"),
    "area": (poolcli.AreaPool(2), "float32"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FLOATING)
def test_errors_that_numpy_raises_for_the_caller_are_not_raised_here(name: str, engine: Engine) -> None:
    op, dtype = FLOATING[name]
    x = np.full((1, 2, 9), 1.7e308)
    x[0, 0, 0], x[0, 1] = 5e-324, [1, 2, 3, np.nan, -np.inf, np.inf, 1e-310, -1e200, 1e200]
    for missing in (None, 2):
        plan = op.plan(x.shape, "float64", output_dtype=dtype, missing=missing)
        with np.errstate(all="ignore"):
            expected = run(plan, x, engine=engine)[0].tobytes()
        with np.errstate(all="raise"):
            assert run(plan, x, engine=engine)[0].tobytes() == expected


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("dtype", "rest"), [("float16", 4.0), ("bfloat16", 2.0**-100), ("float32", 2.0**-100)])
def test_what_remains_when_large_numbers_cancel_is_kept_by_short_floats(
    engine: Engine, dtype: DTypeName, rest: float
) -> None:
    x = np.array([[[1.7e308, 1.7e308, -1.7e308, -1.7e308, *[rest] * 4]]])
    assert poolcli.avg_pool(x, 8, engine=engine, dtype=dtype).tolist() == [[[rest / 2]]]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("dtype", "kernel"), [("float64", 3), ("float32", 15)])
def test_a_special_value_touches_only_the_windows_that_hold_it(
    dtype: DTypeName, kernel: int, value: float, engine: Engine
) -> None:
    x, expected = np.ones((1, 1, 60, 70), dtype), np.ones((61 - kernel, 71 - kernel))
    x[0, 0, 30, 40] = value
    expected[31 - kernel : 31, 41 - kernel : 41] = value
    for pool in (poolcli.avg_pool, poolcli.max_pool):
        np.testing.assert_array_equal(pool(x, kernel, engine=engine)[0, 0], expected)


@pytest.mark.parametrize("kernel", [3, 15, 63, 255, 1000])
def test_windows_of_any_size_are_within_a_unit_of_the_last_place(kernel: int) -> None:
    x = (np.random.default_rng(3).standard_normal((1, 1, 1000, 1200)) * 1e3 + 1e4).astype(np.float32)
    means = poolcli.avg_pool(x, kernel, engine="numba")[0, 0]
    for y, z in ((0, 0), (means.shape[0] - 1, 7), (means.shape[0] // 2, means.shape[1] - 1)):
        window = x[0, 0, y : y + kernel, z : z + kernel].ravel().tolist()
        unit = np.spacing(np.float32(fsum(map(abs, window)) / len(window)))
        assert abs(float(means[y, z]) - fsum(window) / len(window)) <= unit


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_short_float_is_the_maximum_of_windows_that_hold_no_other(dtype: DTypeName) -> None:
    every = np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = every.reshape(1, 1, 256, 256).repeat(2, 2).repeat(2, 3)
    found = poolcli.max_pool(x, 2, strides=2, engine="numba").ravel()
    with np.errstate(invalid="ignore"):  # NaN that signals
        is_nan = np.isnan(every)
        np.testing.assert_array_equal(np.isnan(found), is_nan)
    np.testing.assert_array_equal(found[~is_nan].view(np.uint16), every[~is_nan].view(np.uint16))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_short_float_and_every_tie_between_two_is_rounded_as_numpy_does(dtype: DTypeName) -> None:
    short = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    every = np.arange(65536, dtype=np.uint16).view(short).astype(np.float32)
    finite = np.unique(every[np.isfinite(every)]).astype(np.float64)
    ties = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    beside = [np.nextafter(ties, np.float32(sign * np.inf)) for sign in (1, -1)]
    x = np.concatenate([every, ties, *beside, np.array([65519.9, 65520, 1e30, -1e30, 3.4e38], np.float32)])
    with np.errstate(over="ignore", invalid="ignore"):
        expected = (x + np.float32(0)).astype(short).astype(np.float32)  # the mean of -0 is 0, as its sum from 0 on is
    twice = np.repeat(x, 2).reshape(1, 1, -1)
    found = poolcli.avg_pool(twice, 2, strides=2, dtype=dtype, engine="numba").ravel().astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_means_of_pixels_have_their_values_and_signs(dtype: str) -> None:
    ends = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(ends.min, ends.max, (1, 6, 130, 3), dtype, endpoint=True)
    found = poolcli.avg_pool(x, 2, strides=2, layout="NHWC", engine="numba")
    expected = np.rint(x.reshape(3, 2, 65, 2, 3).mean((1, 3)))
    np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("engine", ["numpy", slow("numba")])
def test_bool_has_a_maximum_and_an_average_as_a_number(engine: Engine) -> None:
    x = np.array([[[True, False, False, False]]])
    assert poolcli.max_pool(x, 2, strides=2, engine=engine).tolist() == [[[True, False]]]
    assert poolcli.avg_pool(x, 4, dtype="float32", engine=engine).tolist() == [[[0.25]]]
    assert poolcli.avg_pool(x, 2, strides=2, dtype="int8", engine=engine).tolist() == [[[0, 0]]]


@pytest.mark.parametrize("length", [64, 3 * 64 + 5])
def test_the_place_of_a_maximum_is_found_in_lines_of_any_length(length: int) -> None:
    x = np.zeros((1, 1, length), np.uint8)
    for place in (0, 31, length // 2, length - 1):
        x[0, 0, place] = 9
        values, at = poolcli.adaptive_max_pool(x, 1, return_indices=True, engine="numba")
        assert (values.item(), at.item()) == (9, place)
        x[0, 0, place] = 0


@pytest.mark.parametrize("size", [9, 129], ids=["few windows", "many windows"])
def test_the_first_of_equal_small_floats_is_the_maximum(size: int) -> None:
    x = np.random.default_rng(0).integers(0, 3, (size, size)).astype(np.float32) * np.float32(1e-9)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))[::2, ::2]
    first = windows.reshape(*windows.shape[:2], 9).argmax(axis=2)
    row, column = np.indices(first.shape) * 2
    values, at = poolcli.max_pool(x[None, None], 3, strides=2, return_indices=True, engine="numba")
    np.testing.assert_array_equal(values[0, 0], windows.max((2, 3)))
    np.testing.assert_array_equal(at[0, 0], (row + first // 3) * size + column + first % 3)


SHIFTS = [("uint8", (2, 2)), ("int8", (4, 4)), ("int16", (1, 2)), ("uint32", (8, 1))]
ALL_SHIFTS = [
    (dtype, kernel)
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32")
    for kernel in ((1, 2), (2, 2), (4, 4), (8, 1))
]


@pytest.mark.parametrize(("dtype", "kernel"), sized(SHIFTS, ALL_SHIFTS))
def test_integer_means_over_powers_of_two_are_half_even(dtype: DTypeName, kernel: tuple[int, int]) -> None:
    limits = np.iinfo(dtype)
    ends = np.array([limits.min, limits.min + 1, limits.max - 1, limits.max, 1, 2, 3, 5], dtype)
    x = np.random.default_rng(0).choice(ends, (1, 2, 40, 48))
    means = poolcli.avg_pool(x, kernel, strides=kernel, engine="numba")
    blocks = x.reshape(1, 2, 40 // kernel[0], kernel[0], 48 // kernel[1], kernel[1]).astype(object).sum((3, 5))
    assert means.tolist() == [[[[round(Fraction(n, prod(kernel))) for n in row] for row in c] for c in blocks[0]]]
