"""Quotients by products and residues, against those of numpy."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numba import njit, types

from poolcli import AvgPool
from poolcli.engine.compiled import finish, pool
from poolcli.engine.compiled.codegen import emit, loaded
from poolcli.engine.compiled.intrinsics import KERNEL, inlined
from poolcli.engine.compiled.kernel_choice import KernelSpec, choose_kernel
from poolcli.engine.compiled.kernels import build
from poolcli.engine.compiled.launch import address
from poolcli.engine.compiled.pool import UNUSED
from poolcli.plan.plan import whole
from tests.profiles import sized

Array = np.ndarray[Any, np.dtype[Any]]
pointer: Any = types.CPointer
quotient: Any = finish.quotient
quotient_by_any: Any = finish.quotient_by_any
COUNT = sized(1 << 17, 1 << 20)
fused = pytest.mark.parametrize("fused", [True, False], ids=["in one step", "in several steps"])


def each_of(function: Callable[..., float], *given: Array) -> Array:
    """The function of the elements of three arrays, compiled as kernels are."""

    def apply(a: Any, b: Any, c: Any, found: Any, lines: Any, params: Any, first: int, last: int) -> None:
        for i in range(first, last):
            found[i] = function(a[i], b[i], c[i])

    floats, integers = pointer(types.float64), pointer(types.int64)
    signature = types.void(*[floats] * 4, pointer(types.int32), integers, types.int64, types.int64)
    compiled = njit(signature, **KERNEL)(apply)
    kernel = loaded(emit(compiled.inspect_llvm(compiled.signatures[0])))
    assert kernel is not None
    found = np.empty_like(given[0])
    kernel.call(UNUSED, UNUSED, *map(address, (*given, found)), None, None, 0, found.size)
    return found


def cases(n: int) -> tuple[Array, Array]:
    """Totals of any digits, of few digits and of multiples of the divisor; divisors of all sizes below 2**24."""
    rng = np.random.default_rng(5)
    divisors = np.maximum(1, rng.integers(0, 2 ** rng.integers(1, 25, n))).astype(np.float64)
    totals = rng.standard_normal(n) * 2.0 ** rng.integers(-140, 140, n)
    totals[: n // 3] = rng.integers(-(2**24), 2**24, n // 3)
    totals[n // 3 : n // 2] = (divisors * rng.integers(1, 2**28, n))[n // 3 : n // 2]
    return totals, divisors


@fused
def test_a_product_put_right_is_the_quotient_to_the_last_bit(fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "fuses", lambda: fused)
    totals, divisors = cases(COUNT)
    inverse = (1 - 2.0**-50) / divisors
    function = inlined(lambda total, divisor, reciprocal: quotient(total, divisor, reciprocal))
    assert np.array_equal(each_of(function, totals, divisors, inverse), totals / divisors)


def test_no_product_of_reciprocals_exceeds_that_of_the_divisors() -> None:
    each, geometry = np.arange(1.0, 30), choose_kernel(whole(AvgPool(3).plan((1, 1, 9, 9, 9)))).geometry
    by_d, by_h, by_w = geometry._replace(divisors=(each, each, each)).with_reciprocals(False).reciprocals
    divisors, found = each[:, None, None] * each[:, None] * each, by_d[:, None, None] * by_h[:, None] * by_w
    assert max(Fraction(a) * int(b) for a, b in zip(found.flat, divisors.flat, strict=True)) <= 1


@fused
def test_two_steps_give_the_quotient_by_any_divisor(fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "fuses", lambda: fused)
    totals, _ = cases(COUNT)
    divisors = np.random.default_rng(6).uniform(0.01, 100, totals.size)
    function = inlined(lambda total, divisor, reciprocal: quotient_by_any(total, divisor, reciprocal))
    assert np.array_equal(each_of(function, totals, divisors, 1 / divisors), totals / divisors)


def test_what_is_not_finite_has_the_quotient_of_a_division() -> None:
    totals = np.array([np.inf, -np.inf, np.nan, 1.0, -1.0, 0.0, 0.0])
    divisors = np.array([3.0, 3.0, 3.0, 0.0, 0.0, 0.0, -3.0])
    with np.errstate(all="ignore"):
        expected, inverse = totals / divisors, 1 / divisors
    function = inlined(lambda total, divisor, reciprocal: quotient(total, divisor, reciprocal))
    found = each_of(function, totals, divisors, inverse)
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.signbit(found[-1])


@pytest.mark.parametrize("residue", [finish.remainder, finish.remainder_without_fma], ids=["fused", "of halves"])
def test_the_residue_of_a_quotient_is_exact(residue: Any) -> None:
    totals, divisors = cases(2000)
    divisors = 127 * divisors
    near = totals / divisors
    found = each_of(inlined(lambda total, found, divisor: residue(total, found, divisor)), totals, near, divisors)
    exact = [Fraction(a) - Fraction(b) * Fraction(c) for a, b, c in zip(totals, near, divisors, strict=True)]
    assert [Fraction(value) for value in found] == exact


@fused
def test_a_total_that_is_minus_0_is_divided_as_0(fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "fuses", lambda: fused)
    totals, divisors = np.array([-0.0, 0.0]), np.array([3.0, 3.0])
    function = inlined(lambda total, divisor, reciprocal: quotient(total, divisor, reciprocal))
    assert not np.signbit(each_of(function, totals, divisors, 1 / divisors)).any()


@pytest.mark.compiles
@pytest.mark.parametrize("fast", [True, False], ids=["with divisions", "with reciprocals"])
def test_means_are_correctly_rounded_whether_or_not_the_processor_divides_fast(
    fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Any] = []

    def fresh(spec: KernelSpec) -> Callable[..., int]:
        assert spec.arithmetic.result == "by_reciprocal"
        built.append(loaded(build(spec)))
        call: Callable[..., int] = built[-1].call
        return call

    monkeypatch.setattr(finish, "divides_fast", lambda: fast)
    monkeypatch.setattr(pool, "load", fresh)
    x = np.random.default_rng(8).integers(-(2**20), 2**20, (1, 2, 200, 302)).astype(np.float32)  # with exact sums
    x[0, 0, 3:5, 7], x[0, 0, 50, 50], x[0, 1, :9, :9] = np.inf, np.nan, -0.0
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (2, 3))
    expected = ((windows.sum((-2, -1)) + 0.0) / 9).astype(np.float32)
    found = AvgPool(3)(x, engine="numba")
    assert len(built) == 1
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert found[~np.isnan(found)].tobytes() == expected[~np.isnan(expected)].tobytes()
