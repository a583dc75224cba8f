"""Metadata of Zarr arrays beside their values: attributes, dimension names, coordinates, storage, and OME-Zarr."""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from posixpath import dirname, join
from typing import Any, TypeGuard

import poolcli.formats.cf as cf
from poolcli.dtypes import DTYPES, can_hold
from poolcli.errors import PoolError, RequestError
from poolcli.formats.checks import NODATA_ATTRIBUTES, join_names
from poolcli.formats.names import relative_path
from poolcli.formats.records import Axis, Dimension, Metadata, Scale
from poolcli.formats.zarr.chunks import SHARDING, document_of
from poolcli.formats.zarr.library import ZARR_ERRORS, groups_above, is_group, limit_chunk_size, zarr_errors
from poolcli.layouts import default_layout, layout_of_dimensions
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np

VERSIONS = {"0.5": 3, "0.4": 2}  # of OME-NGFF, with the version of Zarr that each uses
AXES = {"N": ("t", "time"), "C": ("c", "channel"), "D": ("z", "space"), "H": ("y", "space"), "W": ("x", "space")}
ORDER = "NCDHW"
ASSUMED_LAYOUTS = {2: "HW", 3: "DHW", 4: "CDHW", 5: "NCDHW"}  # by rank, in the order of microscopes: t, c, z, y, x
# Short forms of units whose UDUNITS names OME-NGFF requires.
UNITS = {
    "nm": "nanometer", "um": "micrometer", "µm": "micrometer", "μm": "micrometer", "micron": "micrometer",
    "mm": "millimeter", "cm": "centimeter", "m": "meter", "km": "kilometer", "in": "inch", "å": "angstrom",
}  # fmt: skip
KNOWN_UNITS = (
    "angstrom", "attometer", "centimeter", "decimeter", "exameter", "femtometer", "foot", "gigameter", "hectometer",
    "inch", "kilometer", "megameter", "meter", "micrometer", "mile", "millimeter", "nanometer", "parsec", "petameter",
    "picometer", "terameter", "yard", "yoctometer", "yottameter", "zeptometer", "zettameter",
)  # fmt: skip
KNOWN_KEYS = ("version", "multiscales", "omero", "image-label")  # of the attribute `ome` of an image
COLOURS = {"red": "FF0000", "green": "00FF00", "blue": "0000FF"}


def ome_order(layout: str) -> str:
    """The layout in the order of OME-Zarr: t, c, z, y, x; refuses axes that it does not have.

    >>> ome_order("HWC")
    'CHW'
    """
    spatial = [letter for letter in layout if letter in "DHW"]
    if not set(layout) <= set(ORDER) or len(spatial) < 2:
        meant = layout.translate(str.maketrans("TZYX", "NDHW"))
        is_meant = {*"HW"} <= {*meant} <= {*ORDER} and len({*meant}) == len(meant)
        example = meant if is_meant else ASSUMED_LAYOUTS.get(len(layout), ORDER)
        raise RequestError(
            f"layout {layout}: OME-Zarr has the axes t, c, z, y, x, of which y and x are needed; N stands for t, D for "
            f"z, H for y and W for x, for example {field('layout', example)}"
        )
    return "".join(letter for letter in ORDER if letter in layout)


def unit_of(text: str) -> str:
    """The UDUNITS name of a unit of length; refuses anything else."""
    found = UNITS.get(text.strip().lower(), text.strip().lower().replace("metre", "meter"))
    if found not in KNOWN_UNITS:
        raise RequestError(f"{field('unit', text)}: is not a unit of length; use one such as micrometer or nm")
    return found


def names_of_axes(layout: str) -> tuple[str, ...]:
    """The names of a layout's axes in OME-Zarr."""
    return tuple(AXES[letter][0] for letter in layout)


