"""What is asked of an HDF5 dataset before it is let through: where its data lies, how large it is, what unpacks it."""

from __future__ import annotations

import os
from array import array
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.checks import beside, byte_count, check_expansion, human_bytes
from poolcli.formats.hdf5.library import h5py
from poolcli.formats.hdf5.unpack import number_of
from poolcli.formats.records import ReadOptions
from poolcli.message_fields import field
from poolcli.system.lazy_imports import need

SMALL = 1024  # bytes that any filter may add to a chunk
COPIES = 4  # of a chunk that is unpacked: as it is stored, which may be twice as long, unpacked, and within a filter
NUMBER = 16  # bytes for each packed chunk: its number, twice while they are sorted


def is_virtual(properties: Any) -> bool:
    """Whether a list of properties is that of a dataset made of others."""
    return bool(properties.get_layout() == h5py.h5d.VIRTUAL)


def check_place(where: str, path: str, properties: Any, name: str, allow_external: bool) -> None:
    """Refuses data that lies in other files; where that is allowed, sources that are missing or the dataset itself."""
    for i in range(properties.get_virtual_count() if is_virtual(properties) else 0):
        file, source = properties.get_virtual_filename(i), properties.get_virtual_dsetname(i)
        if not allow_external:
            raise FileError(
                f"{where}: is a virtual dataset, whose data lies elsewhere ({file}:{source}); "
                f"{field('allow_external')} reads it"
            )
        same = file in (".", os.path.basename(path))
        if not os.path.isfile(path if same else os.path.join(os.path.dirname(path), file)):
            raise FileError(f"{where}: its source {file} is missing; HDF5 would fill its place in silence")
        if same and source.strip("/") == name.strip("/"):
            raise FileError(f"{where}: is a virtual dataset that is its own source")
    if properties.get_external_count() and not allow_external:
        other = os.fsdecode(properties.get_external(0)[0])
        raise FileError(f"{where}: keeps its data in other files ({other}); {field('allow_external')} reads them")


@dataclass(frozen=True, slots=True)
class Chunks:
    """How a dataset is read: the sorted numbers of the chunks that are there, None where none is packed, and the bytes
    that reading takes beside what is read.
    """

    packed: array[int] | None
    beside: int


def check_memory(where: str, path: str, found: Any, properties: Any, options: ReadOptions) -> Chunks:
    """Refuses what takes far more memory than it is stored in, the chunks that it is read in included."""
    size = found.dtype.itemsize
    filtered = properties.get_layout() == h5py.h5d.CHUNKED and properties.get_nfilters()
    chunk = byte_count(properties.get_chunk(), size) if filtered else 0
    if options.limit is not None and chunk > options.limit:
        raise FileError(
            f"{where}: has chunks of {human_bytes(chunk)}, each of which is read whole, the limit is "
            f"{human_bytes(options.limit)}; raise {field('max_memory')}"
        )
    if options.allowed is None and not options.allow_external:
        whole = byte_count(found.shape, size)
        stored = min(found.get_storage_size(), os.path.getsize(path))  # the first is what the file says
        check_expansion(where, stored, whole, None)
        check_expansion(where, min(stored, whole), chunk, None)
    if not filtered:
        return Chunks(None, 0)
    taken = beside(COPIES * chunk + NUMBER * found.get_num_chunks())
    if options.limit is not None and taken > options.limit:
        raise FileError(
            f"{where}: reading its chunks takes {human_bytes(taken)}, the limit is {human_bytes(options.limit)}; "
            f"raise {field('max_memory')}"
        )
    return Chunks(_packed_chunks(where, found, properties.get_chunk(), chunk), taken)


def _packed_chunks(where: str, found: Any, shape: tuple[int, ...], chunk: int) -> array[int]:
    """The numbers of the chunks, sorted. Refuses one that is stored in far more bytes than it has: it would be unpacked
    to its end all the same.
    """
    import numpy as np

    largest, numbers, lengths = 0, array("q"), found.shape

    def look(info: Any) -> None:
        nonlocal largest
        largest = max(largest, int(info.size))
        numbers.append(number_of(info.chunk_offset, lengths, shape))

    found.chunk_iter(look)
    if largest > 2 * chunk + SMALL:
        raise FileError(f"{where}: has a chunk of {human_bytes(chunk)} that is stored in {human_bytes(largest)}")
    np.frombuffer(numbers, np.int64).sort()  # in place
    return numbers


def check_filters(where: str, properties: Any) -> None:
    """Names the missing filter where the library's own words mislead."""
    for i in range(properties.get_nfilters()):
        code, _, _, name = properties.get_filter(i)
        if not h5py.h5z.filter_avail(code):
            with suppress(RequestError):
                need("hdf5plugin", why="filters")  # it registers its own
        if not h5py.h5z.filter_avail(code):
            known = name.decode("utf-8", "replace") or "no name"
            raise FileError(
                f"{where}: needs the HDF5 filter {code} ({known}), which is not installed; "
                "most filters come with hdf5plugin: pip install hdf5plugin"
            )
