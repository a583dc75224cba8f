"""Stores in folders whose metadata is plain: read without zarr-python, as zarr-python reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from poolcli.formats.zarr.chunks import Memory, document_of
from poolcli.formats.zarr.folders import Folder, PlainArray, PlainGroup, plain_node
from poolcli.formats.zarr.library import open_root, open_store
from tests.conftest import Cli
from tests.formats.stores import HALVE, document, group, halved, made, whole
from tests.formats.test_zarr_chunks import PLAIN, VALUES


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def root(path: str) -> Any:
    return open_root(path, open_store(path, read_only=True))


@pytest.mark.parametrize("how", PLAIN)
def test_a_plain_array_is_described_as_zarr_describes_it(how: str) -> None:
    array = made("x.zarr", VALUES, attributes={"a": [1, {"b": None}]}, **PLAIN[how])
    found = root("x.zarr")
    assert isinstance(found, PlainArray)
    for name in ("shape", "dtype", "ndim", "chunks", "shards", "path"):
        assert getattr(found, name) == getattr(array, name), name
    assert repr(found.fill_value) == repr(array.fill_value)
    assert found.encode_chunk_key((0, 1, 2)) == array.metadata.encode_chunk_key((0, 1, 2))
    assert found.attrs == dict(array.attrs)
    alike = [json.dumps(document_of(each) | {"attributes": 0}, sort_keys=True) for each in (found, array)]
    assert alike[0] == alike[1]


@pytest.mark.parametrize("dtype", ["bool", "u1", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("fill", [0, 1, 0.1, np.nan, -np.inf])
def test_a_fill_value_is_the_number_that_zarr_reads(dtype: str, version: int, fill: float) -> None:
    if dtype[0] != "f" and fill not in (0, 1):
        fill = 1
    value = np.dtype(dtype).type(fill)
    array: Any = zarr.create_array("x.zarr", shape=(2, 2), dtype=dtype, fill_value=value, zarr_format=version)  # type: ignore[arg-type]
    found = root("x.zarr")
    assert isinstance(found, PlainArray)
    assert repr(found.fill_value) == repr(array.fill_value)
    assert repr(document_of(found)["fill_value"]) == repr(document_of(array)["fill_value"])


@pytest.mark.parametrize("version", [2, 3])
def test_groups_are_walked_as_zarr_walks_them(version: int) -> None:
    made("x.zarr", key="a/b/0", zarr_format=version)
    group("x.zarr")["a"]
    zarr.open_group("x.zarr/a/b", mode="r+").attrs["of"] = "b"
    found = root("x.zarr")
    assert isinstance(found, PlainGroup)
    assert isinstance(found["a/b"], PlainGroup)
    assert (found["a"]["b"].attrs, found["a/b"].path) == ({"of": "b"}, "a/b")
    assert isinstance(found["/a/b/0/"], PlainArray)
    assert found.get("a/c") is None
    assert "a/b/0" in found
    with pytest.raises(KeyError):
        found["a/b/1"]


CHANGES: dict[str, dict[str, Any]] = {
    "another type": {"data_type": "complex64", "fill_value": [0.0, 0.0]},
    "a codec without settings": {"codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 99}}]},
    "an unknown word": {"another": 1},
    "a chunk of nothing": {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 4, 4]}}},
    "a fill value of another kind": {"fill_value": "AAAA"},
    "a fill value that does not fit": {"fill_value": 256},
    "a length that is no number": {"shape": [9, True, 11]},
    "another number of axes": {"shape": [9, 10]},
    "names of another number": {"dimension_names": ["a"]},
    "another version": {"zarr_format": 4},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_plain_is_left_to_zarr(change: str) -> None:
    made("x.zarr")
    Path("x.zarr/zarr.json").write_text(json.dumps(document("x.zarr/zarr.json") | CHANGES[change]))
    with pytest.raises((ValueError, KeyError, TypeError, OverflowError)):
        plain_node(Folder("x.zarr"), "")


def test_consolidated_groups_and_stores_of_two_versions_are_left_to_zarr() -> None:
    made("x.zarr", key="0", zarr_format=2)
    zarr.consolidate_metadata("x.zarr")
    assert not isinstance(root("x.zarr"), PlainGroup)
    made("y.zarr", zarr_format=2)
    made("z.zarr")
    Path("y.zarr/zarr.json").write_bytes(Path("z.zarr/zarr.json").read_bytes())
    with pytest.raises(ValueError, match="plain"):
        plain_node(Folder("y.zarr"), "")


def test_plain_stores_are_pooled_without_zarr() -> None:
    for how, settings in PLAIN.items():
        made(f"{how}.zarr", VALUES, **settings)
    code = """
import sys
from poolcli.cli import run
for how in sys.argv[1:]:
    words = "-k", "2", "-s", "2", "--layout", "DHW", "-q"
    assert run(["avg", f"{how}.zarr", "-o", f"{how} pooled.zarr", *words]) == 0, how
    assert "zarr" not in sys.modules, how
assert "numcodecs" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, *PLAIN], check=True)
    for how in PLAIN:
        np.testing.assert_array_equal(whole(f"{how} pooled.zarr"), halved(VALUES), how)


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


def test_a_link_out_of_a_plain_store_is_refused(cli: Cli) -> None:
    made("x.zarr")
    os.rename("x.zarr/zarr.json", "outside.json")
    os.symlink("../outside.json", "x.zarr/zarr.json")
    result = cli("avg", "x.zarr", "-o", "y.npy", *HALVE, "--layout", "DHW")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "is a link to a place outside its store; --allow-external follows it" in result.err


def test_memory_is_used_again_once_no_view_lies_in_it() -> None:
    memory, dtype = Memory(), np.dtype("f4")
    first = memory.array((512, 512), dtype)
    part, place = first[1:].T, first.ctypes.data
    del first
    other = memory.array((512, 512), dtype)
    assert other.ctypes.data != place
    del part
    again = memory.array((500, 512), dtype)
    assert (again.ctypes.data, again.shape, again.dtype) == (place, (500, 512), dtype)
    larger = memory.array((2000, 512), dtype)
    assert larger.nbytes == 4 * 2000 * 512
