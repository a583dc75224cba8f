"""Each kernel of the compiled engine gives what the definition gives, and what the numpy engine gives, and keeps to its
buffers. Drawn at large, poolings hardly ever meet the rarer kernels; so each has rows that draw poolings for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from poolcli import AvgPool, RequestError
from poolcli.dtypes import numpy_dtype
from poolcli.engine import run
from poolcli.engine.compiled import choice, pool as engine
from poolcli.engine.compiled.choice import LIMITS, Prepared
from poolcli.engine.compiled.pool import address
from poolcli.engine.compiled.view import CACHE_LINE
from poolcli.plan import Plan
from tests.engine.exact import assert_exact, some_places
from tests.engine.poolings import ANY, FEW, LONG, ONE, SEVERAL, SHORT, Pooling, adaptive, any_two_axes, between, sliding
from tests.profiles import sized
from tests.test_engines import assert_same

pytestmark = pytest.mark.compiles

CONSTANT = LIMITS._replace(outputs=0)  # kernels for one size of windows, however small the work
IN_PIECES = {"row_bytes": 1 << 10, "pass_bytes": 1 << 10, "block_bytes": 1 << 10}


@dataclass(frozen=True)
class Case:
    """Poolings for which a kernel is chosen, for the reducers `mean`, `max` or `at` (maxima with indices)."""

    kernel: str
    poolings: st.SearchStrategy[Pooling]
    limits: choice.Limits = CONSTANT
    reducers: tuple[str, ...] = ("mean", "max")
    types: tuple[str, ...] = ()  # if not those of TYPES


DILATED = between(2, sized(2, 3))
CASES: dict[str, Case] = {
    "any size": Case("long", sliding((ANY, between(1, 15)), (ANY, ANY), (SHORT, SEVERAL), between(1, 2)), LIMITS),
    "any size, of channels": Case(
        "long", sliding((ANY, ANY), (ANY, ANY), (SHORT, SEVERAL), channels=between(3, 5), last=True), LIMITS
    ),
    "any size, in pieces": Case("long", sliding((ANY, ANY), (ANY, ANY), (SHORT, LONG)), LIMITS._replace(**IN_PIECES)),
    "any size, of volumes": Case(
        "long", sliding((ANY, ANY, ANY), (ANY, ANY, ANY), (between(0, 3), between(0, 4), SEVERAL)), LIMITS
    ),
    "3 by 1": Case("sliding", sliding((FEW, between(3)), (ANY, ONE), (SHORT, SEVERAL), between(1, 2))),
    "3 by 2": Case("sliding", sliding((FEW, between(3)), (ANY, between(2)), (SHORT, SEVERAL))),
    "5 by 3, ten rows": Case("sliding", sliding((between(10), between(5)), (between(2), between(3)), (SHORT, SEVERAL))),
    "3 by 2, in pieces": Case(
        "sliding", sliding((FEW, between(3)), (ANY, between(2)), (SHORT, LONG)), CONSTANT._replace(**IN_PIECES)
    ),
    "3 by 2 of many channels": Case(
        "sliding",
        sliding((between(1, 2), between(3)), (ANY, between(2)), (SHORT, SEVERAL), channels=between(8, 18), last=True),
    ),
    "3 by 2 of three channels": Case(
        "sliding", sliding((FEW, between(3)), (ANY, between(2)), (SHORT, SEVERAL), channels=between(3), last=True)
    ),
    "4 by 4 of seven channels, in pieces": Case(
        "sliding",
        sliding((FEW, between(4)), (ANY, between(4)), (SHORT, LONG), channels=between(7), last=True),
        CONSTANT._replace(**IN_PIECES),
    ),
    "3 by 1 of channels": Case(
        "sliding", sliding((FEW, between(3)), (ANY, ONE), (SHORT, SEVERAL), channels=between(2, 4), last=True)
    ),
    "3 by 2 of volumes": Case(
        "sliding",
        sliding((between(2), FEW, between(3)), (ANY, ANY, between(2)), (between(0, 3), between(0, 4), SEVERAL)),
    ),
    "3 by 2, dilated": Case("sliding", sliding((FEW, between(3)), (ONE, between(2)), (SHORT, SEVERAL), DILATED)),
    "4 by 4, fetched ahead": Case(
        "sliding",
        sliding((between(4), between(4)), (ANY, between(4)), (SHORT, SEVERAL)),
        CONSTANT._replace(cached_bytes=0),
    ),
    "2 by 2, direct": Case(
        "sliding",
        sliding((between(1, 2), between(2)), (ANY, between(2)), (between(0, 30), between(4, 60)), padded=False),
    ),
    "2 by 2 of which rows are padding, direct": Case(
        "sliding",
        st.builds(
            lambda h, w, s, begin, end: Pooling((2, 2, h, w), {"kernel": (2, 2), "strides": (s, 2),
                "pads_begin": (begin, 0), "pads_end": (end, 0)}),
            st.integers(2, 9), st.integers(4, 60), st.integers(1, 3), st.just(1), st.integers(0, 1),
        ),
    ),
    "small maps": Case(
        "maps",
        st.builds(
            lambda n, k, h, w, pad, d, e: Pooling((n, 3, h + k - 1, w + 2), {"kernel": (k, 3), "strides": (1, 1),
                "pads_begin": (min(pad, k - 1), d), "pads_end": (k - 1, d), "dilations": (1, d), "exclude_pad": e}),
            st.integers(1, 20), st.sampled_from(range(1, 9, sized(7, 1))), st.integers(1, 30), st.integers(1, 26),
            st.integers(0, 3), st.integers(1, 2), st.booleans(),
        ),
    ),
    "blocks of rows": Case("tall", sliding((between(9, 12), ANY), (ONE, ONE), (SHORT, SHORT))),
    "blocks of rows, apart": Case("tall", sliding((between(17, 20), ANY), (between(2), ANY), (SHORT, SHORT))),
    "blocks of rows, in pieces": Case(
        "tall", sliding((between(9, 10), ANY), (ONE, ANY), (between(0, 4), LONG)), CONSTANT._replace(**IN_PIECES)
    ),
    "2 by 2 of few channels, direct": Case(
        "sliding",
        sliding((between(2), between(2)), (between(2), between(2)), (SHORT, between(6, 40)), padded=False,
                channels=range(2, 5, sized(2, 1)), last=True),
    ),
    "2 by 2 of bytes": Case(
        "sliding",
        sliding((between(2), between(2)), (between(2), between(2)), (between(2, 9), between(6, 70)), padded=False,
                channels=between(3), last=True),
        reducers=("mean",), types=("uint8",),
    ),
    "bins": Case("bins", adaptive((between(1, 9), between(1, 40)), (between(1, 9), between(1, 9))), LIMITS),
    "bins of channels": Case(
        "bins",
        adaptive((between(2, 6), between(5, 40)), (ONE, between(1, 4)), last=True, channels=between(2, 18)),
        LIMITS,
    ),
    "short bins": Case("bins", adaptive((between(3, 9), between(10, 14)), (between(1, 4), between(6, 9)))),
    "short bins of channels": Case(
        "bins", adaptive((between(3, 9), between(10, 14)), (between(1, 4), between(6, 9)), last=True)
    ),
    "more bins than elements": Case("bins", adaptive((between(3, 5), between(3, 5)), (between(2, 9), between(7, 9)))),
    "bins of one row": Case("bins", adaptive((between(3), between(23, 29)), (between(3), between(2, 4)))),
    "bins that are whole planes": Case(
        "bins",
        st.builds(lambda n, h, w: Pooling((n, 3, h, w), {"output_size": (1, 1)}), *[st.integers(1, 6)] * 3),
    ),
    "long windows side by side": Case(
        "bins", sliding((between(1, 2), between(16, 18)), (ANY, between(19, 20)), (SHORT, between(0, 60)))
    ),
    "windows far out in the padding": Case(
        "bins",
        st.builds(
            lambda n, k, pad: Pooling((1, 2, 3, n), {"kernel": (1, k), "strides": (1, 1), "pads_begin": (0, pad),
                                                     "exclude_pad": False}),
            st.integers(2, 9), st.integers(1, 3), st.integers(5000, 5010),
        ),
    ),
    "positions": Case("search one by one", any_two_axes(), LIMITS, ("at",)),
    "positions in volumes of channels": Case(
        "search one by one",
        sliding((between(2, 3), ANY, ANY), (ANY, ANY, ANY), (between(0, 2), SHORT, SHORT), last=True,
                channels=between(2, 3)),
        LIMITS, ("at",),
    ),
    "positions in whole planes": Case(
        "search one by one",
        st.builds(lambda n, h, w: Pooling((n, 3, h, w), {"output_size": (1, 1)}), *[st.integers(1, 6)] * 3),
        CONSTANT, ("at",),
    ),
    "positions, 3 by 2": Case(
        "search", sliding((FEW, between(3)), (ANY, between(2)), (SHORT, SEVERAL)), CONSTANT, ("at",)
    ),
    "positions, 2 by 1, dilated": Case(
        "search",
        sliding((sized(between(8), between(1, 9)), between(2)), (ANY, ONE), (SHORT, SEVERAL), between(1, 2)),
        CONSTANT,
        ("at",),
    ),
    "positions, 3 by 1 in volumes of channels": Case(
        "search",
        sliding((between(2), FEW, between(3)), (ANY, ANY, ONE), (between(0, 2), SHORT, SEVERAL), last=True,
                channels=between(2, 3)),
        CONSTANT, ("at",),
    ),
}  # fmt: skip

TYPES = {
    "mean": ("float32", "uint8", "float64", "int16", "float16", "uint32", "bfloat16", "int64", "int8", "uint64"),
    "max": ("float32", "uint8", "float16", "int16", "float64", "uint64"),
    "at": ("float32", "uint8", "float64", "bfloat16"),
}
EXAMPLES = sized(10, 30)
FLOOR = sized(3, 10)  # of them that took the kernel; the others were refused, or were too short for it


def _types(number: int, case: Case, reducer: str) -> list[str]:
    """All types in full runs; otherwise one, by turns, since building kernels takes most of the time."""
    if case.types:
        return [*case.types]
    types = tuple(each for each in TYPES[reducer] if case.kernel != "maps" or each != "float64")
    return list(sized(types[number % len(types) : number % len(types) + 1], types))


ROWS = [
    (name, reducer, dtype)
    for number, (name, case) in enumerate(CASES.items())
    for reducer in sized(case.reducers[number % len(case.reducers) :][:1], case.reducers)
    for dtype in _types(number, case, reducer)
]


@contextmanager
def watched() -> Iterator[list[Prepared]]:
    """What the compiled engine runs meanwhile, in buffers that kernels keep to."""
    ran: list[Prepared] = []

    def seen(prepared: Prepared, *arguments: Any) -> None:
        ran.append(prepared)
        pooled(prepared, *arguments)

    pooled = engine.run
    with patch.object(engine, "run", seen), patch.object(engine, "MIN_PER_THREAD", 1), guarded():
        yield ran


GUARD, MARK = 1 << 12, 0xA5  # bytes, each of this value, behind a buffer


@contextmanager
def guarded() -> Iterator[None]:
    """Work arrays of just the size that a kernel asks for meanwhile, behind which it writes nothing."""
    given: list[tuple[Any, int]] = []

    def get(size: int) -> tuple[Any, int]:
        buffer = np.full(size + CACHE_LINE + GUARD, MARK, np.uint8)
        buffer = buffer[-address(buffer) % CACHE_LINE :]
        given.append((buffer, size))
        return buffer, address(buffer)

    with patch.object(engine, "work_array", get):
        yield
    assert [size for buffer, size in given if (buffer[size:] != MARK).any()] == []


def within_guards(plan: Plan) -> tuple[Any, Any]:
    """An output of the plan, and the buffer that it is in, with marks before and after it."""
    dtype = numpy_dtype(plan.output_dtype)
    size = prod(plan.output_shape) * dtype.itemsize
    buffer = np.full(size + 2 * GUARD, MARK, np.uint8)
    return buffer, buffer[GUARD : GUARD + size].view(dtype).reshape(plan.output_shape)


def name_of(prepared: Prepared) -> str:
    """The name of a kernel without its constants, or that of the kernel that searches positions."""
    if prepared.search is not None:
        return "search one by one" if prepared.search.constants[0] == 0 else "search"
    return prepared.kernel.maker.rpartition(".")[2]


def numbers(seed: int, shape: tuple[int, ...], dtype: str, ties: bool) -> Any:
    """Finite numbers: few different ones, or from all over the type."""
    rng = np.random.default_rng(seed)
    if "int" in dtype:
        limits = np.iinfo(dtype)
        low, high = (max(limits.min, -1), 3) if ties else (limits.min, limits.max)
        if "64" in dtype and seed % 4:  # numpy adds those whose sums need more than 64 bits
            low, high = max(low, -(2**50)), min(high, 2**50)
        return rng.integers(low, high, shape, dtype, endpoint=True)
    x = rng.integers(-2, 3, shape) / 2 if ties else rng.standard_normal(shape) * 10
    return x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize(("name", "reducer", "dtype"), ROWS)
def test_a_kernel_gives_what_the_definition_and_the_other_engine_give(name: str, reducer: str, dtype: str) -> None:
    case, seen = CASES[name], Counter[str]()

    @settings(max_examples=EXAMPLES, derandomize=True, database=None)
    @given(case.poolings, st.integers(0, 2**32 - 1), st.booleans())
    def hold(pooling: Any, seed: int, ties: bool) -> None:
        try:
            plan = pooling.plan(reducer == "mean", dtype)
        except RequestError:
            seen["refused"] += 1
            return
        x = numbers(seed, pooling.shape, dtype, ties)
        buffer, out = within_guards(plan)
        with watched() as ran:
            values, positions = run(plan, x, engine="numba", indices=reducer == "at", out=out)
        assert (buffer[:GUARD] == MARK).all()
        assert (buffer[GUARD + out.nbytes :] == MARK).all()
        seen.update(map(name_of, ran))
        assert_exact(plan, x, values, positions, some_places(plan, np.random.default_rng(seed), 6))
        assert_both(plan, x, values, positions)

    with patch.object(choice, "LIMITS", case.limits):
        hold()
    assert seen[case.kernel] >= FLOOR, seen


def assert_both(plan: Plan, x: Any, values: Any, positions: Any) -> None:
    """The numpy engine agrees at every output."""
    others, places = run(plan, x, engine="numpy", indices=positions is not None)
    assert_same(values, others, plan, x)
    if positions is not None:
        np.testing.assert_array_equal(positions, places)


ALIKE: dict[str, tuple[Any, tuple[int, ...], Callable[[choice.Limits], choice.Limits]]] = {
    "of a constant size": (AvgPool((10, 3), strides=2, pads=1), (2, 3, 40, 33),
        lambda limits: limits._replace(outputs=0, tall=9)),
    "whole maps": (AvgPool(3, strides=1, pads=1), (2, 30, 7, 9), lambda limits: limits._replace(outputs=0)),
    "in pieces": (AvgPool(3, strides=2, pads=1), (2, 3, 20, 300),
        lambda limits: limits._replace(outputs=0, **IN_PIECES)),
    "direct": (AvgPool(3, strides=3), (2, 3, 20, 31), lambda limits: limits._replace(outputs=0)),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_kernels_of_sliding_windows_add_in_one_order(name: str) -> None:
    """Large numbers cancel each other, so that sums in another order are others."""
    op, shape, change = ALIKE[name]
    rng = np.random.default_rng(0)
    x = (rng.integers(-3, 4, shape) * rng.choice([1, 2.0**60, -(2.0**60)], shape)).astype(np.float32)
    values, names, plan = [], [], op.plan(shape)
    for limits in (LIMITS._replace(outputs=1 << 30), change(LIMITS)):
        with patch.object(choice, "LIMITS", limits), watched() as ran:
            values.append(run(plan, x, engine="numba")[0].tobytes())
        names.append(name_of(ran[0]))
    assert names[0] == "long" != names[1]
    assert values[0] == values[1]


@pytest.mark.parametrize(("kernel", "dilation", "dtype"), [(3, 3, "float32"), (4, 2, "uint8")])
def test_windows_are_divided_by_their_own_divisors_where_the_largest_one_comes_twice(
    kernel: int, dilation: int, dtype: str
) -> None:
    """Dilated windows that reach over both ends of a short axis hold fewer elements in the middle than beside it."""
    op = AvgPool((1, kernel), strides=1, pads=(0, 2), dilations=(1, dilation))
    x = numbers(0, (2, 5, 3, 5), dtype, ties=False)
    plan = op.plan(x.shape, dtype)
    divisors = plan.windows[-1].divisor(np.arange(plan.output_shape[-1]))
    assert np.ptp(np.flatnonzero(divisors == divisors.max())) >= np.count_nonzero(divisors == divisors.max())
    with patch.object(choice, "LIMITS", CONSTANT), watched() as ran:
        values, positions = run(plan, x, engine="numba")
    assert [name_of(step) for step in ran] == ["sliding"]
    assert_both(plan, x, values, positions)
