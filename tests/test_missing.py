"""Numbers that stand for no value leave their windows: against a slow loop, on both engines."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import poolcli
from poolcli import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AreaPool,
    AvgPool,
    LpPool,
    MaxPool,
    MinPool,
    ModePool,
    RequestError,
    SumPool,
)
from poolcli.arguments import Engine
from poolcli.dtypes import lookup
from poolcli.engine import call_of, run
from poolcli.plan import Plan
from poolcli.plan.plan import parts_of, whole
from tests.profiles import sized, slow
from tests.reducers import by_loop

NAN = math.nan
ENGINES = ("numpy", "numba")
OPERATORS: tuple[Any, ...] = (
    AvgPool(2, strides=1),
    AvgPool(3, strides=2, pads=1, rounding_type="ceil", exclude_pad=False),
    AvgPool((2, 3), strides=2, dilations=2, divisor_override=-5),
    AvgPool(3, strides=(1, 2), auto_pad="same_upper"),
    AdaptiveAvgPool((3, 9)),
    MaxPool(3, strides=2, pads=1, rounding_type="ceil"),
    MaxPool(2, strides=3, rounding_type="ceil"),
    MinPool((1, 4), strides=2, dilations=(1, 2)),
    AdaptiveMaxPool((4, 3)),
    LpPool(3, strides=2, p=1),
    LpPool(2, strides=2, p=2),
    ModePool(3, strides=2),
    ModePool((2, 3), strides=1, dilations=(2, 1)),
)

pytestmark = pytest.mark.usefixtures("here")


def as_stored(plan: Plan, value: Any) -> Any:
    """What the plan's output has for a value of `by_loop`."""
    target = lookup(plan.output_dtype)
    if value == "missing":
        return NAN if target.kind == "float" else plan.missing[0]
    if value == "input":
        if plan.reducer.picks:
            return target.ends[plan.reducer.nothing]
        return 0 if not plan.reducer.divides or plan.divisor_override else NAN
    if plan.reducer.power == 2:
        value = math.sqrt(value)
    if not target.is_integer:
        return np.asarray(float(value)).astype(plan.output_dtype).item()
    stored, missing = round(value), plan.missing[0]
    if stored != missing or plan.reducer.picks or plan.reducer.votes:
        return stored
    return 1 if missing == 0 else missing - (1 if missing > 0 else -1)  # which readers take for a number


@settings(max_examples=sized(60, 400), derandomize=True)
@given(
    st.sampled_from(OPERATORS),
    st.sampled_from(["uint8", "int16", "int64", "uint64", "float16", "float32", "float64"]),
    st.sampled_from([0.1, 0.5, 0.95]),
    st.integers(0, 2**32 - 1),
)
def test_windows_without_missing_elements_are_those_of_a_slow_loop(
    op: Any, dtype: str, share: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    integer = "int" in dtype
    limits = np.iinfo(dtype) if integer else None
    x = (
        rng.integers(limits.min, limits.max, (2, 2, 7, 8), dtype, endpoint=True)
        if limits
        else rng.normal(size=(2, 2, 7, 8))
    )
    x = x.astype(dtype)
    if isinstance(op, ModePool) and integer:
        x %= 4  # so that labels occur several times
    number = x.ravel()[0].item() if integer else rng.choice([NAN, -7.0, math.inf, 0.0])
    x[rng.random(x.shape) < share] = number
    numbers = [number, x.ravel()[-1].item()]
    output = "float64" if isinstance(op, LpPool) or (integer and isinstance(op, AvgPool)) else None
    try:
        plan = op.plan(x.shape, dtype, output_dtype=output, missing=numbers)
    except RequestError:  # windows of no input, of which integers have no average
        return
    values, places = by_loop(plan, x)
    found, _ = run(plan, x, engine="numpy")
    exact = output is None and not (dtype == "float64" and plan.reducer.divides)
    expected = np.array([as_stored(plan, value) for value in values], plan.output_dtype).reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=0 if exact else 1e-15, atol=0)
    if plan.index:
        plane = type(op)(**{**vars(op), "axis": 2}) if hasattr(op, "axis") else op
        _, at = run(plane.plan(x.shape, dtype, missing=numbers), x, engine="numpy", indices=True)
        assert at is not None
        assert at.ravel().tolist() == places


