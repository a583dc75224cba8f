"""Where new Zarr stores are written: folders with a temporary name until they are complete, and URLs.

Object stores cannot rename, so there metadata is written last, which makes it a store. With --resume, files or objects
that an interrupted run has left are kept for the next run of the same identity: a chunk or shard that exists is done.
The root document of an object store names that run until the metadata replace it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.atomic import atomic_folder
from poolcli.formats.checks import as_file_error
from poolcli.formats.files import filesystem, is_url, unreachable
from poolcli.formats.records import ReadOptions
from poolcli.formats.table import FORMATS
from poolcli.formats.zarr.library import open_store, reading_metadata, zarr
from poolcli.formats.zarr.metadata import RUN
from poolcli.message_fields import field
from poolcli.system.signals import check_stopped

ROOT = "zarr.json"  # is no more than RUN until the store is complete

Target = tuple[Any, frozenset[str]]  # zarr's store, and the keys of what an earlier run has written


def open_target(
    path: str, overwrite: bool, identity: str | None, documents: Mapping[str, bytes]
) -> AbstractContextManager[Target]:
    """The store that becomes `path` with these documents of metadata at the end of the context.

    If that fails, what was written is removed. If it is interrupted, it is kept, unless there is no `identity`.
    """
    if identity is not None:  # the lengths of chunks depend on the memory
        identity += f"-{sha256(repr(sorted(documents.items())).encode()).hexdigest()[:12]}"
    return (_at_url if is_url(path) else _in_folder)(path, overwrite, identity, documents)


def is_finished(path: str, identity: str) -> bool:
    """Whether the run of this identity has completed the store at a path or URL."""
    with suppress(FileError), reading_metadata(path):
        return bool(zarr.open(store=open_store(path, ReadOptions()), mode="r").attrs.get(RUN) == identity)
    return False


@contextmanager
def _in_folder(path: str, overwrite: bool, identity: str | None, documents: Mapping[str, bytes]) -> Iterator[Target]:
    with atomic_folder(path, overwrite, identity) as part:
        written = frozenset(str(file.relative_to(part)) for file in Path(part).rglob("*") if file.is_file())
        for name, content in documents.items():
            file = Path(part, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        yield open_store(part), written
        for file in filter(Path.is_file, Path(part).rglob("*.partial")):  # of killed processes
            file.unlink()


@contextmanager
def _at_url(path: str, overwrite: bool, identity: str | None, documents: Mapping[str, bytes]) -> Iterator[Target]:
    system, place = filesystem(path)
    written = frozenset[str]()
    with store_errors(path):
        system.invalidate_cache()
        begun = _begun_run(system, place) if identity else None
        if identity and begun == identity:
            written = frozenset(name.removeprefix(f"{place}/") for name in system.find(place))
        else:
            is_same_values = bool(begun) and str(begun).partition("-")[0] == str(identity).partition("-")[0]
            if not (overwrite or is_same_values) and system.exists(place):
                raise RequestError(f"{path}: exists; use {field('overwrite')}, or another {field('output')}")
            _clear(system, place)
            if identity:
                system.pipe_file(f"{place}/{ROOT}", json.dumps({"node_type": "incomplete", RUN: identity}).encode())
        try:
            with reading_metadata(path):
                store = open_store(path)
            yield store, written
            check_stopped()
            for name in sorted(documents, key=lambda name: -name.count("/")):  # the root last
                system.pipe_file(f"{place}/{name}", documents[name])
        except BaseException as error:
            if identity is None or isinstance(error, Exception):  # not a signal
                with suppress(Exception):  # the store may not be reached any more; what matters is why the run failed
                    _clear(system, place)
            raise


def _begun_run(system: Any, place: str) -> str | None:
    """The identity of the run that has begun to write a store; None if there is none, or the store is complete."""
    with suppress(FileNotFoundError, ValueError, LookupError, TypeError):
        return str(json.loads(system.cat_file(f"{place}/{ROOT}"))[RUN])
    return None


def _clear(system: Any, place: str) -> None:
    """Removes what is at a place: first what makes it a store, or one that can be continued."""
    for name in FORMATS["zarr"].naming.reserved:
        with suppress(FileNotFoundError):
            system.rm_file(f"{place}/{name}")
    system.invalidate_cache()
    if system.exists(place):
        system.rm(place, recursive=True)
        system.invalidate_cache()
        if system.exists(place):  # s3fs does not tell which of several objects a store refuses to remove
            raise FileError(f"{place}: objects in it cannot be removed")


def store_errors(path: str) -> AbstractContextManager[None]:
    """Converts what a store raises to a FileError; NotImplementedError is raised by stores that only read (HTTP)."""
    return as_file_error(path, (OSError, NotImplementedError), unreachable, third_party=True)
