"""The table of file formats: what each is called, looks like, and can do. A format is its module and its row here."""

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
    """How files of a format name their arrays: `default` is the name of an array without one, `own` are names that the
    format itself uses. With `nested` names a slash makes a group; `any_bytes` are names that need not be UTF-8.
    """

    default: str = "data"
    own: tuple[str, ...] = ()
    nested: bool = False
    any_bytes: bool = False


@dataclass(frozen=True, slots=True)
class Format:
    """A format as data: what its files look like, which module knows it, and what can be done with it.

    `several` arrays have their keys in one file, by the rules of its `naming`, and one that `adds` takes more of them
    later; a `picture` has
    channels and pages; a format that is a folder names the `markers`, files of which one is in every such folder; one
    that is `chunked` has chunks that can be chosen, and a `remote` one is reached at
    URLs, too. Inputs that `streams` are read region by region, as a rule; outputs of `streams_from` elements and more
    are written so, None for never. A `resumable` output goes on where a run was stopped, one that `spreads` may be
    written by several processes at once; the library of a `fragile` one may end the process. `lacks` are number types
    that it cannot hold; `written_as` is the suffix under which a folder run writes what the format itself cannot.
    `loads` are packages that reading and writing it takes, where they are installed, and that are safe to fork with;
    `plugin` is the one of Pillow's own.
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
    streams: bool = False
    streams_from: int | None = None
    resumable: bool = False
    chunked: bool = False
    remote: bool = False
    spreads: bool = False
    fragile: bool = False
    lacks: tuple[str, ...] = ("bfloat16",)
    written_as: str = ""
    loads: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_folder(self) -> bool:
        """Whether the format is a folder: one input, one output."""
        return bool(self.markers)

    @property
    def functions(self) -> Functions:
        """The module that knows the format, imported when it is first asked."""
        with loading():
            return cast("Functions", import_module(self.module))


class Functions(Protocol):
    """What the module of every format has. `open_writer` is needed of those that stream, `write` of those that write,
    `open_container` of those that hold several, `holds` of those that add."""

    def open_array(self, source: Source, options: ReadOptions) -> AbstractContextManager[ArrayReader]:
        """An input; refuses with a FileError what cannot be read."""

    def open_container(self, path: str, options: ReadOptions) -> AbstractContextManager[ArrayContainer]:
        """All arrays of a file of a format that holds several."""

    def holds(self, source: Source) -> bool:
        """Whether a file of a format that adds has something of the name already."""

    def write(self, path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
        """Writes arrays, whole or not at all; returns notes on what could not be kept."""

    def open_writer(self, path: str, spec: Spec, options: WriteOptions) -> AbstractContextManager[RegionWriter]:
        """An output that takes an array region by region, whole or not at all."""


# Pillow, with what it loads itself when it opens its first picture.
PILLOW = ("PIL.Image", *(f"PIL.{name}ImagePlugin" for name in ("Bmp", "Gif", "Jpeg", "Ppm", "Png")))


def _picture(name: str, plugin: str, suffixes: tuple[str, ...], *magic: bytes, **more: Any) -> Format:
    """A format that Pillow reads by a plugin; what its library loads late, when it decodes, is loaded with it."""
    plugin = plugin and f"PIL.{plugin}ImagePlugin"
    loads = (*PILLOW, *((plugin,) if plugin else ()), *more.pop("loads", ()))
    more |= {} if more.get("writes", True) else {"written_as": ".png"}
    module = "poolcli.formats.image"
    return Format(name, suffixes, module, magic, picture=True, plugin=plugin, loads=loads, **more)


# A box that may be of several lengths, and the brands of HEVC pictures.
_HEIF = tuple(
    bytes((0, 0, 0, length)) + b"ftyp" + brand
    for length in range(16, 64, 4)
    for brand in (b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1")
)
# HDF5 files of up to 2**25 elements are made in memory, where a full disk cannot hurt them.
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
            several=True, adds=True, streams=True, streams_from=2**25 + 1, fragile=True,
            naming=Naming(nested=True, any_bytes=True),
        ),
        Format(
            "matlab", (".mat",), "poolcli.formats.hdf5", (b"MATLAB 7.3",),
            writes=False, several=True, streams=True, fragile=True, written_as=".h5",
        ),
        Format(
            "zarr", (".zarr",), "poolcli.formats.zarr", markers=("zarr.json", ".zarray", ".zgroup"),
            several=True, streams=True, streams_from=0, resumable=True, chunked=True, remote=True, spreads=True,
            naming=Naming("", ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"), nested=True),
        ),
        # A length below 2**40, and the JSON that it is the length of.
        Format(
            "safetensors", (".safetensors",), "poolcli.formats.safetensors", (b'\0\0\0{"',), 5,
            several=True, streams=True, lacks=(), naming=Naming(own=("__metadata__",)),
        ),
        _picture("png", "Png", (".png", ".apng"), b"\x89PNG\r\n\x1a\n", loads=("imagecodecs", "imagecodecs._png")),
        _picture("jpeg", "Jpeg", (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"), b"\xff\xd8\xff",
            loads=("PIL.features", "imagecodecs", "imagecodecs._jpeg8")),
        _picture(
            "tiff", "Tiff", (".tif", ".tiff"), b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+",
            loads=("imagecodecs", "imagecodecs._deflate", "imagecodecs._imcd", "tifffile"),
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
    """The suffixes of the formats that are wanted, in the order of the table."""
    return tuple(suffix for row in FORMATS.values() if wanted(row) for suffix in row.suffixes)


def with_suffix(path: str, rows: Iterable[Format]) -> Format | None:
    """The first of the formats that has the suffix of `path`."""
    name = Path(path).name.lower()
    return next((row for row in rows if name.endswith(row.suffixes)), None)


def without_suffix(path: str) -> str:
    """`path` without what names its format, as `.npy.gz`; else without whatever is behind its last dot."""
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
        raise RequestError(f"{path}: has no suffix that names a format; write {path}.npy, or {path}/ for a folder")
    meant = did_you_mean(suffix, suffixes)
    raise RequestError(f"{path}: {suffix} is no format that poolcli writes; use one of {', '.join(suffixes)}{meant}")
