"""Arrays that are given to an engine: they lie in any order, are not copied, and take the result where they lie."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import poolcli
from poolcli import AvgPool, MaxPool, RequestError
from poolcli.arguments import DTypeName, Engine
from poolcli.engine import run
from tests.engine.test_kernels import CONSTANT
from tests.profiles import slow

pytestmark = pytest.mark.compiles

ENGINES = ("numpy", "numba")


@pytest.mark.parametrize("engine", ENGINES)
def test_out_may_be_the_input(engine: Engine) -> None:
    x = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    expected = poolcli.max_pool(x, 3, pads_begin=1, pads_end=1, engine=engine)
    np.testing.assert_array_equal(poolcli.max_pool(x, 3, pads_begin=1, pads_end=1, engine=engine, out=x), expected)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_no_copy_is_made_of_the_input(layout: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((4, 256, 256, 4) if layout == "NHWC" else (4, 4, 256, 256), np.float32))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    plan = AvgPool(3, strides=2, pads=1).plan(x.shape, x.dtype, layout=layout)
    out = np.empty(plan.output_shape, np.float32)
    run(plan, x, out=out, engine="numba")
    tracemalloc.start()
    run(plan, x, out=out, engine="numba")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < x.nbytes / 20


def test_no_copy_is_made_of_an_output_whose_bits_kernels_write() -> None:
    x, out = np.ones((4, 4, 256, 256), np.float16), np.empty((4, 4, 128, 128), np.float16)
    plan = MaxPool(2, strides=2).plan(x.shape, x.dtype)
    run(plan, x, out=out, engine="numba")
    tracemalloc.start()
    run(plan, x, out=out, engine="numba")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < out.nbytes / 20


@pytest.mark.parametrize("engine", ENGINES)
def test_out_receives_the_result_wherever_it_lies(engine: Engine) -> None:
    x = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
    whole = np.zeros((1, 1, 4, 8), np.float32)
    result = poolcli.avg_pool(x, 2, strides=2, engine=engine, out=whole[..., ::2])
    assert result.base is whole
    np.testing.assert_array_equal(whole[..., ::2], x.reshape(1, 1, 4, 2, 4, 2).mean((3, 5)))
    with pytest.raises(RequestError, match=r"^out has shape \(1, 1, 4, 8\) and dtype float32, the result has"):
        poolcli.avg_pool(x, 2, strides=2, engine=engine, out=whole)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 1, 3, 2), (3, 2, 1, 0)])
@pytest.mark.parametrize("step", [1, -1])
def test_the_order_in_memory_changes_nothing(engine: Engine, order: tuple[int, ...], step: int) -> None:
    x = np.random.default_rng(0).random((3, 5, 70, 90)).astype(np.float32)
    lying = np.ascontiguousarray(x[..., ::step].transpose(order)).transpose(np.argsort(order))[..., ::step]
    assert not lying.flags.c_contiguous
    assert poolcli.avg_pool(lying, 3, engine=engine).tobytes() == poolcli.avg_pool(x, 3, engine=engine).tobytes()


def _exchanged(x: Any) -> Any:
    """The same, rows and columns exchanged in memory."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


def _back(x: Any) -> Any:
    """The same, rows back to front in memory."""
    return np.ascontiguousarray(x[..., ::-1])[..., ::-1]


OVERHANGING = {"pads_begin": (1, 2), "pads_end": (1, 0), "rounding_type": "ceil"}
LYING = [
    ("float32", _exchanged, 3, {"strides": 2, **OVERHANGING}),
    slow("float32", _exchanged, (6, 2), {"strides": 1, "pads_begin": (5, 0), "pads_end": (5, 1)}),
    slow("float32", _exchanged, (2, 4), {"strides": (1, 3), **OVERHANGING}),
    ("float32", _exchanged, (2, 3), {"strides": (2, 3)}),
    ("float32", _back, 3, {"strides": 2, **OVERHANGING}),
    slow("float64", _back, 3, {"strides": 2, **OVERHANGING}),
    slow("uint8", _back, (9, 3), {"strides": 2, **OVERHANGING}),
    ("float32", _back, 2, {"strides": 2}),
    slow("uint8", _back, (3, 2), {"strides": 2}),
]


@pytest.mark.parametrize(("dtype", "lying", "size", "attributes"), LYING)
def test_what_lies_in_another_order_is_added_in_that_of_the_layout(
    dtype: DTypeName, lying: Callable[[Any], Any], size: Any, attributes: dict[str, Any]
) -> None:
    rng, shape = np.random.default_rng(0), (2, 3, 37, 41)
    x = rng.integers(0, 255 if dtype == "uint8" else 3, shape).astype(dtype)
    if dtype != "uint8":  # large ones cancel each other, so that sums in another order are others
        x *= rng.choice([1, 2.0**60, -(2.0**60)], shape).astype(dtype)
        x[0, 1], x[1, 1, 3, 4], x[1, 1, 9, 8] = -0.0, np.nan, -np.inf
    expected = poolcli.avg_pool(x, size, **attributes, engine="numba")
    with patch("poolcli.engine.compiled.choice.LIMITS", CONSTANT):
        found = poolcli.avg_pool(lying(x), size, **attributes, engine="numba")
    assert found.tobytes() == expected.tobytes()


# An array of one plane that ends where memory that cannot be read begins; its windows of two planes read none.
BEFORE_A_GUARD = """
import ctypes, mmap, sys
import numpy as np, poolcli
size, end = int(sys.argv[1]), 1 << 22
memory = mmap.mmap(-1, end + mmap.PAGESIZE)
x = np.frombuffer(memory, np.float32, end // 4).reshape(1, 1, 1, 1024, 1024)
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(x.ctypes.data + end), mmap.PAGESIZE, 0) == 0
kernel, strides, dilations, pads = (2, size, size), (1, size, size), (2, 1, 1), (1, 0, 0)
found = poolcli.max_pool(x, kernel, strides=strides, dilations=dilations, pads=pads, engine="numba")
assert (found == -np.inf).all()
"""


@pytest.mark.parametrize("size", [2, 5], ids=["direct", "sliding"])
def test_windows_in_the_padding_read_nothing_behind_the_array(size: int) -> None:
    ended = subprocess.run([sys.executable, "-c", BEFORE_A_GUARD, str(size)], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
