"""From positions inside one plane of a slab to the indices that the plan's dialect defines."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from poolcli.layouts import size_of
from poolcli.plan import IndexPlan, Plan
from poolcli.plan.region import Ranges, Region

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray


def plane_to_plan(flat: NDArray[np.int64], region: Region, index: IndexPlan) -> NDArray[Any]:
    """Indices by the plan's rule from positions inside a plane, which are overwritten; -1 stays -1."""
    plan = region.plan
    count = size_of("C", plan.layout, plan.input_shape)
    nowhere = flat < 0 if plan.empty_windows or plan.missing else None
    if region.input_shape != plan.input_shape:
        flat = in_slab(flat, plan, region.reads, tuple(map(range, plan.input_shape)))
    plane = prod(windows.size for windows in plan.windows)
    if index.base == "channels_last":
        flat = flat * count + _positions("C", region)
    elif index.modulus < plane:
        flat %= index.modulus
    elif index.modulus > plane:  # of all channels, or of the whole array
        others = 0 if index.modulus == count * plane else _positions("N", region) * count
        flat += (others + _positions("C", region)) * plane
    if nowhere is not None:
        flat[nowhere] = -1
    return flat.astype(index.dtype, copy=False)


def in_slab(flat: NDArray[np.int64], plan: Plan, inner: Ranges, outer: Ranges) -> NDArray[np.int64]:
    """Positions inside a plane of the slab `outer` from those inside one of `inner`, which lies in it; -1 stays -1."""
    found, unit, rest = flat * 0, 1, flat
    for axis in reversed(plan.axes):
        read, of = inner[axis.position], outer[axis.position]
        found += (rest % len(read) + read.start - of.start) * unit
        rest = rest // len(read)
        unit *= len(of)
    found[flat < 0] = -1
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
