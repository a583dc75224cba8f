"""Both engines give the same answers, and the numpy engine gives those of a slow loop over the definition."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from poolcli import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    LpPool,
    MaxPool,
    MinPool,
    ModePool,
    RequestError,
    SumPool,
)
from poolcli.dtypes import lookup, numpy_dtype
from poolcli.engine import run
from poolcli.engine.choose import refusal
from poolcli.engine.compiled.choice import LIMITS
from poolcli.engine.numpy import prepare
from poolcli.engine.numpy.reduce import axis_steps, gathered_reduction
from poolcli.engine.numpy.sums import float_sums
from poolcli.plan import Plan
from poolcli.plan.plan import whole
from tests.profiles import by_engine, sized
from tests.reducers import by_loop

INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "float32", "float64", "bfloat16")
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 1e30, -1e30)
ENGINES = ("numpy", "numba")
AGREEING = sized(60, 1500)  # examples on which the engines agree
# Of the others, whose kernels take most of the time, tests of engine/ build some.
AGREEING_TYPES = sized(("uint8", "float32", "float64"), (*INTEGERS, *FLOATS))


@st.composite
def operators(draw: st.DrawFn, rank: int) -> Any:
    """A legal or illegal operator for `rank` spatial axes; illegal ones are refused by the plan."""

    def numbers(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    kind = draw(st.sampled_from(["avg", "max", "adaptive-avg", "adaptive-max"]))
    if kind.startswith("adaptive"):
        return (AdaptiveAvgPool if kind == "adaptive-avg" else AdaptiveMaxPool)(numbers(1, 7))
    shared: dict[str, Any] = {
        "kernel": numbers(1, 4),
        "strides": numbers(1, 4),
        "pads_begin": numbers(0, 3),
        "pads_end": numbers(0, 3),
        "dilations": numbers(1, 3),
        "auto_pad": draw(st.sampled_from(["explicit", "explicit", "same_upper", "same_lower", "valid"])),
        "rounding_type": draw(st.sampled_from(["floor", "ceil", "ceil_torch"])),
    }
    if kind == "max":
        return MaxPool(**shared, axis=draw(st.integers(-3, 2)))
    override = draw(st.sampled_from([None, None, None, 3, -7, 1000]))
    return AvgPool(**shared, exclude_pad=draw(st.sampled_from([None, True, False])), divisor_override=override)


@st.composite
def arrays(draw: st.DrawFn, rank: int, dtype: str) -> np.ndarray[Any, np.dtype[Any]]:
    """A small array, sometimes with ties, extreme values, NaN and infinities, or laid out in an unusual way."""
    shape = (draw(st.integers(0, 2)), draw(st.integers(1, 3)), *(draw(st.integers(1, 7)) for _ in range(rank)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        low, high = draw(st.sampled_from([(0, 3), (limits.min, limits.max)]))
        x = rng.integers(low, high, shape, dtype, endpoint=True)
    else:
        x = rng.integers(-3, 4, shape).astype(np.float64) if draw(st.booleans()) else rng.standard_normal(shape)
        if draw(st.booleans()):
            x = np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL, shape), x)
        with np.errstate(over="ignore"):
            x = x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    form = draw(st.sampled_from(["plain", "fortran", "swapped", "strided", "read-only"]))
    if form == "fortran":
        x = np.asfortranarray(x)
    elif form == "swapped" and dtype != "bfloat16":
        x = x.astype(x.dtype.newbyteorder())
    elif form == "strided":
        x = np.repeat(x, 2, axis=-1)[..., ::2]
    elif form == "read-only":
        x = x.copy()
        x.flags.writeable = False
    return x


@st.composite
def problems(draw: st.DrawFn) -> tuple[Plan, Any]:
    rank = draw(st.integers(1, 3))  # those that are compiled
    dtype = draw(st.sampled_from(AGREEING_TYPES))
    op, x = draw(operators(rank)), draw(arrays(rank, dtype))
    layout = None
    if draw(st.booleans()):
        layout = "N" + "DHW"[-rank:] + "C"
        x = np.moveaxis(x, 1, -1)
        if draw(st.booleans()):
            x = np.ascontiguousarray(x)
    target = draw(st.sampled_from([None, None, "float32", "float64"]))
    try:
        return op.plan(x.shape, x.dtype, layout=layout, output_dtype=target), x
    except RequestError:
        return draw(problems())


def assert_same(a: Any, b: Any, plan: Plan, x: Any) -> None:
    """Same shape and dtype, and the same bits, signs of zeros included; any nan is any other."""
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    np.testing.assert_array_equal(bits_of(a), bits_of(b), f"{plan.op} {plan.attributes} {x.shape} {x.dtype}")


def bits_of(values: Any) -> Any:
    """The numbers as unsigned integers, each nan as the same one."""
    values = np.ascontiguousarray(values)
    if values.dtype.kind in "iub":
        return values
    return np.where(values != values, values.dtype.type(np.nan), values).view(f"u{values.itemsize}")


@pytest.mark.slow
@settings(max_examples=AGREEING, derandomize=True)
@given(problems())
def test_the_engines_agree(problem: tuple[Plan, Any]) -> None:
    assert_agree(*problem)


@pytest.mark.slow
@settings(max_examples=sized(20, AGREEING), derandomize=True)  # many of which have kernels of their own
@given(problems(), st.sampled_from([0, 1 << 30]))
def test_the_engines_agree_where_rows_are_cut_and_blocked(problem: tuple[Plan, Any], outputs: int) -> None:
    limits = LIMITS._replace(outputs=outputs, long_window=3, row_bytes=48, pass_bytes=48, block_bytes=48, tall=1)
    with patch("poolcli.engine.compiled.choice.LIMITS", limits):
        assert_agree(*problem)


def with_roundings_of(a: Any, b: Any, plan: Plan, x: Any) -> Any:
    """`b`, but `a` where both are sums of floats that cancel and differ by their rounding errors: each engine adds
    in an order of its own. Sums whose errors are below 2**-16 of the last place of the result do not cancel.
    """
    if not plan.reducer.adds or lookup(plan.dtype).kind != "float":
        return b
    errors = 2 * rounding_errors(plan, x)
    with np.errstate(invalid="ignore"):
        last_place = abs(np.spacing(a)).astype(np.float64)
        differ_little = abs(a.astype(np.float64) - b.astype(np.float64)) <= errors + last_place
    return np.where((errors > last_place * 2.0**-16) & differ_little, a, b)


def rounding_errors(plan: Plan, x: Any) -> Any:
    """The largest error of each sum or mean before it is rounded to its type: for each element 2**-53 of the mean
    magnitude of the window, or where sums carry their errors, the square of that.
    """
    wide = replace(plan, dtype="float64", output_dtype="float64")
    with np.errstate(all="ignore"):
        magnitudes, _ = run(wide, abs(x.astype(np.float64)), engine="numpy")
        each = prod(windows.longest for windows in plan.windows) * 2.0**-53
        return abs(magnitudes) * (each**2 if "float64" in (plan.dtype, plan.output_dtype) else each)


def assert_agree(plan: Plan, x: Any) -> None:
    """Both engines' values are the same, but for the rounding errors of sums that cancel, and so are their indices."""
    indices = plan.index is not None
    (a, at_a), (b, at_b) = (run(plan, x, engine=engine, indices=indices) for engine in ENGINES)
    assert_same(a, with_roundings_of(a, b, plan, x), plan, x)
    if at_a is not None and at_b is not None:
        np.testing.assert_array_equal(at_a, at_b)
        assert_same(run(plan, x, engine="numba")[0], b, plan, x)