def multiscale(
    layout: str,
    units: Mapping[str, str],
    levels: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    *,
    version: str,
    name: str,
    method: Mapping[str, Any],
    beside: Mapping[str, Any],
) -> dict[str, Any]:
    """The attributes of the group of the levels, as in the section `multiscales` of OME-NGFF 0.5 and 0.4.

    Parameters
    ----------
    layout : the axes
    units : units by names of axes
    levels : path, scale and translation of each level, the largest first
    version : of OME-NGFF
    name : of the image
    method : how the levels were made
    beside : what stands beside `multiscales`, such as rendering settings (`omero`)
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
    if version == "0.4":
        return {"multiscales": [{"version": "0.4", **scales}], **beside}
    return {"ome": {"version": version, "multiscales": [scales], **beside}}


def omero_rendering(mode: str | None, highest: int | None) -> dict[str, Any] | None:
    """The `omero` rendering of RGB channels; None for other modes."""
    if mode != "RGB" or highest is None:
        return None
    window = {"min": 0, "start": 0, "end": highest, "max": highest}
    channels = [
        {"label": label, "color": colour, "active": True, "window": window} for label, colour in COLOURS.items()
    ]
    return {"channels": channels, "rdefs": {"model": "color"}}


def image_metadata(root: Any, key: str | None) -> dict[str, Any]:
    """The OME-Zarr metadata of the array `key` in its group: `axes`, `scale`, `translation`, `omero`, `name`,
    `image-label`, and `beside`, what else the attribute `ome` has.

    Empty if there is none, or it is invalid.
    """
    if key is None:
        return {}
    *_, (_, group) = groups_above(root, key)
    with suppress(*ZARR_ERRORS):
        found = ome_of(group)
        for each in found["multiscales"]:
            for data in each["datasets"]:
                if data["path"] == key.rpartition("/")[2]:
                    others = found.items() if "ome" in group.attrs else ()
                    beside = {name: value for name, value in others if name not in KNOWN_KEYS}
                    return _parse_multiscale(found, each, data) | {"beside": beside}
    return {}


def first_level(root: Any, key: str | None) -> str | None:
    """The key of the largest level of the multiscale group `key`, or of the root; None if there is no such group."""
    with suppress(*ZARR_ERRORS):
        return _levels(root[relative_path(key)] if key and key.strip("/") else root)[0]
    return None


def image_extras(root: Any, key: str | None) -> dict[str, Any]:
    """What an image holds beside its level `key`: `labels`, of each the key of the same level, or nothing; and notes
    on what describes it with `others`.
    """
    if key is None:
        return {}
    labels: dict[str, str] = {}
    *_, (_, image) = groups_above(root, key)
    with suppress(*ZARR_ERRORS):
        group = image["labels"]
        for name in ome_of(group)["labels"]:
            labels[str(name)] = ""
            with suppress(*ZARR_ERRORS):
                labels[str(name)] = _levels(group[relative_path(name)])[_levels(image).index(key)]
    return {"labels": labels, "others": _series_notes(root, key)}


def _series_notes(root: Any, key: str | None) -> list[str]:
    """A note on the group OME, which describes all images of a store."""
    return [
        f"left out: {name}OME, which describes every image of the store"
        for name, group in groups_above(root, key)
        if SERIES in ome_of(group) and "OME" in group
    ]


def ome_of(group: Any) -> Any:
    """What OME-Zarr has in the attributes of a group, of either version."""
    found = dict(group.attrs) if is_group(group) else {}
    return found.get("ome", found)


def _levels(image: Any) -> list[str]:
    """The keys of the levels of an image."""
    start = f"/{image.path}/" if image.path else "/"
    return [start + str(data["path"]) for data in ome_of(image)["multiscales"][0]["datasets"]]


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


def default_names(layout: str) -> tuple[str, ...]:
    """Dimension names for a layout; none for the default layout, which may be a guess."""
    if len(layout) > 2 and layout == default_layout(len(layout)):
        return ()
    return tuple(letter.lower() for letter in layout)


MAX_DEPTH = 64


def json_attributes(attributes: Mapping[str, Any], owner: str, lost: list[str]) -> dict[str, Any]:
    """Attributes as JSON values; the names of those that cannot be are added to `lost`.

    >>> json_attributes({"title": b"a", "of": object()}, "/x", lost := [])
    {'title': 'a'}
    >>> lost
    ['/x@of']
    """
    found = {}
    for name, value in attributes.items():
        try:
            found[str(name)] = _json_value(value, 0)
        except (TypeError, ValueError):
            lost.append(f"{owner}@{name}")
    return found


def _json_value(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "tolist"):  # of numpy; netCDF stores a number as an array of one
        return _json_value(value.item() if value.size == 1 else value.tolist(), depth + 1)
    if isinstance(value, Mapping):
        return {str(name): _json_value(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(each, depth + 1) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} is not a JSON type")


def attributes_of(root: Any, key: str | None, array: Any) -> dict[str, Any]:
    """The attributes of an array without dimension names, with its nodata values as numbers.

    In Zarr v2 xarray stores `_FillValue` as the fill value of arrays with dimension names; those of a multiscale group
    are written by others, whose fill value is an element like others.
    """
    found = decode_nodata(array.attrs)
    named, fill = found.pop(DIMENSIONS, None), getattr(array.metadata, "fill_value", None)
    if named and array.metadata.zarr_format == 2 and fill is not None and not image_metadata(root, key):
        found["_FillValue"] = fill.item()
    return found


def is_number_of(value: Any, dtype: str) -> TypeGuard[int | float]:
    """Whether a value of JSON is a number that an element of the type can equal."""
    return isinstance(value, int | float) and not isinstance(value, bool) and can_hold(DTYPES[dtype], value)


def encode_nodata(attributes: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """The attributes of an array of Zarr v3 as xarray writes them, the inverse of `decode_nodata`."""
    fill = attributes.get("_FillValue")
    if DTYPES[dtype].kind != "float" or not is_number_of(fill, "float64"):
        return dict(attributes)
    return {**attributes, "_FillValue": b64encode(struct.pack("<d", fill)).decode()}


def decode_nodata(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, with nodata values that xarray wrote as the base64 of their eight bytes as numbers.

    >>> decode_nodata({"_FillValue": "AAAAAAAA+H8=", "title": "AAAAAAAA+H8="})
    {'_FillValue': nan, 'title': 'AAAAAAAA+H8='}
    """
    found = dict(attributes)
    for name in NODATA_ATTRIBUTES:
        with suppress(ValueError, TypeError, struct.error):
            (found[name],) = struct.unpack("<d", b64decode(found.get(name, 0), validate=True))
    return found


