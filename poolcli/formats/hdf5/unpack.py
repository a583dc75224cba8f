"""Chunks that filters have packed, unpacked here, each to the bytes that it must have."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from poolcli.formats.checks import byte_count
from poolcli.formats.hdf5.filters import unpacked
from poolcli.formats.hdf5.library import h5py
from poolcli.formats.records import slices
from poolcli.formats.regions import batches
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
