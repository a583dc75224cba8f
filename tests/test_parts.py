"""A plan cut into parts: every cut gives the same bits as the whole, in both engines."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from poolcli.engine import run
from poolcli.plan import Plan

OPS: dict[str, Any] = {
    "avg": AvgPool(3, 2, 1, 1),
    "avg, ceil and include": AvgPool(4, 3, 2, 1, rounding_type="ceil", exclude_pad=False),
    "avg like PyTorch": AvgPool(3, 2, 1, 1, rounding_type="ceil", like="pytorch"),
    "avg, dilated": AvgPool(3, 1, 2, 2, dilations=2),
    "avg, blocks of rows": AvgPool(9, 1, 4, 4),
    "avg, blocks of rows and a stride": AvgPool(10, 2, 4, 5),
    "avg, halves": AvgPool(2, 2),
    "avg, one window along W": AvgPool((3, 23), 1),
    "avg, gaps": AvgPool(2, 5),
    "avg, windows in the padding": AvgPool(3, 4, 9, 9, exclude_pad=False),
    "max": MaxPool(3, 2, 1, 1),
    "max, blocks of rows": MaxPool(9, 1, 4, 4, axis=2),
    "max like TensorFlow": MaxPool(3, 2, like="tensorflow", auto_pad="same_upper"),
    "adaptive-avg": AdaptiveAvgPool((7, 5)),
    "adaptive-avg, one row of bins": AdaptiveAvgPool((5, 1)),
    "adaptive-avg, up": AdaptiveAvgPool((50, 31)),
    "adaptive-max": AdaptiveMaxPool((7, 5)),
}
SHAPE = (3, 4, 31, 23)


def cuts(draw: Any, length: int, grain: int) -> list[range]:
    places = draw(st.lists(st.integers(0, max(length - 1, 0) // grain), max_size=3))
    edges = sorted({0, length, *(grain * place for place in places)})
    return [range(a, b) for a, b in pairwise(edges)]


def in_parts(plan: Plan, x: Any, regions: list[list[range]], engine: str, indices: bool) -> tuple[Any, Any]:
    values = np.zeros(plan.output_shape, x.dtype)
    places = np.zeros(plan.output_shape, np.int64) if indices else None
    for n in regions[0]:
        for c in regions[1]:
            for h in regions[2]:
                for w in regions[3]:
                    part, read = plan.part((n, c, h, w))
                    slab = x[tuple(slice(r.start, r.stop) for r in read)]
                    at = tuple(slice(r.start, r.stop) for r in (n, c, h, w))
                    values[at], found = run(part, slab, engine=engine, indices=indices)
                    if places is not None and found is not None:
                        places[at] = found
    return values, places


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int64"])
@pytest.mark.parametrize("name", OPS)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_every_cut_gives_the_bits_of_the_whole(name: str, dtype: str, engine: str, data: Any) -> None:
    op = OPS[name]
    noise = np.random.default_rng(0).normal(size=SHAPE) * 50
    x = noise.astype(dtype) if dtype.startswith("f") else noise.astype(np.int8).astype(dtype)
    plan = op.plan(SHAPE, dtype)
    indices = "max" in name
    values, places = run(plan, x, engine=engine, indices=indices)
    regions = [
        cuts(data.draw, length, plan.axes[i - 2].windows.grain if i >= 2 else 1)
        for i, length in enumerate(plan.output_shape)
    ]
    pieces, found = in_parts(plan, x, regions, engine, indices)
    np.testing.assert_array_equal(pieces.view(np.uint8), values.view(np.uint8))
    if places is not None:
        np.testing.assert_array_equal(found, places)


def test_parts_of_a_long_row_and_of_parts_agree_too() -> None:
    x = np.random.default_rng(1).normal(size=(1, 1, 100_000)).astype(np.float32)
    ops: tuple[Any, ...] = (AvgPool(7, 3, 2, 2), AvgPool(400, 1), AvgPool(400, 400), AdaptiveAvgPool(9))
    for op in ops:
        plan = op.plan(x.shape)
        whole, _ = run(plan, x, engine="numba")
        edge = plan.output_shape[2] // 2 // plan.axes[0].windows.grain * plan.axes[0].windows.grain
        for outputs in (range(edge), range(edge, plan.output_shape[2])):
            if outputs:
                part, read = plan.part((range(1), range(1), outputs))
                values, _ = run(part, x[..., read[2].start : read[2].stop], engine="numba")
                np.testing.assert_array_equal(values, whole[..., outputs.start : outputs.stop])
