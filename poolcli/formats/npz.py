"""The .npz format: a zip of .npy members, read one at a time, never through pickle."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from poolcli.core.errors import FileError, RequestError
from poolcli.formats import npy
from poolcli.formats.arrays import check_expansion, choose
from poolcli.formats.atomic import byte_stream
from poolcli.formats.records import Header, Loaded, Metadata, Named, Opened, ReadOptions, Source, WriteOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, IndexError, NotImplementedError, OSError,
    RuntimeError, ValueError,
)  # fmt: skip


def list_arrays(path: str) -> list[Header]:
    """The arrays of the file by key; members that are no numeric array are left out."""
    with _opened(path) as archive:
        names = archive.namelist()
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise FileError(f"{path}: holds two members called {doubled[0]}; it is ambiguous")
        headers = []
        for info in archive.infolist():
            try:
                headers.append(_member_header(path, archive, info))
            except FileError:
                continue
        return headers


@contextmanager
def opened(source: Source, options: ReadOptions) -> Iterator[Opened]:
    """The chosen array, inflated when it is first read."""
    header = choose(source, list_arrays(source.path), options.axes)
    where = f"{source.path}:{header.key}"
    with _opened(source.path) as archive:
        info = _member(archive, header)
        npy.check_size(where, header, info.file_size)
        check_expansion(where, info.compress_size, info.file_size, options.allowed)
    yield Loaded(header, lambda: (_inflated(source.path, header), Metadata()))


def _member(archive: zipfile.ZipFile, header: Header) -> zipfile.ZipInfo:
    name = f"{header.key}.npy"
    return archive.getinfo(name if name in archive.namelist() else str(header.key))


def _inflated(path: str, header: Header) -> NDArray[Any]:
    with _opened(path) as archive:
        info = _member(archive, header)
        with archive.open(info) as stream:
            data = stream.read(info.file_size + 1)
    return npy.read_stream(data, f"{path}:{header.key}").array


def write(path: str, arrays: Sequence[Named], options: WriteOptions) -> tuple[str, ...]:
    """Writes arrays, deflated, under their keys (the name `arr_0` without one)."""
    import numpy as np

    with byte_stream(path, options.overwrite) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, named in zip(_member_names(path, arrays), arrays, strict=True):
            # A fixed date: the same array gives the same bytes.
            member = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as target:
                np.lib.format.write_array(target, np.ascontiguousarray(named.array), allow_pickle=False)
    return ()


def _member_names(path: str, arrays: Sequence[Named]) -> list[str]:
    """What the arrays are called in the file: slashes become underscores, unless that made one name of two."""
    keys = [named.spec.key or "arr_0" for named in arrays]
    flat = [key.strip("/").replace("/", "_") for key in keys]
    names = flat if len(set(flat)) == len(flat) else keys
    if len(set(names)) < len(names):
        doubled = next(name for name in names if names.count(name) > 1)
        raise RequestError(f"{path}: two arrays would both be called {doubled}; name the arrays, one file for each")
    return names


@contextmanager
def _opened(path: str) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (FileError, RequestError):
        raise
    except _BROKEN as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0:1] or [type(error).__name__]
        raise FileError(
            f"{path}: is not a readable .npz file ({reason if isinstance(reason, str) else reason[0]})"
        ) from error


def _member_header(path: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Header:
    where = f"{path}:{info.filename}"
    with archive.open(info) as stream:
        _, header, _ = npy.parse_header(where, io.BytesIO(stream.read(npy.LONGEST_HEADER + 32)))
    return Header("npz", header.shape, header.dtype, key=info.filename.removesuffix(".npy"))
