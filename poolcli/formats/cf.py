"""netCDF conventions for HDF5 and Zarr: references to other variables (CF 5 and 7), which are not kept, and unsigned
integers stored as signed ones (`_Unsigned`, NetCDF Users Guide, appendix A); and attributes in Zarr as xarray has them.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from poolcli.arguments import Missing
from poolcli.dtypes import DTYPES, can_hold
from poolcli.formats.checks import NODATA_ATTRIBUTES, RANGE_ATTRIBUTES, join_names, nodata_in, nodata_notes
from poolcli.formats.records import ArrayReader, Dimension, Header, Metadata
from poolcli.system.lazy_imports import Array, numpy as np
from poolcli.windows import Ranges

MAX_COORDINATES = 2**20  # values of an axis; longer coordinates are left out
NOT_A_VARIABLE = "This is a netCDF dimension but not a netCDF variable."  # netCDF4's NAME of a dimension without values
REFERENCES = ("bounds", "climatology", "grid_mapping", "coordinates")  # attributes that name other variables


def referenced_variables(name: str, attributes: Mapping[str, Any]) -> dict[str, list[str]]:
    """The paths of the variables that attributes of the variable `name` refer to, by attribute."""
    found = {}
    for word in REFERENCES:
        value = attributes.get(word)
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if isinstance(text, str):
            group = name.rpartition("/")[0]
            found[word] = [each if each[0] == "/" else f"{group}/{each}" for each in text.replace(":", " ").split()]
    return found


def dependent_variables(attributes: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The variables that others refer to, such as bounds: they are no arrays of their own, unless all are."""
    found = set[str]()
    for name, own in attributes.items():
        for places in referenced_variables(name, own).values():
            found |= {*places} - {name}
    return found if attributes.keys() - found else set()


def without_references(name: str, metadata: Metadata) -> Metadata:
    """The metadata without the attributes that refer to other variables, which are not kept, and a note on those."""
    kept = {place for dimension in metadata.dimensions for place in dimension.scales}
    lost = dict[str, None]()

    def cleaned(owner: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        found = referenced_variables(owner, attributes)
        lost.update((place, None) for places in found.values() for place in places if place not in kept)
        return {word: value for word, value in attributes.items() if word not in found}

    attributes, dimensions = cleaned(name, metadata.attributes), list[Dimension]()
    for each in metadata.dimensions:
        scales = {
            place: replace(scale, attributes=cleaned(place, scale.attributes)) for place, scale in each.scales.items()
        }
        dimensions.append(replace(each, scales=scales))
    notes = metadata.notes
    if lost:
        notes += (f"left out: the variables {join_names(list(lost))}, and the attributes that refer to them",)
    return replace(metadata, attributes=attributes, dimensions=tuple(dimensions), notes=notes)


def same_values(one: Any, other: Any) -> bool:
    """Whether two variables of one name have equal values, so that one of them is written."""
    a, b = np.asarray(one), np.asarray(other)
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")


def conflict_note(key: str, owner: str | None) -> str:
    """A note on coordinates that are dropped, because another array has different ones of the same name."""
    return f"left out: the coordinates {key} of {owner}, because others of that name have other values"


# Classic netCDF has no unsigned integers above 8 bits: satellite products, for example, store them as signed ones.
UNSIGNED_ATTRIBUTE = "_Unsigned"


def with_nodata(reader: ArrayReader, attributes: Mapping[str, Any]) -> ArrayReader:
    """The reader with the nodata values of these attributes; if `_Unsigned` is true, its integers become unsigned."""
    header, said = reader.header, attributes.get(UNSIGNED_ATTRIBUTE)
    notes, dtype = (*nodata_notes(attributes), *header.notes), header.dtype
    is_unsigned = DTYPES[dtype].kind == "int" and isinstance(said, str | bytes) and said in ("true", b"true")
    if is_unsigned:
        dtype = f"u{dtype}"
        attributes = _unsigned_attributes(attributes, dtype)
        notes += (f"read as {dtype}, as its attribute {UNSIGNED_ATTRIBUTE} says",)
    reader.header = replace(header, dtype=dtype, missing=nodata_in(attributes, dtype), notes=notes)
    return _UnsignedReader(reader.header, reader, reader.streams, reader.chunks) if is_unsigned else reader


@dataclass(slots=True)
class _UnsignedReader:
    header: Header
    signed: ArrayReader
    streams: bool
    chunks: tuple[int, ...] | None

    @property
    def metadata(self) -> Metadata:
        found, dtype = self.signed.metadata, self.header.dtype
        stored = dict(found.hdf5_storage)
        if "fillvalue" in stored:
            stored["fillvalue"] = _reinterpreted(stored["fillvalue"], dtype)
        return replace(found, hdf5_storage=stored, attributes=_unsigned_attributes(found.attributes, dtype))

    def read(self, region: Ranges) -> Array:
        found = self.signed.read(region)
        return found.view(found.dtype.str.replace("i", "u"))  # keeps the byte order


def _unsigned_attributes(attributes: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    found = {name: value for name, value in attributes.items() if name != UNSIGNED_ATTRIBUTE}
    for name in found.keys() & {*NODATA_ATTRIBUTES, *RANGE_ATTRIBUTES}:
        found[name] = _reinterpreted(found[name], dtype)
    return found


def _reinterpreted(value: Any, dtype: str) -> Any:
    """Signed integers reinterpreted as unsigned ones of the same width; other values unchanged."""
    array = np.asarray(value)
    if array.dtype.kind != "i":
        return value
    wrapped = array.astype(dtype)
    return wrapped[()] if isinstance(value, np.generic | np.ndarray) else wrapped.tolist()


def encode_nodata(attributes: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """The attributes of an array of Zarr v3 as xarray writes them, the inverse of `decode_nodata`."""
    fill = attributes.get("_FillValue")
    is_number = isinstance(fill, int | float) and not isinstance(fill, bool) and can_hold(DTYPES["float64"], fill)
    if DTYPES[dtype].kind != "float" or not is_number:
        return dict(attributes)
    return {**attributes, "_FillValue": b64encode(struct.pack("<d", fill)).decode()}


def decode_nodata(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, with nodata values that xarray wrote as the base64 of their eight bytes as numbers."""
    found = dict(attributes)
    for name in NODATA_ATTRIBUTES:
        with suppress(ValueError, TypeError, struct.error):
            (found[name],) = struct.unpack("<d", b64decode(found.get(name, 0), validate=True))
    return found


def json_attributes(attributes: Mapping[str, Any], owner: str, lost: list[str]) -> dict[str, Any]:
    """Attributes as JSON values; the names of those that cannot be are added to `lost`."""
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


def declared_missing(x: Any, dtype: str) -> Missing | None:
    """The nodata values that a DataArray, a Zarr array or an HDF5 dataset declares; None if there are none."""
    if not isinstance(x.attrs, Mapping) or dtype not in DTYPES:
        return None
    attributes = decode_nodata(x.attrs)
    if "_ARRAY_DIMENSIONS" in attributes and x.metadata.fill_value is not None:  # xarray's form of Zarr v2
        attributes["_FillValue"] = x.metadata.fill_value
    return nodata_in(attributes, dtype) or None
