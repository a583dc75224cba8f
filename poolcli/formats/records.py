"""The interface of formats: sources, headers, options, metadata, and the protocols of readers and writers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, NamedTuple, Protocol

from poolcli.arguments import Missing
from poolcli.dtypes import DTYPES
from poolcli.system.lazy_imports import Array
from poolcli.windows import Ranges, ceil_div, slices


@dataclass(frozen=True)  # without slots: pickling a frozen dataclass with slots takes several times as long
class Source:
    """An array in a file."""

    path: str  # or a URL; `-` is a .npy stream on standard input
    key: str | None = None  # of the array in a container
    format: str | None = field(default=None, compare=False, repr=False)  # if it has been recognised

    def __str__(self) -> str:
        return self.path if self.key is None else f"{self.path}:{self.key}"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How inputs are read."""

    pages: str | None = None  # `all` (like None), or a page or range such as 1 or 2-5
    allow_external: bool = False  # whether HDF5 and Zarr inputs may read other files
    limit: int | None = None  # of memory in bytes, given or detected
    allowed: int | None = None  # --max-memory in bytes, if given: also lifts the limits against decompression bombs
    ndim: int | None = None  # number of axes of the array, if known
    as_pyramid: bool = False  # the largest level of an OME-Zarr multiscale group, an image stack with all its axes
    apply_masks: bool = True  # whether mask pages of a TIFF hide pixels of other pages
    as_stored: bool = False  # whether a PGM or PPM gives the stored numbers; else they are brought to the full scale
    volume: bool = False  # an image stack with all its axes, if the file names them and a depth is one of them
    scalars: bool = False  # whether single numbers in HDF5 and .npz can be opened, to be copied
    indexed: bool = False  # whether one page of a palette image is read as indices, with the mode P; else as colours


class Axis(NamedTuple):
    """An axis as image metadata describe it."""

    letter: str  # of the layout
    length: int
    step: float  # pixel spacing
    unit: str  # of the spacing


class PixelGrid(NamedTuple):
    """Along one axis: input pixels from one output pixel to the next, and where in the input the first one begins."""

    step: float
    start: float


@dataclass(frozen=True, slots=True)
class Header:
    """What is known about an array before its data is read."""

    format: str
    shape: tuple[int, ...]
    dtype: str
    layout: str | None = None  # None is the default layout: N, C and spatial axes
    key: str | None = None  # name in its container
    notes: tuple[str, ...] = ()
    mode: str | None = None  # Pillow's mode of an image
    alpha: bool = False  # whether the last channel of an image is alpha
    missing: Missing = ()  # nodata values that the file declares
    extra_memory: int = 0  # bytes that reading takes in addition to the array or region
    masked: bool = False  # whether mask pages hide some pixels
    axes: tuple[Axis, ...] = ()  # of an image read as a stack
    compressed: bool | None = None  # whether its file, and so an output in its format, is; None where all are alike

    @property
    def nbytes(self) -> int:
        """The size of the array in bytes."""
        return prod(self.shape) * DTYPES[self.dtype].itemsize


@dataclass(frozen=True, slots=True)
class Scale:
    """A coordinate of one axis: an HDF5 dimension scale, whose NAME is `title`, or a coordinate of xarray."""

    values: Array
    title: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Dimension:
    """The name of an axis, and its coordinate variables by name."""

    label: str
    scales: Mapping[str, Scale]


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a file stores in addition to the array."""

    image: Mapping[str, Any] = field(default_factory=dict)  # by arguments of Pillow's `save`; `mask`: missing pixels
    hdf5_storage: Mapping[str, Any] = field(default_factory=dict)  # chunks, filters, ... for `create_dataset`
    zarr_storage: Mapping[str, Any] = field(default_factory=dict)  # from `poolcli.formats.zarr.storage.storage_of`
    attributes: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # attributes of parent groups, by path
    ome: Mapping[str, Any] = field(default_factory=dict)  # OME-Zarr metadata
    dimensions: tuple[Dimension, ...] = ()  # name and coordinates of each axis
    axes: tuple[Axis, ...] = ()  # spacing and unit of each axis of an image
    meaning: Mapping[str, str] = field(default_factory=dict)  # of the numbers, by `Format.nodata`: attributes, tags
    notes: tuple[str, ...] = ()  # what is dropped


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array in memory with its header and metadata."""

    array: Array
    header: Header
    metadata: Metadata = field(default_factory=Metadata)


@dataclass(frozen=True, slots=True)
class Spec:
    """An array to be written."""

    shape: tuple[int, ...]
    dtype: str
    layout: str
    key: str | None = None
    metadata: Metadata = field(default_factory=Metadata)
    mode: str | None = None  # of an image; None to derive it from the channels and dtype


