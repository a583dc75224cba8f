"""Inputs that cannot be pooled: the whole message of each, and that nothing else is raised."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from poolcli.core.errors import FileError, PoolError, RequestError
from poolcli.core.fields import on_command_line
from poolcli.formats import ReadOptions, Source, check_output, format_of, opened, parse_source, read, write
from poolcli.formats.npy import LONGEST_HEADER


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    """A .npy file with any header text."""
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(header))
    return b"\x93NUMPY" + version + size + header.encode() + data


def fields(shape: str, descr: str = "'<f4'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


NPY_REFUSALS = {
    "text": (b"hello world", "x.npy: is not a .npy file (its first bytes are not those of one)"),
    "magic only": (b"\x93NUMPY", "x.npy: has .npy version none; 1.0, 2.0 and 3.0 are read"),
    "version 9": (b"\x93NUMPY\x09\x00", "x.npy: has .npy version 9.0; 1.0, 2.0 and 3.0 are read"),
    "cut in the header": (npy(fields("(2,)"))[:40], "x.npy: ends inside its .npy header"),
    "header of 4 GiB": (
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        "x.npy: its .npy header claims 4 GiB; at most 64 KiB are read",
    ),
    "broken header": (npy("{'descr': '<f4', "), "x.npy: its .npy header is broken"),
    "deeply nested header": (npy("(" * 9000 + ")" * 9000), "x.npy: its .npy header is broken"),
    "claim of terabytes": (
        npy(fields("(1000000, 1000000)"), b"\0" * 24),
        "x.npy: its header claims 3.64 TiB of data, the file holds 24 B",
    ),
    "product beyond 64 bits": (
        npy(fields("(4294967296, 4294967296, 4294967296)")),
        "x.npy: its header claims more than 1,000,000 PiB of data, the file holds 0 B",
    ),
    "negative length": (npy(fields("(-1, 3)")), "x.npy: its .npy header has a negative length"),
    "True as a length": (npy(fields("(True,)")), "x.npy: its .npy header is broken"),
    "a single number": (
        npy(fields("()"), b"\0" * 4),
        "x.npy: holds a single number; an array with at least one axis is needed",
    ),
    "Python objects": (
        npy(fields("(1,)", "'|O'"), b"cos\nsystem\n(S'touch pwned'\ntR."),
        "x.npy: holds Python objects (pickle), which poolcli never loads; store numbers instead",
    ),
    "structured": (
        npy(fields("(1,)", "[('a', '<f4')]"), b"\0" * 4),
        "x.npy: holds a structured or unknown type; poolcli pools bool, integers and floats",
    ),
    "complex": (
        npy(fields("(1,)", "'<c8'"), b"\0" * 8),
        "x.npy: holds type c64; poolcli pools bool, integers and floats of 16, 32 or 64 bits",
    ),
    "text elements of no bytes": (
        npy(fields("(1000000000000,)", "'|S0'")),
        "x.npy: holds type S0; poolcli pools bool, integers and floats of 16, 32 or 64 bits",
    ),
    "an empty shape beyond 64 bits": (
        npy(fields("(0, 1, 4611686018427387904, 4)")),
        "x.npy: is empty, in a shape that no array can have",
    ),
    "an empty shape with a length beyond 64 bits": (
        npy(fields("(9223372036854775808, 0, 4)", "'|u1'")),
        "x.npy: is empty, in a shape that no array can have",
    ),
    "65 axes": (npy(fields("(" + "1," * 65 + ")"), b"\0" * 4), "x.npy: has 65 axes; at most 32 are read"),
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal_of(path: str) -> str:
    """The message with which reading `path` is refused."""
    with pytest.raises(PoolError) as caught:
        read(parse_source(path))
    return on_command_line(caught.value.message)


@pytest.mark.parametrize(("data", "message"), NPY_REFUSALS.values(), ids=NPY_REFUSALS)
def test_npy_files_that_are_refused(data: bytes, message: str) -> None:
    Path("x.npy").write_bytes(data)
    assert refusal_of("x.npy") == message
    assert not Path("pwned").exists()


def test_a_number_that_runs_into_a_word_is_refused_without_a_warning() -> None:
    Path("x.npy").write_bytes(npy(fields("(0x1for 1,)")))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert refusal_of("x.npy") == "x.npy: its .npy header is broken"
    assert caught == []


@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00"])
def test_all_versions_orders_and_byte_orders_of_npy_are_read(version: bytes) -> None:
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    for array in (x, np.asfortranarray(x), x.astype(">f4"), x.astype(np.float16), x > 3):
        with Path("x.npy").open("wb") as file:
            np.lib.format.write_array(file, array, version=(version[0], 0))
        np.testing.assert_array_equal(read(Source("x.npy")).array, array)
        assert read(Source("x.npy")).header.dtype == array.dtype.name


def test_a_long_integer_of_python_2_in_a_header_is_read() -> None:
    Path("x.npy").write_bytes(npy(fields("(1L, 1L, 2L)"), np.array([1, 2], "<f4").tobytes()))
    assert read(Source("x.npy")).array.shape == (1, 1, 2)


def test_a_header_as_long_as_is_allowed_is_read() -> None:
    text = fields("(2,)").rstrip("\n").ljust(LONGEST_HEADER - 1) + "\n"
    Path("x.npy").write_bytes(npy(text, b"\0" * 8, b"\x02\x00"))
    assert read(Source("x.npy")).array.shape == (2,)


def two_arrays() -> None:
    np.savez("x.npz", a=np.zeros((1, 1, 4), np.float32), b=np.zeros((2, 3, 5), np.uint8))


def doubled_member() -> None:
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    with zipfile.ZipFile("x.npz", "w") as archive:
        archive.writestr("a.npy", stream.getvalue())
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.npy", stream.getvalue())


def bomb() -> None:
    with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("a.npy", npy(fields("(16000000,)", "'|u1'")) + b"\0" * 16_000_000)


def wrong_crc() -> None:
    two_arrays()
    data = bytearray(Path("x.npz").read_bytes())
    at = data.find(b"\x93NUMPY") + 140
    data[at] ^= 1
    Path("x.npz").write_bytes(data)


NPZ_REFUSALS: dict[str, tuple[Callable[[], object], str, str]] = {
    "several arrays": (
        two_arrays,
        "x.npz",
        "x.npz: holds 2 arrays: a (1,1,4 float32), b (2,3,5 uint8); choose one: x.npz:a or --dataset a, or take --all",
    ),
    "unknown key": (two_arrays, "x.npz:c", "x.npz: has no array 'c'; it holds a (1,1,4 float32), b (2,3,5 uint8)"),
    "two members of one name": (doubled_member, "x.npz", "x.npz: holds two members called a.npy; it is ambiguous"),
    "no member": (lambda: np.savez("x.npz"), "x.npz", "x.npz: holds no array that can be pooled"),
    "wrong checksum": (wrong_crc, "x.npz:a", "x.npz: is not a readable .npz file (Bad CRC-32 for file 'a.npy')"),
    "not a zip file": (
        lambda: Path("x.npz").write_bytes(b"PK\x03\x04 nothing more"),
        "x.npz",
        "x.npz: is not a readable .npz file (File is not a zip file)",
    ),
}


@pytest.mark.parametrize(("make", "path", "message"), NPZ_REFUSALS.values(), ids=NPZ_REFUSALS)
def test_npz_files_that_are_refused(make: Callable[[], object], path: str, message: str) -> None:
    make()
    assert refusal_of(path) == message


def test_a_member_that_inflates_beyond_reason_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolcli.formats.arrays.LARGEST_EXPANSION", 1000)
    bomb()
    assert "which may be a decompression bomb; if it is meant to, allow it with --max-memory" in refusal_of("x.npz")
    with opened(Source("x.npz"), ReadOptions(allowed=2**30)) as file:
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


HDF5_REFUSALS: dict[str, tuple[Callable[[], object], str, str]] = {
    "several datasets": (
        groups_and_links,
        "x.h5",
        "x.h5: holds 2 arrays: /g/a (1,1,2 float32), /g/b (1,1,3 int8); choose one: x.h5:/g/a or --dataset /g/a, "
        "or take --all",
    ),
    "unknown dataset": (groups_and_links, "x.h5:/g/c", "x.h5: has no dataset /g/c; it holds /g/b, /g/a"),
    "a group": (
        groups_and_links,
        "x.h5:/g",
        "x.h5:/g: is a group; name a dataset in it: /g/a (1,1,2 float32), /g/b (1,1,3 int8)",
    ),
    "link to another file": (
        groups_and_links,
        "x.h5:/far",
        "x.h5:/far: is a link to the file other.h5; --allow-external follows it",
    ),
    "text": (
        groups_and_links,
        "x.h5:/text",
        "x.h5:/text: holds object; poolcli pools bool, integers and floats of 16, 32 or 64 bits",
    ),
    "data in another file": (
        lambda: hdf5("a", shape=(4,), dtype="f4", external="/etc/passwd"),
        "x.h5",
        "x.h5:/a: keeps its data in other files (/etc/passwd); --allow-external reads them",
    ),
    "virtual dataset of itself": (
        virtual,
        "x.h5",
        "x.h5:/v: is a virtual dataset, whose data lies elsewhere (.:v); --allow-external reads it",
    ),
    "fill values by the terabyte": (
        lambda: hdf5("a", shape=(2**20, 2**20), dtype="f4", chunks=(64, 64)),
        "x.h5",
        "x.h5:/a: grows from 0 B to 4 TiB when it is read, which may be a decompression bomb; if it is meant to, "
        "allow it with --max-memory",
    ),
    "a root that cannot be opened": (damaged_root, "x.h5", "x.h5: HDF5 cannot read or write it: {library}"),
    "not HDF5 inside": (
        lambda: Path("x.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + b"\0" * 100),
        "x.h5",
        "x.h5: HDF5 cannot read or write it: {library}",
    ),
}


@pytest.mark.parametrize(("make", "path", "message"), HDF5_REFUSALS.values(), ids=HDF5_REFUSALS)
def test_hdf5_files_that_are_refused(make: Callable[[], object], path: str, message: str) -> None:
    make()
    found = refusal_of(path)
    for part in message.replace("{size}", "{").replace("{library}", "{").split("{"):
        assert part in found
    if "{" not in message:
        assert found == message


def test_attributes_and_storage_of_a_dataset_are_kept() -> None:
    hdf5("g/a", data=np.zeros((1, 1, 64, 64), np.uint8), chunks=(1, 1, 32, 64), compression="gzip", shuffle=True)
    with h5py.File("x.h5", "a") as file:
        file["g/a"].attrs["unit"] = "counts"
    tensor = read(Source("x.h5"))
    write("y.h5", tensor.array[..., ::2, ::8], "NCHW", key=tensor.header.key, metadata=tensor.metadata)
    with h5py.File("y.h5") as file:
        dataset = file["g/a"]
        assert (dataset.chunks, dataset.compression, dataset.shuffle) == ((1, 1, 32, 8), "gzip", True)
        assert dataset.attrs["unit"] == "counts"


def huge_png() -> bytes:
    import zlib

    head = b"IHDR" + struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head)) + b"\0\0\0\0IDAT"


def saved(mode: str, name: str) -> bytes:
    Image.new(mode, (4, 3)).save(name)
    return Path(name).read_bytes()


IMAGE_REFUSALS: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "16 bits per channel": (
        "x.ppm",
        lambda: b"P6 1 1 65535\n" + b"\x01\x02" * 3,
        "x.ppm: has more than 8 bits a channel, of which Pillow keeps 8; convert it to TIFF or PNG without loss",
    ),
    "too many pixels": (
        "x.png",
        huge_png,
        "x.png: has 10,000,000,000 pixels; at most 178,956,970 are read (decompression bomb?); "
        "--max-pixels sets the limit",
    ),
    "PostScript": (
        "x.eps",
        lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        "x.eps: is none of the formats that poolcli reads (npy, npy.gz, npz, hdf5, matlab, zarr, safetensors, png, "
        "jpeg, tiff, bmp, webp, ppm, gif, jpeg2000, avif, heif, qoi, sgi, dds, tga); if it holds plain numbers, "
        "say which: --raw 1,3,64,64,uint8",
    ),
    "PostScript called PNG": (
        "x.png",
        lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        "x.png: is not an image that poolcli reads (PNG, JPEG, TIFF, BMP, WEBP, PPM, GIF, JPEG2000, AVIF, HEIF, QOI, "
        "SGI, DDS, TGA)",
    ),
}


@pytest.mark.parametrize(("name", "make", "message"), IMAGE_REFUSALS.values(), ids=IMAGE_REFUSALS)
def test_images_that_are_refused(name: str, make: Callable[[], bytes], message: str) -> None:
    Path(name).write_bytes(make())
    assert refusal_of(name) == message


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_and_then_forgotten(orientation: int) -> None:
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 10
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "maker"
    Image.fromarray(pixels).save("x.png", exif=exif)
    turned = {
        1: pixels, 2: pixels[:, ::-1], 3: pixels[::-1, ::-1], 4: pixels[::-1], 5: pixels.transpose(1, 0, 2),
        6: np.rot90(pixels, -1), 7: np.rot90(pixels, 2).transpose(1, 0, 2), 8: np.rot90(pixels),
    }[orientation]  # fmt: skip
    tensor = read(Source("x.png"))
    np.testing.assert_array_equal(tensor.array, turned)
    assert tensor.header.shape == turned.shape
    assert tensor.header.notes == ((f"EXIF orientation {orientation} applied",) if orientation > 1 else ())
    write("y.png", tensor.array, "HWC", metadata=tensor.metadata)
    with Image.open("y.png") as image:
        kept = image.getexif()
    assert (kept.get(0x0112, 1), kept[0x010F]) == (1, "maker")


@pytest.mark.parametrize(
    ("mode", "shape", "dtype", "notes"),
    [
        ("1", (3, 4), "uint8", ("mode 1 read as L",)),
        ("L", (3, 4), "uint8", ()),
        ("LA", (3, 4, 2), "uint8", ()),
        ("P", (3, 4, 3), "uint8", ("palette expanded to RGB",)),
        ("RGB", (3, 4, 3), "uint8", ()),
        ("RGBA", (3, 4, 4), "uint8", ()),
        ("I;16", (3, 4), "uint16", ()),
        ("F", (3, 4), "float32", ()),
        ("I", (3, 4), "int32", ()),
    ],
)
def test_each_mode_becomes_the_array_of_its_colours(
    mode: str, shape: tuple[int, ...], dtype: str, notes: tuple[str, ...]
) -> None:
    Image.new(mode, (4, 3)).save("x.tif")
    header = read(Source("x.tif")).header
    assert (header.shape, header.dtype, header.notes) == (shape, dtype, notes)


@pytest.mark.parametrize(
    ("path", "shape", "dtype", "layout", "message"),
    [
        (
            "y.png",
            (8, 8, 3),
            "float32",
            "HWC",
            "png cannot hold 3 channels of float32; use .tiff, .npy, .npz or .h5, or --rescale for 8 bits",
        ),
        ("y.tif", (8, 8, 3), "bool", "HWC", "tiff cannot hold 3 channels of bool; use .npy, .npz or .h5"),
        (
            "y.jpg",
            (8, 8),
            "float32",
            "HW",
            "jpeg cannot hold 1 channel of float32; use .tiff, .npy, .npz or .h5, or --rescale for 8 bits",
        ),
        (
            "y.jpg",
            (2, 3, 8, 8),
            "uint8",
            "NCHW",
            "a jpeg file holds one picture, the result has N=2; use .tiff, .png, .webp, .npy, .npz or .h5, or take one "
            "picture with --pages 1",
        ),
        (
            "y.png",
            (1, 3, 4, 8, 8),
            "uint8",
            "NCDHW",
            "png images have the axes H, W and C, the result has NCDHW; use .npy, .npz or .h5",
        ),
        ("y.npy", (1, 1, 2), "bfloat16", "NCW", "npy files have no bfloat16; use --dtype float32"),
    ],
)
def test_what_an_output_format_cannot_hold_is_refused_with_those_that_can(
    path: str, shape: tuple[int, ...], dtype: str, layout: str, message: str
) -> None:
    with pytest.raises(RequestError) as caught:
        check_output(path, shape, dtype, layout)
    assert on_command_line(caught.value.message) == message


def test_an_unknown_suffix_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        RequestError, match=r"^y\.doc: \.doc is no format that poolcli writes; use one of \.npy, \.npz, "
    ):
        format_of("y.doc")


def test_a_pipe_or_a_device_is_no_input() -> None:
    import os

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


def test_the_path_ends_where_there_is_a_file() -> None:
    Path("a.h5:b.npz").touch()
    assert parse_source("a.h5:b.npz:c:0") == Source("a.h5:b.npz", "c:0")
    Path("a.h5:b.npz:c:0").touch()
    assert parse_source("a.h5:b.npz:c:0") == Source("a.h5:b.npz:c:0")
    assert parse_source("a.h5:x", "y") == Source("a.h5:x", "y")
