"""Conventions of netCDF: variables that attributes name, as CF has them (grid mappings, coordinates of several axes,
bounds of cells), and signed numbers that stand for unsigned ones, as `_Unsigned` of the NetCDF Users Guide says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from poolcli.dtypes import DTYPES
from poolcli.errors import PoolError
from poolcli.formats.checks import ATTRIBUTE_ERRORS, NODATA_ATTRIBUTES, RANGE_ATTRIBUTES, join_names, nodata_in
from poolcli.formats.records import ArrayReader, Dimension, Header, Metadata, Scale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.plan.region import Ranges

LARGEST = 2**25  # bytes of all variables together; further ones are left out
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable."  # netCDF's name of a scale without values
# Attributes that name other variables, relative to the group.
BOUNDS, BESIDE = ("bounds", "climatology"), ("grid_mapping", "coordinates")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable beside a field: which axes of the field it has, -1 for others; their names; and the bytes to read."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    names: tuple[str, ...]
    size: int
    attributes: Mapping[str, Any]
    read: Callable[[], NDArray[Any]]


@dataclass(slots=True)
class Beside:
    """The variables beside a field, which `find` opens; it returns None for what there is no need to name.

    `alone` if the field is all that is read: else variables with other axes are fields of their own.
    """

    find: Callable[[str], Variable | None]
    alone: bool
    room: int = LARGEST
    left_out: list[str] = field(default_factory=list)

    def variables(self, name: str, attributes: Mapping[str, Any]) -> dict[str, Scale]:
        """The variables that attributes of the field name, of one value or of its axes."""
        found = dict[str, Scale]()
        for place in dict.fromkeys(named_in(attributes, name, BESIDE)):
            each = self._opened(place)
            if each is not None and -1 not in each.axes and len({*each.axes}) == len(each.axes):
                scale = self.read(place, each, "", each.axes)
                found |= {} if scale is None else {place: self.bounded(place, scale)}
            elif each is not None and self.alone:
                self.left_out.append(place)
        return found

    def dimensions(self, dimensions: Sequence[Dimension]) -> tuple[Dimension, ...]:
        """The dimensions, each coordinate with its bounds."""
        return tuple(
            replace(each, scales={name: self.bounded(name, scale) for name, scale in each.scales.items()})
            for each in dimensions
        )

    def bounded(self, name: str, scale: Scale) -> Scale:
        """The coordinate with the bounds that its attributes name."""
        bounds, attributes = dict[str, Scale](), dict(scale.attributes)
        for word in (word for word in BOUNDS if word in attributes):
            for place in named_in(attributes, name, (word,)):
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
        """A note on what is left out."""
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
        """The values of a variable; None if there is no room for them, or they cannot be read."""
        self.room -= variable.size
        try:
            if self.room >= 0:
                return Scale(variable.read(), title, variable.attributes, axes)
        except PoolError:
            pass
        self.left_out.append(place)
        return None


def followers(attributes: Mapping[str, Mapping[str, Any]], has_axes_of: Callable[[str, str], bool]) -> set[str]:
    """The names of variables that follow others: bounds, and what attributes of a field name, if it has its axes."""
    join_names = {name: list(named_in(each, name, BESIDE)) for name, each in attributes.items()}
    fields = attributes.keys() - {place for places in join_names.values() for place in places}
    beside = {each for name in fields for each in join_names[name] if each in attributes and has_axes_of(name, each)}
    return beside | {place for name, each in attributes.items() for place in named_in(each, name, BOUNDS)}


def named_in(attributes: Mapping[str, Any], name: str, words: Sequence[str]) -> Iterator[str]:
    """The paths of the variables that these attributes of a variable name."""
    for each in words:
        try:
            value = attributes.get(each)
        except ATTRIBUTE_ERRORS:
            continue
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for word in text.replace(":", " ").split() if isinstance(text, str) else ():
            yield word if word.startswith("/") else f"{name.rpartition('/')[0]}/{word}"


def same_values(one: Any, other: Any) -> bool:
    """Whether two variables of one name hold the same, and can be shared."""
    import numpy as np

    a, b = np.asarray(one), np.asarray(other)
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")


def not_shared(key: str, owner: str | None) -> str:
    """A note on coordinates that cannot be shared."""
    return f"left out: the coordinates {key} of {owner}, because others of that name have other values"


# Classic netCDF has no unsigned types above 8 bits, so that satellite data, for example, are stored as signed numbers.
UNSIGNED = "_Unsigned"
FILLS = ("fill_value", "fillvalue")  # as Zarr and h5py call them


def as_it_stands_for(reader: ArrayReader, attributes: Mapping[str, Any]) -> ArrayReader:
    """The reader; or that of unsigned numbers, if the attributes of its signed ones say that they are."""
    header = reader.header
    try:
        said = attributes.get(UNSIGNED)
    except ATTRIBUTE_ERRORS:
        return reader
    if DTYPES[header.dtype].kind != "int" or not isinstance(said, str | bytes) or said not in ("true", b"true"):
        return reader
    dtype = f"u{header.dtype}"
    missing = nodata_in(_unsigned(attributes, dtype), dtype)
    notes = (*header.notes, f"read as {dtype}, as its attribute {UNSIGNED} says")
    return _Unsigned(replace(header, dtype=dtype, missing=missing, notes=notes), reader)


@dataclass(slots=True)
class _Unsigned:
    header: Header
    signed: ArrayReader

    @property
    def streams(self) -> bool:
        """As those of the signed numbers."""
        return self.signed.streams

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """As those of the signed numbers."""
        return self.signed.chunks

    @property
    def metadata(self) -> Metadata:
        """With numbers of the array as unsigned ones."""
        found, dtype = self.signed.metadata, self.header.dtype
        dataset = {
            name: _number(value, dtype) if name in FILLS else value for name, value in found.hdf5_storage.items()
        }
        dataset |= {"dtype": dtype} if "dtype" in dataset else {}
        return replace(found, hdf5_storage=dataset, attributes=_unsigned(found.attributes, dtype))

    def read(self, region: Ranges) -> NDArray[Any]:
        """A region of it."""
        found = self.signed.read(region)
        return found.view(found.dtype.str.replace("i", "u"))  # in the byte order that it has


def _unsigned(attributes: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """The attributes, those that are numbers of the array as it stands for, without that which says so."""
    found = {}
    for name in attributes:
        try:
            value = attributes[name]
        except ATTRIBUTE_ERRORS:
            continue
        if name != UNSIGNED:
            found[name] = _number(value, dtype) if name in (*NODATA_ATTRIBUTES, *RANGE_ATTRIBUTES) else value
    return found


def _number(value: Any, dtype: str) -> Any:
    """A number, or several, of the signed type as those of the unsigned one; anything else as it is."""
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind != "i":
        return value
    wrapped = array.astype(dtype)
    return wrapped[()] if isinstance(value, np.generic | np.ndarray) else wrapped.tolist()
