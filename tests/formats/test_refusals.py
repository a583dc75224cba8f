"""Inputs that cannot be pooled: the whole message of each, and that nothing else is raised."""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from poolcli.errors import FileError, PoolError
from poolcli.formats import ReadOptions, Source, open_array, parse_source, read
from poolcli.message_fields import for_cli
from tests.formats.npy_headers import fields, npy

pytestmark = pytest.mark.usefixtures("here")

CUT = "its .npy header is cut short, longer than 64 KiB, or of an unknown version"
OF_BYTES = {
    "text": (b"hello world", "x.npy: is not a .npy file (its first bytes are not those of one)"),
    "magic only": (b"\x93NUMPY", f"x.npy: {CUT}"),
    "version 9": (b"\x93NUMPY\x09\x00", f"x.npy: {CUT}"),
    "broken header": (npy("{'descr': '<f4', "), "x.npy: its .npy header is broken"),
    "deeply nested header": (npy("(" * 9000 + ")" * 9000), "x.npy: its .npy header is broken"),
    "negative length": (npy(fields("(-1, 3)")), "x.npy: its .npy header is broken (shape is not valid: (-1, 3))"),
    "unknown type": (npy("{'descr': '<q9', 'fortran_order': False, 'shape': (4,)}"),
        "x.npy: its .npy header is broken (descr is not a valid dtype descriptor: '<q9')"),
    "True as a length": (npy(fields("(True,)")), "x.npy: its .npy header is broken (shape is not valid: (True,))"),
    "a number as the shape": (npy(fields("(184)")), "x.npy: its .npy header is broken (shape is not valid: 184)"),
    "a single number": (npy(fields("()"), b"\0" * 4),
        "x.npy: holds a single number; an array with at least one axis is needed"),
    "an empty shape beyond 64 bits": (npy(fields("(0, 1, 4611686018427387904, 4)")),
        "x.npy: claims 64 EiB, which no array can have"),
    "an empty shape with a length beyond 64 bits": (npy(fields("(9223372036854775808, 0, 4)", "'|u1'")),
        "x.npy: claims 32 EiB, which no array can have"),
    "16 bits per channel": (b"P3 1 1 65535\n1 2 3\n",
        "x.ppm: has more than 8 bits a channel, of which Pillow keeps 8; convert it to TIFF or PNG without loss"),
    "the start of a PNG": (b"\x89PNG\r\n\x1a\n" + bytes(99),
        "x.png: is a damaged PNG file, or of a kind that Pillow does not read"),
    "HTML called NumPy": (b" <!DOCTYPE html><html>", "x.npy: is an HTML page"),
    "a Git LFS pointer called HDF5": (b"version https://git-lfs.github.com/spec/v1\n",
        "x.h5: is a Git LFS pointer (git lfs pull gets the file)"),
    "PDF called Zip": (b"%PDF-1.7\n", "x.npz: is a PDF document"),
    "PostScript called PNG": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        "x.png: is not an image that poolcli reads (PNG, JPEG, TIFF, BMP, WEBP, PPM, GIF, JPEG2000, AVIF, HEIF, QOI, "
        "SGI, DDS, TGA)"),
}  # fmt: skip


def refusal_of(path: str) -> str:
    """The message with which reading `path` is refused."""
    with pytest.raises(PoolError) as caught:
        read(parse_source(path))
    return for_cli(caught.value.message)


@pytest.mark.parametrize(("data", "message"), OF_BYTES.values(), ids=OF_BYTES)
def test_files_of_one_array_that_are_refused(data: bytes, message: str) -> None:
    name = message.partition(":")[0]
    Path(name).write_bytes(data)
    assert refusal_of(name) == message


def test_a_number_that_runs_into_a_word_is_refused_without_a_warning() -> None:
    Path("x.npy").write_bytes(npy(fields("(0x1for 1,)")))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert refusal_of("x.npy") == "x.npy: its .npy header is broken"
    assert caught == []


def two_arrays() -> None:
    np.savez("x.npz", a=np.zeros((1, 1, 4), np.float32), b=np.zeros((2, 3, 5), np.uint8))


def bomb() -> None:
    with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("a.npy", npy(fields("(16000000,)", "'|u1'")) + b"\0" * 16_000_000)


def wrong_name() -> None:
    np.savez("x.npz", é=np.zeros((1, 1, 4)))
    data = Path("x.npz").read_bytes()
    Path("x.npz").write_bytes(data.replace("é".encode(), b"\xff\xfe"))


def wrong_checksum() -> None:
    """Bytes behind the array, too, so that the end of the array is not that of the member."""
    with zipfile.ZipFile("x.npz", "w") as archive:
        archive.writestr("a.npy", npy(fields("(4,)", "'|u1'")) + b"abcd" + bytes(2**17))
    Path("x.npz").write_bytes(Path("x.npz").read_bytes().replace(b"abcd", b"abce"))


