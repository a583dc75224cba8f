"""Storage of HDF5 datasets: where their data lies, what reading takes, and the sizes of their chunks.

h5py reads all data. HDF5 fills a chunk that is stored with too few bytes with whatever follows it in memory, or
crashes; so the sizes of chunks without compression, and of those of gzip, are checked first.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from functools import cache
from itertools import product
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats import checks
from poolcli.formats.checks import byte_count, check_expansion, human_bytes, join_names, unless_negligible
from poolcli.formats.records import ReadOptions
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Lazy, need
from poolcli.windows import Ranges

h5py: Any = Lazy("h5py")
GzipChunks = dict[tuple[int, ...], tuple[int, int]]  # place and length in the file, by the first element of the chunk

GZIP, SHUFFLE, FLETCHER32, LZF = KEPT_FILTERS = 1, 2, 3, 32000
CHECKSUM = 4  # bytes that fletcher32 appends
CHUNK_COPIES = 4  # of a chunk while it is decoded: stored (up to twice as long), decoded, and inside a filter
INDEX_BYTES = 300  # for each stored chunk: its entry in `GzipChunks`


def is_virtual(properties: Any) -> bool:
    """Whether these are the properties of a virtual dataset."""
    return bool(properties.get_layout() == h5py.h5d.VIRTUAL)


def check_location(where: str, path: str, properties: Any, name: str, allow_external: bool) -> None:
    """Refuses data in other files unless that is allowed, and sources that are missing or the dataset itself."""
    for i in range(properties.get_virtual_count() if is_virtual(properties) else 0):
        file, source = properties.get_virtual_filename(i), properties.get_virtual_dsetname(i)
        if not allow_external:
            raise FileError(
                f"{where}: is a virtual dataset, whose data lies elsewhere ({file}:{source}); "
                f"{field('allow_external')} reads it"
            )
        same = file in (".", os.path.basename(path))
        if not os.path.isfile(path if same else os.path.join(os.path.dirname(path), file)):
            raise FileError(f"{where}: its source {file} is missing; HDF5 would return fill values without an error")
        if same and source.strip("/") == name.strip("/"):
            raise FileError(f"{where}: is a virtual dataset that is its own source")
    if properties.get_external_count() and not allow_external:
        other = os.fsdecode(properties.get_external(0)[0])
        raise FileError(f"{where}: keeps its data in other files ({other}); {field('allow_external')} reads them")


def filters_of(properties: Any) -> list[tuple[int, tuple[int, ...], str]]:
    """The number, the values and the name of each filter, in the order in which they are applied to a chunk."""
    found = map(properties.get_filter, range(properties.get_nfilters()))
    return [(code, values, name.decode("utf-8", "replace")) for code, _, values, name in found]


def check_filters(where: str, properties: Any) -> None:
    """Refuses a dataset whose filter is missing, which HDF5 reports misleadingly."""
    for code, _, name in filters_of(properties):
        if not h5py.h5z.filter_avail(code):
            with suppress(RequestError):
                need("hdf5plugin", why="filters")  # it registers its own
        if not h5py.h5z.filter_avail(code):
            raise FileError(
                f"{where}: needs the HDF5 filter {code} ({name or 'no name'}), which is not installed; "
                "most filters come with hdf5plugin: pip install hdf5plugin"
            )


def check_memory(where: str, path: str, found: Any, properties: Any, options: ReadOptions) -> int:
    """The bytes of memory that reading takes beside the data.

    Refuses data, and chunks, that take far more memory than they have bytes in the file, or more than the limit.
    """
    size = found.dtype.itemsize
    count = found.get_num_chunks() if properties.get_layout() == h5py.h5d.CHUNKED and properties.get_nfilters() else 0
    chunk = byte_count(properties.get_chunk(), size) if count else 0
    if options.allowed is None and not options.allow_external:
        stored = min(found.get_storage_size(), os.path.getsize(path))  # the first is claimed by the file
        check_expansion(where, stored, max(byte_count(found.shape, size), chunk), None)
    taken = unless_negligible(CHUNK_COPIES * chunk + INDEX_BYTES * count)
    checks.check_memory(f"{where}: reading its chunks takes", taken, options.limit, unit="")
    return taken


def gzip_chunks(where: str, dataset: Any) -> GzipChunks:
    """The stored chunks that gzip has compressed last; refuses those without compression that have a wrong size."""
    codes = [code for code, _, _ in filters_of(dataset.id.get_create_plist())]
    size, found = _chunk_size(dataset), GzipChunks()

    @cache
    def size_on_disk(mask: int) -> int | None:
        """Of a chunk without compression; 0 if gzip comes last, None for other compressions."""
        applied = [code for i, code in enumerate(codes) if not mask >> i & 1 and code != SHUFFLE]
        sums = applied.count(FLETCHER32)
        if len(applied) == sums:
            return size + sums * CHECKSUM
        return 0 if applied in ([GZIP], [GZIP, FLETCHER32]) else None

    wrong = list[int]()

    def look(info: Any) -> None:
        wanted = size_on_disk(info.filter_mask)
        if wanted == 0:
            found[info.chunk_offset] = info.byte_offset, info.size
        elif wanted not in (None, info.size):
            wrong.append(info.size)

    dataset.id.chunk_iter(look)
    if wrong:
        raise FileError(f"{where}: has a chunk of {human_bytes(size)} that is stored in {human_bytes(wrong[0])}")
    return found


def check_gzip_chunks(where: str, dataset: Any, stored: GzipChunks, region: Ranges) -> None:
    """Refuses chunks of a region that unpack to more or less than their size."""
    size = _chunk_size(dataset)
    touched = (range(r.start - r.start % c, r.stop, c) for r, c in zip(region, dataset.chunks, strict=True))
    with open(dataset.file.filename, "rb") as stream:  # as h5py reads a stored chunk, in 8 microseconds, is slower
        for offset, length in filter(None, map(stored.get, product(*touched))):
            data = os.pread(stream.fileno(), length, offset)
            try:
                found = len(zlib.decompressobj().decompress(data, size + 1))
            except zlib.error:  # h5py will say what it is
                continue
            if found != size:
                what = "more" if found > size else "less"
                raise FileError(f"{where}: has a chunk of {human_bytes(size)} that unpacks to {what}")


def _chunk_size(dataset: Any) -> int:
    """The bytes of a chunk without filters."""
    return byte_count(dataset.chunks, dataset.id.get_type().get_size())


def storage_of(dataset: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The storage of an h5py dataset as arguments of `create_dataset`, and a note on filters that become gzip."""
    properties = dataset.id.get_create_plist()
    stored: dict[str, Any] = {}
    if properties.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        stored["fillvalue"] = dataset.fillvalue
    if properties.get_layout() != h5py.h5d.CHUNKED:
        return stored, ()
    stored |= {"chunks": properties.get_chunk(), "shuffle": dataset.shuffle, "fletcher32": dataset.fletcher32}
    others = [
        name.partition(";")[0] or str(code) for code, _, name in filters_of(properties) if code not in KEPT_FILTERS
    ]
    if dataset.compression in ("gzip", "lzf"):
        stored |= {"compression": dataset.compression, "compression_opts": dataset.compression_opts}
    elif others:
        stored["compression"] = "gzip"
    return stored, (f"stored with gzip instead of the filter {join_names(others)}",) if others else ()
