"""The numbers themselves, held against exact arithmetic window by window."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

import poolcli
from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, LpPool, MaxPool
from poolcli.arguments import DTypeName, Engine
from poolcli.dtypes import numpy_dtype
from poolcli.engine import run
from tests.profiles import by_engine
from tests.reducers import MINIMUM, Under, power, windows_of

ENGINES = ("numpy", "numba")
slow = pytest.mark.slow  # what compiles kernels that nothing else needs
WINDOWS: dict[str, Any] = {
    "sliding": AvgPool((3, 2), strides=(2, 1), pads_begin=(1, 0), pads_end=(1, 1)),
    "dilated": AvgPool((2, 3), strides=1, pads=2, dilations=(3, 2)),
    "overhanging": AvgPool(3, strides=3, pads=1, rounding_type="ceil"),
    "bins": AdaptiveAvgPool((4, 3)),
}


def units_from(found: Any, exact: Decimal | Fraction) -> float:
    """How many units in the last place of the result's type lie between it and the exact number."""
    near = np.asarray(float(exact)).astype(found.dtype)
    return abs(float((Fraction(float(found)) - Fraction(exact)) / Fraction(float(np.spacing(abs(near))))))


def root_of(elements: list[Any], p: float) -> Decimal:
    with localcontext(prec=80):
        total = sum((abs(Decimal(float(e))) ** Decimal(p) for e in elements), Decimal(0))
        return total ** (1 / Decimal(p)) if total else Decimal(0)


ROOTS = list(product(["float16", "float32", "float64", "uint8", "int32"], [1, 2, 3, 2.5, 6], WINDOWS))
ROWS_OF_ZEROS = {
    "3": MaxPool((1, 3), strides=1),
    "4": MaxPool((1, 4), strides=1),
    "pairs": MaxPool((1, 2), strides=(1, 2)),
    "bins": AdaptiveMaxPool((16, 3)),
}
ZEROS = list(product(["float16", "float32", "float64", "bfloat16"], [False, True], ROWS_OF_ZEROS))


@pytest.mark.parametrize(
    ("dtype", "p", "name", "engine"),
    by_engine(*ROOTS, compiled=(("float32", 2, "sliding"), ("float64", 3, "bins"))),
)
def test_the_root_of_a_sum_of_powers_is_the_nearest_number(
    name: str, dtype: DTypeName, p: float, engine: Engine
) -> None:
    noise = np.random.default_rng(5).normal(size=(1, 2, 9, 7)) * 40
    x = noise.astype(dtype) if dtype.startswith("f") else abs(noise).astype(dtype)
    plan = Under(WINDOWS[name], power(p)).plan(x.shape, dtype, output_dtype=None if dtype[0] == "f" else "float32")
    y, _ = run(plan, x, engine=engine)
    most = 1.5 if dtype == "float64" else 0.5001
    for place, elements in windows_of(plan, x):
        assert units_from(y[place], root_of(elements, p)) <= most


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("p", "sizes"),
    [(2, [1e200, 3e200, 0.0, 5.0]), (2, [1e-200, 3e-200, 0.0, 2e-200]),
     (2, [1e-160, 3e-161, 0.0, 7e-161]), (2, [0.0, 0.0, 0.0, 0.0]), (100, [3.0, 2.0, 1e-3, 0.0]),
     (100, [1e-30, 3e-30, 0.0, 0.0]), (3, [1e308, 1e308, 1e308, 1e308]), (2, [5e-324, 0.0, 0.0, 0.0])],
)  # fmt: skip
def test_powers_beyond_the_range_of_float64_give_the_root_within_it(
    p: float, sizes: list[float], engine: Engine
) -> None:
    x = np.array(sizes).reshape(1, 1, 4)
    y, _ = run(Under(AvgPool(4), power(p)).plan(x.shape, "float64"), x, engine=engine)
    exact = root_of(sizes, p)
    if exact > Decimal("1.7976931348623157e308"):
        assert y.item() == np.inf
    else:
        assert units_from(y[0, 0, 0], exact) <= 3


