"""A prepared computation (`Call`) that pools any number of arrays of one shape, type and region; also the memory order
of its results, and indices by the plan's rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from poolcli.dtypes import lookup
from poolcli.engine.choose import Pool
from poolcli.errors import RequestError
from poolcli.layouts import batch_axes, size_of
from poolcli.plan import IndexPlan, Plan
from poolcli.plan.plan import Region
from poolcli.system.processes import allowed_threads

Array = np.ndarray[Any, np.dtype[Any]]


def indices_by_plan(flat: Array, region: Region, index: IndexPlan, has_mask: bool) -> Array:
    """Convert flat positions in the input's plane, in place, to indices by the plan's rule. Empty windows stay -1."""
    plan = region.plan
    count = size_of("C", plan.layout, plan.input_shape)
    channels = _positions((plan.layout.find("C"),) if "C" in plan.layout else (), region)
    is_empty = flat < 0 if has_mask or plan.empty_windows or plan.missing else None
    plane = prod(windows.size for windows in plan.windows)
    if index.base == "channels_last":
        flat = flat * count + channels
    elif index.modulus < plane:
        flat %= index.modulus
    elif index.modulus > plane:  # of all channels, or of the whole array
        others = 0 if index.modulus == count * plane else _positions(batch_axes(plan.layout), region) * count
        flat += (others + channels) * plane
    if is_empty is not None:
        flat[is_empty] = -1
    return flat.astype(index.dtype, copy=False)


def _positions(axes: Sequence[int], region: Region) -> Array:
    """The flat indices along these axes, shaped to broadcast over the output."""
    found, rank = np.zeros((1,) * len(region.outputs), np.int64), len(region.outputs)
    for at in axes:
        own = np.arange(region.outputs[at].start, region.outputs[at].stop)
        found = found * region.plan.input_shape[at] + own.reshape([-1 if i == at else 1 for i in range(rank)])
    return found


@dataclass(frozen=True, slots=True)
class Call:
    """A region and the function that pools it, for any number of arrays. `has_mask`: whether that function has a mask
    of missing elements. `pool` is None for an output without elements.
    """

    region: Region
    indices: bool
    pool: Pool | None
    dtype: np.dtype[Any]
    has_mask: bool = False

    def __call__(self, slab: Array, out: Array | None = None, threads: int | None = None) -> tuple[Array, Array | None]:
        """Pooled values of the `slab` of the input that the region reads, and their indices in the whole array."""
        if slab.shape != self.region.input_shape:
            raise RequestError(f"the input has shape {slab.shape}, but the plan reads {self.region.input_shape}")
        if threads is not None:
            threads = allowed_threads(threads)
        shape, index = self.region.output_shape, self.region.plan.index
        if out is None:
            try:
                out = empty_like(self.region.plan, slab, shape, self.dtype, self.indices)
            except (MemoryError, ValueError) as error:
                raise too_large(shape, self.dtype) from error
        elif out.shape != shape or out.dtype != self.dtype:
            wanted = f"the result has {shape} and {self.dtype}"
            raise RequestError(f"out has shape {out.shape} and dtype {out.dtype}, {wanted}")
        elif not out.flags.writeable:
            raise RequestError("out cannot be written to (its writeable flag is off)")
        elif np.may_share_memory(slab, out):
            slab = slab.copy()
        empty = np.empty(shape, np.int64) if self.indices and not self.pool else None
        flat = self.pool(slab, out, threads) if self.pool else empty
        if flat is None or index is None:
            return out, None
        return out, indices_by_plan(flat, self.region, index, self.has_mask)


def too_large(shape: tuple[int, ...], dtype: np.dtype[Any]) -> RequestError:
    """The error for an output that does not fit into memory."""
    return RequestError(f"the output needs {prod(shape) * dtype.itemsize:,} bytes, more than can be allocated")


class Order(NamedTuple):
    """The axes in the order in which kernels traverse them: outer axes, the spatial ones, and inner axes, such as
    channels that are last in memory.
    """

    outside: tuple[int, ...]
    spatial: tuple[int, ...]
    inside: tuple[int, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """All of them."""
        return (*self.outside, *self.spatial, *self.inside)


def is_exact(plan: Plan) -> bool:
    """Whether the result is the same bits in any order of the elements of a window."""
    reducer = plan.reducer
    if reducer.statistic:
        return reducer.result != "deviation" or plan.has_exact_squares
    return reducer.better is not None or (lookup(plan.dtype).kind != "float" and reducer.power is None)


def order_of(plan: Plan, x: Array, indices: bool) -> Order:
    """The order of the axes of `x` in memory. Inner axes have smaller strides than all spatial ones.

    Spatial axes are in memory order too if the result does not depend on it: indices do, as the first of equal elements
    wins, and so do sums of floats.
    """
    steps = [abs(step) if length > 1 else 0 for step, length in zip(x.strides, x.shape, strict=True)]
    spatial = [axis.position for axis in plan.axes]
    if not indices:
        by_stride = iter(sorted((i for i in spatial if steps[i]), key=lambda i: -steps[i]))
        if is_exact(plan):
            spatial = [next(by_stride) if steps[i] else i for i in spatial]
    limit = min((steps[i] for i in spatial if steps[i]), default=0)
    inside = sorted((i for i, step in enumerate(steps) if 0 < step < limit), key=lambda i: -steps[i])
    outside = (i for i in range(x.ndim) if i not in spatial and i not in inside)
    return Order(tuple(outside), tuple(spatial), tuple(inside))


def empty_like(plan: Plan, x: Array, shape: tuple[int, ...], dtype: np.dtype[Any], indices: bool = False) -> Array:
    """Allocate the result of pooling `x` in the memory order of `x` (see `order_of`), usually C order."""
    if x.flags.c_contiguous:
        return np.empty(shape, dtype)
    order = order_of(plan, x, indices)
    if not order.inside and order.spatial == tuple(axis.position for axis in plan.axes):
        return np.empty(shape, dtype)
    return np.empty([shape[i] for i in order.axes], dtype).transpose(np.argsort(order.axes))