@dataclass(frozen=True, slots=True)
class NamedArray:
    """An array to be written, with its values."""

    spec: Spec
    array: Array


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How outputs are written."""

    overwrite: bool = False
    quality: int | None = None  # of JPEG and WebP
    identity: str | None = None  # hash of the work: an interrupted run is resumed only if it is the same
    chunks: tuple[int, ...] | None = None  # of Zarr
    shards: tuple[int, ...] | None = None
    max_elements: int | None = None  # of a chunk or shard if neither is given
    run: str | None = None  # an identity that the attributes of a Zarr store name, for `is_finished`; at URLs always


class RegionWriter(Protocol):
    """Writes an array region by region, in any order; streams only from front to back.

    If there is a `unit` (a Zarr shard, for example), regions start at its multiples, and end there or with the array.
    """

    @property
    def notes(self) -> tuple[str, ...]: ...

    @property
    def unit(self) -> tuple[int, ...] | None:
        return None

    def holds(self, region: Ranges) -> bool:
        """Whether an interrupted run has written the region."""
        return False

    def __call__(self, region: Ranges, array: Array) -> None:
        """Writes a region."""


@dataclass(slots=True)
class CallbackWriter(RegionWriter):
    """RegionWriter backed by a callback; never resumed."""

    write: Callable[[Ranges, Array], None]
    notes: tuple[str, ...] = ()

    def __call__(self, region: Ranges, array: Array) -> None:
        self.write(region, array)


class ArrayReader(Protocol):
    """An open array, read region by region."""

    header: Header

    @property
    def streams(self) -> bool:
        """Whether each read decodes only the region; otherwise the first read loads the whole array."""
        return True

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The lengths of a chunk, which is always decoded whole; None without chunks."""
        return None

    @property
    def metadata(self) -> Metadata:
        """The metadata; available after the first read."""

    def read(self, region: Ranges) -> Array:
        """The region as an array. Raises a FileError if the file is truncated."""


class ArrayContainer(ABC):
    """An open file or store that holds several arrays."""

    @property
    @abstractmethod
    def listed(self) -> Mapping[str, Header | None]:
        """The headers of the arrays that can be pooled, by name; None for other objects in the file."""

    @abstractmethod
    def array(self, key: str) -> ArrayReader:
        """Opens an array by its key. Raises a FileError if it cannot be read."""

    @property
    def referenced(self) -> Collection[str]:
        """The names of variables that others refer to (CF): pooled and listed, but not arrays of their own."""
        return ()

    @property
    def headers(self) -> list[Header]:
        """The headers of the arrays that can be pooled."""
        return [header for header in self.listed.values() if header and header.shape]

    @property
    def scalars(self) -> list[Header]:
        """The headers of single numbers, which are copied with all arrays."""
        return [header for header in self.listed.values() if header and not header.shape]

    @property
    def left_out(self) -> list[str]:
        """The names of other objects in the file, which are not pooled, and not copied unless they are scalars."""
        return [name for name, header in self.listed.items() if not (header and header.shape)]


@dataclass
class InMemoryReader(ArrayReader):
    """An array that `load` decodes as a whole at the first read."""

    header: Header
    load: Callable[[], tuple[Array, Metadata]]
    streams: bool = False

    @cached_property
    def _whole(self) -> tuple[Array, Metadata]:
        return self.load()

    @property
    def metadata(self) -> Metadata:
        return self._whole[1]

    def read(self, region: Ranges) -> Array:
        return self._whole[0][slices(region)]


def whole_region(shape: Sequence[int]) -> Ranges:
    """The region of the whole array."""
    return tuple(range(size) for size in shape)


MAX_CHUNKS = 1024  # per call of a library; zarr takes about 10 KB of memory for each, HDF5 6 KB


def batches(region: Ranges, chunk: Sequence[int], most: int = MAX_CHUNKS) -> Iterator[Ranges]:
    """Splits a region at chunk boundaries into parts that touch at most `most` chunks each."""
    if not all(region):
        return
    touched = [range(span.start // c, ceil_div(span.stop, c)) for span, c in zip(region, chunk, strict=True)]
    steps = [1] * len(region)
    for axis in reversed(range(len(region))):
        steps[axis] = max(1, min(len(touched[axis]), most // prod(steps)))
    starts = [range(span.start, span.stop, step) for span, step in zip(touched, steps, strict=True)]
    for first in product(*starts):
        yield tuple(
            range(max(span.start, at * c), min(span.stop, (at + step) * c))
            for span, at, step, c in zip(region, first, steps, chunk, strict=True)
        )
