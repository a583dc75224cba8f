"""Chunks packed by gzip are what h5py makes of them, and none takes more memory than it says."""

from __future__ import annotations

import tracemalloc
import zlib
from pathlib import Path
from typing import Any
from unittest.mock import patch

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolcli.core.errors import FileError
from poolcli.formats import Source, opened
from poolcli.formats.hdf5 import inflate
from poolcli.formats.records import slices
from tests.profiles import sized


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def region_of(shape: tuple[int, ...], draw: Any) -> tuple[range, ...]:
    starts = [draw(st.integers(0, n - 1)) for n in shape]
    return tuple(range(a, draw(st.integers(a, n))) for a, n in zip(starts, shape, strict=True))


@settings(max_examples=sized(60, 300), derandomize=True)
@given(st.data())
def test_any_region_is_what_h5py_reads(data: st.DataObject) -> None:
    draw = data.draw
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    chunks = tuple(draw(st.integers(1, n)) for n in shape)
    dtype = draw(st.sampled_from(["u1", "<i2", ">i4", "<f2", ">f8", "?"]))
    options = {"shuffle": draw(st.booleans()), "fletcher32": draw(st.booleans()), "fillvalue": draw(st.integers(0, 1))}
    values = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 200, shape).astype(dtype)
    region = region_of(shape, draw)
    with h5py.File("x.h5", "w", libver=draw(st.sampled_from(["earliest", "latest"]))) as file:
        dataset = file.create_dataset("a", shape, dtype, chunks=chunks, compression="gzip", **options)
        filled = region_of(shape, draw)  # chunks outside of it are not there
        dataset[slices(filled)] = values[slices(filled)]
        with patch.object(inflate, "HARMLESS", 0):
            found = inflate.inflated("x.h5:a", dataset, region)
        assert (found is None) == options["fletcher32"]  # those are left to h5py
        if found is not None:
            expected = dataset[slices(region)]
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


def packed(data: bytes, shuffle: bool = False) -> None:
    """`x.h5` with a chunk of 256 x 256 bytes whose stored form is `data`."""
    with h5py.File("x.h5", "w") as file:
        whole = (1, 1, 256, 256)
        dataset = file.create_dataset("a", whole, "u1", chunks=whole, compression="gzip", shuffle=shuffle)
        dataset.id.write_direct_chunk((0, 0, 0, 0), data)


def read() -> Any:
    with opened(Source("x.h5")) as file:
        return file.read(tuple(map(range, (1, 1, 256, 256))))


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_chunk_that_unpacks_to_more_than_it_says_is_refused_before_it_is_unpacked(shuffle: bool) -> None:
    packed(zlib.compress(bytes(100_000_000), 9), shuffle)
    tracemalloc.start()
    with pytest.raises(FileError, match=r"^x\.h5:/a: has a chunk of 64 KiB that unpacks to more$"):
        read()
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_chunk_that_unpacks_to_less_is_refused() -> None:
    packed(zlib.compress(bytes(65535)))
    with pytest.raises(FileError, match=r"^x\.h5:/a: has a chunk of 64 KiB that unpacks to less$"):
        read()


@pytest.mark.parametrize(
    "data",
    [b"nothing that gzip knows", zlib.compress(bytes(65536))[:-4]],
    ids=["no gzip", "cut short"],
)
def test_damaged_chunks_are_refused_in_the_words_of_hdf5(data: bytes) -> None:
    packed(data)
    with pytest.raises(FileError, match=r"^x\.h5: HDF5 cannot read or write it: "):
        read()
