"""HDF5 files through h5py: datasets and their metadata. Data in other files is refused, unless it is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError, PoolError, RequestError
from poolcli.formats.cf import (
    MAX_BYTES,
    NOT_A_VARIABLE,
    VARIABLE_ATTRIBUTES,
    AuxiliaryVariables,
    Variable,
    as_unsigned,
    dependent_variables,
    referenced_names,
)
from poolcli.formats.checks import (
    ATTRIBUTE_ERRORS,
    byte_count,
    check_dtype,
    check_rank,
    describe_arrays,
    join_names,
    no_such_array,
    nodata_in,
    nodata_notes,
    open_chosen,
)
from poolcli.formats.hdf5.chunks import check_filters, check_location, check_memory, h5py, is_virtual, read_chunks
from poolcli.formats.hdf5.gate import (
    Attributes,
    decode_name,
    find_object,
    open_root,
    parent_groups,
    reading,
    storage_of,
    strings_fit,
    walk,
)
from poolcli.formats.hdf5.write import contains, open_writer, write
from poolcli.formats.records import (
    ArrayContainer,
    ArrayReader,
    Dimension,
    Header,
    Metadata,
    ReadOptions,
    Scale,
    Source,
    slices,
    whole_region,
)
from poolcli.formats.resumable import read_in_batches
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import Ranges

__all__ = ["contains", "open_array", "open_container", "open_writer", "write"]


REWRITTEN = (
    "DIMENSION_LIST", "DIMENSION_LABELS", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates",
)  # fmt: skip


@contextmanager
def open_container(path: str, options: ReadOptions) -> Iterator[ArrayContainer]:
    """Opens the file."""
    with open_root(path) as root:
        yield Hdf5File(path, root, options)


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """The chosen dataset, read region by region."""
    with open_root(source.path) as root:
        file = Hdf5File(source.path, root, options, alone=True)
        yield file.array(source.key) if source.key is not None else open_chosen(file, source, options.ndim)


@dataclass(frozen=True, slots=True)
class Hdf5File:
    """An open file. The datasets that it returns have passed the checks; `alone` if one of them is all that is read."""

    path: str
    root: Any
    options: ReadOptions
    alone: bool = False

    @property
    def headers(self) -> list[Header]:
        """The numeric datasets, by path, without dimension scales, coordinates and bounds, which belong to others."""
        with reading(self.path):
            found = {name: each for name, each in walk(self.root) if each}
            attributes = {name: self._attributes(each) for name, each in found.items()}
            dependent = dependent_variables(attributes, self._has_axes_of)
            headers = [(_header(name, each), each) for name, each in found.items() if name not in dependent]
            return [header for header, each in headers if header is not None and not h5py.h5ds.is_scale(each)]

    def _has_axes_of(self, name: str, other: str) -> bool:
        """Whether all axes of another dataset are axes of one, by their dimension scales."""
        try:
            own, its = (list(self._scales(self._checked(each, self._find(each)))) for each in (name, other))
        except PoolError:
            return False
        names = {scale.name for scales in own for scale in scales}
        return bool(its) and all(any(scale.name in names for scale in scales) for scales in its)

    @property
    def left_out(self) -> list[str]:
        """The names of links, and of datasets that are not numeric."""
        with reading(self.path):
            found = list(walk(self.root))
            auxiliary = {
                other
                for name, each in found
                if each
                for other in referenced_names(self._attributes(each), name, VARIABLE_ATTRIBUTES)
            }
            return [
                name
                for name, each in found
                if not each or (_header(name, each) is None and not (name in auxiliary or h5py.h5ds.is_scale(each)))
            ]

    def _attributes(self, found: Any) -> Attributes:
        return Attributes(h5py.Dataset(found).attrs, self.path, self.options)

    def array(self, key: str) -> ArrayReader:
        """The dataset called `key`; refused if it does not exist, cannot be pooled, or has data in other files."""
        with reading(self.path):
            dataset = self._checked(key, self._find(key))
            dataset.scales = tuple(self._scales(dataset))
            notes = list(nodata_notes(dataset.attributes))
            if "MATLAB_class" in dataset.attributes:
                notes.append("MATLAB has the axes in the opposite order")
            missing = nodata_in(dataset.attributes, dataset.header.dtype)
            dataset.header = replace(dataset.header, notes=tuple(notes), missing=missing)
            return as_unsigned(dataset, dataset.attributes)

    def _find(self, key: str) -> Any:
        where = f"{self.path}:{key}"
        found = find_object(self.root, key, where, self.options.allow_external)
        if found is None and "/" + key.strip("/") in self.left_out:
            raise FileError(f"{where}: is a link that leads nowhere")
        if found is None:
            raise no_such_array(self.path, key, self.headers)
        if not isinstance(found, h5py.h5d.DatasetID):
            inside = [h for h in self.headers if str(h.key).startswith("/" + key.strip("/") + "/")]
            raise RequestError(f"{where}: is a group; name a dataset in it: {describe_arrays(inside)}")
        return found

    def _checked(self, name: str, found: Any, texts: bool = False) -> Dataset:
        where = f"{self.path}:{name}"
        if not (texts and _is_string(found) and strings_fit(self.path, prod(found.shape or ()), self.options)):
            check_dtype(where, "text" if _is_string(found) else _dtype_of(found))
        properties = found.get_create_plist()
        check_location(where, self.path, properties, name, self.options.allow_external)
        check_rank(where, found.shape or ())
        check_filters(where, properties)
        packed, taken = check_memory(where, self.path, found, properties, self.options)
        header = Header("hdf5", tuple(map(int, found.shape)), found.dtype.name, key=name, extra_memory=taken)
        return Dataset(header, self, name, h5py.Dataset(found), packed)

    def _scales(self, dataset: Dataset) -> Iterator[tuple[Dataset, ...]]:
        """The one-dimensional scales of each axis, none if no axis has any; refuses scales in other files."""
        try:
            listed = dataset.attributes.get("DIMENSION_LIST")
        except (TypeError, OSError, RuntimeError):  # references of a type that h5py does not know, or damaged ones
            return
        if listed is None or len(listed) != len(dataset.header.shape):
            return
        for references, length in zip(listed, dataset.header.shape, strict=True):
            scales = [scale for scale in map(self._referred, references) if scale is not None]
            yield tuple(scale for scale in scales if (length,) in scale.shapes or scale.is_dimension_only)

    def _referred(self, reference: Any) -> Dataset | None:
        """The dataset that a reference points to; None for anything but a reference into this file."""
        if not isinstance(reference, h5py.Reference) or not reference:
            return None
        found = h5py.h5r.dereference(reference, self.root)
        name = h5py.h5i.get_name(found) if isinstance(found, h5py.h5d.DatasetID) else None
        if not name or (_header("", found) is None and not _is_string(found)):
            return None
        return self._checked(decode_name(name), found, texts=True)


@dataclass(slots=True)
class Dataset:
    """A dataset that has passed the checks; `scales` are the dimension scales of each axis."""

    header: Header
    file: Hdf5File
    name: str
    _dataset: Any
    _packed: Sequence[int] | None  # the numbers of the stored chunks
    scales: tuple[tuple[Dataset, ...], ...] = ()
    streams: bool = True
    chunks: tuple[int, ...] | None = None

    @property
    def attributes(self) -> Attributes:
        """Its attributes, none of which leads to another file."""
        return self.file._attributes(self._dataset.id)

    @property
    def size(self) -> int:
        """The bytes of the array, of texts those that it has by itself."""
        return byte_count(self.header.shape, self._dataset.dtype.itemsize)

    def values(self, shape: tuple[int, ...]) -> Array:
        """All of it, as numbers or texts; of a `shape` of fewer axes, characters along the last axis are one text."""
        if self.header.dtype in DTYPES:
            return self.read(whole_region(self.header.shape))
        with reading(self.file.path, self.size):
            found: Array = self._dataset.asstr("utf-8", "replace")[...]
            if shape != self.header.shape:
                rows = self._dataset[...].reshape(-1, self.header.shape[-1])
                texts = [b"".join(row).decode("utf-8", "replace") for row in rows]
                found = np.array(texts, object).reshape(shape)
            return found

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Its shape, of characters also that of the texts."""
        shape = self.header.shape
        return (shape, shape[:-1]) if self.is_of_characters else (shape,)

    @property
    def title(self) -> str:
        """The NAME of a dimension scale."""
        return decode_name(h5py.h5ds.get_scale_name(self._dataset.id))

    @property
    def is_dimension_only(self) -> bool:
        """Whether it is a dimension of netCDF without values, whose length is wrong if the dimension is unlimited."""
        is_plain = self.header.dtype in DTYPES and len(self.header.shape) == 1
        return is_plain and h5py.h5ds.is_scale(self._dataset.id) and self.title.startswith(NOT_A_VARIABLE)

    @property
    def is_of_characters(self) -> bool:
        """Whether it holds texts as classic netCDF does, with their characters along the last axis."""
        return self._dataset.dtype.str == "|S1" and len(self.header.shape) > 0

    def read(self, region: Ranges) -> Array:
        """A region of it."""
        dataset, path = self._dataset, self.file.path
        with reading(path, byte_count(tuple(map(len, region)), dataset.dtype.itemsize)):
            if self._packed is not None:
                return read_chunks(f"{path}:{self.name}", dataset, self._packed, region)
            if dataset.chunks:
                return read_in_batches(region, dataset.chunks, dataset.dtype, lambda part: dataset[slices(part)])
            found: Array = dataset[slices(region)]
        return found

    @property
    def metadata(self) -> Metadata:
        """Its attributes, those of the groups above it, its storage and its dimension scales."""
        lost: list[str] = []
        with reading(self.file.path):
            attributes = _copyable(self.attributes, self.name, lost)
            above_it = ((name, h5py.Group(group).attrs) for name, group in parent_groups(self.file.root, self.name))
            groups = {
                name: _copyable(Attributes(attrs, self.file.path, self.file.options), name, lost)
                for name, attrs in above_it
            }
            dimensions, notes = self._dimensions(lost)
            stored, more = storage_of(self._dataset)
            most = MAX_BYTES if self.file.options.limit is None else min(MAX_BYTES, self.file.options.limit // 16)
            beside = AuxiliaryVariables(lambda place: self._variable(place, lost), self.file.alone, most)
            variables = beside.variables(self.name, self.attributes)
            dimensions = beside.dimensions(dimensions)
        if lost:
            notes += (f"left out, because they are references or cannot be read: the attributes {join_names(lost)}",)
        notes += (*more, *beside.notes())
        return Metadata(
            hdf5_storage=stored,
            attributes=attributes,
            groups=groups,
            dimensions=dimensions,
            variables=variables,
            notes=notes,
        )

    def _variable(self, place: str, lost: list[str]) -> Variable | None:
        """The variable of a name, beside this field; None for dimension scales and what is no dataset."""
        found = find_object(self.file.root, place, place, False)
        if not isinstance(found, h5py.h5d.DatasetID) or h5py.h5ds.is_scale(found):
            return None
        properties, dataset = found.get_create_plist(), h5py.Dataset(found)
        if not (found.shape or properties.get_external_count() or is_virtual(properties)):
            attributes = _copyable(self.file._attributes(found), place, lost)
            stored = dataset.asstr("utf-8", "replace") if _is_string(found) else dataset
            return Variable((), (), (), 0, attributes, lambda: stored[()])
        other = self.file._checked(place, found, texts=True)
        own = {scale.name: i for i, scales in enumerate(self.scales) for scale in scales}
        shape = other.header.shape
        scales = tuple(self.file._scales(other)) or ((),) * len(shape)
        axes = tuple(next((own[scale.name] for scale in each if scale.name in own), -1) for each in scales)
        vertices = f"{place.rpartition('/')[0]}/nv{shape[-1]}"
        names = tuple(each[0].name if each else vertices for each in scales)
        attributes = _copyable(other.attributes, place, lost)
        if other.is_of_characters and axes[-1] == -1:
            shape, axes, names = shape[:-1], axes[:-1], names[:-1]
            attributes.pop("_Encoding", None)
        if other.header.dtype not in DTYPES and -1 in axes:
            raise FileError(f"{place}: has texts along other axes")
        return Variable(shape, axes, names, other.size, attributes, lambda: other.values(shape))

    def _dimensions(self, lost: list[str]) -> tuple[tuple[Dimension, ...], tuple[str, ...]]:
        """The name and scales of each axis, () if no axis has any; and a note on scales that are left out."""
        room, found, long = MAX_BYTES, [], []
        axes = self._dataset.dims
        for axis, scales, length in zip(axes, self.scales or [()] * len(axes), self.header.shape, strict=True):
            kept = {}
            for scale in scales:
                room -= scale.size
                if room < 0:
                    long.append(scale.name)
                    continue
                title, attributes = scale.title, _copyable(scale.attributes, scale.name, lost)
                only = scale.is_dimension_only
                values = np.zeros(length, scale.header.dtype) if only else scale.values((length,))
                if not only and values.shape != scale.header.shape:
                    attributes.pop("_Encoding", None)
                kept[scale.name] = Scale(values, title, attributes)
            found.append(Dimension(axis.label, kept))
        notes = (f"left out, because they are very long: the coordinates {join_names(long)}",) if long else ()
        return tuple(found) if any(each.label or each.scales for each in found) else (), notes


def _copyable(attributes: Any, owner: str, lost: list[str]) -> dict[str, Any]:
    """The attributes of an object that can be written again; names of others, unless made anew, are added to `lost`."""
    found = {}
    for name in attributes:
        if name in REWRITTEN:
            continue
        try:
            value = attributes[name]
        except ATTRIBUTE_ERRORS:
            value = None
        if value is None or _is_reference(value):
            lost.append(f"{owner}@{name}")
        else:
            found[name] = value
    return found


def _is_reference(value: Any) -> bool:
    """Whether the value of an attribute is, or contains, references to other objects."""
    kind = getattr(value, "dtype", None)
    if kind is None or kind.names is None:
        return isinstance(value, h5py.Reference) or (kind is not None and h5py.check_ref_dtype(kind) is not None)
    return bool(kind.hasobject)


def _dtype_of(found: Any) -> str:
    try:
        return str(found.dtype.name)
    except (TypeError, ValueError):
        return "a type that numpy does not have"


def _is_string(found: Any) -> bool:
    try:
        return h5py.check_string_dtype(found.dtype) is not None
    except (TypeError, ValueError):
        return False


def _header(name: str, found: Any) -> Header | None:
    """The header of a dataset, wherever its data lies; None if it cannot be pooled."""
    dtype, properties = _dtype_of(found), found.get_create_plist()
    if dtype not in DTYPES:
        return None
    virtual = is_virtual(properties) and properties.get_virtual_count()
    shape = properties.get_virtual_vspace(0).shape if virtual else found.shape
    return Header("hdf5", tuple(map(int, shape)), dtype, key=name) if shape else None
