"""zarr-python behind checks: stores, hierarchies, arrays whose chunks zarrs decodes, and errors of one line."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from importlib import import_module
from itertools import product
from threading import Lock
from typing import Any

from poolcli.errors import QUOTES, PoolError, error_text, raising_line
from poolcli.formats.checks import as_file_error
from poolcli.formats.files import filesystem, is_url
from poolcli.formats.records import MAX_CHUNKS, ReadOptions, batches
from poolcli.system.lazy_imports import Array, Lazy, need, numpy as np
from poolcli.system.processes import allowed_threads
from poolcli.windows import Ranges, ceil_div, slices

zarr: Any = Lazy("zarr")
cpu_buffers: Any = Lazy("zarr.buffer.cpu")
asyncio: Any = Lazy("asyncio")

RUN = "poolcli_run"  # the attribute of a store by which a later run with --resume recognises that it is complete
MAX_DEPTH = 32  # nested groups
WAITER = "poolcli waits"  # the name of tasks that wait for others
TASK_TIMEOUT = 10.0  # seconds for zarr's running tasks to end before they are cancelled
ZARR_ERRORS = (
    OSError, EOFError, SystemError, RuntimeError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
    ImportError, AssertionError,
)  # fmt: skip
_SETTINGS = Lock()  # zarr's settings are those of the process


def zarr_errors(path: str) -> AbstractContextManager[None]:
    """Turns errors of zarr, codecs and object stores into a FileError of one line."""
    return as_file_error(path, (Exception,), _describe)


def _describe(error: Exception) -> str:
    why, line = error_text(error), raising_line(error)
    of_python = isinstance(error, TypeError | AttributeError | UnicodeError) or (isinstance(error, ValueError) and line)
    if of_python and not line.startswith("raise"):  # an operation in Python code, rather than a refusal of zarr
        why = "it is damaged, or of a version that zarr does not know"
    elif type(error) is KeyError:  # the name that was not found
        why = f"Unknown name {why.strip(QUOTES)}"
    elif isinstance(error, OSError) and error.strerror:  # as with other formats
        return error.strerror
    return f"Zarr cannot read or write it: {why}"


@contextmanager
def reading_metadata(path: str) -> Iterator[None]:
    """As `zarr_errors`, for metadata, about which zarr's warnings do not concern users."""
    with zarr_errors(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def open_store(path: str, options: ReadOptions | None = None) -> Any:
    """The store at a path or URL, for reading metadata with these options or for writing without any."""
    if options is None and not is_url(path):
        return zarr.storage.LocalStore(path)
    need("zarr", why="this needs zarr")
    from poolcli.formats.zarr.stores import FolderStore, open_url

    return open_url(path, options) if options is None or is_url(path) else FolderStore(path, options)


def is_group(node: Any) -> bool:
    return hasattr(node, "group_keys")


def walk(path: str, root: Any, follow: bool) -> Iterator[tuple[str | None, Any]]:
    """Every array that can be read, by its key, in order; None for a root array. Links are followed if `follow`."""
    if not is_group(root):
        yield None, root
        return
    waiting, seen = [root], set[str]()
    while waiting:
        group, groups = waiting.pop(), []
        place = os.path.realpath(f"{path}/{group.path}")  # a link may lead to a group above it
        if place in seen:
            continue
        seen.add(place)
        for name in child_names(path, group, follow):
            with suppress(PoolError, *ZARR_ERRORS):
                node = group[name]
                if is_group(node):
                    groups.append(node)
                else:
                    yield "/" + node.path, node
        if group.path.count("/") < MAX_DEPTH:
            waiting.extend(reversed(groups))


def groups_above(root: Any, key: str | None) -> Iterator[tuple[str, Any]]:
    """The groups above an array, by name, from the root on, without those that have no metadata."""
    if key is None or not is_group(root):
        return
    place = "/"
    yield place, root
    for name in [part for part in key.split("/") if part][:-1]:
        place += f"{name}/"
        with suppress(KeyError):
            yield place, root[place.strip("/")]


def child_names(path: str, group: Any, follow: bool) -> list[str]:
    """The possible nodes of a group: those in its consolidated metadata, else the folders in it."""
    listed = group.metadata.consolidated_metadata
    if listed is not None:
        return sorted({name.partition("/")[0] for name in listed.metadata})
    if not is_url(path):
        with os.scandir(os.path.join(path, group.path)) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=follow))
    system, inside = filesystem(path)
    found = system.ls("/".join(filter(None, (inside.rstrip("/"), group.path))), detail=True)
    return sorted(entry["name"].rstrip("/").rpartition("/")[2] for entry in found if entry["type"] == "directory")


