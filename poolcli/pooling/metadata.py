"""Adjusts the metadata of an input to its result: resolution, georeference, coordinates, scale and offset, limits.

Coordinates of a pooled axis become the means over its windows. A stored number stands for `stored * scale + offset`
(packing). Means, medians, modes and extremes keep scale and offset; standard deviations keep the scale; for sums and
norms of numbers with an offset no scale and offset are right, so that both are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from poolcli.formats.checks import RANGE_ATTRIBUTES, join_names, nodata_in
from poolcli.formats.records import Dimension, Metadata, Scale
from poolcli.layouts import convert_layout
from poolcli.plan import Plan
from poolcli.plan.plan import Region, whole
from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np
from poolcli.windows import AxisWindows, Sliding

if TYPE_CHECKING:
    from poolcli.formats.image.metadata import PixelGrid

NEW_AXIS = {"chunks": 1, "shards": 1, "maxshape": 0}  # storage settings per axis, and their values for a new axis
GEO_TRANSFORM = "GeoTransform"  # attribute of a grid mapping: the affine map of pixels to coordinates
SIZE_NAMES = re.compile(
    r"spacing|resolution|transform|(pixel|voxel|element|grid|cell)_?(size|width|height)", re.IGNORECASE
)


def scaled_metadata(metadata: Metadata, plan: Plan, layout: str) -> Metadata:
    """The metadata of the result of a plan, with values per axis in the order of `layout`, that of the output."""
    windows, metadata = {axis.name: axis.windows for axis in plan.axes}, with_valid_packing(metadata, plan)
    if "mask" in metadata.image:
        mask = _pooled_mask(metadata.image["mask"], plan, layout)
        metadata = replace(metadata, image={**metadata.image, "mask": mask})
    if metadata.image and {"H", "W"} <= windows.keys():
        from poolcli.formats.image.metadata import scaled

        x, y = windows["W"], windows["H"]
        metadata = replace(metadata, image=scaled(metadata.image, _grid(x), _grid(y), (x.output, y.output)))
    if metadata.axes:
        steps = {name: _grid(axis).step for name, axis in windows.items()}
        found = zip(plan.layout, metadata.axes, strict=True) if len(metadata.axes) == len(plan.layout) else ()
        axes = (axis._replace(letter=letter, step=axis.step * steps.get(letter, 1)) for letter, axis in found)
        metadata = replace(metadata, axes=tuple(axes))
    if metadata.dimensions:
        places = {axis.position: axis.windows for axis in plan.axes}
        grids = [_grid(places[i]) if i in places else None for i in (len(plan.layout) - 1, len(plan.layout) - 2)]
        metadata = _georeferenced(with_coordinates_pooled(metadata, places), *grids)
    if layout != plan.layout:
        metadata = _reordered(metadata, plan.layout, layout)
    copied = [name for name in metadata.attributes if SIZE_NAMES.search(name)]
    if copied:
        were, them = ("was", "it if it describes") if len(copied) == 1 else ("were", "them if they describe")
        note = f"{join_names(copied)} {were} copied unchanged; update {them} the resolution"
        metadata = replace(metadata, notes=(*metadata.notes, note))
    return metadata


def _georeferenced(metadata: Metadata, x: PixelGrid | None, y: PixelGrid | None) -> Metadata:
    """The metadata with the GeoTransform of GDAL for output pixels on the grids `x` and `y` of input pixels."""
    variables, notes = dict(metadata.variables), metadata.notes
    for name, each in metadata.variables.items() if x or y else ():
        found, attributes = each.attributes.get(GEO_TRANSFORM), dict(each.attributes)
        if found is None:
            continue
        try:
            text = found.decode() if isinstance(found, bytes) else str(found)
            (x0, ax, bx, y0, ay, by) = map(float, text.split())
        except ValueError:
            notes = (*notes, f"left out, because it does not have six numbers: the attribute {name}@{GEO_TRANSFORM}")
            del attributes[GEO_TRANSFORM]
        else:
            (across, i), (down, j) = x or (1.0, 0.0), y or (1.0, 0.0)
            pixels = ((x0 + i * ax + j * bx, across * ax, down * bx), (y0 + i * ay + j * by, across * ay, down * by))
            attributes[GEO_TRANSFORM] = " ".join(str(number) for row in pixels for number in row)
        variables[name] = replace(each, attributes=attributes)
    return replace(metadata, variables=variables, notes=notes)


def _pooled_mask(mask: Array, plan: Plan, layout: str) -> Array:
    """The mask of the result of a masked image: where a window has no valid pixel."""
    from poolcli.engine.numpy.missing import masked_windows

    region = whole(plan)
    return convert_layout(masked_windows(region, hidden_from(mask, region)), plan.layout, layout)


def hidden_from(mask: Array, region: Region) -> Array:
    """Which elements that a region reads are hidden by a mask; an axis of length 1 of the mask is broadcast."""
    own = (
        slice(0, 1) if length == 1 else slice(r.start, r.stop)
        for length, r in zip(mask.shape, region.reads, strict=True)
    )
    return np.broadcast_to(mask[tuple(own)], region.input_shape)


def _reordered(metadata: Metadata, source: str, target: str) -> Metadata:
    """The metadata with values per axis in the order of another layout; new axes get defaults."""
    places = [source.find(axis) for axis in target]

    def stored(found: Mapping[str, Any]) -> dict[str, Any]:
        lists = {name: default for name, default in NEW_AXIS.items() if found.get(name)}
        return {**found} | {n: tuple(found[n][i] if i >= 0 else new for i in places) for n, new in lists.items()}

    dimensions = metadata.dimensions and tuple(metadata.dimensions[i] if i >= 0 else Dimension("", {}) for i in places)
    variables = {
        name: replace(each, axes=tuple(places.index(i) for i in each.axes))
        for name, each in metadata.variables.items()
        if all(i in places for i in each.axes)
    }
    return replace(
        metadata,
        hdf5_storage=stored(metadata.hdf5_storage),
        zarr_storage=stored(metadata.zarr_storage),
        dimensions=dimensions,
        variables=variables,
    )


def _grid(windows: AxisWindows) -> PixelGrid:
    """The grid of output pixels in the input: each pixel is as large as the stride and centred on its window."""
    from poolcli.formats.image.metadata import PixelGrid

    if not isinstance(windows, Sliding):
        return PixelGrid(windows.size / windows.output, 0.0)
    return PixelGrid(windows.stride, (windows.extent - windows.stride) / 2 - windows.pad_begin)


MAX_COORDINATES = 1_000_000  # values of an axis; longer coordinates are left out


def with_coordinates_pooled(metadata: Metadata, windows: Mapping[int, AxisWindows]) -> Metadata:
    """The metadata with coordinates pooled along the axes that have windows, and notes on those that are left out."""
    from poolcli.coordinates import are_longitudes, means, outer_bounds
    from poolcli.formats.cf import BOUNDS_ATTRIBUTES

    lost, unknown_bounds = list[str](), list[str]()
    gone = {i for i, each in windows.items() if each.empty_windows or max(each.size, each.output) > MAX_COORDINATES}

    def follow(name: str, scale: Scale, axes: tuple[int, ...]) -> dict[str, Scale]:
        pooled = {k: windows[i] for k, i in enumerate(axes) if i in windows}
        if gone.intersection(axes) or (pooled and scale.values.dtype.kind not in "biuf"):
            lost.append(name)
            return {}
        if not pooled:
            return {name: scale}
        around = are_longitudes(scale.attributes)
        values, missing = scale.values, nodata_in(scale.attributes, scale.values.dtype.name)
        found = means(values, pooled, around, missing)
        bounds, attributes = dict[str, Scale](), dict(scale.attributes)
        for place, each in scale.bounds.items():
            outer = outer_bounds(each.values, pooled, found if around else None)
            if outer is None:
                unknown_bounds.append(place)
                attributes = {word: value for word, value in attributes.items() if word not in BOUNDS_ATTRIBUTES}
            else:
                bounds[place] = replace(each, values=outer)
        found = found.astype(values.dtype) if values.ndim > 1 and values.dtype.kind == "f" else found
        return {name: replace(scale, values=found, attributes=attributes, bounds=bounds)}

    dimensions = []
    for i, each in enumerate(metadata.dimensions):
        scales = [follow(name, scale, (i,)) for name, scale in each.scales.items()]
        dimensions.append(Dimension(each.label, {name: scale for found in scales for name, scale in found.items()}))
    variables = [follow(name, each, each.axes) for name, each in metadata.variables.items()]
    metadata = replace(
        metadata,
        dimensions=tuple(dimensions),
        variables={name: each for found in variables for name, each in found.items()},
    )
    notes = tuple(
        f"left out, because {why} {join_names(names)}"
        for names, why in (
            (lost, "they are very long, no numbers, or a window has none of them: the coordinates"),
            (unknown_bounds, "they cannot be told of whole windows: the bounds"),
        )
        if names
    )
    return replace(metadata, notes=(*metadata.notes, *notes))


SCALE, OFFSET, ACTUAL_RANGE = "scale_factor", "add_offset", "actual_range"  # CF attributes


def with_valid_packing(metadata: Metadata, plan: Plan) -> Metadata:
    """The metadata with the scales, offsets and limits that hold for the result, and notes on those that do not."""
    attributes, left = _valid_packing(metadata.attributes, SCALE, OFFSET, plan)
    beyond = RANGE_ATTRIBUTES if plan.reducer.result in ("total", "float", "deviation") else ()
    left += [name for name in (*beyond, ACTUAL_RANGE) if attributes.pop(name, None) is not None]
    image, notes = _image_packing(metadata.image, plan), list[str]()
    if "pages" in image:
        image["pages"] = {number: _image_packing(page, plan) for number, page in image["pages"].items()}
    if left:
        notes.append(f"left out, because they do not hold for {plan.op} pooling: the attributes {join_names(left)}")
    if plan.reducer.picks and SCALE in attributes and _number(attributes[SCALE]) < 0:
        notes.append(
            f"{SCALE} is negative: {plan.op} of the stored numbers is the other extreme of what they stand for"
        )
    return replace(metadata, image=image, attributes=attributes, notes=(*metadata.notes, *notes))


def _image_packing(found: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """The metadata of an image or a page, with the GDAL scales and offsets that hold for the result."""
    kept, lost = dict(found), dict[tuple[str, str], None]()
    bands = dict[str, dict[str, str]]()
    for band, roles in kept.pop("gdal", {}).items():
        bands[band], gone = _valid_packing(roles, "scale", "offset", plan)
        lost |= {(f"GDAL's {role}", f"it does not hold for {plan.op} pooling"): None for role in gone}
    bands = {band: roles for band, roles in bands.items() if roles}
    kept |= {"gdal": bands} if bands else {}
    return kept | ({"lost": (*kept.get("lost", ()), *lost)} if lost else {})


def _valid_packing(found: Mapping[str, Any], scale: str, offset: str, plan: Plan) -> tuple[dict[str, Any], list[str]]:
    """The attributes with the scale and offset that hold for the result, and the names of those that do not."""
    kept, reducer = dict(found), plan.reducer
    if not {scale, offset} & kept.keys() or reducer.picks or reducer.votes or reducer.statistic == "median":
        return kept, []
    if reducer.divides and plan.divisor_override is None:
        return kept, []
    factor, begin = _number(kept.get(scale, 1)), _number(kept.get(offset, 0))
    gone = [name for name in (scale, offset) if name in kept] if begin or not isfinite(factor) else []
    if reducer.statistic == "deviation" and isfinite(factor):
        gone = [offset] if begin else []
    if factor < 0 and (reducer.statistic or reducer.power) and scale not in gone:
        kept[scale] = kept[scale].lstrip(" -") if isinstance(kept[scale], str) else abs(kept[scale])
    return {name: value for name, value in kept.items() if name not in gone}, gone


def _number(value: Any) -> float:
    """The single number that an attribute holds; NaN where it holds something else."""
    try:
        return float(np.asarray(value, np.float64).item())
    except (TypeError, ValueError, ArithmeticError):
        return nan
