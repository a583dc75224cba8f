"""Adding to an HDF5 file that holds something already: to a copy of it, which takes its place when all is written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.atomic import whole_file
from poolcli.formats.checks import human_bytes
from poolcli.formats.fingerprint import fingerprint_of
from poolcli.formats.hdf5.gate import opened_file
from poolcli.formats.hdf5.library import h5py, reading, translated
from poolcli.formats.hdf5.names import bytes_of, find
from poolcli.formats.records import ReadOptions, Source
from poolcli.message_fields import field

ROOM = 2**20  # bytes beside those of the array: names, attributes, the index of chunks


@contextmanager
def added_to(path: str, more: int) -> Iterator[Any]:
    """A copy of the file, open to take `more` bytes; afterwards it becomes the file in one step, or is removed."""
    with whole_file(path, overwrite=True) as part:
        before = fingerprint_of(path)
        _refuse_full_disk(path, before.size + more + ROOM)
        shutil.copyfile(path, part)
        with translated(path), h5py.File(part, "r+") as file:
            yield file
        if fingerprint_of(path) != before:
            raise FileError(f"{path}: changed while it was added to; run again when it is at rest")


def _refuse_full_disk(path: str, needed: int) -> None:
    """Where a disk is full, HDF5 writing to it crashes the whole process."""
    free = shutil.disk_usage(os.path.dirname(os.path.realpath(path))).free
    if free < needed:
        raise FileError(
            f"{path}: no space left on device: a copy with the new array needs {human_bytes(needed)}, "
            f"{human_bytes(free)} are free"
        )


def holds(source: Source) -> bool:
    """Whether the file has something of the name, wherever a link of that name leads."""
    *groups, last = _steps(str(source.key))
    with opened_file(source.path, ReadOptions()) as gate, reading(source.path):
        group = find(gate.root, "/".join(groups), str(source), False) if groups else gate.root
        return isinstance(group, h5py.h5g.GroupID) and bool(group.links.exists(bytes_of(last)))


def place_of(file: Any, path: str, key: str) -> tuple[Any, bytes]:
    """The group that an object of this name is to be made in, and its name there; h5py itself takes UTF-8 alone."""
    *groups, last = map(bytes_of, _steps(key))
    group = file
    for name in groups:
        if not group.id.links.exists(name):
            group = group.create_group(name)
        elif is_own(group, name) and isinstance(group[name], h5py.Group):
            group = group[name]
        else:
            raise FileError(f"{path}:/{key}: leads through something that is no group of the file; choose another name")
    return group, last


def make_room(group: Any, name: bytes, where: str, overwrite: bool) -> None:
    """Takes away what has the name, where that is a dataset and may be replaced; refuses it otherwise."""
    if not group.id.links.exists(name):
        return
    if not overwrite:
        raise RequestError(f"{where} exists; use {field('overwrite')} or another name")
    if not is_own(group, name) or not isinstance(group[name], h5py.Dataset):
        raise FileError(f"{where}: is a group or a link, which no dataset replaces; choose another name")
    del group[name]


def is_own(group: Any, name: bytes) -> bool:
    """Whether the name leads to an object of this file at once, and not by a link to follow."""
    return bool(group.id.links.get_info(name).type == h5py.h5l.TYPE_HARD)


def _steps(key: str) -> list[str]:
    return [name for name in key.split("/") if name not in ("", ".")]
