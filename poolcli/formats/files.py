"""Paths and URLs, and whether what they name has changed: fingerprints of inputs, checksums of outputs."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

from poolcli.errors import QUOTES, FileError, RequestError, error_text
from poolcli.formats.table import FORMATS
from poolcli.system.lazy_imports import need

_SECRET = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*@|\?.*=.*")  # a password, or a query as in signed URLs
HTTP_WAITS = (0.5, 1, 2, 4, 8)  # seconds before a request to a web server is repeated
TRIES = len(HTTP_WAITS) + 1  # of each request; botocore waits about as long between them
SILENCE = 15.0  # seconds without a byte that end a try, as in s3fs
PATIENCE = 60.0  # seconds in which requests are repeated whose answers break off
BROKEN_OFF = ("ClientPayloadError", "IncompleteReadError", "ResponseStreamingError")  # of aiohttp and botocore
BUSY = (429, 500, 502, 503, 504)  # what it answers if it may answer later
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:://|::)")


@contextmanager
def regular_file(path: str) -> Iterator[BinaryIO]:
    """Opens a file; refuses devices, pipes and folders without waiting for them."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise FileError(f"{path}: is not a regular file")
        yield stream


def is_url(path: str | None) -> bool:
    """Whether a path is a URL, such as `s3://bucket/x.zarr`.

    >>> is_url("s3://bucket/x.zarr"), is_url("x.zarr:/0"), is_url("C:x.npy")
    (True, False, False)
    """
    return path is not None and _URL.match(path) is not None


def shown(path: str) -> str:
    """A path for messages: a URL without possible secrets."""
    return _SECRET.sub("...", path) if is_url(path) else path


def check_url(path: str) -> None:
    """Refuses a URL that contains a secret, because reports, lists and messages repeat it."""
    if is_url(path) and _SECRET.search(path):
        raise RequestError(
            f"{shown(path)}: a URL must not contain secrets, because reports and logs show it; "
            "put them where the store's own tools look for credentials"
        )


def check_apart(source: str, output: str) -> None:
    """Refuses an output that is the input, lies in it, or contains it: to replace it would remove what is read."""
    first, second = (os.path.join(path if is_url(path) else os.path.realpath(path), "") for path in (source, output))
    if first == second:
        raise RequestError(f"output {output} is the input {source}; name another file or folder")
    if first.startswith(second):
        raise RequestError(f"output {output} holds the input {source}; name another file or folder")
    if second.startswith(first):
        raise RequestError(f"output {output} lies in the input {source}; name another file or folder")


def exists(path: str) -> bool:
    """Whether there is anything at a path or URL, also a broken link."""
    if not is_url(path):
        return os.path.lexists(path)
    system, place = filesystem(path)
    try:
        return bool(system.exists(place))
    except MemoryError:
        raise
    except Exception as error:  # every store raises types of its own
        raise FileError(f"{path}: {not_reached(error)}") from error


def filesystem(url: str) -> tuple[Any, str]:
    """fsspec's file system of a URL, and the path in it. Credentials come from the environment."""
    check_url(url)
    (core,) = need("fsspec.core", why=f"{url}: reading URLs needs fsspec")
    try:
        system, place = core.url_to_fs(url)
    except ImportError as error:
        raise RequestError(f"{url}: {str(error).splitlines()[0]}") from error
    except (ValueError, TypeError) as error:
        raise RequestError(f"{url}: is not a URL that can be read: {str(error).splitlines()[0]}") from error
    return patient(system), str(place)


def patient(system: Any) -> Any:
    """The same file system, which repeats a request for some seconds if a store is too busy or breaks off, and gives up
    within two minutes if there is no answer.

    By default s3fs repeats what botocore has repeated already, reads even thrice over, so that 20 minutes pass without
    an answer; and it asks for the size of an object before, to read parts of more than 50 MB at once. Requests to a web
    server are not repeated at all by default.
    """
    if "s3" in system.protocol:
        system.retries = system.max_concurrency = 1
        asked = {} if "AWS_MAX_ATTEMPTS" in os.environ else {"total_max_attempts": TRIES}
        retries = {"mode": os.environ.get("AWS_RETRY_MODE", "standard"), **asked}
        system.config_kwargs = {"retries": retries, **system.config_kwargs}  # when it connects
    if "https" in system.protocol and "timeout" not in system.client_kwargs:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=SILENCE, sock_read=SILENCE)
        more = {"middlewares": (repeated,)} if hasattr(aiohttp, "ClientMiddlewareType") else {}  # from 3.12 on
        system.client_kwargs = {"timeout": timeout, **more, **system.client_kwargs}  # of the session to come
    return system


