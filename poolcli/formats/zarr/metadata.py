"""What a store says of its arrays: attributes, nodata values, names and coordinates of axes; and the metadata of
OME-Zarr, read and written: axes, levels, rendering settings and labels of an image, and the images of a plate.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from posixpath import dirname, join
from typing import Any

import poolcli.formats.cf as cf
from poolcli.dtypes import DTYPES, DType, can_hold
from poolcli.errors import PoolError, RequestError
from poolcli.formats.checks import NODATA_ATTRIBUTES, byte_count, join_names
from poolcli.formats.files import relative_path
from poolcli.formats.records import Axis, Dimension, Metadata, Scale
from poolcli.formats.zarr.library import ZARR_ERRORS, child_names, groups_above, is_group, zarr_errors
from poolcli.formats.zarr.storage import ExpansionCheck, storage_of
from poolcli.layouts import layout_of_dimensions
from poolcli.message_fields import field
from poolcli.system.lazy_imports import numpy as np

VERSION = "0.5"  # of OME-NGFF, which is written
AXES = {"N": ("t", "time"), "C": ("c", "channel"), "D": ("z", "space"), "H": ("y", "space"), "W": ("x", "space")}
ORDER = "NCDHW"
ASSUMED_LAYOUTS = {2: "HW", 3: "DHW", 4: "CDHW", 5: "NCDHW"}  # by rank, in the order of microscopes: t, c, z, y, x
UNITS = {  # of OME-NGFF, with their short forms
    "angstrom": ("å",), "nanometer": ("nm",), "micrometer": ("um", "µm", "μm", "micron"), "millimeter": ("mm",),
    "centimeter": ("cm",), "meter": ("m",), "kilometer": ("km",), "inch": ("in",), "foot": ("ft",),
}  # fmt: skip
NAMES_OF_UNITS = {word: name for name, short in UNITS.items() for word in (name, *short)}
SERIES = "bioformats2raw.layout"  # the attribute of a store with all images that bioformats2raw has converted
COLLECTION_KEYS = ("plate", "well", SERIES, "series")  # attributes of groups above images
KNOWN_KEYS = ("version", "multiscales", "omero", "image-label")  # attributes of an image in OME-Zarr
COLOURS = {"red": "FF0000", "green": "00FF00", "blue": "0000FF"}
DIMENSIONS = "_ARRAY_DIMENSIONS"  # xarray's attribute of dimension names in Zarr v2
RUN = "poolcli_run"  # the attribute of a store by which a later run with --resume recognises that it is complete
GROUP_KEYS = ("ome", "multiscales", "omero", *COLLECTION_KEYS)  # attributes of groups that one array does not keep
STRING_CODEC = "vlen-utf8"
MAX_CHUNK = 2**26  # bytes of a chunk of coordinates


def metadata_of(root: Any, key: str | None, array: Any) -> Metadata:
    """The metadata of an array, without coordinates."""
    axes = axes_of(root, key, array)
    groups, dropped = {}, []
    for name, group in groups_above(root, key):
        attributes = dict(group.attrs)
        attributes.pop(RUN, None)
        dropped += [f"{word} of {name}" for word in GROUP_KEYS if attributes.pop(word, None) is not None]
        groups[name] = attributes
    notes = [f"left out, because it describes several arrays: {join_names(dropped)}"] if dropped else []
    ome = image_metadata(root, key)
    found = ome.get("axes", ())
    letters = layout_of_dimensions([axis.get("name") for axis in found]) or ""
    units = [str(axis.get("unit", "")) for axis in found]
    return Metadata(
        ome=ome,
        axes=tuple(map(Axis, letters, array.shape, ome.get("scale", ()), units)),
        zarr_storage=storage_of(array),
        attributes=attributes_of(root, key, array),
        groups=groups,
        dimensions=tuple(Dimension(name or "", {}) for name in axes),
        notes=tuple(notes),
    )


def attributes_of(root: Any, key: str | None, array: Any) -> dict[str, Any]:
    """The attributes of an array without dimension names, with its nodata values as numbers.

    In Zarr v2 xarray stores `_FillValue` as the fill value of arrays with dimension names; those of a multiscale group
    are written by others, whose fill value is an element like others.
    """
    found = decode_nodata(array.attrs)
    found.pop(RUN, None)
    named, fill = found.pop(DIMENSIONS, None), getattr(array.metadata, "fill_value", None)
    if named and array.metadata.zarr_format == 2 and fill is not None and not image_metadata(root, key):
        found["_FillValue"] = fill.item()
    return found


def encode_nodata(attributes: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """The attributes of an array of Zarr v3 as xarray writes them, the inverse of `decode_nodata`."""
    fill = attributes.get("_FillValue")
    is_number = isinstance(fill, int | float) and not isinstance(fill, bool) and can_hold(DTYPES["float64"], fill)
    if DTYPES[dtype].kind != "float" or not is_number:
        return dict(attributes)
    return {**attributes, "_FillValue": b64encode(struct.pack("<d", fill)).decode()}


def decode_nodata(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, with nodata values that xarray wrote as the base64 of their eight bytes as numbers."""
    found = dict(attributes)
    for name in NODATA_ATTRIBUTES:
        with suppress(ValueError, TypeError, struct.error):
            (found[name],) = struct.unpack("<d", b64decode(found.get(name, 0), validate=True))
    return found


def json_attributes(attributes: Mapping[str, Any], owner: str, lost: list[str]) -> dict[str, Any]:
    """Attributes as JSON values; the names of those that cannot be are added to `lost`."""
    found = {}
    for name, value in attributes.items():
        try:
            found[str(name)] = json.loads(json.dumps(value, default=_plain))
        except (TypeError, ValueError, RecursionError):
            lost.append(f"{owner}@{name}")
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "tolist"):  # of numpy; netCDF stores a number as an array of one
        return value.item() if value.size == 1 else value.tolist()
    raise TypeError(f"{type(value).__name__} is not a JSON type")


