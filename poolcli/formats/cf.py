"""netCDF conventions for HDF5 and Zarr: auxiliary variables (CF `grid_mapping`, `coordinates`, `bounds`), and unsigned
integers stored as signed ones (`_UnsignedReader`, NetCDF Users Guide, appendix A).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.errors import PoolError
from poolcli.formats.checks import ATTRIBUTE_ERRORS, NODATA_ATTRIBUTES, RANGE_ATTRIBUTES, join_names, nodata_in
from poolcli.formats.records import ArrayReader, Dimension, Header, Metadata, Scale
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import Ranges

MAX_BYTES = 2**25  # of all auxiliary variables together; others are dropped, with a note
NOT_A_VARIABLE = "This is a netCDF dimension but not a netCDF variable."  # netCDF4's NAME of a dimension without values
# Attributes that name other variables (CF 5 and 7), by paths relative to the group.
BOUNDS_ATTRIBUTES, VARIABLE_ATTRIBUTES = ("bounds", "climatology"), ("grid_mapping", "coordinates")


@dataclass(frozen=True, slots=True)
class Variable:
    """An auxiliary variable: its axes as indices into those of the array (-1 for others), their names, and its size in
    bytes.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    names: tuple[str, ...]
    size: int
    attributes: Mapping[str, Any]
    read: Callable[[], Array]


@dataclass(slots=True)
class AuxiliaryVariables:
    """Reads the auxiliary variables of an array.

    find : opens the variable at a path; None for paths that need no note, such as a dimension scale
    alone : whether only this array is read; otherwise variables with other axes are read as arrays of their own
    budget : bytes that may still be read
    """

    find: Callable[[str], Variable | None]
    alone: bool
    budget: int = MAX_BYTES
    left_out: list[str] = field(default_factory=list)

    def variables(self, name: str, attributes: Mapping[str, Any]) -> dict[str, Scale]:
        """The variables that the array's attributes name, if they are scalar or have only axes of the array."""
        found = dict[str, Scale]()
        for place in dict.fromkeys(referenced_names(attributes, name, VARIABLE_ATTRIBUTES)):
            each = self._opened(place)
            if each is not None and -1 not in each.axes and len({*each.axes}) == len(each.axes):
                scale = self.read(place, each, "", each.axes)
                found |= {} if scale is None else {place: self.bounded(place, scale)}
            elif each is not None and self.alone:
                self.left_out.append(place)
        return found

    def dimensions(self, dimensions: Sequence[Dimension]) -> tuple[Dimension, ...]:
        """The dimensions, with the bounds of each coordinate."""
        return tuple(
            replace(each, scales={name: self.bounded(name, scale) for name, scale in each.scales.items()})
            for each in dimensions
        )

    def bounded(self, name: str, scale: Scale) -> Scale:
        """The coordinate with the cell bounds that its attributes name."""
        bounds, attributes = dict[str, Scale](), dict(scale.attributes)
        for word in (word for word in BOUNDS_ATTRIBUTES if word in attributes):
            for place in referenced_names(attributes, name, (word,)):
                each = self._opened(place)
                found = None
                if each is not None and each.shape[:-1] == scale.values.shape and each.shape:
                    found = self.read(place, each, each.names[-1], scale.axes)
                elif each is not None:
                    self.left_out.append(place)
                if found is not None:
                    bounds[place] = found
                elif word in attributes:
                    del attributes[word]
        return replace(scale, bounds=bounds, attributes=attributes)

    def notes(self) -> tuple[str, ...]:
        """A note on the variables that are dropped."""
        if not self.left_out:
            return ()
        return (
            f"left out, though attributes name them: the variables {join_names(list(dict.fromkeys(self.left_out)))}",
        )

    def _opened(self, place: str) -> Variable | None:
        try:
            return self.find(place)
        except PoolError:  # it leads to another file, or cannot be read
            self.left_out.append(place)
            return None

    def read(self, place: str, variable: Variable, title: str, axes: tuple[int, ...]) -> Scale | None:
        """The values of a variable; None if they exceed the budget or cannot be read."""
        self.budget -= variable.size
        try:
            if self.budget >= 0:
                return Scale(variable.read(), title, variable.attributes, axes)
        except PoolError:
            pass
        self.left_out.append(place)
        return None


