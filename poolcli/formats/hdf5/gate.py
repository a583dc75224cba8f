"""The gate of an HDF5 file, which every read passes: data in other files is refused, unless it is allowed.

HDF5 opens other files for external links, also behind soft ones; for virtual datasets as soon as it is asked for their
shape; for external storage; and for references. So names are followed link by link, a reference counts as a place in
this file, and nothing else is asked of a dataset before it is known where its data lies.

Names are str; bytes that are not UTF-8 are kept as surrogates, as Python does with file names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from poolcli.errors import QUOTES, FileError, error_text
from poolcli.formats.checks import as_file_error
from poolcli.formats.hdf5.chunks import h5py
from poolcli.message_fields import field
from poolcli.system.processes import limit_worker

H5PY_ERRORS = (OSError, RuntimeError, KeyError, TypeError, ValueError)
FREE_MEMORY = 2**28  # bytes that a call may take for whatever it reads
DECODE_COPIES = 4  # of the bytes that it decodes
MAX_GROUPS = 100_000
MAX_SOFT_LINKS = 100  # soft links that are followed
# Older formats with the same suffixes, by their first bytes, and what to do about them.
OTHER_FORMATS = {
    b"CDF": ", but one of classic netCDF; convert it with: nccopy -k nc4 OLD.nc NEW.nc",
    b"MATLAB 5": ", but a MATLAB v5 file, and only v7.3 is supported; save it with: save('NEW.mat', '-v7.3')",
}


def h5py_errors(path: str) -> AbstractContextManager[None]:
    """Turns errors of h5py into a FileError of one line."""
    return as_file_error(path, H5PY_ERRORS, _describe)


def _describe(error: Exception) -> str:
    if isinstance(error, BlockingIOError):
        return "is open in another program; close it there first"
    text = error_text(error).strip(QUOTES)
    if "already open for write" in text:
        return "is marked as open in a program that writes it; close it there or, if that was killed, run h5clear -s"
    return f"HDF5 cannot read or write it: {text}"


@contextmanager
def reading(path: str, size: int = 0) -> Iterator[None]:
    """As `h5py_errors`, with limits for a call that decodes `size` bytes, in workers.

    A damaged file may send HDF5 or a filter into a loop, and a chunk may unpack to far more than its size.
    """
    memory = FREE_MEMORY + DECODE_COPIES * size
    with limit_worker(memory, os.path.getsize(path) + size), h5py_errors(path):
        yield


@contextmanager
def open_root(path: str) -> Iterator[Any]:
    """Opens a file; yields its root group."""
    with open(path, "rb") as stream:  # the system's own message for a missing or forbidden file
        start = stream.read(max(map(len, OTHER_FORMATS)))
    with ExitStack() as stack:
        with reading(path):
            if not h5py.is_hdf5(path):
                remedy = next((remedy for magic, remedy in OTHER_FORMATS.items() if start.startswith(magic)), "")
                raise FileError(f"{path}: is not an HDF5 file{remedy}")
            root = stack.enter_context(h5py.File(path, "r"))["/"].id
        yield root


def decode_name(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def encode_name(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def link_type(group: Any, name: bytes) -> int | None:
    """The type of the link of this name in a group; None if there is none."""
    if not isinstance(group, h5py.h5g.GroupID) or not group.links.exists(name):
        return None
    return int(group.links.get_info(name).type)


def _reversed_parts(path: bytes) -> list[bytes]:
    """The names in a path, the last one first."""
    return [name for name in reversed(path.split(b"/")) if name not in (b"", b".")]


def find_object(root: Any, key: str, where: str, allow_external: bool) -> Any:
    """The object called `key`, None if there is none; refuses a link to another file anywhere on the way."""
    here, hops = root, 0
    waiting = _reversed_parts(encode_name(key))
    while waiting:
        name = waiting.pop()
        link = link_type(here, name)
        if link is None:
            return None
        if link == h5py.h5l.TYPE_HARD or (link == h5py.h5l.TYPE_EXTERNAL and allow_external):
            here = h5py.h5o.open(here, name)
        elif link == h5py.h5l.TYPE_SOFT:
            hops += 1
            if hops > MAX_SOFT_LINKS:
                raise FileError(f"{where}: is a circular link")
            target = here.links.get_val(name)
            here = h5py.h5o.open(here, b"/") if target.startswith(b"/") else here
            waiting += _reversed_parts(target)
        elif link == h5py.h5l.TYPE_EXTERNAL:
            other = decode_name(here.links.get_val(name)[0])
            raise FileError(f"{where}: is a link to the file {other}; {field('allow_external')} follows it")
        else:
            raise FileError(f"{where}: is a link of a kind that poolcli does not know")
    return here


def parent_groups(root: Any, key: str) -> Iterator[tuple[str, Any]]:
    """The root and the groups above `key`, by name, as far as hard links lead."""
    here, path = root, "/"
    waiting = _reversed_parts(encode_name(key))
    yield path, here
    while len(waiting) > 1 and link_type(here, waiting[-1]) == h5py.h5l.TYPE_HARD:
        name = waiting.pop()
        here, path = h5py.h5o.open(here, name), f"{path}{decode_name(name)}/"
        yield path, here


def walk(root: Any) -> Iterator[tuple[str, Any]]:
    """The name of every dataset and the dataset, in the order of names; None for links that are not hard.

    Each group is visited once.
    """
    waiting, seen = [("/", root)], set[int]()
    while waiting:
        prefix, group = waiting.pop()
        address = h5py.h5o.get_info(group).addr
        if address in seen or len(seen) > MAX_GROUPS:
            continue
        seen.add(address)
        groups = []
        for name in sorted(group):
            path = f"{prefix}{decode_name(name)}"
            child = h5py.h5o.open(group, name) if link_type(group, name) == h5py.h5l.TYPE_HARD else None
            if isinstance(child, h5py.h5g.GroupID):
                groups.append((f"{path}/", child))
            elif child is None or isinstance(child, h5py.h5d.DatasetID):
                yield path, child
        waiting.extend(reversed(groups))


def read_attributes(found: Any, names: Iterable[str] = ()) -> dict[str, Any]:
    """The attributes of an object, or those of `names`.

    None stands for those that cannot be read, or not within the memory of `reading`: a file can store one string for
    all elements of an attribute.
    """
    values = dict[str, Any]()
    for name in [name for name in names if name in found.attrs] or ([] if names else found.attrs):
        try:
            values[name] = found.attrs[name]
        except (*H5PY_ERRORS, MemoryError):
            values[name] = None
    return values