async def unbroken(read: Callable[..., Awaitable[Any]], *asked: Any) -> Any:
    """What a store answers; if an answer breaks off, or goes silent, that of a later request."""
    import asyncio

    begun = time.monotonic()
    for wait in HTTP_WAITS:
        try:
            return await read(*asked)
        except Exception as error:
            if not isinstance(error, TimeoutError) and type(error).__name__ not in BROKEN_OFF:
                raise
            if time.monotonic() - begun > PATIENCE:
                raise
        await asyncio.sleep(wait)
    return await read(*asked)


def content_of(system: Any, place: str) -> bytes:
    """The content of an object."""
    if not getattr(system, "async_impl", False):
        return bytes(system.cat_file(place))
    (asyn,) = need("fsspec.asyn", why=f"{place}: reading URLs needs fsspec")
    return bytes(asyn.sync(system.loop, unbroken, system._cat_file, place))


async def repeated(request: Any, answer: Callable[[Any], Awaitable[Any]]) -> Any:
    """The answer of a web server to a request that reads; if it is too busy or breaks off, to later ones."""
    import asyncio

    import aiohttp

    for wait in HTTP_WAITS if request.method in ("GET", "HEAD") else ():
        try:
            response = await answer(request)
        except aiohttp.ClientConnectorError:  # there is no such server
            raise
        except aiohttp.ClientConnectionError:
            pass
        else:
            if response.status not in BUSY:
                return response
            response.release()
        await asyncio.sleep(wait)
    return await answer(request)


def not_reached(error: Exception) -> str:
    """What a message says of whatever an object store raised."""
    return f"cannot be reached: {error_text(error).strip(QUOTES)}"


BLOCK = 2**18  # bytes of one read


class Fingerprint(NamedTuple):
    """Size, time and inode of a file; of a folder, the sum of sizes and the newest time of all files in it."""

    size: int
    mtime_ns: int
    inode: int


def fingerprint_of(path: str) -> Fingerprint:
    """The fingerprint of a file, folder or URL; a constant for standard input. Raises an OSError if it is missing."""
    if path == "-":
        return Fingerprint(0, 0, 0)
    if is_url(path):
        return _fingerprint_of_url(path)
    whole = os.stat(path)
    if not os.path.isdir(path):
        return Fingerprint(whole.st_size, whole.st_mtime_ns, whole.st_ino)
    size, newest = 0, whole.st_mtime_ns
    for status in filter(None, states_in(path)):
        size, newest = size + status.st_size, max(newest, status.st_mtime_ns)
    return Fingerprint(size, newest, whole.st_ino)


def check_unchanged(path: str, before: Fingerprint) -> None:
    """Refuses an input whose fingerprint is no longer `before`."""
    try:
        changed = fingerprint_of(path) != before
    except OSError:
        changed = True
    if changed:
        raise FileError(f"{path}: changed while it was being read; run again when nothing writes to it")


def _fingerprint_of_url(path: str) -> Fingerprint:
    """The fingerprint of the metadata of a Zarr store at a URL; its chunks are too many."""
    system, place = filesystem(path)
    found = []
    for name in (name for row in FORMATS.values() if row.remote for name in row.markers):
        with suppress(FileNotFoundError):
            about = system.info(f"{place}/{name}")
            found.append((name, about.get("size"), *(str(about.get(key)) for key in ("ETag", "mtime", "LastModified"))))
    if not found:
        raise FileNotFoundError(path)
    return Fingerprint(sum(entry[1] or 0 for entry in found), int(sha256(repr(found).encode()).hexdigest()[:15], 16), 0)


def checksum_of(path: str) -> str:
    """The size and CRC-32 of a file; of a folder, those of the names and checksums of its files.

    It detects damage, not attacks: SHA-256 took a quarter of the time of halving a TIFF on processors without
    instructions for it.
    """
    if os.path.isdir(path):
        lines = (f"{os.path.relpath(name, path)}\0{checksum_of(name)}\n" for name in _files_in(path))
        return _checksum(line.encode("utf-8", "surrogateescape") for line in lines)
    with open(path, "rb", buffering=0) as stream:
        block = memoryview(bytearray(BLOCK))
        return _checksum(block[:count] for count in iter(partial(stream.readinto, block), 0))


def _checksum(parts: Iterable[bytes | memoryview]) -> str:
    size = found = 0
    for part in parts:
        size, found = size + len(part), crc32(part, found)
    return f"{size}-{found:08x}"


def states_in(path: str) -> Iterator[os.stat_result | None]:
    """The status of all files below a folder, and None for each folder, one by one: a store may have millions."""
    folders = [path]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                folders += [entry.path] if is_folder else []
                yield None if is_folder else entry.stat()


def _files_in(path: str) -> Iterator[str]:
    for folder, folders, names in os.walk(path):
        folders.sort()
        yield from (os.path.join(folder, name) for name in sorted(names))
