"""What formats and the rest of the program exchange: where an array is, what it is, and what came with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEYED_SUFFIXES = (".npz", ".h5", ".hdf5")


@dataclass(frozen=True, slots=True)
class Source:
    """A file (`-` is a .npy stream on stdin) and the array in it: a .npz key or an HDF5 dataset."""

    path: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of an array before its data is read; layout None is the default, NC and spatial axes."""

    format: str
    shape: tuple[int, ...]
    dtype: str
    layout: str | None = None
    key: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a file holds beside its array: `image` as Pillow's save takes it, `dataset` as h5py's create_dataset."""

    image: Mapping[str, Any] = field(default_factory=dict)
    dataset: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array that was read, its header, and what came with it."""

    array: NDArray[Any]
    header: Header
    metadata: Metadata = field(default_factory=Metadata)


def parse_source(text: str, dataset: str | None = None) -> Source:
    """`a.npz:key` and `a.h5:/dataset` in two; a file that exists under the whole text is taken as it is."""
    path, colon, key = text.rpartition(":")
    if dataset is None and colon and path.lower().endswith(KEYED_SUFFIXES) and not os.path.lexists(text):
        return Source(path, key)
    return Source(text, dataset)
