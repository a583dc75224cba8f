"""The numba engine: brings a slab into the canonical view and runs the kernel that was chosen over its tasks."""

from __future__ import annotations

import ctypes
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled.arithmetic import Quotient
from poolcli.engine.compiled.choose import Choice, choose_kernel
from poolcli.engine.compiled.geometry import Wide
from poolcli.engine.compiled.load import load
from poolcli.engine.compiled.tasks import share_out
from poolcli.plan.region import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array = np.ndarray[Any, np.dtype[Any]]
_NOTHING = ctypes.create_string_buffer(64)
NOWHERE = ctypes.addressof(_NOTHING)  # where numba puts a result and an exception, of which there are none
SCALE = 2.0**-64  # brings sums of float64 back into range where they overflow


def pool(region: Region, x: Array, out: Array, *, indices: bool, threads: int) -> NDArray[np.int64] | None:
    """Writes the pooled values to `out`; returns positions inside the plane of `x` (-1: none) when asked."""
    choice = choose_kernel(region, indices)
    source = choice.view.of_input(x.copy() if np.may_share_memory(x, out) else x)
    source = source.view(np.int64) if isinstance(choice.how, Wide) else source
    values = choice.view.target(out, choice.made)
    if indices:
        positions = np.empty(choice.view.output_shape, np.int64)
        _run(choice, (source, values, positions), threads)
        choice.view.store(out, values)
        return _inside_plane(region, choice, positions)
    _run(choice, (source, values), threads)
    if _can_overflow(choice) and not np.isfinite(values).all():
        values = _rescued(choice, source, values, threads)
    choice.view.store(out, values)
    return None


def _run(choice: Choice, arrays: tuple[Array, ...], threads: int) -> None:
    """Runs the kernel over all tasks, in tiles that `threads` threads share."""
    kernel, (numbers, divisors) = load(choice), choice.numbers
    x, out, where = (*map(_address, arrays), None)[:3]
    plan = _address(numbers), _address(divisors)

    def call(first: int, last: int) -> None:
        totals, lines = np.empty(choice.scratch, choice.totals), np.empty(choice.lines, np.int32)
        kernel(NOWHERE, NOWHERE, x, out, where, _address(totals), _address(lines), *plan, first, last)

    work = max(prod(choice.view.input_shape), prod(choice.view.output_shape))
    share_out(call, choice.tasks, work, threads)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _can_overflow(choice: Choice) -> bool:
    """Whether sums may leave the range that the means lie in."""
    return choice.dtype == "float64" and not isinstance(choice.how, Wide) and isinstance(choice.how.result, Quotient)


def _rescued(choice: Choice, x: Array, values: Array, threads: int) -> Array:
    """The means, where they are not finite from sums of scaled numbers: a sum may leave the range, its mean cannot."""
    smaller, scaled = x * SCALE, np.empty_like(values)
    _run(choice, (smaller, scaled), threads)
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(values), values, scaled / SCALE)


def _inside_plane(region: Region, choice: Choice, positions: Array) -> NDArray[np.int64]:
    """Positions in the order of the layout; where several planes lie in one row, they count inside their own."""
    plane = prod(region.input_shape[axis.position] for axis in region.plan.axes)
    if choice.view.axes[2].size > plane:
        positions = np.where(positions < 0, -1, positions % plane)
    return choice.view.to_layout(positions)
