"""Runs the tasks of a kernel in threads; the addresses of arrays, and work arrays."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled.geometry import CACHE_LINE
from poolcli.system.limits import allowed_threads
from poolcli.windows import ceil_div

if TYPE_CHECKING:
    from numpy.typing import NDArray


_first_byte: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


def address(array: NDArray[Any]) -> int:
    """The address of its first element."""
    try:
        return ctypes.addressof(_first_byte(array))  # in a quarter of the time of `__array_interface__`
    except (TypeError, ValueError, BufferError):  # empty, strided or read-only arrays, and extension types
        return int(array.__array_interface__["data"][0])


def work_array(size: int) -> tuple[NDArray[np.uint8], int]:
    """An array with `size` bytes from a cache line on, and the address of that."""
    array = np.empty(size + CACHE_LINE, np.uint8)
    return array, ceil_div(address(array), CACHE_LINE) * CACHE_LINE


RANGES = 4  # of tasks for each thread, so that threads finish together
MIN_PER_THREAD = 1 << 20  # elements; for fewer, starting a thread (20 to 40 us of CPU) takes over a tenth
MAX_RANGE = 1 << 20  # elements, so that interrupts are handled soon

_pools: dict[int, ThreadPoolExecutor] = {}
_current_core = getattr(ctypes.CDLL(None), "sched_getcpu", None) if sys.platform == "linux" else None
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # the child has none of the parent's threads


def run_tasks(call: Callable[[int, int], None], tasks: int, elements: int, threads: int | None) -> None:
    """Call `call(first, last)` until all tasks are done, which read or write `elements` elements in all.

    At most `threads` threads (None: as many as are allowed) are used, and only as many as save time.
    """
    if elements < 2 * MIN_PER_THREAD:
        call(0, tasks)
        return
    threads = min(threads or allowed_threads(), elements // MIN_PER_THREAD)
    count = max(RANGES * threads, elements // MAX_RANGE)
    step = ceil_div(tasks, count)
    ranges = [(first, min(first + step, tasks)) for first in range(0, tasks, step)]
    if threads == 1 or len(ranges) == 1:
        for first, last in ranges:
            call(first, last)
        return
    run_in_threads(call, ranges, threads)


def run_in_threads(call: Callable[[int, int], None], ranges: list[tuple[int, int]], threads: int) -> None:
    """Each thread, including the caller's, takes the next range until none is left; an exception stops all."""
    waiting = iter(ranges)

    def work() -> None:
        try:
            for first, last in waiting:  # thread-safe because of the GIL
                call(first, last)
        except BaseException:
            for _ in waiting:
                pass  # leaves nothing for the other threads
            raise

    size = max(threads, allowed_threads())  # one pool for all calls, whose threads start when they are needed
    helpers = _pools.get(size) or _pools.setdefault(size, ThreadPoolExecutor(size - 1, "poolcli"))
    _move_off_this_core(helpers)
    futures = [helpers.submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        for future in futures:
            future.result()


def _move_off_this_core(helpers: ThreadPoolExecutor) -> None:
    """Let helpers run on every core but the caller's.

    Linux may wake a helper on the caller's core and leave both there for a time slice of 3 ms: a call of 1.8 ms
    after a pause of 20 ms took 3.3.
    """
    if _current_core is None:
        return
    allowed = os.sched_getaffinity(0)
    others = allowed - {_current_core()} or allowed
    for helper in helpers._threads:
        with suppress(OSError):
            os.sched_setaffinity(helper.native_id or 0, others)
