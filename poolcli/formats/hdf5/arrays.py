"""Arrays in HDF5 files: listed, and read region by region."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from poolcli.formats.checks import chosen
from poolcli.formats.hdf5.gate import Dataset, Gate, opened_file
from poolcli.formats.hdf5.library import reading
from poolcli.formats.hdf5.metadata import metadata_of, notes_of, scales_of
from poolcli.formats.nodata import missing_in
from poolcli.formats.records import ArrayContainer, ArrayReader, Header, Metadata, ReadOptions, Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.plan.region import Ranges


@contextmanager
def open_container(path: str, options: ReadOptions) -> Iterator[ArrayContainer]:
    """The file; of its datasets, others and links to other files are left out."""
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
            scales = scales_of(dataset)  # what is not let through of these is refused, too
            gone = missing_in(dataset.attributes, dataset.header.dtype)
            header = replace(dataset.header, notes=tuple(notes_of(dataset)), missing=gone)
            return _File(header, dataset, scales)


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """The chosen dataset, read region by region, with its attributes and how it is stored."""
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
