"""Arrays that are given to an engine: they lie in any order, are not copied, and take the result where they lie."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import poolcli
from poolcli import AvgPool, RequestError
from poolcli.engine import run

ENGINES = ("numpy", "numba")


@pytest.mark.parametrize("engine", ENGINES)
def test_out_may_be_the_input(engine: str) -> None:
    x = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    expected = poolcli.max_pool(x, 3, pads_begin=1, pads_end=1, engine=engine)
    np.testing.assert_array_equal(poolcli.max_pool(x, 3, pads_begin=1, pads_end=1, engine=engine, out=x), expected)


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


@pytest.mark.parametrize("engine", ENGINES)
def test_out_receives_the_result_wherever_it_lies(engine: str) -> None:
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
def test_the_order_in_memory_changes_nothing(engine: str, order: tuple[int, ...], step: int) -> None:
    x = np.random.default_rng(0).random((3, 5, 70, 90)).astype(np.float32)
    lying = np.ascontiguousarray(x[..., ::step].transpose(order)).transpose(np.argsort(order))[..., ::step]
    assert not lying.flags.c_contiguous
    assert poolcli.avg_pool(lying, 3, engine=engine).tobytes() == poolcli.avg_pool(x, 3, engine=engine).tobytes()
