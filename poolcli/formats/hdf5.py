"""HDF5 files through h5py. Links to other files, external storage and virtual datasets are refused unless allowed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from poolcli.core.dtypes import DTYPES
from poolcli.core.errors import FileError, PoolError, RequestError
from poolcli.core.fields import field
from poolcli.core.lazy import Lazy, need
from poolcli.formats.arrays import check_dtype, check_expansion, check_rank, choose, human_bytes, listing
from poolcli.formats.atomic import byte_stream, whole_file
from poolcli.formats.records import (
    Dimension,
    Fresh,
    Header,
    Metadata,
    Named,
    Opened,
    ReadOptions,
    Sink,
    Source,
    Spec,
    WriteOptions,
    slices,
)
from poolcli.plan.region import Ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

h5py: Any = Lazy("h5py")

MOST_OBJECTS = 100_000
LARGEST_CHUNK = 2 * 2**30
SCALE_ATTRIBUTES = ("DIMENSION_LIST", "DIMENSION_LABELS", "REFERENCE_LIST", "CLASS", "NAME")


def list_arrays(path: str) -> list[Header]:
    """The numeric datasets of the file, by path; others and links to other files are left out."""
    with _opened(path) as file, _translated(path):
        return [_header(name, dataset) for name, dataset in _datasets(path, file)]


@contextmanager
def opened(source: Source, options: ReadOptions) -> Iterator[Opened]:
    """The chosen dataset, read region by region, with its attributes and how it is stored."""
    key = source.key if source.key is not None else choose(source, list_arrays(source.path), options.axes).key
    with _opened(source.path) as file:
        with _translated(source.path):
            dataset = _dataset(source.path, file, str(key), options)
        yield _File(_header(str(key), dataset), source.path, dataset)


@dataclass(slots=True)
class _File:
    header: Header
    path: str
    dataset: Any
    streams: bool = True

    def read(self, region: Ranges) -> NDArray[Any]:
        _check_filters(self.path, self.dataset)
        with _translated(self.path):
            array: NDArray[Any] = self.dataset[slices(region)]
        return array

    @property
    def metadata(self) -> Metadata:
        dataset = self.dataset
        names = ("chunks", "compression", "compression_opts", "shuffle", "fletcher32") if dataset.chunks else ()
        with _translated(self.path):
            attributes = {name: value for name, value in dataset.attrs.items() if _is_own(name, value)}
            stored = {name: getattr(dataset, name) for name in names}
            return Metadata(dataset=stored, attributes=attributes, dimensions=_dimensions(dataset))


def write(path: str, arrays: Sequence[Named], options: WriteOptions) -> tuple[str, ...]:
    """Writes datasets (`data` without a name) with the attributes and the storage of the inputs'."""
    import numpy as np

    notes: list[str] = []
    # Made in memory: where a disk is full, HDF5 writing to it crashes the whole process.
    with _translated(path), h5py.File("made in memory", "w", driver="core", backing_store=False) as file:
        for named in arrays:
            dataset, lost = _create(file, named.spec)
            dataset[...] = np.ascontiguousarray(named.array)
            notes += lost
        file.flush()
        image = file.id.get_file_image()
    with byte_stream(path, options.overwrite) as stream:
        stream.write(image)
    return tuple(dict.fromkeys(notes))


@contextmanager
def sink(path: str, spec: Spec, options: WriteOptions) -> Iterator[Sink]:
    """Writes a dataset region by region, straight to the disk."""
    with whole_file(path, options.overwrite) as part, _translated(path), h5py.File(part, "w") as file:
        dataset, _ = _create(file, spec)
        yield Fresh(lambda region, array: dataset.__setitem__(slices(region), array))


