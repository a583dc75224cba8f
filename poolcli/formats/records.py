"""Records that formats and the rest of the program exchange: sources, headers, options, metadata, readers, writers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from poolcli.nodata import Missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.formats.image.curves import Curve
    from poolcli.formats.npy import Raw
    from poolcli.plan.region import Ranges


@dataclass(frozen=True)  # no slots, with which pickling takes several times as long
class Source:
    """A file (`-` is a .npy stream on stdin) and the array in it: a .npz key or an HDF5 dataset."""

    path: str
    key: str | None = None

    def __str__(self) -> str:
        return self.path if self.key is None else f"{self.path}:{self.key}"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How inputs are read.

    pages : `all` (like None), or a range such as 1 or 2-5
    max_pixels : of one image
    allow_external : whether HDF5 and Zarr may read files that an input refers to
    limit, allowed : the memory limit in bytes, and the same if it was given (--max-memory)
    axes : the number of axes of the array, if it is known
    first_level : for a pyramid: whether a multiscale group stands for its largest level, and a stack has its own axes
    raw : the array of a file without a header
    masks : whether pages that are masks of others hide pixels of those
    apart : whether pages that differ may be read by several readers, one after the other
    """

    pages: str | None = None
    max_pixels: int | None = None
    allow_external: bool = False
    limit: int | None = None
    allowed: int | None = None
    axes: int | None = None
    first_level: bool = False
    raw: Raw | None = None
    masks: bool = True
    apart: bool = False


