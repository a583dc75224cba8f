"""The gate of an HDF5 file, which every read passes: data in other files is refused, unless it is allowed.

HDF5 opens other files for external links, also behind soft ones; for virtual datasets as soon as it is asked for their
shape; for external storage; and for references. So names are followed link by link, a reference counts as a place in
this file, and nothing else is asked of a dataset before it is known where its data lies.

Names are str; bytes that are not UTF-8 are kept as surrogates, as Python does with file names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from poolcli.errors import QUOTES, FileError, RequestError, error_text
from poolcli.formats.checks import SMALL_FILE, as_file_error, join_names, memory_limit_of
from poolcli.formats.hdf5.chunks import h5py
from poolcli.formats.records import ReadOptions
from poolcli.message_fields import field
from poolcli.system.lazy_imports import need
from poolcli.system.limits import limit_cpu_time

H5PY_ERRORS = (OSError, RuntimeError, KeyError, TypeError, ValueError)


def h5py_errors(path: str) -> AbstractContextManager[None]:
    """Turns errors of h5py into a FileError of one line."""
    return as_file_error(path, H5PY_ERRORS, _describe)


@contextmanager
def reading(path: str, size: int = 0) -> Iterator[None]:
    """As `h5py_errors`, with a CPU limit while h5py reads `size` bytes: a damaged file may send it into a loop."""
    with limit_cpu_time(os.path.getsize(path) + size), h5py_errors(path):
        yield


def _describe(error: Exception) -> str:
    if isinstance(error, BlockingIOError):
        return "is open in another program; close it there first"
    text = error_text(error).strip(QUOTES)
    if "already open for write" in text:
        return "is marked as open in a program that writes it; close it there or, if that was killed, run h5clear -s"
    return f"HDF5 cannot read or write it: {text}"


MAX_GROUPS = 100_000
MAX_SOFT_LINKS = 100  # soft links that are followed


def decode_name(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def encode_name(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def find_object(root: Any, key: str, where: str, allow_external: bool) -> Any:
    """The object called `key`, None if there is none; refuses a link to another file anywhere on the way."""
    here, hops = root, 0
    waiting = _reversed_parts(encode_name(key))
    while waiting:
        name = waiting.pop()
        link = _link(here, name)
        if link is None:
            return None
        if link == h5py.h5l.TYPE_HARD:
            here = h5py.h5o.open(here, name)
        elif link == h5py.h5l.TYPE_SOFT:
            hops += 1
            if hops > MAX_SOFT_LINKS:
                raise FileError(f"{where}: is a circular link")
            target = here.links.get_val(name)
            here = h5py.h5o.open(here, b"/") if target.startswith(b"/") else here
            waiting += _reversed_parts(target)
        elif link == h5py.h5l.TYPE_EXTERNAL and allow_external:
            here = h5py.h5o.open(here, name)
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
    while len(waiting) > 1 and _link(here, waiting[-1]) == h5py.h5l.TYPE_HARD:
        name = waiting.pop()
        here, path = h5py.h5o.open(here, name), f"{path}{decode_name(name)}/"
        yield path, here


def walk(root: Any) -> Iterator[tuple[str, Any]]:
    """The name of every dataset and the dataset, in the order of names; None for links that are not hard.

    Each group is visited once.
    """
    waiting = [("/", root)]
    seen: set[int] = set()
    while waiting:
        prefix, group = waiting.pop()
        address = h5py.h5o.get_info(group).addr
        if address in seen or len(seen) > MAX_GROUPS:
            continue
        seen.add(address)
        groups = []
        for name in sorted(group):
            if _link(group, name) != h5py.h5l.TYPE_HARD:
                yield f"{prefix}{decode_name(name)}", None
                continue
            child = h5py.h5o.open(group, name)
            if isinstance(child, h5py.h5g.GroupID):
                groups.append((f"{prefix}{decode_name(name)}/", child))
            elif isinstance(child, h5py.h5d.DatasetID):
                yield f"{prefix}{decode_name(name)}", child
        waiting.extend(reversed(groups))


def _link(group: Any, name: bytes) -> int | None:
    """The type of the link of this name; None if there is none."""
    if not isinstance(group, h5py.h5g.GroupID):
        return None
    return int(group.links.get_info(name).type) if group.links.exists(name) else None


def _reversed_parts(path: bytes) -> list[bytes]:
    """The names in a path, the last one first."""
    return [name for name in reversed(path.split(b"/")) if name not in (b"", b".")]


H5PY_FILTERS = (1, 2, 3, 4, 32000)  # gzip, shuffle, fletcher32, szip, lzf
# Filters of hdf5plugin that are kept: bzip2, Blosc, LZ4, Bitshuffle, ZFP, Zstandard, Blosc2. Others round, or change
# arrays of some shapes, as that of JPEG-LS does with four axes.
PLUGIN_FILTERS = (307, 32001, 32004, 32008, 32013, 32015, 32026)


def storage_of(dataset: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The storage of an h5py dataset as arguments of `create_dataset`, and a note on filters that are not kept.

    In `maxshape` 0 stands for the length of the axis itself.
    """
    properties = dataset.id.get_create_plist()
    stored: dict[str, Any] = {}
    if properties.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        stored["fillvalue"] = dataset.fillvalue
    if properties.get_layout() != h5py.h5d.CHUNKED:
        return stored, ()
    stored["chunks"] = properties.get_chunk()
    if dataset.maxshape != dataset.shape:
        stored["maxshape"] = tuple(0 if m == n else m for m, n in zip(dataset.maxshape, dataset.shape, strict=True))
    for name in ("compression", "compression_opts", "shuffle", "fletcher32"):
        value = getattr(dataset, name)
        if value not in (None, False, "unknown"):
            stored[name] = value
    lost = []
    for i in range(properties.get_nfilters()):
        code, _, values, name = properties.get_filter(i)
        options = _plugin_options(code, values)
        if options and "compression" not in stored:
            stored |= options
        elif code not in H5PY_FILTERS:
            lost.append(name.decode("utf-8", "replace") or str(code))
    return stored, (f"stored without the filter {join_names(lost)}",) if lost else ()


