"""HDF5 files through h5py: datasets and their metadata. Data in other files is refused, unless it is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError, RequestError
from poolcli.formats.cf import (
    COORDINATES,
    MAX_COORDINATES,
    NOT_A_VARIABLE,
    REFERENCES,
    as_unsigned,
    dependent_variables,
    referenced_variables,
    without_references,
)
from poolcli.formats.checks import (
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
from poolcli.formats.hdf5.chunks import (
    GzipChunks,
    check_filters,
    check_gzip_chunks,
    check_location,
    check_memory,
    gzip_chunks,
    h5py,
    is_virtual,
    storage_of,
)
from poolcli.formats.hdf5.gate import (
    decode_name,
    find_object,
    open_root,
    parent_groups,
    read_attributes,
    reading,
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
    batches,
    slices,
    whole_region,
)
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
        file = Hdf5File(source.path, root, options)
        yield file.array(source.key) if source.key is not None else open_chosen(file, source, options.ndim)


@dataclass(frozen=True, slots=True)
class Hdf5File:
    """An open file. The datasets that it returns have passed the checks."""

    path: str
    root: Any
    options: ReadOptions

    @property
    def headers(self) -> list[Header]:
        """The numeric datasets, by path, without dimension scales and variables that others refer to."""
        return self._listed[0]

    @property
    def left_out(self) -> list[str]:
        """The names of links, and of datasets that are not numeric."""
        return self._listed[1]

    @property
    def _listed(self) -> tuple[list[Header], list[str]]:
        with reading(self.path):
            found = dict(walk(self.root))
            attributes = {name: self._attributes(each, REFERENCES) for name, each in found.items() if each}
            dependent, headers, left_out = dependent_variables(attributes), list[Header](), list[str]()
            for name, each in found.items():
                if each and (name in dependent or h5py.h5ds.is_scale(each)):
                    continue
                header = _header(name, each) if each else None
                if header is None:
                    left_out.append(name)
                else:
                    headers.append(header)
            return headers, left_out

    def _attributes(self, found: Any, names: tuple[str, ...] = ()) -> dict[str, Any]:
        return read_attributes(h5py.Dataset(found), names)

    def array(self, key: str) -> ArrayReader:
        """The dataset called `key`; refused if it does not exist, cannot be pooled, or has data in other files."""
        with reading(self.path):
            dataset = self._checked(key, self._find(key))
            dataset.scales = tuple(self._scales(dataset))
            dataset.auxiliary = tuple(self._auxiliary(dataset))
            attributes, notes = dataset.attributes, [*nodata_notes(dataset.attributes)]
            if "MATLAB_class" in attributes:
                notes.append("MATLAB has the axes in the opposite order")
            missing = nodata_in(attributes, dataset.header.dtype)
            dataset.header = replace(dataset.header, notes=tuple(notes), missing=missing)
            return as_unsigned(dataset, attributes)

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
        if not (texts and _is_string(found)):
            check_dtype(where, "text" if _is_string(found) else _dtype_of(found))
        properties = found.get_create_plist()
        check_location(where, self.path, properties, name, self.options.allow_external)
        if not texts:
            check_rank(where, found.shape or ())
        check_filters(where, properties)
        taken = check_memory(where, self.path, found, properties, self.options)
        header = Header("hdf5", tuple(map(int, found.shape)), found.dtype.name, key=name, extra_memory=taken)
        opened = h5py.Dataset(found)
        gzipped = gzip_chunks(where, opened) if opened.chunks else None
        return Dataset(header, self, name, opened, self._attributes(found), gzipped)

    def _scales(self, dataset: Dataset) -> Iterator[tuple[Dataset, ...]]:
        """The one-dimensional scales of each axis, none if no axis has any; refuses scales in other files."""
        listed = dataset.attributes.get("DIMENSION_LIST")
        if listed is None or len(listed) != len(dataset.header.shape):
            return
        for references, length in zip(listed, dataset.header.shape, strict=True):
            scales = [scale for scale in map(self._referred, references) if scale is not None]
            yield tuple(scale for scale in scales if scale.header.shape == (length,) or scale.is_dimension_only)

    def _auxiliary(self, dataset: Dataset) -> Iterator[tuple[Dataset, int | None]]:
        """The numeric variables that CF's attribute `coordinates` names, with the axis whose scale they share: None for
        a single number.
        """
        axes = [{scale.name for scale in scales} for scales in dataset.scales]
        for name in referenced_variables(dataset.name, dataset.attributes).get(COORDINATES, ()):
            with suppress(FileError):  # a link to another file
                found = find_object(self.root, name, name, False)
                if isinstance(found, h5py.h5d.DatasetID) and found.rank < 2 and _dtype_of(found) in DTYPES:
                    variable = self._checked(name, found, texts=True)
                    own = {scale.name for scales in self._scales(variable) for scale in scales}
                    along = [i for i, names in enumerate(axes) if own & names and name not in names]
                    if along or not variable.header.shape:
                        yield variable, along[0] if along else None

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
    """A dataset that has passed the checks; `scales` are the dimension scales of each axis, `auxiliary` the other
    coordinates, with their axes.
    """

    header: Header
    file: Hdf5File
    name: str
    _dataset: Any
    attributes: Mapping[str, Any]
    _gzip_chunks: GzipChunks | None
    scales: tuple[tuple[Dataset, ...], ...] = ()
    auxiliary: tuple[tuple[Dataset, int | None], ...] = ()
    streams: bool = True
    chunks: tuple[int, ...] | None = None

    @property
    def values(self) -> Array:
        """All of it, as numbers or texts."""
        if self.header.dtype in DTYPES:
            return self.read(whole_region(self.header.shape)) if self.header.shape else np.asarray(self._dataset[()])
        with reading(self.file.path):
            found: Array = self._dataset.asstr("utf-8", "replace")[...]
        return found

    @property
    def title(self) -> str:
        """The NAME of a dimension scale."""
        return decode_name(h5py.h5ds.get_scale_name(self._dataset.id))

    @property
    def is_dimension_only(self) -> bool:
        """Whether it is a dimension of netCDF without values, whose length is wrong if the dimension is unlimited."""
        is_plain = self.header.dtype in DTYPES and len(self.header.shape) == 1
        return is_plain and h5py.h5ds.is_scale(self._dataset.id) and self.title.startswith(NOT_A_VARIABLE)

    def read(self, region: Ranges) -> Array:
        """A region of it; chunks in batches, because HDF5 takes 6 KB of memory for each."""
        dataset, path = self._dataset, self.file.path
        out = np.empty(tuple(map(len, region)), dataset.dtype)
        for part in batches(region, dataset.chunks or dataset.shape):
            with reading(path, byte_count(tuple(map(len, part)), dataset.dtype.itemsize)):
                if self._gzip_chunks is not None:
                    check_gzip_chunks(f"{path}:{self.name}", dataset, self._gzip_chunks, part)
                dataset.read_direct(out, slices(part), slices(part, region))
        return out

    @property
    def metadata(self) -> Metadata:
        """Its attributes, those of the groups above it, its storage and its dimension scales."""
        lost = list[str]()
        with reading(self.file.path):
            attributes, groups = _copyable(self.attributes, self.name, lost), {}
            for name, group in parent_groups(self.file.root, self.name):
                groups[name] = _copyable(read_attributes(h5py.Group(group)), name, lost)
            dimensions, notes = self._dimensions(lost)
            stored, more = storage_of(self._dataset)
            if lost:
                notes += (
                    f"left out, because they are references or cannot be read: the attributes {join_names(lost)}",
                )
            scalars = {each.name: each.coordinate(lost) for each, axis in self.auxiliary if axis is None}
            found = Metadata(
                hdf5_storage=stored, attributes=attributes, groups=groups, dimensions=dimensions, scalars=scalars,
                notes=(*notes, *more),
            )  # fmt: skip
            return without_references(self.name, found, self._exists)

    def coordinate(self, lost: list[str]) -> Scale:
        """It as an auxiliary coordinate."""
        return Scale(self.values, "", _copyable(self.attributes, self.name, lost), is_auxiliary=True)

    def _exists(self, place: str) -> bool:
        try:
            return isinstance(find_object(self.file.root, place, place, False), h5py.h5d.DatasetID)
        except FileError:  # a link to another file
            return True

    def _dimensions(self, lost: list[str]) -> tuple[tuple[Dimension, ...], tuple[str, ...]]:
        """The name and scales of each axis, () if no axis has any; and a note on scales that are left out."""
        found, long = [], []
        axes = self._dataset.dims
        for i, (axis, length) in enumerate(zip(axes, self.header.shape, strict=True)):
            kept, scales = {}, self.scales[i] if self.scales else ()
            for scale in scales:
                only = scale.is_dimension_only
                if length > MAX_COORDINATES and not only:
                    long.append(scale.name)
                    continue
                values = np.zeros(length, scale.header.dtype) if only else scale.values
                kept[scale.name] = Scale(values, scale.title, _copyable(scale.attributes, scale.name, lost))
            kept |= {each.name: each.coordinate(lost) for each, own in self.auxiliary if own == i and kept}
            found.append(Dimension(axis.label, kept))
        notes = (f"left out, because they are very long: the coordinates {join_names(long)}",) if long else ()
        return tuple(found) if any(each.label or each.scales for each in found) else (), notes


def _copyable(attributes: Mapping[str, Any], owner: str, lost: list[str]) -> dict[str, Any]:
    """The attributes of an object that can be written again; names of others, unless made anew, are added to `lost`."""
    found = {name: value for name, value in attributes.items() if name not in REWRITTEN}
    gone = [name for name, value in found.items() if value is None or _is_reference(value)]
    lost += [f"{owner}@{name}" for name in gone]
    return {name: value for name, value in found.items() if name not in gone}


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
