"""The numba engine: views an array as its kernel does, and runs the kernel over its tasks."""

from __future__ import annotations

import ctypes
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled import load
from poolcli.engine.compiled.arithmetic import LARGEST_SUM
from poolcli.engine.compiled.choice import Prepared, choose_for_memory_order, choose_kernel
from poolcli.engine.compiled.launch import address, contiguous, copy_into, run_tasks, work_array
from poolcli.engine.compiled.view import strides_of
from poolcli.engine.rounding import Array, storable
from poolcli.plan.plan import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.choose import Pool

# numba's functions begin with pointers to a return value and to an exception; kernels have neither.
_unused = ctypes.create_string_buffer(64)
UNUSED = ctypes.addressof(_unused)
MAX_EXPONENT = 400  # magnitude; squares of such numbers, and their sums, stay normal float64
MAX_SUM = float(np.finfo(np.float64).max) / 2  # partial sums are rounded


def prepare(region: Region, indices: bool) -> Pool:
    """The function that pools the region of any array."""
    default, plan = choose_kernel(region, indices), region.plan
    kernel, is_in_order = default.kernel, default.view.order == tuple(range(len(region.outputs)))
    # Kernels write the bits of `out`, where they have integers also those of floats, except an element as another type.
    as_bits = plan.reducer.result != "element" or plan.dtype == plan.output_dtype
    longest = prod(max(w.longest, w.largest_divisor) for w in plan.windows)
    # Whether a sum may overflow although its mean does not.
    can_overflow = plan.dtype == "float64" and kernel.arithmetic.result in ("quotient", "odd")
    sums_64_bits = plan.dtype in ("int64", "uint64") and plan.reducer.adds and plan.reducer.power is None
    squares_64_bits = plan.dtype == "float64" and plan.reducer.statistic == "deviation"

    def pool(x: Array, out: Array, threads: int | None) -> NDArray[np.int64] | None:
        if (sums_64_bits and not _sums_fit(x, longest)) or (squares_64_bits and not _squares_fit(x)):
            return _prepare_numpy(region, indices)(x, out, threads)
        x = _viewed_as(x, kernel.source)
        prepared = default
        source = x if is_in_order else x.transpose(default.view.order)
        if not source.flags.c_contiguous:
            prepared = choose_for_memory_order(region, indices, default, x)
            source = x.transpose(prepared.view.order)
        view, dtype = prepared.view, kernel.arithmetic.output
        values = out.view(dtype).transpose(view.order) if as_bits else np.empty(view.ordered_shape, dtype)
        positions = np.empty(view.output_shape, np.int64) if indices else None
        run(prepared, source, values, positions, threads)
        if not as_bits:
            with np.errstate(all="ignore"):
                out[...] = storable(view.to_layout(values), out.dtype)
        if can_overflow and not np.isfinite(out).all() and not _finite_sums_fit(x, longest):
            again = np.empty_like(out)
            _prepare_numpy(region, indices)(x, again, threads)
            np.copyto(out, again, where=~np.isfinite(out))  # others keep their bits, whatever else is in the array
        return None if positions is None else _positions_in_plane(region, prepared, positions)

    return pool


def run(prepared: Prepared, source: Array, values: Array, positions: Array | None, threads: int | None) -> None:
    """Run the kernel from `source` to `values` and `positions`, whose axes are in the order of the view."""
    kernel, table = load(prepared.kernel), prepared.table
    if not source.flags.c_contiguous:
        strides = strides_of(prepared.view, source)
        if strides is None:
            source = contiguous(source, threads)
        else:
            table = np.concatenate((np.array(strides, np.int64), table[len(strides) :]))
    target = values if values.flags.c_contiguous else np.empty(values.shape, values.dtype)
    where = None if positions is None else address(positions)
    x, out, numbers, factors = address(source), address(target), address(table), address(prepared.factors)
    used = source, target, positions, table, prepared

    def run_range(first: int, last: int, _used: object = used) -> None:  # which a helper may outlast, if interrupted
        _array, work = work_array(prepared.work_bytes)
        kernel(UNUSED, UNUSED, x, out, where, work, work + prepared.spare_at, numbers, factors, first, last)

    run_tasks(run_range, prepared.tasks, prepared.bytes_read, threads)
    if target is not values:
        copy_into(values, target, threads)


def _viewed_as(x: Array, dtype: np.dtype[Any]) -> Array:
    """`x` viewed as `dtype`, copied if its byte order is not native."""
    return x if x.dtype == dtype else x.astype(x.dtype.newbyteorder("="), copy=False).view(dtype)


def _sums_fit(x: Array, longest: int) -> bool:
    """Whether sums of `longest` of its integers fit into 64 bits."""
    limit = LARGEST_SUM // longest
    return x.size == 0 or (-limit <= int(x.min()) and int(x.max()) <= limit)


def _squares_fit(x: Array) -> bool:
    """Whether standard deviations can be computed without scaling."""
    return int(abs(np.frexp(x)[1]).max(initial=0)) <= MAX_EXPONENT


def _finite_sums_fit(x: Array, longest: int) -> bool:
    """Whether no sum of `longest` of its finite numbers overflows: infinite means are due to infinite elements."""
    return float(np.abs(x).max(initial=0, where=np.isfinite(x))) <= MAX_SUM / longest


def _prepare_numpy(region: Region, indices: bool) -> Pool:
    from poolcli.engine.numpy import prepare

    return prepare(region, indices)


def _positions_in_plane(region: Region, prepared: Prepared, positions: Array) -> NDArray[np.int64]:
    """Positions in the order of the layout and in the plane of the whole input, from those in the slab."""
    plane = prod(region.input_shape[axis.position] for axis in region.plan.axes)
    columns = prepared.view.axes[2]
    if columns.size > plane:  # a row has several planes, each of which is a window, so none is empty
        positions -= columns.start // plane * plane
    rest = prepared.view.to_layout(positions)
    if region.input_shape == region.plan.input_shape:
        return rest
    found, unit, is_empty = rest * 0, 1, rest < 0
    for axis in reversed(region.plan.axes):
        read = region.reads[axis.position]
        found += (rest % len(read) + read.start) * unit
        rest, unit = rest // len(read), unit * axis.windows.size
    found[is_empty] = -1
    return found
