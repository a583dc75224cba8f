"""The numba engine: brings a slab into the canonical view and runs the kernel that was chosen over its tasks."""

from __future__ import annotations

import ctypes
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled import load, load_kept
from poolcli.engine.compiled.arithmetic import LARGEST_SUM
from poolcli.engine.compiled.choose import Choice, choose_kernel
from poolcli.engine.compiled.launch import Buffers, address, share_out
from poolcli.engine.compiled.memory_order import apart_of, choose_for_order, contiguous, copy_into
from poolcli.engine.rounding import Array
from poolcli.plan.plan import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.choose import Pool

_NOTHING = ctypes.create_string_buffer(64)
NOWHERE = ctypes.addressof(_NOTHING)  # where numba puts a result and an exception, of which there are none
_totals = Buffers()
LARGEST_EXPONENT = 400  # in size
SCALE = 2.0**-64  # brings sums of float64 back into range where they overflow


def prepare(region: Region, indices: bool) -> Pool:
    """What pools the region, of any array that it reads."""
    in_order = choose_kernel(region, indices)
    load_kept(in_order)
    plan = region.plan  # an int16 that wins is a number, also where float16 is wanted
    as_bits = plan.reducer.result != "element" or plan.dtype == plan.output_dtype
    can_overflow, longest = _can_overflow(in_order), prod(max(w.longest, w.largest_divisor) for w in plan.windows)
    sums_64_bits = plan.dtype in ("int64", "uint64") and plan.reducer.adds and plan.reducer.power is None
    squares_64_bits = plan.dtype == "float64" and plan.reducer.statistic == "deviation"

    def pool(x: Array, out: Array, threads: int | None) -> NDArray[np.int64] | None:
        if (sums_64_bits and not _fits(x, longest)) or (squares_64_bits and not _squares_fit(x)):
            from poolcli.engine.numpy import prepare as prepare_numpy

            return prepare_numpy(region, indices)(x, out, threads)
        x = _as_numbers(x, in_order.source)
        choice = in_order if in_order.view.is_contiguous(x) else choose_for_order(region, indices, in_order, x)
        source, values = choice.view.of_input(x), choice.view.target(out, choice.made, as_bits)
        positions = np.empty(choice.view.output_shape, np.int64) if indices else None
        run(choice, source, values, positions, threads)
        if can_overflow and not np.isfinite(values).all():
            values = _rescued(choice, in_order, x, values, threads)
        if values is not out:
            choice.view.store(out, values, as_bits)
        return None if positions is None else _inside_plane(region, choice, positions)

    return pool


def run(choice: Choice, source: Array, values: Array, positions: Array | None, threads: int | None) -> None:
    """Has the kernel pool `source` to `values` and `positions`; all have their axes in the order of its view."""
    kernel, (integers, divisors) = load(choice), choice.numbers
    if not source.flags.c_contiguous:
        apart = apart_of(choice, source)
        if apart is None:
            source = contiguous(source, threads)
        else:
            integers = choice.with_apart(apart)
    target = values if values.flags.c_contiguous else np.empty(values.shape, values.dtype)
    where = None if positions is None else address(positions)
    x, out, numbers, by = address(source), address(target), address(integers), address(divisors)

    def pool(first: int, last: int) -> None:
        _owner, totals = _totals.of(choice.buffered)
        kernel(NOWHERE, NOWHERE, x, out, where, totals, totals + choice.lines_at, numbers, by, first, last)

    share_out(pool, choice.loops.tasks, choice.work, threads)
    if target is not values:
        copy_into(values, target, threads)


def _as_numbers(x: Array, dtype: np.dtype[Any]) -> Array:
    """`x` seen as numbers of that type, copied where its bytes are in another order."""
    return x if x.dtype == dtype else x.astype(x.dtype.newbyteorder("="), copy=False).view(dtype)


def _can_overflow(choice: Choice) -> bool:
    """Whether sums may leave the range that the means lie in."""
    return choice.dtype == "float64" and choice.how.result in ("quotient", "byreciprocal", "odd")


def _fits(x: Array, longest: int) -> bool:
    """Whether no sum of that many of its integers leaves 64 bits."""
    most = LARGEST_SUM // longest
    return x.size == 0 or (-most <= int(x.min()) and int(x.max()) <= most)


def _squares_fit(x: Array) -> bool:
    """Whether squares of its numbers stay so far from the ends of the range that deviations need no scaling."""
    return int(abs(np.frexp(x)[1]).max(initial=0)) <= LARGEST_EXPONENT


def _rescued(choice: Choice, in_order: Choice, x: Array, values: Array, threads: int | None) -> Array:
    """The means, where they are not finite from sums of scaled numbers: a sum may leave the range, its mean cannot."""
    smaller, scaled = in_order.view.of_input(x * SCALE), np.empty(in_order.view.ordered_shape, values.dtype)
    run(in_order, smaller, scaled, None, threads)
    scaled = choice.view.of_input(in_order.view.to_layout(scaled))
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(values), values, scaled / SCALE)


def _inside_plane(region: Region, choice: Choice, positions: Array) -> NDArray[np.int64]:
    """Positions in the order of the layout; where several planes lie in one row, they count inside their own."""
    plane = prod(region.input_shape[axis.position] for axis in region.plan.axes)
    if choice.view.axes[2].size > plane:
        positions -= choice.view.axes[2].begin // plane * plane  # every window is a whole plane, so none is of nothing
    return choice.view.to_layout(positions)