def _create(file: Any, spec: Spec) -> tuple[Any, tuple[str, ...]]:
    """The empty dataset, stored as the input's was, and notes on attributes that cannot be kept."""
    shape, metadata = spec.shape, spec.metadata
    stored = dict(metadata.dataset)
    if 0 in shape or not shape:
        stored = {}
    elif stored.get("chunks"):
        chunks = stored["chunks"] if len(stored["chunks"]) == len(shape) else shape
        stored["chunks"] = tuple(min(c, n) for c, n in zip(chunks, shape, strict=True))
    dataset = file.create_dataset((spec.key or "data").strip("/"), shape, spec.dtype, **stored)
    lost = False
    for name, value in metadata.attributes.items():
        try:
            dataset.attrs[name] = value
        except (TypeError, ValueError, OSError, RuntimeError):
            lost = True
    for axis, dimension in zip(dataset.dims, metadata.dimensions, strict=False):
        if dimension.label:
            axis.label = dimension.label
        for name, values in dimension.scales.items():
            if name not in file:
                file[name] = values
                file[name].make_scale(name.rpartition("/")[2])
            axis.attach_scale(file[name])
    return dataset, ("some attributes of the dataset could not be kept",) if lost else ()


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    open(path, "rb").close()  # the system's own words for a missing or forbidden file
    with _translated(path):
        if not h5py.is_hdf5(path):
            raise FileError(f"{path}: is not an HDF5 file")
        file = h5py.File(path, "r")
    with file:
        yield file


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Whatever h5py raises becomes one line."""
    try:
        yield
    except PoolError:
        raise
    except BlockingIOError as error:
        raise FileError(f"{path}: is open in another program; close it there first") from error
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        text = (str(error).splitlines() or [type(error).__name__])[0].strip("'\"")
        raise FileError(f"{path}: HDF5 cannot read or write it: {text[:200]}") from error


def _datasets(path: str, file: Any) -> Iterator[tuple[str, Any]]:
    """Every usable dataset once, in the order of names, without following links out of the file or in circles.

    Scales are left out: they go with the datasets that they belong to.
    """
    waiting = [("/", file)]
    seen: set[int] = set()
    while waiting:
        prefix, group = waiting.pop()
        address = h5py.h5o.get_info(group.id).addr
        if address in seen or len(seen) > MOST_OBJECTS:
            continue
        seen.add(address)
        groups = []
        for name in sorted(group, key=str):
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                continue
            child = group[name]
            if isinstance(child, h5py.Group):
                groups.append((f"{prefix}{name}/", child))
            elif isinstance(child, h5py.Dataset) and _usable(child) and not child.is_scale:
                yield f"{prefix}{name}", child
        waiting.extend(reversed(groups))


def _usable(dataset: Any) -> bool:
    try:
        return dataset.dtype.name in DTYPES and bool(dataset.shape)
    except (TypeError, ValueError):
        return False


def _dataset(path: str, file: Any, key: str, options: ReadOptions) -> Any:
    """The dataset called `key`, refused where its data is not in this file or is not numeric."""
    if not options.allow_external:
        _check_links(path, file, key)
    if key not in file:
        names = [name for name, _ in _datasets(path, file)]
        near = get_close_matches("/" + key.strip("/"), names, 3) or names[:3]
        raise RequestError(f"{path}: has no dataset {key}; it holds {', '.join(near) or 'no numeric dataset'}")
    dataset, where = file[key], f"{path}:{key}"
    if not isinstance(dataset, h5py.Dataset):
        inside = [_header(name, each) for name, each in _datasets(path, file) if name.startswith(dataset.name + "/")]
        raise RequestError(f"{where}: is a group; name a dataset in it: {listing(inside)}")
    try:
        name = dataset.dtype.name
    except (TypeError, ValueError):
        name = "a type that numpy does not have"
    check_dtype(where, name)
    check_rank(where, dataset.shape or ())
    if dataset.is_virtual:
        _check_virtual(where, path, dataset, options.allow_external)
    if dataset.external and not options.allow_external:
        raise FileError(
            f"{where}: keeps its data in other files ({dataset.external[0][0]}); {field('allow_external')} reads them"
        )
    declared = dataset.dtype.itemsize * _product(dataset.shape)
    if options.allowed is None and not options.allow_external:
        check_expansion(where, dataset.id.get_storage_size(), declared, None)
    if dataset.chunks and dataset.dtype.itemsize * _product(dataset.chunks) > LARGEST_CHUNK:
        size = human_bytes(dataset.dtype.itemsize * _product(dataset.chunks))
        raise FileError(f"{where}: has chunks of {size}; at most {human_bytes(LARGEST_CHUNK)} are read")
    return dataset


def _check_virtual(where: str, path: str, dataset: Any, allow_external: bool) -> None:
    """HDF5 gives fill values for a source that is missing, without a word, and crashes on one that is the dataset."""
    for source in dataset.virtual_sources():
        if not allow_external:
            raise FileError(
                f"{where}: is a virtual dataset, whose data lies elsewhere ({source.file_name}:{source.dset_name}); "
                f"{field('allow_external')} reads it"
            )
        same = source.file_name in (".", os.path.basename(path))
        found = path if same else os.path.join(os.path.dirname(path), source.file_name)
        if not os.path.isfile(found):
            raise FileError(f"{where}: its source {source.file_name} is missing; HDF5 would fill its place in silence")
        if same and source.dset_name.strip("/") == dataset.name.strip("/"):
            raise FileError(f"{where}: is a virtual dataset that is its own source")


def _check_links(path: str, file: Any, key: str) -> None:
    """Refuses a link to another file anywhere on the way to `key`."""
    parts = key.strip("/").split("/")
    for depth in range(1, len(parts) + 1):
        prefix = "/".join(parts[:depth])
        try:
            link = file.get(prefix, getlink=True)
        except KeyError:
            return
        if isinstance(link, h5py.ExternalLink):
            raise FileError(
                f"{path}:{key}: is a link to the file {link.filename}; {field('allow_external')} follows it"
            )


def _check_filters(path: str, dataset: Any) -> None:
    """Names the missing filter where the library's own words mislead."""
    properties = dataset.id.get_create_plist()
    for i in range(properties.get_nfilters()):
        code, _, _, name = properties.get_filter(i)
        if not h5py.h5z.filter_avail(code):
            with suppress(RequestError):
                need("hdf5plugin", why="filters")  # it registers its own
        if not h5py.h5z.filter_avail(code):
            known = name.decode("utf-8", "replace") or "no name"
            raise FileError(
                f"{path}:{dataset.name}: needs the HDF5 filter {code} ({known}), which is not installed; "
                "most filters come with hdf5plugin: pip install hdf5plugin"
            )


def _header(name: str, dataset: Any) -> Header:
    return Header("hdf5", tuple(int(n) for n in dataset.shape), dataset.dtype.name, key=name)


def _dimensions(dataset: Any) -> tuple[Dimension, ...]:
    """Labels and one-dimensional numeric scales of the axes; () where no axis has any."""
    found = []
    for axis, length in zip(dataset.dims, dataset.shape, strict=True):
        scales = {scale.name: scale[...] for scale in axis.values() if scale.shape == (length,) and _usable(scale)}
        found.append(Dimension(axis.label, scales))
    return tuple(found) if any(dimension.label or dimension.scales for dimension in found) else ()


def _is_own(name: str, value: Any) -> bool:
    """Whether an attribute is the dataset's own, and no link to scales or other objects, which are made anew."""
    kind = getattr(value, "dtype", None)
    reference = isinstance(value, h5py.Reference) or (kind is not None and h5py.check_ref_dtype(kind) is not None)
    return not reference and name not in SCALE_ATTRIBUTES and (kind is None or kind.names is None)


def _product(numbers: tuple[int, ...]) -> int:
    result = 1
    for number in numbers:
        result *= int(number)
    return result
