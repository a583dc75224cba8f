"""The .npz format: a zip archive of .npy members. Each is decompressed when it is read; pickles are never loaded."""

from __future__ import annotations

import bz2
import os
import struct
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from poolcli.errors import FileError, error_text
from poolcli.formats import npy, records
from poolcli.formats.atomic import atomic_stream
from poolcli.formats.checks import as_file_error, check_array, check_expansion, check_zip_directory, choose_array
from poolcli.formats.files import array_names
from poolcli.system.lazy_imports import Array


@contextmanager
def open_container(path: str, options: records.ReadOptions) -> Iterator[_Archive]:
    """Opens the archive without decompressing its members."""
    with _zip_errors(path):
        check_zip_directory(path, options.limit)
        archive = zipfile.ZipFile(path)
    with archive:
        names = archive.NameToInfo
        if names and path.lower().endswith(".zip") and not any(name.endswith(".npy") for name in names):
            remedy = f"unpack it, then name its files, or their folder; a Zarr store in it is zip://FOLDER::{path}"
            raise FileError(f"{path}: is an archive without .npy files; {remedy}")
        members = {name if (short := name.removesuffix(".npy")) in names else short: names[name] for name in names}
        yield _Archive(path, archive, members, options)


@dataclass(frozen=True)
class _Archive(records.ArrayContainer):
    """An open archive; of members of one name the last one counts, as for zipfile and numpy.

    Names are without `.npy`, unless another member has that name.
    """

    path: str
    archive: zipfile.ZipFile
    members: dict[str, zipfile.ZipInfo]
    options: records.ReadOptions

    @cached_property
    def listed(self) -> dict[str, records.Header | None]:
        found: dict[str, records.Header | None] = dict.fromkeys(self.members)
        with _zip_errors(self.path):
            for key in found:
                with suppress(FileError):
                    found[key] = self._header(key)
        return found

    def array(self, key: str) -> records.ArrayReader:
        key = key if key in self.members else key.removesuffix(".npy")
        key = key if key in self.members else str(choose_array(records.Source(self.path, key), self.headers).key)
        where, info = f"{self.path}:{key}", self.members[key]
        with _zip_errors(self.path):
            header = self._header(key)
        check_array(where, header.shape, header.dtype, self.options.scalars)
        npy.check_size(where, header, info.file_size)
        check_expansion(where, info.compress_size, info.file_size, self.options.allowed)

        def load() -> tuple[Array, records.Metadata]:
            with _zip_errors(self.path), self._open_member(info) as stream:
                found = npy.stream_reader(where, stream, self.options.scalars).load()
                while not isinstance(stream, bz2.BZ2File) and stream.read(npy.BLOCK):
                    pass  # zipfile compares the checksum at the end of the member
            return found

        return records.InMemoryReader(header, load)

    def _header(self, key: str) -> records.Header:
        info = self.members[key]
        with self._open_member(info) as stream:
            _, header, _ = npy.parse_header(f"{self.path}:{info.filename}", stream, scalars=True)
        return replace(header, format="npz", key=key)

    @contextmanager
    def _open_member(self, info: zipfile.ZipInfo) -> Iterator[Any]:
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


def write(path: str, arrays: Sequence[records.NamedArray], options: records.WriteOptions) -> tuple[str, ...]:
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
    """Converts errors about damaged archives, for which zipfile has no common class, to a FileError."""
    what = "is not a readable .npz file"
    return as_file_error(path, (Exception,), lambda e: f"{what} ({getattr(e, 'strerror', None) or error_text(e)})")
