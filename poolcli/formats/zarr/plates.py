"""The images of a store that holds several, such as a plate, or the series that bioformats2raw writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.zarr.library import child_names, is_group, zarr_errors
from poolcli.formats.zarr.ome import COLLECTION_KEYS, VERSION, ome_of
from poolcli.message_fields import field

SERIES = "bioformats2raw.layout"  # says that images are named 0, 1, ...; here they keep their names


@dataclass(frozen=True, slots=True)
class Images:
    """The images of a store: the key of each by its place in a copy of the store, and the attributes of the groups
    above them, by place.
    """

    keys: Mapping[str, str]
    groups: Mapping[str, Mapping[str, Any]]


def list_images(path: str, root: Any, key: str | None, follow: bool) -> Images:
    """All images below the group `key`, wherever they are; labels belong to their image."""
    keys, groups, waiting = dict[str, str](), dict[str, Mapping[str, Any]](), [("/", (key or "").strip("/"))]
    wells = set[str]()  # that plates list, of which the rows need no metadata
    while waiting:
        place, name = waiting.pop()
        if place in groups or place in keys:
            continue
        with zarr_errors(f"{path}:/{name}"):
            node = root.get(name) if name else root
            if not is_group(node):
                if place in wells:
                    raise FileError(f"{path}:/{name}: the plate lists this well, and the store does not have it")
                continue
            if "multiscales" in ome_of(node):
                keys[place] = name
                continue
            groups[place] = _attributes(node)
            plate = ome_of(node).get("plate")
            listed = [str(well.get("path")) for well in (plate or {}).get("wells", ())]
            wells |= {f"{place}{well}/" for well in listed}
            names = reversed(dict.fromkeys([*listed, *child_names(path, node, follow)]))
            waiting += [(f"{place}{each}/", f"{name}/{each}".lstrip("/")) for each in names]
    if keys.keys() <= {"/"}:
        raise RequestError(f"{path}: holds one image or none; leave {field('all')} out")
    return Images(keys, groups)


def _attributes(group: Any) -> dict[str, Any]:
    """The attributes of a group above images, as OME-Zarr 0.5 has them."""
    own = dict(group.attrs)
    own.pop(SERIES, None)
    known: Any = own.pop("ome", None) or {word: own.pop(word) for word in COLLECTION_KEYS if word in own}
    known = {word: value for word, value in known.items() if word not in (SERIES, "series")}
    for word, value in known.items():
        if isinstance(value, Mapping):
            version = {"version": VERSION} if word == "plate" else {}
            known[word] = {name: each for name, each in value.items() if name != "version"} | version
    return own | ({"ome": {**known, "version": VERSION}} if known else {})
