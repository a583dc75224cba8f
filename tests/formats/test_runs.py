"""Regions of arrays: where they lie in C order, and how those that are done join."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolcli.errors import FileError
from poolcli.formats import Spec, WriteOptions, npy
from poolcli.formats.npy import contiguous_runs
from poolcli.formats.resumable import CoveredRegions

SHAPE = (3, 4, 5)


@st.composite
def regions(draw: st.DrawFn) -> tuple[range, ...]:
    ends = [sorted(draw(st.tuples(st.integers(0, size), st.integers(0, size)))) for size in SHAPE]
    return tuple(range(a, b) for a, b in ends)


@given(regions())
def test_runs_are_the_elements_of_the_region_in_order(region: tuple[range, ...]) -> None:
    flat = np.arange(60).reshape(SHAPE)[np.ix_(*region)].ravel().tolist()
    assert [i for first, length in contiguous_runs(SHAPE, region) for i in range(first, first + length)] == flat


@given(regions())
def test_runs_are_as_long_as_they_can_be(region: tuple[range, ...]) -> None:
    found = list(contiguous_runs(SHAPE, region))
    whole = all(len(axis) == size for axis, size in zip(region[1:], SHAPE[1:], strict=True))
    assert not whole or len(found) <= 1


@given(st.lists(regions(), max_size=8), regions())
def test_what_is_said_to_be_done_was_done(done: list[tuple[range, ...]], asked: tuple[range, ...]) -> None:
    """Also where regions meet, as they do when two runs cut them differently."""
    made, joined = np.zeros(SHAPE, bool), CoveredRegions()
    for region in done:
        made[np.ix_(*region)] = True
        joined.add(region)
        assert joined.holds(region)
    if joined.holds(asked):
        assert made[np.ix_(*asked)].all()


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 1, 3), (1, 2, 5), (3, 4, 5)])
def test_regions_in_c_order_join_to_few_and_all_to_one(sizes: tuple[int, ...]) -> None:
    cuts = [[range(a, min(a + k, n)) for a in range(0, n, k)] for n, k in zip(SHAPE, sizes, strict=True)]
    joined = CoveredRegions()
    for region in product(*cuts):
        joined.add(region)
        assert len(list(joined)) <= len(SHAPE)
    assert list(joined) == [(range(3), range(4), range(5))]


def test_regions_in_any_order_are_all_held_in_fewer() -> None:
    joined, cells = CoveredRegions(), list(product(*([range(i, i + 1) for i in range(n)] for n in SHAPE)))
    np.random.default_rng(0).shuffle(cells)
    for cell in cells:
        joined.add(tuple(cell))
    assert all(joined.holds(tuple(cell)) for cell in cells)
    assert len(list(joined)) < len(cells) / 2


def test_a_stream_takes_regions_from_front_to_back_alone(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    x = np.arange(60, dtype=np.uint8).reshape(SHAPE)
    with npy.open_writer("-", Spec(SHAPE, "uint8", "NCW"), WriteOptions()) as sink:
        sink((range(1), range(4), range(5)), x[:1])
        with pytest.raises(FileError, match=r"^a stream is written from front to back only"):
            sink((range(2, 3), range(4), range(5)), x[2:])
