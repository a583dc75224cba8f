"""zarr-python behind checks: stores of folders and URLs, hierarchies, sizes of chunks, errors of one line."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from poolcli.errors import QUOTES, FileError, PoolError, error_text, is_of_an_operation, is_raised_explicitly
from poolcli.formats.checks import UNPACKED_SIZES, as_file_error, blosc_size, byte_count, human_bytes
from poolcli.formats.files import file_stats, filesystem, is_url, unreachable
from poolcli.formats.records import ReadOptions, slices
from poolcli.formats.resumable import batches, read_in_batches
from poolcli.system.lazy_imports import Array, Lazy, need
from poolcli.windows import Ranges

if TYPE_CHECKING:
    from poolcli.formats.zarr.chunks import ChunkFiles

zarr: Any = Lazy("zarr")
asyncio: Any = Lazy("asyncio")

TASK_TIMEOUT = 10.0  # seconds for zarr's running tasks to end before they are cancelled
WAITER = "poolcli waits"  # the name of tasks that wait for others
ZARR_ERRORS = (
    OSError, EOFError, SystemError, RuntimeError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
    ImportError,
)  # fmt: skip


def zarr_errors(path: str) -> AbstractContextManager[None]:
    """Turns errors of zarr, codecs and object stores into a FileError of one line."""
    return as_file_error(path, ZARR_ERRORS, _describe, third_party=True)


def _describe(error: Exception) -> str:
    why = error_text(error)
    of_python = isinstance(error, TypeError | AttributeError | UnicodeError) and not is_raised_explicitly(error)
    if of_python or (isinstance(error, ValueError) and is_of_an_operation(error)):
        why = "it is damaged, or of a version that zarr does not know"
    elif type(error) is KeyError:  # the name that was not found
        why = f"Unknown name {why.strip(QUOTES)}"
    elif isinstance(error, OSError) and error.strerror:  # as with other formats
        return error.strerror
    elif isinstance(getattr(error, "status", None), int):  # what a web server has answered
        return unreachable(error)
    return f"Zarr cannot read or write it: {why}"


@contextmanager
def reading_metadata(path: str) -> Iterator[None]:
    """As `zarr_errors`, for metadata, about which zarr's warnings do not concern users."""
    with zarr_errors(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


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
    """Waits for all tasks but this one and others that wait here, and cancels those that retry for long.

    Their exceptions are ignored: the first one is being raised already.
    """
    own = asyncio.current_task()
    own.set_name(WAITER)
    others = [task for task in asyncio.all_tasks() if task is not own and task.get_name() != WAITER]
    if others:
        _, late = await asyncio.wait(others, timeout=TASK_TIMEOUT)
        for task in late:
            task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def limit_concurrency(chunk: int, room: int) -> Iterator[None]:
    """Limits how many chunks of so many bytes zarr decodes at once, by the bytes that there is room for."""
    count = max(1, min(zarr.config.get("async.concurrency"), room // max(chunk, 1)))
    with zarr.config.set({"async.concurrency": count}):
        yield


MAX_NODES = 10_000
MAX_DEPTH = 32  # nested groups


def open_root(path: str, store: Any) -> Any:
    """The root array or group of a store."""
    try:
        return zarr.open(store=store, mode="r")
    except PoolError:
        raise
    except FileNotFoundError:
        raise FileError(f"{path}: holds no Zarr array or group") from None


def stored_file(group: Any, name: str) -> bytes | None:
    """The content of a file in the folder of a group that is no part of Zarr; None if there is none."""
    prototype = zarr.core.buffer.default_buffer_prototype()
    found = zarr.core.sync.sync(group.store.get(f"{group.path}/{name}".strip("/"), prototype))
    return None if found is None else bytes(found.to_bytes())


def is_group(node: Any) -> bool:
    """Whether a node of zarr is a group, not an array."""
    return hasattr(node, "group_keys")


def walk(path: str, root: Any, follow: bool) -> Iterator[tuple[str | None, Any]]:
    """The key of every array and the array, in the order of names; the key of a root array is None.

    Nodes that cannot be read are skipped. Links to folders are followed only if `follow` is true.
    """
    if not is_group(root):
        yield None, root
        return
    waiting, seen = [root], 0
    while waiting and seen < MAX_NODES:
        group, groups = waiting.pop(), []
        for name in _names(path, group, follow):
            seen += 1
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


def _names(path: str, group: Any, follow: bool) -> list[str]:
    """The possible nodes of a group: those in its consolidated metadata, else the folders in it."""
    listed = group.metadata.consolidated_metadata
    if listed is not None:
        return sorted({name.partition("/")[0] for name in listed.metadata})
    place = f"{path.rstrip('/')}/{group.path}".rstrip("/")
    if not is_url(path):
        with os.scandir(place) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=follow))
    system, inside = filesystem(place)
    found = system.ls(inside, detail=True)
    return sorted(entry["name"].rstrip("/").rpartition("/")[2] for entry in found if entry["type"] == "directory")


CODEC_OVERHEAD = 2**16  # bytes that codecs may add before the next one compresses


def limit_chunk_size(where: str, array: Any) -> None:
    """Makes the codecs of an open array refuse data that unpacks to more than a chunk (codecs of shards: than a shard).

    zarr has no public way to do this: methods of its codecs, which belong to this array alone, are replaced. A version
    of zarr without these private names reads without the check (docs/decisions.md).
    """
    size = array.dtype.itemsize
    asynchronous = getattr(array, "async_array", None) or getattr(array, "_async_array", None)
    pipeline = getattr(asynchronous, "codec_pipeline", ())
    chunk, unit = (byte_count(lengths, size) for lengths in (array.chunks, array.shards or array.chunks))
    for codec in pipeline:
        _check_codec(where, codec, unit)
        for inner in getattr(codec, "codecs", ()):
            _check_codec(where, inner, chunk)


def _check_codec(where: str, codec: Any, size: int) -> None:
    """Makes a codec of v3, or compressor and filters of v2, refuse data that unpacks to more than `size` bytes."""
    if hasattr(codec, "compressor"):
        object.__setattr__(codec, "compressor", codec.compressor and _size_checked(where, codec.compressor, size))
        object.__setattr__(codec, "filters", tuple(_size_checked(where, each, size) for each in codec.filters or ()))
        return
    name = codec.to_dict()["name"] if hasattr(codec, "to_dict") else ""
    measure = UNPACKED_SIZES.get(str(name).removeprefix("numcodecs."))
    decode = getattr(codec, "_decode_single", None)
    if measure is None or decode is None:
        return

    async def checked(chunk_bytes: Any, chunk_spec: Any) -> Any:
        _refuse_larger(where, measure, chunk_bytes.to_bytes(), size)
        return await decode(chunk_bytes, chunk_spec)

    object.__setattr__(codec, "_decode_single", checked)


class _SizeChecked:
    """A codec of numcodecs that checks the unpacked size first."""

    def __init__(self, where: str, codec: Any, size: int) -> None:
        self._where, self._codec, self._size = where, codec, size
        self._measure = UNPACKED_SIZES.get(codec.codec_id)

    def decode(self, data: Any, *more: Any) -> Any:
        """The unpacked bytes."""
        if self._measure is not None:
            _refuse_larger(self._where, self._measure, bytes(data), self._size)
        return self._codec.decode(data, *more)


def _size_checked(where: str, codec: Any, size: int) -> _SizeChecked:
    return codec if isinstance(codec, _SizeChecked) else _SizeChecked(where, codec, size)  # of an array opened before


def _refuse_larger(where: str, measure: Callable[[bytes, int], int], data: bytes, size: int) -> None:
    if measure is blosc_size and int.from_bytes(data[12:16], "little") > len(data):
        raise ValueError("the data are cut short")  # Blosc would copy what lies behind them
    if measure(data, 2 * size + CODEC_OVERHEAD) > 2 * size + CODEC_OVERHEAD:
        raise FileError(f"{where}: has a chunk of {human_bytes(size)} that unpacks to more")


def read_region(where: str, array: Any, region: Ranges, chunks: ChunkFiles | None) -> Array:
    """A region of zarr's array, by way of its `chunks` if they are plain; zarr tells what is wrong with them."""
    if chunks is not None:
        with suppress(Exception):  # those of codecs have no common base class
            return chunks.read(region)
    with zarr_errors(where):
        return read_in_batches(region, array.chunks, array.dtype, lambda part: _read_part(where, array, part))


def _read_part(where: str, array: Any, part: Ranges) -> Array:
    """The elements of a region; an error names the chunk or shard that it comes from."""
    try:
        with tasks_joined(Exception):
            found: Array = array[slices(part)]
            return found
    except (PoolError, MemoryError):
        raise
    except Exception:
        unit = array.shards or array.chunks
        for each in batches(part, unit, 1):
            name = array.metadata.encode_chunk_key(tuple(a.start // n for a, n in zip(each, unit, strict=True)))
            with zarr_errors(f"{where}, {name}"), tasks_joined(Exception):
                array[slices(each)]
        raise


MAX_LISTED = 100_000  # files and folders that are counted


def open_store(path: str, options: ReadOptions | None = None) -> Any:
    """The store at a path or URL, for reading with these options or for writing without any."""
    if options is None and not is_url(path):
        return zarr.storage.LocalStore(path)
    need("zarr", why="this needs zarr")
    from poolcli.formats.zarr.stores import FolderStore, open_url

    return open_url(path, options) if options is None or is_url(path) else FolderStore(path, options)


def stored_bytes(path: str, enough: int) -> int:
    """The bytes below a folder or URL; `enough` if there are as many, or more files than are counted."""
    if is_url(path):
        system, inside = filesystem(path)
        found = ((*folders, *files.values()) for _, folders, files in system.walk(inside, detail=True))
        # A folder is given by its name, a file by what is known of it.
        sizes = (0 if isinstance(each, str) else int(each.get("size") or 0) for part in found for each in part)
    else:
        sizes = (status.st_size if status else 0 for status in file_stats(path))
    total, seen = 0, 0
    for size in sizes:
        total, seen = total + size, seen + 1
        if total >= enough or seen >= MAX_LISTED:
            return enough
    return total
