"""Which engine and which kernel compute a plan: what is chosen is what runs, and what is reported."""

from __future__ import annotations

import re
import sys
from collections import deque
from pathlib import Path
from types import ModuleType, SimpleNamespace
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
from poolcli.engine.compiled import pool as compiled
from poolcli.engine.compiled.choice import choose_for_memory_order, choose_kernel
from poolcli.engine.compiled.view import AT
from poolcli.plan.plan import whole
from tests.conftest import Cli
from tests.reducers import MINIMUM, Under, power

WIDE = (1, 1, 60, 70)
LARGE = (1, 1, 300, 400)
KERNELS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "small arrays": (AvgPool(3, strides=2, pads=1), "long", {}),
    "fewer than 8192 outputs": (AvgPool(1), "long", {"shape": (1, 1, 1, 8191)}),
    "8192 outputs": (AvgPool(1), "direct-1-1-1-1-1-0-1", {"shape": (1, 1, 1, 8192)}),
    "a constant size": (AvgPool(3, strides=2, pads=1), "buffer-3-3-3-2-1-0-1", {"shape": LARGE}),
    "a constant distance": (AvgPool(3, strides=1, dilations=2), "buffer-3-3-3-1-2-0-1", {"shape": LARGE}),
    "volumes": (AvgPool(2, strides=2), "buffer-4-2-2-2-1-0-1", {"shape": (1, 4, 40, 50, 60)}),
    "the widest windows": (AvgPool((1, 9), strides=(1, 8)), "direct-1-1-9-8-1-0-1", {"shape": (1, 9, 100, 400)}),
    "wider windows": (AvgPool((1, 10), strides=(1, 8)), "long", {"shape": (1, 9, 100, 400)}),
    "a larger stride": (AvgPool((1, 9), strides=(1, 9)), "long", {"shape": (1, 9, 100, 400)}),
    "28 rows": (AvgPool((28, 3), strides=(4, 1)), "long", {"shape": LARGE}),
    "pairs": (AvgPool(2, strides=2), "direct-2-2-2-2-1-0-1", {"shape": LARGE}),
    "threes": (AvgPool(3, strides=3), "buffer-3-3-3-3-1-0-1", {"shape": LARGE}),
    "fours": (AvgPool(4, strides=4), "buffer-4-4-4-4-1-0-1", {"shape": (1, 2, 300, 400)}),
    "pairs, one of which overhangs": (
        AvgPool(2, strides=2, rounding_type="ceil"), "buffer-2-2-2-2-1-0-1", {"shape": (1, 1, 300, 401)}
    ),
    "maxima of pairs": (MaxPool(2, strides=2), "direct-2-2-2-2-1-0-1", {"shape": (1, 9, 300, 126)}),
    "short rows beyond the cache": (AvgPool(3, strides=2), "buffer-3-3-3-2-1-16-1", {"shape": (1, 32, 128, 128)}),
    "short rows in the cache": (AvgPool(3, strides=2), "buffer-3-3-3-2-1-0-1", {"shape": (1, 31, 128, 128)}),
    "steps of 8 KiB": (AvgPool(3, strides=2), "buffer-3-3-3-2-1-16-1", {"shape": (1, 1, 1024, 1024)}),
    "longer steps": (AvgPool(3, strides=2), "buffer-3-3-3-2-1-0-1", {"shape": (1, 1, 1024, 1025)}),
    "three channels in steps": (
        AvgPool(3, strides=2), "buffer-3-3-3-2-1-0-3", {"layout": "NHWC", "shape": (1, 300, 400, 3)}
    ),
    "three channels, one step": (
        AvgPool(3, strides=1), "buffer-3-3-3-1-1-0-0", {"layout": "NHWC", "shape": (1, 300, 400, 3)}
    ),
    "eight channels": (AvgPool(3, strides=2), "buffer-3-3-3-2-1-0-0", {"layout": "NHWC", "shape": (1, 300, 400,
        8)}),
    "pixels of three bytes": (
        AvgPool(2, strides=2), "bytes-2-2-2-2-1-0-3", {"layout": "NHWC", "shape": (1, 300, 400, 3), "dtype": "uint8"}
    ),
    "small maps": (AvgPool(3, strides=1, pads=1), "maps-3-3-1", {"shape": (10, 100, 7, 7)}),
    "few small maps": (AvgPool(3, strides=1, pads=1), "long", {"shape": (10, 10, 7, 7)}),
    "maps with rows of 36 sums": (AvgPool(3, strides=1, pads=1), "maps-3-3-1", {"shape": (10, 100, 7, 36)}),
    "maps with longer rows": (AvgPool(3, strides=1, pads=1), "buffer-3-3-3-1-1-0-1", {"shape": (10, 100, 7, 37)}),
    "maps of float64": (
        AvgPool(3, strides=1, pads=1), "buffer-3-3-3-1-1-0-1", {"shape": (10, 100, 7, 7), "dtype": "float64"}
    ),
    "maps that shrink": (AvgPool(3, strides=1), "buffer-3-3-3-1-1-0-1", {"shape": (10, 100, 7, 7)}),
    "many rows": (AvgPool(9, strides=1, pads=4), "tall", {"shape": LARGE}),
    "as many rows as do not pay": (AvgPool(8, strides=1), "buffer-8-8-8-1-1-0-1", {"shape": LARGE}),
    "bins of small arrays": (AdaptiveAvgPool(7), "bins-0-True-False-0", {}),
    "bins": (AdaptiveAvgPool(100), "bins-0-False-False-0", {"shape": (1, 3, 700, 900)}),
    "bins of channels": (AdaptiveAvgPool(100), "bins-0-True-False-0", {"layout": "NHWC", "shape": (1, 700, 900, 3)}),
    "short bins": (AdaptiveAvgPool(100), "bins-2-False-False-0", {"shape": (1, 3, 150, 150)}),
    "planes": (AdaptiveAvgPool(1), "bins-0-False-True-0", {"shape": (90, 100, 7, 7)}),
    "planes beyond the cache": (AdaptiveAvgPool(1), "bins-0-False-True-16", {"shape": (90, 200, 7, 7)}),
    "pads that are too long": (
        AvgPool((1, 2200), strides=1, pads_begin=(0, 2000), pads_end=(0, 307)), "bins-0-False-True-0", {"shape": (1, 99,
            60, 70)}
    ),
    "long runs": (AvgPool((1, 16), strides=(1, 16)), "bins-0-False-True-16", {"shape": (1, 9, 300, 400)}),
    "areas": (AreaPool(7), "areas", {}),
    "modes": (ModePool((3, 9), strides=2), "mode", {"dtype": "uint8"}),
    "medians": (MedianPool(3, strides=1, pads=1), "median", {}),
    "deviations of short integers": (StdPool(3, strides=2), "long", {"dtype": "int16"}),
    "deviations": (StdPool(3, strides=2), "deviation-0-0-0-0", {}),
    "deviations of large arrays": (StdPool(3, strides=2), "deviation-3-3-3-2", {"shape": LARGE}),
    "minima": (Under(MaxPool(3, strides=2), MINIMUM), "buffer-3-3-3-2-1-0-1", {"shape": LARGE}),
    "powers": (Under(AvgPool(3, strides=2), power(2)), "buffer-3-3-3-2-1-0-1", {"shape": LARGE}),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_each_plan_has_its_kernel(name: str) -> None:
    op, kernel, more = KERNELS[name]
    options = {"shape": WIDE, "dtype": "float32", **more}
    plan = op.plan(options.pop("shape"), options.pop("dtype"), **options)
    found = choose_kernel(whole(plan))
    name = re.sub(r"^(buffer|direct|bytes)-(.*)-(\d)$", r"sliding-\2-\1-\3", kernel)
    assert found.kernel.name == f"{name}-{plan.dtype}-{found.kernel.arithmetic.name}"
    assert found.search is None


