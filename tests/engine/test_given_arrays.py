"""Arrays that are given to an engine: they lie in any order, are not copied, and take the result where they lie."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest

import poolcli
from poolcli import AvgPool, MaxPool, RequestError
from poolcli.arguments import Engine
from poolcli.engine import run

pytestmark = pytest.mark.compiles

ENGINES = ("numpy", "numba")


@pytest.mark.parametrize("engine", ENGINES)
def test_out_may_be_the_input(engine: Engine) -> None:
    x = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    expected = poolcli.max_pool(x, 3, pads_begin=1, pads_end=1, engine=engine)
    np.testing.assert_array_equal(poolcli.max_pool(x, 3, pads_begin=1, pads_end=1, engine=engine, out=x), expected)


@pytest.mark.parametrize(
    ("op", "shape", "dtype", "layout"),
    [
        (AvgPool(3, strides=2, pads=1), (4, 4, 256, 256), np.float32, "NCHW"),
        (AvgPool(3, strides=2, pads=1), (4, 256, 256, 4), np.float32, "NHWC"),
        (MaxPool(2, strides=2), (4, 4, 256, 256), np.float16, "NCHW"),  # whose bits kernels write
    ],
)
def test_no_copy_is_made_of_the_input_or_the_output(op: Any, shape: tuple[int, ...], dtype: Any, layout: str) -> None:
    x = np.ones(shape, dtype)
    plan = op.plan(shape, x.dtype, layout=layout)
    out = np.empty(plan.output_shape, dtype)
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


# Zeros that end where memory that cannot be read begins.
BEFORE_A_GUARD = """
import ctypes, mmap
import numpy as np, poolcli
end = 1 << 22
memory = np.frombuffer(mmap.mmap(-1, end + mmap.PAGESIZE), np.uint8)
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(memory.ctypes.data + end), mmap.PAGESIZE, 0) == 0
def zeros(dtype, *shape):
    return memory[end - np.dtype(dtype).itemsize * np.prod(shape) : end].view(dtype).reshape(shape)
"""
# Windows of two planes, which lie in the padding.
IN_PADDING = """
kernel, strides, dilations, pads = (2, {0}, {0}), (1, {0}, {0}), (2, 1, 1), (1, 0, 0)
x = zeros("float32", 1, 1, 1, 1024, 1024)
found = poolcli.max_pool(x, kernel, strides=strides, dilations=dilations, pads=pads, engine="numba")
assert (found == -np.inf).all()
"""
PIXELS = """
found = poolcli.avg_pool(zeros("uint8", 300, 410, 3), 2, strides=2, layout="HWC", engine="numba")
assert (found == 0).all()
"""


@pytest.mark.parametrize(
    "code", [IN_PADDING.format(2), IN_PADDING.format(5), PIXELS], ids=["direct", "sliding", "pixels of bytes"]
)
def test_kernels_read_nothing_behind_the_array(code: str) -> None:
    ended = subprocess.run([sys.executable, "-c", BEFORE_A_GUARD + code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
