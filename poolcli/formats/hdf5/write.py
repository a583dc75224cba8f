"""HDF5 files are written whole from memory, or region by region."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.formats import nodata
from poolcli.formats.atomic import byte_stream, whole_file
from poolcli.formats.checks import byte_count, named
from poolcli.formats.hdf5.append import added_to, is_own, make_room, place_of
from poolcli.formats.hdf5.library import h5py, translated
from poolcli.formats.hdf5.names import bytes_of
from poolcli.formats.names import array_names
from poolcli.formats.records import CallbackWriter, NamedArray, RegionWriter, Scale, Spec, WriteOptions, slices

NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable."  # what netCDF calls a scale without values


def write(path: str, arrays: Sequence[NamedArray], options: WriteOptions) -> tuple[str, ...]:
    """Writes datasets (`data` without a name) with the attributes and the storage of the inputs'."""
    names = array_names(path, [each.spec.key for each in arrays])
    if _is_added_to(path, options):
        with added_to(path, sum(each.array.nbytes for each in arrays)) as file:
            return _filled(file, path, names, arrays, options)
    # Made in memory: where a disk is full, HDF5 writing to it crashes the whole process.
    with translated(path), h5py.File("made in memory", "w", driver="core", backing_store=False) as file:
        notes = _filled(file, path, names, arrays, options)
        file.flush()
        image = file.id.get_file_image()
    with byte_stream(path, options.overwrite) as stream:
        stream.write(image)
    return notes


def _filled(
    file: Any, path: str, names: Sequence[str], arrays: Sequence[NamedArray], options: WriteOptions
) -> tuple[str, ...]:
    import numpy as np

    notes: list[str] = []
    for name, each in zip(names, arrays, strict=True):
        dataset, lost = _create(file, path, name, each.spec, options)
        dataset[...] = np.ascontiguousarray(each.array)
        notes += lost
    return tuple(dict.fromkeys(notes))


@contextmanager
def open_writer(path: str, spec: Spec, options: WriteOptions) -> Iterator[RegionWriter]:
    """Writes a dataset region by region, straight to the disk."""
    (name,) = array_names(path, [spec.key])
    with _opened_for(path, spec, options) as file:
        dataset, notes = _create(file, path, name, spec, options)
        yield CallbackWriter(lambda region, array: dataset.__setitem__(slices(region), array), notes)


@contextmanager
def _opened_for(path: str, spec: Spec, options: WriteOptions) -> Iterator[Any]:
    if _is_added_to(path, options):
        with added_to(path, byte_count(spec.shape, DTYPES[spec.dtype].itemsize)) as file:
            yield file
        return
    with whole_file(path, options.overwrite) as part, translated(path), h5py.File(part, "w") as file:
        yield file


def _is_added_to(path: str, options: WriteOptions) -> bool:
    return options.adds and os.path.lexists(path)


def _create(file: Any, path: str, key: str, spec: Spec, options: WriteOptions) -> tuple[Any, tuple[str, ...]]:
    """The empty dataset with all that goes with it, and notes on what cannot be kept; a file that it is added to keeps
    the attributes of its own groups.
    """
    metadata, lost = spec.metadata, list[str]()
    group, name = place_of(file, path, key)
    if options.adds:
        make_room(group, name, f"{path}:{spec.key}", options.overwrite)
    dataset, notes = _stored(group, name, spec)
    _add(dataset.attrs, metadata.attributes, dataset.dtype, lost)
    for place, attributes in () if options.adds else metadata.groups.items():
        _add(file[bytes_of(place)].attrs, attributes, None, lost)
    for axis, dimension in zip(dataset.dims, metadata.dimensions, strict=False):
        if dimension.label:
            axis.label = dimension.label
        for key, scale in dimension.scales.items():
            made = _scale(file, path, key, scale, lost)
            if made is None:
                notes += (f"left out: the scale {key} of {spec.key}, for another of that name has other values",)
            else:
                axis.attach_scale(made)
    if lost:
        notes += (f"left out, for they cannot be written: the attributes {named(lost)}",)
    return dataset, (*metadata.notes, *notes)


def _stored(group: Any, name: bytes, spec: Spec) -> tuple[Any, tuple[str, ...]]:
    """The dataset itself, stored as the input's was as far as that can be."""
    import numpy as np

    stored, notes = dict(spec.metadata.dataset), list[str]()
    fill = stored.get("fillvalue")
    with np.errstate(all="ignore"):  # of a value that is beyond the type
        has_fill = fill is None or np.asarray(fill).astype(spec.dtype) == fill or np.isnan(fill)
    if not has_fill:
        del stored["fillvalue"]
        notes.append(f"stored without the fill value {fill}, which {spec.dtype} does not have")
    if 0 in spec.shape or not spec.shape:
        stored = {}
    if "chunks" in stored:
        stored["chunks"] = tuple(min(c, n) for c, n in zip(stored["chunks"], spec.shape, strict=True))
    if "maxshape" in stored:
        limits = zip(stored["maxshape"], spec.shape, strict=True)
        stored["maxshape"] = tuple(None if limit is None else max(limit, n) for limit, n in limits)
    try:
        return group.create_dataset(name, spec.shape, spec.dtype, **stored), tuple(notes)
    except (TypeError, ValueError, OSError, RuntimeError):
        if "compression" not in stored:
            raise
    code = stored.pop("compression")
    stored.pop("compression_opts", None)
    notes.append(f"stored without the filter {code}, which cannot hold {spec.dtype} in such chunks")
    return group.create_dataset(name, spec.shape, spec.dtype, **stored), tuple(notes)


def _scale(file: Any, path: str, key: str, scale: Scale, lost: list[str]) -> Any:
    """The dataset of a scale, which several axes can share; None where one of that name has other values."""
    import numpy as np

    (checked,) = array_names(path, [key])
    group, name = place_of(file, path, checked)
    if group.id.links.exists(name):
        if not is_own(group, name):
            return None
        found = group[name]
        same = found.shape == scale.values.shape and np.array_equal(found[...], scale.values, equal_nan=True)
        return found if same else None
    made = group.create_dataset(name, data=scale.values)
    made.make_scale(f"{NO_VARIABLE}{len(scale.values):10}" if scale.title.startswith(NO_VARIABLE) else scale.title)
    _add(made.attrs, scale.attributes, made.dtype, lost)
    return made


def _add(target: Any, attributes: Mapping[str, Any], dtype: Any, lost: list[str]) -> None:
    """Adds attributes; those that name missing values are of the dataset's own type, as netCDF wants them."""
    import numpy as np

    for name, value in attributes.items():
        try:
            if name not in target:
                typed = dtype is not None and name in nodata.NAMES and np.asarray(value).dtype.kind in "iuf"
                target[name] = np.asarray(value).astype(dtype) if typed else value
        except (TypeError, ValueError, OSError, RuntimeError):
            lost.append(name)
