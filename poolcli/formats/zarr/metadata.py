"""What a Zarr store holds beside an array's values: attributes, names of dimensions, values along them, and how it is
stored.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from poolcli.dtypes import DTYPES
from poolcli.formats.checks import NAMES, byte_count, named
from poolcli.formats.hdf5 import LARGEST_SCALES
from poolcli.formats.names import below
from poolcli.formats.records import Dimension, Metadata, Scale
from poolcli.formats.zarr.library import KNOWN, groups_above, is_group, zarr
from poolcli.formats.zarr.ome import described
from poolcli.layouts import default_layout


def names_of(layout: str) -> tuple[str, ...]:
    """Names for the axes of a layout; none for the one that is taken where nothing is known."""
    if len(layout) > 2 and layout == default_layout(len(layout)):
        return ()
    return tuple(letter.lower() for letter in layout)


DEEPEST = 64


def plain(attributes: Mapping[str, Any], owner: str, lost: list[str]) -> dict[str, Any]:
    """Attributes whose values are JSON; the names of those that cannot be go to `lost`.

    >>> plain({"title": b"a", "of": object()}, "/x", lost := [])
    {'title': 'a'}
    >>> lost
    ['/x@of']
    """
    found = {}
    for name, value in attributes.items():
        try:
            found[str(name)] = _plain(value, 0)
        except (TypeError, ValueError):
            lost.append(f"{owner}@{name}")
    return found


def _plain(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError("nested too deeply")
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "tolist"):  # of numpy
        return _plain(value.tolist(), depth + 1)
    if isinstance(value, Mapping):
        return {str(name): _plain(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, depth + 1) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} is nothing that JSON has")


def with_numbers(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, a missing number that xarray wrote as the base64 of its eight bytes as that number.

    >>> with_numbers({"_FillValue": "AAAAAAAA+H8=", "title": "AAAAAAAA+H8="})
    {'_FillValue': nan, 'title': 'AAAAAAAA+H8='}
    """
    found = dict(attributes)
    for name in NAMES:
        with suppress(ValueError, TypeError, struct.error):
            (found[name],) = struct.unpack("<d", b64decode(found.get(name, 0), validate=True))
    return found


DIMENSIONS = "_ARRAY_DIMENSIONS"  # the attribute in which xarray names the dimensions of Zarr v2
OF_LEVELS = ("ome", "multiscales", "omero")  # attributes of a group of levels, which one array does not keep
SHARDING = "sharding_indexed"


def axes_of(root: Any, key: str | None, array: Any) -> tuple[str | None, ...]:
    """What the axes of an array are called, by itself or by OME-Zarr; () where nothing says."""
    return dimension_names(array) or ome_axes(root, key, array.ndim)


def dimension_names(array: Any) -> tuple[str | None, ...]:
    """What the dimensions of an array are called; () where none has a name."""
    found = getattr(array.metadata, "dimension_names", None) or array.attrs.get(DIMENSIONS)
    if not isinstance(found, list | tuple) or len(found) != array.ndim or not any(found):
        return ()
    return tuple(name if isinstance(name, str) else None for name in found)


def ome_axes(root: Any, key: str | None, rank: int) -> tuple[str, ...]:
    """What OME-Zarr calls the axes of an array, in the group that has it; () where that does not say."""
    if key is None:
        return ()
    *_, (_, group) = groups_above(root, key)
    with suppress(*KNOWN):
        found = dict(group.attrs)
        scales = found.get("ome", found)["multiscales"]
        for each in scales:
            if any(data["path"] == key.rpartition("/")[2] for data in each["datasets"]):
                names = tuple(str(axis["name"] if isinstance(axis, Mapping) else axis) for axis in each["axes"])
                return names if len(names) == rank else ()
    return ()


def metadata_of(root: Any, key: str | None, array: Any) -> Metadata:
    """What goes with an array."""
    axes = axes_of(root, key, array)
    groups, dropped = {}, []
    for name, group in groups_above(root, key):
        attributes = dict(group.attrs)
        dropped += [f"{word} of {name}" for word in OF_LEVELS if attributes.pop(word, None) is not None]
        groups[name] = attributes
    attributes = {name: value for name, value in dict(array.attrs).items() if name != DIMENSIONS}
    notes = (f"left out, for it is about several levels: {named(dropped)}",) if dropped else ()
    dimensions = _dimensions(root, key, array, axes) if axes else ()
    return Metadata(
        ome=described(root, key),
        store=stored(array),
        attributes=attributes,
        groups=groups,
        dimensions=dimensions,
        notes=notes,
    )


def stored(array: Any) -> dict[str, Any]:
    """How an array is stored: chunks, shards, codecs, fill value, in the words of its version of Zarr."""
    documents = array.metadata.to_buffer_dict(zarr.core.buffer.default_buffer_prototype())
    name = ".zarray" if array.metadata.zarr_format == 2 else "zarr.json"
    found: dict[str, Any] = json.loads(documents[name].to_bytes())
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


def _dimensions(root: Any, key: str | None, array: Any, axes: Sequence[str | None]) -> tuple[Dimension, ...]:
    """Names of the axes, and the values along each: the one-dimensional array of its name in the same group."""
    above = (key or "").rpartition("/")[0].strip("/")
    room, found = LARGEST_SCALES, []
    for name, length in zip(axes, array.shape, strict=True):
        scales = {}
        place = f"{above}/{name}".strip("/")
        values = _values(root, place, length) if name and key and place != key.strip("/") else None
        if values is not None:
            room -= byte_count(values.shape, DTYPES[values.dtype.name].itemsize)
            if room >= 0:
                kept = {word: value for word, value in dict(values.attrs).items() if word != DIMENSIONS}
                scales["/" + place] = Scale(values[:], "", kept)
        found.append(Dimension(name or "", scales))
    return tuple(found)


def _values(root: Any, place: str, length: int) -> Any:
    with suppress(*KNOWN):
        node = root[below(place)]
        if not is_group(node) and node.shape == (length,) and node.dtype.name in DTYPES:
            return node
    return None