class Axis(NamedTuple):
    """An axis that a file describes: its letter and length, the distance of its elements, and the unit of that."""

    letter: str
    length: int
    step: float
    unit: str


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of an array before its data is read.

    layout : None is the default, N, C and spatial axes
    key : its name in the file
    mode, alpha : of images, what the channels are, and whether the last one is alpha
    missing : nodata values that the file declares
    beside : bytes of memory that reading takes beside the array or the region read
    curve : of images, how numbers stand for light
    masked : of images, whether masks hide some of the pixels
    apart : of pages that differ, what `pages` says for those that can be read together, if they may be read apart
    axes : those that an image describes, if it is read as a stack
    """

    format: str
    shape: tuple[int, ...]
    dtype: str
    layout: str | None = None
    key: str | None = None
    notes: tuple[str, ...] = ()
    mode: str | None = None
    alpha: bool = False
    missing: Missing = ()
    beside: int = 0
    curve: Curve | None = None
    masked: bool = False
    apart: tuple[str, ...] = ()
    axes: tuple[Axis, ...] = ()


@dataclass(frozen=True, slots=True)
class Scale:
    """Coordinates along an axis (an HDF5 dimension scale): values, title, attributes, and bounds of their cells.

    Variables of several axes say which `axes` of the array those are. Bounds have vertices along one more axis, whose
    name is their title.
    """

    values: NDArray[Any]
    title: str
    attributes: Mapping[str, Any]
    axes: tuple[int, ...] = ()
    bounds: Mapping[str, Scale] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dimension:
    """The name of an axis, and its coordinates by the names of their arrays."""

    label: str
    scales: Mapping[str, Scale]


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a file holds beside its array.

    image : of images, by the names of Pillow's `save`; `mask` is true for pixels that are missing
    dataset : the storage of an HDF5 dataset, as arguments of `create_dataset`
    store : the storage of a Zarr array, as `poolcli.formats.zarr.ome.stored` returns it
    attributes, groups : attributes of the array and of the groups above it
    ome : OME-Zarr metadata
    dimensions : name and coordinates of each axis
    variables : what attributes name, such as the grid mapping of netCDF, and coordinates of several axes
    axes : distances and units of axes that an image describes
    notes : on what is left out
    """

    image: Mapping[str, Any] = field(default_factory=dict)
    dataset: Mapping[str, Any] = field(default_factory=dict)
    store: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ome: Mapping[str, Any] = field(default_factory=dict)
    dimensions: tuple[Dimension, ...] = ()
    variables: Mapping[str, Scale] = field(default_factory=dict)
    axes: tuple[Axis, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array that was read, with header and metadata."""

    array: NDArray[Any]
    header: Header
    metadata: Metadata = field(default_factory=Metadata)


@dataclass(frozen=True, slots=True)
class Spec:
    """An array to be written. `mode` says what the channels of an image are; None follows their number and type."""

    shape: tuple[int, ...]
    dtype: str
    layout: str
    key: str | None = None
    metadata: Metadata = field(default_factory=Metadata)
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class NamedArray:
    """An array to be written, and its values."""

    spec: Spec
    array: NDArray[Any]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How outputs are written.

    overwrite : whether an existing file, or with `adds` an array of the same name, is replaced
    quality : of JPEG and WebP
    identity : names the work, so that an interrupted run can be continued
    adds : whether the array is added to an existing file
    chunks, shards : of Zarr
    most : the largest number of elements of a chunk or shard, if neither is given
    part, resume : which part (number, count) of the work this process does, and whether it continues it
    beside : the content of files that a Zarr store has beside its arrays, by name
    """

    overwrite: bool = False
    quality: int | None = None
    identity: str | None = None
    adds: bool = False
    chunks: tuple[int, ...] | None = None
    shards: tuple[int, ...] | None = None
    most: int | None = None
    part: tuple[int, int] | None = None
    resume: bool = False
    beside: Mapping[str, bytes] = field(default_factory=dict)


class RegionWriter(Protocol):
    """Writes the regions of an array in any order; streams, which cannot seek, only from front to back.

    `notes` tell what could not be kept. A writer with a `unit` takes regions of whole units only: along each axis they
    start at a multiple of it, and end at one or with the array.
    """

    @property
    def notes(self) -> tuple[str, ...]: ...

    @property
    def unit(self) -> tuple[int, ...] | None: ...

    def holds(self, region: Ranges) -> bool:
        """Whether an interrupted run has written the region already."""

    def __call__(self, region: Ranges, array: NDArray[Any]) -> None:
        """Writes a region."""


@dataclass(slots=True)
class CallbackWriter:
    """RegionWriter backed by a callback; never resumed."""

    put: Callable[[Ranges, NDArray[Any]], None]
    notes: tuple[str, ...] = ()
    unit: tuple[int, ...] | None = None

    def holds(self, region: Ranges) -> bool:
        return False

    def __call__(self, region: Ranges, array: NDArray[Any]) -> None:
        self.put(region, array)


class ArrayReader(Protocol):
    """An open input: its header, and its data region by region."""

    header: Header

    @property
    def streams(self) -> bool:
        """Whether regions are read from the file; otherwise the first one loads the whole array."""

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The lengths of chunks, which are always read as a whole; None without chunks."""

    @property
    def metadata(self) -> Metadata:
        """The metadata; to be used after a read."""

    def read(self, region: Ranges) -> NDArray[Any]:
        """The region as an array of its shape. Raises a FileError if the file ends early."""


class ArrayContainer(Protocol):
    """An open file that can hold several arrays."""

    @property
    def headers(self) -> Sequence[Header]:
        """The headers of the arrays that can be pooled."""

    @property
    def left_out(self) -> Sequence[str]:
        """The names of what else the file holds, which is neither pooled nor copied."""

    def array(self, key: str) -> ArrayReader:
        """Opens an array by the key in its header; refuses one that cannot be read."""


@dataclass(slots=True)
class InMemoryReader:
    """An input that can only be read as a whole, once; `again` gives a reader of other pages of the open file."""

    header: Header
    load: Callable[[], tuple[NDArray[Any], Metadata]]
    again: Callable[[ReadOptions], InMemoryReader] | None = None
    streams: bool = False
    chunks: tuple[int, ...] | None = None
    _whole: tuple[NDArray[Any], Metadata] | None = None

    @property
    def metadata(self) -> Metadata:
        return self._once()[1]

    def read(self, region: Ranges) -> NDArray[Any]:
        return self._once()[0][slices(region)]

    def _once(self) -> tuple[NDArray[Any], Metadata]:
        if self._whole is None:
            self._whole = self.load()
        return self._whole


def whole_region(shape: Sequence[int]) -> Ranges:
    """The region of the whole array."""
    return tuple(range(size) for size in shape)


def slices(region: Ranges, inside: Ranges | None = None) -> tuple[slice, ...]:
    """The region as an index of numpy and h5py; if `inside` is given, as an index of the array of that region."""
    starts = [axis.start for axis in inside] if inside is not None else [0] * len(region)
    return tuple(slice(axis.start - start, axis.stop - start) for axis, start in zip(region, starts, strict=True))
