"""HDF5 files through h5py: arrays and metadata, read through a gate that refuses external files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from poolcli.dtypes import DTYPES
from poolcli.formats.checks import UNREADABLE, byte_count, chosen, missing_in, named, notes_on
from poolcli.formats.hdf5.chunks import h5py
from poolcli.formats.hdf5.gate import Dataset, Gate, opened_file, reading
from poolcli.formats.hdf5.write import holds, open_writer, write
from poolcli.formats.records import (
    ArrayContainer,
    ArrayReader,
    Dimension,
    Header,
    Metadata,
    ReadOptions,
    Scale,
    Source,
    whole_region,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.plan.region import Ranges

__all__ = ["holds", "open_array", "open_container", "open_writer", "write"]


LARGEST_SCALES = 2**25  # bytes of all dimension scales together; further ones are dropped
MADE_ANEW = (
    "DIMENSION_LIST", "DIMENSION_LABELS", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates",
)  # fmt: skip


def metadata_of(dataset: Dataset, scales: tuple[tuple[Dataset, ...], ...]) -> Metadata:
    """The metadata of a dataset."""
    lost: list[str] = []
    attributes = _own(dataset.attributes, dataset.name, lost)
    groups = {name: _own(found, name, lost) for name, found in dataset.groups()}
    dimensions, notes = _dimensions(dataset, scales, lost)
    stored, more = dataset.stored()
    if lost:
        notes += (f"left out, because they are references or cannot be read: the attributes {named(lost)}",)
    return Metadata(dataset=stored, attributes=attributes, groups=groups, dimensions=dimensions, notes=(*notes, *more))


def scales_of(dataset: Dataset) -> tuple[tuple[Dataset, ...], ...]:
    """The one-dimensional scales of each axis; () if no axis has any."""
    try:
        listed = dataset.attributes.get("DIMENSION_LIST")
    except (TypeError, OSError, RuntimeError):  # references of a type that h5py does not know, or damaged ones
        return ()
    if listed is None or len(listed) != len(dataset.header.shape):
        return ()
    found = []
    for references, length in zip(listed, dataset.header.shape, strict=True):
        scales = (dataset.gate.referred(reference) for reference in references)
        found.append(tuple(scale for scale in scales if scale is not None and scale.header.shape == (length,)))
    return tuple(found)


def notes_of(dataset: Dataset) -> Iterator[str]:
    """Notes on a dataset before it is pooled."""
    yield from notes_on(dataset.attributes)
    if "MATLAB_class" in dataset.attributes:
        yield "MATLAB has the axes in the opposite order"


def _dimensions(
    dataset: Dataset, scales: tuple[tuple[Dataset, ...], ...], lost: list[str]
) -> tuple[tuple[Dimension, ...], tuple[str, ...]]:
    """The name and scales of each axis, () if no axis has any; and a note on scales that are left out."""
    room, found, long = LARGEST_SCALES, [], []
    for label, of_axis in zip(dataset.labels, scales or [()] * len(dataset.labels), strict=True):
        kept = {}
        for scale in of_axis:
            room -= byte_count(scale.header.shape, DTYPES[scale.header.dtype].itemsize)
            if room < 0:
                long.append(scale.name)
            else:
                values = scale.read(whole_region(scale.header.shape))
                kept[scale.name] = Scale(values, scale.title, _own(scale.attributes, scale.name, lost))
        found.append(Dimension(label, kept))
    notes = (f"left out, because they are very long: the coordinates {named(long)}",) if long else ()
    return tuple(found) if any(dimension.label or dimension.scales for dimension in found) else (), notes


def _own(attributes: Any, owner: str, lost: list[str]) -> dict[str, Any]:
    """The attributes of an object that can be written again; names of others, unless made anew, are added to `lost`."""
    found = {}
    for name in attributes:
        if name in MADE_ANEW:
            continue
        try:
            value = attributes[name]
        except UNREADABLE:
            value = None
        if value is None or _refers(value):
            lost.append(f"{owner}@{name}")
        else:
            found[name] = value
    return found


def _refers(value: Any) -> bool:
    """Whether the value of an attribute is, or contains, references to other objects."""
    kind = getattr(value, "dtype", None)
    if kind is None or kind.names is None:
        return isinstance(value, h5py.Reference) or (kind is not None and h5py.check_ref_dtype(kind) is not None)
    return bool(kind.hasobject)


@contextmanager
def open_container(path: str, options: ReadOptions) -> Iterator[ArrayContainer]:
    """Opens the file."""
    with opened_file(path, options) as gate:
        yield _Datasets(gate)


@dataclass(frozen=True, slots=True)
class _Datasets:
    gate: Gate

    @property
    def headers(self) -> list[Header]:
        with reading(self.gate.path):
            return list(self.gate.headers())

    @property
    def left_out(self) -> list[str]:
        with reading(self.gate.path):
            return list(self.gate.left_out())

    def array(self, key: str) -> ArrayReader:
        with reading(self.gate.path):
            dataset = self.gate.dataset(key)
            scales = scales_of(dataset)  # scales in other files are refused, too
            gone = missing_in(dataset.attributes, dataset.header.dtype)
            header = replace(dataset.header, notes=tuple(notes_of(dataset)), missing=gone)
            return _File(header, dataset, scales)


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """The chosen dataset, read region by region."""
    with open_container(source.path, options) as file:
        yield file.array(source.key) if source.key is not None else chosen(file, source, options.axes)


@dataclass(slots=True)
class _File:
    header: Header
    dataset: Dataset
    scales: tuple[tuple[Dataset, ...], ...]
    streams: bool = True
    chunks: tuple[int, ...] | None = None

    def read(self, region: Ranges) -> NDArray[Any]:
        return self.dataset.read(region)

    @property
    def metadata(self) -> Metadata:
        with reading(self.dataset.gate.path):
            return metadata_of(self.dataset, self.scales)
