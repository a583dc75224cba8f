"""From positions inside one plane of a slab to the indices that the plan's dialect defines."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from poolcli.core.layouts import size_of
from poolcli.plan import IndexPlan
from poolcli.plan.region import Region

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray


def plane_to_plan(flat: NDArray[np.int64], region: Region, index: IndexPlan) -> NDArray[Any]:
    """Indices by the plan's rule from positions inside a plane, which are overwritten; -1 stays -1."""
    plan = region.plan
    channels, batch = (_positions(letter, region) for letter in "CN")
    count = size_of("C", plan.layout, plan.input_shape)
    nowhere = flat < 0 if plan.empty_windows else None
    if region.input_shape != plan.input_shape:
        flat = _in_whole_plane(flat, region)
    if index.base == "channels_last":
        flat = flat * count + channels
    else:
        plane = prod(windows.size for windows in plan.windows)
        if index.modulus < plane:
            flat %= index.modulus
        else:  # a multiple of the plane, so that nothing carries over
            flat += (batch * count + channels) * plane % index.modulus
    if nowhere is not None:
        flat[nowhere] = -1
    return flat.astype(index.dtype, copy=False)


def _in_whole_plane(flat: NDArray[np.int64], region: Region) -> NDArray[np.int64]:
    """Positions in the plane of the whole array from those in the slab of it that `region` reads."""
    found, unit = flat * 0, 1
    for axis in reversed(region.plan.axes):
        read = region.reads[axis.position]
        found += (flat % len(read) + read.start) * unit
        flat = flat // len(read)
        unit *= axis.windows.size
    return found


def _positions(letter: str, region: Region) -> NDArray[np.int64]:
    """The position along axis `letter`, shaped to broadcast over the output; 0 where the layout has no such axis."""
    import numpy as np

    layout = region.plan.layout
    if letter not in layout:
        return np.zeros((1,) * len(layout), np.int64)
    at = layout.index(letter)
    outputs = region.outputs[at]
    return np.arange(outputs.start, outputs.stop).reshape([-1 if i == at else 1 for i in range(len(layout))])
