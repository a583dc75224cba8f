"""A plan cut into regions: every cut gives the same bits as the whole, in both engines."""

from __future__ import annotations

import pickle
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from poolcli import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AreaPool,
    AvgPool,
    MaxPool,
    MedianPool,
    ModePool,
    RequestError,
    StdPool,
)
from poolcli.engine import _pieces_of, call_of, run
from poolcli.engine.choose import NUMBA
from poolcli.plan import Plan
from poolcli.plan.plan import Region, whole
from poolcli.pooling.tiles import MAX_BLOCK_BYTES, TILE_BYTES, Work, bytes_of_block, divide, pool_block
from poolcli.windows import slices
from tests.profiles import by_engine, sized
from tests.reducers import MINIMUM, Under, power

OPS: dict[str, Any] = {
    "avg": AvgPool(3, strides=2, pads=1),
    "avg, ceil and include": AvgPool(4, strides=3, pads_begin=2, pads_end=1, rounding_type="ceil", exclude_pad=False),
    "avg like PyTorch": AvgPool(3, strides=2, pads=1, rounding_type="ceil", like="pytorch"),
    "avg, dilated": AvgPool(3, strides=1, pads=2, dilations=2),
    "avg, blocks of rows": AvgPool(9, strides=1, pads=4),
    "avg, blocks of rows and a stride": AvgPool(10, strides=2, pads_begin=4, pads_end=5),
    "avg, halves": AvgPool(2, strides=2),
    "avg, one window along W": AvgPool((3, 23), strides=1),
    "avg, gaps": AvgPool(2, strides=5),
    "avg, windows in the padding": AvgPool(3, strides=4, pads=9, exclude_pad=False),
    "max": MaxPool(3, strides=2, pads=1),
    "max, blocks of rows": MaxPool(9, strides=1, pads=4, axis=2),
    "max like TensorFlow": MaxPool(3, strides=2, like="tensorflow", auto_pad="same_upper"),
    "adaptive-avg": AdaptiveAvgPool((7, 5)),
    "adaptive-avg, one row of bins": AdaptiveAvgPool((5, 1)),
    "adaptive-avg, up": AdaptiveAvgPool((50, 31)),
    "adaptive-max": AdaptiveMaxPool((7, 5)),
    "area": AreaPool((7, 5)),
    "area, up": AreaPool((50, 31)),
    "min": Under(MaxPool(3, strides=2, pads=1), MINIMUM),
    "mode": ModePool(3, strides=2, pads=1),
    "mode, each on its own": ModePool((9, 4), strides=5, pads=2),
    "median": MedianPool(3, strides=2, pads=1),
    "std": StdPool(3, strides=2, pads=1),
    "lp": Under(AvgPool(3, strides=2, pads=1), power(2)),
    "lp, of sums that leave the range": Under(AvgPool(4, strides=3, pads=1), power(200)),
}
SHAPE = (3, 4, 31, 23)


