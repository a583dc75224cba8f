"""The numba engine: brings a slab into the canonical view and runs the kernel that was chosen over its tasks."""

from __future__ import annotations

import ctypes
import threading
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled.arithmetic import Quotient
from poolcli.engine.compiled.choose import Choice, address, choose_kernel
from poolcli.engine.compiled.geometry import Wide
from poolcli.engine.compiled.load import load, load_kept
from poolcli.engine.compiled.tasks import share_out
from poolcli.plan.region import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.table import Pool

Array = np.ndarray[Any, np.dtype[Any]]
LINE = 64  # bytes of a line of the cache
MOST_KEPT = 1 << 22  # bytes of buffers that outlast a call
_NOTHING = ctypes.create_string_buffer(64)
NOWHERE = ctypes.addressof(_NOTHING)  # where numba puts a result and an exception, of which there are none
SCALE = 2.0**-64  # brings sums of float64 back into range where they overflow


def prepare(region: Region, indices: bool) -> Pool:
    """What pools the region, of any array that it reads."""
    choice = choose_kernel(region, indices)
    load_kept(choice)

    def pool(x: Array, out: Array, threads: int | None) -> NDArray[np.int64] | None:
        source, values = choice.view.of_input(x, choice.source, threads), choice.view.target(out, choice.made)
        if indices:
            positions = np.empty(choice.view.output_shape, np.int64)
            _run(choice, (source, values, positions), threads)
            choice.view.store(out, values)
            return _inside_plane(region, choice, positions)
        _run(choice, (source, values), threads)
        if _can_overflow(choice) and not np.isfinite(values).all():
            values = _rescued(choice, source, values, threads)
        if values is not out:
            choice.view.store(out, values)
        return None

    return pool


def _run(choice: Choice, arrays: tuple[Array, ...], threads: int | None) -> None:
    """Runs the kernel over all tasks, in tiles that threads share where the work is worth more than the hand-over."""
    kernel, plan = load(choice), choice.addresses
    x, out, where = (*map(address, arrays), None)[:3]

    def call(first: int, last: int) -> None:
        _owner, totals, lines = _buffers.of(choice)
        kernel(NOWHERE, NOWHERE, x, out, where, totals, lines, *plan, first, last)

    share_out(call, choice.tasks, choice.work, threads)


class Buffers(threading.local):
    """The row buffers of a thread, kept for calls to come where they are small: asking for them takes as long as a
    small kernel.
    """

    def __init__(self) -> None:
        self.kept: tuple[Array, int] = np.empty(0, np.uint8), 0

    def of(self, choice: Choice) -> tuple[Array, int, int]:
        """An array that owns the buffers, and the addresses of those of totals and of lines, on lines of the cache."""
        owner, begin = self.kept
        if owner.size < choice.buffered + LINE:
            owner = np.empty(choice.buffered + LINE, np.uint8)
            begin = -(-address(owner) // LINE) * LINE
            if owner.size <= MOST_KEPT:
                self.kept = owner, begin
        return owner, begin, begin + choice.lines_at


_buffers = Buffers()


def _can_overflow(choice: Choice) -> bool:
    """Whether sums may leave the range that the means lie in."""
    return choice.dtype == "float64" and not isinstance(choice.how, Wide) and isinstance(choice.how.result, Quotient)


def _rescued(choice: Choice, x: Array, values: Array, threads: int | None) -> Array:
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
