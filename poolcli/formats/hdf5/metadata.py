"""What an HDF5 file holds beside a dataset's values: attributes, how it is stored, and the values along its axes."""

from __future__ import annotations

from typing import Any

from poolcli.formats.hdf5.gate import Dataset
from poolcli.formats.hdf5.library import h5py
from poolcli.formats.records import Dimension, Metadata, whole_region

SCALE_ATTRIBUTES = ("DIMENSION_LIST", "DIMENSION_LABELS", "REFERENCE_LIST", "CLASS", "NAME")
LONGEST_SCALE = 1_000_000  # values; longer ones are left out
STORED = ("chunks", "compression", "compression_opts", "shuffle", "fletcher32")


def metadata_of(dataset: Dataset, scales: tuple[tuple[Dataset, ...], ...]) -> Metadata:
    """What goes with a dataset."""
    attributes = {name: value for name, value in dataset.attributes.items() if _is_own(name, value)}
    return Metadata(dataset=dataset.stored(STORED), attributes=attributes, dimensions=_dimensions(dataset, scales))


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


def _dimensions(dataset: Dataset, scales: tuple[tuple[Dataset, ...], ...]) -> tuple[Dimension, ...]:
    found = [
        Dimension(label, {scale.name: scale.read(whole_region(scale.header.shape)) for scale in of_axis})
        for label, of_axis in zip(dataset.labels, scales or [()] * len(dataset.labels), strict=True)
    ]
    return tuple(found) if any(dimension.label or dimension.scales for dimension in found) else ()


def _is_own(name: str, value: Any) -> bool:
    """Whether an attribute is the dataset's own, and no link to scales or other objects, which are made anew."""
    kind = getattr(value, "dtype", None)
    reference = isinstance(value, h5py.Reference) or (kind is not None and h5py.check_ref_dtype(kind) is not None)
    return not reference and name not in SCALE_ATTRIBUTES and (kind is None or kind.names is None)
