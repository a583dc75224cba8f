"""Metadata of Zarr arrays: attributes, nodata values, dimension names, and coordinates of axes."""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from posixpath import dirname, join
from typing import Any

import poolcli.formats.cf as cf
from poolcli.dtypes import DTYPES, can_hold
from poolcli.errors import PoolError
from poolcli.formats.checks import NODATA_ATTRIBUTES, byte_count, join_names
from poolcli.formats.files import relative_path
from poolcli.formats.records import Axis, Dimension, Metadata, Scale
from poolcli.formats.zarr.library import ZARR_ERRORS, groups_above, is_group, zarr_errors
from poolcli.formats.zarr.ome import COLLECTION_KEYS, image_metadata
from poolcli.formats.zarr.storage import ExpansionCheck, storage_of
from poolcli.layouts import layout_of_dimensions
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np

DIMENSIONS = "_ARRAY_DIMENSIONS"  # xarray's attribute of dimension names in Zarr v2
RUN = "poolcli_run"  # the attribute of a store by which a later run with --resume recognises that it is complete
GROUP_KEYS = ("ome", "multiscales", "omero", *COLLECTION_KEYS)  # attributes of groups that one array does not keep
STRING_CODEC = "vlen-utf8"
MAX_CHUNK = 2**26  # bytes of a chunk of coordinates


def metadata_of(root: Any, key: str | None, array: Any) -> Metadata:
    """The metadata of an array, without coordinates."""
    axes = axes_of(root, key, array)
    groups, dropped = {}, []
    for name, group in groups_above(root, key):
        attributes = dict(group.attrs)
        attributes.pop(RUN, None)
        dropped += [f"{word} of {name}" for word in GROUP_KEYS if attributes.pop(word, None) is not None]
        groups[name] = attributes
    notes = [f"left out, because it describes several arrays: {join_names(dropped)}"] if dropped else []
    ome = image_metadata(root, key)
    found = ome.get("axes", ())
    letters = layout_of_dimensions([axis.get("name") for axis in found]) or ""
    units = [str(axis.get("unit", "")) for axis in found]
    return Metadata(
        ome=ome,
        axes=tuple(map(Axis, letters, array.shape, ome.get("scale", ()), units)),
        zarr_storage=storage_of(array),
        attributes=attributes_of(root, key, array),
        groups=groups,
        dimensions=tuple(Dimension(name or "", {}) for name in axes),
        notes=tuple(notes),
    )


def attributes_of(root: Any, key: str | None, array: Any) -> dict[str, Any]:
    """The attributes of an array without dimension names, with its nodata values as numbers.

    In Zarr v2 xarray stores `_FillValue` as the fill value of arrays with dimension names; those of a multiscale group
    are written by others, whose fill value is an element like others.
    """
    found = decode_nodata(array.attrs)
    found.pop(RUN, None)
    named, fill = found.pop(DIMENSIONS, None), getattr(array.metadata, "fill_value", None)
    if named and array.metadata.zarr_format == 2 and fill is not None and not image_metadata(root, key):
        found["_FillValue"] = fill.item()
    return found


