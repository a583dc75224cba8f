"""Where new Zarr stores are written: folders with a temporary name until they are complete, and URLs.

Object stores cannot rename, so there metadata is written last, which makes it a store. With --resume, files or objects
that an interrupted run has left are kept for the next run of the same identity: a chunk or shard that exists is done.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.atomic import atomic_folder
from poolcli.formats.checks import as_file_error
from poolcli.formats.files import RETRY_WAITS, filesystem, is_url, read_object, unreachable
from poolcli.formats.records import ReadOptions
from poolcli.formats.table import FORMATS
from poolcli.formats.zarr.library import open_store, reading_metadata, zarr
from poolcli.formats.zarr.metadata import RUN
from poolcli.message_fields import field
from poolcli.system.signals import check_stopped

NOTE = ".poolcli-run"  # an object in a store that is not complete: the identity of its run

Target = tuple[Any, frozenset[str]]  # zarr's store, and the keys of what an earlier run has written


def open_target(
    path: str, overwrite: bool, identity: str | None, documents: Mapping[str, bytes]
) -> AbstractContextManager[Target]:
    """The store that becomes `path` with these documents of metadata at the end of the context.

    If that fails, what was written is removed. If it is interrupted, it is kept, unless there is no `identity`.
    """
    if identity is not None:  # chunks depend on the memory, which does not change the values
        identity += f"-{sha256(repr(sorted(documents.items())).encode()).hexdigest()[:12]}"
    return (_at_url if is_url(path) else _in_folder)(path, overwrite, identity, documents)


def is_finished(path: str, identity: str) -> bool:
    """Whether the run of this identity has completed the store at a path or URL."""
    with reading_metadata(path):
        try:
            found = zarr.open(store=open_store(path, ReadOptions()), mode="r").attrs.get(RUN)
        except FileNotFoundError:
            return False
    if found != identity or not is_url(path):
        return bool(found == identity)
    system, place = filesystem(path)
    with store_errors(path):
        return not system.exists(f"{place}/{NOTE}")


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
    with store_errors(path):
        system.invalidate_cache()
        run = _begun_run(system, place) if identity else ""
        written = frozenset[str]()
        if identity and run == identity:
            written = frozenset(name.removeprefix(f"{place}/") for name in system.find(place))
        else:
            is_same_values = bool(identity and run) and run.partition("-")[0] == str(identity).partition("-")[0]
            if not (overwrite or is_same_values) and system.exists(place):
                raise RequestError(f"{path}: exists; use {field('overwrite')}, or another {field('output')}")
            _clear(system, place)
            if identity:
                system.pipe_file(f"{place}/{NOTE}", identity.encode())
        try:
            with reading_metadata(path):
                store = open_store(path)
            yield store, written
            check_stopped()
            for name in sorted(documents, key=lambda name: -name.count("/")):  # the root last
                system.pipe_file(f"{place}/{name}", documents[name])
            if identity:
                system.rm_file(f"{place}/{NOTE}")
        except Exception:
            with suppress(Exception):  # the store may not be reached any more; what matters is why the run failed
                _clear(system, place)
            raise
        except BaseException:
            if identity is None:
                _clear(system, place)
            raise


def _begun_run(system: Any, place: str) -> str:
    """The identity of the run that has begun to write a store; "" if there is none."""
    try:
        return read_object(system, f"{place}/{NOTE}").decode()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
    except OSError as error:  # a note that cannot be read must not be taken for one that is not there
        raise FileError(f"{place}/{NOTE}: {unreachable(error)}") from error


def _clear(system: Any, place: str) -> None:
    """Removes what is at a place: first what makes it a store, or one that can be continued."""
    for name in (NOTE, *FORMATS["zarr"].naming.reserved):
        with suppress(FileNotFoundError):
            system.rm_file(f"{place}/{name}")
    for wait in (0, 0, *RETRY_WAITS):  # removed at once, which is checked at once
        time.sleep(wait)
        system.invalidate_cache()
        if not system.exists(place):
            return
        with suppress(FileNotFoundError):  # s3fs does not tell which of several objects a store refuses to remove
            system.rm(place, recursive=True)
    raise FileError(f"{place}: objects in it cannot be removed")


def store_errors(path: str) -> AbstractContextManager[None]:
    """Converts what a store raises to a FileError; NotImplementedError is raised by stores that only read (HTTP)."""

    def describe(error: Exception) -> str:
        return "cannot be written to" if isinstance(error, NotImplementedError) else unreachable(error)

    return as_file_error(path, (OSError, NotImplementedError), describe, third_party=True)
