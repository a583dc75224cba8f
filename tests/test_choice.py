"""Which engine and which kernel compute a plan: what is chosen is what runs, and what is reported."""

from __future__ import annotations

import operator
import sys
from collections import deque
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import poolcli
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
    SumPool,
)
from poolcli.arguments import Engine
from poolcli.engine import run
from poolcli.engine.choose import MIN_WORK_TO_LOAD, KernelError, choose_engine, engine_notes, warn_once, with_fallback
from poolcli.engine.compiled.geometry import FixedWindow, Strides
from poolcli.engine.compiled.kernel_choice import Thresholds, choose_kernel
from poolcli.engine.compiled.launch import address
from poolcli.engine.compiled.memory_order import choose_for_memory_order, strides_of
from poolcli.engine.compiled.pool import _sums_fit
from poolcli.plan.attributes import Reducer
from poolcli.plan.plan import whole
from tests.conftest import Cli
from tests.reducers import MINIMUM, Under, power

WIDE = (1, 1, 60, 70)
KERNELS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "overlapping": (AvgPool(3, 2, 1, 1), "slide", {}),
    "pairs": (MaxPool(2, 2), "tiles", {}),
    "pairs of pixels": (AvgPool(2, 2), "rgb_tiles", {"layout": "NHWC", "shape": (1, 60, 70, 3)}),
    "pairs of four channels": (AvgPool(2, 2), "slide", {"layout": "NHWC", "shape": (1, 60, 70, 4)}),
    "pairs, one of which overhangs": (AvgPool(2, 2, rounding_type="ceil"), "slide", {"shape": (1, 1, 60, 71)}),
    "threes in long rows": (AvgPool(3, 3), "tiles", {"shape": (1, 1, 960, 4096)}),
    "threes in rows of 8 KiB": (AvgPool(3, 3), "slide", {"shape": (1, 1, 960, 2048)}),
    "threes in longer rows": (AvgPool(3, 3), "tiles", {"shape": (1, 1, 960, 2049)}),
    "single elements far apart": (AvgPool((2, 1), (2, 3)), "tiles", {"shape": (1, 64, 112, 112)}),
    "pairs far apart": (AvgPool(2, (2, 3)), "slide", {"shape": (1, 64, 112, 112)}),
    "sixteen very long rows": (AvgPool(2, 2), "tiles", {"shape": (1, 1, 32, 20_000)}),
    "fifteen very long rows": (AvgPool(2, 2), "slide", {"shape": (1, 1, 30, 20_000)}),
    "fifteen rows of 4096": (AvgPool(2, 2), "tiles", {"shape": (1, 1, 30, 8192)}),
    "fours in long rows": (AvgPool(4, 4), "slide", {"shape": (1, 1, 1024, 2048)}),
    "three rows of pairs in short rows": (AvgPool((3, 2), (3, 2)), "slide", {"shape": (1, 64, 320, 300)}),
    "many rows": (AvgPool(9, 1, 4, 4), "slide_blocks", {}),
    "as many rows as an input and 4096 more have": (
        AvgPool((4156, 1), 1, (2100, 0), (2100, 0)), "slide_blocks", {}
    ),
    "more rows": (AvgPool((4157, 1), 1, (2100, 0), (2100, 0)), "slide", {}),
    "as many rows as do not pay": (AvgPool((8, 9), 1), "slide", {}),
    "bins": (AdaptiveAvgPool(7), "irregular", {}),
    "bins of many channels": (AdaptiveAvgPool(7), "irregular_inner", {"layout": "NHWC", "shape": (1, 60, 35, 16)}),
    "bins of fewer channels": (AdaptiveAvgPool(7), "irregular", {"layout": "NHWC", "shape": (1, 60, 35, 15)}),
    "short bins of many channels": (
        AdaptiveAvgPool(7), "irregular_short", {"layout": "NHWC", "shape": (1, 60, 28, 16)}
    ),
    "planes": (AdaptiveAvgPool(1), "irregular_row", {}),
    "planes of converted floats": (AdaptiveAvgPool(1), "irregular", {"dtype": "float16"}),
    "areas": (AreaPool(7), "weighted_sum", {}),
    "modes of 27 elements": (ModePool((3, 9), 2), "mode_pairs", {"dtype": "uint8"}),
    "modes of 28 elements": (ModePool((4, 7), 2), "mode_sort", {"dtype": "uint8"}),
    "medians": (MedianPool(3, 1, 1, 1), "median", {}),
    "deviations of short integers": (StdPool(3, 2), "exact_deviation", {"dtype": "int16"}),
    "deviations of other numbers": (StdPool(3, 2), "deviation", {"dtype": "uint32"}),
    "areas at a whole ratio": (AreaPool((6, 7)), "irregular", {}),
    "pads that are long, but not too long": (AvgPool((1, 2200), 1, (0, 2000), (0, 306)), "slide", {}),
    "pads that are too long": (AvgPool((1, 2200), 1, (0, 2000), (0, 307)), "irregular_row", {}),
    "windows far longer than their input": (AvgPool((1, 9000), 1, (0, 4500), (0, 4500)), "irregular_row", {}),
    "long runs": (AvgPool((1, 16), (1, 16)), "irregular_row", {}),
    "not quite long runs": (AvgPool((1, 15), (1, 15)), "slide", {}),
    "64-bit integers": (AvgPool(3, 2), "slide", {"dtype": "int64"}),
    "64-bit maxima": (MaxPool(3, 2), "slide", {"dtype": "int64"}),
    "positions": (MaxPool(3, 2), "argmax", {"indices": True}),
    "positions in windows of a constant size": (
        MaxPool(3, 2), "slide_argmax", {"indices": True, "shape": (1, 1, 1100, 1100)}
    ),
    "positions in 4096 windows": (MaxPool(3, 2), "slide_argmax", {"indices": True, "shape": (1, 1, 129, 129)}),
    "positions in fewer windows": (MaxPool(3, 2), "argmax", {"indices": True, "shape": (1, 1, 127, 131)}),
    "positions in as many rows as int32 counts": (
        MaxPool((1, 1, 3), (1, 1, 2)), "slide_argmax", {"indices": True, "shape": (1, 1, 2**16 - 1, 2**15, 5)}
    ),
    "positions in more rows": (
        MaxPool((1, 1, 3), (1, 1, 2)), "argmax_row", {"indices": True, "shape": (1, 1, 2**16, 2**15, 5)}
    ),
    "small maps": (AvgPool(3, 1, 1, 1), "slide_planes", {"shape": (100, 100, 7, 7)}),
    "small maps under many rows": (AvgPool(5, 1, 2, 2), "slide_planes", {"shape": (100, 100, 7, 7)}),
    "lines": (AvgPool(8, 4, 2, 2), "slide_row", {"shape": (1, 3, 400_000)}),
    "lines in planes": (MaxPool((1, 3), (1, 3)), "slide_row", {"shape": (1, 1, 900, 1000)}),
    "lines that share more than half": (AvgPool(8, 3), "slide", {"shape": (1, 3, 400_000)}),
    "short lines": (AvgPool(8, 4), "slide", {"shape": (1, 3, 4000)}),
    "lines of the longest windows that have a kernel": (AvgPool(9, 8), "slide_row", {"shape": (1, 3, 600_000)}),
    "lines of longer windows": (AvgPool(10, 5), "slide", {"shape": (1, 3, 400_000)}),
    "lines of windows further apart": (AvgPool(9, 9), "slide", {"shape": (1, 3, 600_000)}),
    "few small maps": (AvgPool(3, 1, 1, 1), "slide", {"shape": (10, 10, 7, 7)}),
    "small maps that shrink": (AvgPool(3, 1), "slide", {"shape": (100, 100, 7, 7)}),
    "small maps of two channels": (AvgPool(3, 1, 1, 1), "slide", {"layout": "NHWC", "shape": (5000, 7, 7, 2)}),
    "small volumes": (AvgPool((1, 3, 3), 1, (0, 1, 1), (0, 1, 1)), "slide", {"shape": (100, 100, 2, 7, 7)}),
    "maxima of maps with rows of 64": (MaxPool(3, 1, 1, 1), "slide_planes", {"shape": (100, 100, 7, 64)}),
    "maxima of maps with longer rows": (MaxPool(3, 1, 1, 1), "slide", {"shape": (100, 100, 7, 65)}),
    "sums of maps with rows of 40": (AvgPool(3, 1, 1, 1), "slide_planes", {"shape": (100, 100, 7, 40)}),
    "sums of maps with longer rows": (AvgPool(3, 1, 1, 1), "slide", {"shape": (100, 100, 7, 41)}),
    "positions in planes": (AdaptiveMaxPool(1), "argmax_row", {"indices": True}),
    "positions in planes of channels": (
        AdaptiveMaxPool(1), "argmax", {"indices": True, "layout": "NHWC", "shape": (1, 60, 28, 16)}
    ),
    "positions in bins": (AdaptiveMaxPool(3), "argmax", {"indices": True}),
    "minima": (Under(MaxPool(3, 2), MINIMUM), "slide", {}),
    "powers": (Under(AvgPool(3, 2), power(3)), "slide", {}),
    "powers of 64-bit integers": (
        Under(AvgPool(3, 2), power(3)), "slide", {"dtype": "int64", "output_dtype": "float32"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_each_plan_has_its_kernel(name: str) -> None:
    op, kernel, more = KERNELS[name]
    options = {"shape": WIDE, "dtype": "float32", **more}
    indices = options.pop("indices", False)
    plan = op.plan(options.pop("shape"), options.pop("dtype"), **options)
    assert choose_kernel(whole(plan), indices).launch.kernel == kernel


@pytest.mark.parametrize(
    ("kernel", "shape", "taps"),
    [(3, (1, 1, 600, 700), FixedWindow(3, 2, 3)), (3, WIDE, None), (5, (1, 1, 600, 700), None)],
    ids=["few elements", "few windows", "many elements"],
)
def test_deviations_of_few_elements_have_a_kernel_for_their_size_where_there_are_many(
    kernel: int, shape: tuple[int, ...], taps: FixedWindow | None
) -> None:
    assert choose_kernel(whole(StdPool(kernel, 2).plan(shape))).launch.fixed == taps


FIXED: dict[str, tuple[Any, tuple[int, ...], str | None, FixedWindow | None]] = {
    "2**16 outputs": (AvgPool(3, 2), (1, 1, 513, 513), None, FixedWindow(3, 2)),
    "fewer outputs": (AvgPool(3, 2), (1, 1, 513, 511), None, None),
    "sixteen channels": (AvgPool(3, 2), (1, 300, 300, 16), "NHWC", FixedWindow(3, 2)),
    "fewer channels": (AvgPool(3, 2), (1, 300, 300, 15), "NHWC", None),
    "three channels, one step": (AvgPool(3, 1), (1, 300, 300, 3), "NHWC", FixedWindow(3, 1)),
    "dilated windows": (AvgPool(3, 1, dilations=2), (1, 1, 300, 300), None, FixedWindow(3, 1)),
    "dilated windows further apart": (AvgPool(3, 2, dilations=2), (1, 1, 600, 600), None, None),
    "the largest stride": (AvgPool((3, 9), (2, 8)), (1, 1, 1200, 1700), None, FixedWindow(9, 8)),
    "a larger stride": (AvgPool((3, 9), (2, 9)), (1, 1, 1200, 1700), None, None),
    "deviations of 16 elements": (StdPool(4, 2), (1, 1, 600, 700), None, FixedWindow(4, 2, 4)),
    "deviations of 2**16 windows": (StdPool(3, 2), (1, 1, 513, 513), None, FixedWindow(3, 2, 3)),
    "deviations of three channels, one step": (StdPool(3, 1), (1, 300, 300, 3), "NHWC", FixedWindow(3, 1, 3)),
    "deviations of sixteen channels": (StdPool(3, 2), (1, 300, 300, 16), "NHWC", None),
}


@pytest.mark.parametrize("name", FIXED)
def test_kernels_are_compiled_for_one_size_of_windows_where_that_pays(name: str) -> None:
    op, shape, layout, fixed = FIXED[name]
    assert choose_kernel(whole(op.plan(shape, layout=layout))).launch.fixed == fixed


DIVISIONS: dict[str, tuple[Any, str, str | None, list[str]]] = {
    "by 4": (AvgPool(2, 2), "uint8", None, ["int16", "shift", "bits2"]),
    "by 256": (AvgPool(16, 16), "uint8", None, ["int32", "shift", "bits8"]),
    "by 16 with pads": (AvgPool(4, 4, 1, 1, exclude_pad=False), "uint8", None, ["int16", "shift", "bits4"]),
    "by 128": (AvgPool((8, 16), (8, 16)), "uint8", None, ["int32", "shift", "bits7"]),
    "by 1": (AvgPool(1, 2), "uint8", None, ["int16"]),
    "by 9": (AvgPool(3, 2), "uint8", None, ["int16", "half_even"]),
    "by 4 and less": (AvgPool(2, 2, 1, 1), "uint8", None, ["int16", "half_even"]),
    "as sums": (SumPool(2, 2), "uint8", None, ["int16"]),
    "to floats by 4": (AvgPool(2, 2), "uint8", "float32", ["int16", "scaled"]),
    "to floats by 3": (AvgPool(2, 2, divisor_override=3), "uint8", "float32", ["int16", "by_reciprocal"]),
    "to floats by a large number": (
        AvgPool(2, 2, divisor_override=2**24 + 1), "uint8", "float32", ["int16", "odd"]
    ),
    "to float64 by a large number": (
        AvgPool(2, 2, divisor_override=2**24 + 1), "uint8", "float64", ["int16", "quotient"]
    ),
    "of floats by 9": (AvgPool(3, 2), "float32", None, ["float64", "by_reciprocal"]),
    "of floats by -4": (AvgPool(2, 2, divisor_override=-4), "float32", None, ["float64", "quotient"]),
    "of float64": (AvgPool(2, 2), "float64", None, ["complex128", "by_reciprocal"]),
    "of float64 to a shorter type": (AvgPool(2, 2), "float64", "float32", ["complex128", "odd"]),
    "of sums that float64 holds": (AvgPool(3, 2), "int32", "float64", ["int64", "by_reciprocal"]),
    "of longer sums": (AvgPool(3, 2), "int64", "float64", ["int64", "nearest"]),
    "of longer sums to a shorter type": (AvgPool(3, 2), "int64", "float32", ["int64", "odd"]),
}  # fmt: skip


@pytest.mark.parametrize("name", DIVISIONS)
def test_sums_are_divided_in_the_cheapest_way_that_gives_the_same_bits(name: str) -> None:
    op, dtype, output_dtype, words = DIVISIONS[name]
    plan = op.plan(WIDE, dtype, output_dtype=output_dtype)
    assert choose_kernel(whole(plan)).arithmetic.steps[1:] == words


@pytest.mark.parametrize(
    ("kernel", "strides", "shape", "ahead"),
    [
        (3, 2, (1, 64, 112, 112), (14, 16, 3 * 112, 0, 0)),
        (7, 3, (1, 64, 112, 112), (11, 16, 7 * 112, 10, 0)),
        (8, 2, (1, 64, 128, 128), (16, 16, 16 * 128, 0, 0)),
        (3, 2, (1, 64, 344, 344), (22, 16, 3 * 344, 21, 0)),
        (4, 1, (1, 64, 112, 112), (7, 16, 8 * 112, 0, 0)),
        (3, 1, (1, 64, 112, 112), (0, 0, 0, 0, 0)),
        (3, 2, (1, 32, 128, 128), (16, 16, 3 * 128, 0, 0)),
        (3, 2, (1, 31, 128, 128), (0, 0, 0, 0, 0)),
        (3, 2, (1, 1, 1024, 2048), (128, 16, 3 * 2048, 128, 0)),
        (3, 2, (1, 1, 1024, 2049), (0, 0, 0, 0, 0)),
        ((2, 3), (2, 2), (1, 64, 112, 112), (14, 16, 0, 0, 0)),
        ((2, 3), (2, 2), (1, 2, 1024, 512), (64, 16, 0, 0, 0)),
        ((2, 3), (2, 2), (1, 2, 1024, 513), (0, 16, 0, 0, 1)),
        ((2, 3), (2, 2), (1, 1, 1024, 2048), (0, 16, 0, 0, 1)),
        ((2, 3), (3, 2), (1, 2, 1024, 1024), (192, 16, 0, 0, 0)),
        ((8, 3), (8, 2), (1, 1, 1024, 2048), (0, 16, 0, 0, 1)),
        ((9, 3), (9, 2), (1, 1, 1026, 2048), (0, 0, 0, 0, 0)),
        (3, (6, 2), (1, 64, 112, 112), (42, 16, 0, 0, 0)),
        ((2, 3), (3, 2), (1, 64, 112, 112), (21, 16, 0, 0, 0)),
        ((2, 3), (5, 2), (1, 64, 112, 112), (14, 16, 5 * 112, 0, 0)),
        ((1, 3, 3), (1, 2, 2), (1, 32, 2, 112, 112), (0, 0, 0, 0, 0)),
    ],
    ids=[
        "short rows",
        "many lines in two bursts",
        "as many lines as one burst has",
        "one line more",
        "many rows of later windows",
        "one new row for each window",
        "two mebibytes",
        "a shorter input",
        "rows of eight kibibytes",
        "longer rows",
        "rows side by side",
        "rows of two kibibytes side by side",
        "longer rows side by side",
        "rows of eight kibibytes side by side",
        "longer rows with skipped ones",
        "64 kibibytes of longer rows",
        "more than 64 kibibytes of longer rows",
        "as many skipped rows as read ones",
        "a row that no window reads",
        "more rows that no window reads",
        "several planes",
    ],
)
def test_short_rows_of_large_planes_are_read_ahead(
    kernel: Any, strides: Any, shape: tuple[int, ...], ahead: tuple[int, int, int, int, int]
) -> None:
    launch = choose_kernel(whole(AvgPool(kernel, strides).plan(shape))).launch
    assert (launch.kernel, launch.params[-1]) == ("slide", ahead)


@pytest.mark.parametrize(
    ("op", "width", "dtype", "piece", "reach"),
    [
        (AvgPool(3, 2, 1, 1), 70, "float32", 35, 71),
        (AvgPool(3, 2), 20_000, "float32", 513, 1028),
        (MaxPool(3, 2), 20_000, "float32", 1025, 2052),
        (AvgPool(3, 1), 20_000, "uint8", 4099, 4101),
        (AvgPool((9, 3), 1), 20_000, "float32", 4099, 4101),
        (AvgPool((1, 5000), 1), 20_000, "float32", 6024, 11_023),
    ],
    ids=["a short row", "sums", "maxima", "short sums", "blocks of rows", "windows longer than the buffer"],
)
def test_long_rows_are_pooled_in_pieces_that_fit_the_buffer_of_a_row(
    op: Any, width: int, dtype: str, piece: int, reach: int
) -> None:
    windows = choose_kernel(whole(op.plan((1, 1, 60, width), dtype))).launch.params[0]
    assert (windows.piece, windows.reach) == (piece, reach)


@pytest.mark.parametrize(
    ("kernel", "strides", "shape", "rows"),
    [(3, 2, WIDE, 14), (3, 2, (1, 64, 112, 112), 2), (4, 1, (1, 64, 112, 112), 9)],
    ids=["in the cache", "beyond the cache", "beyond the cache, with much to compute"],
)
def test_short_rows_share_a_task(kernel: int, strides: int, shape: tuple[int, ...], rows: int) -> None:
    launch = choose_kernel(whole(AvgPool(kernel, strides).plan(shape))).launch
    assert (launch.kernel, launch.params[1]) == ("slide", rows)


@pytest.mark.parametrize(
    ("size", "planes", "rows", "joined"),
    [(7, 20, 56, (1, 1)), (12, 7, 24, (1, 1)), (20, 2, 20, (1, 1)), (21, 2, 19, (0, 0)), (35, 1, 11, (0, 0))],
)
def test_small_maps_share_a_task_and_a_mask(size: int, planes: int, rows: int, joined: tuple[int, int]) -> None:
    launch = choose_kernel(whole(AvgPool(3, 1, 1, 1).plan((100, 100, size, size)))).launch
    assert (launch.kernel, launch.params[1:5]) == ("slide_planes", (planes, rows, *joined))


@pytest.mark.parametrize(
    ("shape", "view"),
    [((64, 64, 8, 8), (64, 1, 1, 4096)), ((1, 240, 1, 17), (1, 1, 1, 4080)), ((1, 241, 1, 17), (241, 1, 1, 17))],
    ids=["as long as they may be", "all of them", "one at a time"],
)
def test_whole_planes_are_joined_to_rows(shape: tuple[int, ...], view: tuple[int, ...]) -> None:
    assert choose_kernel(whole(AdaptiveAvgPool(1).plan(shape))).view.input_shape == view


@pytest.mark.parametrize(
    ("op", "shape", "name"),
    [
        (AvgPool(3, 2), WIDE, "slide-float32-sum-float64-by_reciprocal-float32-float64"),
        (AvgPool(3, 2), (1, 1, 600, 700), "slide-3by2-float32-sum-float64-by_reciprocal-float32-float64"),
        (AvgPool(2, 2), WIDE, "tiles-2by2x2-float32-sum-float64-scaled-float32-float64"),
    ],
    ids=["of any size", "of one size", "of one size and number of rows"],
)
def test_a_kernel_is_named_by_all_that_it_is_compiled_for(op: Any, shape: tuple[int, ...], name: str) -> None:
    assert choose_kernel(whole(op.plan(shape))).name == name


@pytest.mark.parametrize(
    ("shape", "part", "strides"),
    [
        ((1, 1, 60, 140), np.s_[..., :70], Strides(split=1, far=0, near=0, plane=0, row=140)),
        ((1, 1, 120, 70), np.s_[:, :, ::-2], Strides(split=1, far=0, near=0, plane=0, row=-140)),
        ((2, 4, 60, 70), np.s_[:, :3], Strides(split=3, far=16_800, near=4200, plane=0, row=70)),
        ((2, 6, 60, 70), np.s_[:, ::2], Strides(split=6, far=0, near=8400, plane=0, row=70)),
        ((1, 1, 60, 140), np.s_[..., ::2], None),
    ],
    ids=["parts of rows", "every second row from the last", "some planes", "every second plane", "every second column"],
)
def test_a_part_of_an_array_is_read_by_its_strides(shape: tuple[int, ...], part: Any, strides: Strides | None) -> None:
    x = np.zeros(shape, np.float32)[part]
    assert strides_of(choose_kernel(whole(AvgPool(3, 2).plan(x.shape))), x) == strides


@pytest.mark.parametrize(
    ("op", "order", "read"),
    [
        (MaxPool(3, 2), (0, 2, 3, 1), (0, 2, 3, 1)),
        (MaxPool(3, 2), (0, 1, 3, 2), (0, 1, 3, 2)),
        (AvgPool(3, 2), (0, 2, 3, 1), (0, 2, 3, 1)),
        (AvgPool(3, 2), (0, 1, 3, 2), (0, 1, 2, 3)),
        (AdaptiveAvgPool(7), (0, 2, 3, 1), (0, 2, 3, 1)),
        (AreaPool(7), (0, 2, 3, 1), (0, 1, 2, 3)),
    ],
    ids=["maxima", "maxima down columns", "sums", "sums down columns", "bins", "areas"],
)
def test_axes_are_read_in_the_order_of_memory_where_no_sum_changes(
    op: Any, order: tuple[int, ...], read: tuple[int, ...]
) -> None:
    region = whole(op.plan((2, 16, 60, 70)))
    x = np.zeros([region.input_shape[i] for i in order], np.float32).transpose(np.argsort(order))
    assert choose_for_memory_order(region, False, choose_kernel(region), x).view.order == read


def test_integers_whose_sums_may_leave_64_bits_are_left_to_numpy() -> None:
    large = np.array([-(2**61), 2**61 - 1])
    assert [_sums_fit(large, longest) for longest in (2, 4)] == [True, False]
    limits = -(2**60), -(2**60) - 1, 2**60, 2**60 + 1
    assert [_sums_fit(np.array([limit]), 4) for limit in limits] == [True, False] * 2
    assert _sums_fit(large[:0], 2**30)


def test_where_no_kernel_can_be_had_the_other_pool_computes_from_then_on() -> None:
    told: list[str] = []

    def fail(*arguments: Any) -> Any:
        raise KernelError("no compiler; use engine numpy or auto")

    pool = with_fallback(fail, lambda: lambda slab, out, threads: slab, told.append)
    assert [pool(np.full(1, i), np.zeros(1), None) for i in (3, 4)] == [3, 4]
    assert told == ["no compiler"]


@pytest.mark.parametrize(
    ("op", "shape", "dtype", "joined"),
    [
        (AvgPool(3, 1, 1, 1), (100, 100, 12, 12), "float32", (24, 1, 1)),
        (MaxPool(3, 1, 1, 1), (100, 100, 17, 17), "float16", (17, 1, 1)),
        (AvgPool(3, 1, 1, 1), (100, 100, 21, 21), "float32", (19, 0, 0)),
        (AvgPool(3, 1, 1, 1), (100, 100, 7, 7), "uint8", (56, 1, 1)),
        (AvgPool(3, 1, 1, 1), (100, 100, 7, 7), "float64", (56, 1, 0)),
        (AvgPool(5, 1, 2, 2), (100, 100, 7, 7), "float32", (56, 1, 0)),
        (AvgPool(3, 1, (0, 1), (0, 1)), (100, 100, 7, 7), "float32", (55, 1, 0)),
    ],
    ids=["sums", "maxima", "larger maps", "bytes", "pairs", "five rows", "fewer rows"],
)
def test_the_rows_of_small_maps_are_combined_in_one_pass(
    op: Any, shape: tuple[int, ...], dtype: str, joined: tuple[int, int, int]
) -> None:
    launch = choose_kernel(whole(op.plan(shape, dtype))).launch
    assert (launch.kernel, launch.params[2:5]) == ("slide_planes", joined)


def test_a_process_is_warned_once_that_numpy_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolcli.engine.choose._warned", [])
    with pytest.warns(RuntimeWarning) as warned:
        deque(map(warn_once, ("no compiler", "no memory")))
    assert [str(each.message) for each in warned] == ["poolcli computes with numpy: no compiler"]
    assert [each.filename for each in warned] == [__file__]  # the caller outside of poolcli


def test_limits_can_be_lowered() -> None:
    plan = AvgPool(3, 1).plan(WIDE)
    assert choose_kernel(whole(plan)).launch.kernel == "slide"
    with patch("poolcli.engine.compiled.kernel_choice.THRESHOLDS", Thresholds(block_rows=2)):
        assert choose_kernel(whole(plan)).launch.kernel == "slide_blocks"


HUGE = (1, 1, 3, 3)
LAST = Reducer("last", "last", "element", better=operator.ge)
REFUSED: dict[str, tuple[Any, str | None]] = {
    "3 axes": (AvgPool(1).plan((1, 1, 2, 2, 2)), None),
    "4 axes": (AvgPool(1).plan((1, 1, 2, 2, 2, 2)), "numba computes up to 3 spatial axes, the plan has 4"),
    "a divisor of 2**31 - 1": (AvgPool(1, divisor_override=2**31 - 1).plan(HUGE, output_dtype="float64"), None),
    "a divisor of 2**31": (
        AvgPool((2**16, 2**15), 1, 2**16, 2**16, exclude_pad=False).plan(HUGE),
        "numba divides by numbers below 2**31, the plan up to 2147483648",
    ),
    "a maximum of 2**31": (MaxPool((2**16, 2**15), 1, 2**16 - 1, 2**16 - 1).plan(HUGE), None),
    "a power of 6": (Under(AvgPool(1), power(6)).plan(HUGE), None),
    "a power above 6": (
        Under(AvgPool(1), power(6.5)).plan(HUGE), "numba computes norms with p up to 6, of types of up to 32 bits"
    ),
    "a power of float64": (
        Under(AvgPool(1), power(2)).plan(HUGE, "float64"),
        "numba computes norms with p up to 6, of types of up to 32 bits",
    ),
    "a power to float64": (
        Under(AvgPool(1), power(3)).plan(HUGE, output_dtype="float64"),
        "numba computes norms with p up to 6, of types of up to 32 bits",
    ),
    "sizes to float64": (Under(AvgPool(1), power(1)).plan(HUGE, output_dtype="float64"), None),
    "a square to float64": (Under(AvgPool(1), power(2)).plan(HUGE, output_dtype="float64"), None),
    "a sum": (SumPool(1).plan(HUGE), None),
    "a sum of 2**31": (
        SumPool((2**16, 2**15), 1, 2**16, 2**16).plan(HUGE),
        "numba adds fewer than 2**31 elements, the plan up to 2147483648",
    ),
    "a median of 49": (MedianPool(7).plan((1, 1, 9, 9)), None),
    "a median of 50": (
        MedianPool((5, 10)).plan((1, 1, 10, 10)), "numba computes medians of up to 49 elements, the windows have 50"
    ),
    "a median of long integers as a float": (
        MedianPool(1).plan(HUGE, "int64", output_dtype="float64"),
        "numba computes medians of 64-bit integers as integers only",
    ),
    "another comparison": (Under(AvgPool(1), LAST).plan(HUGE), "numba has no last"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_the_engine_that_is_named_is_the_one_that_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, reason = REFUSED[name]
    expected = "numpy" if reason else "numba"
    ran = []
    for module in ("numpy", "compiled.pool"):
        pool = lambda *_, _module=module: ran.append(_module)  # noqa: E731
        monkeypatch.setattr(f"poolcli.engine.{module}.prepare", lambda *_, _pool=pool: _pool)
    assert choose_engine(plan, "numba").name == expected
    assert engine_notes(plan, "numba") == ((f"computed by numpy: {reason}",) if reason else ())
    assert engine_notes(plan, "auto") == engine_notes(plan, "numpy") == ()
    x = np.broadcast_to(np.ones((), plan.dtype), plan.input_shape)
    out = np.broadcast_to(np.ones((), plan.output_dtype), plan.output_shape)
    with patch("poolcli.engine.call.empty_like", lambda *_: out):
        run(plan, x, engine="numba")
    assert set(ran) == {"numpy" if reason else "compiled.pool"}  # of large regions numpy computes piece by piece


def test_an_engine_nobody_knows_is_refused() -> None:
    unknown: Any = "cuda"
    with pytest.raises(RequestError, match=r"^engine is 'cuda'; it must be one of auto, numba, numpy$"):
        poolcli.avg_pool(np.ones((1, 1, 4)), 2, engine=unknown)


def test_the_report_names_the_engine_that_ran(cli: Cli, folder: Path) -> None:
    np.save("deep.npy", np.ones((1, 1, 2, 4, 4, 4), np.float32))
    done = cli("avg", "deep.npy", "-o", "y.npy", "-k", "2", "-s", "2", "--engine", "numba", "--json")
    assert done.code == 0
    assert (done.json["engine"], done.json["threads"]) == ("numpy", 1)
    assert "computed by numpy: numba computes up to 3 spatial axes, the plan has 4" in done.json["notes"]


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_an_array_that_cannot_be_written_is_refused_before_anything_runs(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poolcli.engine.compiled.pool.load", lambda _: pytest.fail("a kernel was asked for"))
    out = np.zeros((1, 1, 2))
    out.flags.writeable = False
    with pytest.raises(RequestError, match=r"^out cannot be written to \(its writeable flag is off\)$"):
        poolcli.avg_pool(np.ones((1, 1, 4)), 2, strides=2, engine=engine, out=out)
    assert out.tolist() == [[[0, 0]]]


def test_auto_goes_by_the_plan_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_engine(AvgPool(1).plan((1, 1, 30_000))).name == "numpy"
    assert choose_engine(AvgPool(1).plan((1, 1, 30_001))).name == "numba"
    assert choose_engine(AvgPool(1).plan((1, 1, 1_000_000)), worth=MIN_WORK_TO_LOAD).name == "numpy"
    assert choose_engine(AvgPool(1).plan((1, 1, 1_000_001)), worth=MIN_WORK_TO_LOAD).name == "numba"
    assert choose_engine(MedianPool(3).plan((1, 1, 59, 60))).name == "numpy"  # 57 * 58 * 9 elements are taken at once
    assert choose_engine(MedianPool(3).plan((1, 1, 60, 60))).name == "numba"
    small, large = AvgPool(3).plan((1, 1, 40, 40)), AvgPool(3, 2, 1, 1).plan((8, 64, 112, 112))
    for loaded in (False, True, False):
        for module in ("numba", "poolcli.engine.compiled.pool"):
            monkeypatch.setitem(sys.modules, module, ModuleType(module) if loaded else None)
        assert (choose_engine(small).name, choose_engine(large).name) == ("numpy", "numba")


@pytest.mark.parametrize(
    "op", [AvgPool(3, 2), AvgPool(3, 1, 1, 1), AvgPool(2, 2), MaxPool(5), AdaptiveAvgPool(5), AreaPool(6)], ids=repr
)
@pytest.mark.parametrize("shape", [(100, 100, 7, 7), (2, 3, 60, 70)])
def test_kernels_read_strides_and_then_tables_without_gaps(op: Any, shape: tuple[int, ...]) -> None:
    spec = choose_kernel(whole(op.plan(shape)))
    geometry = spec.geometry
    tables = [*geometry.starts, *geometry.counts, *geometry.divisors, *geometry.reciprocals, *geometry.weights]
    assert spec.params[: len(geometry.strides)].tolist() == [*geometry.strides]
    assert all(table.flags.c_contiguous and address(table) in spec.params for table in tables)
    assert {table.dtype for table in (*geometry.starts, *geometry.counts, *geometry.weights)} == {np.dtype(np.int64)}
