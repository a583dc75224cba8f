"""Paths, URLs and names: file systems of URLs, fingerprints and checksums, and names that become paths."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import ENOENT
from functools import lru_cache
from itertools import accumulate
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

from poolcli.errors import QUOTES, FileError, PoolError, RequestError, error_text
from poolcli.formats.table import FORMATS, Naming, format_by_suffix, output_format
from poolcli.message_fields import field
from poolcli.system.lazy_imports import need

_SECRET = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*@|\?.*=.*")  # a password, or a query string as in signed URLs
# What fsspec imports for a URL, by its scheme.
FILESYSTEMS = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "http": "aiohttp", "https": "aiohttp"}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:://|::)")
BLOCK = 2**18  # bytes of one read
MAX_COMPONENT = 255  # bytes of a file name on common file systems
MAX_NAME = 1024  # bytes of a key in S3
_WINDOWS_ABSOLUTE = re.compile(r"[A-Za-z]:[/\\]|\\")  # how a path begins that another system takes for an absolute one


@contextmanager
def regular_file(path: str) -> Iterator[BinaryIO]:
    """Opens a regular file for reading; refuses devices, pipes and folders without blocking."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            piped = "; a .npy stream on standard input is given as -" if path.startswith("/dev/") else ""
            raise FileError(f"{path}: is not a regular file{piped}")
        yield stream


@lru_cache
def is_url(path: str | None) -> bool:
    """Whether a path is a URL, such as `s3://bucket/x.zarr`.

    >>> is_url("s3://bucket/x.zarr"), is_url("x.zarr:/0"), is_url("C:x.npy")
    (True, False, False)
    """
    return path is not None and _URL.match(path) is not None


def redacted(path: str) -> str:
    """A path for messages: a URL without credentials and query."""
    return _SECRET.sub("...", path) if is_url(path) else path


def check_url(path: str) -> None:
    """Refuses a URL that contains a secret, because reports and messages repeat it."""
    if is_url(path) and _SECRET.search(path):
        raise RequestError(
            f"{redacted(path)}: a URL must not contain secrets, because reports and logs show it; "
            "put them where the store's own tools look for credentials"
        )


def check_output_url(path: str) -> None:
    """Refuses a URL at which no output is written: Zarr alone is, and not through the URL of a local path."""
    if not is_url(path):
        return
    check_url(path)
    scheme, _, place = path.partition("://")
    if scheme.lower() in ("file", "local"):
        raise RequestError(f"{path}: is a path on this machine; write {place}")
    row = format_by_suffix(path)
    if row is None or not row.remote:
        raise RequestError(
            f"{path}: only Zarr stores are written at URLs; name one, give {field('format', 'zarr')} for a folder, "
            "or write files and copy them"
        )


def check_distinct(source: str, output: str) -> None:
    """Refuses an output that is the input, lies in it, or contains it: replacing it would remove the input."""
    first, second = (os.path.join(path if is_url(path) else os.path.realpath(path), "") for path in (source, output))
    if first.startswith(second) or second.startswith(first):
        relation = "is" if first == second else "holds" if first.startswith(second) else "lies in"
        raise RequestError(f"output {output} {relation} the input {source}; name another file or folder")


def exists(path: str) -> bool:
    """Whether a path or URL exists; a broken link does."""
    if not is_url(path):
        return os.path.lexists(path)
    system, place = filesystem(path)
    try:
        return bool(system.exists(place))
    except MemoryError:
        raise
    except Exception as error:  # fsspec's file systems have no common exception class
        raise FileError(f"{path}: {unreachable(error)}") from error


def filesystem(url: str) -> tuple[Any, str]:
    """fsspec's file system for a URL, and the path in it. Credentials come from the environment."""
    check_url(url)
    scheme = url.partition("://")[0]
    packages = [FILESYSTEMS[scheme]] if scheme in FILESYSTEMS else []
    core, *_ = need("fsspec.core", *packages, why=f"{url}: {scheme}:// needs packages that are not installed")
    try:
        system, place = core.url_to_fs(url)
    except ImportError as error:
        raise RequestError(f"{url}: {str(error).splitlines()[0]}") from error
    except (ValueError, TypeError) as error:
        raise RequestError(f"{url}: is not a URL that can be read: {str(error).splitlines()[0]}") from error
    return with_retries(system), str(place)


def with_retries(system: Any) -> Any:
    """An fsspec file system; of S3, one that fails within minutes if there is no answer.

    By default s3fs repeats five times what botocore has repeated, and requests the size of each object before it reads.
    """
    if "s3" in system.protocol:
        system.retries, system.max_concurrency = 2, 1
    return system


def unreachable(error: BaseException) -> str:
    """The message for an exception of an object store."""
    return f"cannot be reached: {error_text(error).strip(QUOTES)}"


class Fingerprint(NamedTuple):
    """Size, modification time and inode; for a folder, the total size and the newest time of its files."""

    size: int
    mtime_ns: int
    inode: int


def fingerprint_of(path: str) -> Fingerprint:
    """The fingerprint of a file, folder or URL; zeros for standard input. Raises an OSError if it is missing."""
    if path == "-":
        return Fingerprint(0, 0, 0)
    if is_url(path):
        return _fingerprint_of_url(path)
    whole = os.stat(path)
    if not os.path.isdir(path):
        return Fingerprint(whole.st_size, whole.st_mtime_ns, whole.st_ino)
    size, newest = 0, whole.st_mtime_ns
    for status in map(os.stat, _files_in(path)):
        size, newest = size + status.st_size, max(newest, status.st_mtime_ns)
    return Fingerprint(size, newest, whole.st_ino)


