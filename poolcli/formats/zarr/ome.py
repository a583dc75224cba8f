"""The metadata of OME-Zarr: axes, levels, rendering settings and labels of an image, and the images of a plate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from poolcli.errors import RequestError
from poolcli.formats.image.metadata import LENGTHS
from poolcli.formats.zarr.library import ZARR_ERRORS, child_names, groups_above, is_group, zarr_errors
from poolcli.message_fields import field

VERSION = "0.5"  # of OME-NGFF, which is written
AXES = {"N": ("t", "time"), "C": ("c", "channel"), "D": ("z", "space"), "H": ("y", "space"), "W": ("x", "space")}
ORDER = "NCDHW"
NAMES_OF_UNITS = {word.lower(): name for name, words in LENGTHS.items() for word in (name, *words)}
SERIES = "bioformats2raw.layout"  # the attribute of a store with all images that bioformats2raw has converted
COLLECTION_KEYS = ("plate", "well", SERIES, "series")  # attributes of groups above images
KNOWN_KEYS = ("version", "multiscales", "omero", "image-label")  # attributes of an image in OME-Zarr
COLOURS = {"red": "FF0000", "green": "00FF00", "blue": "0000FF"}


def ome_order(layout: str) -> str:
    """The layout in the order of OME-Zarr: t, c, z, y, x; refuses axes that it does not have."""
    spatial = [letter for letter in layout if letter in "DHW"]
    if not set(layout) <= set(ORDER) or len(spatial) < 2:
        example = ORDER[-max(2, len(layout)) :]
        raise RequestError(
            f"layout {layout}: OME-Zarr has the axes t, c, z, y, x, of which y and x are needed, for example "
            f"{field('layout', example)}"
        )
    return "".join(letter for letter in ORDER if letter in layout)


def unit_word(text: str) -> str:
    return text.strip().lower().replace("metre", "meter")


def names_of_axes(layout: str) -> tuple[str, ...]:
    """The names of a layout's axes in OME-Zarr."""
    return tuple(AXES[letter][0] for letter in layout)


def multiscale(
    layout: str, units: Mapping[str, str], places: Sequence[tuple[Sequence[float], Sequence[float]]]
) -> dict[str, Any]:
    """The axes and levels of an image, as in the section `multiscales` of OME-NGFF 0.5.

    `units` are by names of axes; of each level there are scale and translation, the largest first.
    """
    axes = [
        {"name": name_of, "type": kind} | ({"unit": units[name_of]} if name_of in units else {})
        for name_of, kind in (AXES[letter] for letter in layout)
    ]
    datasets = list[dict[str, Any]]()
    for number, (scale, translation) in enumerate(places):
        own = {"type": "scale", "scale": list(scale)}, {"type": "translation", "translation": list(translation)}
        datasets.append({"path": str(number), "coordinateTransformations": [*own]})
    return {"axes": axes, "datasets": datasets}


def omero_rendering(highest: float) -> dict[str, Any]:
    """The `omero` rendering of RGB channels of integers up to the highest."""
    window = {"min": 0, "start": 0, "end": highest, "max": highest}
    channels = [{"label": name, "color": colour, "active": True, "window": window} for name, colour in COLOURS.items()]
    return {"channels": channels, "rdefs": {"model": "color"}}


def ome_of(group: Any) -> Any:
    """What OME-Zarr has in the attributes of a group, of either version."""
    found = dict(group.attrs) if is_group(group) else {}
    return found.get("ome", found)


def image_metadata(root: Any, key: str | None) -> dict[str, Any]:
    """The OME-Zarr metadata of the array `key` in its group: `axes`, `scale`, `translation`, `omero`, `name`,
    `image-label`, and the names of `others` that are not kept. Empty if there is none, or it is invalid.
    """
    if key is None:
        return {}
    *_, (_, group) = groups_above(root, key)
    with suppress(*ZARR_ERRORS):
        found = ome_of(group)
        for each in found["multiscales"]:
            for data in each["datasets"]:
                if data["path"] == key.rpartition("/")[2]:
                    others = sorted(found.keys() - {*KNOWN_KEYS}) if "ome" in group.attrs else []
                    return _parse_multiscale(found, each, data) | {"others": others}
    return {}


