"""A .npy file that gzip has packed, unpacked as it is read."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError
from poolcli.formats import npy
from poolcli.formats.checks import byte_count, check_expansion
from poolcli.formats.records import ArrayReader, InMemoryReader, Metadata, ReadOptions, Source

if TYPE_CHECKING:
    from numpy.typing import NDArray


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """The array, unpacked when it is first read."""
    path = source.path
    with gzip.open(path, "rb") as stream:
        with _translated(path):
            file = npy.streamed(path, cast("BinaryIO", stream))
        claimed = byte_count(file.header.shape, DTYPES[file.header.dtype].itemsize)
        check_expansion(path, os.path.getsize(path), claimed, options.allowed)

        def load() -> tuple[NDArray[Any], Metadata]:
            with _translated(path):
                found = file.load()
                stream.read(1)  # the checksum is compared at the end
            return found

        yield InMemoryReader(file.header, load)


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Whatever a damaged file raises becomes one line."""
    try:
        yield
    except FileError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(f"{path}: is not a whole gzip file ({error})") from error
