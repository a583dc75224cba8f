"""The metadata of OME-Zarr: axes, and where the elements of each level lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from poolcli.errors import RequestError
from poolcli.formats.zarr.library import KNOWN, groups_above
from poolcli.message_fields import field

VERSIONS = {"0.5": 3, "0.4": 2}  # with the version of Zarr that each is stored in
AXES = {"N": ("t", "time"), "C": ("c", "channel"), "D": ("z", "space"), "H": ("y", "space"), "W": ("x", "space")}
ORDER = "NCDHW"
# How microscopes and people write the units that UDUNITS has longer names for.
UNITS = {
    "nm": "nanometer", "um": "micrometer", "µm": "micrometer", "μm": "micrometer", "micron": "micrometer",
    "mm": "millimeter", "cm": "centimeter", "m": "meter", "km": "kilometer", "in": "inch", "å": "angstrom",
}  # fmt: skip
KNOWN_UNITS = (
    "angstrom", "attometer", "centimeter", "decimeter", "exameter", "femtometer", "foot", "gigameter", "hectometer",
    "inch", "kilometer", "megameter", "meter", "micrometer", "mile", "millimeter", "nanometer", "parsec", "petameter",
    "picometer", "terameter", "yard", "yoctometer", "yottameter", "zeptometer", "zettameter",
)  # fmt: skip
COLOURS = {"RGB": ("FF0000", "00FF00", "0000FF")}


def ordered(layout: str) -> str:
    """The layout in the order that OME-Zarr has: t, c, z, y, x; refuses axes that it does not have.

    >>> ordered("HWC")
    'CHW'
    """
    spatial = [letter for letter in layout if letter in "DHW"]
    if not set(layout) <= set(ORDER) or len(spatial) < 2:
        raise RequestError(
            f"layout {layout}: OME-Zarr has the axes t, c, z, y, x, of which y and x are needed; name those of the "
            f"input with {field('layout', 'CDHW')} (N is t)"
        )
    return "".join(letter for letter in ORDER if letter in layout)


def unit_of(text: str) -> str:
    """The unit of length as UDUNITS calls it; refuses what is none."""
    found = UNITS.get(text.strip().lower(), text.strip().lower().replace("metre", "meter"))
    if found not in KNOWN_UNITS:
        raise RequestError(f"{field('unit', text)}: is no unit of length; use one such as micrometer or nm")
    return found


def names_of_axes(layout: str) -> tuple[str, ...]:
    """What OME-Zarr calls the axes of a layout."""
    return tuple(AXES[letter][0] for letter in layout)


def multiscale(
    layout: str,
    units: Mapping[str, str],
    levels: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    *,
    version: str,
    name: str,
    method: Mapping[str, Any],
    omero: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The attributes of the group that has the levels: of each its path, scale and translation, the largest first.

    As OME-NGFF 0.5 and 0.4 have them, section `multiscales`. `method` says how the levels were made.
    """
    axes = [
        {"name": name_of, "type": kind} | ({"unit": units[name_of]} if name_of in units else {})
        for name_of, kind in (AXES[letter] for letter in layout)
    ]
    datasets = [
        {
            "path": path,
            "coordinateTransformations": [
                {"type": "scale", "scale": list(scale)},
                {"type": "translation", "translation": list(translation)},
            ],
        }
        for path, scale, translation in levels
    ]
    scales = {"name": name, "axes": axes, "datasets": datasets, **method}
    rendering = {"omero": dict(omero)} if omero else {}
    if version == "0.4":
        return {"multiscales": [{"version": "0.4", **scales}], **rendering}
    return {"ome": {"version": version, "multiscales": [scales], **rendering}}


def colours(mode: str | None, highest: int | None) -> dict[str, Any] | None:
    """How the channels of a picture are shown; None where they are no colours."""
    shown = COLOURS.get(mode or "")
    if not shown or highest is None:
        return None
    window = {"min": 0, "start": 0, "end": highest, "max": highest}
    channels = [
        {"label": label, "color": colour, "active": True, "window": window}
        for label, colour in zip(("red", "green", "blue"), shown, strict=True)
    ]
    return {"channels": channels, "rdefs": {"model": "color"}}


def described(root: Any, key: str | None) -> dict[str, Any]:
    """What OME-Zarr says of the array `key` in its group: `axes`, `scale`, `translation`, `omero`, `name`; {} where it
    says nothing, or what is no OME-Zarr.
    """
    if key is None:
        return {}
    *_, (_, group) = groups_above(root, key)
    with suppress(*KNOWN):
        found = dict(group.attrs)
        found = found.get("ome", found)
        for each in found["multiscales"]:
            for data in each["datasets"]:
                if data["path"] == key.rpartition("/")[2]:
                    return _described(found, each, data)
    return {}


def first_level(root: Any) -> str | None:
    """The path of the largest level of a group that has several."""
    with suppress(*KNOWN):
        found = dict(root.attrs)
        return "/" + str(found.get("ome", found)["multiscales"][0]["datasets"][0]["path"])
    return None


def _described(found: Mapping[str, Any], each: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    axes = [dict(axis) if isinstance(axis, Mapping) else {"name": str(axis)} for axis in each["axes"]]
    scale, translation = [1.0] * len(axes), [0.0] * len(axes)
    # Those of the levels come first, then those of all together.
    for step in (*data.get("coordinateTransformations", ()), *each.get("coordinateTransformations", ())):
        if step["type"] == "scale":
            scale = [a * float(b) for a, b in zip(scale, step["scale"], strict=True)]
            translation = [a * float(b) for a, b in zip(translation, step["scale"], strict=True)]
        elif step["type"] == "translation":
            translation = [a + float(b) for a, b in zip(translation, step["translation"], strict=True)]
    kept = {name: source[name] for source, name in ((found, "omero"), (each, "name")) if name in source}
    return {"axes": axes, "scale": scale, "translation": translation, **kept}
