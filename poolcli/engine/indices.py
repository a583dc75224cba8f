"""From positions inside one plane to the indices that the plan's dialect defines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolcli.core.layouts import size_of
from poolcli.plan import IndexPlan, Plan

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray


def plane_to_plan(flat: NDArray[np.int64], plan: Plan, index: IndexPlan) -> NDArray[Any]:
    """Indices by the plan's rule from positions inside a plane, which are overwritten; -1 stays -1."""
    channels, batch = (_positions(letter, flat.shape, plan) for letter in "CN")
    count = size_of("C", plan.layout, plan.entire.input_shape)
    nowhere = flat < 0 if plan.empty_windows else None
    if plan.cut_from:
        flat = _in_entire_plane(flat, plan)
    if index.base == "channels_last":
        flat = flat * count + channels
    else:
        plane = 1
        for axis in plan.axes:
            plane *= axis.windows.entire.size
        if index.modulus < plane:
            flat %= index.modulus
        else:  # a multiple of the plane, so that nothing carries over
            flat += (batch * count + channels) * plane % index.modulus
    if nowhere is not None:
        flat[nowhere] = -1
    return flat.astype(index.dtype, copy=False)


def _in_entire_plane(flat: NDArray[np.int64], plan: Plan) -> NDArray[np.int64]:
    """Positions in the plane of the whole array from those in the part of it that `plan` reads."""
    found, unit = flat * 0, 1
    for axis in reversed(plan.axes):
        found += (flat % axis.windows.size + plan.origin[axis.position]) * unit
        flat = flat // axis.windows.size
        unit *= axis.windows.entire.size
    return found


def _positions(letter: str, shape: tuple[int, ...], plan: Plan) -> NDArray[np.int64]:
    """The position along axis `letter`, shaped to broadcast over the output; 0 where the layout has no such axis."""
    import numpy as np

    if letter not in plan.layout:
        return np.zeros((1,) * len(shape), np.int64)
    at = plan.layout.index(letter)
    first = plan.origin[at] if plan.cut_from else 0
    return first + np.arange(shape[at]).reshape([-1 if i == at else 1 for i in range(len(shape))])
