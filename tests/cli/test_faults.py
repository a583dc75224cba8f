"""The catalogue of faults: what goes wrong, the whole message, the exit code, and that nothing else is touched.

Every row runs as a process of its own. Beside its message it must hold that there is no traceback and no death by a
signal, at most three lines on standard error, no output and no temporary file, the input as it was, and no more
memory than a run that has nothing to refuse and 64 MB.
"""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from tests.processes import forked, fresh
from tests.profiles import sized

ALLOWANCE = 64 * 1024  # KiB
POOL = ("-o", "y.npy", "-k", "2", "-s", "2")
X = np.zeros((1, 1, 4, 4), np.float32)


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


def png(width: int, height: int, data: bytes | None = None, bits: int = 8) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    body = zlib.compress(data if data is not None else (b"\0" + b"\0" * width * 3) * height)
    head = struct.pack(">IIBBBBB", width, height, bits, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


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
    data = bytearray(png(4, 4))
    place = data.index(b"IEND") - 5
    data[place] ^= 0xFF
    return bytes(data)


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def gif_bomb() -> bytes:
    return (
        b"GIF89a"
        + struct.pack("<HH", 65535, 65535)
        + b"\x80\0\0"
        + b"\0" * 6
        + b","
        + struct.pack("<HHHH", 0, 0, 65535, 65535)
        + b"\0\x02\x02\x4c\x01\0;"
    )


def tiff_bomb() -> bytes:
    entries = [(256, 4, 1, 10**6), (257, 4, 1, 10**6), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8),
               (277, 3, 1, 1), (278, 4, 1, 10**6), (279, 4, 1, 10)]  # fmt: skip
    body = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries) + b"\0" * 4
    return b"II*\0" + struct.pack("<I", 8) + body


