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
from posixpath import basename
from typing import Any

from poolcli.array_interop import window_means
from poolcli.formats.checks import RANGE_ATTRIBUTES, join_names, nodata_in
from poolcli.formats.records import Dimension, Metadata, PixelGrid
from poolcli.layouts import convert_layout
from poolcli.plan import Plan
from poolcli.plan.plan import Region, whole
from poolcli.system.lazy_imports import Array, numpy as np
from poolcli.windows import AxisWindows, Sliding, slices

SCALE, OFFSET, ACTUAL_RANGE = "scale_factor", "add_offset", "actual_range"  # CF attributes
SIZE_NAMES = re.compile(
    "spacing|resolution|transform|(pixel|voxel|element|grid|cell)_?(size|width|height)", re.IGNORECASE
)


def scaled_metadata(metadata: Metadata, plan: Plan, layout: str) -> Metadata:
    """The metadata of the result of a plan, with values per axis in the order of `layout`, that of the output."""
    windows, metadata = {axis.name: axis.windows for axis in plan.axes}, _with_valid_packing(metadata, plan)
    if "mask" in metadata.image:
        from poolcli.engine.numpy.missing import masked_windows

        region = whole(plan)
        mask = masked_windows(region, hidden_from(metadata.image["mask"], region))
        metadata = replace(metadata, image={**metadata.image, "mask": convert_layout(mask, plan.layout, layout)})
    if metadata.image and {"H", "W"} <= windows.keys():
        from poolcli.formats.image.metadata import scaled

        metadata = replace(metadata, image=scaled(metadata.image, _grid(windows["W"]), _grid(windows["H"])))
    if metadata.axes:
        steps = {name: _grid(axis).step for name, axis in windows.items()}
        found = zip(plan.layout, metadata.axes, strict=True) if len(metadata.axes) == len(plan.layout) else ()
        axes = (axis._replace(letter=letter, step=axis.step * steps.get(letter, 1)) for letter, axis in found)
        metadata = replace(metadata, axes=tuple(axes))
    if metadata.dimensions:
        metadata = _with_coordinates_pooled(metadata, plan)
    if layout != plan.layout:
        metadata = _reordered(metadata, plan.layout, layout)
    if copied := [name for name in metadata.attributes if SIZE_NAMES.search(name)]:
        note = f"copied unchanged, update what describes the resolution: {join_names(copied)}"
        metadata = replace(metadata, notes=(*metadata.notes, note))
    return metadata


def hidden_from(mask: Array, region: Region) -> Array:
    """Which elements that a region reads are hidden by a mask; an axis of length 1 of the mask is broadcast."""
    return np.broadcast_to(mask, region.plan.input_shape)[slices(region.reads)]


def _reordered(metadata: Metadata, source: str, target: str) -> Metadata:
    """The metadata with dimensions in the order of another layout, and without chunks and shards."""
    places = [source.find(axis) for axis in target]
    hdf5, zarr = (
        {name: value for name, value in found.items() if name not in ("chunks", "shards")}
        for found in (metadata.hdf5_storage, metadata.zarr_storage)
    )
    dimensions = metadata.dimensions and tuple(metadata.dimensions[i] if i >= 0 else Dimension("", {}) for i in places)
    return replace(metadata, hdf5_storage=hdf5, zarr_storage=zarr, dimensions=dimensions)


def _grid(windows: AxisWindows) -> PixelGrid:
    """The grid of output pixels in the input: each pixel is as large as the stride and centred on its window."""
    if not isinstance(windows, Sliding):
        return PixelGrid(windows.size / windows.output, 0.0)
    return PixelGrid(windows.stride, (windows.extent - windows.stride) / 2 - windows.pad_begin)


def _with_coordinates_pooled(metadata: Metadata, plan: Plan) -> Metadata:
    """The metadata with coordinates pooled along the axes that have windows, and notes on those that are left out."""
    dimensions, notes = list(metadata.dimensions), list(metadata.notes)
    for i, each in ((axis.position, axis.windows) for axis in plan.axes):
        label, scales = dimensions[i].label, {}
        for name, scale in dimensions[i].scales.items():
            is_numeric = scale.values.dtype.kind in "biuf"
            if is_numeric and not each.empty_windows:
                missing = nodata_in(scale.attributes, scale.values.dtype.name)
                scales[name] = replace(scale, values=window_means(scale.values, each, missing))
            else:
                label = label or basename(name)
                why = "a window has none of them" if is_numeric else "they are not numbers"
                notes.append(f"left out, because {why}: the coordinates {name}")
        dimensions[i] = Dimension(label, scales)
    return replace(metadata, dimensions=tuple(dimensions), notes=tuple(notes))


