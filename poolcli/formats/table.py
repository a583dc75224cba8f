"""The table of file formats: their names, first bytes and capabilities. A format is a module and its row here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.suggestions import did_you_mean
from poolcli.system.lazy_imports import loading

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from poolcli.formats.records import (
        ArrayContainer,
        ArrayReader,
        NamedArray,
        ReadOptions,
        RegionWriter,
        Source,
        Spec,
        WriteOptions,
    )


@dataclass(frozen=True, slots=True)
class Naming:
    """How files of a format name their arrays.

    default : the name of an array without one
    own : names that the format itself uses
    nested : whether a slash makes a group
    any_bytes : whether names need not be UTF-8
    """

    default: str = "data"
    own: tuple[str, ...] = ()
    nested: bool = False
    any_bytes: bool = False


@dataclass(frozen=True, slots=True)
class Format:
    """A format: how its files are recognized, which module knows it, and what it can do.

    name, suffixes : what it is called, and how names of its files end
    module : the module with its `Functions`
    magic, magic_at : its first bytes, and their offset
    markers : for a format that is a folder, files of which each such folder has one
    reads, writes : whether poolcli reads and writes it
    several, naming : whether a file holds several arrays, and how they are named
    adds : whether arrays can be added to a file
    picture : whether it is an image format, with channels and pages
    unequal : whether its pages may differ in size and mode
    streams : whether inputs are usually read region by region
    streams_from : the number of elements from which on outputs are written region by region; None for never
    resumable, spreads : whether an output can be continued, and written by several processes at once
    chunked, remote : whether its chunks can be chosen, and whether it is reached at URLs
    fragile : whether its library may crash the process
    lacks : number types that it cannot hold
    nodata : where its files name nodata values, which outputs of such a format keep: `attributes` or `tags`
    written_as : for a format that is not written, the suffix of outputs in a folder run
    loads : modules that it uses, if installed, which are imported before workers are forked
    plugin : the one of them that is Pillow's plugin
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    magic: tuple[bytes, ...] = ()
    magic_at: int = 0
    markers: tuple[str, ...] = ()
    reads: bool = True
    writes: bool = True
    several: bool = False
    naming: Naming = Naming()
    adds: bool = False
    picture: bool = False
    unequal: bool = False
    streams: bool = False
    streams_from: int | None = None
    resumable: bool = False
    chunked: bool = False
    remote: bool = False
    spreads: bool = False
    fragile: bool = False
    lacks: tuple[str, ...] = ("bfloat16",)
    nodata: str = ""
    written_as: str = ""
    loads: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_folder(self) -> bool:
        """Whether the format is a folder: one input, one output."""
        return bool(self.markers)

    @property
    def functions(self) -> Functions:
        """The format's module, imported when it is first used."""
        with loading():
            return cast("Functions", import_module(self.module))


