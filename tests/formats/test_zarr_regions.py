"""Zarr stores in regions: chunks and shards as asked for, the bits of the whole, and runs that go on."""

from __future__ import annotations

import asyncio
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

from poolcli import MaxPool
from poolcli.formats import ReadOptions, Source, Spec, WriteOptions, open_array
from poolcli.formats.zarr.write import open_writer
from tests.conftest import Cli
from tests.formats.stores import HALVE, KEPT, X, halved, made, whole
from tests.profiles import slow

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize(
    ("options", "chunks", "shards"),
    [
        (["--chunks", "2"], (2, 2, 2), None),
        (["--chunks", "2,3,4"], (2, 3, 4), None),
        (["--chunks", "2", "--shards", "4,2,4"], (2, 2, 2), (4, 2, 4)),
        (["--chunks", "99", "--shards", "198"], (4, 5, 5), (4, 5, 5)),
        (["--shards", "4"], (4, 4, 4), (4, 4, 4)),
        ([], (4, 4, 4), None),
    ],
)
def test_chunks_and_shards_are_as_asked_for(options: list[str], chunks: Any, shards: Any, cli: Cli) -> None:
    made("x.zarr")
    assert cli("avg", "x.zarr", "-o", "y.zarr", *HALVE, "--layout", "DHW", *options, "-q").err == ""
    y = zarr.open_array("y.zarr", mode="r")
    assert (y.chunks, y.shards) == (chunks, shards)
    np.testing.assert_array_equal(y[:], halved())


def test_a_region_that_would_cut_a_shard_is_refused(cli: Cli) -> None:
    spec, options = Spec((8, 8), "uint8", "HW"), WriteOptions(chunks=(2, 2), shards=(4, 4))
    with (
        pytest.raises(ValueError, match="a region 2:8 of 8 would cut shards of 4"),
        open_writer("y.zarr", spec, options) as put,
    ):
        put((range(4), range(2, 8)), np.zeros((4, 6), np.uint8))


@pytest.mark.parametrize("how", ["v3, shards", pytest.param("v3", marks=pytest.mark.slow), "v2"])
@pytest.mark.parametrize(
    "options",
    [("-k", "2", "-s", "2"), ("-k", "3", "-s", "2", "-p", "1"), slow(("-k", "7")), slow(("-k", "5", "-s", "3"))],
)
def test_regions_of_any_kernel_give_the_bits_of_the_whole(how: str, options: tuple[str, ...], cli: Cli) -> None:
    x = np.random.default_rng(1).normal(size=(1, 1, 20, 26, 30)).astype(np.float32)
    np.save("x.npy", x)
    options = (*options, "--engine", "numpy")
    assert cli("avg", "x.npy", "-o", "whole.npy", *options, "-q").err == ""
    kept = {name: value for name, value in KEPT[how].items() if name in ("zarr_format", "shards")}
    shards = {"shards": (1, 1, 8, 8, 16)} if "shards" in kept else {}
    made("x.zarr", x, chunks=(1, 1, 4, 8, 8), **(kept | shards))
    assert cli("avg", "x.zarr", "-o", "y.zarr", *options, "-q", "--max-memory", "120K").err == ""
    np.testing.assert_array_equal(whole("y.zarr"), np.load("whole.npy"))
    assert cli("avg", "x.zarr", "-o", "y.npy", *options, "-q", "--max-memory", "120K").err == ""
    np.testing.assert_array_equal(np.load("y.npy"), np.load("whole.npy"))
    result = cli("max", "x.zarr", "-o", "m.zarr", *options, "--indices", "i.zarr", "-q", "--max-memory", "300K")
    assert result.err == ""
    strides = int(options[3]) if "-s" in options else 1
    plan = MaxPool(int(options[1]), strides=strides, pads=int("-p" in options))
    values, places = plan(x, return_indices=True, engine="numpy")
    np.testing.assert_array_equal(whole("m.zarr"), values)
    np.testing.assert_array_equal(whole("i.zarr"), places)


def test_negative_zeros_are_kept_where_a_chunk_has_nothing_else(cli: Cli) -> None:
    made("x.zarr", np.full((4, 4, 4), -0.0, np.float32), config={"write_empty_chunks": True})
    assert cli("max", "x.zarr", "-o", "y.zarr", "-k", "1", "--layout", "DHW", "-q").err == ""
    assert np.signbit(whole("y.zarr")).all()