def _parse_multiscale(found: Mapping[str, Any], each: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    axes = [dict(axis) if isinstance(axis, Mapping) else {"name": str(axis)} for axis in each["axes"]]
    scale, translation = [1.0] * len(axes), [0.0] * len(axes)
    # The transformations of the level come first, then those of all levels.
    for step in (*data.get("coordinateTransformations", ()), *each.get("coordinateTransformations", ())):
        if step["type"] == "scale":
            scale = [a * float(b) for a, b in zip(scale, step["scale"], strict=True)]
            translation = [a * float(b) for a, b in zip(translation, step["scale"], strict=True)]
        elif step["type"] == "translation":
            translation = [a + float(b) for a, b in zip(translation, step["translation"], strict=True)]
    kept = {name: found[name] for name in ("omero", "image-label") if isinstance(found.get(name), Mapping)}
    kept |= {"name": each["name"]} if "name" in each else {}
    return {"axes": axes, "scale": scale, "translation": translation, **kept}


def first_level(root: Any, key: str | None) -> str | None:
    """The key of the largest level of the multiscale group `key`, or of the root; None if there is no such group."""
    with suppress(*ZARR_ERRORS):
        return _levels(root[key.strip("/")] if key and key.strip("/") else root)[0]
    return None


def labels_of(root: Any, key: str | None) -> dict[str, str]:
    """The labels of the image whose level is `key`: of each the key of the same level, or "" if it has none."""
    labels: dict[str, str] = {}
    if key is None:
        return labels
    *_, (_, image) = groups_above(root, key)
    with suppress(*ZARR_ERRORS):
        group = image["labels"]
        for name in ome_of(group)["labels"]:
            labels[str(name)] = ""
            with suppress(*ZARR_ERRORS):
                labels[str(name)] = _levels(group[name])[_levels(image).index(key)]
    return labels


def _levels(image: Any) -> list[str]:
    start = f"/{image.path}/" if image.path else "/"
    return [start + str(data["path"]) for data in ome_of(image)["multiscales"][0]["datasets"]]


@dataclass(frozen=True, slots=True)
class Images:
    """The images of a store by their places in a copy of it, the attributes of the groups above them, and wells that a
    plate lists and the store lacks.
    """

    keys: Mapping[str, str]
    groups: Mapping[str, Mapping[str, Any]]
    lacking: Sequence[str]


def list_images(path: str, root: Any, key: str | None, follow: bool) -> Images:
    """All images below the group `key`, wherever they are; labels belong to their image."""
    keys, groups, waiting = dict[str, str](), dict[str, Mapping[str, Any]](), [("/", (key or "").strip("/"))]
    listed = list[str]()
    while waiting:
        place, name = waiting.pop()
        if place in groups or place in keys:
            continue
        with zarr_errors(f"{path}:/{name}"):
            node = root.get(name) if name else root
            if not is_group(node):
                continue
            if "multiscales" in ome_of(node):
                keys[place] = name
                continue
            groups[place] = _attributes(node)
            wells = [str(well.get("path")) for well in ome_of(node).get("plate", {}).get("wells", ())]
            listed += [f"{place}{well}/" for well in wells]
            names = reversed(dict.fromkeys([*wells, *child_names(path, node, follow)]))  # rows need no metadata
            waiting += [(f"{place}{each}/", f"{name}/{each}".lstrip("/")) for each in names]
    if keys.keys() <= {"/"}:
        raise RequestError(f"{path}: holds one image or none; leave {field('all')} out")
    return Images(keys, groups, [place.strip("/") for place in listed if place not in {**groups, **keys}])


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
