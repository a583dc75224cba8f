"""The numba engine: views an array as its kernel does, and runs the kernel over its tasks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled import load
from poolcli.engine.compiled.arithmetic import LARGEST_SUM
from poolcli.engine.compiled.choice import Prepared, choose_for_memory_order, choose_kernel
from poolcli.engine.compiled.launch import MIN_PER_THREAD, address, run_tasks, work_array
from poolcli.engine.compiled.view import strides_of, with_strides
from poolcli.engine.rounding import Array, storable
from poolcli.plan.plan import Region
from poolcli.windows import Cells

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
    kernel, view = default.kernel, default.view
    source, dtype = kernel.source, kernel.arithmetic.output
    is_in_order = view.order == tuple(range(len(region.outputs)))
    # Kernels write the bits of `out`, where they have integers also those of floats, except an element as another type.
    as_bits = plan.reducer.result != "element" or plan.dtype == plan.output_dtype
    longest = prod(max(w.longest, w.parts[0]) if isinstance(w, Cells) else w.longest for w in plan.windows)
    # Whether a sum may overflow although its mean does not.
    can_overflow = plan.dtype == "float64" and kernel.arithmetic.result in ("quotient", "odd")
    sums_64_bits = plan.dtype in ("int64", "uint64") and plan.reducer.adds and plan.reducer.power is None
    squares_64_bits = plan.dtype == "float64" and kernel.arithmetic.total == "deviation"
    has_one_step = is_in_order and as_bits and not (indices or can_overflow or sums_64_bits or squares_64_bits)
    run_small = _run_small(default) if has_one_step and default.bytes_read < 2 * MIN_PER_THREAD else None

    def pool(x: Array, out: Array, threads: int | None) -> NDArray[np.int64] | None:
        is_plain = x.dtype == source and out.dtype == dtype and x.flags.c_contiguous and out.flags.c_contiguous
        if is_plain and run_small is not None:
            run_small(x, out)
            return None
        if (sums_64_bits and not _sums_fit(x, longest)) or (squares_64_bits and not _squares_fit(x)):
            return _prepare_numpy(region, indices)(x, out, threads)
        x = _viewed_as(x, source)
        prepared, ordered = default, x if is_in_order else x.transpose(view.order)
        if not ordered.flags.c_contiguous:
            prepared = choose_for_memory_order(region, indices, default, x)
            ordered = x.transpose(prepared.view.order)
        its = prepared.view
        values = out.view(dtype).transpose(its.order) if as_bits else np.empty(its.ordered_shape, dtype)
        positions = np.empty(its.output_shape, np.int64) if indices else None
        run(prepared, ordered, values, positions, threads)
        if not as_bits:
            with np.errstate(all="ignore"):
                out[...] = storable(its.to_layout(values), out.dtype)
        if can_overflow and not np.isfinite(out).all() and not _finite_sums_fit(x, longest):
            again = np.empty_like(out)
            _prepare_numpy(region, indices)(x, again, threads)
            np.copyto(out, again, where=~np.isfinite(out))  # others keep their bits, whatever else is in the array
        return None if positions is None else _positions_in_plane(region, prepared, positions)

    return pool


def _run_small(prepared: Prepared) -> Callable[[Array, Array], object]:
    """The same as `run` for arrays in C order that one thread pools: a call of few microseconds."""
    call = partial(load, prepared.kernel)
    numbers, factors, tasks = address(prepared.table), address(prepared.factors), prepared.tasks

    def run_small(x: Array, out: Array) -> None:
        _array, work = work_array(prepared.work_bytes)
        call()(UNUSED, UNUSED, address(x), address(out), UNUSED, work, numbers, factors, 0, tasks)

    return run_small


def run(prepared: Prepared, source: Array, values: Array, positions: Array | None, threads: int | None) -> None:
    """Run the kernel from `source` to `values`, whose axes are in the order of the view, and find `positions`."""
    kernel, table = load(prepared.kernel), prepared.table
    search = load(prepared.search) if prepared.search is not None else None
    if not source.flags.c_contiguous:
        strides = strides_of(prepared.view, source)
        if strides is None:
            source = np.ascontiguousarray(source)
        else:
            table = with_strides(table, strides)
    target = values if values.flags.c_contiguous else np.empty(values.shape, values.dtype)
    x, out, numbers, factors = address(source), address(target), address(table), address(prepared.factors)
    used = source, target, positions, table, prepared
    tasks, rows = prepared.tasks // prepared.units, prepared.view.rows // prepared.units

    def run_range(first: int, last: int, _used: object = used) -> None:  # which a helper may outlast, if interrupted
        _array, work = work_array(prepared.work_bytes)
        kernel(UNUSED, UNUSED, x, out, UNUSED, work, numbers, factors, first * tasks, last * tasks)
        if search is not None and positions is not None:
            places = address(positions)
            search(UNUSED, UNUSED, x, out, places, work, numbers, factors, first * rows, last * rows)

    run_tasks(run_range, prepared.units, prepared.bytes_read, threads)
    if target is not values:
        np.copyto(values, target)


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
