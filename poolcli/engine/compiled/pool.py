"""The numba engine: views an array as its kernel does, and runs the kernel over its tasks."""

from __future__ import annotations

import ctypes
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled import load
from poolcli.engine.compiled.arithmetic import LARGEST_SUM
from poolcli.engine.compiled.kernel_choice import KernelSpec, choose_kernel
from poolcli.engine.compiled.launch import address, run_tasks, work_array
from poolcli.engine.compiled.memory_order import choose_for_memory_order, contiguous, copy_into, strides_of
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
    default = choose_kernel(region, indices)
    plan = region.plan
    # Kernels write the bits of `out`, where they have integers also those of floats, except an element as another type.
    as_bits = plan.reducer.result != "element" or plan.dtype == plan.output_dtype
    longest = prod(max(w.longest, w.largest_divisor) for w in plan.windows)
    # Whether a sum may overflow although its mean does not.
    can_overflow = plan.dtype == "float64" and default.arithmetic.result in ("quotient", "by_reciprocal", "odd")
    sums_64_bits = plan.dtype in ("int64", "uint64") and plan.reducer.adds and plan.reducer.power is None
    squares_64_bits = plan.dtype == "float64" and plan.reducer.statistic == "deviation"

    def pool(x: Array, out: Array, threads: int | None) -> NDArray[np.int64] | None:
        if (sums_64_bits and not _sums_fit(x, longest)) or (squares_64_bits and not _squares_fit(x)):
            return _prepare_numpy(region, indices)(x, out, threads)
        x = _viewed_as(x, default.source)
        spec, source = default, default.view.transposed(x)
        if not source.flags.c_contiguous:
            spec = choose_for_memory_order(region, indices, default, x)
            source = spec.view.transposed(x)
        dtype = spec.arithmetic.output
        values = spec.view.transposed(out.view(dtype)) if as_bits else np.empty(spec.view.ordered_shape, dtype)
        positions = np.empty(spec.view.output_shape, np.int64) if indices else None
        run(spec, source, values, positions, threads)
        if not as_bits:
            with np.errstate(all="ignore"):
                out[...] = storable(spec.view.to_layout(values), out.dtype)
        if can_overflow and not np.isfinite(out).all() and not _finite_sums_fit(x, longest):
            again = np.empty_like(out)
            _prepare_numpy(region, indices)(x, again, threads)
            np.copyto(out, again, where=~np.isfinite(out))  # others keep their bits, whatever else is in the array
        return None if positions is None else _positions_in_plane(region, spec, positions)

    return pool


def run(spec: KernelSpec, source: Array, values: Array, positions: Array | None, threads: int | None) -> None:
    """Run the kernel from `source` to `values` and `positions`, whose axes are in the order of the view."""
    kernel, params = load(spec), spec.params
    if not source.flags.c_contiguous:
        strides = strides_of(spec, source)
        if strides is None:
            source = contiguous(source, threads)
        else:
            params = spec.params_for(strides)
    target = values if values.flags.c_contiguous else np.empty(values.shape, values.dtype)
    where = None if positions is None else address(positions)
    x, out, numbers = address(source), address(target), address(params)
    used = spec, source, target, positions, params  # `params` has the addresses of arrays of `spec`

    def run_range(first: int, last: int, _used: object = used) -> None:  # which a helper may outlast, if interrupted
        _array, work = work_array(spec.work_bytes)
        kernel(UNUSED, UNUSED, x, out, where, work, work + spec.iwork_offset, numbers, first, last)

    run_tasks(run_range, spec.launch.tasks, spec.bytes_read, threads)
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


def _positions_in_plane(region: Region, spec: KernelSpec, positions: Array) -> NDArray[np.int64]:
    """Positions in the order of the layout and in the plane of the whole input, from those in the slab."""
    plane = prod(region.input_shape[axis.position] for axis in region.plan.axes)
    if spec.view.axes[2].size > plane:  # a row has several planes, each of which is a window, so none is empty
        positions -= spec.view.axes[2].start // plane * plane
    rest = spec.view.to_layout(positions)
    if region.input_shape == region.plan.input_shape:
        return rest
    found, unit, is_empty = rest * 0, 1, rest < 0
    for axis in reversed(region.plan.axes):
        read = region.reads[axis.position]
        found += (rest % len(read) + read.start) * unit
        rest, unit = rest // len(read), unit * axis.windows.size
    found[is_empty] = -1
    return found
