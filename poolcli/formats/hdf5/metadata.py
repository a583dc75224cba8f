"""What an HDF5 file holds beside a dataset's values: attributes, how it is stored, and the values along its axes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.formats.checks import byte_count, named
from poolcli.formats.hdf5.gate import Dataset
from poolcli.formats.hdf5.library import h5py
from poolcli.formats.nodata import UNREADABLE, notes_on
from poolcli.formats.records import Dimension, Metadata, Scale, whole_region

LARGEST_SCALES = 2**25  # bytes of all of them together; what is beyond is left out
MADE_ANEW = (
    "DIMENSION_LIST", "DIMENSION_LABELS", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates",
)  # fmt: skip


def metadata_of(dataset: Dataset, scales: tuple[tuple[Dataset, ...], ...]) -> Metadata:
    """What goes with a dataset."""
    lost: list[str] = []
    attributes = _own(dataset.attributes, dataset.name, lost)
    groups = {name: _own(found, name, lost) for name, found in dataset.groups()}
    dimensions, notes = _dimensions(dataset, scales, lost)
    stored, more = dataset.stored()
    if lost:
        notes += (f"left out, for they are references or cannot be read: the attributes {named(lost)}",)
    return Metadata(dataset=stored, attributes=attributes, groups=groups, dimensions=dimensions, notes=(*notes, *more))


def scales_of(dataset: Dataset) -> tuple[tuple[Dataset, ...], ...]:
    """The one-dimensional scales of each axis; () where no axis has any."""
    try:
        listed = dataset.attributes.get("DIMENSION_LIST")
    except (TypeError, OSError, RuntimeError):  # references of a kind that h5py does not know, or damaged ones
        return ()
    if listed is None or len(listed) != len(dataset.header.shape):
        return ()
    found = []
    for references, length in zip(listed, dataset.header.shape, strict=True):
        scales = (dataset.gate.referred(reference) for reference in references)
        found.append(tuple(scale for scale in scales if scale is not None and scale.header.shape == (length,)))
    return tuple(found)


def notes_of(dataset: Dataset) -> Iterator[str]:
    """What a person should know before the dataset is pooled."""
    yield from notes_on(dataset.attributes)
    if "MATLAB_class" in dataset.attributes:
        yield "MATLAB has the axes in the opposite order"


def _dimensions(
    dataset: Dataset, scales: tuple[tuple[Dataset, ...], ...], lost: list[str]
) -> tuple[tuple[Dimension, ...], tuple[str, ...]]:
    """What each axis is called and its scales, () where no axis has any; and a note on those that are left out."""
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
    notes = (f"left out, for they are very long: the values along an axis in {named(long)}",) if long else ()
    return tuple(found) if any(dimension.label or dimension.scales for dimension in found) else (), notes


def _own(attributes: Any, owner: str, lost: list[str]) -> dict[str, Any]:
    """The attributes of an object that can be written again; the names of others, but those made anew, go to `lost`."""
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
    """Whether the value of an attribute is, or has in it, links to other objects."""
    kind = getattr(value, "dtype", None)
    if kind is None or kind.names is None:
        return isinstance(value, h5py.Reference) or (kind is not None and h5py.check_ref_dtype(kind) is not None)
    return bool(kind.hasobject)
