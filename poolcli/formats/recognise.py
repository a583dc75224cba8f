"""Detects the format of an input by its magic number, or else by its extension."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from poolcli.errors import FileError, PoolError, unexpected
from poolcli.formats.files import check_url, is_url, regular_file
from poolcli.formats.npy import RAW_EXAMPLE
from poolcli.formats.records import Source
from poolcli.formats.table import FORMATS, Format, format_by_suffix, suffixes_of
from poolcli.message_fields import field, hint
from poolcli.suggestions import did_you_mean_file

MAGIC_LENGTH = max(row.magic_at + len(magic) for row in FORMATS.values() for magic in row.magic)  # bytes
MODEL_SUFFIXES = (".xml", ".onnx", ".tflite", ".pt2")
# Magic numbers of PDF, gzip, zip, 7z, bzip2, xz, zstd, ELF and old Office documents.
OTHER_MAGIC = (
    b"%PDF", b"\x1f\x8b", b"PK", b"7z\xbc\xaf", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd", b"\x7fELF", b"\xd0\xcf\x11\xe0",
)  # fmt: skip
TEXT_BYTES = {*b"\t\n\f\r", *range(0x20, 0x7F), *range(0x80, 0x100)}


def recognise(path: str) -> tuple[Format, tuple[str, ...]]:
    """The format of an input, and a note if its extension is that of another format; `-` is .npy."""
    if path == "-":
        return FORMATS["npy"], ()
    by_suffix = format_by_suffix(path, FORMATS.values())
    if path.lower().endswith(".zarr.zip") and not is_url(path):
        raise FileError(f"{path}: a Zarr store in a .zip file is read by its URL, zip://::{path}")
    if is_url(path) and by_suffix and not by_suffix.remote:
        raise FileError(f"{path}: only Zarr is read from URLs; copy the file first")
    by_content = folder_format(path) or _detect(path)
    if by_content and by_suffix and by_content is not by_suffix:
        return by_content, (f"the file is {by_content.name}, despite its extension",)
    found = by_content or by_suffix
    if found is None:
        if path.lower().endswith(MODEL_SUFFIXES):
            raise FileError(f"{path}: is a model, not an array; use poolcli check {path}")
        known = ", ".join(FORMATS)
        remedy = hint(f"; for raw data give its shape and type: {field('raw', RAW_EXAMPLE)}")
        raise FileError(f"{path}: is not in a format that poolcli reads ({known}){remedy if _may_be_raw(path) else ''}")
    return found, ()


def _may_be_raw(path: str) -> bool:
    """Whether a file may be raw data: it is neither text nor a known document or archive."""
    try:
        with open(path, "rb") as file:
            start = file.read(1024)
    except OSError:
        return False
    return not start.startswith(OTHER_MAGIC) and not {*start} <= TEXT_BYTES


def refuse_known_format(path: str) -> None:
    """Refuses to read a file as raw data if its extension and its magic number agree on a format."""
    named = None if path == "-" else format_by_suffix(path, FORMATS.values())
    if named is not None and not named.is_folder and _detect(path) is named:
        raise FileError(
            f"{path}: is {named.name}, and has a header of its own; {field('raw')} would read the header as data"
            "; leave it out"
        )


def format_by_magic(start: bytes) -> Format | None:
    """The format whose magic number the bytes start with; None if there is none."""
    return next((row for row in FORMATS.values() if row.has_magic(start)), None)


def folder_format(path: str) -> Format | None:
    """The format of a folder or URL that is one input, such as a Zarr store; None for any other path."""
    if is_url(path):
        return format_by_suffix(path, FORMATS.values()) or next(row for row in FORMATS.values() if row.remote)
    if not os.path.isdir(path):
        return None
    rows = [row for row in FORMATS.values() if row.is_folder]
    marked = (row for row in rows if any(os.path.lexists(os.path.join(path, name)) for name in row.markers))
    return next(marked, None) or format_by_suffix(path, rows)


def is_folder_output(path: str) -> bool:
    """Whether the extension of an output names a format that is a folder; otherwise a folder holds several outputs."""
    row = format_by_suffix(path, (row for row in FORMATS.values() if row.writes))
    return row is not None and row.is_folder


def is_fragile(source: str, output: str | None) -> bool:
    """Whether a library may crash on a damaged `source` or on a full disk at `output`."""
    written = format_by_suffix(output, FORMATS.values()) if output else None
    if written is not None and written.fragile:
        return True
    try:
        return source != "-" and recognise(source)[0].fragile
    except FileError:
        return False


def parse_source(text: str, dataset: str | None = None) -> Source:
    """Splits `a.npz:key` and `a.h5:/dataset`, unless a file of the whole name exists.

    A key may contain colons: the path ends at the first colon after the extension of a container, if such a file
    exists.
    """
    check_url(text)
    if dataset is not None or ":" not in text or os.path.lexists(text):
        return Source(text, dataset)
    keyed = suffixes_of(lambda row: row.is_container)
    places = [i for i, sign in enumerate(text) if sign == ":" and text[:i].lower().endswith(keyed)]
    if not places:
        return Source(text)
    place = next((i for i in places if os.path.lexists(text[:i])), places[0])
    return Source(text[:place], text[place + 1 :])


def _detect(path: str) -> Format | None:
    try:
        with regular_file(path) as stream:
            start = stream.read(MAGIC_LENGTH)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path}: {error.strerror}{_suggestion(error, path)}") from error
    if not start:
        raise FileError(f"{path}: is empty")
    return format_by_magic(start)


def _suggestion(error: OSError, path: str) -> str:
    """A remedy for a path that cannot be opened: a similar name, a file in the folder, or `file:array`."""
    if isinstance(error, FileNotFoundError):
        return did_you_mean_file(path)
    if isinstance(error, IsADirectoryError):
        return "; name a file in it"
    file = next((str(parent) for parent in Path(path).parents if parent.is_file()), "")
    if isinstance(error, NotADirectoryError) and file.lower().endswith(suffixes_of(lambda row: row.is_container)):
        return f"; an array in a file is written {file}:{os.path.relpath(path, file)}"
    return ""


Result = TypeVar("Result")


def in_subprocess_if_fragile(path: str, look: Callable[[], Result]) -> Result:
    """The result of `look`, called in a subprocess if the format at `path` is fragile; a crash becomes a PoolError."""
    processes = sys.modules.get("multiprocessing.process")  # importing it takes 10 ms
    is_worker = processes is not None and processes.current_process().daemon  # its parent handles crashes
    if is_worker or not is_fragile(path, None) or sys.platform != "linux":
        try:
            return look()
        except PoolError:
            raise
        except Exception as error:
            raise unexpected(error, path) from error
    from poolcli.system.subprocesses import run_in_subprocess

    return run_in_subprocess(path, look)