@settings(max_examples=sized(60, 400), derandomize=True)
@given(st.data())
def test_the_numpy_engine_follows_the_definition(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    dtype = data.draw(st.sampled_from(("int8", "uint16", "int64", "uint64", "float32", "float64")))
    op, x = data.draw(operators(rank)), data.draw(arrays(rank, dtype))
    if x.dtype.kind == "f":
        x = np.nan_to_num(x, nan=1, posinf=2, neginf=-2)
    try:
        plan = op.plan(x.shape, x.dtype)
    except RequestError:
        return
    y, _ = run(plan, x, engine="numpy")
    values, positions = by_loop(plan, x)
    if plan.reducer.picks:
        at = prepare(whole(plan), True)(x, np.empty(plan.output_shape, x.dtype), 1)
        assert at is not None
        assert at.ravel().tolist() == positions
    for got, expected in zip(y.ravel().tolist(), values, strict=True):
        if expected == "input":
            assert got != got or got in (0, -np.inf, lookup(dtype).limits[0])
        elif x.dtype.kind in "iu" or plan.reducer.picks:
            assert got == (round(expected) if plan.reducer.divides else expected)
        else:
            assert abs(Fraction(got) - expected) <= Fraction(float(np.spacing(np.asarray(abs(x).max(), x.dtype))))


@settings(max_examples=sized(60, 400), derandomize=True)
@given(st.data())
def test_sums_of_few_elements_are_those_of_one_axis_after_the_other(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    op, x = data.draw(operators(rank)), data.draw(arrays(rank, data.draw(st.sampled_from(("float32", "float16")))))
    try:
        region = whole(op.plan(x.shape, x.dtype))
    except RequestError:
        return
    sums = gathered_reduction(region, np.float64, np.add, 0)
    assume(sums is not None)  # of few elements
    assert sums is not None
    with np.errstate(all="ignore"):
        (expected,) = float_sums(axis_steps(region), x.astype(np.float64), wide=False)
        np.testing.assert_array_equal((sums(x) + 0.0).view(np.int64), expected.view(np.int64))


@pytest.mark.parametrize("width", [6, 6000], ids=["few", "many"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_values_alone_have_the_bits_of_those_with_positions(dtype: str, width: int) -> None:
    rng = np.random.default_rng(3)
    numbers = rng.choice((1, -2, 0.0, *(() if dtype == "int8" else (*SPECIAL, -np.nan))), (2, 3, 5, width))
    x = numbers.astype(numpy_dtype(dtype))
    for op in (
        MaxPool(2, strides=2),
        MaxPool(3, strides=1, pads_begin=1, dilations=2),
        MinPool((1, 3), strides=1, pads_begin=(2, 3)),
        AdaptiveMaxPool(2),
    ):
        alone, beside = op(x, engine="numpy"), op(x, engine="numpy", return_indices=True)[0]
        assert alone.tobytes() == beside.tobytes(), op


LOCAL: dict[str, tuple[Any, dict[str, Any]]] = {
    "avg": (AvgPool(4, strides=4), {}),
    "avg to a divisor": (AvgPool(3, strides=2, pads=1, divisor_override=-7), {"output_dtype": "float32"}),
    "avg to float64": (AvgPool(3, strides=1, pads=1), {"output_dtype": "float64"}),
    "adaptive-avg": (AdaptiveAvgPool(5), {}),
    "max": (MaxPool(3, strides=2, pads=1), {}),
    "min": (MinPool(4, strides=3), {}),
    "adaptive-max": (AdaptiveMaxPool(5), {}),
    "mode": (ModePool(4, strides=3), {}),
    "lp 1": (LpPool(3, strides=2, p=1), {}),
    "lp 2": (LpPool(4, strides=4), {}),
    "lp 3, signed": (LpPool(4, strides=4, p=3, like="pytorch"), {}),
    "lp 7": (LpPool(2, strides=1, p=7), {}),
}
QUICK_LOCAL = (("avg", "float32"), ("max", "uint8"), ("lp 3, signed", "float64"), ("avg to a divisor", "uint8"))
STRANGE = (0.0, -0.0, 1.0, -6.0, np.nan, np.inf, -np.inf, 1e-300, -1e-300, 5e-324, 1e300, -1.7e308)
LONG = 12  # elements of a line


LOCAL_TYPES = ("float64", "float32", "uint8", "int64", "bfloat16", "float16")


@pytest.mark.parametrize(("name", "dtype", "engine"), by_engine(*product(LOCAL, LOCAL_TYPES), compiled=QUICK_LOCAL))
def test_no_element_outside_of_a_window_changes_its_output(name: str, dtype: str, engine: str) -> None:
    op, more = LOCAL[name]
    is_float = lookup(dtype).kind == "float"
    if op.name == "mode" and is_float:
        return
    options = more if op.name != "lp" or is_float else {"output_dtype": "float64"}
    plan = op.plan((1, 1, LONG), dtype, **options)
    rng = np.random.default_rng(6)
    lines = [np.resize([3.0, 4, 5, -6, 1, 1, 1, 2], LONG), *rng.normal(size=(sized(1, 2), LONG)), np.zeros(LONG)]
    odd = STRANGE if is_float else [lookup(dtype).limits[0], lookup(dtype).limits[1], 0, 7]
    with np.errstate(all="ignore"):
        for line in lines:
            x = (line if is_float else abs(line) * 9).astype(numpy_dtype(dtype)).reshape(1, 1, LONG)
            before = bits_of(run(plan, x, engine=engine)[0])
            for place, value in product((0, 4, LONG - 1), odd):
                changed = x.copy()
                changed[0, 0, place] = np.asarray(value).astype(x.dtype)
                after = bits_of(run(plan, changed, engine=engine)[0])
                apart = [o for o in range(plan.output_shape[2]) if place not in plan.windows[0].span(o)]
                np.testing.assert_array_equal(after[0, 0, apart], before[0, 0, apart], f"{line} {place} {value}")


def test_every_operator_is_known_to_numba() -> None:
    for op in (AvgPool(2), MaxPool(2), MinPool(2), AdaptiveAvgPool(2), AdaptiveMaxPool(2), SumPool(2), LpPool(2)):
        assert not refusal(op.plan((1, 1, 8)))
    assert not refusal(ModePool(2).plan((1, 1, 8), "uint8"))


@pytest.mark.parametrize(("dtype", "engine"), by_engine(("float32",), ("uint8",), compiled=(("float32",),)))
def test_a_window_longer_than_its_axis_reads_what_there_is(dtype: str, engine: str) -> None:
    x = (np.arange(24).reshape(1, 2, 3, 4) * 7 % 23).astype(dtype)
    shared: dict[str, Any] = {"strides": (4, 2), "rounding_type": "ceil", "like": "onnx"}
    whole_planes = AvgPool((5, 5), **shared).plan(x.shape, dtype)
    mean = x.mean((2, 3), keepdims=True, dtype="float64")
    expected = (mean if dtype == "float32" else np.rint(mean)).astype(dtype)
    np.testing.assert_array_equal(run(whole_planes, x, engine=engine)[0], expected)
    every_other = MaxPool((2, 3), dilations=(3, 2), **shared).plan(x.shape, dtype)
    np.testing.assert_array_equal(run(every_other, x, engine=engine)[0], x[:, :, ::3, ::2].max((2, 3), keepdims=True))


@pytest.mark.compiles
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 1), (1, 2, 2, 1)], ids=str)
def test_windows_of_no_element_have_no_position_in_either_engine(shape: tuple[int, ...]) -> None:
    op: Any = MaxPool(2, dilations=2, auto_pad="same_upper")
    x = np.zeros(shape, np.uint8)
    for _ in range(3):
        used = [np.full(prod(shape), 7, np.int64) for _ in range(8)]  # what memory holds that is not written
        del used
        positions = [op(x, return_indices=True, engine=engine)[1] for engine in ENGINES]
        assert [(each == -1).all() for each in positions] == [True, True]
