"""Both engines give the same answers, and the numpy engine gives those of a slow loop over the definition."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from itertools import product
from math import fsum, prod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import poolcli
from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool, RequestError
from poolcli.core.dtypes import lookup
from poolcli.engine import run
from poolcli.engine.compiled.choose import Limits
from poolcli.engine.compiled.geometry import LINE
from poolcli.engine.numpy.gather import gathered_sums
from poolcli.engine.numpy.reduce import steps_of
from poolcli.engine.numpy.sums import float_sums
from poolcli.plan import Plan
from poolcli.plan.region import whole
from tests.profiles import sized, slow

INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "float32", "float64", "bfloat16")
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 1e30, -1e30)
ENGINES = ("numpy", "numba")
AGREEING = sized(150, 1500)  # examples on which the engines agree


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
    dtype = draw(st.sampled_from((*INTEGERS, *FLOATS)))
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
    """Same shape and dtype; integers and maxima identical; averages within 1 unit in the last place of mean |x|."""
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    if a.dtype.name == "bfloat16" and plan.reducer.picks:
        a, b = a.astype(np.float32), b.astype(np.float32)
    if plan.reducer.picks or a.dtype.kind in "iu":
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        return
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(wide_a), np.isnan(wide_b))
    with np.errstate(all="ignore"):
        size = abs(run(plan, abs(x.astype(x.dtype.newbyteorder("="))), engine="numpy")[0])
        unit = np.maximum(
            abs(np.nextafter(size, size.dtype.type(np.inf)).astype(np.float64) - size.astype(np.float64)), 0
        )
        near = (wide_a == wide_b) | (abs(wide_a - wide_b) <= np.nan_to_num(unit, nan=0, posinf=0)) | np.isnan(wide_a)
    assert near.all()


@pytest.mark.slow
@settings(max_examples=AGREEING, derandomize=True)
@given(problems())
def test_the_engines_agree(problem: tuple[Plan, Any]) -> None:
    assert_agree(*problem)


@pytest.mark.slow
@settings(max_examples=AGREEING, derandomize=True)
@given(problems(), st.sampled_from([1, 30]))
def test_the_engines_agree_where_rows_are_cut_grouped_and_blocked(problem: tuple[Plan, Any], group: int) -> None:
    limits = Limits(run=3, merged=20, row=48, short=group, blocks=1)
    with patch("poolcli.engine.compiled.choose.LIMITS", limits):
        assert_agree(*problem)


def assert_agree(plan: Plan, x: Any) -> None:
    """Both engines' values and indices are the same."""
    indices = plan.index is not None
    (a, at_a), (b, at_b) = (run(plan, x, engine=engine, indices=indices) for engine in ENGINES)
    assert_same(a, b, plan, x)
    if at_a is not None and at_b is not None:
        np.testing.assert_array_equal(at_a, at_b)
        assert_same(run(plan, x, engine="numba")[0], b, plan, x)


def by_definition(plan: Plan, x: Any) -> tuple[list[Any], list[int]]:
    """Values and plane positions, window by window, in exact fractions (finite input)."""
    values, positions = [], []
    sizes = [w.size for w in plan.windows]
    for n, c in product(range(x.shape[0]), range(x.shape[1])):
        for o in product(*(range(w.output) for w in plan.windows)):
            cells = list(product(*(w.span(i) for w, i in zip(plan.windows, o, strict=True))))
            found = [(x[(n, c, *cell)].item(), np.ravel_multi_index(cell, sizes).item()) for cell in cells]
            if plan.reducer.picks:
                best = max(found, key=lambda pair: (pair[0], -pair[1]), default=(None, -1))
                values.append(best[0])
                positions.append(best[1])
                continue
            divisor = plan.divisor_override or 1
            if plan.divisor_override is None:
                for w, i in zip(plan.windows, o, strict=True):
                    divisor *= w.divisor(i)
            values.append(sum((Fraction(v) for v, _ in found), Fraction(0)) / divisor if divisor else None)
    return values, positions


@settings(max_examples=sized(100, 400), derandomize=True)
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
    values, _ = by_definition(plan, x)
    for got, expected in zip(y.ravel().tolist(), values, strict=True):
        if expected is None:
            assert got != got or got in (-np.inf, lookup(dtype).limits[0])
        elif x.dtype.kind in "iu" or plan.reducer.picks:
            assert got == (round(expected) if plan.reducer.divides else expected)
        else:
            assert abs(Fraction(got) - expected) <= Fraction(float(np.spacing(np.asarray(abs(x).max(), x.dtype))))


