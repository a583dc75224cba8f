"""Coordinates of Zarr arrays as xarray stores them: arrays with the names of axes, and those that attributes name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from posixpath import basename, dirname, join
from typing import Any

import poolcli.formats.cf as cf
from poolcli.dtypes import DTYPES
from poolcli.errors import FileError
from poolcli.formats.checks import byte_count
from poolcli.formats.names import relative_path
from poolcli.formats.records import Dimension, Scale
from poolcli.formats.zarr.library import ZARR_ERRORS, is_group, limit_chunk_size, zarr_errors
from poolcli.formats.zarr.ome import attributes_of, dimension_names
from poolcli.system.lazy_imports import numpy as np

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
    attributes = {key: array.attrs for key, array in arrays.items()}
    return along | cf.dependent_variables(attributes, lambda key, other: {*names[other]} <= {*names[key]})


def read_coordinates(
    root: Any, key: str, array: Any, axes: Sequence[str | None]
) -> tuple[tuple[Dimension, ...], dict[str, Scale], tuple[str, ...]]:
    """Names and coordinates of the axes of an array, the other variables that it names, and notes on those left out."""
    beside = cf.AuxiliaryVariables(lambda place: _variable(root, place, axes), alone=True)
    dimensions = []
    for name, length in zip(axes, array.shape, strict=True):
        found: dict[str, Scale] = {}
        for place in _candidates(key, name):
            each = _open_array(root, place) if place != key else None
            if each is not None and each.shape == (length,) and not found:
                variable = _as_variable(root, place, each, axes)
                scale = beside.read(place, variable, "", ()) if variable else None
                found = {place: beside.bounded(place, scale)} if scale else {}
        dimensions.append(Dimension(name or "", found))
    variables = beside.variables(key, attributes_of(root, key, array))
    return tuple(dimensions), variables, beside.notes()


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


def _variable(root: Any, place: str, axes: Sequence[str | None]) -> cf.Variable | None:
    """The array of a name as a variable; None for the coordinates of axes and for what is no array."""
    node = _open_array(root, place)
    if node is None or (basename(place) in axes and dimension_names(node) == (basename(place),)):
        return None
    found = _as_variable(root, place, node, axes)
    if found is None:
        raise FileError(f"{place}: holds neither numbers nor texts")
    return found


def _as_variable(root: Any, place: str, node: Any, axes: Sequence[str | None]) -> cf.Variable | None:
    """An array of numbers or texts as a variable; None for others."""
    if node.dtype.name not in DTYPES and not _is_string(node):
        return None

    def read() -> Any:
        with zarr_errors(place):
            limit_chunk_size(place, node)
            found = np.asarray(node[...])
        return found if found.dtype.name in DTYPES else found.astype(object)

    names = tuple(map(str, dimension_names(node))) or ("",) * node.ndim
    size = max(byte_count(lengths, node.dtype.itemsize) for lengths in (node.shape, (*node.chunks, 2)))
    own = tuple(axes.index(name) if name in axes else -1 for name in names)
    places = tuple(join(dirname(place), name or f"nv{n}") for name, n in zip(names, node.shape, strict=True))
    return cf.Variable(node.shape, own, places, size, attributes_of(root, place, node), read)


def _is_string(node: Any) -> bool:
    """Whether an array holds texts, which no codec makes of Python objects."""
    codecs = getattr(node.metadata, "filters", None) or ()
    plain = all(codec.codec_id == STRING_CODEC for codec in codecs)
    return node.dtype.kind in "UT" or (node.dtype.kind == "O" and bool(codecs) and plain)
