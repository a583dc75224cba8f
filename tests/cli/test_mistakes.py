"""Mistakes that people make, each with its whole answer: in `mistakes.txt` each command is followed by what is said.

What grows with the tables stands in capitals between angle brackets. A number in brackets is the exit code, 2 without.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from PIL import Image

from poolcli.cli.program import COMMANDS
from poolcli.formats.table import FORMATS, suffixes_of
from poolcli.ops import OPERATORS, PYRAMID_OPERATORS
from poolcli.plan.attributes import BinAttributes, SlidingAttributes
from poolcli.suggestions import join_words
from tests.conftest import Cli
from tests.models.onnxs import model, node

SUFFIXES = suffixes_of(lambda row: row.writes)
GROWING = {
    "<OPERATORS>": join_words(OPERATORS, "and"),
    "<EVERY OPERATOR>": ", ".join(OPERATORS),
    "<SLIDING>": join_words([op for op, record in OPERATORS.items() if issubclass(record, SlidingAttributes)], "and"),
    "<PYRAMID_OPERATORS>": ", ".join(PYRAMID_OPERATORS),
    "<ADAPTIVE>": join_words([op for op, record in OPERATORS.items() if issubclass(record, BinAttributes)], "and"),
    "<COMMANDS>": join_words(COMMANDS, "and"),
    "<SUFFIXES>": ", ".join(SUFFIXES),
    "<BARE SUFFIXES>": ", ".join(suffix.lstrip(".") for suffix in SUFFIXES),
    "<FORMATS>": ", ".join(FORMATS),
    "<PICKING>": join_words([op for op, record in OPERATORS.items() if record.reducer.picks], "and"),
}
OTHERS = ("m.mp4", "p.pkl", "t.parquet", "raw.bin", "t.txt", "s.fits", "v.mha")
TEXT = (Path(__file__).parent / "mistakes.txt").read_text()
FOUND = re.findall(r"^\$ poolcli (.*?)(?: \[(\d)\])?\n(.+?)\n(?=\$|#|\n|\Z)", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of several arrays, a folder of three, an empty one and an output that exists: one for all
    mistakes, none of which changes it.
    """
    place = tmp_path_factory.mktemp("place")
    np.save(place / "x.npy", np.arange(96, dtype=np.float32).reshape(1, 2, 6, 8))
    Image.fromarray(np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)).save(place / "photo.png")
    with h5py.File(place / "volume.h5", "w") as file:
        file["features"] = np.zeros((1, 2, 6, 8), np.float32)
        file["weights"] = np.zeros((1, 2, 3, 3), np.float32)
    np.savez(place / "two.npz", first=np.zeros((1, 1, 4)), second=np.zeros((1, 1, 4)))
    for name, shape, kind in (("zero", (0, 1, 8, 8), "u1"), ("six", (1,) * 6, "f4"), ("bool", (4, 4, 4), "?")):
        np.save(place / f"{name}.npy", np.zeros(shape, kind))
    cube: dict[str, Any] = {"shape": (8, 8, 8), "chunks": (4, 4, 4), "dtype": "u2"}
    zarr.create_array(str(place / "cube.zarr"), **cube)
    zarr.open_group(str(place / "store.zarr"), mode="w").create_array("0", **cube)
    (place / "link.zarr").symlink_to("store.zarr")
    Image.new("CMYK", (8, 6)).save(place / "cmyk.tiff")
    Image.new("RGB", (8, 6)).save(place / "three.tiff", save_all=True, append_images=[Image.new("RGB", (8, 6))] * 2)
    model(place / "pool.onnx", [node("MaxPool", kernel_shape=[2, 2])])
    for name in ("in", "empty"):
        (place / name).mkdir()
    for name in "abc":
        np.save(place / f"in/{name}.npy", np.zeros((1, 2, 6, 8), np.float32))
    (place / "args").write_text("-k 2 'unfinished")
    (place / "m.onnx").write_bytes(b"no model")
    for name in ("bad.npy", "net.pth", "head.nii.gz", "scan.dcm", "table.csv", *OTHERS):
        (place / name).write_bytes(b"not an array")
    with zipfile.ZipFile(place / "photos.zip", "w") as archive:
        archive.writestr("photos/", "")
        archive.writestr("photos/a.png", b"no image")
    for name in ("photos.tar.gz", "photo.png.gz"):
        (place / name).write_bytes(gzip.compress(b"\x89PNG\r\n\x1a\n"))
    (place / "page.png").write_bytes(b"\n<!DOCTYPE html>")
    (place / "IM0001").write_bytes(bytes(128) + b"DICM")
    (place / "volume.hdr").write_bytes((348).to_bytes(4, "little") + bytes(340) + b"ni1\0")
    (place / "a.wav").write_bytes(b"RIFF\0\0\0\0WAVEfmt ")
    (place / "m.tflite").write_bytes(b"\0\0\0\0TFL3" + bytes(64))
    np.save(place / "other.npy", np.zeros((1, 6, 8, 2), np.float32))
    (place / "there").mkdir()
    (place / "there/photo.png").touch()
    for name in ("done.npy", "a b.npy", "-1.npy", "list"):
        (place / name).touch()
    return place