@pytest.mark.compiles
@pytest.mark.parametrize("op", [OPERATORS[0], OPERATORS[5], *map(slow, OPERATORS[1:5] + OPERATORS[6:])], ids=str)
def test_no_bit_depends_on_the_engine_or_the_cut(op: Any) -> None:
    rng = np.random.default_rng(4)
    dtype = "int32" if op.reducer.votes else "float32"
    x = (rng.normal(size=(2, 3, 11, 13)) * 3).astype(dtype)
    x[rng.random(x.shape) < 0.2] = -9
    plan = op.plan(x.shape, dtype, missing=-9)
    (values, at), (others, other_at) = (
        run(plan, x, engine=engine, indices=plan.index is not None) for engine in ENGINES
    )
    np.testing.assert_array_equal(values.view("int32"), others.view("int32"))
    np.testing.assert_array_equal(at, other_at)
    for most in (1, 300, 2000):
        for part in parts_of(whole(plan), most):
            reads, outputs = (tuple(slice(r.start, r.stop) for r in ranges) for ranges in (part.reads, part.outputs))
            cut, cut_at = call_of(part, indices=at is not None)(x[reads])
            np.testing.assert_array_equal(cut.view("int32"), values[outputs].view("int32"))
            if at is not None:
                np.testing.assert_array_equal(cut_at, at[outputs])


@pytest.mark.parametrize("engine", ENGINES)
def test_an_array_without_missing_elements_is_pooled_as_ever(engine: str) -> None:
    x = np.random.default_rng(1).normal(size=(1, 3, 9, 9)).astype("float32")
    x[0, 0, 4, 4] = NAN
    for op in (OPERATORS[0], OPERATORS[5]):
        with_number, without = (op(x, missing=number, engine=engine) for number in (-9999, None))
        np.testing.assert_array_equal(with_number.view("int32"), without.view("int32"))


def test_nan_and_several_numbers_can_be_missing() -> None:
    x = np.array([[[1, NAN, 3, -1, 5, NAN, -1, 8]]], "float32")
    assert poolcli.avg_pool(x, 2, strides=2, missing=(NAN, -1)).tolist() == [[[1, 3, 5, 8]]]
    assert poolcli.avg_pool(x, 2, strides=2, missing=("nan", "-1")).tolist() == [[[1, 3, 5, 8]]]
    values, at = poolcli.max_pool(x, 2, strides=2, missing=[np.float64(NAN), 8], return_indices=True)
    assert (values.tolist(), at.tolist()) == ([[[1, 3, 5, -1]]], [[[0, 2, 4, 6]]])


def test_a_window_of_missing_elements_alone_gives_nan_or_the_number_again() -> None:
    x = np.array([[[-9, -9, 4, -9]]])
    assert poolcli.avg_pool(x, 2, strides=2, missing=-9).tolist() == [[[-9, 4]]]
    values, at = poolcli.min_pool(x, 2, strides=2, missing=-9, return_indices=True)
    assert (values.tolist(), at.tolist()) == ([[[-9, 4]]], [[[-1, 2]]])
    averages: Any = (AvgPool(2, strides=2, **more) for more in ({"exclude_pad": False}, {"divisor_override": 3}))
    for op in (*averages, LpPool(2, strides=2), MaxPool(2, strides=2)):
        assert math.isnan(op(x.astype("float32"), missing=-9)[0, 0, 0])


REFUSED = (
    ("a word", "x", "missing is 'x'; write a number, nan, or none (no nodata value)"),
    ("a truth value", True, "missing is True; write a number, nan, or none (no nodata value)"),
    ("two axes", np.zeros((2, 2)),
     "missing is an array of shape (2, 2); write a number, nan, or none (no nodata value)"),
    ("a number of another type", 300, "missing=300 does not fit uint8, which holds whole numbers from 0 to 255"),
    ("a fraction", 0.5, "missing=0.5 does not fit uint8, which holds whole numbers from 0 to 255"),
    ("nan", NAN, "missing=nan does not fit uint8, which holds whole numbers from 0 to 255"),
    ("a very long number", 10**400, "missing is a whole number beyond 2**64; give larger ones as floats"),
)  # fmt: skip


