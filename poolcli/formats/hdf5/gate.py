"""Every read of an HDF5 file passes these checks: data in other files is refused, unless it is allowed, and so are
missing filters, and chunks that memory cannot hold or that are stored with a wrong size.

HDF5 opens other files for external links, also behind soft ones; for virtual datasets as soon as it is asked for their
shape; for external storage; and for references. So names are followed link by link, a reference counts as a place in
this file, and nothing else is asked of a dataset before it is known where its data lies.

HDF5 fills a chunk that is stored with too few bytes with whatever follows it in memory, or crashes; so the sizes of
chunks without compression, and of those of gzip, are checked first.

Names are str; bytes that are not UTF-8 are kept as surrogates, as Python does with file names.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import product
from typing import Any

from poolcli.errors import QUOTES, FileError, RequestError, error_text
from poolcli.formats import checks
from poolcli.formats.checks import as_file_error, byte_count, check_expansion, human_bytes, unless_negligible
from poolcli.formats.records import ReadOptions
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Lazy, need
from poolcli.system.processes import limit_worker
from poolcli.windows import Ranges

h5py: Any = Lazy("h5py")
GzipChunks = dict[tuple[int, ...], tuple[int, int]]  # place and length in the file, by the first element of the chunk

H5PY_ERRORS = (OSError, RuntimeError, KeyError, TypeError, ValueError)
FREE_MEMORY = 2**28  # bytes that a call may take for whatever it reads
DECODE_COPIES = 4  # of the bytes that it decodes
MAX_SOFT_LINKS = 100  # soft links that are followed
GZIP, SHUFFLE, FLETCHER32, LZF = KEPT_FILTERS = 1, 2, 3, 32000
CHECKSUM = 4  # bytes that fletcher32 appends
CHUNK_COPIES = 4  # of a chunk while it is decoded: stored (up to twice as long), decoded, and inside a filter
INDEX_BYTES = 300  # for each stored chunk: its entry in `GzipChunks`
# Older formats with the same suffixes, by their first bytes, and what to do about them.
OTHER_FORMATS = {
    b"CDF": ", but one of classic netCDF; convert it with nccopy -k nc4 {0} {1}_nc4.nc, or in Python (pip install "
    "xarray scipy h5netcdf) with xarray.open_dataset({0!r}).to_netcdf('{1}_nc4.nc', engine='h5netcdf')",
    b"MATLAB 5": ", but a MATLAB v5 file, and only v7.3 is supported; save it with: save('{1}_v73.mat', '-v7.3')",
}


def h5py_errors(path: str) -> AbstractContextManager[None]:
    """Turns errors of h5py into a FileError of one line."""
    return as_file_error(path, H5PY_ERRORS, _describe)


def _describe(error: Exception) -> str:
    if isinstance(error, BlockingIOError):
        return "is open in another program; close it there first"
    text = error_text(error).strip(QUOTES)
    if "already open for write" in text:
        return "is marked as open in a program that writes it; close it there or, if that was killed, run h5clear -s"
    return f"HDF5 cannot read or write it: {text}"


@contextmanager
def reading(path: str, size: int = 0) -> Iterator[None]:
    """As `h5py_errors`, with limits in workers for decoding `size` bytes: damage may make it endless or huge."""
    memory = FREE_MEMORY + DECODE_COPIES * size
    with limit_worker(memory, os.path.getsize(path) + size), h5py_errors(path):
        yield


@contextmanager
def open_root(path: str) -> Iterator[Any]:
    """Opens a file; yields its root group."""
    with open(path, "rb") as stream:  # the system's own message for a missing or forbidden file
        start = stream.read(max(map(len, OTHER_FORMATS)))
    with reading(path):
        if not h5py.is_hdf5(path):
            remedy = next((remedy for magic, remedy in OTHER_FORMATS.items() if start.startswith(magic)), "")
            raise FileError(f"{path}: is not an HDF5 file{remedy.format(path, os.path.splitext(path)[0])}")
        file = h5py.File(path, "r")
    with file:
        with reading(path):
            root = file["/"].id
        yield root


def decode_name(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def encode_name(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def link_type(group: Any, name: bytes) -> int | None:
    """The type of the link of this name in a group; None if there is none."""
    has_link = isinstance(group, h5py.h5g.GroupID) and group.links.exists(name)
    return int(group.links.get_info(name).type) if has_link else None


def _reversed_parts(path: bytes) -> list[bytes]:
    return [name for name in reversed(path.split(b"/")) if name not in (b"", b".")]


def find_object(root: Any, key: str, where: str, allow_external: bool) -> Any:
    """The object called `key`, None if there is none; refuses a link to another file anywhere on the way."""
    here, hops = root, 0
    waiting = _reversed_parts(encode_name(key))
    while waiting:
        name = waiting.pop()
        link = link_type(here, name)
        if link is None:
            return None
        if link == h5py.h5l.TYPE_HARD or (link == h5py.h5l.TYPE_EXTERNAL and allow_external):
            here = h5py.h5o.open(here, name)
        elif link == h5py.h5l.TYPE_SOFT:
            hops += 1
            if hops > MAX_SOFT_LINKS:
                raise FileError(f"{where}: is a circular link")
            target = here.links.get_val(name)
            here = h5py.h5o.open(here, b"/") if target.startswith(b"/") else here
            waiting += _reversed_parts(target)
        else:
            other = decode_name(here.links.get_val(name)[0])
            raise FileError(f"{where}: is a link to the file {other}; {field('allow_external')} follows it")
    return here


def parent_groups(root: Any, key: str) -> Iterator[tuple[str, Any]]:
    """The root and the groups above `key`, by name, as far as hard links lead."""
    here, path = root, "/"
    waiting = _reversed_parts(encode_name(key))
    yield path, here
    while len(waiting) > 1 and link_type(here, waiting[-1]) == h5py.h5l.TYPE_HARD:
        name = waiting.pop()
        here, path = h5py.h5o.open(here, name), f"{path}{decode_name(name)}/"
        yield path, here


def walk(root: Any) -> Iterator[tuple[str, Any]]:
    """Every dataset by its path, in order, each group once; None for links that are not hard."""
    waiting, seen = [("/", root)], set[int]()
    while waiting:
        prefix, group = waiting.pop()
        address = h5py.h5o.get_info(group).addr
        if address in seen:
            continue
        seen.add(address)
        groups = []
        for name in sorted(group):
            path = f"{prefix}{decode_name(name)}"
            child = h5py.h5o.open(group, name) if link_type(group, name) == h5py.h5l.TYPE_HARD else None
            if isinstance(child, h5py.h5g.GroupID):
                groups.append((f"{path}/", child))
            elif child is None or isinstance(child, h5py.h5d.DatasetID):
                yield path, child
        waiting.extend(reversed(groups))


def read_attributes(found: Any, names: Iterable[str] = ()) -> dict[str, Any]:
    """The attributes of an object, or those of `names`; None for those that cannot be read within the limits."""
    values = dict[str, Any]()
    for name in [name for name in names if name in found.attrs] or ([] if names else found.attrs):
        try:
            values[name] = found.attrs[name]
        except (*H5PY_ERRORS, MemoryError):
            values[name] = None
    return values


def is_virtual(properties: Any) -> bool:
    return bool(properties.get_layout() == h5py.h5d.VIRTUAL)


def check_location(where: str, path: str, properties: Any, allow_external: bool) -> None:
    """Refuses data in other files unless that is allowed, and sources that are missing."""
    for i in range(properties.get_virtual_count() if is_virtual(properties) else 0):
        file, source = properties.get_virtual_filename(i), properties.get_virtual_dsetname(i)
        if not allow_external:
            raise FileError(
                f"{where}: is a virtual dataset, whose data lies elsewhere ({file}:{source}); "
                f"{field('allow_external')} reads it"
            )
        if file != "." and not os.path.isfile(os.path.join(os.path.dirname(path), file)):
            raise FileError(f"{where}: its source {file} is missing; HDF5 would return fill values without an error")
    if properties.get_external_count() and not allow_external:
        other = os.fsdecode(properties.get_external(0)[0])
        raise FileError(f"{where}: keeps its data in other files ({other}); {field('allow_external')} reads them")


def filters_of(properties: Any) -> list[tuple[int, str]]:
    """The number and the name of each filter, in the order in which they are applied to a chunk."""
    found = map(properties.get_filter, range(properties.get_nfilters()))
    return [(code, name.decode("utf-8", "replace")) for code, _, _, name in found]


def is_compressed(properties: Any) -> bool:
    return any(code not in (SHUFFLE, FLETCHER32) for code, _ in filters_of(properties))


def check_filters(where: str, properties: Any) -> None:
    """Refuses a dataset whose filter is missing, which HDF5 reports misleadingly."""
    for code, name in filters_of(properties):
        if not h5py.h5z.filter_avail(code):
            with suppress(RequestError):
                need("hdf5plugin", why="filters")  # it registers its own
        if not h5py.h5z.filter_avail(code):
            raise FileError(
                f"{where}: needs the HDF5 filter {code} ({name or 'no name'}), which is not installed; "
                "most filters come with hdf5plugin: pip install hdf5plugin"
            )


def check_memory(where: str, found: Any, properties: Any, options: ReadOptions) -> int:
    """The bytes that reading takes beside the data; refuses more than the limit, and far more than is stored."""
    size = found.dtype.itemsize
    count = found.get_num_chunks() if properties.get_layout() == h5py.h5d.CHUNKED and properties.get_nfilters() else 0
    chunk = byte_count(properties.get_chunk(), size) if count else 0
    if options.allowed is None and not options.allow_external:
        check_expansion(where, found.get_storage_size(), max(byte_count(found.shape, size), chunk), None)
    taken = unless_negligible(CHUNK_COPIES * chunk + INDEX_BYTES * count)
    checks.check_memory(f"{where}: reading its chunks takes", taken, options.limit, unit="")
    return taken


def gzip_chunks(where: str, dataset: Any) -> GzipChunks:
    """The stored chunks that gzip has compressed last; refuses those without compression that have a wrong size."""
    codes = [code for code, _ in filters_of(dataset.id.get_create_plist())]
    size, found, wrong = _chunk_size(dataset), GzipChunks(), list[int]()

    def look(info: Any) -> None:
        applied = [code for i, code in enumerate(codes) if not info.filter_mask >> i & 1 and code != SHUFFLE]
        sums = applied.count(FLETCHER32)
        if applied in ([GZIP], [GZIP, FLETCHER32]):
            found[info.chunk_offset] = info.byte_offset, info.size
        elif len(applied) == sums and info.size != size + sums * CHECKSUM:
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
    return byte_count(dataset.chunks, dataset.id.get_type().get_size())
