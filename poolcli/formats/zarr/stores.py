"""zarr's stores of folders and URLs, with limits on what is read. Imports zarr, so import it lazily."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from zarr.abc.store import RangeByteRequest
from zarr.storage import FsspecStore, LocalStore

from poolcli.errors import FileError
from poolcli.formats.checks import check_json, check_memory, human_bytes, json_memory_limit
from poolcli.formats.files import filesystem, with_retries
from poolcli.formats.records import ReadOptions
from poolcli.formats.table import FORMATS
from poolcli.formats.zarr.storage import ExpansionCheck
from poolcli.message_fields import field

METADATA_FILES = FORMATS["zarr"].naming.reserved


class FolderStore(LocalStore):
    """A folder for reading metadata: files must be regular, within the memory limit, and inside the folder."""

    def __init__(self, path: str, options: ReadOptions) -> None:
        super().__init__(path, read_only=True)
        self._options = options
        self.checks: list[ExpansionCheck] = []  # of the arrays that are read
        store = os.path.join(os.path.realpath(path), "")

        @lru_cache(64)  # many chunks are in one folder
        def is_inside(place: str) -> bool:
            return os.path.join(os.path.realpath(place), "").startswith(store)

        self._is_inside = is_inside

    def with_read_only(self, read_only: bool = False) -> FolderStore:
        return FolderStore(str(self.root), self._options)

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        self._check_content(key)
        return _checked(self.checks, key, await super().get(key, prototype, byte_range), byte_range)

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        self._check_content(key)
        found = super().get_sync(key, prototype=prototype, byte_range=byte_range)
        return _checked(self.checks, key, found, byte_range)

    def check(self, key: str) -> int | None:
        """The size of the file for a key; None if there is none."""
        name = os.path.join(self.root, key)
        try:
            status = os.lstat(name)
            is_link = stat.S_ISLNK(status.st_mode)
            status = os.stat(name) if is_link else status
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(status.st_mode):
            raise FileError(f"{name}: is not a regular file")
        check_memory(f"{name}: has", status.st_size, self._options.limit, unit="")
        if not (self._options.allow_external or self._is_inside(name if is_link else os.path.dirname(name))):
            option = field("allow_external")
            raise FileError(f"{name}: is a link to a place outside its store; {option} follows it")
        return status.st_size

    def _check_content(self, key: str) -> None:
        size, name = self.check(key), os.path.join(self.root, key)
        if size and key.endswith(METADATA_FILES):
            check_memory(f"{name}: has", size, _document_limit(self._options), unit="")
            with open(name, "rb") as stream:
                check_json(name, stream.read(size), self._options.limit, self._options.allowed)


class UrlStore(FsspecStore):
    """A store at a URL, which reads no more of a document than the limit and a byte."""

    url, options = "", ReadOptions()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.checks: list[ExpansionCheck] = []  # of the arrays that are read

    def __reduce__(self) -> Any:  # other processes take the credentials of their own environment
        return open_url, (self.url, self.options if self.read_only else None)

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        if not key.endswith(METADATA_FILES):
            return _checked(self.checks, key, await super().get(key, prototype, byte_range), byte_range)
        most = _document_limit(self.options)
        found = await super().get(key, prototype, RangeByteRequest(0, most + 1))
        if found is not None and len(found) > most:
            raise FileError(f"{key}: has more than {human_bytes(most)}, the limit; raise {field('max_memory')}")
        if found is not None:
            check_json(key, found.to_bytes(), self.options.limit, self.options.allowed)
        return found


def open_url(url: str, options: ReadOptions | None) -> Any:
    """The store at a URL; without options it can be written to."""
    filesystem(url)  # refuses protocols whose package is missing
    store: Any = UrlStore.from_url(url, read_only=options is not None)
    store.url, store.options = url, options or UrlStore.options
    with_retries(store.fs)
    return store


def _document_limit(options: ReadOptions) -> int:
    """The most bytes of a document, which takes several times as many as Python objects."""
    return json_memory_limit(options.limit, options.allowed) // 4


def _checked(checks: Sequence[ExpansionCheck], key: str, found: Any, byte_range: Any = None) -> Any:
    """What was read for a key, unless it is a chunk that unpacks to far more than its size."""
    for check in checks if found is not None else ():
        if not key.endswith(METADATA_FILES):
            check.part(key, found.to_bytes(), byte_range)
    return found