def check_unchanged(path: str, before: Fingerprint) -> None:
    """Raises a FileError if the fingerprint of an input is no longer `before`."""
    try:
        changed = fingerprint_of(path) != before
    except FileError:  # an object store that cannot be reached
        raise
    except OSError:
        changed = True
    if changed:
        raise FileError(f"{path}: changed while it was being read; run again when nothing writes to it")


def _fingerprint_of_url(path: str) -> Fingerprint:
    """The fingerprint of the root metadata of a Zarr store at a URL: listing all chunks would take too long."""
    system, place = filesystem(path)
    found, size = [], 0
    for name in (name for row in FORMATS.values() if row.remote for name in row.markers):
        try:
            about = system.info(f"{place}/{name}")
        except FileNotFoundError:
            continue
        except MemoryError:
            raise
        except Exception as error:  # every store raises types of its own
            raise FileError(f"{path}: {unreachable(error.__cause__ or error)}") from error
        size += about.get("size") or 0
        found.append((name, size, *(str(about.get(key)) for key in ("ETag", "mtime", "LastModified"))))
    if not found:
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), path)
    from hashlib import sha256

    return Fingerprint(size, int(sha256(repr(found).encode()).hexdigest()[:15], 16), 0)


def checksum_of(path: str) -> str:
    """The size and CRC-32 of a file, or of the names and checksums of the files in a folder.

    It detects damage, not attacks. SHA-256 took a quarter of the time of halving a TIFF on processors without SHA
    instructions.
    """
    size = found = 0
    if os.path.isdir(path):
        for name in _files_in(path):
            line = os.fsencode(f"{os.path.relpath(name, path)}\0{checksum_of(name)}\n")
            size, found = size + len(line), crc32(line, found)
        return f"{size}-{found:08x}"
    with open(path, "rb", buffering=0) as stream:
        while block := stream.read(BLOCK):
            size, found = size + len(block), crc32(block, found)
    return f"{size}-{found:08x}"


def _files_in(path: str) -> Iterator[str]:
    for folder, folders, names in os.walk(path):
        folders.sort()
        yield from (os.path.join(folder, name) for name in sorted(names))


# Names from files, manifests and templates are validated before they become paths or names of arrays in outputs: one
# such as `../../x` in an input must not lead to a write outside the output (path traversal, CWE-22).


def relative_path(name: str) -> str:
    """The path without slashes around it, if it stays in the folder that it is joined to; otherwise a ValueError.

    >>> relative_path("/a/b")
    'a/b'
    >>> relative_path("a/../../b")
    Traceback (most recent call last):
        ...
    ValueError: it has the path component '..'
    """
    parts = name.strip("/").split("/")
    if "\0" in name:
        raise ValueError("it holds a NUL character")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # a lone surrogate outside U+DC80..U+DCFF, which stand for bytes (PEP 383)
        raise ValueError("it is not valid UTF-8") from None
    for part in parts:
        if part in ("", ".", ".."):
            raise ValueError(f"it has the path component {part!r}" if part else "it has an empty path component")
    return "/".join(parts)


def array_names(path: str, keys: Sequence[str | None], error: type[PoolError] = FileError) -> list[str]:
    """The validated names of arrays with these keys in the output at `path`; None stands for the default name.

    Raises `error` for a key that is not a valid name there, and a RequestError if two arrays would have the same name.
    """
    row = output_format(path)
    if not row.is_container:
        return ["" for _ in keys]
    names = list[str]()
    for key in keys:
        try:
            names.append(_checked(key, row.naming) if key else row.naming.default)
        except ValueError as reason:
            remedy = f"name it yourself: {field('output', f'{path}:/NAME')}"
            quoted = ascii(key) if len(key or "") <= MAX_COMPONENT else f"{str(key)[:MAX_COMPONENT]!a}..."
            raise error(f"{path}: cannot hold an array called {quoted}: {reason}; {remedy}") from None
    seen = set(names)
    if len(seen) < len(names):
        doubled = next(name for name in names if names.count(name) > 1)
        raise RequestError(f"{path}: two arrays would both be called {doubled}; name the arrays, one file for each")
    for name in names if row.naming.nested else ():
        groups = {"", *accumulate(name.split("/")[:-1], "{}/{}".format)} if name else set()
        if groups & seen:
            outer = min(groups & seen, key=len) or "the whole file"
            raise RequestError(f"{path}: {outer} would be both an array and the group of {name}; pool one of them")
    return names


def _checked(key: str, naming: Naming) -> str:
    """The name of an array; a ValueError if the format does not allow it, or other systems could not extract it."""
    name = relative_path(key)
    parts = name.split("/")
    if _WINDOWS_ABSOLUTE.match(name) or ".." in re.split(r"[/\\]", name):
        raise ValueError("other systems read it as a path out of the folder")
    try:
        encoded = name.encode("utf-8", "surrogateescape" if naming.any_bytes else "strict")
    except UnicodeEncodeError:
        raise ValueError("it is not valid UTF-8") from None
    if len(encoded) > MAX_NAME:
        raise ValueError(f"it has {len(encoded):,} bytes, at most {MAX_NAME:,} are possible")
    longest = max(len(part.encode("utf-8", "surrogateescape")) for part in parts)
    if longest > MAX_COMPONENT:
        raise ValueError(f"it has a path component of {longest} bytes, at most {MAX_COMPONENT} are possible")
    reserved = next((part for part in parts if part in naming.reserved), None)
    if reserved is not None:
        raise ValueError(f"the format reserves the name {reserved}")
    return name
