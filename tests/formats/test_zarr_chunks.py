"""Chunks in folders whose codecs are plain: read and written without zarr-python, as zarr-python has them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec

from poolcli.formats import ReadOptions, Source, open_array
from poolcli.formats.zarr.chunks import chunk_files
from tests.conftest import Cli
from tests.formats.stores import HALVE, KEPT, made, whole
from tests.profiles import sized

PLAIN: dict[str, dict[str, Any]] = {
    "v2": {"zarr_format": 2, "compressors": None},
    "v2, F order": {"zarr_format": 2, "order": "F", "compressors": numcodecs.Zstd(1), "fill_value": None},
    "v2, Blosc": {"zarr_format": 2, "compressors": numcodecs.Blosc("lz4", 1, numcodecs.Blosc.AUTOSHUFFLE)},
    "v2, zlib": {"zarr_format": 2, "compressors": numcodecs.Zlib(1), "fill_value": 9},
    "v2, LZ4": {"zarr_format": 2, "compressors": numcodecs.LZ4()},
    "v3": {"compressors": None, "fill_value": 7},
    "v3, zstd": {"compressors": ZstdCodec(level=3, checksum=True)},
    "v3, gzip, big-endian": {"compressors": GzipCodec(level=1), "serializer": BytesCodec(endian="big")},
    "v3, Blosc": {"compressors": BloscCodec(cname="zstd", shuffle="bitshuffle")},
    "v3, transposed": {"filters": TransposeCodec(order=(2, 0, 1))},
    "v3, shards": {"shards": (8, 4, 12), "compressors": BloscCodec(cname="lz4", shuffle="shuffle"), "fill_value": -0.0},
    "v3, shards, raw": {"shards": (4, 8, 4), "compressors": None, "fill_value": np.nan},
}
LEFT_TO_ZARR: dict[str, dict[str, Any]] = {
    "filters": KEPT["v2, filters"] | {"fill_value": 0},
    "checksums": {"compressors": [ZstdCodec(), Crc32cCodec()]},
    "an index in front": {
        "chunks": (4, 4, 4),
        "compressors": None,
        "serializer": ShardingCodec(chunk_shape=(2, 2, 2), index_location="start"),
    },
}
VALUES = (np.random.default_rng(1).integers(0, 9, (9, 10, 11)) / 8).astype(np.float32)
VALUES[:4, :, :5] = 0


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def no_zarr(*_: Any) -> None:
    raise AssertionError("zarr-python was asked")


@pytest.mark.parametrize("how", PLAIN)
def test_any_region_of_plain_chunks_is_read_as_zarr_reads_it(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array: Any = zarr.create_array(
        "x.zarr", **{"shape": VALUES.shape, "dtype": "f4", "chunks": (4, 4, 4), **PLAIN[how]}
    )
    array[:, :7] = VALUES[:, :7]  # what is left is the fill value, where no chunk is
    values = array[:]
    monkeypatch.setattr(zarr.Array, "__getitem__", no_zarr)

    @settings(max_examples=sized(20, 200))
    @given(st.tuples(*(st.tuples(*[st.integers(0, n)] * 2).map(sorted) for n in VALUES.shape)))
    def read(ends: Any) -> None:
        found = file.read(tuple(range(*each) for each in ends))
        assert found.tobytes() == values[tuple(slice(*each) for each in ends)].tobytes()

    with open_array(Source("x.zarr"), ReadOptions(limit=2**24)) as file:
        read()


@pytest.mark.parametrize("how", [name for name in PLAIN if "gzip" not in name])
def test_plain_chunks_are_written_with_the_bytes_of_zarr(how: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    old = {"fill_value": 0} if PLAIN[how].get("fill_value") == 0 else {}  # older versions of zarr take -0 for 0
    made("x.zarr", VALUES, **PLAIN[how] | old)
    with monkeypatch.context() as patch:
        patch.setattr(zarr.Array, "__setitem__", no_zarr)
        assert cli("max", "x.zarr", "-o", "y.zarr", "-k", "1", "--layout", "DHW", "-q").err == ""
    name = ".zarray" if "v2" in how else "zarr.json"
    os.mkdir("z.zarr")
    Path("z.zarr", name).write_bytes(Path("y.zarr", name).read_bytes())
    zarr.open_array("z.zarr", config={"write_empty_chunks": False})[:] = VALUES

    def files(store: str) -> dict[str, bytes]:
        found = (path for path in Path(store).rglob("*") if path.is_file())
        return {str(path.relative_to(store)): path.read_bytes() for path in found}

    assert files("y.zarr") == files("z.zarr")


@pytest.mark.parametrize("how", LEFT_TO_ZARR)
def test_what_only_zarr_can_read_is_left_to_it(how: str) -> None:
    array = made("x.zarr", VALUES if how != "filters" else VALUES.astype("u1"), **LEFT_TO_ZARR[how])
    assert chunk_files(array, 2**20) is None
    with open_array(Source("x.zarr"), ReadOptions()) as file:
        np.testing.assert_array_equal(file.read(tuple(map(range, VALUES.shape))), array[:])


@pytest.mark.parametrize("how", PLAIN)
@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: data[:20] * 9], ids=["cut", "other"]
)
def test_a_plain_chunk_that_is_damaged_is_one_line_that_names_it(how: str, damage: Any, cli: Cli) -> None:
    made("x.zarr", VALUES, **PLAIN[how])
    chunk = Path("x.zarr", "1.0.1" if "v2" in how else "c/1/0/0")
    chunk.write_bytes(damage(chunk.read_bytes()))
    result = cli("avg", "x.zarr", "-o", "y.npy", "-k", "2", "--layout", "DHW")
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert result.err.startswith(f"poolcli: x.zarr, {chunk.relative_to('x.zarr')}: ")


def test_a_chunk_without_compression_that_blosc_has_cut_is_refused(cli: Cli) -> None:
    made("x.zarr", VALUES, zarr_format=2, compressors=numcodecs.Blosc(clevel=0))
    Path("x.zarr/1.1.1").write_bytes(Path("x.zarr/1.1.1").read_bytes()[:99])
    result = cli("avg", "x.zarr", "-o", "y.npy", "-k", "2", "--layout", "DHW")
    assert result.err == "poolcli: x.zarr, 1.1.1: Zarr cannot read or write it: the data are cut short\n"


@pytest.mark.parametrize("fill", [0, 7, -0.0, np.nan])
def test_shards_have_the_chunks_that_zarr_would_store(fill: float, cli: Cli) -> None:
    values = np.full((9, 10, 11), fill, "f4")
    values[:3, :4, :5] = 2
    values[4:, 8:] = 0
    made("x.zarr", values, shards=(8, 8, 4), chunks=(4, 4, 4), fill_value=fill)
    assert cli("max", "x.zarr", "-o", "y.zarr", "-k", "1", "--layout", "DHW", "-q").err == ""
    # Older versions of zarr take -0 for 0, and leave out chunks of either.
    assert whole("y.zarr").tobytes() == whole("x.zarr").tobytes()
    names = [{str(p.relative_to(s)) for p in Path(s).rglob("*") if p.is_file()} for s in ("x.zarr", "y.zarr")]
    assert names[0] <= names[1]
    assert names[0] == names[1] or str(fill) == "-0.0"  # zarr leaves out chunks of 0, which do not equal it


def test_a_link_to_metadata_outside_the_store_is_refused(cli: Cli) -> None:
    made("x.zarr")
    os.rename("x.zarr/zarr.json", "outside.json")
    os.symlink("../outside.json", "x.zarr/zarr.json")
    result = cli("avg", "x.zarr", "-o", "y.npy", *HALVE, "--layout", "DHW")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "is a link to a place outside its store; --allow-external follows it" in result.err
