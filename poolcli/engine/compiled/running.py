"""Running a kernel over all tasks, in tiles that threads share where the work is worth more than the hand-over."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled.buffers import Buffers, address
from poolcli.engine.compiled.load import load
from poolcli.engine.compiled.strided import run_strided
from poolcli.engine.compiled.tasks import share_out

if TYPE_CHECKING:
    from poolcli.engine.compiled.choice import Choice

Array = np.ndarray[Any, np.dtype[Any]]
_NOTHING = ctypes.create_string_buffer(64)
NOWHERE = ctypes.addressof(_NOTHING)  # where numba puts a result and an exception, of which there are none
_totals = Buffers()


def run(choice: Choice, source: Array, values: Array, positions: Array | None, threads: int | None) -> None:
    """Has the kernel pool `source` to `values` and `positions`; all have their axes in the order of its view."""
    kernel, (numbers, divisors) = load(choice), choice.addresses
    where = None if positions is None else address(positions)

    def pool(x: int, out: int, numbers: int, first: int, last: int) -> None:
        _owner, totals = _totals.of(choice.buffered)
        kernel(NOWHERE, NOWHERE, x, out, where, totals, totals + choice.lines_at, numbers, divisors, first, last)

    if not (source.flags.c_contiguous and values.flags.c_contiguous):
        run_strided(choice, pool, source, values, threads)
        return
    x, out = address(source), address(values)
    share_out(partial(pool, x, out, numbers), choice.tasks, choice.work, threads)
