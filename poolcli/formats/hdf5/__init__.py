"""HDF5 files through h5py: datasets and their metadata. Data in other files is refused, unless it is allowed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from posixpath import basename
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError, RequestError
from poolcli.formats import cf, checks, records
from poolcli.formats.hdf5 import gate
from poolcli.formats.hdf5.gate import h5py, reading
from poolcli.formats.hdf5.write import open_writer, storage_of, write
from poolcli.formats.records import ArrayContainer, ArrayReader, Dimension, Header, Metadata, ReadOptions, Scale
from poolcli.layouts import layout_of_dimensions
from poolcli.system.lazy_imports import Array, numpy as np
from poolcli.windows import Ranges, slices

__all__ = ["open_container", "open_writer", "write"]

TEXT = "text"
REWRITTEN = (
    "DIMENSION_LIST", "DIMENSION_LABELS", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates",
)  # fmt: skip


@contextmanager
def open_container(path: str, options: ReadOptions) -> Iterator[ArrayContainer]:
    """Opens the file."""
    with gate.open_root(path) as root:
        yield Hdf5File(path, root, options)


@dataclass(frozen=True)
class Hdf5File(ArrayContainer):
    """An open file. The datasets that it returns have passed the checks."""

    path: str
    root: Any
    options: ReadOptions

    @cached_property
    def listed(self) -> dict[str, Header | None]:
        """The numeric datasets, without dimension scales and those that others refer to; None for links and others."""
        with reading(self.path):
            return {
                name: _header(name, each) if each else None
                for name, each in self._walked.items()
                if not each or not (name in self.referenced or h5py.h5ds.is_scale(each))
            }

    @cached_property
    def referenced(self) -> Collection[str]:
        """The names of variables that others refer to."""
        with reading(self.path):
            found = {name: h5py.Dataset(each) for name, each in self._walked.items() if each}
            return cf.dependent_variables(
                {name: gate.read_attributes(each, cf.REFERENCES) for name, each in found.items()}
            )

    @cached_property
    def _walked(self) -> dict[str, Any]:
        return dict(gate.walk(self.root))

    def array(self, key: str) -> ArrayReader:
        """The dataset called `key`; refused if it does not exist, cannot be pooled, or has data in other files."""
        with reading(self.path):
            found = self._find(key)
            checks.check_dtype(f"{self.path}:{key}", _dtype_of(found))
            dataset = self._checked(key, found)
            dataset.axes = self._scales(dataset)
            notes = ("MATLAB has the axes in the opposite order",) if "MATLAB_class" in dataset.attributes else ()
            dataset.header = replace(dataset.header, notes=notes, layout=layout_of_dimensions(dataset.axis_names))
            return cf.with_nodata(dataset, dataset.attributes)

    def _find(self, key: str) -> Any:
        where = f"{self.path}:{key}"
        found = gate.find_object(self.root, key, where, self.options.allow_external)
        if found is None and "/" + key.strip("/") in self.left_out:
            raise FileError(f"{where}: is a link that leads nowhere")
        if found is None:
            raise checks.no_such_array(self.path, key, self.headers)
        if not isinstance(found, h5py.h5d.DatasetID):
            inside = [h for h in self.headers if str(h.key).startswith("/" + key.strip("/") + "/")]
            raise RequestError(f"{where}: is a group; name a dataset in it: {checks.describe_arrays(inside)}")
        return found

    def _checked(self, name: str, found: Any) -> Dataset:
        """The dataset, after all checks but that of its dtype."""
        where, properties = f"{self.path}:{name}", found.get_create_plist()
        gate.check_location(where, self.path, properties, self.options.allow_external)
        dtype = _dtype_of(found)
        if dtype != TEXT:
            checks.check_array(where, found.shape, dtype, self.options.scalars)
        gate.check_filters(where, properties)
        taken = gate.check_memory(where, found, properties, self.options)
        shape, packed = tuple(map(int, found.shape)), gate.is_compressed(properties)
        header = Header("hdf5", shape, dtype, key=name, extra_memory=taken, compressed=packed)
        opened = h5py.Dataset(found)
        chunks = gate.gzip_chunks(where, opened) if opened.chunks else {}
        return Dataset(header, self, opened, gate.read_attributes(opened), chunks)

    def _scales(self, dataset: Dataset) -> list[list[Dataset]]:
        """The one-dimensional scales of each axis; refuses scales in other files."""
        shape, listed = dataset.header.shape, dataset.attributes.get("DIMENSION_LIST")
        if listed is None or len(listed) != len(shape):
            return [[] for _ in shape]
        return [
            [
                scale
                for scale in map(self._referred, references)
                if scale and (scale.header.shape == (length,) or scale.is_dimension_only)
            ]
            for references, length in zip(listed, shape, strict=True)
        ]

    def _referred(self, reference: Any) -> Dataset | None:
        """The dataset that a reference points to; None for anything but a reference into this file."""
        if not isinstance(reference, h5py.Reference) or not reference:
            return None
        found = h5py.h5r.dereference(reference, self.root)
        name = h5py.h5i.get_name(found) if isinstance(found, h5py.h5d.DatasetID) else None
        if not name or not ((header := _header("", found, (*DTYPES, TEXT))) and header.shape):
            return None
        return self._checked(gate.decode_name(name), found)


@dataclass(slots=True)
class Dataset(ArrayReader):
    """A dataset that has passed the checks; `axes` are the scales of each axis."""

    header: Header
    file: Hdf5File
    _dataset: Any
    attributes: Mapping[str, Any]
    _gzip_chunks: gate.GzipChunks
    axes: list[list[Dataset]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.header.key)

    @property
    def axis_names(self) -> list[str]:
        """The label of each axis, else the name of its first scale."""
        both = zip(self._dataset.dims, self.axes, strict=True)
        return [axis.label or (basename(scales[0].name) if scales else "") for axis, scales in both]

    @property
    def title(self) -> str:
        """The NAME of a dimension scale."""
        return gate.decode_name(h5py.h5ds.get_scale_name(self._dataset.id))

    @property
    def is_dimension_only(self) -> bool:
        """Whether it is a dimension of netCDF without values, whose length is wrong if the dimension is unlimited."""
        is_scale = self.header.dtype in DTYPES and h5py.h5ds.is_scale(self._dataset.id)
        return is_scale and self.title.startswith(cf.NOT_A_VARIABLE)

    def read(self, region: Ranges) -> Array:
        """A region of it; chunks in records.batches, because HDF5 takes 6 KB of memory for each."""
        dataset, path = self._dataset, self.file.path
        out = np.empty(tuple(map(len, region)), dataset.dtype)
        for part in records.batches(region, dataset.chunks or dataset.shape):
            with reading(path, checks.byte_count(tuple(map(len, part)), dataset.dtype.itemsize)):
                if self._gzip_chunks:
                    gate.check_gzip_chunks(f"{path}:{self.name}", dataset, self._gzip_chunks, part)
                dataset.read_direct(out, slices(part), slices(part, region))
        return out

    @property
    def metadata(self) -> Metadata:
        """Its attributes, those of the groups above it, its storage and its coordinates."""
        lost, long, dimensions = list[str](), list[str](), list[Dimension]()
        with reading(self.file.path):
            attributes = _copyable(self.attributes, self.name, lost)
            groups = {
                name: _copyable(gate.read_attributes(h5py.Group(group)), name, lost)
                for name, group in gate.parent_groups(self.file.root, self.name)
            }
            for axis, scales, length in zip(self._dataset.dims, self.axes, self.header.shape, strict=True):
                coordinates = dict[str, Scale]()
                for each in scales:
                    if each.is_dimension_only:
                        values: Array = np.zeros(length, each.header.dtype)
                    elif length > cf.MAX_COORDINATES:
                        long.append(each.name)
                        continue
                    elif each.header.dtype == TEXT:
                        values = each._dataset.asstr("utf-8", "replace")[...]
                    else:
                        values = each.read((range(length),))
                    coordinates[each.name] = Scale(values, each.title, _copyable(each.attributes, each.name, lost))
                dimensions.append(Dimension(axis.label, coordinates))
            stored, notes = storage_of(self._dataset)
        if long:
            notes += (f"left out, because they are very long: the coordinates {checks.join_names(long)}",)
        if lost:
            gone = checks.join_names(lost)
            notes += (f"left out, because they are references or cannot be read: the attributes {gone}",)
        found = Metadata(
            hdf5_storage=stored,
            attributes=attributes,
            groups=groups,
            dimensions=tuple(dimensions) if any(each.label or each.scales for each in dimensions) else (),
            notes=notes,
        )
        return cf.without_references(self.name, found)


def _copyable(attributes: Mapping[str, Any], owner: str, lost: list[str]) -> dict[str, Any]:
    """The attributes of an object that can be written again; names of others, unless made anew, are added to `lost`."""
    found = {name: value for name, value in attributes.items() if name not in REWRITTEN}
    gone = list[str]()
    for name, value in found.items():
        kind = getattr(value, "dtype", None)
        is_reference = kind is not None and ((kind.names and kind.hasobject) or h5py.check_ref_dtype(kind) is not None)
        if value is None or is_reference or isinstance(value, h5py.Reference):
            gone.append(name)
    lost += [f"{owner}@{name}" for name in gone]
    return {name: value for name, value in found.items() if name not in gone}


def _dtype_of(found: Any) -> str:
    try:
        return TEXT if h5py.check_string_dtype(found.dtype) else str(found.dtype.name)
    except (TypeError, ValueError):
        return "a type that numpy does not have"


def _header(name: str, found: Any, dtypes: Collection[str] = DTYPES) -> Header | None:
    """The header of a dataset, wherever its data lies; None for other dtypes, and without data."""
    dtype, properties = _dtype_of(found), found.get_create_plist()
    if dtype not in dtypes:
        return None
    virtual = gate.is_virtual(properties) and properties.get_virtual_count()
    shape = properties.get_virtual_vspace(0).shape if virtual else found.shape
    if shape is None:
        return None
    return Header("hdf5", tuple(map(int, shape)), dtype, key=name, compressed=gate.is_compressed(properties))
