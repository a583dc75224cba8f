"""Paths, URLs and names: file systems of URLs, fingerprints, and names that become paths."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from errno import ENOENT
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple
from zlib import crc32

from poolcli.errors import QUOTES, FileError, PoolError, RequestError, error_text
from poolcli.formats.checks import as_file_error
from poolcli.formats.table import FORMATS, Naming, format_by_suffix, output_format
from poolcli.message_fields import field
from poolcli.suggestions import not_found
from poolcli.system.lazy_imports import need

_SECRET = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*@|\?.*=.*")  # a password, or a query string as in signed URLs
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:://|::)")
MAX_NAME, MAX_COMPONENT = 1024, 255  # bytes of a key in S3, and of a file name on common file systems
_WINDOWS_ABSOLUTE = re.compile(r"[A-Za-z]:[/\\]|\\")  # how a path begins that another system takes for an absolute one


@lru_cache
def is_url(path: str | None) -> bool:
    """Whether a path is a URL, such as `s3://bucket/x.zarr`, and none such as `x.zarr:/0` or `C:x.npy`."""
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
    top, _, inside = path.partition("/")
    if inside and top[:1] in ("~", "$") and not os.path.lexists(top):
        raise RequestError(f"{path}: has no folder {top}{not_found(path)}")
    if not is_url(path):
        return
    check_url(path)
    scheme, _, place = path.partition("://")
    if scheme.lower() in ("file", "local"):
        raise RequestError(f"{path}: is a path on this machine; write {place}")
    row = format_by_suffix(path)
    if row is None or not row.remote:
        raise RequestError(f"{path}: only Zarr stores are written at URLs; name one, or write files and copy them")


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
    with as_file_error(path, (Exception,), unreachable):  # fsspec's file systems have no common exception class
        return bool(system.exists(place))


def filesystem(url: str) -> tuple[Any, str]:
    """fsspec's file system for a URL, and the path in it. Credentials come from the environment."""
    check_url(url)
    (core,) = need("fsspec.core", why=f"{url}: URLs need a package that is not installed")
    try:
        system, place = core.url_to_fs(url)
    except (ImportError, ValueError, TypeError) as error:
        raise RequestError(f"{url}: cannot be read: {str(error).splitlines()[0]}{not_found(url)}") from error
    return with_retries(system), str(place)


def with_retries(system: Any) -> Any:
    """An fsspec file system; of S3, one that fails within minutes if there is no answer."""
    if "s3" in system.protocol:  # s3fs repeats five times what botocore has repeated, and asks for sizes first
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
    for folder, _, names in os.walk(path):
        for status in (os.stat(os.path.join(folder, name)) for name in names):
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
    found = []
    for name in (name for row in FORMATS.values() if row.remote for name in row.markers):
        why = as_file_error(path, (Exception,), lambda error: unreachable(error.__cause__ or error))
        with why, suppress(FileNotFoundError):
            about = system.info(f"{place}/{name}")
            found.append((name, *(str(about.get(key)) for key in ("size", "ETag", "mtime", "LastModified"))))
    if not found:
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), path)
    return Fingerprint(0, crc32(repr(found).encode()), 0)


def state_of(path: str) -> str:
    """The size and modification time of a file or folder, for the manifest."""
    return "{}-{}".format(*fingerprint_of(path))


# Names from files, manifests and templates are validated before they become paths or names of arrays in outputs: one
# such as `../../x` in an input must not lead to a write outside the output (path traversal, CWE-22).


def relative_path(name: str) -> str:
    """The path without slashes around it, if it stays in the folder that it is joined to; otherwise a ValueError."""
    parts = name.strip("/").split("/")
    if "\0" in name:
        raise ValueError("it holds a NUL character")
    if re.search("[\ud800-\udc7f\udd00-\udfff]", name):  # U+DC80..U+DCFF stand for bytes (PEP 383)
        raise ValueError("it is not valid UTF-8")
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
            quoted = ascii(key) if len(str(key)) <= MAX_COMPONENT else f"{str(key)[:MAX_COMPONENT]!a}..."
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
    if _WINDOWS_ABSOLUTE.match(name) or ".." in re.split(r"[/\\]", name):
        raise ValueError("other systems read it as a path out of the folder")
    if not naming.any_bytes and re.search("[\udc80-\udcff]", name):
        raise ValueError("it is not valid UTF-8")
    parts = name.split("/")
    if len(os.fsencode(name)) > MAX_NAME or max(len(os.fsencode(part)) for part in parts) > MAX_COMPONENT:
        raise ValueError(f"at most {MAX_NAME:,} bytes are possible, and {MAX_COMPONENT} between slashes")
    for part in parts:
        if part in naming.reserved:
            raise ValueError(f"the format reserves the name {part}")
    return name
