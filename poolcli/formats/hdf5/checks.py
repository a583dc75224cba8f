"""Checks of an HDF5 dataset before it is read (storage, size, filters), and reading of filtered chunks."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.checks import beside, byte_count, check_expansion, human_bytes
from poolcli.formats.hdf5.filters import unpacked
from poolcli.formats.hdf5.names import h5py
from poolcli.formats.records import ReadOptions, slices
from poolcli.formats.resumable import batches
from poolcli.message_fields import field
from poolcli.system.lazy_imports import need
from poolcli.windows import ceil_div

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.plan.region import Ranges

    Array = NDArray[Any]


def read_chunks(where: str, dataset: Any, written: Sequence[int], region: Ranges) -> Array:
    """A region of an h5py dataset whose chunks are packed; refuses one that unpacks to another size than its own.

    `written` has the sorted numbers of its chunks that are there.
    """
    import numpy as np

    properties = dataset.id.get_create_plist()
    filters = [(code, values) for code, _, values, _ in map(properties.get_filter, range(properties.get_nfilters()))]
    shape, kind, dtype = properties.get_chunk(), dataset.id.get_type(), dataset.dtype
    size = byte_count(shape, kind.get_size())
    as_stored = kind.equal(h5py.h5t.py_create(dtype))
    out = np.empty(tuple(map(len, region)), dtype)
    for first, place, part in _chunks(shape, region):
        data, number = None, number_of(first, dataset.shape, shape)
        at = bisect_left(written, number)
        if at < len(written) and written[at] == number:
            skipped, stored = dataset.id.read_direct_chunk(first)
            applied = [each for i, each in enumerate(filters) if not skipped >> i & 1]
            data = unpacked(where, stored, applied, size)
        if data is not None and as_stored:
            out[place] = np.frombuffer(data, dtype).reshape(shape)[part]
        else:
            out[place] = dataset[tuple(slice(a + p.start, a + p.stop) for a, p in zip(first, part, strict=True))]
    return out


def read_in_batches(dataset: Any, region: Ranges) -> Array:
    """A region of an h5py dataset whose chunks are not packed: few of them at once, because HDF5 takes 6 KB for each,
    even for those that are not there.
    """
    import numpy as np

    out = np.empty(tuple(map(len, region)), dataset.dtype)
    for part in batches(region, dataset.chunks):
        place = tuple(slice(a.start - b.start, a.stop - b.start) for a, b in zip(part, region, strict=True))
        out[place] = dataset[slices(part)]
    return out


def number_of(first: Sequence[int], shape: Sequence[int], chunk: Sequence[int]) -> int:
    """The number of a chunk, by its first element, in the order of C."""
    number = 0
    for place, n, step in zip(first, shape, chunk, strict=True):
        number = number * ceil_div(n, step) + place // step
    return number


def _chunks(
    shape: tuple[int, ...], region: Ranges
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """The first element of each chunk that a region reads, where its part lies in the region, and in the chunk."""
    parts = [
        [
            (start, slice(low - span.start, high - span.start), slice(low - start, high - start))
            for start in range(span.start - span.start % step, span.stop, step)
            for low, high in [(max(span.start, start), min(span.stop, start + step))]
        ]
        for span, step in zip(region, shape, strict=True)
    ]
    for found in product(*parts):
        first, in_region, in_chunk = zip(*found, strict=True)
        yield first, in_region, in_chunk


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