def array_at(store: Any, key: str, metadata: Any) -> Any:
    """zarr's array of this metadata, which the store need not have yet; zarrs decodes and encodes it if that is there.

    zarr decides about the codecs when it makes an array. zarrs works with zarr's own stores of folders, but not with
    their subclasses, nor with names that are not UTF-8.
    """
    folder = str(store.root) if type(store) is zarr.storage.LocalStore else ""
    uses_zarrs = folder and folder.encode("utf-8", "replace").decode() == folder and _process_of_zarrs() == os.getpid()
    settings = {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "threading.max_workers": allowed_threads()}
    place = zarr.storage.StorePath(store, key)
    with _SETTINGS, reading_metadata(str(place)), zarr.config.set(settings if uses_zarrs else {}):
        return zarr.Array(zarr.AsyncArray(metadata, place, config={"write_empty_chunks": False, "order": "C"}))


@cache
def _process_of_zarrs() -> int | None:
    """The process that imported zarrs first, whose forks do not have its threads; None if it is not installed."""
    try:
        import_module("zarrs")
    except ImportError:
        return None
    return os.getpid()


def chunk_keys(array: Any, region: Ranges) -> Iterator[tuple[str, Ranges]]:
    """The keys of the files or objects, each a shard or else a chunk, that a region touches, and where it does."""
    unit = array.shards or array.chunks
    numbers = (range(span.start // n, ceil_div(span.stop, n)) for span, n in zip(region, unit, strict=True))
    start = f"{array.path}/".lstrip("/")
    for place in product(*numbers) if all(region) else ():
        own = zip(region, place, unit, strict=True)
        inside = tuple(range(max(0, span.start - at * n), min(n, span.stop - at * n)) for span, at, n in own)
        yield start + array.metadata.encode_chunk_key(place), inside


def read_region(where: str, array: Any, region: Ranges, at_once: int = MAX_CHUNKS) -> Array:
    """A region of zarr's array, so many chunks at once; an error names the chunk or shard that it comes from."""
    out = np.empty(tuple(map(len, region)), array.dtype.newbyteorder("="))
    with zarr_errors(where):
        for part in batches(region, array.chunks, min(at_once, MAX_CHUNKS)):
            try:
                _read_into(out[slices(part, region)], array, part)
            except (PoolError, MemoryError):
                raise
            except Exception:
                for each in batches(part, array.shards or array.chunks, 1):
                    ((name, _),) = chunk_keys(array, each)
                    with zarr_errors(f"{where}, {name.removeprefix(f'{array.path}/')}"):
                        _read_into(np.empty(tuple(map(len, each)), out.dtype), array, each)
                raise
    return out


def _read_into(out: Array, array: Any, region: Ranges) -> None:
    # zarrs reads into contiguous memory only.
    found = out if out.flags.c_contiguous else np.empty_like(out, order="C")
    with tasks_joined(Exception):
        array.get_basic_selection(slices(region), out=cpu_buffers.NDBuffer.from_numpy_array(found))
    if found is not out:
        out[...] = found


@contextmanager
def tasks_joined(after: type[BaseException] = BaseException) -> Iterator[None]:
    """Waits for zarr's other tasks after an exception.

    If one of several chunks fails, zarr leaves the other tasks running: they would write into a folder that has been
    removed, or retry until the process ends, which then prints a page about each.
    """
    try:
        yield
    except after:
        with suppress(*ZARR_ERRORS):
            zarr.core.sync.sync(_join_tasks(), timeout=2 * TASK_TIMEOUT)
        raise


async def _join_tasks() -> None:
    """Waits for all tasks but those that wait here, and cancels those that take long; their exceptions are ignored."""
    asyncio.current_task().set_name(WAITER)
    others = [task for task in asyncio.all_tasks() if task.get_name() != WAITER]
    await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), TASK_TIMEOUT)