def axes_of(root: Any, key: str | None, array: Any) -> tuple[str | None, ...]:
    """The names of an array's axes, its own or those of OME-Zarr; () if there are none."""
    names = dimension_names(array)
    axes = () if names else tuple(str(axis.get("name", "")) for axis in image_metadata(root, key).get("axes", ()))
    return names or (axes if len(axes) == array.ndim else ())


def dimension_names(array: Any) -> tuple[str | None, ...]:
    """The dimension names of an array; () if it has none."""
    found = getattr(array.metadata, "dimension_names", None) or array.attrs.get(DIMENSIONS)
    if not isinstance(found, list | tuple) or len(found) != array.ndim or not any(found):
        return ()
    return tuple(name if isinstance(name, str) else None for name in found)


def dependent_arrays(arrays: Mapping[str, Any]) -> set[str]:
    """The keys of arrays that belong to others: coordinates of their axes, and what their attributes name."""
    names = {key: dimension_names(array) for key, array in arrays.items()}
    along = {
        place
        for key, axes in names.items()
        for name in axes
        for place in _candidates(key, name)
        if place != key and names.get(place) == (name,)
    }
    return along | cf.dependent_variables({key: array.attrs for key, array in arrays.items()})


def with_coordinates(root: Any, key: str, array: Any, metadata: Metadata) -> Metadata:
    """The metadata with the coordinates of the axes of an array, and without its references to other variables."""
    dimensions, notes = list[Dimension](), list(metadata.notes)
    for each, length in zip(metadata.dimensions, array.shape, strict=True):
        scales = dict[str, Scale]()
        for place in _candidates(key, each.label or None):
            node = _open_array(root, place) if place != key else None
            if node is None or node.shape != (length,) or not (node.dtype.name in DTYPES or _is_string(node)):
                continue
            if length <= cf.MAX_COORDINATES and byte_count(node.chunks, node.dtype.itemsize) <= MAX_CHUNK:
                node.store.checks.append(ExpansionCheck(place, node, MAX_CHUNK))
                with suppress(PoolError), zarr_errors(place):
                    values = np.asarray(node[...])
                    values = values if values.dtype.name in DTYPES else values.astype(object)
                    scales[place] = Scale(values, "", attributes_of(root, place, node))
            if not scales:
                notes.append(f"left out, because they are very long or cannot be read: the coordinates {place}")
            break
        dimensions.append(Dimension(each.label, scales))
    found = replace(metadata, dimensions=tuple(dimensions), notes=tuple(notes))
    return cf.without_references(key, found)


def _candidates(key: str, name: str | None) -> Iterator[str]:
    """Where the coordinates of an axis may be: beside an array, or in a group above it, the nearest first."""
    place = key if name else "/"
    while place != "/":
        place = dirname(place)
        yield join(place, str(name))


def _open_array(root: Any, place: str) -> Any:
    with suppress(*ZARR_ERRORS):
        node = root[relative_path(place)]
        return None if is_group(node) else node
    return None


def _is_string(node: Any) -> bool:
    """Whether an array holds texts, which no codec makes of Python objects."""
    codecs = getattr(node.metadata, "filters", None) or ()
    plain = all(codec.codec_id == STRING_CODEC for codec in codecs)
    return node.dtype.kind in "UT" or (node.dtype.kind == "O" and bool(codecs) and plain)


# OME-Zarr


def ome_order(layout: str) -> str:
    """The layout in the order of OME-Zarr: t, c, z, y, x; refuses axes that it does not have."""
    spatial = [letter for letter in layout if letter in "DHW"]
    if not set(layout) <= set(ORDER) or len(spatial) < 2:
        example = ASSUMED_LAYOUTS.get(len(layout), ORDER)
        raise RequestError(
            f"layout {layout}: OME-Zarr has the axes t, c, z, y, x, of which y and x are needed, for example "
            f"{field('layout', example)}"
        )
    return "".join(letter for letter in ORDER if letter in layout)


def unit_word(text: str) -> str:
    return text.strip().lower().replace("metre", "meter")


def unit_of(text: str) -> str:
    """The name of a unit of length in OME-NGFF; refuses other units."""
    found = NAMES_OF_UNITS.get(unit_word(text))
    if found is None:
        raise RequestError(f"{field('unit', text)}: is not a unit of length; use one of {', '.join(UNITS)}")
    return found


def names_of_axes(layout: str) -> tuple[str, ...]:
    """The names of a layout's axes in OME-Zarr."""
    return tuple(AXES[letter][0] for letter in layout)


def multiscale(
    layout: str,
    units: Mapping[str, str],
    levels: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    *,
    name: str,
    method: Mapping[str, Any],
    beside: Mapping[str, Any],
) -> dict[str, Any]:
    """The attributes of the group of the levels, as in the section `multiscales` of OME-NGFF 0.5.

    `units` are by names of axes; of each level there are path, scale and translation, the largest first; `beside`
    stands beside `multiscales`, such as rendering settings (`omero`).
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
    return {"ome": {"version": VERSION, "multiscales": [scales], **beside}}


def omero_rendering(mode: str | None, dtype: DType) -> dict[str, Any] | None:
    """The `omero` rendering of RGB channels of integers; None for other modes."""
    if mode != "RGB" or not dtype.is_integer:
        return None
    highest = dtype.limits[1]
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
        return _levels(root[relative_path(key)] if key and key.strip("/") else root)[0]
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
                labels[str(name)] = _levels(group[relative_path(name)])[_levels(image).index(key)]
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