FILES: dict[str, tuple[str, Callable[[], bytes], int, str]] = {
    # .npy
    "npy: empty file": ("x.npy", lambda: b"", 1, "x.npy: is empty"),
    "npy: wrong magic": (
        "x.npy",
        lambda: b"\x94NUMPY",
        1,
        "x.npy: is not a .npy file (its first bytes are not those of one)",
    ),
    "npy: claims more than it holds": (
        "x.npy",
        lambda: npy("(1000000, 1000000)", b"\0" * 24),
        1,
        "x.npy: its header claims 3.64 TiB of data, the file holds 24 B",
    ),
    "npy: claims 2**40 elements": (
        "x.npy",
        lambda: npy("(1, 1, 1048576, 1048576)", b"\0" * 100),
        1,
        "x.npy: its header claims 4 TiB of data, the file holds 100 B",
    ),
    "npy: product beyond 64 bits": (
        "x.npy",
        lambda: npy("(4294967296, 4294967296, 1)"),
        1,
        "x.npy: its header claims 6.55e+04 PiB of data, the file holds 0 B",
    ),
    "npy: length of many digits": (
        "x.npy",
        lambda: npy("(" + "9" * 4000 + ", 1, 1)"),
        1,
        "x.npy: its header claims more than 1,000,000 PiB of data, the file holds 0 B",
    ),
    "npy: negative length": ("x.npy", lambda: npy("(-2, -3, 1)"), 1, "x.npy: its .npy header has a negative length"),
    "npy: True as a length": ("x.npy", lambda: npy("(True, 1, 1)"), 1, "x.npy: its .npy header is broken"),
    "npy: no axes": (
        "x.npy",
        lambda: saved(3.0),
        1,
        "x.npy: holds a single number; an array with at least one axis is needed",
    ),
    "npy: an empty axis": (
        "x.npy",
        lambda: saved(np.zeros((1, 1, 0, 4))),
        2,
        "x.npy: axis H of the input is 0 long, a window needs at least 1 element",
    ),
    "npy: 65 axes": (
        "x.npy",
        lambda: npy("(" + "1," * 65 + ")", b"\0" * 4),
        1,
        "x.npy: has 65 axes; at most 32 are read",
    ),
    "npy: truncated data": (
        "x.npy",
        lambda: saved()[:-3],
        1,
        "x.npy: its header claims 64 B of data, the file holds 61 B",
    ),
    "npy: truncated header": ("x.npy", lambda: saved()[:50], 1, "x.npy: ends inside its .npy header"),
    "npy: header of 4 GiB": (
        "x.npy",
        lambda: b"\x93NUMPY\x02\x00" + b"\xff" * 4,
        1,
        "x.npy: its .npy header claims 4 GiB; at most 64 KiB are read",
    ),
    "npy: deep nesting": ("x.npy", lambda: npy("(" * 5000 + ")" * 5000), 1, "x.npy: its .npy header is broken"),
    "npy: NUL in the header": ("x.npy", lambda: npy("(1,\0 1)"), 1, "x.npy: its .npy header is broken"),
    "npy: objects": (
        "x.npy",
        lambda: npy("(1,)", b"cos\nsystem\n(S'touch pwned'\ntR.", "'|O'"),
        1,
        "x.npy: holds Python objects (pickle), which poolcli never loads; store numbers instead",
    ),
    "npy: structure": (
        "x.npy",
        lambda: saved(np.zeros(3, [("a", "f4")])),
        1,
        "x.npy: holds a structured or unknown type; poolcli pools bool, integers and floats",
    ),
    "npy: text": (
        "x.npy",
        lambda: saved(np.array(["a"])),
        1,
        "x.npy: holds type U8; poolcli pools bool, integers and floats of 16, 32 or 64 bits",
    ),
    "npy: complex": (
        "x.npy",
        lambda: saved(np.zeros((1, 1, 4), np.complex64)),
        1,
        "x.npy: holds type c64; poolcli pools bool, integers and floats of 16, 32 or 64 bits",
    ),
    "npy: nothing of 10**12 elements": (
        "x.npy",
        lambda: npy("(1000000000000,)", descr="'|S0'"),
        1,
        "x.npy: holds type S0; poolcli pools bool, integers and floats of 16, 32 or 64 bits",
    ),
    # .npz
    "npz: truncated": ("x.npz", lambda: zipped({"a.npy": saved()})[:60], 1, "x.npz: is not a readable .npz file ..."),
    "npz: a bomb": (
        "x.npz",
        lambda: zipped({"a.npy": npy("(1, 1, 8192, 8192)", bytes(2**28))}),
        1,
        "x.npz:a: grows from 255 KiB to 256 MiB when it is read, which may be a "
        "decompression bomb; if it is meant to, allow it with --max-memory",
    ),
    "npz: a member that claims terabytes": (
        "x.npz",
        lambda: zipped({"a.npy": npy("(1, 1000000, 1000000)")}),
        1,
        "x.npz:a: its header claims 3.64 TiB of data, the file holds 85 B",
    ),
    "npz: doubled member": ("x.npz", lambda: doubled(), 1, "x.npz: holds two members called a.npy; it is ambiguous"),
    "npz: no member": ("x.npz", lambda: zipped({}), 1, "x.npz: holds no array that can be pooled"),
    "npz: a member that is no array": (
        "x.npz",
        lambda: zipped({"readme.txt": b"hello"}),
        1,
        "x.npz: holds no array that can be pooled",
    ),
    "npz: bad checksum": (
        "x.npz",
        lambda: flipped(zipped({"a.npy": saved(np.arange(48.0).reshape(1, 3, 16))}), 70),
        1,
        "x.npz: is not a readable .npz file ...",
    ),
    "npz: broken LZMA": ("x.npz", lambda: lzma_broken(), 1, "x.npz: is not a readable .npz file (Corrupt input data)"),
    # HDF5
    "hdf5: truncated": ("x.h5", lambda: hdf5(a={"data": X})[:1000], 1, "x.h5: HDF5 cannot read or write it: ..."),
    "hdf5: signature only": (
        "x.h5",
        lambda: b"\x89HDF\r\n\x1a\n" + bytes(100),
        1,
        "x.h5: HDF5 cannot read or write it: ...",
    ),
    "hdf5: fill values by the terabyte": (
        "x.h5",
        lambda: hdf5(a={"shape": (1, 2**20, 2**20), "dtype": "f4", "chunks": (1, 64, 64)}),
        1,
        "x.h5:/a: grows from 0 B to 4 TiB when it is read, which may be a decompression "
        "bomb; if it is meant to, allow it with --max-memory",
    ),
    "hdf5: one huge chunk": (
        "x.h5",
        lambda: hdf5(a={"shape": (1, 2**15, 2**15), "dtype": "f4", "chunks": (1, 2**14, 2**15)}),
        1,
        "x.h5:/a: grows from 0 B to 4 GiB when it is read, which may be a decompression "
        "bomb; if it is meant to, allow it with --max-memory",
    ),
    "hdf5: one huge chunk for a small array": (
        "x.h5",
        lambda: small_in_a_huge_chunk(),
        1,
        "x.h5:/a: grows from 256 B to 1 GiB when it is read, which may be a decompression "
        "bomb; if it is meant to, allow it with --max-memory",
    ),
    "hdf5: a chunk that unpacks to more than it says": (
        "x.h5",
        lambda: chunk_that_lies(),
        1,
        "x.h5:/a: has a chunk of 256 B that is stored in 255 KiB",
    ),
    "hdf5: a scale of gigabytes": (
        "x.h5",
        lambda: huge_scale(),
        1,
        "x.h5:/scale: grows from 0 B to 1 GiB when it is read, which may be a decompression "
        "bomb; if it is meant to, allow it with --max-memory",
    ),
    "hdf5: text only": ("x.h5", lambda: hdf5(a={"data": "text"}), 1, "x.h5: holds no array that can be pooled"),
    "hdf5: compound": (
        "x.h5",
        lambda: hdf5(a={"data": np.zeros(3, [("a", "f4")])}),
        1,
        "x.h5: holds no array that can be pooled",
    ),
    "hdf5: external storage": (
        "x.h5",
        lambda: hdf5(a={"shape": (1, 1, 4), "dtype": "u1", "external": [("/etc/passwd", 0, 4)]}),
        1,
        "x.h5:/a: keeps its data in other files (/etc/passwd); --allow-external reads them",
    ),
    # images
    "image: not one": (
        "x.png",
        lambda: b"hello, world",
        1,
        "x.png: is not an image that poolcli reads (PNG, JPEG, TIFF, BMP, WEBP, PPM, GIF, "
        "JPEG2000, AVIF, HEIF, QOI, SGI, DDS, TGA)",
    ),
    "image: truncated PNG": ("x.png", lambda: image("PNG")[:900], 1, "x.png: the image cannot be read or written: ..."),
    "image: truncated JPEG": (
        "x.jpg",
        lambda: image("JPEG")[:500],
        1,
        "x.jpg: the image cannot be read or written: ...",
    ),
    "image: truncated GIF": (
        "x.gif",
        lambda: image("GIF", "L")[:900],
        1,
        "x.gif: the image cannot be read or written: ...",
    ),
    "image: truncated TIFF": (
        "x.tif",
        lambda: image("TIFF")[:2000],
        1,
        "x.tif: the image cannot be read or written: ...",
    ),
    "image: bad checksum": ("x.png", bad_crc, 1, "x.png: the image cannot be read or written: ..."),
    "image: PNG bomb": (
        "x.png",
        lambda: png(100_000, 100_000, b"\0" * 1000),
        1,
        "x.png: has 10,000,000,000 pixels; at most 178,956,970 are read (decompression "
        "bomb?); --max-pixels sets the limit",
    ),
    "image: GIF bomb": (
        "x.gif",
        gif_bomb,
        1,
        "x.gif: has 4,294,836,225 pixels; at most 178,956,970 are read (decompression "
        "bomb?); --max-pixels sets the limit",
    ),
    "image: TIFF bomb": (
        "x.tif",
        tiff_bomb,
        1,
        "x.tif: has 1,000,000,000,000 pixels; at most 178,956,970 are read (decompression "
        "bomb?); --max-pixels sets the limit",
    ),
    "image: PostScript": (
        "x.eps",
        lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        1,
        "x.eps: is none of the formats that poolcli reads (npy, npy.gz, npz, hdf5, matlab, zarr, safetensors, png, "
        "jpeg, tiff, bmp, webp, ppm, gif, jpeg2000, avif, heif, qoi, sgi, dds, tga)",
    ),
    "image: one row, a kernel of two": (
        "x.png",
        lambda: png(4, 1),
        2,
        "x.png: axis H is 1 long, kernel 2 without padding leaves no window; use --kernel 1 or --pads 1",
    ),
}