DIMENSIONS = "_ARRAY_DIMENSIONS"  # xarray's attribute of dimension names in Zarr v2
SERIES, OME_XML = "bioformats2raw.layout", "OME/METADATA.ome.xml"  # of all images that bioformats2raw writes
COLLECTION_KEYS = ("plate", "well", SERIES, "series")  # attributes of groups above images
GROUP_KEYS = ("ome", "multiscales", "omero", *COLLECTION_KEYS)  # what one array does not keep


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


def metadata_of(root: Any, key: str | None, array: Any) -> Metadata:
    """The metadata of an array, without coordinates."""
    axes = axes_of(root, key, array)
    groups, dropped = {}, []
    for name, group in groups_above(root, key):
        attributes = dict(group.attrs)
        dropped += [f"{word} of {name}" for word in GROUP_KEYS if attributes.pop(word, None) is not None]
        groups[name] = attributes
    notes = [f"left out, because it describes several arrays: {join_names(dropped)}"] if dropped else []
    notes += _series_notes(root, key)
    ome = image_metadata(root, key)
    found = ome.get("axes", ())
    letters = layout_of_dimensions([axis.get("name") for axis in found]) or ""
    units = [str(axis.get("unit", "")) for axis in found]
    consolidated = is_group(root) and root.metadata.consolidated_metadata is not None
    return Metadata(
        ome=ome,
        axes=tuple(map(Axis, letters, array.shape, ome.get("scale", ()), units)),
        zarr_storage=storage_of(array) | {"consolidated": consolidated},
        attributes=attributes_of(root, key, array),
        groups=groups,
        dimensions=tuple(Dimension(name or "", {}) for name in axes),
        notes=tuple(notes),
    )


def storage_of(array: Any) -> dict[str, Any]:
    """The storage of an array: chunks, shards, codecs, fill value, as its version of Zarr writes them."""
    found = document_of(array)
    common = {"version": array.metadata.zarr_format, "dtype": array.dtype.name, "chunks": tuple(array.chunks)}
    common |= {"shards": array.shards and tuple(array.shards), "fill_value": found["fill_value"]}
    if array.metadata.zarr_format == 2:
        kept = ("filters", "compressor", "order", "dimension_separator")
        return common | {word: found[word] for word in kept if word in found}
    codecs, sharding = found["codecs"], {}
    if array.shards:
        (sharding,) = (codec["configuration"] for codec in codecs if codec["name"] == SHARDING)
        codecs = sharding["codecs"]
    index = {word: sharding[word] for word in ("index_codecs", "index_location") if word in sharding}
    return common | {"codecs": codecs, "index": index, "chunk_key_encoding": found["chunk_key_encoding"]}


STRING_CODEC = "vlen-utf8"  # the codec of texts


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
    dimensions, notes = [], metadata.notes
    for each, length in zip(metadata.dimensions, array.shape, strict=True):
        scales: dict[str, Scale] = {}
        for place in _candidates(key, each.label or None):
            node = _open_array(root, place) if place != key else None
            if scales or node is None or node.shape != (length,) or not (node.dtype.name in DTYPES or _is_string(node)):
                continue
            if length > cf.MAX_COORDINATES:
                notes += (f"left out, because they are very long: the coordinates {place}",)
                break
            try:
                scales[place] = Scale(_read_coordinates(place, node), "", attributes_of(root, place, node))
            except PoolError:
                notes += (f"left out, because they cannot be read: the coordinates {place}",)
        dimensions.append(Dimension(each.label, scales))
    found = replace(metadata, dimensions=tuple(dimensions), notes=notes)
    return cf.without_references(key, found, lambda place: _open_array(root, place) is not None)


def _read_coordinates(place: str, node: Any) -> Array:
    with zarr_errors(place):
        limit_chunk_size(place, node)
        found = np.asarray(node[...])
    return found if found.dtype.name in DTYPES else found.astype(object)


def _candidates(key: str, name: str | None) -> Iterator[str]:
    """Where the coordinates of an axis may be: beside an array, or in a group above it, the nearest first."""
    place = key if name else "/"
    while place != "/":
        place = dirname(place)
        yield join(place, str(name))


def _open_array(root: Any, place: str) -> Any:
    """The array of a name; None if there is none."""
    with suppress(*ZARR_ERRORS):
        node = root[relative_path(place)]
        return None if is_group(node) else node
    return None


def _is_string(node: Any) -> bool:
    """Whether an array holds texts, which no codec makes of Python objects."""
    codecs = getattr(node.metadata, "filters", None) or ()
    plain = all(codec.codec_id == STRING_CODEC for codec in codecs)
    return node.dtype.kind in "UT" or (node.dtype.kind == "O" and bool(codecs) and plain)
