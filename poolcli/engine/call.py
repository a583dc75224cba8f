"""What computes an array of a shape and type again and again, allocates its results in the order that the axes of the
input have in memory, and turns positions inside a plane into indices.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.dtypes import lookup
from poolcli.errors import RequestError
from poolcli.layouts import size_of
from poolcli.plan import IndexPlan, Plan
from poolcli.plan.region import Ranges, Region
from poolcli.system.limits import allowed_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.choose import Pool


def plane_to_plan(flat: NDArray[np.int64], region: Region, index: IndexPlan, hides: bool) -> NDArray[Any]:
    """Indices by the plan's rule from positions inside a plane, which are overwritten; -1 stays -1, which there is only
    where windows are empty or elements are missing, by the plan or because the call `hides` them.
    """
    plan = region.plan
    count = size_of("C", plan.layout, plan.input_shape)
    nowhere = flat < 0 if hides or plan.empty_windows or plan.missing else None
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


def slices(part: Ranges, whole: Ranges) -> tuple[slice, ...]:
    """Where a part lies in an array of the whole."""
    return tuple(slice(a.start - b.start, a.stop - b.start) for a, b in zip(part, whole, strict=True))


def _positions(letter: str, region: Region) -> NDArray[np.int64]:
    """The position along axis `letter`, shaped to broadcast over the output; 0 where the layout has no such axis."""
    layout = region.plan.layout
    if letter not in layout:
        return np.zeros((1,) * len(layout), np.int64)
    at = layout.index(letter)
    outputs = region.outputs[at]
    return np.arange(outputs.start, outputs.stop).reshape([-1 if i == at else 1 for i in range(len(layout))])


@dataclass(frozen=True, slots=True)
class Call:
    """A region and the function that pools it: all that need not be found anew for another array of that shape.
    `hides` says whether that function takes elements for missing that the plan does not.
    """

    region: Region
    indices: bool
    pool: Pool
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    hides: bool = False

    def __call__(
        self, slab: NDArray[Any], out: NDArray[Any] | None = None, threads: int | None = None
    ) -> tuple[NDArray[Any], NDArray[np.int64] | NDArray[np.int32] | None]:
        """Pooled values and indices, as `run_region` gives them."""
        if slab.shape != self.input_shape:
            raise RequestError(f"the input has shape {slab.shape}, but the plan reads {self.input_shape}")
        if threads is not None:
            threads = allowed_threads(threads)
        if out is None:
            target = self._new(slab)
        else:
            target, slab = self._given(out), slab.copy() if np.may_share_memory(slab, out) else slab
        if target.size:
            flat = self.pool(slab, target, threads)
        else:
            flat = np.empty(target.shape, np.int64) if self.indices else None
        index = self.region.plan.index
        return target, None if flat is None or index is None else plane_to_plan(flat, self.region, index, self.hides)

    def _new(self, slab: NDArray[Any]) -> NDArray[Any]:
        try:
            return empty_like(self.region.plan, slab, self.output_shape, self.dtype, self.indices)
        except (MemoryError, ValueError) as error:
            raise too_large(self.output_shape, self.dtype) from error

    def _given(self, out: NDArray[Any]) -> NDArray[Any]:
        if out.shape != self.output_shape or out.dtype != self.dtype:
            wanted = f"the result has {self.output_shape} and {self.dtype}"
            raise RequestError(f"out has shape {out.shape} and dtype {out.dtype}, {wanted}")
        if not out.flags.writeable:
            raise RequestError("out cannot be written to (its writeable flag is off)")
        return out


def too_large(shape: tuple[int, ...], dtype: np.dtype[Any]) -> RequestError:
    """The refusal of an output that no memory holds."""
    return RequestError(f"the output needs {prod(shape) * dtype.itemsize:,} bytes, more than can be allocated")


class Order(NamedTuple):
    """The axes of a layout as computing goes through them: those outside of the axes that windows slide along, these,
    and those inside of them.
    """

    outside: tuple[int, ...]
    spatial: tuple[int, ...]
    inside: tuple[int, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """All of them."""
        return (*self.outside, *self.spatial, *self.inside)


def is_exact(plan: Plan) -> bool:
    """Whether values are the same in whatever order elements are joined."""
    source, reducer = lookup(plan.dtype), plan.reducer
    if reducer.statistic:
        return reducer.statistic == "median" or plan.has_exact_squares
    sums_integers = source.kind != "float" and reducer.power is None
    return sums_integers or reducer.better is not None


def order_of(plan: Plan, x: NDArray[Any], indices: bool) -> Order:
    """The order that `x` has in memory: inside are the axes whose elements lie closer than those of all axes that
    windows slide along (channels that lie last, wherever the layout has them). These are in its order too where the
    same values, `outputs` of them, can be computed so; the first of several places depends on the order.
    """
    steps = [abs(step) if length > 1 else 0 for step, length in zip(x.strides, x.shape, strict=True)]
    spatial = [axis.position for axis in plan.axes]
    if not indices:
        lying = iter(sorted((i for i in spatial if steps[i]), key=lambda i: -steps[i]))
        turned = [next(lying) if steps[i] else i for i in spatial]
        if is_exact(plan):
            spatial = turned
    limit = min((steps[i] for i in spatial if steps[i]), default=0)
    inside = sorted((i for i, step in enumerate(steps) if 0 < step < limit), key=lambda i: -steps[i])
    outside = (i for i in range(x.ndim) if i not in spatial and i not in inside)
    return Order(tuple(outside), tuple(spatial), tuple(inside))


def empty_like(
    plan: Plan, x: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any], indices: bool = False
) -> NDArray[Any]:
    """A new array for what is made of `x`: in C order, but channels lie last in memory where they do so in `x`, and
    rows and columns are exchanged where they are so there and may be pooled so.
    """
    if x.flags.c_contiguous:
        return np.empty(shape, dtype)
    order = order_of(plan, x, indices)
    if not order.inside and order.spatial == tuple(axis.position for axis in plan.axes):
        return np.empty(shape, dtype)
    return np.empty([shape[i] for i in order.axes], dtype).transpose(np.argsort(order.axes))
