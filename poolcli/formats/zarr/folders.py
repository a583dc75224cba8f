"""Stores in folders: checked access to their files, and nodes with plain metadata, which need no zarr-python.

Importing zarr-python takes 0.2 s of CPU time, more than pooling a small store does. Here the documents of arrays and
groups are read as JSON. Whatever is not exactly as expected raises an exception, and is left to zarr-python.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from typing import Any

import poolcli.message_fields as message_fields
from poolcli.dtypes import DTYPES, numpy_dtype
from poolcli.errors import FileError
from poolcli.formats.checks import UNPACKED_SIZES, check_json, check_memory
from poolcli.formats.records import ReadOptions
from poolcli.formats.table import FORMATS
from poolcli.system.lazy_imports import Lazy

numcodecs: Any = Lazy("numcodecs")
zarr: Any = Lazy("zarr")

DEFAULTS = ReadOptions()
METADATA_FILES = FORMATS["zarr"].naming.reserved
MAX_FOLDERS = 10_000  # that are remembered
SHARDING = "sharding_indexed"


@dataclass(slots=True)
class Folder:
    """A store in a folder. Files that are read must be regular, within the memory limit, and inside the folder."""

    root: str
    options: ReadOptions = DEFAULTS
    inside: str = ""
    folders: dict[str, bool] = field(default_factory=dict)  # whether they are inside

    def __post_init__(self) -> None:
        self.inside = os.path.join(os.path.realpath(self.root), "")

    def read(self, key: str) -> bytes | None:
        """The content of a file, checked; None if there is none."""
        with suppress(FileNotFoundError, NotADirectoryError), open(self.check(key), "rb") as file:
            return file.read()
        return None

    def document(self, key: str) -> dict[str, Any] | None:
        """A document of metadata; None if there is none."""
        content = self.read(key)
        if content is None:
            return None
        check_json(os.path.join(self.root, key), content, self.options.limit, self.options.allowed)
        found = json.loads(content)
        if not isinstance(found, dict):
            raise ValueError(key)
        return found

    def check(self, key: str) -> str:
        """The path of the file for a key, checked if it exists."""
        name = os.path.join(self.root, key)
        try:
            status = os.lstat(name)
            is_link = stat.S_ISLNK(status.st_mode)
            status = os.stat(name) if is_link else status
        except (FileNotFoundError, NotADirectoryError):
            return name
        if stat.S_ISDIR(status.st_mode):
            return name
        if not stat.S_ISREG(status.st_mode):
            raise FileError(f"{name}: is not a regular file")
        check_memory(f"{name}: has", status.st_size, self.options.limit, unit="")
        if not self.options.allow_external and not (self.holds(name) if is_link else self.holds_folder(name)):
            option = message_fields.field("allow_external")
            raise FileError(f"{name}: is a link to a place outside its store; {option} follows it")
        return name

    def allows(self, name: str, status: os.stat_result) -> bool:
        """Whether the file of this name and state, which is not a link, is read without further checks."""
        fits = self.options.limit is None or status.st_size <= self.options.limit
        return stat.S_ISREG(status.st_mode) and fits and (self.options.allow_external or self.holds_folder(name))

    def holds(self, name: str) -> bool:
        return os.path.join(os.path.realpath(name), "").startswith(self.inside)

    def holds_folder(self, name: str) -> bool:
        """Whether the folder of a file is inside: of thousands of chunks in a folder it is asked for once."""
        folder = os.path.dirname(name)
        if folder not in self.folders:
            self.folders = {} if len(self.folders) >= MAX_FOLDERS else self.folders
            self.folders[folder] = self.holds(folder)
        return self.folders[folder]

    def of_zarr(self) -> Any:
        """zarr-python's store of this folder, with the same checks."""
        return _checked_store()(self)


@cache
def _checked_store() -> Any:
    class Checked(zarr.storage.LocalStore):  # type: ignore[misc]  # zarr is imported when it is first used
        def __init__(self, folder: Folder, *, read_only: bool = True) -> None:
            super().__init__(folder.root, read_only=True)
            self.folder, self.allows = folder, folder.allows

        def with_read_only(self, read_only: bool = False) -> Any:
            return type(self)(self.folder)

        async def get(self, key: str, *args: Any, **kwargs: Any) -> Any:
            name = self.folder.check(key)
            return self._checked(name, await super().get(key, *args, **kwargs))

        def get_sync(self, key: str, *args: Any, **kwargs: Any) -> Any:
            name = self.folder.check(key)
            return self._checked(name, super().get_sync(key, *args, **kwargs))

        async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:
            ranges = list(key_ranges)
            for key, _ in ranges:
                self.folder.check(key)
            return await super().get_partial_values(prototype, ranges)

        def _checked(self, name: str, found: Any) -> Any:
            """What was read; refused if it is a document that would take too much memory as Python objects."""
            if found is not None and name.endswith(METADATA_FILES):
                check_json(name, found.to_bytes(), self.folder.options.limit, self.folder.options.allowed)
            return found

    return Checked