@settings(max_examples=sized(100, 400), derandomize=True)
@given(st.data())
def test_sums_of_few_elements_are_those_of_one_axis_after_the_other(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    op, x = data.draw(operators(rank)), data.draw(arrays(rank, data.draw(st.sampled_from(("float32", "float16")))))
    try:
        region = whole(op.plan(x.shape, x.dtype))
    except RequestError:
        return
    gathered = gathered_sums(region, np.float64)
    assert gathered is not None
    with np.errstate(all="ignore"):
        (expected,) = float_sums(steps_of(region), x.astype(np.float64), wide=False)
        np.testing.assert_array_equal(gathered(x).view(np.int64), expected.view(np.int64))


@settings(max_examples=sized(60, 300), derandomize=True)
@given(st.data())
def test_positions_are_those_of_the_first_maximum(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    op, x = data.draw(operators(rank)), data.draw(arrays(rank, "int8"))
    if not isinstance(op, MaxPool | AdaptiveMaxPool):
        return
    plane = AdaptiveMaxPool(op.output_size) if isinstance(op, AdaptiveMaxPool) else op
    try:
        plan = plane.plan(x.shape, x.dtype)
    except RequestError:
        return
    _, expected = by_definition(plan, x)
    from poolcli.engine.numpy.pool import prepare

    at = prepare(whole(plan), True)(x, np.empty(plan.output_shape, x.dtype), 1)
    assert at is not None
    assert at.ravel().tolist() == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_two_numbers_near_the_largest_float_average_without_overflow(engine: str) -> None:
    x = np.full((1, 1, 4), 1.7e308)
    assert poolcli.avg_pool(x, 2, strides=2, engine=engine).tolist() == [[[1.7e308, 1.7e308]]]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_special_value_touches_only_the_windows_that_hold_it(engine: str, value: float) -> None:
    x = np.ones((1, 1, 9, 9), np.float64)
    x[0, 0, 4, 4] = value
    y = poolcli.avg_pool(x, 3, engine=engine)[0, 0]
    expected = np.ones((7, 7))
    expected[2:5, 2:5] = value
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_windows_keep_every_digit(engine: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((1, 1, 300, 400)) * 1e3 + 1e6).astype(dtype)
    exact = sum(map(Fraction, x.ravel().tolist()), Fraction(0)) / x.size
    got = poolcli.avg_pool(x, (300, 400), engine=engine).item()
    assert abs(Fraction(got) - exact) <= Fraction(float(np.spacing(np.asarray(1e6, dtype))))


@pytest.mark.parametrize("kernel", [3, 15, 63, 255, 1000])
def test_windows_of_any_size_are_within_a_unit_of_the_last_place(kernel: int) -> None:
    x = (np.random.default_rng(3).standard_normal((1, 1, 1000, 1200)) * 1e3 + 1e4).astype(np.float32)
    means = poolcli.avg_pool(x, kernel, engine="numba")[0, 0]
    for y, z in ((0, 0), (means.shape[0] - 1, 7), (means.shape[0] // 2, means.shape[1] - 1)):
        window = x[0, 0, y : y + kernel, z : z + kernel].ravel().tolist()
        unit = np.spacing(np.float32(fsum(map(abs, window)) / len(window)))
        assert abs(float(means[y, z]) - fsum(window) / len(window)) <= unit


def test_a_nan_changes_only_the_windows_that_hold_it() -> None:
    x = np.ones((1, 1, 60, 70), np.float32)
    y = x.copy()
    y[0, 0, 30, 40], y[0, 0, 5, 5] = np.nan, np.inf
    for pool in (poolcli.avg_pool, poolcli.max_pool):
        whole, touched = (pool(a, 15, pads_begin=7, pads_end=7, engine="numba")[0, 0] for a in (x, y))
        rows, columns = np.nonzero(~(whole == touched))
        assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == {
            (i, j) for at in ((30, 40), (5, 5)) for i in range(60) for j in range(70)
            if abs(i - at[0]) <= 7 and abs(j - at[1]) <= 7
        }  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_out_may_be_the_input(engine: str) -> None:
    x = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    expected = poolcli.max_pool(x, 3, pads_begin=1, pads_end=1, engine=engine)
    np.testing.assert_array_equal(poolcli.max_pool(x, 3, pads_begin=1, pads_end=1, engine=engine, out=x), expected)


def test_every_float16_and_every_tie_between_two_is_rounded_as_numpy_does() -> None:
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = np.unique(every[np.isfinite(every)].astype(np.float32))
    ties = (finite[1:] + finite[:-1]) / 2
    beside = [np.nextafter(ties, np.float32(sign * np.inf)) for sign in (1, -1)]
    x = np.concatenate([every.astype(np.float32), ties, *beside, np.array([65519.9, 65520, 1e30, -1e30], np.float32)])
    with np.errstate(over="ignore", invalid="ignore"):
        expected = (x + np.float32(0)).astype(np.float16)  # the mean of -0 is 0, as its sum from 0 on is
    twice = np.repeat(x, 2).reshape(1, 1, -1)
    found = poolcli.avg_pool(twice, 2, strides=2, dtype="float16", engine="numba").ravel()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_no_copy_is_made_of_the_input(layout: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((4, 256, 256, 4) if layout == "NHWC" else (4, 4, 256, 256), np.float32))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    plan = AvgPool(3, 2, 1, 1).plan(x.shape, x.dtype, layout=layout)
    out = np.empty(plan.output_shape, np.float32)
    run(plan, x, out=out, engine="numba")
    tracemalloc.start()
    run(plan, x, out=out, engine="numba")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < x.nbytes / 20


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("avg", "float32"),
        ("avg", "float64"),
        ("avg", "uint8"),
        ("max", "float32"),
        slow("max", "float64"),
        slow("max", "uint8"),
    ],
)
def test_results_are_the_same_bits_for_any_number_of_threads(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poolcli.engine.call.allowed_threads", lambda asked: asked or 1)
    monkeypatch.setattr("poolcli.engine.compiled.tasks.SMALLEST_TILE", 100)
    monkeypatch.setattr("poolcli.engine.compiled.tasks.WORTH_SHARING", 0)
    x = (np.random.default_rng(2).random((2, 3, 65, 67)) * 255).astype(dtype)
    plan = (AvgPool if name == "avg" else MaxPool)(5, 2, 2, 2).plan(x.shape, dtype)
    results = [run(plan, x, engine="numba", threads=n)[0].tobytes() for n in (1, 2, 4)]
    assert len(set(results)) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_out_receives_the_result_wherever_it_lies(engine: str) -> None:
    x = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
    whole = np.zeros((1, 1, 4, 8), np.float32)
    result = poolcli.avg_pool(x, 2, strides=2, engine=engine, out=whole[..., ::2])
    assert result.base is whole
    np.testing.assert_array_equal(whole[..., ::2], x.reshape(1, 1, 4, 2, 4, 2).mean((3, 5)))
    with pytest.raises(RequestError, match=r"^out has shape \(1, 1, 4, 8\) and dtype float32, the result has"):
        poolcli.avg_pool(x, 2, strides=2, engine=engine, out=whole)


@pytest.mark.parametrize("engine", ["numpy", slow("numba")])
def test_bool_has_a_maximum_and_an_average_as_a_number(engine: str) -> None:
    x = np.array([[[True, False, False, False]]])
    assert poolcli.max_pool(x, 2, strides=2, engine=engine).tolist() == [[[True, False]]]
    assert poolcli.avg_pool(x, 4, dtype="float32", engine=engine).tolist() == [[[0.25]]]
    assert poolcli.avg_pool(x, 2, strides=2, dtype="int8", engine=engine).tolist() == [[[0, 0]]]


@pytest.mark.parametrize("length", [LINE, 3 * LINE + 5])
def test_the_place_of_a_maximum_is_found_in_lines_of_any_length(length: int) -> None:
    x = np.zeros((1, 1, length), np.uint8)
    for place in (0, 31, length // 2, length - 1):
        x[0, 0, place] = 9
        values, at = poolcli.adaptive_max_pool(x, 1, return_indices=True, engine="numba")
        assert (values.item(), at.item()) == (9, place)
        x[0, 0, place] = 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 1, 3, 2), (3, 2, 1, 0)])
@pytest.mark.parametrize("step", [1, -1])
def test_the_order_in_memory_changes_nothing(engine: str, order: tuple[int, ...], step: int) -> None:
    x = np.random.default_rng(0).random((3, 5, 70, 90)).astype(np.float32)
    lying = np.ascontiguousarray(x[..., ::step].transpose(order)).transpose(np.argsort(order))[..., ::step]
    assert not lying.flags.c_contiguous
    assert poolcli.avg_pool(lying, 3, engine=engine).tobytes() == poolcli.avg_pool(x, 3, engine=engine).tobytes()


SHIFTS = [("uint8", (2, 2)), ("int8", (4, 4)), ("int16", (1, 2)), ("uint32", (8, 1))]
ALL_SHIFTS = [
    (dtype, kernel)
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32")
    for kernel in ((1, 2), (2, 2), (4, 4), (8, 1))
]


@pytest.mark.parametrize(("dtype", "kernel"), [row if row in SHIFTS else slow(*row) for row in ALL_SHIFTS])
def test_integer_means_over_powers_of_two_are_half_even(dtype: str, kernel: tuple[int, int]) -> None:
    limits = np.iinfo(dtype)
    ends = np.array([limits.min, limits.min + 1, limits.max - 1, limits.max, 1, 2, 3, 5], dtype)
    x = np.random.default_rng(0).choice(ends, (1, 2, 40, 48))
    means = poolcli.avg_pool(x, kernel, strides=kernel, engine="numba")
    blocks = x.reshape(1, 2, 40 // kernel[0], kernel[0], 48 // kernel[1], kernel[1]).astype(object).sum((3, 5))
    assert means.tolist() == [[[[round(Fraction(n, prod(kernel))) for n in row] for row in c] for c in blocks[0]]]
