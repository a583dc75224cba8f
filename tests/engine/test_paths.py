"""Each path of the compiled engine gives what the definition gives, and what the numpy engine gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolcli import AvgPool, MaxPool, RequestError
from poolcli.engine import run
from poolcli.engine.compiled.kernel_choice import KernelSpec
from poolcli.plan import Plan
from tests.engine.exact import assert_exact, some_places
from tests.engine.paths import CONSTANT, PATHS, Path
from tests.engine.watched import UnwantedKernelError, watched
from tests.profiles import sized
from tests.test_engines import assert_same

pytestmark = pytest.mark.compiles

TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "bfloat16", "float32", "float64")
WIDE = ("int64", "uint64")
FOR_MAXIMA = ("uint8", "int16", "float16", "float32", "float64", "uint64")
# Kernels for one size differ from the general ones in where they find their terms, not in what they do with them.
OF_ONE_SIZE = {
    "mean": ("uint8", "int16", "float32", "float64"),
    "max": ("uint8", "float32"),
    "at": ("uint8", "float32"),
}
EXAMPLES = sized(10, 30)
FLOOR = sized(4, 12)  # of them that took the path; the others were refused, or were too short for it


def _types(name: str, path: Path, reducer: str) -> tuple[str, ...]:
    if name == "64-bit integers":
        return WIDE
    if path.limits == CONSTANT:
        return OF_ONE_SIZE[reducer]
    return TYPES if reducer == "mean" else FOR_MAXIMA


def _in_turn(number: int, path: Path, reducer: str, types: tuple[str, ...]) -> list[str]:
    """All types in full runs. Otherwise one of those the path names, for means and maxima by turns, and a 48th of the
    others, since building kernels takes most of the time.
    """
    if sized(False, True):
        return list(types)
    named = path.quick or types
    has_turn = reducer == path.reducers[number // 2 % len(path.reducers)]
    own = named[number % len(named)] if has_turn else None
    return [dtype for i, dtype in enumerate(types) if (number + i) % 48 == 0 or dtype == own]


ROWS = [
    (name, reducer, dtype)
    for number, (name, path) in enumerate(PATHS.items())
    for reducer in path.reducers
    for dtype in _in_turn(number, path, reducer, _types(name, path, reducer))
]


def numbers(seed: int, shape: tuple[int, ...], dtype: str, ties: bool) -> Any:
    """Finite numbers: few different ones, or from all over the type."""
    rng = np.random.default_rng(seed)
    if "int" in dtype:
        limits = np.iinfo(dtype)
        low, high = (max(limits.min, -1), 3) if ties else (limits.min, limits.max)
        if dtype in WIDE and seed % 4:  # numpy adds those whose sums need more than 64 bits
            low, high = max(low, -(2**50)), min(high, 2**50)
        return rng.integers(low, high, shape, dtype, endpoint=True)
    x = rng.integers(-2, 3, shape) / 2 if ties else rng.standard_normal(shape) * 10
    return x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize(("name", "reducer", "dtype"), ROWS)
def test_a_path_gives_what_the_definition_and_the_other_engine_give(name: str, reducer: str, dtype: str) -> None:
    seen = Counter[str]()
    # Each way to divide has kernels of its own, which test_special_numbers and test_rounding hold: quick runs build
    # those of means that divide by any number, and others only where too few poolings of the path do.
    if reducer == "mean" and sized(True, False):
        seen = take(name, reducer, dtype, 3 * EXAMPLES, divides_by_any_number)
    if seen["took it"] < FLOOR:
        seen = take(name, reducer, dtype, EXAMPLES, lambda spec: True)
    assert seen["took it"] >= FLOOR, seen


def take(name: str, reducer: str, dtype: str, examples: int, wanted: Callable[[KernelSpec], bool]) -> Counter[str]:
    """Holds poolings of a path against the definition and the other engine, but none whose kernel is not wanted; how
    many took the path.
    """
    path, seen = PATHS[name], Counter[str]()

    @settings(max_examples=examples, derandomize=True, database=None)
    @given(path.poolings, st.integers(0, 2**32 - 1), st.booleans())
    def hold(pooling: Any, seed: int, ties: bool) -> None:
        try:
            plan = pooling.plan(reducer == "mean", dtype)
        except RequestError:
            seen["refused"] += 1
            return
        x = numbers(seed, pooling.shape, dtype, ties)
        try:
            with watched(wanted) as taken:
                values, positions = run(plan, x, engine="numba", indices=reducer == "at")
        except UnwantedKernelError:
            seen["unwanted"] += 1
            return
        seen["took it" if any(path.took(step, plan) for step in taken) else "took another"] += 1
        assert_exact(plan, x, values, positions, some_places(plan, np.random.default_rng(seed), 6))
        assert_both(plan, x, values, positions)

    with patch("poolcli.engine.compiled.kernel_choice.THRESHOLDS", path.limits):
        hold()
    return seen


def divides_by_any_number(spec: KernelSpec) -> bool:
    """Whether the kernel of means is no special one, for powers of two or single elements."""
    return spec.arithmetic.result in ("half_even", "by_reciprocal")


def assert_both(plan: Plan, x: Any, values: Any, positions: Any) -> None:
    """The numpy engine agrees at every output."""
    others, places = run(plan, x, engine="numpy", indices=positions is not None)
    assert_same(values, others, plan, x)
    if positions is not None:
        np.testing.assert_array_equal(positions, places)


@pytest.mark.parametrize(
    "kernel", ["slide", "slide_row", "slide_blocks", "slide_planes", "tiles", "irregular", "argmax"]
)
def test_every_kernel_has_a_path(kernel: str) -> None:
    assert any(name.startswith(kernel) for name in PATHS)


@pytest.mark.parametrize(("kernel", "dilation", "size", "pad"), [(3, 3, 5, 2), (4, 2, 5, 2)])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_windows_are_divided_by_their_own_divisors_where_the_largest_one_comes_twice(
    kernel: int, dilation: int, size: int, pad: int, dtype: str
) -> None:
    """Dilated windows that reach over both ends of a short axis hold fewer elements in the middle than beside it."""
    op = AvgPool((1, kernel), 1, (0, pad), (0, pad), dilations=(1, dilation))
    x = numbers(0, (2, 5, 3, size), dtype, ties=False)
    plan = op.plan(x.shape, dtype)
    divisors = plan.windows[-1].divisor(np.arange(plan.output_shape[-1]))
    assert np.ptp(np.flatnonzero(divisors == divisors.max())) >= np.count_nonzero(divisors == divisors.max())
    with patch("poolcli.engine.compiled.kernel_choice.THRESHOLDS", CONSTANT), watched() as taken:
        values, positions = run(plan, x, engine="numba")
    assert [step.kernel for step in taken] == ["slide"]
    assert taken[0].fixed is not None
    assert_both(plan, x, values, positions)


def test_windows_that_reach_far_beyond_the_planes_of_a_task_leave_its_masks_alone() -> None:
    op = AvgPool((1, 9), 1, 0, (0, 8 * 14), dilations=(1, 14))
    x = numbers(0, (1, 2, 6, 16), "float32", ties=False)
    plan = op.plan(x.shape, "float32")
    with patch("poolcli.engine.compiled.kernel_choice.THRESHOLDS", CONSTANT), watched() as taken:
        values, positions = run(plan, x, engine="numba")
    assert [step.kernel for step in taken] == ["slide_planes"]
    assert_both(plan, x, values, positions)


SMALL_MAPS: dict[str, Any] = {
    "averages": AvgPool(3, 1, 1, 1),
    "maxima": MaxPool(3, 1, 1, 1),
    "averages below their first row": AvgPool(3, 1, (0, 1), (2, 1)),
    "averages with gaps": AvgPool(3, 1, 2, 2, dilations=2),
}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in a row", "in two rows"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float16"])
@pytest.mark.parametrize("name", SMALL_MAPS)
def test_small_maps_are_pooled_in_one_pass_over_the_rows_of_many(name: str, dtype: str, order: tuple[int, int]) -> None:
    x = numbers(0, (4, 90, 5, 4), dtype, ties=False)
    x = np.ascontiguousarray(x.transpose(*order, 2, 3)).transpose(*order, 2, 3)
    plan = SMALL_MAPS[name].plan(x.shape, dtype)
    with patch("poolcli.engine.compiled.kernel_choice.THRESHOLDS", CONSTANT), watched() as taken:
        values, positions = run(plan, x, engine="numba")
    assert [(step.kernel, step.rest[4]) for step in taken] == [("slide_planes", 1)]
    assert_both(plan, x, values, positions)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64"])
@pytest.mark.parametrize("exclude_pad", [True, False])
@pytest.mark.parametrize("shape", [(3, 2, 30, 20), (1, 3, 25, 17), (2, 2, 11, 4)])
def test_larger_maps_are_pooled_in_rows_with_the_same_divisors(
    shape: tuple[int, ...], exclude_pad: bool, dtype: str
) -> None:
    op = AvgPool((4, 3), 1, (2, 1), (1, 1), exclude_pad=exclude_pad)
    x = numbers(0, shape, dtype, ties=False)
    plan, limits = op.plan(x.shape, dtype), CONSTANT._replace(mask_elements=2 * shape[-1] + 1)
    with patch("poolcli.engine.compiled.kernel_choice.THRESHOLDS", limits), watched() as taken:
        values, positions = run(plan, x, engine="numba")
    assert [(step.kernel, step.rest[3]) for step in taken] == [("slide_planes", 0)]
    assert_both(plan, x, values, positions)