@dataclass(slots=True)
class PlainArray:
    """An array with the attributes of zarr-python's that poolcli uses, and its `document` as zarr-python writes it."""

    store: Folder
    path: str
    zarr_format: int
    document: dict[str, Any]
    attrs: dict[str, Any]
    shape: tuple[int, ...]
    dtype: Any
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    fill_value: Any
    dimension_names: tuple[str | None, ...] | None = None
    filters: None = None
    where: str = ""  # as messages name it
    at_once: int = 2**31  # chunks that may be decoded side by side

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def metadata(self) -> PlainArray:
        return self

    def encode_chunk_key(self, numbers: tuple[int, ...]) -> str:
        """The name of the file of a chunk or shard."""
        if self.zarr_format == 2:
            return str(self.document["dimension_separator"]).join(map(str, numbers))
        encoding = self.document["chunk_key_encoding"]
        start = ("c",) if encoding["name"] == "default" else ()
        return str(encoding["configuration"]["separator"]).join((*start, *map(str, numbers)))


@dataclass(slots=True)
class PlainGroup:
    """A group with the attributes of zarr-python's that poolcli uses."""

    store: Folder
    path: str
    zarr_format: int
    attrs: dict[str, Any]
    consolidated_metadata: None = None
    group_keys: None = None  # tells groups from arrays

    @property
    def metadata(self) -> PlainGroup:
        return self

    def __getitem__(self, key: str) -> Any:
        path = f"{self.path}/{key.strip('/')}".strip("/")
        try:
            found = plain_node(self.store, path)
            _expect(found.zarr_format == self.zarr_format)
        except (AbsentError, MemoryError):
            raise
        except Exception:  # zarr tells what is wrong
            return zarr.open_group(store=self.store.of_zarr(), path=self.path, mode="r")[key]
        return found

    def get(self, key: str) -> Any:
        """The node of a name; None if there is none."""
        try:
            return self[key]
        except KeyError:
            return None

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None


class AbsentError(KeyError):
    """There is no node of this name."""


OF_ARRAYS = {
    "zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs",
    "attributes", "dimension_names", "storage_transformers",
}  # fmt: skip
OF_ARRAYS_2 = {
    "zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters", "dimension_separator",
}  # fmt: skip
OF_GROUPS = {"zarr_format", "node_type", "attributes", "consolidated_metadata"}
SETTINGS = {
    "zstd": {"level", "checksum"},
    "gzip": {"level"},
    "blosc": {"typesize", "cname", "clevel", "shuffle", "blocksize"},
}
SPECIAL = ("NaN", "Infinity", "-Infinity")


def plain_node(store: Folder, path: str) -> PlainArray | PlainGroup:
    """The node of a path; any exception if there is none, or it needs zarr-python."""
    start = f"{path}/" if path else ""
    new = store.document(f"{start}zarr.json")
    others = [store.document(f"{start}{name}") for name in (".zarray", ".zgroup", ".zattrs", ".zmetadata")]
    if new is not None:
        _expect(others == [None] * 4)
        return _node_3(store, path, new)
    array, group, attributes, together = others
    if array is None and group is None:
        raise AbsentError(path)
    _expect(together is None and (array is None or group is None))
    if array is not None:
        return plain_array(store, path, array, attributes or {})
    _expect(group == {"zarr_format": 2})
    return PlainGroup(store, path, 2, attributes or {})


def _expect(condition: bool) -> None:
    if not condition:
        raise ValueError("is not plain")


def _node_3(store: Folder, path: str, document: dict[str, Any]) -> PlainArray | PlainGroup:
    _expect(document["zarr_format"] == 3)
    attributes = document.get("attributes", {})
    _expect(isinstance(attributes, dict))
    if document["node_type"] == "array":
        return plain_array(store, path, document, attributes)
    _expect(document["node_type"] == "group" and document.keys() <= OF_GROUPS)
    _expect(document.get("consolidated_metadata") is None)
    return PlainGroup(store, path, 3, attributes)


def plain_array(store: Folder, path: str, document: Mapping[str, Any], attributes: dict[str, Any]) -> PlainArray:
    """The array of a document; any exception if it needs zarr-python."""
    return (_array_2 if document["zarr_format"] == 2 else _array_3)(store, path, document, attributes)


