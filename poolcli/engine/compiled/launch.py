"""Tasks of a kernel, shared out among threads in tiles, and memory for them that outlasts a call."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.system.limits import allowed_threads
from poolcli.windows import ceil_div

if TYPE_CHECKING:
    from numpy.typing import NDArray


LINE = 64  # bytes of a line of the cache
MOST_KEPT = 1 << 22  # bytes
_first_byte: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


class Buffers(threading.local):
    """One buffer of each thread."""

    def __init__(self) -> None:
        self.kept: tuple[NDArray[np.uint8], int] = np.empty(0, np.uint8), 0

    def of(self, size: int) -> tuple[NDArray[np.uint8], int]:
        """At least so many bytes from the beginning of a line of the cache, given to the next call too; and where."""
        found = self.kept
        if found[0].size < size:
            buffer = np.empty(size + LINE, np.uint8)
            buffer = buffer[-address(buffer) % LINE :]
            found = buffer, address(buffer)
            if buffer.size <= MOST_KEPT:
                self.kept = found
        return found


def address(array: NDArray[Any]) -> int:
    """Where its first element is."""
    try:
        return ctypes.addressof(_first_byte(array))  # in a quarter of the time of what follows
    except (TypeError, ValueError, BufferError):  # without elements, strided, read-only, or of a type unknown there
        return int(array.__array_interface__["data"][0])


TILES = 4  # for each thread, so that threads share evenly
SMALLEST_TILE = 1 << 15  # elements; fewer are not worth a call
WORTH_SHARING = 1 << 20  # elements for each thread: of fewer, handing over (20 to 40 us of CPU) takes over a tenth
LARGEST_TILE = 1 << 20  # elements, so that a stop request is heard soon

_pools: dict[int, ThreadPoolExecutor] = {}
_current_core = getattr(ctypes.CDLL(None), "sched_getcpu", None) if sys.platform == "linux" else None
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # the child has none of the parent's threads


def share_out(call: Callable[[int, int], None], tasks: int, work: int, threads: int | None) -> None:
    """Calls `call(first, last)` until all tasks are done, through `work` elements together; None for threads is as many
    as are allowed. Of those no more are taken than pay.
    """
    if work < 2 * WORTH_SHARING:
        call(0, tasks)
        return
    threads = min(threads or allowed_threads(), work // WORTH_SHARING)
    count = max(min(TILES * threads, work // SMALLEST_TILE), work // LARGEST_TILE, 1)
    tile = ceil_div(tasks, count)
    tiles = [(first, min(first + tile, tasks)) for first in range(0, tasks, tile)]
    if threads == 1 or len(tiles) == 1:
        for first, last in tiles:
            call(first, last)
        return
    share(call, tiles, threads)


def share(call: Callable[[int, int], None], tiles: list[tuple[int, int]], threads: int) -> None:
    """Each thread, this one included, takes the next tile until none is left; an exception in one stops all."""
    waiting = iter(tiles)

    def work() -> None:
        try:
            for first, last in waiting:  # the interpreter lock makes taking the next tile safe
                call(first, last)
        except BaseException:
            for _ in waiting:
                pass  # nothing is left for the others
            raise

    most = max(threads, allowed_threads())  # few pools, whose threads begin when they are needed
    helpers = _pools.get(most) or _pools.setdefault(most, ThreadPoolExecutor(most - 1, "poolcli"))
    _keep_off_this_core(helpers)
    futures = [helpers.submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        for future in futures:
            future.result()


def _keep_off_this_core(helpers: ThreadPoolExecutor) -> None:
    """Lets helpers run on every core but the caller's.

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
