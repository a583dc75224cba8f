"""The gate of an HDF5 file, which every read passes: what lies in other files is refused, unless it is allowed.

HDF5 reaches into other files by external links, also behind soft ones; by virtual datasets, whose sources it opens as
soon as it is asked for their shape; by external storage; and by references. So names are followed link by link, a
reference is taken as a place in this file, and of a dataset nothing is asked before it is known where its data lies.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from math import prod
from typing import TYPE_CHECKING, Any

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError, RequestError
from poolcli.formats.checks import (
    MEMORY_OF_SMALL,
    SMALL_FILE,
    byte_count,
    check_dtype,
    check_rank,
    listing,
    named,
)
from poolcli.formats.hdf5.checks import (
    Chunks,
    check_filters,
    check_memory,
    check_place,
    is_virtual,
    read_chunks,
    read_in_batches,
)
from poolcli.formats.hdf5.names import above, find, h5py, reading, text_of, walk
from poolcli.formats.records import Header, ReadOptions, slices
from poolcli.system.lazy_imports import need

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.plan.region import Ranges

ENTROPY_CODING = 4  # of the options of szip
LZF = 32000
# Filters of hdf5plugin that are written back: bzip2, Blosc, LZ4, Bitshuffle, ZFP, Zstandard, Blosc2. Others round what
# they pack, or, as that of JPEG-LS does with four axes, make something else of it without a word.
KEPT = (307, 32001, 32004, 32008, 32013, 32015, 32026)


def storage_of(dataset: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """How h5py's dataset is stored, as its create_dataset takes it, and a note on filters that cannot be asked for.

    In `maxshape` 0 stands for the length of the axis itself.
    """
    properties = dataset.id.get_create_plist()
    stored: dict[str, Any] = {}
    if properties.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        stored["fillvalue"] = dataset.fillvalue
    if properties.get_layout() != h5py.h5d.CHUNKED:
        return stored, ()
    stored["chunks"] = properties.get_chunk()
    if dataset.maxshape != dataset.shape:
        stored["maxshape"] = tuple(0 if m == n else m for m, n in zip(dataset.maxshape, dataset.shape, strict=True))
    lost = []
    for i in range(properties.get_nfilters()):
        code, _, values, name = properties.get_filter(i)
        options = _options(code, values)
        if options and not options.keys() & stored.keys():
            stored |= options
        else:
            lost.append(name.decode("utf-8", "replace") or str(code))
    return stored, (f"stored without the filter {named(lost)}",) if lost else ()


def _options(code: int, values: tuple[int, ...]) -> dict[str, Any]:
    """A filter as create_dataset takes it; {} for one that it cannot be asked for, or that may change what it packs."""
    if code == h5py.h5z.FILTER_DEFLATE:
        return {"compression": "gzip", "compression_opts": values[0]}
    if code == h5py.h5z.FILTER_SHUFFLE:
        return {"shuffle": True}
    if code == h5py.h5z.FILTER_FLETCHER32:
        return {"fletcher32": True}
    if code == h5py.h5z.FILTER_SZIP:
        return {"compression": "szip", "compression_opts": ("ec" if values[0] & ENTROPY_CODING else "nn", values[1])}
    if code == LZF:
        return {"compression": "lzf"}
    if code not in KEPT:
        return {}
    try:
        (plugin,) = need("hdf5plugin", why="filters")
        return dict(plugin.from_filter_options(code, values))
    except (RequestError, ValueError, NotImplementedError, AttributeError):  # AttributeError: hdf5plugin before 7
        return {}


COPIES_OF_TEXT = 3  # of each text of an attribute while it is read
# Elder kinds of files of the same names, by how they begin, and what to do about them.
ELDER = {
    b"CDF": ", but one of classic netCDF; convert it with: nccopy -k nc4 OLD.nc NEW.nc",
    b"MATLAB 5": ", but a MATLAB v5 file, and only v7.3 is supported; save it with: save('NEW.mat', '-v7.3')",
}


@contextmanager
def opened_file(path: str, options: ReadOptions) -> Iterator[Gate]:
    """The file, as its gate."""
    open(path, "rb").close()  # the system's own words for a missing or forbidden file
    with ExitStack() as stack:
        with reading(path):
            if not h5py.is_hdf5(path):
                raise FileError(f"{path}: is not an HDF5 file{_remedy(path)}")
            root = stack.enter_context(h5py.File(path, "r"))["/"].id
        yield Gate(path, root, options)


@dataclass(frozen=True, slots=True)
class Gate:
    """An open file. What is taken out of it was let through."""

    path: str
    root: Any
    options: ReadOptions

    def headers(self) -> Iterator[Header]:
        """The numeric datasets, by path; scales are left out: they go with the datasets that they belong to."""
        for name, found in walk(self.root):
            header = _header(name, found) if found else None
            if header is not None and not h5py.h5ds.is_scale(found):
                yield header

    def left_out(self) -> Iterator[str]:
        """The names of links, and of datasets that hold other than numbers."""
        for name, found in walk(self.root):
            if not found or _header(name, found) is None:
                yield name

    def dataset(self, key: str) -> Dataset:
        """The dataset called `key`; refused where there is none that can be pooled, or its data is not let through."""
        where = f"{self.path}:{key}"
        found = find(self.root, key, where, self.options.allow_external)
        if found is None:
            names = [header.key or "" for header in self.headers()]
            near = get_close_matches("/" + key.strip("/"), names, 3) or names[:3]
            raise RequestError(f"{self.path}: has no dataset {key}; it holds {', '.join(near) or 'no numeric dataset'}")
        if not isinstance(found, h5py.h5d.DatasetID):
            inside = [h for h in self.headers() if str(h.key).startswith("/" + key.strip("/") + "/")]
            raise RequestError(f"{where}: is a group; name a dataset in it: {listing(inside)}")
        return self._let_through(key, found)

    def referred(self, reference: Any) -> Dataset | None:
        """The dataset that a reference means; None for what is no such reference into this file."""
        if not isinstance(reference, h5py.Reference) or not reference:
            return None
        found = h5py.h5r.dereference(reference, self.root)
        name = h5py.h5i.get_name(found) if isinstance(found, h5py.h5d.DatasetID) else None
        if not name or _header("", found) is None:
            return None
        return self._let_through(text_of(name), found)

    def _let_through(self, name: str, found: Any) -> Dataset:
        where = f"{self.path}:{name}"
        check_dtype(where, _dtype_of(found))
        properties = found.get_create_plist()
        check_place(where, self.path, properties, name, self.options.allow_external)
        check_rank(where, found.shape or ())
        check_filters(where, properties)
        chunks = check_memory(where, self.path, found, properties, self.options)
        return Dataset(self, name, h5py.Dataset(found), chunks)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset that was let through."""

    gate: Gate
    name: str
    _dataset: Any
    _chunks: Chunks

    @property
    def header(self) -> Header:
        """Its shape and type."""
        shape, dtype = tuple(map(int, self._dataset.shape)), self._dataset.dtype.name
        return Header("hdf5", shape, dtype, key=self.name, beside=self._chunks.beside)

    @property
    def attributes(self) -> Attributes:
        """Its attributes: reading one leads nowhere else."""
        return Attributes(self._dataset.attrs, self.gate.path)

    @property
    def labels(self) -> tuple[str, ...]:
        """What each axis is called; '' where it has no name."""
        return tuple(axis.label for axis in self._dataset.dims)

    @property
    def title(self) -> str:
        """What it is called as a scale; '' where it has no name."""
        return text_of(h5py.h5ds.get_scale_name(self._dataset.id))

    def groups(self) -> Iterator[tuple[str, Attributes]]:
        """The root and the other groups above it, with their attributes."""
        for name, group in above(self.gate.root, self.name):
            yield name, Attributes(h5py.Group(group).attrs, self.gate.path)

    def stored(self) -> tuple[dict[str, Any], tuple[str, ...]]:
        """How it is stored, as h5py's create_dataset takes it, and notes on what of it cannot be kept."""
        return storage_of(self._dataset)

    def read(self, region: Ranges) -> NDArray[Any]:
        """A part of it."""
        with reading(self.gate.path, byte_count(tuple(map(len, region)), self._dataset.dtype.itemsize)):
            if self._chunks.packed is not None:
                return read_chunks(f"{self.gate.path}:{self.name}", self._dataset, self._chunks.packed, region)
            if self._dataset.chunks:
                return read_in_batches(self._dataset, region)
            found: NDArray[Any] = self._dataset[slices(region)]
        return found