def _array_3(store: Folder, path: str, document: Mapping[str, Any], attributes: dict[str, Any]) -> PlainArray:
    _expect(document["node_type"] == "array" and document.keys() <= OF_ARRAYS)
    _expect(not document.get("storage_transformers") and document["data_type"] in {*DTYPES} - {"bfloat16"})
    grid, encoding = document["chunk_grid"], document["chunk_key_encoding"]
    _expect(grid.keys() == {"name", "configuration"} and grid["name"] == "regular")
    _expect(grid["configuration"].keys() == {"chunk_shape"} and encoding["name"] in ("default", "v2"))
    usual = {"separator": "/" if encoding["name"] == "default" else "."}
    setting = encoding.get("configuration", usual) or usual
    _expect(encoding.keys() <= {"name", "configuration"} and setting.keys() == {"separator"})
    _expect(setting["separator"] in ("/", "."))
    shape = _lengths(document["shape"], 0)
    unit = _lengths(grid["configuration"]["chunk_shape"], 1)
    codecs, chunks = document["codecs"], unit
    if codecs[0]["name"] == SHARDING:
        (sharding,) = codecs
        inner = sharding["configuration"]
        _expect(sharding.keys() == {"name", "configuration"})
        _expect(inner.keys() == {"chunk_shape", "codecs", "index_codecs", "index_location"})
        codecs, chunks = inner["codecs"], _lengths(inner["chunk_shape"], 1)
        _expect(len(unit) == len(chunks) and not any(a % b for a, b in zip(unit, chunks, strict=True)))
    for codec in codecs:
        _check_codec(codec, len(shape))
    names = document.get("dimension_names")
    if names is not None:
        _expect(len(names) == len(shape) and all(each is None or isinstance(each, str) for each in names))
        names = tuple(names)
    _expect(len(shape) == len(unit))
    dtype = numpy_dtype(document["data_type"])
    fill, as_json = _fill_value(document["fill_value"], dtype)
    full = dict(document) | {
        "fill_value": as_json,
        "chunk_key_encoding": {"name": encoding["name"], "configuration": setting},
    }
    return PlainArray(
        store, path, 3, full, attributes, shape, dtype, chunks, None if chunks is unit else unit, fill, names
    )


def _array_2(store: Folder, path: str, document: Mapping[str, Any], attributes: dict[str, Any]) -> PlainArray:
    import numpy as np

    separator, compressor = document.get("dimension_separator", "."), document["compressor"]
    _expect(document.keys() <= OF_ARRAYS_2 and separator in ("/", ".") and document["order"] in ("C", "F"))
    _expect(document["filters"] is None and isinstance(document["dtype"], str))
    dtype = np.dtype(document["dtype"])
    _expect(dtype.name in DTYPES and dtype.kind in "buif" and dtype.str == document["dtype"])
    shape, chunks = _lengths(document["shape"], 0), _lengths(document["chunks"], 1)
    _expect(len(shape) == len(chunks))
    if compressor is not None:
        _expect(compressor["id"] in UNPACKED_SIZES)
        numcodecs.get_codec(compressor)  # refuses settings that it does not have
    fill, as_json = (None, None) if document["fill_value"] is None else _fill_value(document["fill_value"], dtype)
    full = dict(document) | {"dimension_separator": separator, "fill_value": as_json}
    return PlainArray(store, path, 2, full, attributes, shape, dtype, chunks, None, fill)


def _lengths(found: Any, least: int) -> tuple[int, ...]:
    _expect(isinstance(found, list) and bool(found) and all(type(n) is int and n >= least for n in found))
    return tuple(found)


def _check_codec(codec: Mapping[str, Any], rank: int) -> None:
    """Expects a codec as zarr-python writes it, with all its settings."""
    name, setting = codec["name"], codec.get("configuration", {})
    _expect(codec.keys() <= {"name", "configuration"})
    if name == "transpose":
        _expect(setting.keys() == {"order"} and sorted(setting["order"]) == list(range(rank)))
    elif name == "bytes":
        _expect(setting.keys() <= {"endian"} and setting.get("endian", "little") in ("little", "big"))
    else:
        highest = 22 if name == "zstd" else 9
        level = setting["clevel" if name == "blosc" else "level"]
        _expect(setting.keys() == SETTINGS[name] and type(level) is int and level <= highest)
        _expect(level >= 0 or name == "zstd")


def _fill_value(found: Any, dtype: Any) -> tuple[Any, Any]:
    """A fill value as a number of numpy, and as zarr-python writes it."""
    import numpy as np

    if dtype.kind == "b":
        _expect(type(found) is bool)
        return np.bool_(found), found
    if dtype.kind in "ui":
        _expect(type(found) is int)
        return dtype.type(found), found  # refuses what the type cannot hold
    _expect(found in SPECIAL if isinstance(found, str) else type(found) in (int, float))
    with np.errstate(over="ignore"):
        value = dtype.type(float(found))
    number = float(value)
    return value, number if isfinite(number) else SPECIAL[0 if number != number else 1 + (number < 0)]
