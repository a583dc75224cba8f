"""What an HDF5 file holds beside a dataset's values: attributes, how it is stored, and the values along its axes."""

from __future__ import annotations

from typing import Any

from poolcli.core.dtypes import DTYPES
from poolcli.formats.arrays import byte_count, named
from poolcli.formats.hdf5.gate import Dataset
from poolcli.formats.hdf5.library import h5py
from poolcli.formats.records import Dimension, Metadata, whole_region

SCALE_ATTRIBUTES = ("DIMENSION_LIST", "DIMENSION_LABELS", "REFERENCE_LIST", "CLASS", "NAME")
LARGEST_SCALES = 2**25  # bytes of all of them together; what is beyond is left out
STORED = ("chunks", "compression", "compression_opts", "shuffle", "fletcher32")


def metadata_of(dataset: Dataset, scales: tuple[tuple[Dataset, ...], ...]) -> Metadata:
    """What goes with a dataset."""
    attributes = {name: value for name, value in dataset.attributes.items() if _is_own(name, value)}
    stored = dataset.stored(STORED)
    dimensions, notes = _dimensions(dataset, scales)
    return Metadata(dataset=stored, attributes=attributes, dimensions=dimensions, notes=notes)


def scales_of(dataset: Dataset) -> tuple[tuple[Dataset, ...], ...]:
    """The one-dimensional scales of each axis; () where no axis has any."""
    listed = dataset.attributes.get("DIMENSION_LIST")
    if listed is None or len(listed) != len(dataset.header.shape):
        return ()
    found = []
    for references, length in zip(listed, dataset.header.shape, strict=True):
        scales = (dataset.gate.referred(reference) for reference in references)
        found.append(tuple(scale for scale in scales if scale is not None and scale.header.shape == (length,)))
    return tuple(found)


def _dimensions(
    dataset: Dataset, scales: tuple[tuple[Dataset, ...], ...]
) -> tuple[tuple[Dimension, ...], tuple[str, ...]]:
    """What each axis is called and its scales, () where no axis has any; and a note on those that are left out."""
    room, found, lost = LARGEST_SCALES, [], []
    for label, of_axis in zip(dataset.labels, scales or [()] * len(dataset.labels), strict=True):
        values = {}
        for scale in of_axis:
            room -= byte_count(scale.header.shape, DTYPES[scale.header.dtype].itemsize)
            if room < 0:
                lost.append(scale.name)
            else:
                values[scale.name] = scale.read(whole_region(scale.header.shape))
        found.append(Dimension(label, values))
    notes = (f"left out, for they are very long: the values along an axis in {named(lost)}",) if lost else ()
    return tuple(found) if any(dimension.label or dimension.scales for dimension in found) else (), notes


def _is_own(name: str, value: Any) -> bool:
    """Whether an attribute is the dataset's own, and no link to scales or other objects, which are made anew."""
    kind = getattr(value, "dtype", None)
    reference = isinstance(value, h5py.Reference) or (kind is not None and h5py.check_ref_dtype(kind) is not None)
    return not reference and name not in SCALE_ATTRIBUTES and (kind is None or kind.names is None)
