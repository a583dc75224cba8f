"""Signed numbers that stand for unsigned ones, as the attribute `_Unsigned` of the NetCDF Users Guide says.

Classic netCDF has no unsigned types above 8 bits, so that satellite data, for example, are stored as signed numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from poolcli.dtypes import DTYPES
from poolcli.formats.checks import LIMITS, NAMES, UNREADABLE, missing_in
from poolcli.formats.records import ArrayReader, Header, Metadata

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.plan.region import Ranges

UNSIGNED = "_Unsigned"
FILLS = ("fill_value", "fillvalue")  # as Zarr and h5py call them


def as_it_stands_for(reader: ArrayReader, attributes: Mapping[str, Any]) -> ArrayReader:
    """The reader; or that of unsigned numbers, if the attributes of its signed ones say that they are."""
    header = reader.header
    try:
        said = attributes.get(UNSIGNED)
    except UNREADABLE:
        return reader
    if DTYPES[header.dtype].kind != "int" or not isinstance(said, str | bytes) or said not in ("true", b"true"):
        return reader
    dtype = f"u{header.dtype}"
    missing = missing_in(_unsigned(attributes, dtype), dtype)
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
        dataset = {name: _number(value, dtype) if name in FILLS else value for name, value in found.dataset.items()}
        dataset |= {"dtype": dtype} if "dtype" in dataset else {}
        return replace(found, dataset=dataset, attributes=_unsigned(found.attributes, dtype))

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
        except UNREADABLE:
            continue
        if name != UNSIGNED:
            found[name] = _number(value, dtype) if name in (*NAMES, *LIMITS) else value
    return found


def _number(value: Any, dtype: str) -> Any:
    """A number, or several, of the signed type as those of the unsigned one; anything else as it is."""
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind != "i":
        return value
    wrapped = array.astype(dtype)
    return wrapped[()] if isinstance(value, np.generic | np.ndarray) else wrapped.tolist()