@pytest.mark.parametrize("how", [{}, {"shards": (4, 4, 4)}], ids=["v3", "shards"])
@pytest.mark.parametrize(("dtype", "fill"), [("u1", 0), ("u1", 7), ("f4", np.nan), ("f4", 0), ("u1", None)], ids=str)
def test_chunks_of_nothing_but_the_fill_value_are_left_out_as_zarr_does(
    how: dict[str, Any], dtype: str, fill: Any, cli: Cli
) -> None:
    nothing = 0 if fill is None else fill
    x = np.full((6, 6, 6), nothing, dtype)
    x[1, 1, 3] = x[4, 0, 0] = x[2, 5, 5] = 9  # within a chunk, first of one, last of one
    made("x.zarr", x, chunks=(2, 2, 2), fill_value=fill, config={"write_empty_chunks": False}, **how)
    assert cli("max", "x.zarr", "-o", "y.zarr", "-k", "1", "--layout", "DHW", "-q").err == ""
    names = {str(path.relative_to("x.zarr")) for path in Path("x.zarr").rglob("*") if "json" not in path.name}
    made_names = {str(path.relative_to("y.zarr")) for path in Path("y.zarr").rglob("*") if "json" not in path.name}
    assert made_names == names
    np.testing.assert_array_equal(whole("y.zarr"), x)


def test_nothing_is_written_any_more_when_a_chunk_of_several_has_failed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, ended = zarr.storage.LocalStore.set, list[str]()

    async def full(store: Any, key: str, value: Any) -> None:
        if key == "c/0/0/0":
            raise OSError(28, "No space left on device")
        await asyncio.sleep(0.2)
        await put(store, key, value)
        ended.append(key)

    monkeypatch.setattr("poolcli.formats.zarr.library._process_of_zarrs", lambda: None)
    made("x.zarr")
    monkeypatch.setattr(zarr.storage.LocalStore, "set", full)
    result = cli("max", "x.zarr", "-o", "y.zarr", "-k", "1", "--layout", "DHW", "-q")
    said = "poolcli: x.zarr: y.zarr: No space left on device\n"
    assert (result.code, result.err) == (1, said)
    assert len(ended) == 3 * 3 * 3 - 1
    assert [path.name for path in Path().iterdir()] == ["x.zarr"]


STORED: dict[str, dict[str, Any]] = KEPT | {
    "v2, filters": {"zarr_format": 2, "filters": [numcodecs.Delta("u1")]},
    "v2, F order, big-endian": {"zarr_format": 2, "order": "F", "dtype": ">u2", "fill_value": None},
    "v2, a codec that zarrs does not know": {"zarr_format": 2, "compressors": numcodecs.LZ4()},
    "v3, gzip, big-endian": {"compressors": GzipCodec(level=1), "serializer": BytesCodec(endian="big"), "dtype": "u2"},
    "v3, transposed": {"filters": TransposeCodec(order=(2, 0, 1))},
    "v3, checksums": {"compressors": [ZstdCodec(checksum=True), Crc32cCodec()]},
    "v3, shards without compression": {"chunks": (2, 2, 2), "shards": (4, 8, 4), "compressors": None},
}


ALONE = [(how, False) if number % 3 == 0 else slow(how, False) for number, how in enumerate(STORED)]


@pytest.mark.parametrize(("how", "zarrs"), [*((how, True) for how in STORED), *ALONE])
def test_any_region_is_read_and_written_as_zarr_does(
    how: str, zarrs: bool, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not zarrs:
        monkeypatch.setattr("poolcli.formats.zarr.library._process_of_zarrs", lambda: None)
    array: Any = zarr.create_array("x.zarr", **{"shape": X.shape, "chunks": (4, 4, 4), "dtype": "u1", **STORED[how]})
    array[:, :7] = X[:, :7]  # what is left is the fill value, where no chunk is
    values = array[:]
    rng = np.random.default_rng(3)
    with open_array(Source("x.zarr"), ReadOptions(limit=2**24)) as file:
        assert (
            file.read(tuple(map(range, X.shape))).tobytes() == values.astype(values.dtype.newbyteorder("=")).tobytes()
        )
        for ends in ([sorted(rng.integers(0, n + 1, 2)) for n in X.shape] for _ in range(8)):
            np.testing.assert_array_equal(
                file.read(tuple(range(*each) for each in ends)), values[tuple(slice(*each) for each in ends)]
            )
    assert cli("max", "x.zarr", "-o", "y.zarr", "-k", "1", "--layout", "DHW", "-q").err == ""
    np.testing.assert_array_equal(whole("y.zarr"), values)


def test_a_process_that_was_forked_does_not_wait_for_threads_of_zarrs() -> None:
    made("x.zarr")

    expected = read_x()
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        np.testing.assert_array_equal(pool.submit(read_x).result(timeout=60), expected)


def read_x() -> Any:
    with open_array(Source("x.zarr"), ReadOptions()) as file:
        return file.read(tuple(map(range, X.shape)))


def test_settings_of_zarr_stay_as_they_were(cli: Cli) -> None:
    before = zarr.config.get("codec_pipeline.path"), zarr.config.get("threading.max_workers")
    made("x.zarr")
    assert cli("max", "x.zarr", "-o", "y.zarr", "-k", "1", "--layout", "DHW", "-q").err == ""
    assert (zarr.config.get("codec_pipeline.path"), zarr.config.get("threading.max_workers")) == before
