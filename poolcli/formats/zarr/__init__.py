"""Zarr stores of version 2 and 3, in folders and object stores: their arrays, read region by region, and the images of
plates and series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from dataclasses import field as default
from functools import cached_property
from itertools import count, takewhile
from posixpath import join
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError, RequestError
from poolcli.formats.cf import as_unsigned
from poolcli.formats.checks import (
    FREE_EXPANSION,
    MAX_EXPANSION_RATIO,
    byte_count,
    check_dtype,
    check_expansion,
    check_rank,
    choose_array,
    human_bytes,
    nodata_in,
    nodata_notes,
    unless_negligible,
)
from poolcli.formats.names import relative_path
from poolcli.formats.npy import MAX_AXES, MAX_BYTES
from poolcli.formats.records import ArrayReader, Header, Metadata, ReadOptions, Source
from poolcli.formats.zarr.chunks import ChunkFiles, chunk_files
from poolcli.formats.zarr.documents import group_documents
from poolcli.formats.zarr.library import (
    is_group,
    limit_chunk_size,
    limit_concurrency,
    open_root,
    open_store,
    read_region,
    reading_metadata,
    stored_bytes,
    stored_file,
    walk,
)
from poolcli.formats.zarr.ome import (
    COLLECTION_KEYS,
    OME_XML,
    SERIES,
    VERSIONS,
    attributes_of,
    axes_of,
    dependent_arrays,
    first_level,
    image_extras,
    metadata_of,
    ome_of,
    with_coordinates,
)
from poolcli.formats.zarr.write import open_writer, open_writers, write
from poolcli.layouts import layout_of_dimensions
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Array
from poolcli.windows import Ranges, ceil_div

__all__ = ["open_array", "open_container", "open_writer", "open_writers", "write"]

MAX_CHUNK = 2**31  # bytes of one chunk, if no memory limit is known
CHUNK_COPIES = 2  # of a chunk while it is read: stored and decoded


@contextmanager
def open_container(path: str, options: ReadOptions) -> Iterator[ZarrStore]:
    """Opens the store; groups and arrays that cannot be read are left out."""
    with reading_metadata(path):
        store = open_store(path, options)
        root = open_root(path, store)
    yield ZarrStore(path, root, options)


@contextmanager
def open_array(source: Source, options: ReadOptions) -> Iterator[ArrayReader]:
    """The chosen array, read region by region."""
    with open_container(source.path, options) as file:
        level = first_level(file.root, source.key) if options.as_pyramid else None
        if options.as_pyramid and not (level or source.key):
            check_single_image(source.path, file.root)
        array = file.array(level or source.key or file.only(options.ndim))
        chunk = byte_count(array.chunks or (), DTYPES[array.header.dtype].itemsize)
        with limit_concurrency(chunk, _room(options)):
            yield array


def _room(options: ReadOptions) -> int:
    """The bytes of chunks that may be decoded at the same time."""
    most = options.limit or MAX_CHUNK
    return (most if options.allowed is not None else min(most, MAX_CHUNK)) // 8


@dataclass(frozen=True)
class ZarrStore:
    """An open store: an array, or a group with arrays."""

    path: str
    root: Any
    options: ReadOptions

    @cached_property
    def _arrays(self) -> list[tuple[str | None, Any, bool]]:
        """The key of each array, the array, and whether it can be pooled; without coordinates of others."""
        with reading_metadata(self.path):
            found = walk(self.path, self.root, self.options.allow_external)
            arrays = list(found)
            dependent = dependent_arrays({key: array for key, array in arrays if key})
            return [(key, array, _is_numeric(array)) for key, array in arrays if key not in dependent]

    @cached_property
    def headers(self) -> Sequence[Header]:
        with reading_metadata(self.path):
            return [self._header(key, array) for key, array, able in self._arrays if able]

    @property
    def left_out(self) -> Sequence[str]:
        return [key or "/" for key, _, able in self._arrays if not able]

    def only(self, axes: int | None) -> str:
        """The key of the root array, or of the only array of so many axes."""
        return str(choose_array(Source(self.path), self.headers, axes).key) if is_group(self.root) else "/"

    def array(self, key: str) -> ArrayReader:
        """The array of a name; refuses names without one, and arrays beyond the limits."""
        with reading_metadata(self.path):
            node = self._node(key)
            if node is None:
                node = self._node(choose_array(Source(self.path, key), self.headers).key)
            name = None if node is self.root else "/" + node.path
            where = self.path + (f":{name}" if name else "")
            check_rank(where, node.shape)
            check_dtype(where, node.dtype.name)
            _check(where, node, self.options.limit)
            self._check_stored(where, node)
            limit_chunk_size(where, node)
            attributes, header = attributes_of(self.root, name, node), self._header(name, node)
            notes, missing = tuple(nodata_notes(attributes)), nodata_in(attributes, header.dtype)
            chunk = byte_count(node.chunks, DTYPES[header.dtype].itemsize)
            header = replace(header, notes=notes, missing=missing, extra_memory=unless_negligible(CHUNK_COPIES * chunk))
            files = chunk_files(node, _room(self.options))
            array = _ArrayReader(header, where, self.root, node, files, self.options.as_pyramid)
            return as_unsigned(array, attributes)

    def _check_stored(self, where: str, array: Any) -> None:
        """Refuses a large array of which almost nothing is stored: it would take long, and its chunks much memory."""
        size = DTYPES[array.dtype.name].itemsize
        claimed = max(byte_count(array.shape, size), CHUNK_COPIES * byte_count(array.chunks, size))
        if self.options.allowed is None and claimed > FREE_EXPANSION:
            stored = stored_bytes(f"{self.path.rstrip('/')}/{array.path}", ceil_div(claimed, MAX_EXPANSION_RATIO))
            check_expansion(where, stored, claimed, None)

    def _node(self, key: str | None) -> Any:
        """The array of a name; None if there is none."""
        if not (key or "").strip("/"):
            return None if is_group(self.root) else self.root
        if not is_group(self.root):
            return None
        try:
            node = self.root[relative_path(str(key))]
        except (KeyError, ValueError):
            return None
        return None if is_group(node) else node

    def _header(self, key: str | None, array: Any) -> Header:
        names = axes_of(self.root, key, array)
        return Header("zarr", array.shape, array.dtype.name, layout_of_dimensions(names) if names else None, key)


def _is_numeric(array: Any) -> bool:
    if array.dtype.name not in DTYPES or not array.ndim:
        return False
    try:
        _check("", array, None)
    except FileError:
        return False
    return True


def _check(where: str, array: Any, limit: int | None) -> None:
    """Refuses impossible metadata, and chunks that memory cannot hold: each is decoded as a whole."""
    itemsize = DTYPES[array.dtype.name].itemsize
    if array.ndim > MAX_AXES:
        raise FileError(f"{where}: has {array.ndim} axes; at most {MAX_AXES} are read")
    if byte_count([size or 1 for size in array.shape], itemsize) > MAX_BYTES:
        raise FileError(f"{where}: claims {human_bytes(byte_count(array.shape, itemsize))}, which no array can have")
    chunk = array.chunks
    if any(length < 1 for length in chunk):
        raise FileError(f"{where}: has chunks of {','.join(map(str, chunk))}, which must be at least 1")
    size, most = byte_count(chunk, itemsize), limit or MAX_CHUNK
    if size * 2 > most:
        raise FileError(
            f"{where}: one chunk ({','.join(map(str, chunk))}) is {human_bytes(size)}, which is read as a whole; the "
            f"limit is {human_bytes(most)} for two"
        )


@dataclass(slots=True)
class _ArrayReader:
    header: Header
    where: str
    root: Any
    array: Any
    chunk_files: ChunkFiles | None
    as_pyramid: bool
    streams: bool = True

    @property
    def chunks(self) -> tuple[int, ...]:
        """The lengths of a chunk."""
        return tuple(self.array.chunks)

    @property
    def metadata(self) -> Metadata:
        with reading_metadata(self.where):
            key = self.header.key
            found = metadata_of(self.root, key, self.array)
            if key and found.dimensions:
                found = with_coordinates(self.root, key, self.array, found)
            more = image_extras(self.root, self.header.key) if self.as_pyramid else {}
            return replace(found, ome={**found.ome, **more})

    def read(self, region: Ranges) -> Array:
        return read_region(self.where, self.array, region, self.chunk_files)


@dataclass(frozen=True, slots=True)
class Images:
    """The images of a store: the key of each by its place in a copy of the store, attributes of the groups above them,
    by name, and the content of the files `beside` them.
    """

    keys: Mapping[str, str]
    groups: Mapping[str, Mapping[str, Any]]
    beside: Mapping[str, bytes] = default(default_factory=dict)


def list_images(path: str, root: Any, key: str | None, ngff: str) -> Images:
    """The images of the plate or of the series in the group `key`, with attributes for a version of OME-Zarr.

    Raises a RequestError for groups that are neither, and a FileError for damaged metadata.
    """
    with reading_metadata(path):
        try:
            group = root.get(relative_path(key)) if key and key.strip("/") and is_group(root) else root
            found = ome_of(group)
            images = _plate(group, ngff) if "plate" in found else _series(group, ngff) if SERIES in found else None
            beside = _beside(group, images, ngff) if images else {}
        except KeyError as error:
            raise FileError(f"{path}: has no {error.args[0]}, which its plate or its series need") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise FileError(f"{path}: the metadata of its plate or of its series is damaged") from error
    if images is None or not images.keys:
        raise RequestError(
            f"{path}: holds no plate and no series of bioformats2raw; {field('all')} pools every image of those, leave "
            "it out"
        )
    return replace(images, beside=beside)


def check_single_image(path: str, root: Any) -> None:
    """Refuses to choose one of the images of a plate or of series."""
    if not {"plate", SERIES}.isdisjoint(ome_of(root)):
        raise RequestError(
            f"{path}: holds a plate or series of images; {field('all')} takes all of them, {path}:/A/1/0 one of them"
        )


def _plate(plate: Any, ngff: str) -> Images:
    keys, groups = dict[str, str](), {"/": _attributes(plate, ngff)}
    for path in (relative_path(str(well["path"])) for well in ome_of(plate)["plate"]["wells"]):
        well, above = plate.get(path), path.rpartition("/")[0]
        if well is None:
            raise KeyError(path)
        if above in plate:
            groups[f"/{above}/"] = _attributes(plate[above], ngff)
        groups[f"/{path}/"] = _attributes(well, ngff)
        for place in (f"{path}/{relative_path(str(image['path']))}" for image in ome_of(well)["well"]["images"]):
            keys[f"/{place}/"] = join(plate.path, place)
    return Images(keys, groups)


def _series(store: Any, ngff: str) -> Images:
    beside = store.get("OME")
    listed = ome_of(beside).get("series") if beside is not None else None
    # Without the group OME, images have the names 0, 1, ... in the order of the series.
    numbered = takewhile(store.__contains__, map(str, count()))
    names = numbered if listed is None else (relative_path(str(name)) for name in listed)
    keys = {f"/{number}/": join(store.path, name) for number, name in enumerate(names)}
    return Images(keys, {"/": _attributes(store, ngff)})


def _beside(store: Any, images: Images, ngff: str) -> dict[str, bytes]:
    """The group OME of all images, and the OME-XML in it, which holds for the first levels of the output as well."""
    found, described = store.get("OME"), stored_file(store, OME_XML)
    files = {OME_XML: described} if described else {}
    if found is None:
        return files
    attributes = _attributes(found, ngff)
    known = attributes if ngff == "0.4" else attributes.setdefault("ome", {"version": ngff})
    known["series"] = [place.strip("/") for place in images.keys]
    return group_documents("OME", attributes, VERSIONS[ngff]) | files


def _attributes(group: Any, ngff: str) -> dict[str, Any]:
    """The attributes of a group above images, as a version of OME-NGFF has them."""
    if not is_group(group):
        raise ValueError(f"{group.path} is an array")
    own, known, found = dict(group.attrs), dict(ome_of(group)), dict[str, Any]()
    own.pop("ome", None)
    for word in [each for each in known if each in COLLECTION_KEYS or (each not in own and each != "version")]:
        own.pop(word, None)
        found[word] = value = known[word]
        if isinstance(value, Mapping):
            version = {"version": ngff} if ngff == "0.4" or word == "plate" else {}
            found[word] = {name: each for name, each in value.items() if name != "version"} | version
    if ngff == "0.4":
        return own | found
    return own | ({"ome": {"version": ngff, **found}} if found else {})