def _with_valid_packing(metadata: Metadata, plan: Plan) -> Metadata:
    """The metadata with the scales, offsets and limits that hold for the result, and notes on those that do not."""
    op, image = plan.op, dict(metadata.image)
    attributes, left = _valid_packing(metadata.attributes, SCALE, OFFSET, plan)
    beyond = RANGE_ATTRIBUTES if plan.reducer.result in ("total", "float", "deviation") else ()
    left += [name for name in (*beyond, ACTUAL_RANGE) if attributes.pop(name, None) is not None]
    notes = list(metadata.notes)
    if left:
        notes.append(f"left out, because they do not hold for {op} pooling: the attributes {join_names(left)}")
    if plan.reducer.picks and SCALE in attributes and _number(attributes[SCALE]) < 0:
        notes.append(f"{SCALE} is negative: {op} of the stored numbers is the other extreme of what they stand for")
    meaning = {"attributes": _meaning(metadata.attributes, attributes, SCALE, OFFSET, op)}
    bands, lost, texts = dict[str, Any](), dict[str, None](), dict[str, list[str]]()
    for band, roles in image.pop("gdal", {}).items():
        kept, gone = _valid_packing(roles, "scale", "offset", plan)
        lost |= {f"GDAL's {role} (it does not hold for {op} pooling)": None for role in gone}
        bands |= {band: kept} if kept else {}
        texts.setdefault(_meaning(roles, kept, "scale", "offset", op), []).append(str(int(band) + 1))
    texts.pop("", None)
    of_bands = [f"{text} (band{'s' * (len(own) > 1)} {join_names(own)})" for text, own in texts.items()]
    meaning["tags"] = "; ".join(of_bands if "C" in plan.layout else texts)
    image |= {"gdal": bands} if bands else {}
    image |= {"lost": (*image.get("lost", ()), *lost)} if lost else {}
    return replace(metadata, image=image, attributes=attributes, meaning=meaning, notes=tuple(notes))


def _meaning(found: Mapping[str, Any], kept: Mapping[str, Any], scale: str, offset: str, op: str) -> str:
    """What the numbers of the result stand for by the scale and offset that hold for it; "" for themselves."""
    of_input, of_result = (_formula(each.get(scale, 1), each.get(offset, 0)) for each in (found, kept))
    if of_result or not of_input:
        return of_result and f"the numbers stand for {of_result}"
    return f"the numbers of the input stand for {of_input}, which does not hold for {op} pooling"


def _formula(scale: Any, offset: Any) -> str:
    """What a stored number stands for; "" for itself, and where scale or offset is no number."""
    factor, begin = _number(scale), _number(offset)
    if (factor, begin) == (1, 0) or not isfinite(factor + begin):
        return ""
    times, plus = (str(np.squeeze(each)).strip() for each in (scale, offset))  # float32 as it is written, as 0.01
    added = f" {'-' if begin < 0 else '+'} {plus.lstrip(' +-')}" if begin else ""
    return f"stored * {times}{added}" if factor != 1 else f"stored{added}"


def _valid_packing(found: Mapping[str, Any], scale: str, offset: str, plan: Plan) -> tuple[dict[str, Any], list[str]]:
    """The attributes with the scale and offset that hold for the result, and the names of those that do not."""
    kept, reducer = dict(found), plan.reducer
    if not {scale, offset} & kept.keys():
        return kept, []
    if reducer.result in ("element", "number") and plan.divisor_override is None:
        return kept, []
    factor, begin = _number(kept.get(scale, 1)), _number(kept.get(offset, 0))
    gone = [name for name in (scale, offset) if name in kept] if begin or not isfinite(factor) else []
    if reducer.result == "deviation" and isfinite(factor):
        gone = [offset] if begin else []
    if factor < 0 and (reducer.result == "deviation" or reducer.power) and scale not in gone:
        kept[scale] = kept[scale].lstrip(" -") if isinstance(kept[scale], str) else abs(kept[scale])
    return {name: value for name, value in kept.items() if name not in gone}, gone


def _number(value: Any) -> float:
    """The single number that an attribute holds; NaN where it holds something else."""
    try:
        return float(np.asarray(value, np.float64).item())
    except (TypeError, ValueError, ArithmeticError):
        return nan
