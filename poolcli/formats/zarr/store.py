"""The store of a Zarr hierarchy: a folder that nothing leads out of, or an object store."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import cache
from typing import Any

from poolcli.errors import FileError
from poolcli.formats.checks import check_json, human_bytes
from poolcli.formats.paths import filesystem, is_url, patient
from poolcli.formats.records import ReadOptions
from poolcli.formats.zarr.library import zarr
from poolcli.message_fields import field

DEFAULTS = ReadOptions()
DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
MOST_LISTED = 100_000  # files and folders that are looked at


def store_of(path: str, *, read_only: bool, options: ReadOptions = DEFAULTS) -> Any:
    """The store at a path or URL, of which no document may take more memory than is allowed."""
    if is_url(path):
        filesystem(path)  # refuses what fsspec has no package for
        store = (_of_objects() if read_only else zarr.storage.FsspecStore).from_url(path, read_only=read_only)
        store.options = options
        patient(store.fs)
        return store
    if not read_only:
        return zarr.storage.LocalStore(path, read_only=False)
    return _gated()(path, options)


def stored_bytes(path: str, enough: int) -> int:
    """The bytes below a folder or URL; `enough` where there are as many, or more files than are looked at."""
    total, seen = 0, 0
    for size in _sizes(path):
        total, seen = total + size, seen + 1
        if total >= enough or seen >= MOST_LISTED:
            return enough
    return total


def _sizes(path: str) -> Iterator[int]:
    """The sizes of the files below a folder or URL, folder by folder, and 0 for each folder."""
    if is_url(path):
        system, inside = filesystem(path)
        for _, folders, files in system.walk(inside, detail=True):
            yield from (0 for _ in folders)
            yield from (int(each.get("size") or 0) for each in files.values())
        return
    waiting = [path]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                yield 0 if is_folder else entry.stat().st_size
                if is_folder:
                    waiting.append(entry.path)


def _checked(where: str, found: Any, options: ReadOptions) -> Any:
    """A document as it was read; refused where it would take too much memory as Python objects."""
    if found is not None:
        check_json(where, found.to_bytes(), options.limit, options.allowed)
    return found


@cache
def _of_objects() -> Any:
    """zarr's store of objects, whose documents are checked."""

    class Checked(zarr.storage.FsspecStore):  # type: ignore[misc]  # zarr is imported when it is first used
        options = DEFAULTS

        async def get(self, key: str, *args: Any, **kwargs: Any) -> Any:
            found = await super().get(key, *args, **kwargs)
            return _checked(key, found, self.options) if key.endswith(DOCUMENTS) else found

    return Checked


@cache
def _gated() -> Any:
    """zarr's store of a folder, whose files are regular, no larger than is allowed, and in that folder."""

    class Gated(zarr.storage.LocalStore):  # type: ignore[misc]  # zarr is imported when it is first used
        def __init__(self, root: Any, options: ReadOptions, *, read_only: bool = True) -> None:
            super().__init__(root, read_only=True)
            self.options = options
            self.inside = os.path.join(os.path.realpath(root), "")

        def with_read_only(self, read_only: bool = False) -> Any:
            return type(self)(self.root, self.options)

        async def get(self, key: str, *args: Any, **kwargs: Any) -> Any:
            name = self.check(key)
            found = await super().get(key, *args, **kwargs)
            return _checked(name, found, self.options) if key.endswith(DOCUMENTS) else found

        def get_sync(self, key: str, *args: Any, **kwargs: Any) -> Any:
            name = self.check(key)
            found = super().get_sync(key, *args, **kwargs)
            return _checked(name, found, self.options) if key.endswith(DOCUMENTS) else found

        async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:
            ranges = list(key_ranges)
            for key, _ in ranges:
                self.check(key)
            return await super().get_partial_values(prototype, ranges)

        def check(self, key: str) -> str:
            """The name of the file, or of what is none."""
            name = os.path.join(self.root, key)
            try:
                status = os.stat(name)
            except (FileNotFoundError, NotADirectoryError):
                return name
            if stat.S_ISDIR(status.st_mode):
                return name
            if not stat.S_ISREG(status.st_mode):
                raise FileError(f"{name}: is not a regular file")
            limit = self.options.limit
            if limit is not None and status.st_size > limit:
                raise FileError(
                    f"{name}: has {human_bytes(status.st_size)}, the limit is {human_bytes(limit)}; raise "
                    f"{field('max_memory')}"
                )
            if not self.options.allow_external and not os.path.realpath(name).startswith(self.inside):
                raise FileError(f"{name}: is a link out of its store; {field('allow_external')} follows it")
            return name

    return Gated
