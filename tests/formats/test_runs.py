"""Regions of arrays: where they lie in C order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolcli.errors import FileError
from poolcli.formats import Spec, WriteOptions, npy
from poolcli.formats.npy import contiguous_runs

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


def test_a_stream_takes_regions_from_front_to_back_alone(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    x = np.arange(60, dtype=np.uint8).reshape(SHAPE)
    with npy.open_writer("-", Spec(SHAPE, "uint8", "NCW"), WriteOptions()) as sink:
        sink((range(1), range(4), range(5)), x[:1])
        with pytest.raises(FileError, match=r"^a stream is written from front to back only"):
            sink((range(2, 3), range(4), range(5)), x[2:])
