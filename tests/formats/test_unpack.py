"""Chunks that filters have packed are what h5py makes of them, and none is more, less or takes more than it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from poolcli.errors import FileError
from poolcli.formats import Source, open_array
from poolcli.formats.records import slices
from tests.processes import fresh
from tests.profiles import sized, slow

SIDE = 256  # of a chunk, of 64 KiB
PIPELINES: dict[str, dict[str, Any]] = {
    "gzip": {"compression": "gzip"},
    "shuffle, gzip, fletcher32": {"shuffle": True, "compression": "gzip", "fletcher32": True},
    "shuffle": {"shuffle": True},
    "fletcher32": {"fletcher32": True},
    "shuffle, lzf": {"shuffle": True, "compression": "lzf"},
    "szip": {"compression": "szip", "compression_opts": ("nn", 8)},
    "scale-offset": {"scaleoffset": 0},
    "scale-offset, shuffle, gzip": {"scaleoffset": 0, "shuffle": True, "compression": "gzip"},
    "bzip2": {"compression": hdf5plugin.BZip2()},
    "lz4": {"compression": hdf5plugin.LZ4()},
    "zstd": {"compression": hdf5plugin.Zstd()},
    "blosc": {"compression": hdf5plugin.Blosc()},
    "blosc2": {"compression": hdf5plugin.Blosc2()},
    "bitshuffle": {"compression": hdf5plugin.Bitshuffle()},
    "bitshuffle, zstd": {"compression": hdf5plugin.Bitshuffle(cname="zstd")},
}
# What numcodecs before 0.16.5 says of itself when it is imported: a warning, and the line of code that it is about.
WARNED = re.compile(r".*numcodecs.*: DeprecationWarning: crc32c usage is deprecated|  from numcodecs.checksum32 import")
EXACT = [name for name in PIPELINES if name not in ("blosc2",)]  # blosc2 stores the shape, too, and refuses by itself


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)


def region_of(shape: tuple[int, ...], draw: Any) -> tuple[range, ...]:
    starts = [draw(st.integers(0, n - 1)) for n in shape]
    return tuple(range(a, draw(st.integers(a, n))) for a, n in zip(starts, shape, strict=True))


@pytest.mark.slow
@settings(max_examples=sized(50, 600), derandomize=True)
@given(st.data())
def test_any_region_is_what_h5py_reads(data: st.DataObject) -> None:
    draw = data.draw
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    chunks = tuple(draw(st.integers(1, n)) for n in shape)
    options = PIPELINES[draw(st.sampled_from([name for name in PIPELINES if name != "szip"]))]  # of larger chunks
    dtype = draw(st.sampled_from(["u1", "<i2", ">i4"] + ([] if "scaleoffset" in options else ["<f2", ">f8", "?"])))
    values = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 200, shape).astype(dtype)
    region, version = region_of(shape, draw), draw(st.sampled_from(["earliest", "latest"]))
    with h5py.File("x.h5", "w", libver=version) as file:
        dataset = file.create_dataset("a", shape, dtype, chunks=chunks, fillvalue=draw(st.integers(0, 1)), **options)
        filled = region_of(shape, draw)  # chunks outside of it are not there
        dataset[slices(filled)] = values[slices(filled)]
    try:
        with h5py.File("x.h5") as file:
            expected = file["a"][slices(region)]
    except OSError:  # HDF5 1.14.4 cannot read some scale-offset chunks that it has written itself
        assume("scaleoffset" not in options)
        raise
    with open_array(Source("x.h5")) as opened_file:
        found = opened_file.read(region)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def packed(side: int, pipeline: str) -> tuple[int, bytes]:
    """A square of small numbers as it is stored, and which filters were left out."""
    small, whole = side < 4 * SIDE, (1, 1, side, side)
    square = np.random.default_rng(0).integers(0, 5, whole, "u1") if small else np.ones(whole, "u1")
    with h5py.File("other.h5", "w") as file:
        dataset = file.create_dataset("a", data=square, chunks=square.shape, **PIPELINES[pipeline])
        mask, data = dataset.id.read_direct_chunk((0, 0, 0, 0))
    Path("other.h5").unlink()
    return mask, data


def stored(mask: int, data: bytes, pipeline: str) -> None:
    """`x.h5` with a chunk of 64 KiB whose stored form is `data`."""
    whole = (1, 1, SIDE, SIDE)
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("a", whole, "u1", chunks=whole, **PIPELINES[pipeline])
        file["a"].id.write_direct_chunk((0, 0, 0, 0), data, filter_mask=mask)


def read() -> Any:
    with open_array(Source("x.h5")) as file:
        return file.read(tuple(map(range, (1, 1, SIDE, SIDE))))


@pytest.mark.parametrize("pipeline", EXACT)
@pytest.mark.parametrize("side", [SIDE // 2, SIDE + 16], ids=["less", "more"])
def test_a_chunk_that_unpacks_to_another_size_than_its_own_is_refused(side: int, pipeline: str) -> None:
    """HDF5 reads what is less with whatever lies behind it in memory."""
    stored(*packed(side, pipeline), pipeline)
    message = r"^x\.h5:/a: has a chunk of 64 KiB that (unpacks to (less|more)|cannot be unpacked)$"
    with pytest.raises(FileError, match=message):
        read()


@pytest.mark.parametrize("pipeline", [name for name in PIPELINES if not name.startswith(("bitshuffle", "shuffle"))])
def test_a_chunk_that_is_cut_short_is_refused(pipeline: str) -> None:
    """hdf5plugin's zstd says of none that it is damaged, its bzip2 never comes to an end of one."""
    mask, data = packed(SIDE, pipeline)
    stored(mask, data[: len(data) // 2], pipeline)
    with pytest.raises(FileError, match=r"^x\.h5:/a: has a chunk of 64 KiB that (unpacks to less|cannot be unpacked)$"):
        read()


def test_what_fletcher32_sums_is_compared() -> None:
    mask, data = packed(SIDE, "fletcher32")
    stored(mask, data[:99] + b"?" + data[100:], "fletcher32")
    with pytest.raises(FileError, match=r"^x\.h5: HDF5 cannot read or write it: "):
        read()


@pytest.mark.slow
@pytest.mark.parametrize(
    "pipeline",
    [
        "gzip",
        *map(slow, ["zstd", "blosc2", "lz4", "blosc", "bitshuffle", "szip", "bzip2", "scale-offset, shuffle, gzip"]),
    ],
)  # fmt: skip
def test_a_chunk_that_claims_36_mib_takes_no_more_memory_than_it_should(pipeline: str) -> None:
    mask, data = packed(6144, pipeline)
    stored(mask, data, pipeline)
    done = fresh(Path.cwd(), "avg", "x.h5", "-o", "y.npy", "-k", "2", "-s", "2")
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("poolcli: x.h5:/a: has a chunk of 64 KiB that ")
    assert done.peak < 96 * 1024  # of which a run that has nothing to refuse takes about 50


CODECS: dict[str, dict[str, Any]] = {
    "gzip": {"compressors": GzipCodec()},
    "zstd": {"compressors": ZstdCodec()},
    "blosc": {"compressors": BloscCodec()},
    "bz2": {"compressors": numcodecs.BZ2(), "zarr_format": 2},
    "lz4": {"compressors": numcodecs.LZ4(), "zarr_format": 2},
    "lzma": {"compressors": numcodecs.LZMA(), "zarr_format": 2},
    "zlib": {"compressors": numcodecs.Zlib(), "zarr_format": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_a_chunk_of_zarr_that_claims_100_mib_takes_no_more_memory_than_it_should(codec: str) -> None:
    whole = (1, 1, SIDE, SIDE)
    array = zarr.create_array("x.zarr", shape=whole, chunks=whole, dtype="u1", **CODECS[codec])
    array[...] = 1
    (chunk,) = (path for path in Path("x.zarr").rglob("*0") if path.is_file())
    chunk.write_bytes(numcodecs.get_codec({"id": codec}).encode(np.ones(100 * 2**20, "u1")))
    done = fresh(Path.cwd(), "avg", "x.zarr", "-o", "y.npy", "-k", "2", "-s", "2")
    said = [line for line in done.err.splitlines() if not WARNED.match(line)]
    assert (done.code, len(said), said[0].startswith("poolcli: x.zarr: ")) == (1, 1, True)
    assert done.peak < 120 * 1024  # of which a run that has nothing to refuse takes more than 50