@pytest.mark.parametrize("engine", ENGINES)
def test_a_window_is_as_it_would_be_alone_whatever_lies_beside_it(engine: Engine) -> None:
    x = np.array([3.0, 4, 1e200, 2e200, np.nan, 1, np.inf, 2, 1e-200, 1e-200, 0, 0]).reshape(1, 1, 12)
    y, _ = run(Under(AvgPool(2, strides=2), power(2)).plan(x.shape, "float64"), x, engine=engine)
    alone = [run(Under(AvgPool(2), power(2)).plan((1, 1, 2), "float64"), x[..., i : i + 2])[0] for i in range(0, 12, 2)]
    np.testing.assert_array_equal(y, np.concatenate(alone, 2))
    np.testing.assert_array_equal(y[0, 0, [0, 2, 3, 5]], [5, np.nan, np.inf, 0])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_root_of_nothing_is_0(engine: Engine) -> None:
    plan = Under(AvgPool(2, strides=3, pads=4, exclude_pad=False), power(2)).plan((1, 1, 3))
    assert plan.empty_windows
    assert run(plan, np.full((1, 1, 3), 2, np.float32), engine=engine)[0].tolist() == [[[0, 2, 2, 0]]]


SIGNED = [
    *(("float64", p, size) for p in (1, 2, 3, 2.5) for size in (1.0, 1e130)),
    *(("float32", p, 1.0) for p in (1, 2, 3)),
]


@pytest.mark.parametrize(("dtype", "p", "size", "engine"), by_engine(*SIGNED, compiled=()))
def test_signed_powers_are_averaged_and_multiplied_by_the_kernel(
    dtype: DTypeName, p: float, size: float, engine: Engine
) -> None:
    x = (np.random.default_rng(3).normal(size=(1, 1, 6, 8)) + 0.3).astype(dtype)
    op = AvgPool(3, strides=2, rounding_type="ceil", like="pytorch")
    y, _ = run(Under(op, power(p, signed=True)).plan(x.shape, dtype), x * x.dtype.type(size), engine=engine)
    plan = op.plan(x.shape, dtype)
    with np.errstate(invalid="ignore"):
        for place, elements in windows_of(plan, x.astype(np.float64)):
            divisor = prod(w.divisor(o) for w, o in zip(plan.windows, place[2:], strict=True))
            total = np.sum(np.array(elements) ** p) / divisor * 9
            exact = total if p == 1 else total ** (1 / p)
            np.testing.assert_allclose(y[place] / size, exact, rtol=1e-12 if dtype == "float64" else 6e-8)


@pytest.mark.parametrize(("p", "engine"), by_engine((1,), (2,), (3,), compiled=()))
def test_float64_roots_of_float32_keep_every_digit(p: float, engine: Engine) -> None:
    noise = np.random.default_rng(10).normal(size=(2, 2000))
    x = (noise[0] * np.exp(noise[1] * 4)).astype(np.float32)
    plan = Under(AvgPool(2000), power(p)).plan((1, 1, 2000), output_dtype="float64")
    y, _ = run(plan, x.reshape(1, 1, -1), engine=engine)
    assert units_from(y[0, 0, 0], root_of(x.tolist(), p)) <= 1.5


@pytest.mark.parametrize(("dtype", "indices", "name", "engine"), by_engine(*ZEROS, compiled=(("float32", False, "3"),)))
def test_among_zeros_of_both_signs_a_maximum_is_plus_0_and_a_minimum_minus_0(
    dtype: DTypeName, indices: bool, name: str, engine: Engine
) -> None:
    zeros = np.array(list(product([0.0, -0.0], repeat=4)), numpy_dtype(dtype))
    x = zeros.reshape(1, 1, 16, 4)
    op: Any = ROWS_OF_ZEROS[name]
    for best, plan in ((max, op.plan(x.shape, x.dtype)), (min, Under(op, MINIMUM).plan(x.shape, x.dtype))):
        y, at = run(plan, x, engine=engine, indices=indices)
        for place, elements in windows_of(plan, x):
            signs = [np.copysign(1, float(e)) for e in elements]
            assert np.copysign(1, float(y[place])) == best(signs)
            if at is not None:  # zeros are equal: the first is found
                assert at[place] % 64 == place[2] * 4 + plan.windows[1].span(place[3])[0]


