"""Zarr stores of version 2 and 3, in folders and object stores: their arrays, read region by region."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from mmap import ACCESS_READ, mmap
from posixpath import dirname, join
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.errors import FileError, PoolError, RequestError
from poolcli.formats import cf, checks, records
from poolcli.formats.files import is_url
from poolcli.formats.zarr import library, ome
from poolcli.formats.zarr.library import RUN, ZARR_ERRORS, groups_above, is_group, reading_metadata, zarr_errors
from poolcli.formats.zarr.storage import ExpansionCheck, storage_of
from poolcli.formats.zarr.write import open_writer, write
from poolcli.layouts import layout_of_dimensions
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Array, numpy as np
from poolcli.system.processes import allowed_threads
from poolcli.windows import Ranges

__all__ = ["open_array", "open_container", "open_writer", "write"]

MAX_CHUNK = 2**31  # bytes of one chunk, if no memory limit is known
AXIS_BYTES = 2**26  # of coordinates, and of a chunk of them
GROUP_KEYS = ("ome", "multiscales", "omero", *ome.COLLECTION_KEYS)  # attributes of groups that one array does not keep
DIMENSIONS = "_ARRAY_DIMENSIONS"  # xarray's attribute of dimension names in Zarr v2
CHUNK_COPIES = 2  # of a chunk while it is read: stored and decoded


@contextmanager
def open_container(path: str, options: records.ReadOptions) -> Iterator[ZarrStore]:
    """Opens the store; groups and arrays that cannot be read are left out."""
    with reading_metadata(path):
        store = library.open_store(path, options)
        try:
            root = library.zarr.open(store=store, mode="r")
        except FileNotFoundError:
            raise FileError(f"{path}: holds no Zarr array or group") from None
    yield ZarrStore(path, root, options)


@contextmanager
def open_array(source: records.Source, options: records.ReadOptions) -> Iterator[records.ArrayReader]:
    """The chosen array, read region by region."""
    with open_container(source.path, options) as file:
        level = ome.first_level(file.root, source.key) if options.as_pyramid else None
        if options.as_pyramid and not (level or source.key or {"plate", ome.SERIES}.isdisjoint(ome.ome_of(file.root))):
            raise RequestError(
                f"{source.path}: holds a plate or series of images; {field('all')} takes all of them, "
                f"{source.path}:/A/1/0 one of them"
            )
        key = level or source.key or (None if is_group(file.root) else "/")
        yield checks.open_chosen(file, replace(source, key=key), options.ndim)


@dataclass(frozen=True)
class ZarrStore(records.ArrayContainer):
    """An open store: an array, or a group with arrays."""

    path: str
    root: Any
    options: records.ReadOptions

    @cached_property
    def listed(self) -> dict[str, records.Header | None]:
        """The arrays, without coordinates of others; None for those that cannot be pooled."""
        with reading_metadata(self.path):
            dependent = self.referenced | _coordinate_arrays(self._walked)
            own = [(key, array) for key, array in self._walked.items() if key not in dependent]
            return {key or "/": self._header(key, array) if _is_numeric(array) else None for key, array in own}

    @cached_property
    def referenced(self) -> set[str]:
        """The names of arrays that others refer to."""
        with reading_metadata(self.path):
            return cf.dependent_variables({key: array.attrs for key, array in self._walked.items() if key})

    @cached_property
    def _walked(self) -> dict[str | None, Any]:
        return dict(library.walk(self.path, self.root, self.options.allow_external))

    def array(self, key: str) -> records.ArrayReader:
        """The array of a name; refuses names without one, and arrays beyond the limits."""
        with reading_metadata(self.path):
            node = self._node(key)
            if node is None:
                node = self._node(checks.choose_array(records.Source(self.path, key), self.headers).key)
            name = None if node is self.root else "/" + node.path
            where = self.path + (f":{name}" if name else "")
            _check(where, node, self.options.limit)
            taken = checks.unless_negligible(CHUNK_COPIES * checks.byte_count(node.chunks, node.dtype.itemsize))
            header = replace(self._header(name, node), extra_memory=taken)
            array = _ArrayReader(header, where, self.path, self.root, node, self.options)
            return cf.with_nodata(array, _attributes_of(self.root, name, node))

    def _node(self, key: str | None) -> Any:
        if not is_group(self.root):
            return None if (key or "").strip("/") else self.root
        return _open_array(self.root, str(key), (KeyError, ValueError))

    def _header(self, key: str | None, array: Any) -> records.Header:
        layout = layout_of_dimensions(_axes_of(self.root, key, array))
        return records.Header("zarr", array.shape, array.dtype.name, layout, key, compressed=bool(array.compressors))


def _is_numeric(array: Any) -> bool:
    with suppress(FileError):
        _check("", array, None)
        return True
    return False


def _check(where: str, array: Any, limit: int | None) -> None:
    """Refuses what cannot be pooled, impossible metadata, and chunks that memory cannot hold: each is decoded whole."""
    checks.check_array(where, array.shape, array.dtype.name)
    chunk = array.chunks
    if any(length < 1 for length in chunk):
        raise FileError(f"{where}: has chunks of {','.join(map(str, chunk))}, which must be at least 1")
    size, most = checks.byte_count(chunk, array.dtype.itemsize), limit or MAX_CHUNK
    if size * CHUNK_COPIES > most:
        one, two = checks.human_bytes(size), checks.human_bytes(most)
        told = ",".join(map(str, chunk))
        raise FileError(f"{where}: one chunk ({told}) is {one}, which is read as a whole; the limit is {two} for two")


@dataclass
class _ArrayReader(records.ArrayReader):
    """An array, of which zarr's `node` has the metadata."""

    header: records.Header
    where: str
    path: str
    root: Any
    node: Any
    options: records.ReadOptions

    @property
    def chunks(self) -> tuple[int, ...]:
        return tuple(self.node.chunks)

    @property
    def metadata(self) -> records.Metadata:
        with reading_metadata(self.where):
            key = self.header.key
            found = _metadata_of(self.root, key, self.node)
            if key and found.dimensions:
                found = _with_coordinates(self.root, key, self.node, found)
            more = {"labels": ome.labels_of(self.root, key)} if self.options.as_pyramid else {}
            return replace(found, ome={**found.ome, **more})

    @cached_property
    def _array(self) -> Any:
        """The array whose chunks are read: in folders the checks of the store of metadata would keep zarrs from it."""
        if not is_url(self.path):
            return library.array_at(library.open_store(self.path), self.node.path, self.node.metadata)
        self.node.store.checks.append(self._expansion)
        return library.array_at(self.node.store, self.node.path, self.node.metadata)

    def read(self, region: Ranges) -> Array:
        size = checks.byte_count(self.chunks, self.node.dtype.itemsize)
        if not is_url(self.path):
            self._check_files(region, size)
        return library.read_region(self.where, self._array, region, max(1, self._decode_budget // max(1, size)))

    def _check_files(self, region: Ranges, size: int) -> None:
        """Refuses links, and chunks that unpack to far more than they should."""
        store, files = self.node.store, dict[str, tuple[int, Ranges]]()
        for key, inside in library.chunk_keys(self.node, region):
            if stored := store.check(key):
                checks.check_expansion(f"{self.where}, {key}", stored, size, self.options.allowed)
                files[key] = stored, inside
        skip_deflate = self.options.allowed is None and sum(stored for stored, _ in files.values()) >= checks.SMALL_FILE
        for key, (_, inside) in files.items():
            with open(os.path.join(store.root, key), "rb") as stream:
                data: Any = mmap(stream.fileno(), 0, access=ACCESS_READ) if self.node.shards else stream.read()
            self._expansion.file(key, data, inside, skip_deflate)

    @cached_property
    def _expansion(self) -> ExpansionCheck:
        size = checks.byte_count(self.chunks, self.node.dtype.itemsize)
        return ExpansionCheck(self.where, self.node, max(size, self._decode_budget // allowed_threads()))

    @property
    def _decode_budget(self) -> int:
        """The bytes of chunks that may be decoded at the same time."""
        most = self.options.limit or MAX_CHUNK
        return (most if self.options.allowed is not None else min(most, MAX_CHUNK)) // 8


def _metadata_of(root: Any, key: str | None, array: Any) -> records.Metadata:
    """The metadata of an array, without coordinates."""
    axes = _axes_of(root, key, array)
    groups, dropped = {}, []
    for name, group in groups_above(root, key):
        attributes = dict(group.attrs)
        attributes.pop(RUN, None)
        dropped += [f"{word} of {name}" for word in GROUP_KEYS if attributes.pop(word, None) is not None]
        groups[name] = attributes
    notes = [f"left out, because it describes several arrays: {checks.join_names(dropped)}"] if dropped else []
    about = ome.image_metadata(root, key)
    found = about.get("axes", ())
    letters = layout_of_dimensions([axis.get("name") for axis in found]) or ""
    units = [str(axis.get("unit", "")) for axis in found]
    return records.Metadata(
        ome=about,
        axes=tuple(map(records.Axis, letters, array.shape, about.get("scale", ()), units)),
        zarr_storage=storage_of(array),
        attributes=_attributes_of(root, key, array),
        groups=groups,
        dimensions=tuple(records.Dimension(name or "", {}) for name in axes),
        notes=tuple(notes),
    )


def _attributes_of(root: Any, key: str | None, array: Any) -> dict[str, Any]:
    """The attributes of an array without dimension names, with its nodata values as numbers.

    In Zarr v2 xarray stores `_FillValue` as the fill value of arrays with dimension names; those of a multiscale group
    are written by others, whose fill value is an element like others.
    """
    found = cf.decode_nodata(array.attrs)
    found.pop(RUN, None)
    named, fill = found.pop(DIMENSIONS, None), getattr(array.metadata, "fill_value", None)
    if named and array.metadata.zarr_format == 2 and fill is not None and not ome.image_metadata(root, key):
        found["_FillValue"] = fill.item()
    return found


def _axes_of(root: Any, key: str | None, array: Any) -> tuple[str | None, ...]:
    """The names of an array's axes, its own or those of OME-Zarr; () if there are none."""
    names = _dimension_names(array)
    axes = () if names else tuple(str(axis.get("name", "")) for axis in ome.image_metadata(root, key).get("axes", ()))
    return names or (axes if len(axes) == array.ndim else ())


def _dimension_names(array: Any) -> tuple[str | None, ...]:
    """The dimension names of an array; () if it has none."""
    found = getattr(array.metadata, "dimension_names", None) or array.attrs.get(DIMENSIONS)
    if not isinstance(found, list | tuple) or len(found) != array.ndim or not any(found):
        return ()
    return tuple(name if isinstance(name, str) else None for name in found)


def _coordinate_arrays(arrays: Mapping[str | None, Any]) -> set[str]:
    """The keys of arrays that are coordinates of an axis of another one."""
    names = {key: _dimension_names(array) for key, array in arrays.items() if key}
    along = set[str]()
    for key, axes in names.items():
        for name in axes:
            along |= {place for place in _candidates(key, name) if place != key and names.get(place) == (name,)}
    return along


def _with_coordinates(root: Any, key: str, array: Any, metadata: records.Metadata) -> records.Metadata:
    """The metadata with the coordinates of the axes of an array, and without its references to other variables."""
    dimensions, notes = list[records.Dimension](), list(metadata.notes)
    for each, length in zip(metadata.dimensions, array.shape, strict=True):
        scales = dict[str, records.Scale]()
        for place in _candidates(key, each.label or None):
            node = _open_array(root, place) if place != key else None
            if node is None or node.shape != (length,) or not (node.dtype.name in DTYPES or node.dtype.kind in "UT"):
                continue
            if length <= cf.MAX_COORDINATES and max(length, *node.chunks) * node.dtype.itemsize <= AXIS_BYTES:
                node.store.checks.append(ExpansionCheck(place, node, AXIS_BYTES))
                with suppress(PoolError), zarr_errors(place):
                    values = np.asarray(node[...])
                    values = values if values.dtype.name in DTYPES else values.astype(object)
                    scales[place] = records.Scale(values, "", _attributes_of(root, place, node))
            if not scales:
                notes.append(f"left out, because they are very long or cannot be read: the coordinates {place}")
            break
        dimensions.append(records.Dimension(each.label, scales))
    found = replace(metadata, dimensions=tuple(dimensions), notes=tuple(notes))
    return cf.without_references(key, found)


def _candidates(key: str, name: str | None) -> Iterator[str]:
    """Where the coordinates of an axis may be: beside an array, or in a group above it, the nearest first."""
    place = key if name else "/"
    while place != "/":
        place = dirname(place)
        yield join(place, str(name))


def _open_array(root: Any, place: str, missing: tuple[type[Exception], ...] = ZARR_ERRORS) -> Any:
    """The array at a place; None for a group, and where these errors say that there is none."""
    with suppress(*missing):
        node = root[place.strip("/")]  # which older releases do not
        return None if is_group(node) else node
    return None
