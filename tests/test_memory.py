"""Memory at most, measured: above a run that has next to nothing to do, no more than 1.3 times what was allowed."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import numcodecs
import numpy as np
import pytest
import tifffile
from PIL import Image

from poolcli import AdaptiveAvgPool, AvgPool, LpPool, MaxPool, RequestError, check
from poolcli.engine import WORKING_MEMORY, run
from poolcli.errors import FileError
from poolcli.formats.checks import check_json
from poolcli.formats.table import FORMATS
from tests.formats.stores import made
from tests.processes import Run, fresh

LIMIT, MIB = 100, 2**20
HALVE = ("-k", "2", "-s", "2", "-q", "--engine", "numpy")  # for which nothing is compiled
SIDE = 6_400


def npy(path: Path, shape: tuple[int, ...] = (1, 1, 2**26)) -> None:
    np.lib.format.open_memmap(path, "w+", np.uint8, shape)


def packed_npy(path: Path, count: int = 2**25) -> None:
    stream = io.BytesIO()
    np.save(stream, np.zeros((1, 1, count), np.uint8))
    path.write_bytes(gzip.compress(stream.getvalue()))


def npz(path: Path, count: int = 2**25, dtype: str = "uint8") -> None:
    np.savez_compressed(path, x=np.zeros((1, 1, count), dtype))


def many_members(path: Path, count: int = 400_000) -> None:
    """An archive whose list of members alone takes 200 MB: each is the same few bytes under a name of its own."""
    entry = struct.Struct("<4s6H3L5H2L")
    names = [b"%08x.npy" % i for i in range(count)]
    listed = b"".join(
        entry.pack(b"PK\1\2", 20, 20, 0, 0, 0, 33, 0, 0, 0, len(name), 0, 0, 0, 0, 0, 0) + name for name in names
    )
    end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(listed), 0)
    end += struct.pack("<4sLQL", b"PK\6\7", 0, len(listed), 1)
    end += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2**16 - 1, 2**16 - 1, 2**32 - 1, 2**32 - 1, 0)
    path.write_bytes(listed + end)


def overlapping_tags(path: Path, count: int = 2000, length: int = 60_000) -> None:
    """A picture whose EXIF data has many tags, all of which claim the same bytes."""
    at = 8 + 2 + 12 * count + 4
    tags = (tag for tag in range(1, count + 4) if tag not in (0x0112, 0x8769, 0x8825))
    entries = b"".join(struct.pack("<HHII", tag, 5, (length - at) // 8, at) for tag in islice(tags, count))
    data = b"II*\0" + struct.pack("<IH", 8, count) + entries + bytes(4) + b"\1" * (length - at)
    if path.suffix == ".tif":
        own = {256: 8, 257: 8, 258: 8, 259: 1, 262: 1, 273: at, 277: 1, 278: 8, 279: 64}
        fields = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in own.items()]
        others = [struct.pack("<HHII", 40_000 + i, 5, (length - at) // 8, at) for i in range(count - len(own))]
        path.write_bytes(data[:10] + b"".join([*fields, *others]) + data[at - 4 :])
        return
    Image.new("L", (64, 64)).save(path, exif=b"Exif\0\0" + data)


def hdf5(path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], **how: Any) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", shape, "u1", chunks=chunks, **how)


def zarr(path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], attributes: str = "{}") -> None:
    about = {
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "uint8", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}],
    }  # fmt: skip
    path.mkdir()
    (path / "zarr.json").write_text(f'{json.dumps(about)[:-1]}, "attributes": {attributes}}}')


def zarr_bomb(path: Path) -> None:
    """A chunk of 64 bytes that unpacks to 400 MB, with a filter that zarrs leaves to zarr-python."""
    about = {
        "zarr_format": 2, "shape": (1, 1, 8, 8), "chunks": (1, 1, 8, 8), "dtype": "|u1", "fill_value": 0, "order": "C",
        "compressor": {"id": "zstd", "level": 0}, "filters": [{"id": "delta", "dtype": "|u1"}],
    }  # fmt: skip
    path.mkdir()
    (path / ".zarray").write_text(json.dumps(about))
    (path / "0.0.0.0").write_bytes(numcodecs.Zstd().encode(bytes(400 * MIB)))  # noqa: S104  # a chunk


def zarr_axis(path: Path, values: Any, chunk: bytes = b"", **how: Any) -> None:
    """A small array with values along an axis, of which the first chunk unpacks to these bytes, if there are any."""
    x = np.zeros((1, 1, 8, 8), np.uint8)
    for key, array in (("t", x), ("x", values)):
        names = {"_ARRAY_DIMENSIONS": ["n", "c", "y", "x"][-array.ndim :]}
        made(str(path), array, key=key, chunks=(1,) * array.ndim, attributes=names, **how)
    if chunk:
        (path / "x/c").mkdir(exist_ok=True)
        (path / "x/c/0").write_bytes(numcodecs.Zstd().encode(chunk))


def safetensors(path: Path) -> None:
    entries = {f"x{i}": {"dtype": "U8", "shape": [1, 1, 1], "data_offsets": [0, 1]} for i in range(25_000)}
    text = json.dumps(entries).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0")


def picture(path: Path, mode: str = "RGB") -> None:
    Image.new(mode, (SIDE, SIDE)).save(path, speed=10, method=0)  # of AVIF and WebP, the fastest


def qoi(path: Path) -> None:
    """Black pixels in runs of 62, the longest that there are."""
    runs, rest = divmod(SIDE**2, 62)
    header = b"qoif" + struct.pack(">IIBB", SIDE, SIDE, 3, 0)
    path.write_bytes(header + b"\xfd" * runs + bytes([0xC0 + rest - 1]) + bytes(7) + b"\1")


def frames(path: Path) -> None:
    first, *others = (Image.new("P", (2000, 2000), i % 2) for i in range(30))
    first.save(path, save_all=True, append_images=others)


def pages(path: Path) -> None:
    tifffile.imwrite(
        path, np.zeros((150, 400, 400), np.uint8), compression="zlib", metadata=None, photometric="minisblack"
    )


def bzip2_npz(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive, archive.open("x.npy", "w") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": (1, 1, 8)})
        for _ in range(2 * LIMIT):
            stream.write(bytes(MIB))


def profile_png(path: Path) -> None:
    """A picture of which a profile takes 600 MiB: one compressed block many times."""
    packed, checksum = zlib.compressobj(9, wbits=-15), 1
    block = packed.compress(bytes(MIB)) + packed.flush(zlib.Z_FULL_FLUSH)
    for _ in range(600):
        checksum = zlib.adler32(bytes(MIB), checksum)
    body = b"iCCP" + b"a\0\0" + b"\x78\xda" + block * 600 + packed.flush() + checksum.to_bytes(4, "big")
    stream = io.BytesIO()
    Image.new("L", (8, 8)).save(stream, "PNG")
    data = stream.getvalue()
    chunk = (len(body) - 4).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    path.write_bytes(data[:33] + chunk + data[33:])


# Of each format what is large in it: the name of the file, and how it is made.
CASES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "npy: a long axis": ("x.npy", npy),
    "npy.gz: a long axis": ("x.npy.gz", packed_npy),
    "npz: float16": ("x.npz", lambda p: npz(p, 2**23, "float16")),
    "npz: bzip2": ("x.npz", bzip2_npz),
    "npz: many members": ("x.npz", many_members),
    "hdf5: many chunks": ("x.h5", lambda p: hdf5(p, (1, 1, 400, 400), (1, 1, 1, 1))),
    "hdf5: a long axis": ("x.h5", lambda p: hdf5(p, (1, 1, 2**24), (1, 1, 2**19))),
    "hdf5: large chunks": ("x.h5", lambda p: hdf5(p, (1, 1, 2**26), (1, 1, 2**26), compression="gzip")),
    "zarr: a long axis": ("x.zarr", lambda p: zarr(p, (1, 1, 2**24), (1, 1, 2**19))),
    "zarr: a large document": (
        "x.zarr", lambda p: zarr(p, (1, 1, 8), (1, 1, 8), f'{{"a": [{"{}," * 2**21}0]}}'),
    ),
    "zarr: a chunk that unpacks to more": ("x.zarr", zarr_bomb),
    "zarr: chunks larger than the array": (
        "x.zarr", lambda p: made(str(p), np.ones((16, 1, 8, 8), np.uint8), chunks=(1, 1, 6000, 6000)),
    ),
    "zarr: values along an axis": ("x.zarr", lambda p: zarr_axis(p, np.arange(8.0), bytes(400 * MIB))),
    "zarr: texts along an axis": (
        "x.zarr", lambda p: zarr_axis(p, np.array([*"abcdefgh"], np.dtypes.StringDType()), b"\xff\xff\xff\7aaaa"),
    ),
    "zarr: long texts along an axis": ("x.zarr", lambda p: zarr_axis(p, np.zeros(8, "<U5000000"), zarr_format=2)),
    "safetensors: a large header": ("x.safetensors", safetensors),
    "png": ("x.png", picture),
    "png: a profile": ("x.png", profile_png),
    "png: frames": ("y.png", frames),
    "jpeg": ("x.jpg", picture),
    "tiff": ("x.tif", picture),
    "tiff: pages": ("y.tif", pages),
    "tiff: tags that overlap": ("x.tif", overlapping_tags),
    "jpeg: tags that overlap": ("x.jpg", overlapping_tags),
    "webp: tags that overlap": ("x.webp", overlapping_tags),
    "bmp": ("x.bmp", picture),
    "webp": ("x.webp", picture),
    "ppm": ("x.ppm", picture),
    "gif": ("x.gif", lambda p: picture(p, "L")),
    "gif: frames": ("y.gif", frames),
    "jpeg2000": ("x.jp2", picture),
    "avif": ("x.avif", picture),
    "heif": ("x.heic", lambda p: _heif(p)),
    "qoi": ("x.qoi", qoi),
    "sgi": ("x.sgi", picture),
    "dds": ("x.dds", picture),
    "tga": ("x.tga", picture),
}  # fmt: skip
OTHERS = {"matlab": "is read by the module of hdf5"}


def _heif(path: Path) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.register_heif_opener()
    Image.new("RGB", (2800, 2800)).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@cache
def idle_peak() -> int:
    """The peak of a run on an array of a few elements, in KiB."""
    with TemporaryDirectory() as place:
        folder = Path(place, "work")
        folder.mkdir()
        np.save(folder / "x.npy", np.zeros((1, 1, 8, 8), np.uint8))
        return fresh(folder, "avg", "x.npy", "-o", "y.npy", *HALVE, timeout=120).peak


def taken(folder: Path, *words: str) -> tuple[Run, float]:
    """A run, and the MiB that it takes above one on an array of a few elements."""
    result = fresh(folder, *words, timeout=120)
    return own(result), (result.peak - idle_peak()) / 1024


def own(result: Run) -> Run:
    """The run without what libraries print: old versions of numcodecs warn that something is deprecated."""
    return replace(result, err="".join(line for line in result.err.splitlines(True) if line.startswith("poolcli: ")))


def test_every_format_that_is_read_has_a_case() -> None:
    named = {name.partition(":")[0] for name in CASES} | OTHERS.keys()
    assert named == {*FORMATS}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_reader_takes_more_than_was_allowed(name: str, folder: Path) -> None:
    path, make = CASES[name]
    make(folder / path)
    result, peak = taken(folder, "avg", path, "-o", "y.npy", *HALVE, "--max-memory", f"{LIMIT}M")
    assert peak <= 1.3 * LIMIT, (name, result)
    if result.code:
        assert result.err.count("\n") == 1
        assert any(
            word in result.err
            for word in ("--max-memory", "--dataset", "too large", "is not a readable .npz file", "decompression bomb")
        )
    # Without the option, small files take no half GiB; of others, no bound is promised.
    if not (folder / path).is_file() or (folder / path).stat().st_size < MIB:
        result, peak = taken(folder, "avg", path, "-o", "y2.npy", *HALVE)
        assert peak <= 512, (path, result)
        assert result.code == 0 or result.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "limit", "engine"), [("avg", 64, "numba"), ("max", 100, "numba"), ("avg", 200, "numpy")]
)
def test_a_long_axis_takes_no_more_than_was_allowed(op: str, limit: int, engine: str, folder: Path) -> None:
    npz(folder / "x.npz", 2**25)
    more = ("--engine", engine, "--max-memory", f"{limit}M")
    if engine == "numba":  # compiled now, so that compiling is not counted
        np.savez(folder / "few.npz", x=np.zeros((1, 1, 2**20), np.uint8))
        assert fresh(folder, op, "few.npz", "-o", "few-y.npz", *HALVE[:5], "--engine", engine, timeout=120).code == 0
    result, peak = taken(folder, op, "x.npz", "-o", "y.npz", *HALVE[:5], *more)
    assert peak <= 1.3 * limit
    assert result.code == (limit == 64)
    if result.code:
        assert result.err.startswith(
            "poolcli: x.npz: needs 80 MiB of memory, but the limit is 64 MiB; raise --max-memory"
        )


@pytest.mark.slow
def test_what_engines_take_beside_an_array_is_counted() -> None:
    x = np.zeros((1, 1, 2**24), np.uint8)
    for op in (
        AvgPool(2, strides=2),
        MaxPool(2, strides=2),
        AvgPool(7, strides=1),
        AdaptiveAvgPool(2**20),
        LpPool(2, strides=2),
    ):
        dtype = "float32" if op.name == "lp" else "uint8"
        plan = op.plan(x.shape, dtype)
        out = np.empty(plan.output_shape, dtype)
        x = x.astype(dtype, copy=False)
        tracemalloc.start()
        run(plan, x, out=out, engine="numpy")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= WORKING_MEMORY, (op, peak)


@pytest.mark.slow
def test_a_model_of_much_json_is_refused(folder: Path) -> None:
    with zipfile.ZipFile(folder / "x.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/models/model.json", f"[{'{},' * 2**25}0]")
    result, peak = taken(folder, "check", "x.pt2")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "MiB of JSON, which may take " in result.err
    assert peak <= 1024


def onnx_model(path: Path, nodes: list[Any], lengths: list[int], functions: list[Any] | None = None) -> None:
    from onnx import helper

    given = helper.make_tensor_value_info("v0", 1, lengths)
    made = helper.make_model(helper.make_graph(nodes, "g", [given], []), functions=functions)
    made.opset_import.add(domain="own", version=1)
    path.write_bytes(made.SerializeToString())


def chain(kind: str, inputs: int, count: int) -> list[Any]:
    from onnx import helper

    return [helper.make_node(kind, [f"v{i}"] * inputs, [f"v{i + 1}"]) for i in range(count)]


def ir(path: Path, layers: str) -> None:
    path.write_text(f'<net name="x" version="11"><layers>{layers}</layers></net>')


MANY_ATTRIBUTES = " ".join(f"a{i:x}=''" for i in range(90_000))
MODELS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "onnx: axes that double": ("x.onnx", lambda p: onnx_model(p, chain("Gather", 2, 30), [1] * 4)),
    "onnx: many axes": ("x.onnx", lambda p: onnx_model(p, chain("Relu", 1, 20_000), [1] * 10_000)),
    "ir: layers": ("x.xml", lambda p: ir(p, '<layer type="MaxPool"/>' * 40_000)),
    "ir: attributes": ("x.xml", lambda p: ir(p, f'<layer type="MaxPool"><data {MANY_ATTRIBUTES}/></layer>')),
    "ir: a dynamic shape": (
        "x.xml", lambda p: ir(p, f'<layer type="MaxPool"><input><port>{"<dim/>" * 150_000}</port></input></layer>'),
    ),
    "tflite: a claim": ("x.tflite", lambda p: p.write_bytes(b"\x10\0\0\0TFL3" + bytes(8) + b"\xff" * 900_000)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_small_model_takes_no_gibibyte(name: str, folder: Path) -> None:
    path, make = MODELS[name]
    make(folder / path)
    assert (folder / path).stat().st_size < MIB
    result, peak = taken(folder, "check", path)
    assert peak <= 1024, (name, result)
    assert result.code != 2 or result.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["1M", 2**20])
def test_check_in_python_has_the_limit_of_the_command(
    limit: int | str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for names, text, said in (
        (["x/models/model.json"], f"[{'{},' * 2**15}0]", "of JSON, which may take"),
        (["x/models/model.json"], " " * 2**20, "reading its JSON takes"),
        ([f"x/{i}" for i in range(1100)], "", "its list of members may take"),
    ):
        with zipfile.ZipFile(folder / "x.pt2", "w") as archive:
            for name in names:
                archive.writestr(name, text)
        with pytest.raises(RequestError, match=rf" {said} .* the limit is 1 MiB; raise max_memory$"):
            check(folder / "x.pt2", max_memory=limit)
    onnx_model(folder / "x.onnx", chain("Gather", 2, 30), [1] * 4)
    with pytest.raises(RequestError, match=r"inferring its shapes takes more memory than the limit, 1 MiB; "):
        check(folder / "x.onnx", max_memory=limit)
    assert capfd.readouterr() == ("", "")  # nor what C libraries print
    ir(folder / "x.xml", '<layer type="MaxPool"/>' * 10)
    assert len(check(folder / "x.xml", max_memory=limit)) == 10
    ir(folder / "x.xml", '<layer type="MaxPool"/>' * 1_000)
    with pytest.raises(RequestError, match=r"its layers take more memory than the limit, 1 MiB; raise max_memory$"):
        check(folder / "x.xml", max_memory=limit)


@pytest.mark.parametrize("value", [0, -5, "much"])
def test_what_is_no_size_is_refused(value: Any) -> None:
    with pytest.raises(RequestError) as refused:
        check("samples/backbone.xml", max_memory=value)
    assert str(refused.value) == f"max_memory is '{value}'; write a size such as 500M or 4G"


@pytest.mark.parametrize("unit", ["{},", '"ab",', "0.5,", '{"":{}},'])
def test_what_json_may_take_is_no_less_than_it_takes(unit: str) -> None:
    text = f"[{unit * 50_000}0]".encode()
    tracemalloc.start()
    found = json.loads(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) > 50_000
    with pytest.raises(FileError, match=r"^x: .* of JSON, which may take "):
        check_json("x", text, max(peak, 2**20), peak)