def doubled() -> bytes:
    return zipped({"a.npy": saved(), "b.npy": saved()}).replace(b"b.npy", b"a.npy")


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


poolcli = sized(forked, fresh)  # what starts in a tenth of the time, or what a user starts


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Peak memory of runs that have something to do, of each family of formats."""
    folder = tmp_path_factory.mktemp("idle") / "work"
    folder.mkdir()
    np.save(folder / "x.npy", X)
    Image.new("RGB", (8, 8)).save(folder / "x.png")
    with h5py.File(folder / "x.h5", "w") as file:
        file["a"] = X
    return max(poolcli(folder, "avg", f"x.{s}", "-o", f"{s}.npy", "-k", "2", "-q").peak for s in ("npy", "png", "h5"))


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_one_clear_line(name: str, idle: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path, make, code, message = FILES[name]
    data = make()
    Path(path).write_bytes(data)
    done = poolcli(folder, "avg", path, *POOL)
    said = done.err
    expected = f"poolcli: {message}\n"
    if message.endswith("..."):  # then a library goes on in its own words
        expected = expected[:-4] + said[len(expected) - 4 :]
    assert (done.code, done.out, said) == (code, b"", expected)
    assert len(said.splitlines()) <= 3
    assert "Traceback" not in said
    assert Path(path).read_bytes() == data
    assert os.listdir() == [path]
    assert done.peak < idle + ALLOWANCE


TOGETHER: dict[str, tuple[str, Callable[[], bytes], tuple[str, ...], str]] = {
    "more than 256 MiB, each less": (
        "x.npz",
        lambda: zipped({f"{i}.npy": npy("(1, 1, 4096, 4096)", bytes(2**26)) for i in range(5)}),
        (),
        "x.npz: grows from 319 KiB to 320 MiB when it is read, which may be a decompression "
        "bomb; if it is meant to, allow it with --max-memory",
    ),
    "more than the limit": (
        "x.npz",
        lambda: zipped({f"{i}.npy": npy("(1, 1, 1024, 1024)", bytes(2**22)) for i in range(5)}),
        ("--max-memory", "16M"),
        "x.npz: its 5 arrays need 25 MiB of memory together, the limit is 16 MiB; raise "
        "--max-memory or take fewer with --dataset",
    ),
    "more than 256 MiB of fill values": (
        "x.h5",
        lambda: hdf5(**{name: {"shape": (1, 2**13, 2**13), "dtype": "u2", "chunks": (1, 64, 64)} for name in "abc"}),
        (),
        "x.h5: grows from 1.9 KiB to 384 MiB when it is read, which may be a decompression "
        "bomb; if it is meant to, allow it with --max-memory",
    ),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_arrays_that_are_too_large_together_are_refused(
    name: str, idle: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path, make, arguments, message = TOGETHER[name]
    Path(path).write_bytes(make())
    done = poolcli(folder, "avg", path, "-o", f"y.{path}", "-k", "2", "-s", "2", "--all", *arguments)
    assert (done.code, done.err) == (1, f"poolcli: {message}\n")
    assert os.listdir() == [path]
    assert done.peak < idle + ALLOWANCE


STREAMS = {
    "no array": (b"", "-: is not a .npy file (its first bytes are not those of one)"),
    "more than the limit": (npy("(1, 1, 1024, 65536)"), "-: needs 320 MiB of memory, the limit is 100 MiB; ..."),
    "nothing, of a shape that cannot be": (npy("(0, 1, 4611686018427387904, 4)"), "-: is empty, in a shape ..."),
    "less than it claims": (npy("(1, 1, 1024, 1024)", bytes(24)), "-: its header claims 4 MiB of data, ..."),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_read_no_further_than_it_is_worth(name: str, idle: int, tmp_path: Path) -> None:
    """What comes first is looked at first: an endless stream that begins with no header that is good ends at once."""
    head, message = STREAMS[name]
    folder = tmp_path / "work"
    folder.mkdir()
    (folder.parent / "head").write_bytes(head)
    more = [] if name == "less than it claims" else ["/dev/zero"]
    with subprocess.Popen(["cat", "../head", *more], cwd=folder, stdout=subprocess.PIPE) as stream:
        arguments = ["avg", "-", "-o", "y.npy", "-k", "2", "-s", "2", "--max-memory", "100M"]
        done = fresh(folder, *arguments, timeout=20, stdin=stream.stdout)
        stream.kill()
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert done.err.startswith("poolcli: " + message.removesuffix("..."))
    assert os.listdir(folder) == []
    assert done.peak < 100 * 1024 + ALLOWANCE


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
sys.dont_write_bytecode = True  # Python would take half a module of its own for a whole one
from poolcli.__main__ import main
main()
"""


