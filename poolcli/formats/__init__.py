"""File formats: one table row a format, and the four questions that are asked of every one of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolcli.core.errors import FileError, RequestError
from poolcli.formats.records import (
    Header,
    Metadata,
    Named,
    Opened,
    ReadOptions,
    Sink,
    Source,
    Tensor,
    parse_source,
    whole_region,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "FORMATS",
    "Format",
    "Header",
    "Metadata",
    "Named",
    "Opened",
    "ReadOptions",
    "Source",
    "Tensor",
    "appended",
    "can_crash",
    "check_holds_several",
    "check_output",
    "format_of",
    "holds_several",
    "list_arrays",
    "opened",
    "parse_source",
    "read",
    "read_header",
    "write",
    "write_several",
]


LARGE = 2**25  # elements; HDF5 files of fewer are made in memory, where a full disk cannot hurt them


DEFAULTS = ReadOptions()
SEVERAL = ("npz", "hdf5")


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its suffixes, the first bytes of its files, and the module that knows it."""

    name: str
    suffixes: tuple[str, ...]
    module: str
    magic: tuple[bytes, ...]
    reads: bool = True
    writes: bool = True

    @property
    def is_image(self) -> bool:
        return self.module == "image"


FORMATS = {
    row.name: row
    for row in (
        Format("npy", (".npy",), "npy", (b"\x93NUMPY",)),
        Format("npz", (".npz",), "npz", (b"PK\x03\x04", b"PK\x05\x06")),
        Format("hdf5", (".h5", ".hdf5"), "hdf5", (b"\x89HDF\r\n\x1a\n",)),
        Format("png", (".png",), "image", (b"\x89PNG\r\n\x1a\n",)),
        Format("jpeg", (".jpg", ".jpeg"), "image", (b"\xff\xd8\xff",)),
        Format("tiff", (".tif", ".tiff"), "image", (b"II*\x00", b"MM\x00*")),
        Format("bmp", (".bmp",), "image", (b"BM",)),
        Format("webp", (".webp",), "image", (b"RIFF",)),
        Format("ppm", (".ppm", ".pgm", ".pbm", ".pnm"), "image", tuple(b"P%d" % i for i in range(1, 8))),
        Format("gif", (".gif",), "image", (b"GIF8",), writes=False),
        Format("jpeg2000", (".jp2", ".j2k"), "image", (b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51"), writes=False),
        Format("avif", (".avif",), "image", (b"\0\0\0\x1cftypavif", b"\0\0\0\x20ftypavif"), writes=False),
        Format("qoi", (".qoi",), "image", (b"qoif",), writes=False),
        Format("sgi", (".sgi",), "image", (b"\x01\xda",), writes=False),
        Format("dds", (".dds",), "image", (b"DDS ",), writes=False),
        Format("tga", (".tga",), "image", (), writes=False),
    )
}


@contextmanager
def opened(source: Source, options: ReadOptions = DEFAULTS) -> Iterator[Opened]:
    """An input by what its first bytes say it is. Raises FileError for a file that cannot be read."""
    row, notes = _format_by_content(source.path)
    with _module(row).opened(source, options) as file:
        file.header = _with_notes(file.header, notes)
        yield file


def read_header(source: Source, options: ReadOptions = DEFAULTS) -> Header:
    """What a file's header says; its data is not read."""
    with opened(source, options) as file:
        return file.header


def read(source: Source) -> Tensor:
    """The whole array of a file."""
    with opened(source) as file:
        array = file.read(whole_region(file.header.shape))
        return Tensor(array, file.header, file.metadata)


def list_arrays(path: str) -> list[Header]:
    """All arrays of a file that can be pooled."""
    row, _ = _format_by_content(path)
    headers: list[Header] = _module(row).list_arrays(path)
    return headers


def format_of(path: str) -> Format:
    """The format that an output's suffix names; `-` is .npy on standard output."""
    if path == "-":
        return FORMATS["npy"]
    suffix = Path(path).suffix.lower()
    for row in FORMATS.values():
        if suffix in row.suffixes and row.writes:
            return row
    known = ", ".join(s for row in FORMATS.values() if row.writes for s in row.suffixes)
    raise RequestError(f"{path}: {suffix or 'no suffix'} is no format that poolcli writes; use one of {known}")


def check_output(path: str, shape: Sequence[int], dtype: str, layout: str, mode: str | None = None) -> str:
    """The layout in which the output at `path` will store the array; refuses what its format cannot hold."""
    row = format_of(path)
    if row.is_image:
        from poolcli.formats.image.modes import stored_layout

        return stored_layout(row.name, shape, dtype, layout, mode)
    if dtype == "bfloat16":
        raise RequestError(f"{row.name} files have no bfloat16; use --dtype float32")
    from poolcli.formats.arrays import tensor_layout

    return tensor_layout(shape, layout, mode is not None)


def write(
    path: str,
    array: NDArray[Any],
    layout: str,
    *,
    key: str | None = None,
    metadata: Metadata | None = None,
    overwrite: bool = False,
    mode: str | None = None,
    quality: int | None = None,
) -> tuple[str, ...]:
    """Writes the array whole or not at all; returns notes on what could not be kept."""
    row = format_of(path)
    kept = metadata or Metadata()
    if row.is_image:
        from poolcli.core.layouts import convert_layout
        from poolcli.formats.image import write as write_image
        from poolcli.formats.image.modes import mode_of

        pages = convert_layout(array, layout, "NHWC")
        stored = mode_of(pages.shape, str(array.dtype), "NHWC", mode)
        return write_image(path, pages, name=row.name, metadata=kept, overwrite=overwrite, mode=stored, quality=quality)
    notes: tuple[str, ...] = _module(row).write(path, [Named(key, array, kept)], overwrite=overwrite)
    return notes


def write_several(path: str, arrays: Sequence[Named], *, overwrite: bool) -> tuple[str, ...]:
    """Writes arrays under their names into one file, whole or not at all; returns notes on what could not be kept."""
    row = format_of(path)
    check_holds_several(path)
    notes: tuple[str, ...] = _module(row).write(path, arrays, overwrite=overwrite)
    return notes


def holds_several(path: str) -> bool:
    """Whether the file at `path` is of a format that can hold several arrays."""
    return path != "-" and _format_by_content(path)[0].name in SEVERAL


def check_holds_several(path: str) -> None:
    """Refuses a format whose files hold one array."""
    if format_of(path).name not in SEVERAL:
        raise RequestError(f"{path}: several arrays need a file that holds several; use .npz or .h5")


def appended(
    path: str,
    shape: tuple[int, ...],
    dtype: str,
    *,
    key: str | None,
    metadata: Metadata | None,
    overwrite: bool,
    identity: str | None = None,
) -> AbstractContextManager[Sink] | None:
    """A file that takes an array region by region, in C order; None for a format that is written from memory.

    With an `identity`, a .npy file that a stopped run of the same identity has begun is continued.
    """
    row = format_of(path)
    if row.name == "npy":
        from poolcli.formats import npy

        return npy.appended(path, shape, dtype, overwrite, identity)
    if row.name == "hdf5" and prod(shape) > LARGE:
        from poolcli.formats import hdf5

        return hdf5.appended(path, shape, dtype, key=key, metadata=metadata or Metadata(), overwrite=overwrite)
    return None


def can_crash(source: str, output: str | None) -> bool:
    """Whether a damaged input or a full disk may end the process that reads `source` or writes `output`."""
    fragile = FORMATS["hdf5"]
    if output and Path(output).suffix.lower() in fragile.suffixes:
        return True
    try:
        return source != "-" and _first_bytes(source).startswith(fragile.magic)
    except FileError:
        return False


def _module(row: Format) -> Any:
    return import_module(f"poolcli.formats.{row.module}")


def _format_by_content(path: str) -> tuple[Format, tuple[str, ...]]:
    """The format of a file by its first bytes, and a note where its suffix says otherwise."""
    if path == "-":
        return FORMATS["npy"], ()
    start = _first_bytes(path)
    if not start:
        raise FileError(f"{path}: is empty")
    suffix = Path(path).suffix.lower()
    by_suffix = next((row for row in FORMATS.values() if suffix in row.suffixes), None)
    by_content = next((row for row in FORMATS.values() if start.startswith(row.magic)), None)
    if by_content and by_suffix and by_content is not by_suffix:
        return by_content, (f"the file is {by_content.name}, whatever its name says",)
    found = by_content or by_suffix
    if found is None or not found.reads:
        known = ", ".join(row.name for row in FORMATS.values() if row.reads)
        raise FileError(f"{path}: is none of the formats that poolcli reads ({known})")
    return found, ()


def _first_bytes(path: str) -> bytes:
    """The first bytes of a regular file; a device, a pipe or a folder is refused without waiting on it."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise FileError(f"{path}: is not a regular file")
            return stream.read(16)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path}: {error.strerror}") from error


def _with_notes(header: Header, notes: tuple[str, ...]) -> Header:
    return replace(header, notes=(*notes, *header.notes)) if notes else header
