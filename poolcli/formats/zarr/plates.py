"""The images of plates, and of the series that bioformats2raw writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count, takewhile
from posixpath import join
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.names import relative_path
from poolcli.formats.zarr.library import is_group, reading_metadata
from poolcli.formats.zarr.ome import COLLECTION_KEYS, SERIES, ome_of
from poolcli.message_fields import field


@dataclass(frozen=True, slots=True)
class Images:
    """The images of a store: the key of each by its place in a copy of the store, and the attributes of the groups
    above them, by name.
    """

    keys: Mapping[str, str]
    groups: Mapping[str, Mapping[str, Any]]


def list_images(path: str, root: Any, key: str | None, ngff: str) -> Images:
    """The images of the plate or of the series in the group `key`, with attributes for a version of OME-Zarr.

    Raises a RequestError for groups that are neither, and a FileError for damaged metadata.
    """
    with reading_metadata(path):
        try:
            group = root.get(relative_path(key)) if key and key.strip("/") and is_group(root) else root
            found = ome_of(group)
            images = _plate(group, ngff) if "plate" in found else _series(group, ngff) if SERIES in found else None
        except KeyError as error:
            raise FileError(f"{path}: has no {error.args[0]}, which its plate or its series need") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise FileError(f"{path}: the metadata of its plate or of its series is damaged") from error
    if images is None or not images.keys:
        raise RequestError(
            f"{path}: holds no plate and no series of bioformats2raw; {field('all')} pools every image of those, leave "
            "it out"
        )
    return images


def check_single_image(path: str, root: Any) -> None:
    """Refuses to choose one of the images of a plate or of series."""
    if not {"plate", SERIES}.isdisjoint(ome_of(root)):
        raise RequestError(
            f"{path}: holds a plate or series of images; {field('all')} takes all of them, {path}:/A/1/0 one of them"
        )


def _plate(plate: Any, ngff: str) -> Images:
    keys, groups = dict[str, str](), {"/": _attributes(plate, ngff)}
    for path in (relative_path(str(well["path"])) for well in ome_of(plate)["plate"]["wells"]):
        well, above = plate.get(path), path.rpartition("/")[0]
        if well is None:
            raise KeyError(path)
        if above in plate:
            groups[f"/{above}/"] = _attributes(plate[above], ngff)
        groups[f"/{path}/"] = _attributes(well, ngff)
        for place in (f"{path}/{relative_path(str(image['path']))}" for image in ome_of(well)["well"]["images"]):
            keys[f"/{place}/"] = join(plate.path, place)
    return Images(keys, groups)


def _series(store: Any, ngff: str) -> Images:
    """The series, whose names in a copy are 0, 1, ...; these are their names if no group OME lists others."""
    described = store.get("OME")
    listed = ome_of(described).get("series") if described is not None else None
    numbered = takewhile(store.__contains__, map(str, count()))
    names = numbered if listed is None else (relative_path(str(name)) for name in listed)
    keys = {f"/{number}/": join(store.path, name) for number, name in enumerate(names)}
    return Images(keys, {"/": _attributes(store, ngff)})


def _attributes(group: Any, ngff: str) -> dict[str, Any]:
    """The attributes of a group above images, as a version of OME-NGFF has them."""
    if not is_group(group):
        raise ValueError(f"{group.path} is an array")
    own, known, found = dict(group.attrs), dict(ome_of(group)), dict[str, Any]()
    own.pop("ome", None)
    for word in [each for each in known if each in COLLECTION_KEYS or (each not in own and each != "version")]:
        own.pop(word, None)
        found[word] = value = known[word]
        if isinstance(value, Mapping):
            version = {"version": ngff} if ngff == "0.4" or word == "plate" else {}
            found[word] = {name: each for name, each in value.items() if name != "version"} | version
    if ngff == "0.4":
        return own | found
    return own | ({"ome": {"version": ngff, **found}} if found else {})
