"""Standard deviations of windows. What holds of every operator is tested with the others."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest

from poolcli import StdPool, std_pool
from poolcli.arguments import DTypeName
from poolcli.engine import run
from poolcli.engine.choose import engine_notes
from tests.engine.test_kernels import name_of, watched
from tests.profiles import sized
from tests.reducers import windows_of
from tests.test_sum import numbers

OPS = (
    StdPool(2, strides=2),
    StdPool(3, strides=2, pads=1, ddof=1),
    StdPool((2, 3, 1), strides=1, pads_begin=(1, 2, 0), pads_end=0, dilations=2, ddof=0.5),
)


def deviations(op: StdPool, x: Any) -> Any:
    """The standard deviations by a slow loop over exact fractions, and roots of 40 digits."""
    plan = op.plan(x.shape, x.dtype)
    expected = np.full(plan.output_shape, np.nan)
    for place, elements in windows_of(plan, x):
        window = [Fraction(element.item()) for element in elements]
        divisor = Fraction(len(window)) - Fraction(op.ddof)
        if divisor > 0:
            mean = sum(window, Fraction(0)) / len(window)
            variance = sum(((value - mean) ** 2 for value in window), Fraction(0)) / divisor
            with localcontext(prec=40):
                expected[place] = (Decimal(variance.numerator) / Decimal(variance.denominator)).sqrt()
    return expected


@pytest.mark.parametrize("dtype", get_args(DTypeName))
def test_deviations_are_those_of_exact_fractions(dtype: DTypeName) -> None:
    x = numbers(dtype, (1, 2, 4, 5, 6))
    for op in OPS:
        found, exact = op(x), deviations(op, x)
        assert found.dtype == ("float64" if x.dtype.itemsize > 2 and dtype != "float32" else "float32")
        np.testing.assert_array_max_ulp(found, exact.astype(found.dtype), maxulp=1 if found.itemsize == 4 else 4)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (np.array([2.0**60, 2.0**60 + 2**10]), 2.0**9),
        (np.array([2**62, 2**62 + 2, 2**62 + 4]), (8 / 3) ** 0.5),
        (np.array([0, 2**64 - 1], "uint64"), 2.0**63),
        (np.array([-(2**63), 2**63 - 1]), 2.0**63),
        (np.array([1e300, -1e300]), 1e300),
        (np.array([3e-320, 1e-320]), 1e-320),
        (np.full(1000, 0.1), 0.0),
    ],
    ids=str,
)
def test_what_is_far_from_zero_or_near_the_ends_of_a_type_has_its_deviation(x: Any, expected: float) -> None:
    assert std_pool(x[None, None], x.size).item() == pytest.approx(
        expected, rel=1e-15, abs=1e-17 if expected == 0 else 0
    )


KERNELS = dict.fromkeys(("uint8", "int16"), frozenset({"long", "sliding", "bins", "tall"}))  # of sums
KERNELS |= dict.fromkeys(("float32", "float64"), frozenset({"deviation"}))


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", KERNELS)
def test_both_engines_give_the_same_bits(dtype: DTypeName) -> None:
    # Kernels are built for one ddof: those of one type of each kind are built for all of them here.
    one = sized(dtype not in ("uint8", "float32"), False)
    for op, layout, shape in (
        (StdPool(3, strides=1, pads=1, ddof=int(one)), "HW", (9, 3000)),
        (
            StdPool(3, strides=2, pads_begin=2, pads_end=1, dilations=2, rounding_type="ceil", ddof=1),
            "HWC",
            (31, 47, 3),
        ),
        (StdPool((2, 4, 9), strides=(1, 2, 3), pads=1, ddof=1), "NCDHW", (1, 2, 5, 6, 41)),
        (StdPool((31, 47), ddof=1), "CHW", (5, 31, 47)),
        (StdPool(2, strides=1, pads=1, dilations=2, ddof=int(one)), "NCW", (2, 3, 1)),
        (StdPool(4, strides=1, pads=3, dilations=2, ddof=int(one)), "NCW", (2, 3, 6)),
        (StdPool((3, 3), strides=1, pads_begin=1, pads_end=2, ddof=int(one)), "NHWC", (1, 8, 1, 70)),
        (StdPool(3, strides=2, pads=1, ddof=1 if one else 0.3), "HW", (300, 901)),
        (StdPool((1, 9), strides=(1, 2), dilations=(1, 30), ddof=int(one)), "HW", (2, 3000)),
    ):
        plan = op.plan(shape, dtype, layout=layout)
        for x in of_all_kinds(dtype, shape):
            with watched() as taken:
                found = run(plan, x, engine="numba", threads=2)[0]
            assert {name_of(one) for one in taken} <= KERNELS[dtype]
            assert bool(taken) == (not far_from_one(x)), op
            assert found.tobytes() == run(plan, x, engine="numpy")[0].tobytes(), op


def of_all_kinds(dtype: DTypeName, shape: tuple[int, ...]) -> list[Any]:
    """Arrays of the whole range of a type: of floats also with NaN and infinities, and near the ends of the range."""
    rng = np.random.default_rng(5)
    if dtype[0] in "iu":
        ends = np.iinfo(dtype)
        x = rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)
        return [x, np.asfortranarray(x)]
    x = rng.standard_normal(shape).astype(dtype)
    special = np.where(rng.random(shape) < 0.01, rng.choice([np.nan, -np.nan, np.inf, -np.inf, -0.0], shape), x)
    return [x, np.asfortranarray(x), special.astype(dtype), x * (np.finfo(dtype).max / 8), x * np.finfo(dtype).tiny]


def far_from_one(x: Any) -> bool:
    """Whether squares of its numbers leave the range of float64, or its normal numbers."""
    sizes = abs(x[np.isfinite(x) & (x != 0)].astype(np.float64))
    return bool(x.dtype == np.float64 and (sizes.max() > 1e150 or sizes.min() < 1e-150))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_windows_of_no_more_elements_than_ddof_have_no_deviation(dtype: DTypeName) -> None:
    found = std_pool(np.array([[[1, 2, 9]]], dtype), 3, pads_begin=1, ddof=2, strides=1)
    np.testing.assert_allclose(found, [[[np.nan, 38**0.5]]], rtol=1e-6)
    assert StdPool(3, ddof=2).plan((1, 1, 3), dtype).notes[1:] == ()
    assert StdPool(3, ddof=3, strides=1).plan((1, 1, 3), dtype).notes == (
        "ddof is 3, no less than the 3 elements of a window: every result is nan",
    )


@pytest.mark.parametrize("plan", [StdPool(2).plan((1, 1, 7), "int64"), StdPool(2**15).plan((1, 1, 2**15), "uint8")])
def test_what_no_kernel_has_exactly_is_computed_by_numpy(plan: Any) -> None:
    what = "deviations of floats, and of fewer than 32768 integers of up to 16 bits in a window"
    assert engine_notes(plan, "numba") == (f"computed by numpy: numba computes {what}",)
