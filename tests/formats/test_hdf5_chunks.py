"""Chunks of HDF5 that are damaged: none is read with made-up numbers, takes much memory, or is read for ever."""

from __future__ import annotations

import bz2
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from poolcli.errors import FileError
from poolcli.formats import Source, open_array
from poolcli.system import processes
from poolcli.windows import slices
from tests.conftest import Cli
from tests.processes import fresh
from tests.profiles import sized

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("work")]
hdf5plugin = pytest.importorskip("hdf5plugin", reason="needs the dependency group heavy")

SHAPE = (1, 1, 256, 256)  # of a chunk of 64 KiB
PIPELINES: dict[str, dict[str, Any]] = {
    "none": {},
    "gzip": {"compression": "gzip"},
    "shuffle, gzip, fletcher32": {"shuffle": True, "compression": "gzip", "fletcher32": True},
    "shuffle": {"shuffle": True},
    "fletcher32": {"fletcher32": True},
    "shuffle, lzf": {"shuffle": True, "compression": "lzf"},
    "zstd": {"compression": hdf5plugin.Zstd()},
    "blosc": {"compression": hdf5plugin.Blosc()},
}
worker = pytest.mark.skipif(sys.platform != "linux", reason="where workers are forks")


def region_of(shape: tuple[int, ...], draw: Any) -> tuple[range, ...]:
    starts = [draw(st.integers(0, n - 1)) for n in shape]
    return tuple(range(a, draw(st.integers(a, n))) for a, n in zip(starts, shape, strict=True))


@settings(max_examples=sized(30, 300), derandomize=True)
@given(st.data())
def test_any_region_is_what_h5py_reads(data: st.DataObject) -> None:
    draw = data.draw
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    chunks = tuple(draw(st.integers(1, n)) for n in shape)
    options = PIPELINES[draw(st.sampled_from([*PIPELINES]))]
    dtype = draw(st.sampled_from(["u1", "<i2", ">i4", "<f2", ">f8", "?"]))
    values = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 200, shape).astype(dtype)
    region, version = region_of(shape, draw), draw(st.sampled_from(["earliest", "latest"]))
    with h5py.File("x.h5", "w", libver=version, userblock_size=draw(st.sampled_from([0, 512]))) as file:
        dataset = file.create_dataset("a", shape, dtype, chunks=chunks, fillvalue=draw(st.integers(0, 1)), **options)
        filled = region_of(shape, draw)  # chunks outside of it are not there
        dataset[slices(filled)] = values[slices(filled)]
    with h5py.File("x.h5") as file:
        expected = file["a"][slices(region)]
    with open_array(Source("x.h5")) as opened:
        found = opened.read(region)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def stored(data: bytes, options: dict[str, Any], shape: tuple[int, ...] = SHAPE) -> None:
    """`x.h5` with one chunk whose stored form is `data`."""
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("a", shape, "u1", chunks=shape, **options)
        file["a"].id.write_direct_chunk((0,) * len(shape), data)


def packed(side: int, options: dict[str, Any]) -> bytes:
    """A square of small numbers as it is stored."""
    square = np.random.default_rng(0).integers(0, 5, (1, 1, side, side), "u1")
    with h5py.File("other.h5", "w") as file:
        dataset = file.create_dataset("a", data=square, chunks=square.shape, **options)
        return bytes(dataset.id.read_direct_chunk((0, 0, 0, 0))[1])


def read() -> Any:
    with open_array(Source("x.h5")) as file:
        return file.read(tuple(map(range, SHAPE)))


@pytest.mark.parametrize("pipeline", ["none", "gzip", "shuffle, gzip, fletcher32", "shuffle", "fletcher32"])
@pytest.mark.parametrize("side", [128, 272], ids=["less", "more"])
def test_a_chunk_of_another_size_than_its_own_is_refused(side: int, pipeline: str) -> None:
    """HDF5 reads what is less with whatever lies behind it in memory, and without a filter it crashes."""
    options = PIPELINES[pipeline]
    stored(packed(side, options), options)
    with pytest.raises(FileError, match=r"^x\.h5:/a: has a chunk of 64 KiB that (unpacks to (less|more)|is stored in)"):
        read()


