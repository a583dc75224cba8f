"""The table of file formats: names, extensions, magic numbers and capabilities. Each format is a module and a row."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.suggestions import OTHER_OUTPUTS, did_you_mean
from poolcli.system.lazy_imports import loading


@dataclass(frozen=True, slots=True)
class Naming:
    """The rules for names of arrays in a container format."""

    default: str = "data"  # name of an array without one
    reserved: tuple[str, ...] = ()  # names that the format itself uses
    nested: bool = False  # whether a slash separates groups
    any_bytes: bool = False  # whether names may be bytes that are not UTF-8


@dataclass(frozen=True, slots=True)
class Format:
    """A file format and its capabilities. poolcli reads every format."""

    name: str  # in messages
    suffixes: tuple[str, ...]
    module: str  # with its functions
    magic: tuple[bytes, ...] = ()
    magic_at: int = 0  # offset of the magic numbers
    markers: tuple[str, ...] = ()  # of a format that is a folder: names of which one is in each such folder
    writes: bool = True
    is_container: bool = False  # whether a file holds several arrays
    naming: Naming = Naming()
    is_image: bool = False  # with channels and pages
    streams: bool = False  # whether inputs are usually read region by region
    streams_from: float = inf  # number of elements from which outputs are written region by region
    compresses: bool = False  # whether outputs are compressed, but for inputs that say otherwise (`Header.compressed`)
    chunked: bool = False  # whether chunks can be chosen
    lossy: bool = False  # whether a quality can be chosen
    remote: bool = False  # whether it is read and written at URLs
    parallel_writes: bool = False  # whether several processes can write an output, and later runs continue it
    fragile: bool = False  # whether its library may crash the process
    unsupported_dtypes: tuple[str, ...] = ("bfloat16",)
    nodata: str = ""  # where files declare nodata values: `attributes` or `tags`
    written_as: str = ""  # of a format that is only read: the extension of outputs in a folder run

    @property
    def is_folder(self) -> bool:
        """Whether the format is a folder, which counts as one input or output."""
        return bool(self.markers)

    @property
    def functions(self) -> Any:
        """Its module, imported when first used: `open_array` or `open_container`, also `write` and `open_writer`."""
        with loading():
            return import_module(self.module)


def _image(name: str, suffixes: tuple[str, ...], *magic: bytes, **more: Any) -> Format:
    more |= {} if more.get("writes", True) else {"written_as": ".png"}
    return Format(name, suffixes, "poolcli.formats.image", magic, is_image=True, **more)


# HDF5 outputs of up to 2**25 elements are built in memory, because HDF5 crashes when the disk is full.
FORMATS: dict[str, Format] = {
    row.name: row
    for row in (
        Format("npy", (".npy",), "poolcli.formats.npy", (b"\x93NUMPY",), streams=True, streams_from=0),
        Format("npy.gz", (".npy.gz",), "poolcli.formats.npy", (b"\x1f\x8b",), writes=False, written_as=".npy"),
        Format(
            "npz", (".npz",), "poolcli.formats.npz", (b"PK\x03\x04", b"PK\x05\x06"),
            is_container=True, compresses=True, naming=Naming("arr_0"),
        ),
        Format(
            "hdf5", (".h5", ".hdf5", ".nc"), "poolcli.formats.hdf5", (b"\x89HDF\r\n\x1a\n",),
            is_container=True, streams=True, streams_from=2**25 + 1, fragile=True, nodata="attributes",
            naming=Naming(nested=True, any_bytes=True),
        ),
        Format(
            "matlab", (".mat",), "poolcli.formats.hdf5", (b"MATLAB 7.3",),
            writes=False, is_container=True, streams=True, fragile=True, nodata="attributes", written_as=".h5",
        ),
        Format(
            "zarr", (".zarr",), "poolcli.formats.zarr", markers=("zarr.json", ".zarray", ".zgroup"),
            is_container=True, streams=True, streams_from=0, compresses=True, chunked=True, remote=True,
            parallel_writes=True, nodata="attributes",
            naming=Naming("", ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"), nested=True),
        ),
        # The upper bytes of the header's length, and the start of its JSON.
        Format(
            "safetensors", (".safetensors",), "poolcli.formats.safetensors", (b'\0\0\0{"',), 5,
            is_container=True, streams=True, unsupported_dtypes=(), naming=Naming(reserved=("__metadata__",)),
        ),
        _image("png", (".png", ".apng"), b"\x89PNG\r\n\x1a\n", compresses=True),
        _image("jpeg", (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"), b"\xff\xd8\xff", compresses=True, lossy=True),
        _image("tiff", (".tif", ".tiff"), b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+", nodata="tags"),
        _image("bmp", (".bmp",), b"BM"),
        _image("webp", (".webp",), b"WEBP", magic_at=8, compresses=True, lossy=True),
        _image("ppm", (".ppm", ".pgm", ".pbm", ".pnm"), *(b"P%d" % i for i in range(1, 8))),
        _image("gif", (".gif",), b"GIF8", compresses=True),
        _image("jpeg2000", (".jp2", ".j2k"), b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51", writes=False),
        # The `ftyp` box (ISO/IEC 14496-12) after its length, with the brand of the image.
        _image("avif", (".avif", ".avifs"), b"ftypavif", b"ftypavis", magic_at=4, writes=False),
        _image(
            "heif", (".heic", ".heif", ".hif"), b"ftypheic", b"ftypheix", b"ftypheim", b"ftypheis", b"ftyphevc",
            b"ftypmif1", b"ftypmsf1", magic_at=4, writes=False,
        ),
        _image("qoi", (".qoi",), b"qoif", writes=False),
        _image("sgi", (".sgi",), b"\x01\xda", writes=False),
        _image("dds", (".dds",), b"DDS ", writes=False),
        _image("tga", (".tga",), writes=False),
    )
}  # fmt: skip


class Use(NamedTuple):
    """The files that an option is for: in words, and the field of their formats that is true."""

    files: str
    has: str
    of_output: bool = True


ARRAYS = Use("files of several arrays (HDF5, netCDF, Zarr, .npz, safetensors)", "is_container", of_output=False)
USES = {
    "dataset": ARRAYS, "all": ARRAYS, "pages": Use("images", "is_image", of_output=False),
    "quality": Use(".jpg and .webp outputs", "lossy"), "rescale": Use("image outputs", "is_image"),
    "chunks": Use(".zarr outputs", "chunked"), "shards": Use(".zarr outputs", "chunked"),
}  # fmt: skip

MAGIC_LENGTH = max(row.magic_at + len(magic) for row in FORMATS.values() for magic in row.magic)  # bytes


def suffixes_of(wanted: Callable[[Format], bool]) -> tuple[str, ...]:
    """The extensions of the formats for which `wanted` is true, in the order of the table."""
    return tuple(suffix for row in FORMATS.values() if wanted(row) for suffix in row.suffixes)


def format_by_magic(start: bytes) -> Format | None:
    """The format whose magic number the bytes start with; None if there is none."""
    return next((row for row in FORMATS.values() if start.startswith(row.magic, row.magic_at)), None)


def format_by_suffix(path: str) -> Format | None:
    """The format that has the extension of `path`; None without one."""
    name = Path(path).name.lower()
    return next((row for row in FORMATS.values() if name.endswith(row.suffixes)), None)


def without_suffix(path: str) -> str:
    """`path` without the extension of its format, such as `.npy.gz`, or else without its last extension."""
    row = format_by_suffix(path)
    longest = max((s for s in row.suffixes if path.lower().endswith(s)), key=len) if row else Path(path).suffix
    return path[: len(path) - len(longest)]


def output_format(path: str, source: str = "") -> Format:
    """The format of an output by its extension; `-` is .npy on standard output. `source` is the input's path."""
    row = FORMATS["npy"] if path == "-" else format_by_suffix(path)
    if row is not None and row.writes:
        return row
    suffix, suffixes = Path(path).suffix.lower(), suffixes_of(lambda row: row.writes)
    suffix = "".join(Path(path.lower()).suffixes[-2:]) if suffix == ".gz" else suffix
    if not suffix and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise RequestError(f"{path}: is not a file; send it a .npy stream: {field('output', '-')} > {path}")
    if not suffix:
        kind = format_by_suffix(source) or FORMATS["npy"]
        named = path + (kind.written_as or source[len(without_suffix(source)) :] or ".npy")
        raise RequestError(f"{path}: has no extension that names a format; write {named}, or {path}/ for a folder")
    if suffix in OTHER_OUTPUTS:
        array = f"{path.removesuffix(Path(path).suffix)}.npy"
        turned = ".T" if format_by_suffix(source) is FORMATS["matlab"] else ""  # of which axes are read in reverse
        remedy = f"write {array}, then in Python: {OTHER_OUTPUTS[suffix].format(path, array, turned)}"
    else:
        remedy = f"use one of {', '.join(suffixes)}{did_you_mean(suffix, suffixes)}"
    raise RequestError(f"{path}: {suffix} is not a format that poolcli writes; {remedy}")
