"""Every .npy file that numpy writes is read."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from poolcli.formats import Source, read
from poolcli.formats.npy import MAX_HEADER, write_to
from tests.formats.npy_headers import fields, npy


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00"])
def test_all_versions_orders_and_byte_orders_of_npy_are_read(version: bytes) -> None:
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    for array in (x, np.asfortranarray(x), x.astype(">f4"), x.astype(np.float16), x > 3):
        with Path("x.npy").open("wb") as file:
            np.lib.format.write_array(file, array, version=(version[0], 0))
        np.testing.assert_array_equal(read(Source("x.npy")).array, array)
        assert read(Source("x.npy")).header.dtype == array.dtype.name


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
