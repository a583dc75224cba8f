"""What an array's order in memory changes: the time, and where channels lie in the result; no bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from poolcli import AdaptiveAvgPool, AvgPool, MaxPool
from poolcli.engine import run
from poolcli.engine.compiled import choice
from poolcli.plan import Plan
from tests.engine.test_kernels import CONSTANT, watched
from tests.profiles import sized

pytestmark = pytest.mark.compiles

Array = np.ndarray[Any, np.dtype[Any]]
SHAPE = (3, 5, 17, 22)


def _lying(*order: int) -> Callable[[Array], Array]:
    """The same array with its axes in that order in memory."""
    return lambda x: np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


def _turned(*axes: int) -> Callable[[Array], Array]:
    """The same array with these axes back to front in memory."""
    return lambda x: np.flip(np.ascontiguousarray(np.flip(x, axes)), axes)


def _within(x: Array) -> Array:
    return np.pad(x, [(1, 2)] * x.ndim)[(slice(1, -2),) * x.ndim]


ORDERS: dict[str, Callable[[Array], Array]] = {
    "channels last": _lying(0, 2, 3, 1),
    "rows and columns exchanged": _lying(0, 1, 3, 2),
    "the first axis last": _lying(3, 2, 1, 0),
    "planes back to front": _turned(0),
    "rows back to front": _turned(2),
    "columns back to front": _turned(2, 3),
    "part of a larger array": _within,
    "every second column": lambda x: np.repeat(x, 2, 3)[..., ::2],
    "every second channel": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "one row for all": lambda x: np.broadcast_to(x[:, :, :1], x.shape),
    "one column for all": lambda x: np.broadcast_to(x[..., :1], x.shape),
    "one element for all": lambda x: np.broadcast_to(x[0, 0, 0, 0], x.shape),
    "records": lambda x: np.rec.fromarrays([x, np.zeros(x.shape, np.int8)]).f0,
}
CHANNELS = (2, 17, 3, 22)
PLANS: dict[str, Callable[[str], Plan]] = {
    "sliding": lambda dtype: AvgPool(3, strides=2, pads=1).plan(SHAPE, dtype),
    "tall": lambda dtype: AvgPool((9, 3), strides=1, pads=1).plan(SHAPE, dtype),
    "direct": lambda dtype: AvgPool(2, strides=2).plan(SHAPE, dtype),
    "bins": lambda dtype: AdaptiveAvgPool((2, 2)).plan(SHAPE, dtype),
    "bins of channels": lambda dtype: AdaptiveAvgPool((2, 2)).plan(CHANNELS, dtype),
    "bins of channels, in place": lambda dtype: AdaptiveAvgPool((3, 2)).plan(CHANNELS, dtype),
    "positions": lambda dtype: MaxPool((3, 2), strides=1, pads=1, axis=2).plan(SHAPE, dtype),
}
KINDS = [*((kernel, "float32") for kernel in PLANS), ("sliding", "uint8"), ("direct", "uint8")]
# With the first axis last, each kind has kernels of its own: those of one are built.
ROWS = [(*kind, order) for kind in KINDS for order in ORDERS if "first" not in order or kind in sized(KINDS[:1], KINDS)]


@pytest.mark.parametrize(("kernel", "dtype", "order"), ROWS)
def test_no_bit_depends_on_the_order_in_memory(kernel: str, dtype: str, order: str) -> None:
    plan, indices = PLANS[kernel](dtype), kernel == "positions"
    shape = plan.input_shape
    x = np.random.default_rng(0).standard_normal(shape) * 10.0 ** np.random.default_rng(1).integers(-9, 9, shape)
    x = ORDERS[order](x.astype(dtype) if dtype == "float32" else (x % 256).astype(dtype))
    with patch.object(choice, "LIMITS", CONSTANT):
        expected, places = run(plan, np.ascontiguousarray(x), engine="numba", indices=indices)
        with patch("poolcli.engine.compiled.pool.MIN_PER_THREAD", 1), watched() as taken:
            found, found_places = run(plan, x, engine="numba", indices=indices)
            out = np.zeros((*expected.shape, 2), expected.dtype)[..., 1]
            run(plan, x, engine="numba", out=out)
    assert not x.flags.c_contiguous
    assert len({step.family for step in taken}) == 1
    assert found.tobytes() == out.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(found_places, places)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_channels_that_lie_last_in_memory_do_so_in_the_result(engine: str) -> None:
    x = _lying(0, 2, 3, 1)(np.ones(SHAPE, np.float32))
    result, _ = run(AvgPool(2, strides=2).plan(SHAPE, "float32"), x, engine=engine)
    assert result.shape == (3, 5, 8, 11)
    assert result.transpose(0, 2, 3, 1).flags.c_contiguous


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize(
    ("plan", "is_exchanged"),
    [
        (MaxPool(2, strides=2).plan(SHAPE, "float32"), True),
        (AvgPool(2, strides=2).plan(SHAPE, "uint8"), True),
        (AvgPool(2, strides=2).plan(SHAPE, "float32"), False),
    ],
    ids=["maximum", "average of integers", "average of floats"],
)
def test_rows_and_columns_are_exchanged_in_the_result_where_no_bit_depends_on_it(
    plan: Plan, is_exchanged: bool, engine: str
) -> None:
    x = _lying(0, 1, 3, 2)(np.ones(SHAPE, plan.dtype))
    result, _ = run(plan, x, engine=engine)
    assert result.shape == (3, 5, 8, 11)
    assert result.transpose((0, 1, 3, 2) if is_exchanged else (0, 1, 2, 3)).flags.c_contiguous


def test_rows_and_columns_that_are_exchanged_are_pooled_where_they_lie() -> None:
    plan, x = (
        AvgPool(3, strides=2, pads=1).plan(SHAPE, "uint8"),
        np.arange(np.prod(SHAPE), dtype=np.uint8).reshape(SHAPE),
    )
    expected, _ = run(plan, x, engine="numpy")
    # Only other arrays ask for it.
    with patch("poolcli.engine.compiled.pool.choose_for_memory_order", side_effect=AssertionError):
        run(plan, x, engine="numba")
    exchanged = _lying(0, 1, 3, 2)(x)
    with patch("numpy.ascontiguousarray") as brought_into_order:
        result, _ = run(plan, exchanged, engine="numba")
    brought_into_order.assert_not_called()
    np.testing.assert_array_equal(result, expected)