@pytest.fixture
def place(made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """That folder as the working folder; whatever a mistake has written there fails its test."""
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    monkeypatch.chdir(made)
    monkeypatch.setenv("HOME", "/home/me")
    yield
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before


def test_there_are_many() -> None:
    assert len({command for command, _, _ in FOUND}) == TEXT.count("\n$ poolcli") >= 250


@pytest.mark.parametrize(("command", "code", "message"), FOUND, ids=[found[0] for found in FOUND])
def test_a_mistake_is_answered_with_what_to_type_instead(
    cli: Cli, place: None, command: str, code: str, message: str
) -> None:
    for name, words in GROWING.items():
        message = message.replace(name, words)
    result = cli(*shlex.split(command))
    assert (result.err, result.out, result.code) == (message + "\n", "", int(code or 2))


WINDOW = {"adaptive-avg": "--output-size 2", "adaptive-max": "--output-size 2"}
# Of every command a wrong word, a value that cannot be, and a file that is not there or cannot be used.
REFUSED = [
    *(f"{op} x.npy -o y.npy {WINDOW.get(op, '-k 2')} {wrong}" for op in OPERATORS for wrong in ("--no", "--like x")),
    *(f"{op} nothing.npy -o y.npy {WINDOW.get(op, '-k 2')}" for op in OPERATORS),
    "avg x.npy bad.npy nothing.npy -o y/ -k 2 -n", "avg x.npy -o done.npy -k 2", "avg x.npy -o y.doc -k 2",
    "avg two.npz -o y.npy -k 2", "avg volume.h5:/c -o y.h5 -k 2", "avg",
    "pyramid x.npy", "pyramid nothing.npy -o y.ome.zarr", "pyramid x.npy -o y.ome.zarr --levels 0",
    "shape avg 1,3,4 -k 9", "shape avg nothing.npy -k 2", "shape avg 1,3,8 --solve 4 --nonsense", "shape avg 1,3,8",
    "chain 1,3,8,8", "chain 1,3,8 conv:k99", "chain 1,3,8 max:k2 --like x",
    "check m.onnx", "check -", "check nothing.onnx", "check m.onnx --to x",
    "compare x.npy photo.png", "compare x.npy nothing.npy", "compare x.npy x.npy --atol -1", "compare two.npz x.npy",
    "identify x.npy nothing.npy", "identify x.npy two.npz:first", "identify x.npy x.npy --op x",
    "info nothing.npy", "info bad.npy", "info x.npy --nonsense",
    "cache x", "cache info --nonsense", "shpe", "x.npy", "--nonsense",
]  # fmt: skip


@pytest.mark.parametrize("command", REFUSED)
def test_with_json_a_refusal_is_a_document_too_and_nothing_else_changes(cli: Cli, place: None, command: str) -> None:
    plain, result = cli(*command.split()), cli(*command.split(), "--json")
    documents = [json.loads(line) for line in result.out.splitlines()]
    errors = [document["error"] for document in documents if document["error"]]
    assert (result.code, result.err) == (plain.code, plain.err)
    assert {document["schema_version"] for document in documents} == {1}
    assert {frozenset(error) for error in errors} == {frozenset(("kind", "message", "field"))}
    assert all(error["message"] in result.err for error in errors) or len(errors) > 1


def test_every_command_is_refused_in_json() -> None:
    assert {command.split()[0] for command in REFUSED} >= {*COMMANDS}