def test_a_damaged_chunk_is_refused() -> None:
    cut, wrong = packed(256, PIPELINES["gzip"])[:999], b"?" + packed(256, PIPELINES["fletcher32"])[1:]
    for name, data in (("gzip", cut), ("fletcher32", wrong)):
        stored(data, PIPELINES[name])
        with pytest.raises(FileError, match=r"^x\.h5(:/a: has a chunk of 64 KiB that|: HDF5 cannot read)"):
            read()


BOMBS: dict[str, tuple[Any, dict[str, Any]]] = {
    "gzip": (lambda x: zlib.compress(x, 9), PIPELINES["gzip"]),
    "zstd": (numcodecs.Zstd().encode, PIPELINES["zstd"]),
    "blosc": (numcodecs.Blosc("zstd").encode, PIPELINES["blosc"]),
    "bzip2": (bz2.compress, {"compression": hdf5plugin.BZip2()}),
}


@worker
@pytest.mark.slow
@pytest.mark.parametrize("codec", BOMBS)
def test_a_chunk_that_unpacks_to_512_mb_takes_a_part_of_that(codec: str) -> None:
    encode, options = BOMBS[codec]
    stored(bytes(encode(bytes(2**29))), options)
    done = fresh(Path.cwd(), "avg", "x.h5", "-o", "y.npy", "-k", "2", "-s", "2")
    assert (done.code, Path("y.npy").exists()) == (1, False)
    assert done.err.splitlines()[-1].startswith("poolcli: x.h5")
    assert done.peak < 400 * 1024  # kilobytes


@worker
def test_strings_that_take_more_memory_than_the_file_are_left_out(cli: Cli) -> None:
    """All of an array of strings are the longest one, of which the file has one copy."""
    with h5py.File("x.h5", "w", libver="latest") as file:
        file["x"] = np.zeros((1, 1, 8, 8))
        file["x"].attrs.create("words", ["a" * 60_000] + ["b"] * 60_000, dtype=h5py.string_dtype())
        file["x"].attrs["units"] = "K"
    data, length = bytearray(Path("x.h5").read_bytes()), (60_000).to_bytes(4, "little")
    start = data.find(length)
    while data[start + 16 : start + 20] != b"\1\0\0\0":  # the length of the second string, behind the first one's
        start = data.find(length, start + 1)
    data[start : start + 16 * 60_001] = data[start : start + 16] * 60_001
    Path("x.h5").write_bytes(data)
    result = cli("avg", "x.h5", "-o", "y.h5", "-k", "2", "--json")
    said = "left out, because they are references or cannot be read: the attributes /x@words"
    assert (result.code, said in result.json["notes"]) == (0, True)
    with h5py.File("y.h5") as file:
        assert dict(file["x"].attrs) == {"units": "K"}


@worker
@pytest.mark.slow
def test_a_filter_that_runs_in_a_circle_costs_its_file(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """hdf5plugin's bzip2 never comes to an end of a chunk that is cut short."""
    monkeypatch.setattr(processes, "MIN_CPU_SECONDS", 0.3)
    options = {"compression": hdf5plugin.BZip2()}
    data = packed(256, options)
    stored(data[: len(data) // 2], options)
    result = cli("avg", "x.h5", "-o", "y.npy", "-k", "2")
    assert (result.code, result.err) == (
        1,
        "poolcli: x.h5: the process that handled it did not finish, twice; the file is damaged\n",
    )


def test_many_small_chunks_are_read(cli: Cli) -> None:
    x = np.random.default_rng(0).integers(0, 9, (1, 1, 60, 600), "u1")
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("a", data=x, chunks=(1, 1, 1, 3), compression="gzip", fillvalue=1)
    assert cli("max", "x.h5", "-o", "y.npy", "-k", "2", "-s", "2", "-q").code == 0
    np.testing.assert_array_equal(np.load("y.npy"), x.reshape(1, 1, 30, 2, 300, 2).max((3, 5)))
