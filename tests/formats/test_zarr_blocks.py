"""Blocks of an output: of whole shards, each element in one of them, and no larger than memory allows."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from poolcli import AdaptiveAvgPool, AvgPool
from poolcli.formats.records import batches
from poolcli.plan.plan import blocks_of, largest_block, whole
from poolcli.pooling.tiles import block_shape
from poolcli.windows import slices
from tests.profiles import sized

LENGTHS = st.lists(st.integers(1, 40), min_size=2, max_size=3)


@settings(max_examples=sized(40, 150))
@given(data=st.data(), lengths=LENGTHS, most=st.integers(1, 20_000))
def test_blocks_are_of_whole_units_and_have_every_element_once(data: Any, lengths: list[int], most: int) -> None:
    shape = (2, *lengths)
    kernel, stride = data.draw(st.integers(1, min(lengths))), data.draw(st.integers(1, 3))
    op: Any = data.draw(st.sampled_from([AvgPool(kernel, strides=stride), AdaptiveAvgPool(3)]))
    plan = op.plan(shape, "uint8", layout="C" + "DHW"[-len(lengths) :])
    unit = data.draw(st.tuples(*(st.integers(1, 9) for _ in shape)))
    chunks = data.draw(st.none() | st.tuples(*(st.integers(1, 9) for _ in shape)))
    cut = block_shape(plan, unit, chunks, most)
    seen = np.zeros(plan.output_shape, int)
    for region in blocks_of(whole(plan), cut):
        for span, length, n in zip(region.outputs, unit, plan.output_shape, strict=True):
            assert span.start % length == 0
            assert span.stop % length == 0 or span.stop == n
        seen[slices(region.outputs)] += 1
    assert (seen == 1).all()
    assert cut == unit or largest_block(whole(plan), cut).aligned.nbytes <= most


def test_blocks_grow_where_that_spares_decoding_the_same_chunks_again() -> None:
    def shape(kernel: int, pads: int) -> tuple[int, ...]:
        plan = AvgPool(kernel, strides=2, pads=pads).plan((2048, 2048, 2048), "uint8", layout="DHW")
        return block_shape(plan, (128, 128, 128), (128, 128, 128), 128 * 2**20)

    assert shape(2, 0) == (128, 128, 128)  # 16 MiB: every chunk is decoded once, however large a block is
    assert shape(3, 1) == (128, 256, 256)  # 64 MiB: 3 x 5 x 5 chunks for 2 x 4 x 4, instead of 3 x 3 x 3 for 2 x 2 x 2


@settings(max_examples=sized(40, 150))
@given(data=st.data())
def test_batches_cut_a_region_between_chunks(data: Any) -> None:
    rank = data.draw(st.integers(1, 4))
    region = tuple(
        range(start, start + data.draw(st.integers(0, 40))) for start in [data.draw(st.integers(0, 9))] * rank
    )
    chunk = tuple(data.draw(st.integers(1, 7)) for _ in region)
    seen = np.zeros([axis.stop for axis in region], int)
    for part in batches(region, chunk):
        for span, axis, length in zip(part, region, chunk, strict=True):
            assert span.start == axis.start or span.start % length == 0
            assert span.stop == axis.stop or span.stop % length == 0
        assert prod(-(-s.stop // c) - s.start // c for s, c in zip(part, chunk, strict=True)) <= 1024
        seen[slices(part)] += 1
    assert (seen[slices(region)] == 1).all()
    assert seen.sum() == prod(map(len, region))


@pytest.mark.parametrize("most", [1, 2**40])
def test_an_output_of_nothing_has_no_blocks(most: int) -> None:
    plan = AvgPool(1).plan((0, 4, 4), "uint8", layout="CHW")
    assert list(blocks_of(whole(plan), block_shape(plan, (1, 2, 2), None, most))) == []