@pytest.mark.parametrize(
    ("op", "shape", "constants"),
    [
        (MaxPool(3, strides=2), WIDE, "0-0-0"),
        (MaxPool(3, strides=2), LARGE, "3-2-1"),
        (AdaptiveMaxPool(1), (90, 100, 7, 7), "0-0-0"),
        (MaxPool((1, 1, 3), strides=(1, 1, 2)), (1, 1, 2**6, 2**5, 2**20 + 1), "0-0-0"),  # more than int32 counts
    ],
    ids=["a small array", "a constant size", "planes", "a large plane"],
)
def test_positions_are_searched_by_another_kernel(op: Any, shape: tuple[int, ...], constants: str) -> None:
    found, alone = (choose_kernel(whole(op.plan(shape)), indices) for indices in (True, False))
    assert found.search is not None
    assert found.search.name == f"search-{constants}-float32-min-float32-negated-float32"
    assert found.kernel == alone.kernel


DIVISIONS: dict[str, tuple[Any, str, str | None, str]] = {
    "by 4": (AvgPool(2, strides=2), "uint8", None, "sum-int16-shift-bits2-uint8"),
    "by 256": (AvgPool(16, strides=16), "uint8", None, "sum-int32-shift-bits8-uint8"),
    "by 16 with pads": (AvgPool(4, strides=4, pads=1, exclude_pad=False), "uint8", None, "sum-int16-shift-bits4-uint8"),
    "by 128": (AvgPool((8, 16), strides=(8, 16)), "uint8", None, "sum-int32-shift-bits7-uint8"),
    "by 1": (AvgPool(1, strides=2), "uint8", None, "sum-int16-uint8"),
    "by 9": (AvgPool(3, strides=2), "uint8", None, "sum-int16-half_even_float32-uint8"),
    "by 4 and less": (AvgPool(2, strides=2, pads=1), "uint8", None, "sum-int16-half_even_float32-uint8"),
    "as sums": (SumPool(2, strides=2), "uint8", None, "sum-int16-uint64"),
    "to floats by 4": (AvgPool(2, strides=2), "uint8", "float32", "sum-int16-quotient-float32"),
    "to floats by 3": (AvgPool(2, strides=2, divisor_override=3), "uint8", "float32", "sum-int16-quotient-float32"),
    "to floats by a large number": (
        AvgPool(2, strides=2, divisor_override=2**24 + 1), "uint8", "float32", "sum-int16-odd-float32"
    ),
    "to float64 by a large number": (
        AvgPool(2, strides=2, divisor_override=2**24 + 1), "uint8", "float64", "sum-int16-quotient-float64"
    ),
    "of floats by 9": (AvgPool(3, strides=2), "float32", None, "sum-float64-quotient-float32"),
    "of floats by -4": (AvgPool(2, strides=2, divisor_override=-4), "float32", None, "sum-float64-quotient-float32"),
    "of float64": (AvgPool(2, strides=2), "float64", None, "sum_with_error-complex128-quotient-float64"),
    "of float64 to a shorter type": (AvgPool(2, strides=2), "float64", "float32",
        "sum_with_error-complex128-odd-float32"),
    "of sums that float64 holds": (AvgPool(3, strides=2), "int32", "float64", "sum-int64-quotient-float64"),
    "of longer sums": (AvgPool(3, strides=2), "int64", "float64", "sum-int64-nearest-float64"),
    "of longer sums to a shorter type": (AvgPool(3, strides=2), "int64", "float32", "sum-int64-odd-float32"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIVISIONS)
def test_sums_are_divided_in_the_cheapest_way_that_gives_the_same_bits(name: str) -> None:
    op, dtype, output_dtype, words = DIVISIONS[name]
    plan = op.plan((1, 90, 320, 320), dtype, output_dtype=output_dtype)
    assert choose_kernel(whole(plan)).kernel.arithmetic.name == words


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32", "float64"])
def test_small_arrays_share_two_kernels_of_averages(dtype: str) -> None:
    sliding = [AvgPool(k, strides=s, pads=p) for k in range(1, 8) for s in range(1, 5) for p in (0, k // 2)]
    every = [*sliding, AvgPool(12, strides=1, pads=6), *(AdaptiveAvgPool(n) for n in (1, 2, 5, 9, 30))]
    plans = [op.plan((1, 3, 28, 28), dtype) for op in every]
    plans += [op.plan((1, 28, 28, 3), dtype, layout="NHWC") for op in every]
    assert len({choose_kernel(whole(plan)).kernel.name for plan in plans}) == 2


@pytest.mark.parametrize(
    ("op", "width", "dtype", "piece", "reach"),
    [
        (AvgPool((1, 3), strides=(1, 2), pads=(0, 1)), 8000, "float32", 4000, 8001),
        (AvgPool((1, 3), strides=(1, 2)), 40_000, "float32", 4097, 8195),
        (MaxPool((1, 3), strides=(1, 2)), 40_000, "float32", 8193, 16_387),
        (AvgPool((9, 3), strides=1), 20_000, "float32", 4099, 4101),
    ],
    ids=["a short row", "sums", "maxima", "blocks of rows"],
)
def test_long_rows_are_pooled_in_pieces_that_fit_the_buffer_of_a_row(
    op: Any, width: int, dtype: str, piece: int, reach: int
) -> None:
    plan = op.plan((1, 1, 20, width), dtype)
    table = choose_kernel(whole(plan)).table
    assert (table[AT.piece], table[AT.reach], table[AT.pieces]) == (piece, reach, -(-plan.output_shape[3] // piece))


@pytest.mark.parametrize(
    ("shape", "view"),
    [((64, 64, 8, 8), (64, 1, 1, 4096)), ((1, 240, 1, 17), (1, 1, 1, 4080)), ((1, 241, 1, 17), (241, 1, 1, 17))],
    ids=["as long as they may be", "all of them", "one at a time"],
)
def test_whole_planes_are_joined_to_rows(shape: tuple[int, ...], view: tuple[int, ...]) -> None:
    assert choose_kernel(whole(AdaptiveAvgPool(1).plan(shape))).view.input_shape == view


@pytest.mark.parametrize(
    ("op", "order", "read"),
    [
        (MaxPool(3, strides=2), (0, 2, 3, 1), (0, 2, 3, 1)),
        (MaxPool(3, strides=2), (0, 1, 3, 2), (0, 1, 3, 2)),
        (AvgPool(3, strides=2), (0, 2, 3, 1), (0, 2, 3, 1)),
        (AvgPool(3, strides=2), (0, 1, 3, 2), (0, 1, 2, 3)),
        (AdaptiveAvgPool(7), (0, 2, 3, 1), (0, 2, 3, 1)),
        (AreaPool(7), (0, 2, 3, 1), (0, 2, 3, 1)),
    ],
    ids=["maxima", "maxima down columns", "sums", "sums down columns", "bins", "areas"],
)
def test_axes_are_read_in_the_order_of_memory_where_no_sum_changes(
    op: Any, order: tuple[int, ...], read: tuple[int, ...]
) -> None:
    region = whole(op.plan((2, 16, 60, 70)))
    x = np.zeros([region.input_shape[i] for i in order], np.float32).transpose(np.argsort(order))
    assert choose_for_memory_order(region, False, choose_kernel(region), x).view.order == read


@pytest.mark.parametrize(
    ("values", "is_left"),
    [((-(2**61), 2**61), False), ((-(2**61), 2**61 + 1), True), ((-(2**61) - 1, 0), True), ((0, 0), False)],
)
def test_integers_whose_sums_may_leave_64_bits_are_left_to_numpy(
    values: tuple[int, int], is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[bool] = []
    numpy_engine = SimpleNamespace(load=lambda: lambda *region: lambda *arguments: left.append(True))
    monkeypatch.setattr(compiled, "NUMPY", numpy_engine)
    monkeypatch.setattr(compiled, "run", lambda *arguments: left.append(False))
    x, plan = np.array([[values]]), AvgPool(2).plan((1, 1, 2), "int64")
    compiled.prepare(whole(plan), False)(x, np.empty((1, 1, 1), np.int64), 1)
    assert left == [is_left]


def test_where_no_kernel_can_be_had_the_other_pool_computes_from_then_on() -> None:
    told: list[str] = []

    def fail(*arguments: Any) -> Any:
        raise KernelError("no compiler; use engine numpy or auto")

    pool = with_fallback(fail, lambda: lambda slab, out, threads: slab, told.append)
    assert [pool(np.full(1, i), np.zeros(1), None) for i in (3, 4)] == [3, 4]
    assert told == ["no compiler"]


def test_a_process_is_warned_once_that_numpy_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolcli.engine.choose._warned", [])
    with pytest.warns(RuntimeWarning) as warned:
        deque(map(warn_once, ("no compiler", "no memory")))
    assert [str(each.message) for each in warned] == ["poolcli computes with numpy: no compiler"]
    assert [each.filename for each in warned] == [__file__]  # the caller outside of poolcli


HUGE = (1, 1, 3, 3)
REFUSED: dict[str, tuple[Any, str | None]] = {
    "3 axes": (AvgPool(1).plan((1, 1, 2, 2, 2)), None),
    "4 axes": (AvgPool(1).plan((1, 1, 2, 2, 2, 2)), "numba computes up to 3 spatial axes, the plan has 4"),
    "a divisor of 2**31 - 1": (AvgPool(1, divisor_override=2**31 - 1).plan(HUGE, output_dtype="float64"), None),
    "a divisor of 2**31": (AvgPool((2**16, 2**15), strides=1, pads=2**16, exclude_pad=False).plan(HUGE),
        "numba divides by numbers below 2**31, the plan up to 2147483648"),
    "a maximum of 2**31": (MaxPool((2**16, 2**15), strides=1, pads=2**16 - 1).plan(HUGE), None),
    "a power of 3": (Under(AvgPool(1), power(3)).plan(HUGE),
        "numba computes norms with p 1 and 2, of types of up to 32 bits"),
    "a power of float64": (Under(AvgPool(1), power(2)).plan(HUGE, "float64"),
        "numba computes norms with p 1 and 2, of types of up to 32 bits"),
    "sizes to float64": (Under(AvgPool(1), power(1)).plan(HUGE, output_dtype="float64"), None),
    "a square to float64": (Under(AvgPool(1), power(2)).plan(HUGE, output_dtype="float64"), None),
    "a sum": (SumPool(1).plan(HUGE), None),
    "a sum of 2**31": (SumPool((2**16, 2**15), strides=1, pads=2**16).plan(HUGE),
        "numba adds fewer than 2**31 elements, the plan up to 2147483648"),
    "a median of 49": (MedianPool(7).plan((1, 1, 9, 9)), None),
    "a median of 50": (MedianPool((5, 10)).plan((1, 1, 10, 10)),
        "numba computes medians of up to 49 elements, the windows have 50"),
    "a mode of 50": (ModePool((5, 10)).plan((1, 1, 9, 10), "uint8"),
        "numba computes modes of up to 49 elements, the windows have 50"),
    "a median of long integers as a float": (MedianPool(1).plan(HUGE, "int64", output_dtype="float64"),
        "numba computes medians of 64-bit integers as integers only"),
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
    assert choose_engine(AvgPool(1).plan((1, 1, 3_000_000)), worth=MIN_WORK_TO_LOAD).name == "numpy"
    assert choose_engine(AvgPool(1).plan((1, 1, 3_000_001)), worth=MIN_WORK_TO_LOAD).name == "numba"
    assert choose_engine(MedianPool(3).plan((1, 1, 59, 60))).name == "numpy"  # 57 * 58 * 9 elements are taken at once
    assert choose_engine(MedianPool(3).plan((1, 1, 60, 60))).name == "numba"
    small, large = AvgPool(3).plan((1, 1, 40, 40)), AvgPool(3, strides=2, pads=1).plan((8, 64, 112, 112))
    for loaded in (False, True, False):
        for module in ("numba", "poolcli.engine.compiled.pool"):
            monkeypatch.setitem(sys.modules, module, ModuleType(module) if loaded else None)
        assert (choose_engine(small).name, choose_engine(large).name) == ("numpy", "numba")
