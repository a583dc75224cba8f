"""Every .npy file that numpy writes is read, and regions lie in it in C order."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from poolcli.errors import FileError
from poolcli.formats import Source, Spec, WriteOptions, read
from poolcli.formats.npy import MAX_HEADER, contiguous_runs, open_writer, write_to
from tests.formats.npy_headers import fields, npy

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00"])
def test_all_versions_orders_and_byte_orders_of_npy_are_read(version: bytes) -> None:
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    for array in (x, np.asfortranarray(x), x.astype(">f4"), x.astype(np.float16), x > 3):
        with Path("x.npy").open("wb") as file:
            np.lib.format.write_array(file, array, version=(version[0], 0))
        np.testing.assert_array_equal(read(Source("x.npy")).array, array)
        assert read(Source("x.npy")).header.dtype == array.dtype.name


def test_any_byte_but_zero_is_true() -> None:
    Path("x.npy").write_bytes(npy(fields("(4,)", "'|b1'"), bytes([0, 1, 2, 255])))
    assert read(Source("x.npy")).array.tobytes() == bytes([0, 1, 1, 1])


def test_a_long_integer_of_python_2_in_a_header_is_read() -> None:
    Path("x.npy").write_bytes(npy(fields("(1L, 1L, 2L)"), np.array([1, 2], "<f4").tobytes()))
    assert read(Source("x.npy")).array.shape == (1, 1, 2)


def test_a_header_as_long_as_is_allowed_is_read() -> None:
    text = fields("(2,)").rstrip("\n").ljust(MAX_HEADER - 1) + "\n"
    Path("x.npy").write_bytes(npy(text, b"\0" * 8, b"\x02\x00"))
    assert read(Source("x.npy")).array.shape == (2,)


@pytest.mark.parametrize("order", [(0, 3, 1, 2), (0, 3, 2, 1), (0, 1, 2, 3)])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_arrays_in_any_order_of_memory_are_written(order: tuple[int, ...], dtype: str) -> None:
    """More than is written at once; the channels of images lie next to each other."""
    x = np.arange(700 * 800 * 3).astype(dtype).reshape(1, 700, 800, 3).transpose(order)
    stream = io.BytesIO()
    write_to(stream, x)
    stream.seek(0)
    np.testing.assert_array_equal(np.load(stream), x)


SHAPE = (3, 4, 5)


@st.composite
def regions(draw: st.DrawFn) -> tuple[range, ...]:
    ends = [sorted(draw(st.tuples(st.integers(0, size), st.integers(0, size)))) for size in SHAPE]
    return tuple(range(a, b) for a, b in ends)


@given(regions())
def test_runs_are_the_elements_of_the_region_in_order_and_as_long_as_they_can_be(region: tuple[range, ...]) -> None:
    found = list(contiguous_runs(SHAPE, region))
    flat = np.arange(60).reshape(SHAPE)[np.ix_(*region)].ravel().tolist()
    assert [i for first, length in found for i in range(first, first + length)] == flat
    whole = all(len(axis) == size for axis, size in zip(region[1:], SHAPE[1:], strict=True))
    assert not whole or len(found) <= 1


@pytest.mark.usefixtures("capfdbinary")
def test_a_stream_takes_regions_from_front_to_back_alone() -> None:
    """A seek in a file that standard output is appended to would put the elements into a wrong order."""
    x = np.arange(60, dtype=np.uint8).reshape(SHAPE)
    with open_writer("-", Spec(SHAPE, "uint8", "NCW"), WriteOptions()) as sink:
        sink((range(1), range(4), range(5)), x[:1])
        with pytest.raises(FileError, match=r"^a stream is written from front to back only"):
            sink((range(2, 3), range(4), range(5)), x[2:])
