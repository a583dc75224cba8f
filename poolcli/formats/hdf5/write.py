"""Writing of HDF5 files, whole from memory or region by region."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from posixpath import dirname, join
from typing import Any

from poolcli.dtypes import DTYPES, can_hold
from poolcli.errors import FileError
from poolcli.formats.atomic import atomic_file, atomic_stream
from poolcli.formats.cf import NOT_A_VARIABLE, conflict_note, same_values
from poolcli.formats.checks import NODATA_ATTRIBUTES, join_names
from poolcli.formats.files import array_names
from poolcli.formats.hdf5.gate import KEPT_FILTERS, encode_name, filters_of, h5py, h5py_errors, link_type
from poolcli.formats.records import CallbackWriter, NamedArray, RegionWriter, Scale, Spec, WriteOptions
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import slices

PLAIN_NAME = re.compile(r"[\w-]+")


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes datasets (`data` without a name) with the attributes and the storage of the inputs'."""
    names = array_names(path, [each.spec.key for each in arrays])
    notes = list[str]()
    # Made in memory, because HDF5 crashes the process when the disk is full.
    with h5py_errors(path), h5py.File("made in memory", "w", driver="core", backing_store=False) as file:
        for name, each in zip(names, arrays, strict=True):
            dataset, lost = _create_array(file, path, name, each.spec)
            dataset[...] = np.ascontiguousarray(each.array)
            notes += lost
        file.flush()
        image = file.id.get_file_image()
    with atomic_stream(path, options.overwrite) as stream:
        stream.write(image)
    return tuple(dict.fromkeys(notes))


@contextmanager
def open_writer(path: str, spec: Spec, options: WriteOptions) -> Iterator[RegionWriter]:
    """Writes a dataset region by region, straight to the disk."""
    (name,) = array_names(path, [spec.key])
    with atomic_file(path, options.overwrite) as part, h5py_errors(path), h5py.File(part, "w") as file:
        dataset, notes = _create_array(file, path, name, spec)
        yield CallbackWriter(lambda region, array: dataset.__setitem__(slices(region), array), notes)


def _place(file: Any, path: str, key: str) -> tuple[Any, bytes]:
    """The group for an object of this name, which has been checked, and its name there as bytes, maybe not of UTF-8."""
    *groups, last = map(encode_name, key.split("/"))
    group = file
    for name in groups:
        if link_type(group.id, name) is None:
            group = group.create_group(name)
        elif isinstance(group[name], h5py.Group):
            group = group[name]
        else:
            raise FileError(f"{path}:/{key}: leads through something that is not a group; choose another name")
    return group, last


def _create_array(file: Any, path: str, key: str, spec: Spec) -> tuple[Any, tuple[str, ...]]:
    """The empty dataset with its metadata, and notes on what cannot be kept."""
    metadata, lost, notes = spec.metadata, list[str](), [*spec.metadata.notes]
    group, name = _place(file, path, key)
    stored = dict(metadata.hdf5_storage) if 0 not in spec.shape else {}
    fill = stored.get("fillvalue")
    with np.errstate(all="ignore"):  # for a value beyond the type
        has_fill = fill is None or np.asarray(fill).astype(spec.dtype) == fill or np.isnan(fill)
    if not has_fill:
        del stored["fillvalue"]
        notes.append(f"stored without the fill value {fill}, which {spec.dtype} does not have")
    if "chunks" in stored:
        stored["chunks"] = tuple(map(min, stored["chunks"], spec.shape))
    dataset = group.create_dataset(name, spec.shape, spec.dtype, **stored)
    _add_attributes(dataset.attrs, metadata.attributes, dataset.dtype, lost)
    for place, attributes in metadata.groups.items():
        _add_attributes(file[encode_name(place)].attrs, attributes, None, lost)
    has_scales = any(each.scales for each in metadata.dimensions)
    for i, (axis, dimension) in enumerate(zip(dataset.dims, metadata.dimensions, strict=False)):
        if dimension.label:
            axis.label = dimension.label
        scales = dimension.scales
        if metadata.zarr_storage and has_scales and not scales and PLAIN_NAME.fullmatch(dimension.label):
            empty = Scale(np.zeros(spec.shape[i], ">f4"), NOT_A_VARIABLE, {})  # netCDF needs scales of all axes
            scales = {join(dirname(key), dimension.label): empty}
        for place, scale in scales.items():
            made = _scale(file, path, place, scale, lost)
            if made is None:
                notes.append(conflict_note(place, spec.key))
            else:
                axis.attach_scale(made)
    if lost:
        notes.append(f"left out, because they cannot be written: the attributes {join_names(lost)}")
    return dataset, tuple(notes)


def _scale(file: Any, path: str, key: str, scale: Scale, lost: list[str]) -> Any:
    """The dimension scale, which arrays can share; None if something else of that name is there."""
    (checked,) = array_names(path, [key])
    group, name = _place(file, path, checked)
    if link_type(group.id, name) is not None:
        if not isinstance(found := group[name], h5py.Dataset):
            return None
        values = found.asstr("utf-8", "replace") if h5py.check_string_dtype(found.dtype) else found
        return found if same_values(values[()], scale.values) else None
    made = group.create_dataset(name, data=scale.values)
    _add_attributes(made.attrs, scale.attributes, made.dtype, lost)
    is_dimension_only = scale.title.startswith(NOT_A_VARIABLE)
    made.make_scale(f"{NOT_A_VARIABLE}{len(scale.values):10}" if is_dimension_only else scale.title)
    return made


def _add_attributes(target: Any, attributes: Mapping[str, Any], dtype: Any, lost: list[str]) -> None:
    """Adds attributes; nodata values get the type of the dataset, as netCDF requires, if it can hold them."""
    for name, value in attributes.items():
        try:
            if name in target:
                continue
            if dtype is not None and dtype.name in DTYPES and name in NODATA_ATTRIBUTES:
                numbers = np.asarray(value)
                with np.errstate(over="ignore"):  # of long doubles
                    held = (can_hold(DTYPES[dtype.name], number) for number in numbers.ravel().tolist())
                    value = numbers.astype(dtype) if numbers.dtype.kind in "iuf" and all(held) else value
            target[name] = value
        except (TypeError, ValueError, OSError, RuntimeError):
            lost.append(name)


def storage_of(dataset: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The storage of an h5py dataset as arguments of `create_dataset`, and a note on filters that become gzip."""
    properties = dataset.id.get_create_plist()
    stored: dict[str, Any] = {}
    if properties.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        stored["fillvalue"] = dataset.fillvalue
    if properties.get_layout() != h5py.h5d.CHUNKED:
        return stored, ()
    stored |= {"chunks": properties.get_chunk(), "shuffle": dataset.shuffle, "fletcher32": dataset.fletcher32}
    others = [name.partition(";")[0] or str(code) for code, name in filters_of(properties) if code not in KEPT_FILTERS]
    if dataset.compression in ("gzip", "lzf"):
        stored |= {"compression": dataset.compression, "compression_opts": dataset.compression_opts}
    elif others:
        stored["compression"] = "gzip"
    return stored, (f"stored with gzip instead of the filter {join_names(others)}",) if others else ()
