"""Every result is the exact one rounded once to its type, whatever computes it: held against fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import poolcli
from poolcli.arguments import DTypeName, Engine
from poolcli.dtypes import numpy_dtype
from poolcli.engine.numpy.sums import storable
from tests.engine.exact import nearest
from tests.profiles import by_engine, sized

FLOATS = ("bfloat16", "float16", "float32", "float64")
SHORT = FLOATS[:3]
INTEGERS = ("uint8", "int16", "int32", "uint32", "int64", "uint64")
ENGINES = ("numpy", "numba")


def middles(dtype: Any) -> list[Fraction]:
    """Numbers in the middle of two neighbours of the float type, of all sizes that integers and floats share."""
    bits = {"bfloat16": 8, "float16": 11, "float32": 24}[dtype]
    heads = (2 * 2 ** (bits - 1) + 1, 2 * 2 ** (bits - 1) + 3, 2 * 2**bits - 1, 2 * (2**bits - 2) + 1)
    return [Fraction(head) * Fraction(2) ** shift for head in heads for shift in range(-8, 63 - bits)]


def beside(middle: Fraction) -> list[Fraction]:
    """A number, and those a little to its sides that float64 tells from it, and float32 does not always."""
    near = [middle * (1 + Fraction(sign, 2**b)) for sign in (1, -1) for b in (26, 30, 45)]
    return [sign * value for value in (middle, *near) for sign in (1, -1)]


@pytest.mark.parametrize("dtype", SHORT)
def test_floats_become_shorter_in_one_rounding(dtype: Any) -> None:
    tiny = [Fraction(n, 2) * Fraction(2) ** e for n in (1, 2, 3, 5) for e in (-24, -133, -149)]
    large = [Fraction(float(ml_dtypes.finfo(dtype).max)) * (1 + Fraction(n, 2**13)) for n in range(20)]
    wanted = [v for m in (*middles(dtype), *tiny, *large) for v in beside(m)]
    x = np.array([float(v) for v in wanted])
    out = np.empty(x.shape, numpy_dtype(dtype))
    with np.errstate(over="ignore"):
        out[...] = storable(x, out.dtype)
    assert [float(v) for v in out] == [nearest(Fraction(v), out.dtype) for v in x.tolist()]
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0])
    assert str(storable(special, out.dtype).astype(np.float64)) == str(special)


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("source", ["int32", "uint32", "int64", "uint64"])
def test_integers_become_floats_in_one_rounding(source: str, dtype: Any) -> None:
    x = np.array(integers_beside_middles(source, dtype), source)
    out = np.empty(x.shape, numpy_dtype(dtype))
    with np.errstate(over="ignore"):
        out[...] = storable(x, out.dtype)
    assert [float(v) for v in out] == [nearest(Fraction(v), out.dtype) for v in x.tolist()]


def integers_beside_middles(source: str, dtype: Any) -> list[int]:
    """Integers of a type that are the middle of two floats, or by 1 to 3 more or less."""
    limits = np.iinfo(source)
    around = {sign * int(m) + d for m in middles(dtype) if m.denominator == 1 for d in range(-3, 4) for sign in (1, -1)}
    return sorted(v for v in around | {0, 1, int(limits.min), int(limits.max)} if limits.min <= v <= limits.max)


PAIRS = [*product(INTEGERS, FLOATS)]
COMPILED = (("int64", "bfloat16"), ("uint64", "float32"), ("int64", "float64"), ("int32", "bfloat16"))


ALONE = [(*pair, like_max) for like_max in (False, True) for pair in PAIRS]
COMPILED_ALONE = *((*pair, False) for pair in COMPILED), (*COMPILED[0], True)


@pytest.mark.parametrize(("source", "target", "like_max", "engine"), by_engine(*ALONE, compiled=COMPILED_ALONE))
def test_one_integer_as_a_float_is_rounded_once(source: str, target: DTypeName, like_max: bool, engine: Engine) -> None:
    values = integers_beside_middles(source, target if target != "float64" else "float32")
    values += [v for v in (2**53 + 1, 2**53 + 3, 2**63 - 1, 2**62 + 257) if v <= np.iinfo(source).max]
    x = np.array(values, source).reshape(1, 1, -1)
    op: Any = poolcli.MaxPool(1) if like_max else poolcli.AvgPool(1)
    y = op(x, dtype=target, engine=engine)
    assert [float(v) for v in y.ravel()] == [nearest(Fraction(v), y.dtype) for v in values]


DIVISORS = sized((None, -7, 2**24 + 1), (None, 3, -7, 2**24 + 1, 2**31 - 1, -(2**30 + 7)))


@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize(("source", "target", "engine"), by_engine(*PAIRS, compiled=COMPILED))
def test_averages_of_integers_are_the_exact_ones_rounded_once(
    source: str, target: DTypeName, engine: Engine, divisor: int | None
) -> None:
    limits = np.iinfo(source)
    rng = np.random.default_rng(3)
    x = rng.integers(limits.min, limits.max, (400, 5), source, endpoint=True)
    by = divisor or 5
    aimed = [m * by for m in middles(target if target != "float64" else "float32")]  # sums whose quotients are middles
    sums = [int(m) + d for m in aimed for d in (-1, 0, 1) if 5 * limits.min <= int(m) + d <= 5 * limits.max]
    rows = [[total // 5 + (i < total % 5) for i in range(5)] for total in sums]
    rows += [[0] * 5, [int(limits.max)] * 5, [int(limits.min)] * 5]
    x = np.concatenate([x, np.array([row for row in rows if max(row) <= limits.max], source)]).reshape(1, 1, -1)
    y = poolcli.avg_pool(x, 5, strides=5, divisor_override=divisor, dtype=target, engine=engine)
    exact = [Fraction(sum(window), by) for window in x.reshape(-1, 5).tolist()]
    assert [float(v) for v in y.ravel()] == [nearest(value, y.dtype) for value in exact]


@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize(
    ("source", "target", "engine"),
    by_engine(*product(FLOATS, FLOATS), compiled=(("float64", "bfloat16"), ("float32", "bfloat16"))),
)
def test_averages_of_floats_are_the_exact_ones_rounded_once(
    source: str, target: DTypeName, engine: Engine, divisor: int | None
) -> None:
    """Of sums that float64 holds, as it holds nearly all, or with their errors where float64 is read."""
    rng, by = np.random.default_rng(4), divisor or 5
    x = rng.normal(size=(400, 5)) * 2.0 ** rng.integers(-3, 4, (400, 5))
    if source == "float64":  # quotients beside middles, by less than float64 tells
        aimed = [m * by / 2**20 for m in middles(target if target != "float64" else "float32")]
        near = [
            (float(a), float(a - Fraction(float(a))), float(a) * 2.0**-70 * s, 0, 0) for a in aimed for s in (-1, 0, 1)
        ]
        x = np.concatenate([x, np.array(near)])
    x = x.astype(numpy_dtype(source)).reshape(1, 1, -1)
    y = poolcli.avg_pool(x, 5, strides=5, divisor_override=divisor, dtype=target, engine=engine)
    exact = [sum(map(Fraction, map(float, window)), Fraction(0)) / by for window in x.reshape(-1, 5)]
    assert [float(v) for v in y.ravel()] == [nearest(value, y.dtype) for value in exact]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("divisor", [None, -3])
def test_means_near_the_largest_float64_are_rounded_once(engine: Engine, divisor: int | None) -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(-1.0, 1.0, (1, 1, 3000)) * 1.79e308 * 2.0 ** rng.integers(-40, 1, 3000)
    for kernel in (2, 3, 5):
        y = poolcli.avg_pool(x, kernel, strides=kernel, divisor_override=divisor, engine=engine).ravel()
        windows = x.ravel()[: y.size * kernel].reshape(-1, kernel).tolist()
        exact = [sum(map(Fraction, window), Fraction(0)) / (divisor or kernel) for window in windows]
        assert y.tolist() == [nearest(value, y.dtype) for value in exact]


ZEROS = [*product(("uint8", "int32", "int64", "float32", "float64", "bfloat16"), FLOATS)]


@pytest.mark.parametrize(
    ("source", "target", "engine"), by_engine(*ZEROS, compiled=(("uint8", "float32"), ("int64", "float32")))
)
def test_a_sum_of_0_over_a_negative_divisor_is_minus_0_as_in_ieee_754(
    source: str, target: DTypeName, engine: Engine
) -> None:
    x = np.zeros((1, 1, 6)).astype(numpy_dtype(source))
    for divisor in (-7, -(2**24) - 1, -(2**31) + 1):
        y = poolcli.avg_pool(x, 2, divisor_override=divisor, dtype=target, engine=engine)
        assert np.signbit(y).all()
        assert not y.astype(np.float64).any()
    assert not np.signbit(poolcli.avg_pool(x, 2, divisor_override=7, dtype=target, engine=engine)).any()


@pytest.mark.parametrize("engine", ENGINES)
def test_sums_of_64_bit_integers_that_cancel_leave_what_is_left(engine: Engine) -> None:
    x = np.array([[[2**53 + 1, 0, -(2**53), 2**63 - 1, -(2**63), 2**62 + 1]]])
    y = poolcli.avg_pool(x, 3, strides=3, dtype="float64", engine=engine)
    assert y.ravel().tolist() == [1 / 3, 2**62 / 3]