def test_what_inflates_beyond_reason_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolcli.formats.checks.FREE_EXPANSION", 1000)
    monkeypatch.setattr("poolcli.formats.checks.MAX_EXPANSION_RATIO", 100)
    bomb()
    Image.new("L", (500, 500)).save("x.png")
    for name in ("x.npz", "x.png"):
        assert "which may be a decompression bomb; to allow it, use --max-memory" in refusal_of(name)
    with open_array(Source("x.npz"), ReadOptions(allowed=2**30)) as file:
        assert file.header.dtype == "uint8"


def hdf5(name: str, **options: object) -> None:
    with h5py.File("x.h5", "w") as file:
        file.create_dataset(name, **options)


def groups_and_links() -> None:
    with h5py.File("x.h5", "w") as file:
        file["g/a"] = np.zeros((1, 1, 2), np.float32)
        file["g/b"] = np.zeros((1, 1, 3), np.int8)
        file["loop"] = h5py.SoftLink("/loop")
        file["g/circle"] = file["g"]
        file["far"] = h5py.ExternalLink("other.h5", "/secret")
        file["text"] = "words"


def virtual() -> None:
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource(".", "v", (4,))
    with h5py.File("x.h5", "w") as file:
        file.create_virtual_dataset("v", layout)


def damaged_root() -> None:
    with h5py.File("x.h5", "w", libver="latest") as file:
        file["a"] = np.zeros((1, 1, 2), np.float32)
    data = bytearray(Path("x.h5").read_bytes())
    data[data.index(b"OHDR") + 6] ^= 1
    Path("x.h5").write_bytes(data)


CONTAINERS: dict[str, tuple[Callable[[], object], str, str]] = {
    "several arrays": (two_arrays, "x.npz",
        "x.npz: holds 2 arrays: a (1,1,4 float32), b (2,3,5 uint8); choose one: x.npz:a or --dataset a, or "
        "all of them: --all --output all.npz"),
    "unknown key": (two_arrays, "x.npz:c", "x.npz: has no array 'c'; it holds a (1,1,4 float32), b (2,3,5 uint8)"),
    "a wrong checksum": (wrong_checksum, "x.npz", "x.npz: is not a readable .npz file (Bad CRC-32 for file 'a.npy')"),
    "a name that is not UTF-8": (wrong_name, "x.npz:a", "x.npz: is not a readable .npz file (..."),
    "several datasets": (groups_and_links, "x.h5",
        "x.h5: holds 2 arrays: /g/a (1,1,2 float32), /g/b (1,1,3 int8); choose one: x.h5:/g/a or --dataset /g/a, "
        "or all of them: --all --output all.h5"),
    "unknown dataset": (groups_and_links, "x.h5:/g/c",
        "x.h5: has no array '/g/c'; it holds /g/a (1,1,2 float32), /g/b (1,1,3 int8)"),
    "a group": (groups_and_links, "x.h5:/g",
        "x.h5:/g: is a group; name a dataset in it: /g/a (1,1,2 float32), /g/b (1,1,3 int8)"),
    "link to another file": (groups_and_links, "x.h5:/far",
        "x.h5:/far: is a link to the file other.h5; --allow-external follows it"),
    "text": (groups_and_links, "x.h5:/text",
        "x.h5:/text: holds text; poolcli pools bool, integers and floats of 16, 32 or 64 bits"),
    "virtual dataset of itself": (virtual, "x.h5",
        "x.h5:/v: is a virtual dataset, whose data lies elsewhere (.:v); --allow-external reads it"),
    "nothing": (lambda: hdf5("e", data=h5py.Empty("f4")), "x.h5:/e",
        "x.h5:/e: is a dataset without data"),
    "a root that cannot be opened": (damaged_root, "x.h5", "x.h5: HDF5 cannot read or write it: ..."),
}  # fmt: skip


@pytest.mark.parametrize(("make", "path", "message"), CONTAINERS.values(), ids=CONTAINERS)
def test_files_of_several_arrays_that_are_refused(make: Callable[[], object], path: str, message: str) -> None:
    make()
    found, (expected, words_of_library, _) = refusal_of(path), message.partition("...")
    assert found[: len(expected) if words_of_library else None] == expected


def test_a_pipe_or_a_device_is_no_input() -> None:
    os.mkfifo("x.npy")
    with pytest.raises(FileError, match=r"^x\.npy: is not a regular file$"):
        read(Source("x.npy"))


@pytest.mark.parametrize(
    ("text", "path", "key"),
    [
        ("x.npy", "x.npy", None),
        ("x.npz:a", "x.npz", "a"),
        ("x.h5:/g/a", "x.h5", "/g/a"),
        ("a:b.png", "a:b.png", None),
        ("k.h5:/m/bias:0", "k.h5", "/m/bias:0"),
        ("a.h5:b.npz:c:0", "a.h5", "b.npz:c:0"),
    ],
)
def test_a_key_follows_the_colon_of_files_that_hold_several_arrays(text: str, path: str, key: str | None) -> None:
    assert parse_source(text) == Source(path, key)


def test_a_file_of_the_whole_name_is_meant() -> None:
    Path("a.h5:b.npz:c:0").touch()
    assert parse_source("a.h5:b.npz:c:0") == Source("a.h5:b.npz:c:0")
    assert parse_source("a.h5:x", "y") == Source("a.h5:x", "y")
