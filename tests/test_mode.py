"""Modes, for labels. What holds of every operator is tested with the others."""

from __future__ import annotations

from itertools import product
from statistics import multimode
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import poolcli
from poolcli import ModePool, RequestError
from poolcli.arguments import DTypeName, Engine
from tests.engine.test_kernels import name_of, watched
from tests.profiles import by_engine, sized
from tests.reducers import by_loop

DTYPES = (("bool",), ("int8",), ("uint8",), ("int16",), ("uint32",), ("int64",), ("uint64",))
MODES = {
    "of two, halves": ModePool(2, strides=2),
    "of three, padded": ModePool(3, strides=2, pads=1),
    "of two, dilated": ModePool(2, strides=1, pads=1, dilations=2),
    "of many": ModePool(4, strides=3, pads=1),
    "far apart": ModePool(2, strides=9),
    "the whole": ModePool((5, 9, 7)),
    "ceil": ModePool(2, strides=2, rounding_type="ceil"),
}


def modes(op: ModePool, x: Any) -> Any:
    """The modes of [N, C, D, H, W] by a slow loop."""
    plan = op.plan(x.shape, x.dtype)
    return np.array(by_loop(plan, x)[0], x.dtype).reshape(plan.output_shape)


def labels(dtype: DTypeName, shape: tuple[int, ...] = (2, 1, 5, 9, 7)) -> Any:
    """Few different labels, the ends of the type among them."""
    ends = [0, 1] if dtype == "bool" else [np.iinfo(dtype).min, np.iinfo(dtype).max, 3, 4]
    return np.random.default_rng(7).choice(np.array(ends, dtype), shape)


@pytest.mark.parametrize(("dtype", "engine"), by_engine(*DTYPES, compiled=(("uint8",),)))
def test_modes_are_those_of_a_slow_loop(dtype: DTypeName, engine: Engine) -> None:
    x = labels(dtype)
    for name, op in MODES.items():
        with watched() as taken:
            found = op(x, engine=engine)
        is_compiled = engine == "numba" and name not in ("of many", "the whole")  # of more than 49 elements
        assert [name_of(one) for one in taken] == ["mode"] * is_compiled, name
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, modes(op, x), name)


@settings(max_examples=sized(30, 200), derandomize=True)
@given(st.data())
def test_modes_of_any_windows_are_those_of_a_slow_loop(data: st.DataObject) -> None:
    kernel = data.draw(st.tuples(*[st.integers(1, 4)] * 3))
    strides, dilations = (data.draw(st.tuples(*[st.integers(1, top)] * 3)) for top in (3, 2))
    pads = tuple(data.draw(st.integers(0, k - 1)) for k in kernel)
    shape = (1, 2, *data.draw(st.tuples(*[st.integers(7, 9)] * 3)))
    op = ModePool(kernel, strides=strides, pads=pads, dilations=dilations)
    x = labels("int8", shape)
    np.testing.assert_array_equal(op(x, engine="numpy"), modes(op, x))
    channels_last = ModePool(kernel, strides=strides, pads=pads, dilations=dilations)(
        np.moveaxis(x, 1, -1), engine="numpy", layout="NDHWC"
    )
    np.testing.assert_array_equal(np.moveaxis(channels_last, -1, 1), modes(op, x))


@pytest.mark.compiles
@pytest.mark.parametrize("windows", [(2, 5), (3, 4), (4, 3)], ids=str)
def test_windows_that_are_clipped_at_both_ends_are_read_from_where_they_start(windows: tuple[int, int]) -> None:
    x, op = labels("uint8", (2, 3, 5)), ModePool(windows[0], strides=windows[1], pads=1)
    np.testing.assert_array_equal(op(x, engine="numba"), op(x, engine="numpy"))


@pytest.mark.slow
@settings(max_examples=60, derandomize=True)
@given(st.data())
def test_the_engines_agree_on_modes(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    kernel = data.draw(st.tuples(*[st.integers(1, 4)] * rank))
    strides = data.draw(st.tuples(*[st.sampled_from([1, 2, 5])] * rank))
    pads = tuple(data.draw(st.integers(0, k - 1)) for k in kernel)
    layout = data.draw(st.sampled_from(["NC" + "DHW"[-rank:], "N" + "DHW"[-rank:] + "C"]))
    shape = data.draw(st.tuples(*[st.integers(5, 40)] * rank))
    x = labels("int32", (2, *shape, 3) if layout[-1] == "C" else (2, 3, *shape))
    op = ModePool(kernel, strides=strides, pads=pads)
    by_numpy, by_numba = (op(x, engine=engine, layout=layout) for engine in ("numpy", "numba"))
    np.testing.assert_array_equal(by_numba, by_numpy)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_modes_of_long_rows_are_taken_in_pieces(engine: Engine) -> None:
    x = np.random.default_rng(0).integers(0, 3, (1, 1, 2, 9000)).astype(np.uint8)
    pairs = x[0, 0].reshape(2, 4500, 2).transpose(1, 0, 2).reshape(4500, 4).tolist()
    expected = [min(multimode(window)) for window in pairs]
    assert poolcli.mode_pool(x, 2, strides=2, engine=engine).tolist() == [[[expected]]]


@pytest.mark.compiles
def test_a_mode_can_be_kept_in_a_wider_type() -> None:
    x = np.array([[[2, 200, 200, 7]]], np.uint8)
    dtypes: tuple[DTypeName, ...] = ("uint16", "int64", "float32")
    for dtype, engine in product(dtypes, get_args(Engine)):
        found = poolcli.mode_pool(x, 3, dtype=dtype, engine=engine)
        assert (found.tolist(), found.dtype.name) == ([[[200, 200]]], dtype)


@pytest.mark.parametrize(
    ("op", "dtype", "message"),
    [
        (ModePool(2), "float32",
         "a mode needs integers or bool, not float32; convert it, or use max or avg"),
        (ModePool(2), "bfloat16",
         "a mode needs integers or bool, not bfloat16; convert it, or use max or avg"),
        (ModePool(2, strides=4, rounding_type="ceil"), "uint8",
         "1 window holds no input element, and the mode of an empty window is undefined; "
         "use rounding_type='floor' or ceil_torch, or smaller pads"),
        (ModePool(2, pads_begin=2, pads_end=2, like="pytorch"), "uint8",
         "PyTorch allows pads of at most 1 for a kernel of 2: axis W has pads 2,2; use pads=1, or another like"),
    ],
    ids=["floats", "short floats", "nothing", "limits of a dialect"],
)  # fmt: skip
def test_what_has_no_mode_is_refused(op: ModePool, dtype: DTypeName, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        op.plan((1, 1, 7), dtype)
    assert str(refused.value) == message


def test_a_dialect_sets_the_windows_of_modes_and_no_framework_is_written_for() -> None:
    from poolcli.explain.export import convert

    plan = ModePool(2, like="pytorch").plan((1, 1, 3, 3), "uint8")
    assert plan.attributes["strides"] == [2, 2]
    found = convert(ModePool(2, strides=2).plan((1, 1, 4, 4), "uint8"), "pytorch")
    assert (found.text, found.reason) == (None, "PyTorch has no mode pooling")


def test_a_typed_shape_is_taken_as_labels_where_modes_are_asked_for(cli: Any) -> None:
    assert cli("shape", "mode", "1,1,9,9", "-k", "2", "-s", "2").out.splitlines()[1:3] == [
        "input   N=1 C=1 H=9 W=9  uint8", "output  N=1 C=1 H=4 W=4  uint8"
    ]  # fmt: skip