class Functions(Protocol):
    """The functions of a format's module: `open_array`, and what its capabilities need: `open_container` if it holds
    several arrays, `write` if it writes, `open_writer` if it streams outputs, `holds` if it adds.
    """

    def open_array(self, source: Source, options: ReadOptions) -> AbstractContextManager[ArrayReader]:
        """Opens an input. Raises a FileError if it cannot be read."""

    def open_container(self, path: str, options: ReadOptions) -> AbstractContextManager[ArrayContainer]:
        """Opens all arrays of a file."""

    def holds(self, source: Source) -> bool:
        """Whether a file already has something of the name."""

    def write(self, path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
        """Writes arrays atomically; returns notes on what could not be kept."""

    def open_writer(self, path: str, spec: Spec, options: WriteOptions) -> AbstractContextManager[RegionWriter]:
        """Opens an output that takes an array region by region, and appears atomically."""


COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst", ".lz4")
IMAGES = "poolcli.formats.image.files"
# Pillow, with what it imports itself when it opens its first image.
PILLOW = ("PIL.Image", *(f"PIL.{name}ImagePlugin" for name in ("Bmp", "Gif", "Jpeg", "Ppm", "Png")))


def _picture(name: str, plugin: str, suffixes: tuple[str, ...], *magic: bytes, **more: Any) -> Format:
    """An image format, which Pillow reads by a plugin."""
    plugin = plugin and f"PIL.{plugin}ImagePlugin"
    loads = (*PILLOW, *((plugin,) if plugin else ()), *more.pop("loads", ()))
    more |= {} if more.get("writes", True) else {"written_as": ".png"}
    return Format(
        name, suffixes, "poolcli.formats.image.files", magic, picture=True, plugin=plugin, loads=loads, **more
    )


# The first box, of several possible lengths, with the brands of HEVC images.
_HEIF = tuple(
    bytes((0, 0, 0, length)) + b"ftyp" + brand
    for length in range(16, 64, 4)
    for brand in (b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1")
)
# HDF5 files of up to 2**25 elements are made in memory, because HDF5 crashes when the disk is full.
FORMATS: dict[str, Format] = {
    row.name: row
    for row in (
        Format(
            "npy", (".npy",), "poolcli.formats.npy", (b"\x93NUMPY",),
            streams=True, streams_from=0, resumable=True,
        ),
        Format("npy.gz", (".npy.gz",), "poolcli.formats.npy", (b"\x1f\x8b",), writes=False, written_as=".npy"),
        Format(
            "npz", (".npz",), "poolcli.formats.npz", (b"PK\x03\x04", b"PK\x05\x06"),
            several=True, naming=Naming("arr_0"),
        ),
        Format(
            "hdf5", (".h5", ".hdf5", ".nc"), "poolcli.formats.hdf5", (b"\x89HDF\r\n\x1a\n",),
            several=True, adds=True, streams=True, streams_from=2**25 + 1, fragile=True, nodata="attributes",
            naming=Naming(nested=True, any_bytes=True),
        ),
        Format(
            "matlab", (".mat",), "poolcli.formats.hdf5", (b"MATLAB 7.3",),
            writes=False, several=True, streams=True, fragile=True, nodata="attributes", written_as=".h5",
        ),
        Format(
            "zarr", (".zarr",), "poolcli.formats.zarr", markers=("zarr.json", ".zarray", ".zgroup"),
            several=True, streams=True, streams_from=0, resumable=True, chunked=True, remote=True, spreads=True,
            nodata="attributes",
            naming=Naming("", ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"), nested=True),
        ),
        # The upper bytes of the length of a header, and the JSON that it starts with.
        Format(
            "safetensors", (".safetensors",), "poolcli.formats.safetensors", (b'\0\0\0{"',), 5,
            several=True, streams=True, lacks=(), naming=Naming(own=("__metadata__",)),
        ),
        _picture("png", "Png", (".png", ".apng"), b"\x89PNG\r\n\x1a\n", loads=("imagecodecs", "imagecodecs._png")),
        _picture("jpeg", "Jpeg", (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"), b"\xff\xd8\xff",
            loads=("PIL.features", "imagecodecs", "imagecodecs._jpeg8")),
        _picture(
            "tiff", "Tiff", (".tif", ".tiff"), b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+",
            loads=("imagecodecs", "imagecodecs._deflate", "imagecodecs._imcd", "tifffile"), nodata="tags", unequal=True,
        ),
        _picture("bmp", "Bmp", (".bmp",), b"BM"),
        _picture("webp", "WebP", (".webp",), b"RIFF"),
        _picture("ppm", "Ppm", (".ppm", ".pgm", ".pbm", ".pnm"), *(b"P%d" % i for i in range(1, 8))),
        _picture("gif", "Gif", (".gif",), b"GIF8"),
        _picture("jpeg2000", "Jpeg2K", (".jp2", ".j2k"), b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51", writes=False),
        _picture("avif", "Avif", (".avif",), b"\0\0\0\x1cftypavif", b"\0\0\0\x20ftypavif", writes=False),
        _picture("heif", "", (".heic", ".heif", ".hif"), *_HEIF, writes=False),
        _picture("qoi", "Qoi", (".qoi",), b"qoif", writes=False),
        _picture("sgi", "Sgi", (".sgi",), b"\x01\xda", writes=False),
        _picture("dds", "Dds", (".dds",), b"DDS ", writes=False),
        _picture("tga", "Tga", (".tga",), writes=False),
    )
}  # fmt: skip


def suffixes_of(wanted: Callable[[Format], bool]) -> tuple[str, ...]:
    """The suffixes of the formats for which `wanted` is true, in the order of the table."""
    return tuple(suffix for row in FORMATS.values() if wanted(row) for suffix in row.suffixes)


def with_suffix(path: str, rows: Iterable[Format]) -> Format | None:
    """The first of the formats that has the suffix of `path`."""
    name = Path(path).name.lower()
    return next((row for row in rows if name.endswith(row.suffixes)), None)


def without_suffix(path: str) -> str:
    """`path` without the suffix of its format, such as `.npy.gz`, or else without its last suffix."""
    row = with_suffix(path, FORMATS.values())
    long = max((s for s in row.suffixes if path.lower().endswith(s)), key=len) if row else Path(path).suffix
    return path[: len(path) - len(long)]


def format_of(path: str) -> Format:
    """The format that an output's suffix names; `-` is .npy on standard output."""
    if path == "-":
        return FORMATS["npy"]
    row = with_suffix(path, (row for row in FORMATS.values() if row.writes))
    if row is not None:
        return row
    suffixes = suffixes_of(lambda row: row.writes)
    suffix = Path(path).suffix.lower()
    if not suffix and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise RequestError(f"{path}: is not a file; send it a .npy stream: {field('output', '-')} > {path}")
    if not suffix:
        raise RequestError(f"{path}: has no extension that names a format; write {path}.npy, or {path}/ for a folder")
    plain = path[: -len(suffix)]
    if suffix in COMPRESSIONS and with_suffix(plain, FORMATS.values()):
        raise RequestError(f"{path}: poolcli writes no {suffix} files; write {plain}, then compress it")
    meant = did_you_mean(suffix, suffixes)
    raise RequestError(f"{path}: {suffix} is not a format that poolcli writes; use one of {', '.join(suffixes)}{meant}")