@pytest.mark.parametrize(("kernel", "engine"), by_engine((4,), (2,), (8,), compiled=((4,),)))
def test_sums_that_leave_the_range_in_both_directions_have_a_mean(kernel: int, engine: Engine) -> None:
    a = 1.7e308
    x = np.array([a, a, -a, -a, a, a, -a, -a]).reshape(1, 1, 8)
    y = poolcli.avg_pool(x, kernel, engine=engine)
    for place, elements in windows_of(AvgPool(kernel).plan(x.shape, "float64"), x):
        assert Fraction(y[place]) == sum(map(Fraction, elements), Fraction(0)) / kernel


@pytest.mark.parametrize("engine", ENGINES)
def test_a_sum_beyond_the_range_is_infinite_without_a_warning(engine: Engine) -> None:
    x = np.array([1.7e308, 1.7e308, np.nan, 1]).reshape(1, 1, 4)
    y = poolcli.avg_pool(x, 2, divisor_override=1, engine=engine)
    np.testing.assert_array_equal(y, [[[np.inf, np.nan, np.nan]]])


@pytest.mark.parametrize(
    ("dtype", "engine"), by_engine(("float32",), ("float64",), compiled=(("float32",), ("float64",)))
)
def test_a_sum_of_minus_0_is_0_before_it_is_divided(dtype: DTypeName, engine: Engine) -> None:
    x = np.full((1, 2, 12, 12), -0.0, dtype)
    for kernel, divisor in ((2, 3), (3, -3), (3, -2), (3, -(2**25))):
        y = poolcli.avg_pool(x, kernel, strides=kernel, divisor_override=divisor, engine=engine)
        assert np.unique(np.signbit(y)).tolist() == [divisor < 0]


QUOTIENTS = [
    ("uint8", (235, 279), None), ("uint8", (255, 257), None), ("uint8", (255, 257), 65793), ("int8", (303, 217), None),
    ("uint8", (33, 17), 4_000_001), ("uint8", (33, 17), 8_388_609), ("uint32", (1025, 1027), None),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "shape", "override", "engine"), by_engine(*QUOTIENTS, compiled=tuple(QUOTIENTS[:3])))
