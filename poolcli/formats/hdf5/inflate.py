"""Chunks that gzip has packed, unpacked here: HDF5 unpacks a chunk to its end, however far that is."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

from poolcli.core.errors import FileError
from poolcli.formats.arrays import byte_count, human_bytes
from poolcli.formats.hdf5.library import h5py
from poolcli.formats.records import slices
from poolcli.plan.region import Ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

HARMLESS = 2**14  # bytes of a chunk: packed into twice as many it unpacks to 32 MiB at most


def inflated(where: str, dataset: Any, region: Ranges) -> Array | None:
    """A region of an h5py dataset; None for h5py to read where its chunks are small, or otherwise packed than by gzip
    (after shuffling). Refuses a chunk that unpacks to another size than its own.
    """
    import numpy as np

    found, dtype = dataset.id, dataset.dtype
    properties = found.get_create_plist()
    codes = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    shuffled = codes == [h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE]
    if not (shuffled or codes == [h5py.h5z.FILTER_DEFLATE]) or not found.get_type().equal(h5py.h5t.py_create(dtype)):
        return None
    shape = properties.get_chunk()
    size = byte_count(shape, dtype.itemsize)
    if size <= HARMLESS:
        return None
    out = np.empty(tuple(map(len, region)), dtype)
    for first, place, part in _chunks(shape, region):
        info = found.get_chunk_info_by_coord(first)
        if info.byte_offset is None:
            out[place] = dataset.fillvalue
            continue
        data = _unpacked(where, found.read_direct_chunk(first)[1], size) if info.filter_mask == 0 else b""
        if len(data) != size:  # damaged, or stored as it is: for h5py to tell
            return None
        values = np.frombuffer(data, np.uint8)
        if shuffled:
            values = np.ascontiguousarray(values.reshape(dtype.itemsize, -1).T)
        out[place] = values.reshape(-1).view(dtype).reshape(shape)[part]
    return out


def _chunks(
    shape: tuple[int, ...], region: Ranges
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """The first element of each chunk that a region reads, where its part lies in the region, and in the chunk."""
    starts = (range(span.start - span.start % step, span.stop, step) for span, step in zip(region, shape, strict=True))
    for first in product(*starts):
        both = [
            range(max(span.start, start), min(span.stop, start + step))
            for span, start, step in zip(region, first, shape, strict=True)
        ]
        in_region = tuple(
            range(part.start - span.start, part.stop - span.start) for part, span in zip(both, region, strict=True)
        )
        in_chunk = tuple(range(part.start - start, part.stop - start) for part, start in zip(both, first, strict=True))
        yield first, slices(in_region), slices(in_chunk)


def _unpacked(where: str, data: bytes, size: int) -> bytes:
    """What gzip has packed; b'' where it is damaged."""
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(data, size + 1)
    except zlib.error:
        return b""
    if len(found) > size or (inflater.eof and len(found) < size):
        other = "more" if len(found) > size else "less"
        raise FileError(f"{where}: has a chunk of {human_bytes(size)} that unpacks to {other}")
    return found if inflater.eof else b""
