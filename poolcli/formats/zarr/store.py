"""The store of a Zarr hierarchy: a folder that nothing leads out of, or an object store."""

from __future__ import annotations

import os
import stat
from functools import cache
from typing import Any

from poolcli.errors import FileError
from poolcli.formats.checks import human_bytes
from poolcli.formats.paths import filesystem, is_url, patient
from poolcli.formats.zarr.library import zarr
from poolcli.message_fields import field


def store_of(path: str, *, read_only: bool, allow_external: bool = False, largest: int | None = None) -> Any:
    """The store at a path or URL; `largest` is the most bytes that one file in it may have."""
    if is_url(path):
        filesystem(path)  # refuses what fsspec has no package for
        store = zarr.storage.FsspecStore.from_url(path, read_only=read_only)
        patient(store.fs)
        return store
    if not read_only:
        return zarr.storage.LocalStore(path, read_only=False)
    return _gated()(path, allow_external, largest)


@cache
def _gated() -> Any:
    """zarr's store of a folder, whose files are regular, no larger than is allowed, and in that folder."""

    class Gated(zarr.storage.LocalStore):  # type: ignore[misc]  # zarr is imported when it is first used
        def __init__(self, root: Any, allow_external: bool, largest: int | None, *, read_only: bool = True) -> None:
            super().__init__(root, read_only=True)
            self.allow_external, self.largest = allow_external, largest
            self.inside = os.path.join(os.path.realpath(root), "")

        def with_read_only(self, read_only: bool = False) -> Any:
            return type(self)(self.root, self.allow_external, self.largest)

        async def get(self, key: str, *args: Any, **kwargs: Any) -> Any:
            self.check(key)
            return await super().get(key, *args, **kwargs)

        def get_sync(self, key: str, *args: Any, **kwargs: Any) -> Any:
            self.check(key)
            return super().get_sync(key, *args, **kwargs)

        async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:
            ranges = list(key_ranges)
            for key, _ in ranges:
                self.check(key)
            return await super().get_partial_values(prototype, ranges)

        def check(self, key: str) -> None:
            name = os.path.join(self.root, key)
            try:
                status = os.stat(name)
            except (FileNotFoundError, NotADirectoryError):
                return
            if stat.S_ISDIR(status.st_mode):
                return
            if not stat.S_ISREG(status.st_mode):
                raise FileError(f"{name}: is not a regular file")
            if self.largest is not None and status.st_size > self.largest:
                raise FileError(f"{name}: has {human_bytes(status.st_size)}, more than the memory that may be used")
            if not self.allow_external and not os.path.realpath(name).startswith(self.inside):
                raise FileError(f"{name}: is a link out of its store; {field('allow_external')} follows it")

    return Gated