def test_quotients_beside_a_half_are_rounded_to_their_own_side(
    dtype: DTypeName, shape: tuple[int, int], override: int | None, engine: Engine
) -> None:
    count = shape[0] * shape[1]
    divisor = override or count
    high = np.iinfo(dtype).max
    largest = 2 * int(high) * count // divisor
    for half in {half for half in (1, 3, 257, (largest - 1) // 2 * 2 - 1) if 0 < half < largest}:
        for total in (half * divisor // 2, half * divisor // 2 + 1):
            quotient, rest = divmod(total, count)
            x = np.full(count, quotient, dtype)
            x[:rest] += 1
            y = poolcli.avg_pool(x.reshape(1, 1, *shape), shape, divisor_override=override, engine=engine)
            assert y.item() == round(Fraction(total, divisor))


@pytest.mark.parametrize(("less", "engine"), by_engine((0,), (1,), (2,), (3,), (4,), (5,), compiled=((1,), (2,))))
def test_quotients_of_sums_that_float64_cannot_halve_are_rounded_exactly(less: int, engine: Engine) -> None:
    x = np.full((1, 1, 1253, 1259), 2**32 - 1, np.uint32)
    x[0, 0, 0, 0] -= less
    y = poolcli.avg_pool(x, x.shape[2:], divisor_override=3, dtype="uint64", engine=engine)
    assert y.item() == round(Fraction((2**32 - 1) * x.size - less, 3))


@pytest.mark.parametrize("engine", ENGINES)
def test_float64_means_are_the_nearest_number_to_the_exact_one(engine: Engine) -> None:
    x = np.array([1.2373220857529432, 1.891115448112266, 1.980648184605899, 1.731335357005893, 1.2545199320610503])
    noise = np.random.default_rng(9).normal(size=3000) ** 3
    for values in (x, *noise.reshape(-1, 5), noise, -noise):
        exact = sum(map(Fraction, values.tolist()), Fraction(0)) / values.size
        y = poolcli.avg_pool(values.reshape(1, 1, -1), values.size, engine=engine)
        assert units_from(y[0, 0, 0], exact) <= 0.5001


@pytest.mark.parametrize("divisor", [2**31 - 1, 3 * 2**29 - 5, 2**27 + 1, -(2**30 + 7)])
@pytest.mark.parametrize("engine", ENGINES)
def test_float64_sums_over_a_divisor_of_many_bits_are_rounded_once(engine: Engine, divisor: int) -> None:
    x = np.random.default_rng(11).random((1, 1, 2000)) + 1
    y = poolcli.avg_pool(x, 5, strides=5, divisor_override=divisor, engine=engine).ravel()
    exact = [sum(map(Fraction, window), Fraction(0)) / divisor for window in x.reshape(-1, 5).tolist()]
    assert y.tolist() == [float(value) for value in exact]


@pytest.mark.parametrize("engine", ENGINES)
def test_float64_means_of_float32_keep_every_digit(engine: Engine) -> None:
    noise = np.random.default_rng(10).normal(size=(2, 20_000))
    x = (noise[0] * np.exp(noise[1] * 8)).astype(np.float32)
    exact = sum(map(Fraction, x.tolist()), Fraction(0)) / x.size
    y = poolcli.avg_pool(x.reshape(1, 1, -1), x.size, dtype="float64", engine=engine)
    assert units_from(y[0, 0, 0], exact) <= 0.5001


@pytest.mark.parametrize(("dtype", "engine"), by_engine(("float32",), ("float64",), compiled=(("float32",),)))
@pytest.mark.parametrize(("p", "expected"), [(1, [-np.inf, np.nan, np.inf]), (3, [np.inf, np.nan, np.inf])])
def test_signed_roots_of_infinities_are_those_of_pytorch(
    p: float, expected: list[float], dtype: str, engine: Engine
) -> None:
    x = np.array([[[-np.inf, 1, -np.inf, np.inf, np.inf, 3]]], dtype)
    y, _ = run(LpPool(2, p=p, like="pytorch").plan(x.shape, dtype), x, engine=engine)
    np.testing.assert_array_equal(y[0, 0], expected)


CANCELLING = list(product(["float32", "float64", "bfloat16"], WINDOWS))


@pytest.mark.parametrize(
    ("dtype", "name", "engine"), by_engine(*CANCELLING, compiled=(("float32", "sliding"), ("float64", "bins")))
)
def test_means_of_numbers_that_cancel_have_no_more_than_the_rounding_errors_of_their_sums(
    dtype: str, name: str, engine: Engine
) -> None:
    x = np.random.default_rng(13).choice((1e30, -1e30, 7e13, -0.1), (1, 2, 9, 7)).astype(numpy_dtype(dtype))
    plan = WINDOWS[name].plan(x.shape, dtype)
    y, _ = run(plan, x, engine=engine)
    each, order = Fraction(1, 2**53), 2 if dtype == "float64" else 1  # sums of float64 carry their errors
    for place, elements in windows_of(plan, x):
        numbers = [Fraction(float(element)) for element in elements]
        exact, magnitude = (sum(some, Fraction(0)) / len(numbers) for some in (numbers, map(abs, numbers)))
        error = magnitude * (len(numbers) * each) ** order
        assert abs(Fraction(float(y[place])) - exact) <= error + Fraction(float(np.spacing(abs(y[place]))))


@pytest.mark.compiles
@pytest.mark.parametrize(("kernel", "stride"), [(7, 2), (5, 1), (3, 2), (2, 2)])
def test_float32_means_are_the_same_bits_in_both_engines_and_ties_are_even(kernel: int, stride: int) -> None:
    x = np.random.default_rng(11).random((1, 1, 67, 67)).astype(np.float32)
    plan = AvgPool(kernel, strides=stride).plan(x.shape)
    a, b = (run(plan, x, engine=engine)[0] for engine in ENGINES)
    np.testing.assert_array_equal(a.view(np.int32), b.view(np.int32))
    ties = 0
    for place, elements in windows_of(plan, x):
        exact = sum(map(Fraction, map(float, elements)), Fraction(0)) / kernel**2
        units = units_from(a[place], exact)
        assert units <= 0.5
        ties += units == 0.5
        assert units < 0.5 or not a.view(np.int32)[place] & 1
    assert ties or kernel not in (2, 5)