def dependent_variables(
    attributes: Mapping[str, Mapping[str, Any]], shares_axes: Callable[[str, str], bool]
) -> set[str]:
    """The names of variables that are not pooled: bounds, and auxiliary variables with only axes of their array."""
    references = {name: list(referenced_names(own, name, VARIABLE_ATTRIBUTES)) for name, own in attributes.items()}
    arrays = attributes.keys() - {other for others in references.values() for other in others}
    bounds = {path for name, own in attributes.items() for path in referenced_names(own, name, BOUNDS_ATTRIBUTES)}
    return bounds | {
        other for name in arrays for other in references[name] if other in attributes and shares_axes(name, other)
    }


def referenced_names(attributes: Mapping[str, Any], name: str, words: Sequence[str]) -> Iterator[str]:
    """The paths of the variables that are named by the attributes `words` of the variable `name`."""
    for each in words:
        try:
            value = attributes.get(each)
        except ATTRIBUTE_ERRORS:
            continue
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for word in text.replace(":", " ").split() if isinstance(text, str) else ():
            yield word if word.startswith("/") else f"{name.rpartition('/')[0]}/{word}"


def same_values(one: Any, other: Any) -> bool:
    """Whether two variables of one name have equal values, so that one of them is written."""
    a, b = np.asarray(one), np.asarray(other)
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")


def conflict_note(key: str, owner: str | None) -> str:
    """A note on coordinates that are dropped, because another array has different ones of the same name."""
    return f"left out: the coordinates {key} of {owner}, because others of that name have other values"


# Classic netCDF has no unsigned integers above 8 bits: satellite products, for example, store them as signed ones.
UNSIGNED_ATTRIBUTE = "_Unsigned"


def as_unsigned(reader: ArrayReader, attributes: Mapping[str, Any]) -> ArrayReader:
    """The reader, or one that reinterprets its integers as unsigned if the attribute `_UnsignedReader` is true."""
    header = reader.header
    try:
        said = attributes.get(UNSIGNED_ATTRIBUTE)
    except ATTRIBUTE_ERRORS:
        return reader
    if DTYPES[header.dtype].kind != "int" or not isinstance(said, str | bytes) or said not in ("true", b"true"):
        return reader
    dtype = f"u{header.dtype}"
    missing = nodata_in(_unsigned_attributes(attributes, dtype), dtype)
    notes = (*header.notes, f"read as {dtype}, as its attribute {UNSIGNED_ATTRIBUTE} says")
    return _UnsignedReader(replace(header, dtype=dtype, missing=missing, notes=notes), reader)


@dataclass(slots=True)
class _UnsignedReader:
    header: Header
    signed: ArrayReader

    @property
    def streams(self) -> bool:
        return self.signed.streams

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.signed.chunks

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
    """The attributes without `_UnsignedReader`; nodata values and ranges are reinterpreted as unsigned."""
    found = {}
    for name in attributes:
        try:
            value = attributes[name]
        except ATTRIBUTE_ERRORS:
            continue
        if name != UNSIGNED_ATTRIBUTE:
            found[name] = _reinterpreted(value, dtype) if name in (*NODATA_ATTRIBUTES, *RANGE_ATTRIBUTES) else value
    return found


def _reinterpreted(value: Any, dtype: str) -> Any:
    """Signed integers reinterpreted as unsigned ones of the same width; other values unchanged."""
    array = np.asarray(value)
    if array.dtype.kind != "i":
        return value
    wrapped = array.astype(dtype)
    return wrapped[()] if isinstance(value, np.generic | np.ndarray) else wrapped.tolist()