@dataclass(frozen=True, slots=True)
class Attributes(Mapping[str, Any]):
    """The attributes of an object in the file at `path`, as h5py reads them; an OSError for one of a small file that
    may be far longer than that: all of its texts may be one that is stored once.
    """

    _found: Any
    path: str

    def __getitem__(self, name: str) -> Any:
        if name in self._found and (size := os.path.getsize(self.path)) < SMALL_FILE:
            stored = self._found.get_id(name)
            if stored.dtype.hasobject and COPIES_OF_TEXT * prod(stored.shape) * size > MEMORY_OF_SMALL:
                raise OSError(f"the attribute {name} may be far longer than the file")
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found


def _remedy(path: str) -> str:
    """What to do about a file that is of an elder kind of the same name."""
    with open(path, "rb") as stream:
        start = stream.read(max(map(len, ELDER)))
    return next((remedy for magic, remedy in ELDER.items() if start.startswith(magic)), "")


def _dtype_of(found: Any) -> str:
    try:
        return str(found.dtype.name)
    except (TypeError, ValueError):
        return "a type that numpy does not have"


def _header(name: str, found: Any) -> Header | None:
    """What a dataset says of itself, wherever its data lies; None where it cannot be pooled."""
    dtype, properties = _dtype_of(found), found.get_create_plist()
    if dtype not in DTYPES:
        return None
    virtual = is_virtual(properties) and properties.get_virtual_count()
    shape = properties.get_virtual_vspace(0).shape if virtual else found.shape
    return Header("hdf5", tuple(map(int, shape)), dtype, key=name) if shape else None
