"""What goes with an array, made to fit the pooled one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from poolcli.formats import Metadata
from poolcli.formats.checks import named
from poolcli.formats.records import Dimension
from poolcli.plan import Plan
from poolcli.windows import AxisWindows, Sliding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.formats.image.geotiff import Grid

LONGEST_SCALE = 1_000_000  # values; longer ones are left out
PER_AXIS = {"chunks": 1, "shards": 1, "maxshape": 0}  # of how an array is stored, with what a new axis has
SIZES = re.compile(r"spacing|resolution|transform|(pixel|voxel|element|grid|cell)_?(size|width|height)", re.IGNORECASE)


def scaled_metadata(metadata: Metadata, plan: Plan, layout: str) -> Metadata:
    """Fewer pixels to the inch, another size; the places along a pooled axis are the means of its windows'.

    What there is for each axis is in the order of `layout`, in which the output is stored.
    """
    windows = {axis.name: axis.windows for axis in plan.axes}
    if metadata.image and {"H", "W"} <= windows.keys():
        metadata = replace(metadata, image=_scaled_image(metadata.image, windows["W"], windows["H"]))
    if metadata.dimensions:
        metadata = _with_scales_pooled(metadata, {axis.position: axis.windows for axis in plan.axes})
    if layout != plan.layout:
        metadata = _turned(metadata, plan.layout, layout)
    kept = [name for name in metadata.attributes if SIZES.search(name)]
    if kept:
        were, them = ("was", "it if it describes") if len(kept) == 1 else ("were", "them if they describe")
        said = f"{named(kept)} {were} copied unchanged; update {them} the resolution"
        metadata = replace(metadata, notes=(*metadata.notes, said))
    return metadata


def _turned(metadata: Metadata, source: str, target: str) -> Metadata:
    """What there is for each axis in the order of another layout, whose further axes have nothing."""
    places = [source.find(axis) for axis in target]

    def stored(found: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: tuple(value[i] if i >= 0 else PER_AXIS[name] for i in places) if name in PER_AXIS and value else value
            for name, value in found.items()
        }

    dimensions = metadata.dimensions and tuple(metadata.dimensions[i] if i >= 0 else Dimension("", {}) for i in places)
    return replace(metadata, dataset=stored(metadata.dataset), store=stored(metadata.store), dimensions=dimensions)


def _scaled_image(found: Mapping[str, Any], across: AxisWindows, down: AxisWindows) -> dict[str, Any]:
    from poolcli.formats.image.metadata import scaled

    return scaled(found, _grid(across), _grid(down), (across.output, down.output))


def _grid(windows: AxisWindows) -> Grid:
    """Where the output's pixels lie in the input: each has the size of a stride, around the middle of its window."""
    from poolcli.formats.image.geotiff import Grid

    if not isinstance(windows, Sliding):
        return Grid(windows.size / windows.output, 0.0)
    return Grid(windows.stride, (windows.extent - windows.stride) / 2 - windows.pad_begin)


def _with_scales_pooled(metadata: Metadata, windows: Mapping[int, AxisWindows]) -> Metadata:
    dimensions, lost = [], []
    for i, dimension in enumerate(metadata.dimensions):
        scales = {}
        for name, scale in dimension.scales.items():
            values = _means(scale.values, windows[i]) if i in windows else scale.values
            if values is None:
                lost.append(name)
            else:
                scales[name] = replace(scale, values=values)
        dimensions.append(Dimension(dimension.label, scales))
    metadata = replace(metadata, dimensions=tuple(dimensions))
    if not lost:
        return metadata
    said = f"left out, for they are very long or a window has none of them: the values along an axis in {named(lost)}"
    return replace(metadata, notes=(*metadata.notes, said))


def _means(values: NDArray[Any], windows: AxisWindows) -> NDArray[Any] | None:
    """The mean place of every window; None where one is empty or the scale is very long."""
    import numpy as np

    if windows.empty_windows or max(windows.size, windows.output) > LONGEST_SCALE:
        return None
    spans = [windows.span(o) for o in range(windows.output)]
    return np.array([values[span.start : span.stop : span.step].mean(dtype=np.float64) for span in spans])
