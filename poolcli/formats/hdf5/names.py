"""Names in an HDF5 file, followed link by link, so that none leads into another file unseen.

Names are text here and in messages; bytes that are not UTF-8 are kept as Python keeps those of file names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from poolcli.errors import QUOTES, FileError, said_by
from poolcli.formats.checks import one_line
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Lazy
from poolcli.system.limits import limit_cpu_time

h5py: Any = Lazy("h5py")

KNOWN = (OSError, RuntimeError, KeyError, TypeError, ValueError)


def translated(path: str) -> AbstractContextManager[None]:
    """Whatever h5py raises becomes one line."""
    return one_line(path, lambda error: isinstance(error, KNOWN), _said)


@contextmanager
def reading(path: str, size: int = 0) -> Iterator[None]:
    """As `translated`, while h5py reads `size` bytes of data out of a file, which may lead it round in a circle."""
    with limit_cpu_time(os.path.getsize(path) + size), translated(path):
        yield


def _said(error: Exception) -> str:
    if isinstance(error, BlockingIOError):
        return "is open in another program; close it there first"
    return f"HDF5 cannot read or write it: {said_by(error).strip(QUOTES)}"


MOST_GROUPS = 100_000
MOST_HOPS = 100  # from soft link to soft link


def text_of(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def bytes_of(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def find(root: Any, key: str, where: str, allow_external: bool) -> Any:
    """The object called `key`, None where there is none; refuses a link to another file anywhere on the way."""
    here, hops = root, 0
    waiting = _steps(bytes_of(key))
    while waiting:
        name = waiting.pop()
        link = _link(here, name)
        if link is None:
            return None
        if link == h5py.h5l.TYPE_HARD:
            here = h5py.h5o.open(here, name)
        elif link == h5py.h5l.TYPE_SOFT:
            hops += 1
            if hops > MOST_HOPS:
                raise FileError(f"{where}: is a link that leads in circles")
            target = here.links.get_val(name)
            here = h5py.h5o.open(here, b"/") if target.startswith(b"/") else here
            waiting += _steps(target)
        elif link == h5py.h5l.TYPE_EXTERNAL and allow_external:
            here = h5py.h5o.open(here, name)
        elif link == h5py.h5l.TYPE_EXTERNAL:
            other = text_of(here.links.get_val(name)[0])
            raise FileError(f"{where}: is a link to the file {other}; {field('allow_external')} follows it")
        else:
            raise FileError(f"{where}: is a link of a kind that poolcli does not know")
    return here


def above(root: Any, key: str) -> Iterator[tuple[str, Any]]:
    """The root and the groups on the way to `key`, by name, as far as hard links lead."""
    here, path = root, "/"
    waiting = _steps(bytes_of(key))
    yield path, here
    while len(waiting) > 1 and _link(here, waiting[-1]) == h5py.h5l.TYPE_HARD:
        name = waiting.pop()
        here, path = h5py.h5o.open(here, name), f"{path}{text_of(name)}/"
        yield path, here


def walk(root: Any) -> Iterator[tuple[str, Any]]:
    """The name of every dataset and the dataset, in the order of names, along hard links, each group once; of every
    other link the name and None.
    """
    waiting = [("/", root)]
    seen: set[int] = set()
    while waiting:
        prefix, group = waiting.pop()
        address = h5py.h5o.get_info(group).addr
        if address in seen or len(seen) > MOST_GROUPS:
            continue
        seen.add(address)
        groups = []
        for name in sorted(group):
            if _link(group, name) != h5py.h5l.TYPE_HARD:
                yield f"{prefix}{text_of(name)}", None
                continue
            child = h5py.h5o.open(group, name)
            if isinstance(child, h5py.h5g.GroupID):
                groups.append((f"{prefix}{text_of(name)}/", child))
            elif isinstance(child, h5py.h5d.DatasetID):
                yield f"{prefix}{text_of(name)}", child
        waiting.extend(reversed(groups))


def _link(group: Any, name: bytes) -> int | None:
    """The kind of the link of this name; None where there is none."""
    if not isinstance(group, h5py.h5g.GroupID):
        return None
    return int(group.links.get_info(name).type) if group.links.exists(name) else None


def _steps(path: bytes) -> list[bytes]:
    """The names of a path, the last one first."""
    return [name for name in reversed(path.split(b"/")) if name not in (b"", b".")]
