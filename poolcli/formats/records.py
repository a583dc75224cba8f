"""What formats and the rest of the program exchange: where an array is, what it is, and what came with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from poolcli.nodata import Missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.formats.npy import Raw
    from poolcli.plan.region import Ranges


@dataclass(frozen=True)  # without slots, with which pickling takes several times as long
class Source:
    """A file (`-` is a .npy stream on stdin) and the array in it: a .npz key or an HDF5 dataset."""

    path: str
    key: str | None = None

    def __str__(self) -> str:
        return self.path if self.key is None else f"{self.path}:{self.key}"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How inputs are read.

    `pages` is `all` (as None) or a range such as 1 or 2-5; `max_pixels` are those of one picture; `allow_external`
    lets HDF5 files read the files that they name; `limit` is memory in bytes, and `allowed` the same where it was given
    by name; `axes` is how many the array has, where that is known; with `first_level` a
    group of levels stands for the largest; `raw` is what a file without a header holds.
    """

    pages: str | None = None
    max_pixels: int | None = None
    allow_external: bool = False
    limit: int | None = None
    allowed: int | None = None
    axes: int | None = None
    first_level: bool = False
    raw: Raw | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of an array before its data is read; layout None is the default, NC and spatial axes; `missing` are
    the numbers that the file says stand for no value.

    `beside` is how many bytes reading takes beside the array, or the part of it that is read: by decoders, of chunks.
    Of pictures: `mode` says what the channels are, `alpha` whether the last one is alpha.
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


@dataclass(frozen=True, slots=True)
class Scale:
    """The values along an axis, what they are called, and the attributes of the dataset that holds them."""

    values: NDArray[Any]
    title: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Dimension:
    """What an axis is called, and the values along it: by name of the dataset that holds them."""

    label: str
    scales: Mapping[str, Scale]


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a file holds beside its array: `image` as Pillow's save takes it, `dataset` as h5py's create_dataset,
    `store` as `poolcli.formats.zarr.ome` reads it; of an HDF5 dataset or a Zarr array its attributes, those of the
    `groups` above it, and for each axis its label and scales; `ome` is what OME-Zarr says of it. `notes` say what of
    all this is left out.
    """

    image: Mapping[str, Any] = field(default_factory=dict)
    dataset: Mapping[str, Any] = field(default_factory=dict)
    store: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ome: Mapping[str, Any] = field(default_factory=dict)
    dimensions: tuple[Dimension, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array that was read, its header, and what came with it."""

    array: NDArray[Any]
    header: Header
    metadata: Metadata = field(default_factory=Metadata)


@dataclass(frozen=True, slots=True)
class Spec:
    """An array that is to be written: what it is, its name in the file, and what goes with it.

    `mode` says what the channels of a picture are, None for the one of their number and type.
    """

    shape: tuple[int, ...]
    dtype: str
    layout: str
    key: str | None = None
    metadata: Metadata = field(default_factory=Metadata)
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class NamedArray:
    """An array with what is to be written of it."""

    spec: Spec
    array: NDArray[Any]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How outputs are written.

    `quality` is that of JPEG and WebP; an `identity` names the work, so that one that was stopped can be continued.
    With `adds` a file that exists keeps what it holds, and `overwrite` is about an array of the same name in it.
    `chunks` and `shards` are those of Zarr, and `most` is how many elements one of them has at most, where neither is
    given. `part` is the one of several (number, count) that this process makes of what the `identity` names, and with
    `resume` it goes on with it.
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


class RegionWriter(Protocol):
    """Takes the regions of an array in any order; a stream, which cannot go back, only from front to back.

    `notes` say what else of the output could not be kept. A sink with a `unit` takes regions of whole units alone:
    along each axis they begin at a multiple of it, and end at one or with the array.
    """

    @property
    def notes(self) -> tuple[str, ...]: ...

    @property
    def unit(self) -> tuple[int, ...] | None: ...

    def holds(self, region: Ranges) -> bool:
        """Whether the region is there already, from a run that was stopped."""

    def __call__(self, region: Ranges, array: NDArray[Any]) -> None:
        """Takes a region."""


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
    """An open input: what it is, and its data, region by region."""

    header: Header

    @property
    def streams(self) -> bool:
        """Whether regions are read from the file; otherwise the first one brings all of it into memory."""

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The lengths of what is read as a whole, whatever part of it is wanted; None where that is each element."""

    @property
    def metadata(self) -> Metadata:
        """What the file holds beside the array; asked for after a read."""

    def read(self, region: Ranges) -> NDArray[Any]:
        """The region as an array of its own shape; raises FileError where the file ends early."""


class ArrayContainer(Protocol):
    """An open file that can hold several arrays."""

    @property
    def headers(self) -> Sequence[Header]:
        """Those that can be pooled."""

    @property
    def left_out(self) -> Sequence[str]:
        """The names of what else the file holds, which is neither pooled nor copied."""

    def array(self, key: str) -> ArrayReader:
        """The one of a name that the headers have; refused where it cannot be read."""


@dataclass(slots=True)
class InMemoryReader:
    """An input that can only be read whole, which happens once."""

    header: Header
    load: Callable[[], tuple[NDArray[Any], Metadata]]
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
    """The region that is everything."""
    return tuple(range(size) for size in shape)


def slices(region: Ranges) -> tuple[slice, ...]:
    """The region as numpy and h5py index it."""
    return tuple(slice(indices.start, indices.stop) for indices in region)
