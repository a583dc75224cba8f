"""Safetensors files are what the package of that name reads and writes, and headers that lie are refused."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from poolcli.errors import FileError
from poolcli.formats import Source, open_array, read
from poolcli.formats.safetensors import DTYPES_BY_CODE
from tests.conftest import Cli
from tests.formats.arrays import list_arrays

pytestmark = pytest.mark.usefixtures("here")

X = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
HALVE = ("-k", "2", "-s", "2")
CUT = "x.safetensors: its safetensors header is broken, or claims data that the file does not hold"


def saved(**arrays: Any) -> None:
    safetensors.numpy.save_file(arrays, "x.safetensors", {"format": "pt"})


@pytest.mark.parametrize("dtype", DTYPES_BY_CODE.values())
def test_every_type_is_read_in_parts_and_written(dtype: str, cli: Cli) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    values = (np.arange(96) % 2 if dtype == "bool" else np.arange(96)).reshape(1, 2, 6, 8).astype(kind)
    saved(a=values, other=np.zeros((2, 2), np.int8))
    with open_array(Source("x.safetensors")) as file:
        assert (file.header.dtype, file.header.shape, file.streams) == (dtype, (1, 2, 6, 8), True)
        part = file.read((range(1), range(1, 2), range(2, 5), range(3, 8)))
    np.testing.assert_array_equal(part, values[:, 1:2, 2:5, 3:8])
    result = cli("max", "x.safetensors", "-o", "y.safetensors", *HALVE, "--all", "-q")
    assert result.code == 0, result.err
    made = safetensors.numpy.load_file("y.safetensors")
    expected = values.reshape(1, 2, 3, 2, 4, 2).max((3, 5))
    assert made["a"].dtype == expected.dtype
    np.testing.assert_array_equal(made["a"], expected)
    np.testing.assert_array_equal(made["other"], np.zeros((2, 2), np.int8))
    with safetensors.safe_open("y.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt"}


def test_names_and_words_come_from_and_go_to_other_formats(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file["g/weight"] = X
        file["g/weight"].attrs["units"] = "K"
        file.attrs["title"], file.attrs["year"] = "ours", 2026
    result = cli("avg", "x.h5", "-o", "y.safetensors", *HALVE, "--json")
    assert "left out, because they are not strings: the attributes year, units" in result.json["notes"]
    with safetensors.safe_open("y.safetensors", "numpy") as file:
        assert (list(file.keys()), file.metadata()) == (["g/weight"], {"title": "ours"})
    assert cli("avg", "y.safetensors:g/weight", "-o", "z.h5", *HALVE, "-q").code == 0
    with h5py.File("z.h5") as file:
        assert (file["g/weight"].shape, file.attrs["title"]) == ((1, 1, 2, 2), "ours")


def test_a_file_is_known_by_its_content(cli: Cli) -> None:
    saved(a=X)
    Path("x.safetensors").rename("x.npy")
    result = cli("avg", "x.npy", "-o", "y.npy", *HALVE, "--json")
    assert result.json["notes"][0] == "the file is safetensors, despite its extension"


def test_single_numbers_and_unknown_types_are_left_out(cli: Cli) -> None:
    header = {
        "a": {"dtype": "U8", "shape": [1, 1, 4], "data_offsets": [0, 4]},
        "one": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]},
        "tiny": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]},
    }
    made(json.dumps(header), bytes(4))
    assert [each.key for each in list_arrays("x.safetensors")] == ["a"]
    result = cli("avg", "x.safetensors", "-o", "y.npz", "-k", "2", "--all", "--json")
    assert "left out, because they are not numeric arrays: one, tiny" in result.json["notes"]
    held = "holds F8_E4M3; poolcli pools bool, integers and floats of 16, 32 or 64 bits"
    assert cli("avg", "x.safetensors:tiny", "-o", "z.npy", "-k", "2").err == f"poolcli: x.safetensors:tiny: {held}\n"


def made(header: str, data: bytes = b"", length: int | None = None) -> None:
    text = header.encode()
    Path("x.safetensors").write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)


def entry(dtype: object = "F32", shape: object = (1, 1, 2), place: object = (0, 8)) -> str:
    return json.dumps({"a": {"dtype": dtype, "shape": shape, "data_offsets": place}})


CLAIM = "x.safetensors: its safetensors header claims {}; the file holds {}, and at most 2 MiB are read"
REFUSED: dict[str, tuple[str, bytes, int | None, str]] = {
    "a length of exabytes": ("{}", b"", 2**63, CLAIM.format("8 EiB", "10 B")),
    "a length beyond the file": ("{}", b"", 3, CLAIM.format("3 B", "10 B")),
    "no JSON": ("{", b"", None, CUT),
    "no UTF-8": ("\udc80", b"", None, CUT),
    "deep nesting": ('{"a":' * 100_000, b"", None, CUT),
    "a list": ("[]", b"", None, CUT),
    "words that are none": ('{"__metadata__": {"a": 1}}', b"", None, CUT),
    "an entry that is none": ('{"a": 1}', b"", None, CUT),
    "no type": (entry(dtype=1), bytes(8), None, CUT),
    "a shape in words": (entry(shape="2"), bytes(8), None, CUT),
    "a negative length": (entry(shape=(1, -1, -2)), bytes(8), None, CUT),
    "a fraction": (entry(shape=(1, 1, 2.0)), bytes(8), None, CUT),
    "a shape of exabytes": (entry(shape=(2**40, 2**40)), bytes(8), None, CUT),
    "one place": (entry(place=(0,)), bytes(8), None, CUT),
    "an end before the begin": (entry(place=(8, 0)), bytes(8), None, CUT),
    "data beyond the file": (entry(), bytes(7), None, CUT),
    "fewer bytes than the shape has": (entry(place=(0, 4)), bytes(8), None, CUT),
}


@pytest.mark.parametrize(("header", "data", "length", "message"), REFUSED.values(), ids=REFUSED)
def test_headers_that_lie_are_refused(header: str, data: bytes, length: int | None, message: str) -> None:
    try:
        made(header, data, length)
    except UnicodeEncodeError:
        Path("x.safetensors").write_bytes(b"\x01\0\0\0\0\0\0\0\x80")
    tracemalloc.start()
    with pytest.raises(FileError) as caught:
        read(Source("x.safetensors"))
    assert str(caught.value) == message
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()