@pytest.mark.parametrize("suffix", ["npy", "npz", "h5", "png", "tiff", "jpg"])
def test_a_disk_that_is_full_costs_the_output_and_a_line(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if suffix in ("npy", "npz", "h5"):
        np.save("x.npy", np.random.default_rng(0).random((1, 1, 128, 128)))
        source = "x.npy"
    else:
        Path("x.png").write_bytes(image("PNG", size=(200, 150)))
        source = "x.png"
    before = Path(source).read_bytes()
    command = [sys.executable, "-c", FULL, "avg", source, "-o", f"y.{suffix}", "-k", "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    assert result.returncode == 1
    assert result.stderr == f"poolcli: {source}: y.{suffix}: File too large\n"
    assert os.listdir() == [source]
    assert Path(source).read_bytes() == before


PLACES: dict[str, tuple[Callable[[], object], list[str], int, str]] = {
    "the output's folder is a file": (
        lambda: Path("file").touch(),
        ["-o", "file/y.npy"],
        1,
        "x.npy: {here}/file: is a file, and a folder is needed there",
    ),
    "the output is the input through a link": (
        lambda: os.symlink("x.npy", "link.npy"),
        ["-o", "link.npy", "--overwrite"],
        2,
        "output link.npy is the input x.npy; name another file or folder",
    ),
    "the output is the input through a hard link": (
        lambda: os.link("x.npy", "hard.npy"),
        ["-o", "hard.npy", "--overwrite"],
        2,
        "output hard.npy is the input x.npy; name another file or folder",
    ),
    "the output is a folder that is there": (lambda: os.mkdir("y.npy"), ["-o", "y.npy"], 0, ""),
    "no limit of memory": (
        lambda: None,
        ["-o", "y.npy", "--max-memory", "lots"],
        2,
        "--max-memory is 'lots'; write a size such as 500M or 4G",
    ),
    "a limit of 400 digits": (
        lambda: None,
        ["-o", "y.npy", "--max-memory", "9" * 400],
        2,
        f"--max-memory is '{'9' * 40}'; write a size such as 500M or 4G",
    ),
    "too good a quality": (
        lambda: None,
        ["-o", "y.npy", "--quality", "101"],
        2,
        "--quality is 101, it must be from 1 to 100",
    ),
    "two ways with what exists": (
        lambda: None,
        ["-o", "y.npy", "--resume", "--overwrite"],
        2,
        "--overwrite and --resume contradict each other; give one",
    ),
    "resume of a stream": (
        lambda: None,
        ["-o", "-", "--resume"],
        2,
        "--resume continues files; standard output cannot be continued",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_outputs_that_cannot_be_are_one_clear_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, arguments, code, message = PLACES[name]
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    np.save("x.npy", X)
    prepare()
    before = Path("x.npy").read_bytes()
    done = poolcli(folder, "avg", "x.npy", "-k", "2", "-q", *arguments)
    assert (done.code, done.out) == (code, b"")
    assert done.err == (f"poolcli: {message}\n".format(here=folder) if message else "")
    assert Path("x.npy").read_bytes() == before


def test_an_input_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from poolcli.cli.app import run
    from poolcli.formats import npy

    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    read = npy.Flat.read

    def changing(self: npy.Flat, region: object) -> object:
        found = read(self, region)  # type: ignore[arg-type]
        os.utime("x.npy", ns=(1, 1))
        return found

    monkeypatch.setattr(npy.Flat, "read", changing)
    assert run(["avg", "x.npy", *POOL, "-q"]) == 1
    assert os.listdir() == ["x.npy"]


def test_a_file_that_shrinks_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from poolcli.cli.app import run
    from poolcli.job import pool_file, tiles

    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((1, 1, 64, 64)))
    tile_for = tiles.tile_for

    def shrinking(*arguments: object) -> int:
        os.truncate("x.npy", 500)
        return tile_for(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(pool_file, "tile_for", shrinking)
    assert run(["avg", "x.npy", *POOL, "-q"]) == 1
    assert capsys.readouterr().err == "poolcli: x.npy: became shorter while it was being read\n"
    assert os.listdir() == ["x.npy"]
