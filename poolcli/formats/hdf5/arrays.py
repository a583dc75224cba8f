"""Arrays in HDF5 files: listed, and read region by region."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poolcli.formats.arrays import choose
from poolcli.formats.hdf5.gate import Dataset, opened_file
from poolcli.formats.hdf5.library import translated
from poolcli.formats.hdf5.metadata import metadata_of, scales_of
from poolcli.formats.records import Header, Metadata, Opened, ReadOptions, Source
from poolcli.plan.region import Ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray


def list_arrays(path: str) -> list[Header]:
    """The numeric datasets of the file, by path; others and links to other files are left out."""
    with opened_file(path, ReadOptions()) as gate, translated(path):
        return list(gate.headers())


@contextmanager
def opened(source: Source, options: ReadOptions) -> Iterator[Opened]:
    """The chosen dataset, read region by region, with its attributes and how it is stored."""
    with opened_file(source.path, options) as gate:
        with translated(source.path):
            key = source.key if source.key is not None else choose(source, list(gate.headers()), options.axes).key
            dataset = gate.dataset(str(key))
            scales = scales_of(dataset)  # what is not let through of these is refused, too
        yield _File(dataset.header, dataset, scales)


@dataclass(slots=True)
class _File:
    header: Header
    dataset: Dataset
    scales: tuple[tuple[Dataset, ...], ...]
    streams: bool = True

    def read(self, region: Ranges) -> NDArray[Any]:
        return self.dataset.read(region)

    @property
    def metadata(self) -> Metadata:
        with translated(self.dataset.gate.path):
            return metadata_of(self.dataset, self.scales)