def _plugin_options(code: int, values: tuple[int, ...]) -> dict[str, Any]:
    """A filter of hdf5plugin as arguments of `create_dataset`; {} if it cannot be asked for, or may change values."""
    if code not in PLUGIN_FILTERS:
        return {}
    try:
        (plugin,) = need("hdf5plugin", why="filters")
        return dict(plugin.from_filter_options(code, values))
    except (RequestError, ValueError, NotImplementedError):
        return {}


STRING_COPIES = 3  # of each string of an attribute while it is read
# Older formats with the same suffixes, by their first bytes, and what to do about them.
OTHER_FORMATS = {
    b"CDF": ", but one of classic netCDF; convert it with: nccopy -k nc4 OLD.nc NEW.nc",
    b"MATLAB 5": ", but a MATLAB v5 file, and only v7.3 is supported; save it with: save('NEW.mat', '-v7.3')",
}


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


def strings_fit(path: str, count: int, options: ReadOptions) -> bool:
    """Whether so many strings take no more memory than the limit: a file can store one string for all of them.

    Each counts as long as the file, but as 1 MiB at most: HDF5 tells no lengths before it reads. A single one always
    fits.
    """
    limit = memory_limit_of(path, options.limit, options.allowed)
    longest = STRING_COPIES * min(os.path.getsize(path), SMALL_FILE)
    return limit is None or count * longest <= max(limit, longest)


@dataclass(frozen=True, slots=True)
class Attributes(Mapping[str, Any]):
    """The attributes of an object in the file at `path`, as h5py reads them.

    Raises an OSError for an array of strings that may take more memory than the limit.
    """

    _found: Any
    path: str
    options: ReadOptions

    def __getitem__(self, name: str) -> Any:
        if name in self._found:
            stored = self._found.get_id(name)
            if stored.dtype.hasobject and not strings_fit(self.path, prod(stored.shape or ()), self.options):
                raise OSError(f"the attribute {name} may take more memory than the limit")
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found
