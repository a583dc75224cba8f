"""Zarr stores that are damaged or meant to harm: each is one line that says where."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from poolcli.errors import FileError, PoolError
from poolcli.formats import ReadOptions, Source, open_array
from poolcli.formats.records import whole_region
from tests.conftest import Cli
from tests.formats.stores import HALVE, KEPT, X, document, made
from tests.formats.test_fuzz import PYTHONS, mutated
from tests.profiles import sized

pytestmark = pytest.mark.usefixtures("here")


def edited(**changes: Any) -> Callable[[], None]:
    def edit() -> None:
        found = document("x.zarr/zarr.json") | changes
        Path("x.zarr/zarr.json").write_text(json.dumps(found))

    return edit


def grid(*lengths: int) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": lengths}}


HOSTILE: dict[str, tuple[Callable[[], object], str]] = {
    "negative lengths": (edited(shape=[-9, 10, 11]), "Zarr cannot read or write it: "),
    "no lengths": (edited(shape=[]), "Zarr cannot read or write it: "),
    "more than there can be": (edited(shape=[2**40] * 3), "claims more than 1,000,000 PiB, which no array can have"),
    "chunks of nothing": (edited(chunk_grid=grid(0, 4, 4)), "has chunks of 0,4,4, which must be at least 1"),
    "chunks beyond memory": (edited(chunk_grid=grid(2**20, 2**20, 4)), "one chunk (1048576,1048576,4) is 4 TiB, "),
    "more axes than there can be": (edited(shape=[1] * 65, chunk_grid=grid(*[1] * 65)), "has 65 axes; at most 32"),
    "no text": (lambda: Path("x.zarr/zarr.json").write_bytes(b'{"zarr_format": "\xff"}'),
        "Zarr cannot read or write it: it is damaged, or of a version that zarr does not know"),
    "an unknown codec": (edited(codecs=[{"name": "bytes"}, {"name": "nope"}]), "nope"),
    "complex numbers": (
        edited(
            data_type="complex64", fill_value=[0, 0], codecs=[{"name": "bytes", "configuration": {"endian": "little"}}]
        ),
        "holds complex64; poolcli pools bool, ",
    ),
    "a fill value of another kind": (edited(fill_value="x"), "Zarr cannot read or write it: "),
    "a group of another draft of Zarr 3": (
        lambda: Path("x.zarr/zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "metadata_encoding": 1}'),
        "Zarr cannot read or write it: ",  # and why, where its version says so for people
    ),
    "no JSON": (lambda: Path("x.zarr/zarr.json").write_text("{"), "Zarr cannot read or write it: "),
    "JSON without end": (lambda: Path("x.zarr/zarr.json").write_text("[" * 10**5), "Zarr cannot read or write it: "),
    "nothing": (lambda: Path("x.zarr/zarr.json").unlink(), "holds no Zarr array or group"),
    "a link out of the store": (lambda: linked("/etc/hostname"),
        "is a link to a place outside its store; --allow-external follows"),
    "a pipe": (lambda: pipe(), "is not a regular file"),
    "a folder in place of a chunk": (lambda: first_chunk().mkdir(), "is not a regular file"),
    "a long document of nothing": (lambda: os.truncate("x.zarr/zarr.json", 2**29), "zarr.json: has 512 MiB, but "),
    "a long chunk of nothing": (lambda: os.truncate("x.zarr/c/0/0/0", 2**31), "c/0/0/0: has 2 GiB, but "),
    "a chunk that unpacks to more": (
        lambda: first_chunk().write_bytes(numcodecs.Zstd().encode(bytes(2**20))),
        "x.zarr, c/0/0/0: Zarr cannot read or write it: ",  # and what zarrs or zarr-python say
    ),
    "a device": (lambda: linked("/dev/zero"), "is not a regular file"),
}  # fmt: skip


def first_chunk() -> Path:
    path = Path("x.zarr/c/0/0/0")
    path.unlink()
    return path


def linked(target: str) -> None:
    first_chunk().symlink_to(target)


def pipe() -> None:
    os.mkfifo(first_chunk())


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_store_is_one_line(how: str, cli: Cli) -> None:
    made("x.zarr")
    edit, said = HOSTILE[how]
    edit()
    result = cli("avg", "x.zarr", "-o", "y.npy", *HALVE, "--layout", "DHW", "--max-memory", "1G")
    assert result.code == 1, result
    assert result.err.startswith("poolcli: x.zarr")
    assert said in result.err
    assert "__init__" not in result.err  # as Python says it
    assert result.err.count("\n") == 1
    assert not Path("y.npy").exists()


def test_links_inside_a_store_and_those_that_were_allowed_are_followed(cli: Cli) -> None:
    made("x.zarr")
    shutil.copy("x.zarr/c/0/0/0", "chunk")
    linked("../../../../chunk")
    run = ("avg", "x.zarr", "-o", "y.npy", *HALVE, "--layout", "DHW", "-q", "--overwrite")
    assert cli(*run).code == 1
    assert cli(*run, "--allow-external").code == 0
    Path("x.zarr/c/0/0/0").unlink()
    Path("x.zarr/c/0/0/0").symlink_to("../1/0")
    assert cli(*run).code == 0


def test_folders_of_chunks_are_followed_out_of_a_store_only_if_that_is_allowed(cli: Cli) -> None:
    made("x.zarr")
    shutil.move("x.zarr/c/1", "outside")
    Path("x.zarr/c/1").symlink_to("../../outside")
    run = ("avg", "x.zarr", "-o", "y.npy", *HALVE, "--layout", "DHW", "-q", "--overwrite")
    assert "is a link to a place outside its store" in cli(*run).err
    assert cli(*run, "--allow-external").code == 0


@pytest.mark.parametrize("name", ["zarr.json", ".zarray", "c/0/0/0"])
@settings(max_examples=sized(20, 60))
@given(data=st.data())
def test_no_mutation_ends_in_anything_but_an_error_of_one_line(name: str, tmp_path_factory: Any, data: Any) -> None:
    path = str(tmp_path_factory.mktemp("store") / "x.zarr")
    made(path, X[:4, :4, :4], zarr_format=2 if name == ".zarray" else 3)
    Path(path, name).write_bytes(data.draw(mutated(Path(path, name).read_bytes())))
    try:
        with open_array(Source(path), ReadOptions(limit=2**24)) as file:
            shape = file.header.shape
            if prod(shape) < 2**20:
                assert file.read(whole_region(shape)).shape == shape
            assert file.metadata.zarr_storage["chunks"]
    except PoolError as error:
        assert str(error).startswith(path)
        assert "\n" not in str(error)
        assert not PYTHONS.search(str(error))


@pytest.mark.parametrize(("how", "name"), [("v3", "c/1/0/2"), ("v2", "1.0.2"), ("v3, shards", "c/1/0/1")])
def test_the_chunk_that_is_damaged_is_named(how: str, name: str, cli: Cli) -> None:
    made("x.zarr", key="a", **{word: value for word, value in KEPT[how].items() if word in ("zarr_format", "shards")})
    chunk = Path("x.zarr/a", name)
    chunk.write_bytes(chunk.read_bytes()[:-9])
    result = cli("avg", "x.zarr", "-o", "y.npy", *HALVE, "--layout", "DHW")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"poolcli: x.zarr:/a, {name}: Zarr cannot read or write it: ")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(("name", "sound"), [("GZip", 18), ("Zlib", 18), ("BZ2", 18), ("LZMA", 18), ("Blosc", 4)])
def test_what_a_codec_cannot_unpack_is_one_line(name: str, sound: int, cli: Cli) -> None:
    made("x.zarr", X // 64, zarr_format=2, compressors=getattr(numcodecs, name)())
    chunk = Path("x.zarr/0.0.0")
    data = chunk.read_bytes()
    chunk.write_bytes(data[:sound].ljust(len(data), b"\xff"))
    result = cli("avg", "x.zarr", "-o", "y.npy", *HALVE, "--layout", "DHW")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("poolcli: x.zarr, 0.0.0: ")
    assert ("decompression bomb" if name == "Blosc" else "Zarr cannot read or write it: ") in result.err
    assert result.err.count("\n") == 1


ZEROS = bytes(2**25)
ZSTD_BLOCKS = b"".join((2**17 << 3 | 2 | (i == 255)).to_bytes(3, "little") + b"\0" for i in range(256))
CODECS: dict[str, tuple[Any, dict[str, Any]]] = {
    "zstd": (numcodecs.Zstd(), {"compressors": ZstdCodec()}),
    "gzip": (numcodecs.GZip(), {"compressors": GzipCodec()}),
    "blosc": (numcodecs.Blosc(), {"compressors": BloscCodec()}),
    "zlib": (numcodecs.Zlib(), {"zarr_format": 2, "compressors": numcodecs.Zlib()}),
    "lzma": (numcodecs.LZMA(preset=0), {"zarr_format": 2, "compressors": numcodecs.LZMA()}),
    "bz2": (numcodecs.BZ2(), {"zarr_format": 2, "compressors": numcodecs.BZ2()}),
    "lz4": (numcodecs.LZ4(), {"zarr_format": 2, "compressors": numcodecs.LZ4()}),
    "delta": (numcodecs.Zstd(), {"zarr_format": 2, "compressors": numcodecs.Zstd(), "filters": numcodecs.Delta("u1")}),
}
ZSTD = CODECS["zstd"][1]
BOMBS: dict[str, tuple[Callable[[], bytes], dict[str, Any]]] = {
    **{name: (partial(codec.encode, ZEROS), how) for name, (codec, how) in CODECS.items()},
    "several frames": (lambda: numcodecs.Zstd().encode(bytes(2**20)) * 32, ZSTD),
    "a frame without its size": (lambda: b"\x28\xb5\x2f\xfd\0\x58" + ZSTD_BLOCKS, ZSTD),
    "a frame of another size": (lambda: b"\x28\xb5\x2f\xfd\x20\x07" + ZSTD_BLOCKS, ZSTD),
    "a frame of another age": (lambda: b"\x27\xb5\x2f\xfd" + bytes(99), ZSTD),
    "after a frame to skip": (lambda: b"\x50\x2a\x4d\x18\1\0\0\0x" + numcodecs.Zstd().encode(ZEROS), ZSTD),
    "twice": (
        lambda: numcodecs.Zstd().encode(numcodecs.GZip().encode(ZEROS)), {"compressors": [GzipCodec(), ZstdCodec()]},
    ),
    "with a checksum": (
        lambda: numcodecs.Zstd().encode(ZEROS) + b"sums", {"compressors": [ZstdCodec(), Crc32cCodec()]},
    ),
}  # fmt: skip
LIMIT = ReadOptions(limit=2**24, allowed=2**24)


@pytest.mark.parametrize("how", BOMBS)
def test_a_chunk_that_unpacks_to_far_more_is_refused_before_it_is_unpacked(how: str) -> None:
    make, storage = BOMBS[how]
    data = make()
    for where in ("x.zarr", "memory://bombs/x.zarr"):
        array = made(where, chunks=(9, 10, 11), overwrite=True, **storage)
        key = array.metadata.encode_chunk_key((0, 0, 0))
        sync(array.store.set(key, default_buffer_prototype().buffer.from_bytes(data)))
        with open_array(Source(where), LIMIT) as file, pytest.raises(FileError) as caught:
            file.read(whole_region(X.shape))
        assert caught.value.message.startswith(f"{where}, {key}: is damaged or a decompression bomb: it unpacks from ")


@pytest.mark.parametrize("where", ["x.zarr", "memory://bombs/x.zarr"])
def test_bombs_in_shards_are_refused(where: str) -> None:
    array = made(where, shards=(12, 12, 12), overwrite=True)
    bomb = numcodecs.Zstd().encode(ZEROS)
    index = np.full((27, 2), 2**64 - 1, "<u8")
    index[13] = 0, len(bomb)
    shard = bomb + numcodecs.CRC32C(location="end").encode(index).tobytes()
    sync(array.store.set("c/0/0/0", default_buffer_prototype().buffer.from_bytes(shard)))
    with open_array(Source(where), LIMIT) as file:
        assert not file.read((range(4), range(4), range(4))).any()
        with pytest.raises(FileError, match="c/0/0/0: is damaged or a decompression bomb"):
            file.read((range(4, 8), range(4, 8), range(4, 8)))


@pytest.mark.parametrize("name", CODECS)
def test_chunks_that_unpack_to_their_size_are_read(name: str) -> None:
    text = b"".join(b"%d:%x " % (i, i * i) for i in range(2**13)).ljust(2**17, b"-") * 8
    x = np.frombuffer(bytes(2**20) + text, np.uint8)
    made("x.zarr", x, chunks=(2**21,), **CODECS[name][1])
    with open_array(Source("x.zarr"), LIMIT) as file:
        np.testing.assert_array_equal(file.read(whole_region(x.shape)), x)


def test_a_large_array_that_is_stored_as_it_is_is_no_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is no multiple of the ratio from which arrays are refused."""
    made("x.zarr", compressors=None)
    monkeypatch.setattr("poolcli.formats.checks.FREE_EXPANSION", 0)
    monkeypatch.setattr("poolcli.formats.checks.MAX_EXPANSION_RATIO", 1)
    with open_array(Source("x.zarr"), ReadOptions()) as array:
        assert array.read(whole_region(X.shape)).shape == X.shape
    made("x.zarr", X * 0 + 1, overwrite=True)
    with open_array(Source("x.zarr"), ReadOptions()) as array, pytest.raises(FileError, match="decompression bomb"):
        array.read(whole_region(X.shape))


def test_links_and_groups_without_end_are_not_followed(cli: Cli) -> None:
    made("x.zarr", key="a")
    for name in "bc":
        Path("x.zarr", name).symlink_to(".")
    place = Path("x.zarr")
    for _ in range(99):
        place /= "g"
        place.mkdir()
        shutil.copy("x.zarr/zarr.json", place)
    made(str(place / "deep"))
    for follow in ([], ["--allow-external"]):
        assert [each["dataset"] for each in cli("info", "x.zarr", "--json", *follow).json["arrays"]] == ["/a"]