def cuts(draw: Any, length: int, grain: int) -> list[range]:
    places = draw(st.lists(st.integers(0, max(length - 1, 0) // grain), max_size=3))
    edges = sorted({0, length, *(grain * place for place in places)})
    return [range(a, b) for a, b in pairwise(edges)]


def in_parts(plan: Plan, x: Any, regions: list[list[range]], engine: str, indices: bool) -> tuple[Any, Any]:
    values = np.zeros(plan.output_shape, plan.output_dtype)
    places = np.zeros(plan.output_shape, np.int64) if indices else None
    for n in regions[0]:
        for c in regions[1]:
            for h in regions[2]:
                for w in regions[3]:
                    region = Region(plan, (n, c, h, w))
                    at = slices(region.outputs)
                    values[at], found = call_of(region, engine=engine, indices=indices)(x[slices(region.reads)])
                    if places is not None and found is not None:
                        places[at] = found
    return values, places


DTYPES = ("float32", "float64", "float16", "uint8", "int64")
CASES = [(name, dtype) for name, dtype in product(OPS, DTYPES) if "float" not in dtype or not name.startswith("mode")]
QUICK = [(name, dtype) for name, dtype in CASES if dtype == "float32" or (dtype == "uint8" and name[:2] != "lp")]
ON_ENGINES = by_engine(*CASES, compiled=tuple(QUICK))


@pytest.mark.parametrize(("name", "dtype", "engine"), ON_ENGINES)
@settings(max_examples=sized(2, 6))
@given(data=st.data())
def test_every_cut_gives_the_bits_of_the_whole(name: str, engine: str, dtype: str, data: Any) -> None:
    op = OPS[name]
    noise = np.random.default_rng(0).normal(size=SHAPE) * 50
    x = noise.astype(dtype) if dtype.startswith("f") else noise.astype(np.int8).astype(dtype)
    floats = name.startswith("lp") and not dtype.startswith("f")
    plan = op.plan(SHAPE, dtype, output_dtype="float32" if floats else None)
    indices = plan.reducer.picks
    values, places = run(plan, x, engine=engine, indices=indices)
    regions = [cuts(data.draw, *pair) for pair in zip(plan.output_shape, whole(plan).grains, strict=True)]
    pieces, found = in_parts(plan, x, regions, engine, indices)
    np.testing.assert_array_equal(pieces.view(np.uint8), values.view(np.uint8))
    if places is not None:
        np.testing.assert_array_equal(found, places)


@pytest.mark.compiles
def test_parts_of_a_long_row_and_of_parts_agree_too() -> None:
    x = np.random.default_rng(1).normal(size=(1, 1, 100_000)).astype(np.float32)
    ops: tuple[Any, ...] = (
        AvgPool(7, strides=3, pads=2),
        AvgPool(400, strides=1),
        AvgPool(400, strides=400),
        AdaptiveAvgPool(9),
    )
    for op in ops:
        plan = op.plan(x.shape)
        everything, _ = run(plan, x, engine="numba")
        grain = whole(plan).grains[2]
        edge = plan.output_shape[2] // 2 // grain * grain
        for outputs in (range(edge), range(edge, plan.output_shape[2])):
            if outputs:
                region = whole(plan).cut(2, outputs)
                values, _ = call_of(region, engine="numba")(x[slices(region.reads)])
                np.testing.assert_array_equal(values, everything[slices(region.outputs)])


LAST_CHANNELS = {
    "bins": AdaptiveAvgPool(2),
    "whole rows": AvgPool(50),
    "dilated": AvgPool(16, strides=50, pads=0, dilations=3),
}


@pytest.mark.compiles
@pytest.mark.parametrize("channels", [3, 17])
@pytest.mark.parametrize("name", LAST_CHANNELS)
def test_long_windows_add_in_one_order_for_any_number_of_channels_that_are_last(name: str, channels: int) -> None:
    x = np.random.default_rng(2).choice([1e30, -1e30, 1, 2, 0.3], (200, 50, channels)).astype(np.float32)
    plan = LAST_CHANNELS[name].plan(x.shape, layout="NWC")
    values, _ = run(plan, x, engine="numba")
    for outputs in (range(1), range(1, 3), range(2, channels)):
        region = whole(plan).cut(2, outputs)
        part, _ = call_of(region, engine="numba")(x[slices(region.reads)])
        np.testing.assert_array_equal(part.view(np.uint32), values[..., outputs].view(np.uint32))
    x = np.ascontiguousarray(x.transpose(0, 2, 1))
    other, _ = run(LAST_CHANNELS[name].plan(x.shape), x, engine="numba")
    np.testing.assert_array_equal(other.transpose(0, 2, 1), values)


def test_a_region_is_a_small_task_that_can_be_sent_and_be_a_key() -> None:
    region = whole(MaxPool(3, strides=2, pads=1).plan((1, 512, 8192, 8192))).cut(2, range(6, 12))
    sent = pickle.dumps(region)
    assert pickle.loads(sent) == region  # noqa: S301  # made here
    assert len(sent) < 2000
    assert {region: "done"}[Region(region.plan, tuple(region.outputs))] == "done"
    assert region != region.cut(2, range(6, 9))


def test_an_array_that_is_not_what_the_region_reads_is_refused() -> None:
    region = whole(AvgPool(3).plan((1, 1, 8, 8))).cut(2, range(2))
    with pytest.raises(RequestError, match=r"^the input has shape \(1, 1, 8, 8\), but the plan reads \(1, 1, 4, 8\)$"):
        call_of(region)(np.ones((1, 1, 8, 8), np.float32))


@pytest.mark.parametrize(("most", "rows"), [(320, [8]), (319, [6, 2]), (160, [4, 4]), (159, [2] * 4), (1, [2] * 16)])
def test_a_block_is_pooled_in_parts_that_fit_its_limit(most: int, rows: list[int]) -> None:
    plan, seen = MaxPool(2, strides=2).plan((1, 1, 8, 8)), list[int]()
    x = np.random.default_rng(0).random(plan.input_shape, np.float32)

    def read(region: Any) -> Any:
        seen.append(len(region[2]))
        return x[slices(region)]

    values, _ = pool_block(Work(plan, False, "numpy", 1), read, whole(plan), most)
    assert seen == rows
    np.testing.assert_array_equal(values, x.reshape(1, 1, 4, 2, 4, 2).max((3, 5)))


def test_tables_of_more_than_16_mib_are_cut_into_pieces_of_whole_grains() -> None:
    longest = 2**24 // 96
    fitting, longer = (whole(AvgPool((1, 3), strides=1).plan((1, 1, 1, n + 2))) for n in (longest, longest + 1))
    assert _pieces_of(fitting, NUMBA) == [fitting]
    pieces = _pieces_of(longer, NUMBA)
    assert {len(piece.outputs[3]) for piece in pieces[:-1]} == {2**21 // 96 // 3 * 3}
    assert [piece.outputs[3].stop for piece in pieces[:-1]] == [piece.outputs[3].start for piece in pieces[1:]]


@pytest.mark.parametrize(
    ("op", "padding"),
    [(AdaptiveMaxPool(1), 0), (MaxPool(9, strides=2**61, pads_begin=3, pads_end=5), 8)],
    ids=["bins", "windows with pads"],
)
def test_positions_of_taps_are_below_2_to_the_62(op: Any, padding: int) -> None:
    call_of(whole(op.plan((1, 1, 2**62 - 1 - padding), "uint8")), engine="numpy")
    with pytest.raises(RequestError, match=r"^axis W with its pads is 2\*\*62 or longer; only `shape` answers"):
        call_of(whole(op.plan((1, 1, 2**62 - padding), "uint8")), engine="numpy")


@pytest.mark.parametrize("limit", [10**6, 10**7, 10**8, 10**9])
def test_six_tiles_or_blocks_stay_below_the_limit(limit: int) -> None:
    # One is read ahead, one is in work with its buffers, and one is written.
    assert 6 * bytes_of_block(limit, TILE_BYTES) <= 6 * bytes_of_block(limit) <= limit
    assert 6 * bytes_of_block(limit) > limit - 6 or bytes_of_block(limit) == MAX_BLOCK_BYTES


@pytest.mark.parametrize("unit", [None, (1, 1, 2, 2)])
def test_six_parts_with_what_they_read_stay_below_the_limit(unit: tuple[int, ...] | None) -> None:
    plan = AvgPool(2, strides=2).plan((1, 1, 256, 256))
    sizes = [part.aligned.nbytes for part in divide(plan, 60_000, unit, None, 12_000)]
    assert len(sizes) > 1
    assert 48_000 // 6 // 2 < max(sizes) <= 48_000 // 6


def test_a_part_may_be_a_single_output_where_the_limit_has_no_room_for_two() -> None:
    plan = AvgPool(64, strides=64).plan((1, 1, 256, 256))
    sizes = [part.nbytes for part in divide(plan, 6 * 20_000, (1, 1, 1, 1), None)]
    assert sizes == [4 * (64 * 64 + 1)] * 16


def test_a_limit_below_the_smallest_part_says_what_is_needed() -> None:
    plan = AvgPool((64, 4096)).plan((1, 1, 64, 4096))
    smallest = 4 * (64 * 4096 + 1)  # the whole window, and its mean
    assert next(iter(divide(plan, 2 * smallest + 999, None, None, 999))).nbytes == smallest
    with pytest.raises(RequestError) as caught:
        divide(plan, 2 * smallest + 998, None, None, 999)
    assert str(caught.value) == (
        "the smallest part that can be pooled by itself needs 2 MiB, but the limit is 2 MiB; raise max_memory"
    )


@pytest.mark.parametrize(("name", "engine"), by_engine(*((name,) for name in OPS), compiled=()))
def test_what_is_computed_in_pieces_for_the_sake_of_memory_has_the_bits_of_the_whole(
    name: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dtype in ("uint8",) if "mode" in name else ("float32",) if "lp" in name else ("float32", "uint8"):
        plan = OPS[name].plan(SHAPE, dtype)
        indices = plan.index is not None
        x = np.random.default_rng(0).integers(0, 9, SHAPE).astype(dtype)
        expected, places = run(plan, x, engine=engine, indices=indices)
        with monkeypatch.context() as patched:
            for limit in ("NUMPY_PIECE_BYTES", "MAX_TABLE_BYTES", "PIECE_TABLE_BYTES"):
                patched.setattr(f"poolcli.engine.{limit}", 500)
            found, found_places = run(plan, x, engine=engine, indices=indices)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(found_places, places)
