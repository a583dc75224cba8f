"""The .npz format: a zip archive of .npy members. Each is decompressed when it is read; pickles are never loaded."""

from __future__ import annotations

import bz2
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import IO, BinaryIO, cast

from poolcli.errors import FileError, error_text
from poolcli.formats import npy
from poolcli.formats.atomic import atomic_stream
from poolcli.formats.checks import as_file_error, check_expansion, check_zip_directory, open_chosen
from poolcli.formats.files import array_names
from poolcli.formats.records import (
    ArrayReader,
    Header,
    InMemoryReader,
    Metadata,
    NamedArray,
    ReadOptions,
    Source,
    WriteOptions,
    whole_region,
)
from poolcli.system.lazy_imports import Array

ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, IndexError, NotImplementedError, OSError,
    RuntimeError, ValueError,
)  # fmt: skip


@contextmanager
def open_container(path: str, options: ReadOptions) -> Iterator[_Archive]:
    """Opens the archive without decompressing its members."""
    with _zip_errors(path):
        check_zip_directory(path, options.limit)
        archive = zipfile.ZipFile(path)
    with archive:
        yield _Archive(path, archive, options)


@dataclass(frozen=True)
class _Archive:
    """An open archive; of members of one name the last one counts, as for zipfile and numpy."""

    path: str
    archive: zipfile.ZipFile
    options: ReadOptions

    @cached_property
    def headers(self) -> list[Header]:
        found = []
        with _zip_errors(self.path):
            for info in self.archive.NameToInfo.values():
                with suppress(FileError):
                    found.append(self._header(info))
        return found

    @property
    def left_out(self) -> list[str]:
        pooled = {header.key for header in self.headers}
        return [name for name in map(_key_of, self.archive.NameToInfo.values()) if name not in pooled]

    def member(self, key: str) -> zipfile.ZipInfo | None:
        """The zip entry of an array; None if there is none."""
        members = self.archive.NameToInfo
        return members.get(f"{key}.npy") or members.get(key)

    def array(self, key: str) -> ArrayReader:
        info = self.member(key)
        assert info is not None  # noqa: S101  # keys come from the headers
        with _zip_errors(self.path):
            header = self._header(info)
        where = f"{self.path}:{key}"
        npy.check_size(where, header, info.file_size)
        check_expansion(where, info.compress_size, info.file_size, self.options.allowed)
        return InMemoryReader(header, lambda: (self._decompress(where, info), Metadata()))

    def _header(self, info: zipfile.ZipInfo) -> Header:
        with self._open_member(info) as stream:
            _, header, _ = npy.parse_header(f"{self.path}:{info.filename}", cast("BinaryIO", stream))
        return Header("npz", header.shape, header.dtype, key=_key_of(info))

    def _decompress(self, where: str, info: zipfile.ZipInfo) -> Array:
        with _zip_errors(self.path), self._open_member(info) as stream:
            file = npy.stream_reader(where, cast("BinaryIO", stream))
            array = file.read(whole_region(file.header.shape))
            while not isinstance(stream, bz2.BZ2File) and stream.read(npy.BLOCK):
                pass  # zipfile compares the checksum at the end of the member
        return array

    @contextmanager
    def _open_member(self, info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
        """The decompressed stream of a member.

        bzip2 is read with BZ2File: zipfile decompresses 4 KiB of input at once, which can be 4 GiB of output.
        """
        with self.archive.open(info) as stream:  # checks the local header, and refuses encryption
            if info.compress_type != zipfile.ZIP_BZIP2:
                yield stream
                return
        with open(self.path, "rb") as packed:
            packed.seek(info.header_offset)
            lengths = struct.unpack("<26x2H", packed.read(30))  # of the name and extra field (APPNOTE.TXT 4.3.7)
            packed.seek(sum(lengths), os.SEEK_CUR)
            with bz2.BZ2File(packed) as unpacked:
                yield unpacked


def _key_of(info: zipfile.ZipInfo) -> str:
    return info.filename.removesuffix(".npy")


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """Opens the chosen array; it is decompressed at the first read."""
    with open_container(source.path, options) as file:
        exists = source.key is not None and file.member(source.key) is not None
        yield file.array(str(source.key)) if exists else open_chosen(file, source, options.ndim)


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes arrays compressed with deflate, as `np.savez_compressed` does; an array without a key is `arr_0`."""
    names = array_names(path, [named.spec.key for named in arrays])
    with (
        atomic_stream(path, options.overwrite) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, named in zip(names, arrays, strict=True):
            # With a fixed date, equal arrays give equal files.
            member = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as target:
                npy.write_to(target, named.array)
    return ()


def _zip_errors(path: str) -> AbstractContextManager[None]:
    """Converts errors about damaged archives to a FileError."""
    return as_file_error(path, ZIP_ERRORS, _describe)


def _describe(error: Exception) -> str:
    return f"is not a readable .npz file ({getattr(error, 'strerror', None) or error_text(error)})"
