"""Where a path leads: into this machine's file systems, or, as a URL, to an object store that fsspec reaches."""

from __future__ import annotations

import os
import re
from typing import Any

from poolcli.errors import QUOTES, FileError, RequestError, said_by
from poolcli.system.lazy_imports import need

_SECRET = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*@|\?.*=.*")  # a password, or a query such as that of a signed URL
S3_TRIES = 2  # of s3fs, each of as many as botocore makes: by AWS_MAX_ATTEMPTS, or five, of seconds
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:://|::)")


def is_url(path: str | None) -> bool:
    """Whether a path is a URL, such as `s3://bucket/x.zarr`.

    >>> is_url("s3://bucket/x.zarr"), is_url("x.zarr:/0"), is_url("C:x.npy")
    (True, False, False)
    """
    return path is not None and _URL.match(path) is not None


def shown(path: str) -> str:
    """A path as it may be shown: a URL without what may be a secret."""
    return _SECRET.sub("...", path) if is_url(path) else path


def check_url(path: str) -> None:
    """Refuses a URL that holds a secret: reports, lists and messages name files as they were named."""
    if is_url(path) and _SECRET.search(path):
        raise RequestError(
            f"{shown(path)}: what may be a secret must not stand in a URL, which reports and logs show; "
            "leave it to the environment and files in which the store's own tools look for it"
        )


def check_apart(source: str, output: str) -> None:
    """Refuses an output that is the input, lies in a store which is, or is a folder that the input lies in: to replace
    that would be to remove what is read.
    """
    first, second = (os.path.join(path if is_url(path) else os.path.realpath(path), "") for path in (source, output))
    if first == second:
        raise RequestError(f"output {output} is the input {source}; name another file or folder")
    if first.startswith(second):
        raise RequestError(f"output {output} holds the input {source}; name another file or folder")
    if second.startswith(first):
        raise RequestError(f"output {output} lies in the input {source}; name another file or folder")


def exists(path: str) -> bool:
    """Whether there is anything, a link to nothing included."""
    if not is_url(path):
        return os.path.lexists(path)
    system, place = filesystem(path)
    try:
        return bool(system.exists(place))
    except MemoryError:
        raise
    except Exception as error:  # every store raises kinds of its own
        raise unreachable(path, error) from error


def filesystem(url: str) -> tuple[Any, str]:
    """fsspec's file system of a URL, and the path there. Credentials are those of the environment, as each system
    looks for them.
    """
    check_url(url)
    (core,) = need("fsspec.core", why=f"{url}: reading URLs needs fsspec")
    try:
        system, place = core.url_to_fs(url)
    except ImportError as error:
        raise RequestError(f"{url}: {str(error).splitlines()[0]}") from error
    except (ValueError, TypeError) as error:
        raise RequestError(f"{url}: is no URL that can be read: {str(error).splitlines()[0]}") from error
    return patient(system), str(place)


def patient(system: Any) -> Any:
    """The same file system, which gives up within a minute on a store that asks for fewer requests for good: s3fs
    repeats five times what botocore has repeated by then.
    """
    if "s3" in system.protocol:
        system.retries = S3_TRIES
    return system


def unreachable(path: str, error: BaseException) -> FileError:
    """The one line for whatever an object store raised."""
    return FileError(f"{path}: cannot be reached: {said_by(error).strip(QUOTES)}")
