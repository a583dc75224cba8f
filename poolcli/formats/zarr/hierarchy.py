"""The arrays of a Zarr hierarchy, found without reading any chunk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from poolcli.errors import FileError, PoolError
from poolcli.formats.paths import filesystem, is_url
from poolcli.formats.zarr.library import KNOWN, zarr

MOST_NODES = 10_000
DEEPEST = 32  # groups inside each other


def root_of(path: str, store: Any) -> Any:
    """The array or the group that is the whole store."""
    try:
        return zarr.open(store=store, mode="r")
    except PoolError:
        raise
    except FileNotFoundError:
        raise FileError(f"{path}: holds no Zarr array or group") from None


def is_group(node: Any) -> bool:
    """Whether zarr's node is a group, and no array."""
    return hasattr(node, "group_keys")


def walk(path: str, root: Any, follow: bool) -> Iterator[tuple[str | None, Any]]:
    """The key of every array and the array, in the order of names; None is the key of one that is the whole store.

    Nodes that cannot be read are passed over. Links to folders are followed only where `follow` is true.
    """
    if not is_group(root):
        yield None, root
        return
    waiting, seen = [root], 0
    while waiting and seen < MOST_NODES:
        group, groups = waiting.pop(), []
        for name in _names(path, group, follow):
            seen += 1
            with suppress(PoolError, *KNOWN):
                node = group[name]
                if is_group(node):
                    groups.append(node)
                else:
                    yield "/" + node.path, node
        if group.path.count("/") < DEEPEST:
            waiting.extend(reversed(groups))


def groups_above(root: Any, key: str | None) -> Iterator[tuple[str, Any]]:
    """The groups on the way to an array, by name, from the root on."""
    if key is None or not is_group(root):
        return
    here, place = root, "/"
    yield place, here
    for name in [part for part in key.split("/") if part][:-1]:
        here, place = here[name], f"{place}{name}/"
        yield place, here


def _names(path: str, group: Any, follow: bool) -> list[str]:
    """What may be nodes in a group: what its metadata lists, else the folders in it."""
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
