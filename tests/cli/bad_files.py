"""Files that are bad, each with the whole message that it must end in."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from poolcli.formats import FORMATS
from tests.formats.pictures import png

POOL = ("-o", "y.npy", "-k", "2", "-s", "2")


X = np.zeros((1, 1, 4, 4), np.float32)
CUT = "its .npy header is cut short, longer than 64 KiB, or of an unknown version"
COPY = "it is cut short; copy or download it again"
POOLED = "poolcli pools bool, integers and floats of 16, 32 or 64 bits"


def npy(shape: str, data: bytes = b"", descr: str = "'<f4'") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def saved(array: object = X) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array))
    return stream.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def black_png(width: int, height: int, data: bytes | None = None) -> bytes:
    return png((width, height), 8, 2, zlib.compress((b"\0" + b"\0" * width * 3) * height if data is None else data))


def image(kind: str, mode: str = "RGB", size: tuple[int, int] = (40, 30)) -> bytes:
    stream = io.BytesIO()
    Image.effect_noise(size, 90).convert(mode).save(stream, kind)
    return stream.getvalue()


def hdf5(**datasets: object) -> bytes:
    with h5py.File("made.h5", "w") as file:
        for name, options in datasets.items():
            file.create_dataset(name, **options)  # type: ignore[arg-type]
    return taken("made.h5")


def bad_crc() -> bytes:
    data = bytearray(black_png(4, 4))
    place = data.index(b"IEND") - 5
    data[place] ^= 0xFF
    return bytes(data)


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def gif_bomb() -> bytes:
    size, frame = struct.pack("<HH", 65535, 65535), struct.pack("<HHHH", 0, 0, 65535, 65535)
    return b"GIF89a" + size + b"\x80\0\0" + b"\0" * 6 + b"," + frame + b"\0\x02\x02\x4c\x01\0;"


def tiff_bomb() -> bytes:
    entries = [(256, 4, 1, 40_000), (257, 4, 1, 40_000), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8),
               (277, 3, 1, 1), (278, 4, 1, 40_000), (279, 4, 1, 10)]  # fmt: skip
    body = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries) + b"\0" * 4
    return b"II*\0" + struct.pack("<I", 8) + body


# The file's name, what makes its bytes, the exit code, and the message.
FILES: dict[str, tuple[str, Callable[[], bytes], int, str]] = {
    "npy: empty file": ("x.npy", lambda: b"", 1, "x.npy: is empty"),
    "npy: claims more than it holds": ("x.npy", lambda: npy("(1000000, 1000000)", b"\0" * 24), 1,
        "x.npy: its header claims 3.64 TiB of data, but the file holds 24 B; " + COPY),
    "npy: length of many digits": ("x.npy", lambda: npy("(" + "9" * 4000 + ", 1, 1)"), 1,
        "x.npy: claims more than 1,000,000 PiB, which no array can have"),
    "npy: an empty axis": ("x.npy", lambda: saved(np.zeros((1, 1, 0, 4))), 2,
        "x.npy: axis H of the input is 0 long, but a window needs at least 1 element"),
    "npy: 65 axes": ("x.npy", lambda: npy("(" + "1," * 65 + ")", b"\0" * 4), 1,
        "x.npy: has 65 axes; at most 32 are read"),
    "npy: truncated data": ("x.npy", lambda: saved()[:-3], 1,
        "x.npy: its header claims 64 B of data, but the file holds 61 B; " + COPY),
    "npy: header of 4 GiB": ("x.npy", lambda: b"\x93NUMPY\x02\x00" + b"\xff" * 4, 1, f"x.npy: {CUT}"),
    "npy: NUL in the header": ("x.npy", lambda: npy("(1,\0 1)"), 1, "x.npy: its .npy header is broken"),
    "npy: objects": ("x.npy", lambda: npy("(1,)", b"cos\nsystem\n(S'touch pwned'\ntR.", "'|O'"), 1,
        "x.npy: holds Python objects (pickle), which poolcli never loads; if you trust it: "
        "numpy.save('NAME.npy', numpy.load('x.npy', allow_pickle=True)[0])"),
    "npy: structure": ("x.npy", lambda: saved(np.zeros(3, [("a", "f4")])), 1,
        f"x.npy: holds structured or opaque values; {POOLED}; in numpy, take x['NAME'] if it has fields"),
    "npy: text": ("x.npy", lambda: saved(np.array(["a"])), 1,
        "x.npy: holds str32; poolcli pools bool, integers and floats of 16, 32 or 64 bits"),
    "npy: complex": ("x.npy", lambda: saved(np.zeros((1, 1, 4), np.complex64)), 1,
        f"x.npy: holds complex64; {POOLED}; in numpy, take x.real, x.imag or abs(x)"),
    "npy: nothing of 10**12 elements": ("x.npy", lambda: npy("(1000000000000,)", descr="'|S0'"), 1,
        "x.npy: holds bytes; poolcli pools bool, integers and floats of 16, 32 or 64 bits"),
    "npz: truncated": ("x.npz", lambda: zipped({"a.npy": saved()})[:60], 1, "x.npz: is not a readable .npz file ..."),
    "npz: a bomb": ("x.npz", lambda: zipped({"a.npy": npy("(1, 1, 8192, 8192)", bytes(2**28))}), 1,
        "x.npz:a: expands from 255 KiB to 256 MiB when it is read, which may be a "
        "decompression bomb; to allow it, use --max-memory"),
    "npz: a member that claims terabytes": ("x.npz", lambda: zipped({"a.npy": npy("(1, 1000000, 1000000)")}), 1,
        "x.npz:a: its header claims 3.64 TiB of data, but the file holds 85 B; " + COPY),
    "npz: no member": ("x.npz", lambda: zipped({}), 1, "x.npz: holds no array that can be pooled"),
    "npz: a member that is no array": ("x.npz", lambda: zipped({"readme.txt": b"hello"}), 1,
        "x.npz:readme.txt: is not a .npy file (its first bytes are not those of one)"),
    "npz: members that are no arrays": ("x.npz",
        lambda: zipped({"readme.txt": b"hello", "z.npy": npy("(1,)", bytes(8), "'<c8'")}), 1,
        "x.npz: none of its 2 arrays can be pooled: readme.txt, z"),
    "npz: bad checksum": ("x.npz", lambda: flipped(zipped({"a.npy": saved(np.arange(48.0).reshape(1, 3, 16))}), 70), 1,
        "x.npz: is not a readable .npz file ..."),
    "npz: broken LZMA": ("x.npz", lambda: lzma_broken(), 1, "x.npz: is not a readable .npz file (Corrupt input data)"),
    "hdf5: truncated": ("x.h5", lambda: hdf5(a={"data": X})[:1000], 1, "x.h5: HDF5 cannot read or write it: ..."),
    "hdf5: signature only": ("x.h5", lambda: b"\x89HDF\r\n\x1a\n" + bytes(100), 1,
        "x.h5: HDF5 cannot read or write it: ..."),
    "hdf5: fill values by the terabyte": ("x.h5",
        lambda: hdf5(a={"shape": (1, 2**20, 2**20), "dtype": "f4", "chunks": (1, 64, 64)}), 1,
        "x.h5:/a: expands from 0 B to 4 TiB when it is read, which may be a decompression "
        "bomb; to allow it, use --max-memory"),
    "hdf5: one huge chunk for a small array": ("x.h5", lambda: small_in_a_huge_chunk(), 1,
        "x.h5:/a: has a chunk of 1 GiB that unpacks to less"),
    "hdf5: a chunk that unpacks to more than it says": ("x.h5", lambda: chunk_that_lies(), 1,
        "x.h5:/a: has a chunk of 256 B that unpacks to more"),
    "hdf5: a scale of gigabytes": ("x.h5", lambda: huge_scale(), 1,
        "x.h5:/scale: expands from 0 B to 1 GiB when it is read, which may be a decompression "
        "bomb; to allow it, use --max-memory"),
    "hdf5: a scale in a chunk that memory cannot hold": ("x.h5", lambda: scale_in_a_large_chunk(), 1,
        "x.h5:/s: reading its chunks takes 1 GiB, but the limit is 768 MiB; raise --max-memory"),
    "hdf5: text only": ("x.h5", lambda: hdf5(a={"data": "text"}), 1, f"x.h5:/a: holds text; {POOLED}"),
    "hdf5: compound": ("x.h5", lambda: hdf5(a={"data": np.zeros(3, [("a", "f4")])}), 1,
        f"x.h5:/a: holds structured or opaque values; {POOLED}; in numpy, take x['NAME'] if it has fields"),
    "hdf5: external storage": ("x.h5",
        lambda: hdf5(a={"shape": (1, 1, 4), "dtype": "u1", "external": [("/etc/passwd", 0, 4)]}), 1,
        "x.h5:/a: keeps its data in other files (/etc/passwd); --allow-external reads them"),
    "image: not one": ("x.png", lambda: b"hello, world", 1,
        "x.png: is not an image that poolcli reads (PNG, JPEG, TIFF, BMP, WEBP, PPM, GIF, "
        "JPEG2000, AVIF, HEIF, QOI, SGI, DDS, TGA)"),
    "image: truncated PNG": ("x.png", lambda: image("PNG")[:900], 1, "x.png: the image cannot be read: ..."),
    "image: truncated JPEG": ("x.jpg", lambda: image("JPEG")[:500], 1, "x.jpg: the image cannot be read: ..."),
    "image: truncated GIF": ("x.gif", lambda: image("GIF", "L")[:900], 1, "x.gif: the image cannot be read: ..."),
    "image: truncated TIFF": ("x.tif", lambda: image("TIFF")[:2000], 1, "x.tif: the image cannot be read: ..."),
    "image: bad checksum": ("x.png", bad_crc, 1, "x.png: is damaged: a chunk of its pixels has a wrong checksum"),
    "image: PNG bomb": ("x.png", lambda: black_png(100_000, 100_000, b"\0" * 1000), 1,
        "x.png: needs 107 GiB of memory, but the limit is 768 MiB; raise --max-memory (one array of a .h5 or .zarr, or "
        "of a .npy file in C order, can be pooled in parts, this cannot)"),
    "image: GIF bomb": ("x.gif", gif_bomb, 1,
        "x.gif: needs 16 GiB of memory to be decoded, but the limit is 768 MiB; raise --max-memory"),
    "image: TIFF bomb": ("x.tif", tiff_bomb, 1, "x.tif: needs ..."),
    "image: PostScript": ("x.eps", lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 1,
        f"x.eps: is not in a format that poolcli reads ({', '.join(FORMATS)})"),
    "image: one row, a kernel of two": ("x.png", lambda: black_png(4, 1), 2,
        "x.png: axis H is 1 long, kernel 2 without padding leaves no window; use --kernel 1 or --pads 1"),
}  # fmt: skip


def small_in_a_huge_chunk() -> bytes:
    """Deflated lightly, so that the chunk by itself does not look like a bomb."""
    with h5py.File("made.h5", "w") as file:
        options = {"chunks": (1, 1, 2**14, 2**14), "maxshape": (None,) * 4}
        made = file.create_dataset("a", (1, 1, 8, 8), "f4", compression="gzip", compression_opts=1, **options)
        made.id.write_direct_chunk((0, 0, 0, 0), zlib.compress(bytes(2**20)) + bytes(2**21))
    return taken("made.h5")


def chunk_that_lies() -> bytes:
    """A chunk of 256 bytes whose deflated stream goes on for 256 MiB."""
    deflate = zlib.compressobj(9)
    stream = b"".join(deflate.compress(bytes(2**20)) for _ in range(256)) + deflate.flush()
    with h5py.File("made.h5", "w") as file:
        made = file.create_dataset("a", (1, 1, 8, 8), "f4", chunks=(1, 1, 8, 8), compression="gzip")
        made.id.write_direct_chunk((0, 0, 0, 0), stream)
    return taken("made.h5")


def huge_scale() -> bytes:
    with h5py.File("made.h5", "w") as file:
        array = file.create_dataset("a", (1, 1, 2**27), "u1", chunks=(1, 1, 2**16))
        scale = file.create_dataset("scale", (2**27,), "f8", chunks=(2**16,))
        scale.make_scale("scale")
        array.dims[2].attach_scale(scale)
    return taken("made.h5")


def scale_in_a_large_chunk() -> bytes:
    with h5py.File("made.h5", "w") as file:
        file["a"] = X
        scale = file.create_dataset("s", (4,), "u1", chunks=(2**28,), maxshape=(None,), compression="gzip")
        scale.id.write_direct_chunk((0,), zlib.compress(bytes(2**20)))
        scale.make_scale("s")
        file["a"].dims[3].attach_scale(scale)
    return taken("made.h5")


def taken(path: str) -> bytes:
    data = Path(path).read_bytes()
    os.unlink(path)
    return data


def lzma_broken() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.npy", saved(np.random.default_rng(0).random((1, 1, 32, 32))))
    data = stream.getvalue()
    return data[:300] + bytes(60) + data[360:]