def encode_nodata(attributes: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """The attributes of an array of Zarr v3 as xarray writes them, the inverse of `decode_nodata`."""
    fill = attributes.get("_FillValue")
    is_number = isinstance(fill, int | float) and not isinstance(fill, bool) and can_hold(DTYPES["float64"], fill)
    if DTYPES[dtype].kind != "float" or not is_number:
        return dict(attributes)
    return {**attributes, "_FillValue": b64encode(struct.pack("<d", fill)).decode()}


def decode_nodata(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, with nodata values that xarray wrote as the base64 of their eight bytes as numbers.

    >>> decode_nodata({"_FillValue": "AAAAAAAA+H8=", "title": "AAAAAAAA+H8="})
    {'_FillValue': nan, 'title': 'AAAAAAAA+H8='}
    """
    found = dict(attributes)
    for name in NODATA_ATTRIBUTES:
        with suppress(ValueError, TypeError, struct.error):
            (found[name],) = struct.unpack("<d", b64decode(found.get(name, 0), validate=True))
    return found


def json_attributes(attributes: Mapping[str, Any], owner: str, lost: list[str]) -> dict[str, Any]:
    """Attributes as JSON values; the names of those that cannot be are added to `lost`.

    >>> json_attributes({"title": b"a", "of": object()}, "/x", lost := [])
    {'title': 'a'}
    >>> lost
    ['/x@of']
    """
    found = {}
    for name, value in attributes.items():
        try:
            found[str(name)] = json.loads(json.dumps(value, default=_plain))
        except (TypeError, ValueError, RecursionError):
            lost.append(f"{owner}@{name}")
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "tolist"):  # of numpy; netCDF stores a number as an array of one
        return value.item() if value.size == 1 else value.tolist()
    raise TypeError(f"{type(value).__name__} is not a JSON type")


def axes_of(root: Any, key: str | None, array: Any) -> tuple[str | None, ...]:
    """The names of an array's axes, its own or those of OME-Zarr; () if there are none."""
    names = dimension_names(array)
    axes = () if names else tuple(str(axis.get("name", "")) for axis in image_metadata(root, key).get("axes", ()))
    return names or (axes if len(axes) == array.ndim else ())


def dimension_names(array: Any) -> tuple[str | None, ...]:
    """The dimension names of an array; () if it has none."""
    found = getattr(array.metadata, "dimension_names", None) or array.attrs.get(DIMENSIONS)
    if not isinstance(found, list | tuple) or len(found) != array.ndim or not any(found):
        return ()
    return tuple(name if isinstance(name, str) else None for name in found)


def dependent_arrays(arrays: Mapping[str, Any]) -> set[str]:
    """The keys of arrays that belong to others: coordinates of their axes, and what their attributes name."""
    names = {key: dimension_names(array) for key, array in arrays.items()}
    along = {
        place
        for key, axes in names.items()
        for name in axes
        for place in _candidates(key, name)
        if place != key and names.get(place) == (name,)
    }
    return along | cf.dependent_variables({key: array.attrs for key, array in arrays.items()})


def with_coordinates(root: Any, key: str, array: Any, metadata: Metadata) -> Metadata:
    """The metadata with the coordinates of the axes of an array, and without its references to other variables."""
    dimensions, notes = list[Dimension](), list(metadata.notes)
    for each, length in zip(metadata.dimensions, array.shape, strict=True):
        scales = dict[str, Scale]()
        for place in _candidates(key, each.label or None):
            node = _open_array(root, place) if place != key else None
            if node is None or node.shape != (length,) or not (node.dtype.name in DTYPES or _is_string(node)):
                continue
            if length <= cf.MAX_COORDINATES and byte_count(node.chunks, node.dtype.itemsize) <= MAX_CHUNK:
                with suppress(PoolError):
                    scales[place] = Scale(_read_coordinates(place, node), "", attributes_of(root, place, node))
            if not scales:
                notes.append(f"left out, because they are very long or cannot be read: the coordinates {place}")
            break
        dimensions.append(Dimension(each.label, scales))
    found = replace(metadata, dimensions=tuple(dimensions), notes=tuple(notes))
    return cf.without_references(key, found)


def _read_coordinates(place: str, node: Any) -> Array:
    node.store.checks.append(ExpansionCheck(place, node, MAX_CHUNK))
    with zarr_errors(place):
        found = np.asarray(node[...])
    return found if found.dtype.name in DTYPES else found.astype(object)


def _candidates(key: str, name: str | None) -> Iterator[str]:
    """Where the coordinates of an axis may be: beside an array, or in a group above it, the nearest first."""
    place = key if name else "/"
    while place != "/":
        place = dirname(place)
        yield join(place, str(name))


def _open_array(root: Any, place: str) -> Any:
    """The array of a name; None if there is none."""
    with suppress(*ZARR_ERRORS):
        node = root[relative_path(place)]
        return None if is_group(node) else node
    return None


def _is_string(node: Any) -> bool:
    """Whether an array holds texts, which no codec makes of Python objects."""
    codecs = getattr(node.metadata, "filters", None) or ()
    plain = all(codec.codec_id == STRING_CODEC for codec in codecs)
    return node.dtype.kind in "UT" or (node.dtype.kind == "O" and bool(codecs) and plain)
