"""What goes with an array, made to fit the pooled one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from poolcli.core.windows import AxisWindows, Sliding
from poolcli.formats import Metadata
from poolcli.formats.records import Dimension
from poolcli.plan import Plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.formats.image.geo import Grid

LONGEST_SCALE = 1_000_000  # values; longer ones are left out


def scaled_metadata(metadata: Metadata, plan: Plan) -> Metadata:
    """Fewer pixels to the inch, another size; the places along a pooled axis are the means of its windows'."""
    windows = {axis.name: axis.windows for axis in plan.axes}
    if metadata.image and {"H", "W"} <= windows.keys():
        metadata = replace(metadata, image=_scaled_image(metadata.image, windows["W"], windows["H"]))
    if metadata.dimensions:
        pooled = {axis.position: axis.windows for axis in plan.axes}
        dimensions = (
            _scaled_dimension(dimension, pooled[i]) if i in pooled else dimension
            for i, dimension in enumerate(metadata.dimensions)
        )
        metadata = replace(metadata, dimensions=tuple(dimensions))
    return metadata


def _scaled_image(found: Mapping[str, Any], across: AxisWindows, down: AxisWindows) -> dict[str, Any]:
    from poolcli.formats.image.metadata import scaled

    return scaled(found, _grid(across), _grid(down), (across.output, down.output))


def _grid(windows: AxisWindows) -> Grid:
    """Where the output's pixels lie in the input: each has the size of a stride, around the middle of its window."""
    from poolcli.formats.image.geo import Grid

    if not isinstance(windows, Sliding):
        return Grid(windows.size / windows.output, 0.0)
    return Grid(windows.stride, (windows.extent - windows.stride) / 2 - windows.pad_begin)


def _scaled_dimension(dimension: Dimension, windows: AxisWindows) -> Dimension:
    scales = {name: _means(values, windows) for name, values in dimension.scales.items()}
    return Dimension(dimension.label, {name: values for name, values in scales.items() if values is not None})


def _means(values: NDArray[Any], windows: AxisWindows) -> NDArray[Any] | None:
    """The mean place of every window; None where one is empty or the scale is very long."""
    import numpy as np

    if windows.empty_windows or max(windows.size, windows.output) > LONGEST_SCALE:
        return None
    spans = [windows.span(o) for o in range(windows.output)]
    return np.array([values[span.start : span.stop : span.step].mean(dtype=np.float64) for span in spans])