@pytest.mark.parametrize(("value", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_no_element_can_be_is_refused(value: Any, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        poolcli.avg_pool(np.zeros((1, 1, 4), "uint8"), 2, missing=value)
    assert (str(caught.value), caught.value.field) == (message, "missing")


def test_a_number_that_is_infinite_in_a_float_type_is_refused() -> None:
    with pytest.raises(RequestError, match=r"^missing=1e\+39 does not fit float32, in which it is infinite$"):
        poolcli.avg_pool(np.zeros((1, 1, 4), "float32"), 2, missing=1e39)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize(("least", "needed"), [(1, 1), (3, 3), ("40%", None), ("100%", None)])
@pytest.mark.parametrize(
    "op",
    [AvgPool(3, strides=2, pads=1), MaxPool(3, strides=2, pads=1), SumPool(3, strides=2, pads=1), LpPool(2, strides=2)],
    ids=str,
)
def test_a_window_of_too_few_valid_elements_is_missing(op: Any, least: Any, needed: int | None, engine: Engine) -> None:
    x = np.random.default_rng(1).standard_normal((1, 2, 12, 13)).astype(np.float32)
    x[np.random.default_rng(2).random(x.shape) < 0.5] = -9
    count = SumPool(**_sliding(op))
    valid, every = (count(each, engine=engine) for each in ((x != -9) * 1.0, np.ones(x.shape)))
    few = valid < needed if needed is not None else valid * 100 < float(least[:-1]) * every
    plain = op(x, missing=-9, engine=engine)
    found = op(x, missing=-9, min_count=least, engine=engine)
    np.testing.assert_array_equal(found, np.where(few, np.nan, plain))
    if op.reducer.picks:
        _, at = op(x, missing=-9, min_count=least, engine=engine, return_indices=True)
        np.testing.assert_array_equal(at < 0, few | np.isnan(plain))


def test_areas_count_as_the_parts_of_elements_that_are_valid() -> None:
    x = np.array([[[4, -9, 6], [4, 6, -9]]], np.float32)  # each cell is 1.5 elements long
    found = AreaPool(2)(x, missing=-9, min_count=1, engine="numpy")
    np.testing.assert_array_equal(found, np.array([[[4, 6], [14 / 3, np.nan]]], np.float32))


def _sliding(op: Any) -> dict[str, Any]:
    return {own.name: getattr(op, own.name) for own in fields(SumPool) if own.name != "like"}


@pytest.mark.parametrize("given", [0, -1, 2.5, True, "half", "0%", "101%", "nan%", ""])
def test_a_minimum_that_is_no_count_or_share_is_refused(given: Any) -> None:
    with pytest.raises(RequestError, match=r"; give a whole number of at least 1, or a share above 0% and up to 100%$"):
        poolcli.avg_pool(np.ones((1, 1, 4)), 2, missing=1, min_count=given)


def test_a_minimum_needs_missing_values(cli: Any, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="min_count has no effect without missing"):
        poolcli.avg_pool(np.ones((1, 1, 4)), 2, min_count=2)
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, np.array([[[1, -9, -9, -9, 2, 5]]], np.int16))
    result = cli("avg", x, "-o", y, "-k", "2", "-s", "2", "--min-count", "1")
    assert (result.code, "--min-count has no effect: no nodata value is known" in result.out) == (0, True)
    result = cli("avg", x, "-o", y, "-k", "2", "-s", "2", "--min-count", "2", "--missing=-9", "--overwrite")
    assert "windows with fewer than 2 valid elements give -9 again" in " ".join(result.out.split())
    assert np.load(y).tolist() == [[[-9, -9, 4]]]


@pytest.mark.parametrize("like", ["openvino", "onnx", "pytorch"])
def test_windows_of_nothing_but_hidden_elements_have_the_index_minus_one(like: str) -> None:
    plan = replace(poolcli.MaxPool(2, strides=2, like=like).plan((2, 3, 4, 6), dtype="uint8"), nodata=0)
    x = np.random.default_rng(0).integers(0, 99, plan.input_shape, "uint8")
    hidden = np.zeros(x.shape, np.bool_)
    hidden[1, :, 2:, 4:] = True
    expected = call_of(whole(plan), indices=True, engine="numpy")(x)[1]
    found = call_of(whole(plan), indices=True, engine="numpy", mask=hidden)(x)[1]
    assert expected is not None
    expected[1, :, 1, 2] = -1
    np.testing.assert_array_equal(found, expected)
