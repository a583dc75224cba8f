"""The tasks of a kernel, shared out among threads in tiles."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from poolcli.engine.threads import allowed_threads
from poolcli.windows import ceil_div

TILES = 4  # for each thread, so that threads share evenly
SMALLEST_TILE = 1 << 15  # elements; fewer are not worth a call
WORTH_SHARING = 1 << 18  # elements; fewer are done before a helper has begun, 100 to 200 us later
LARGEST_TILE = 1 << 20  # elements, so that a stop request is heard soon

_pools: dict[int, ThreadPoolExecutor] = {}
_current_core = getattr(ctypes.CDLL(None), "sched_getcpu", None) if sys.platform == "linux" else None
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)  # the child has none of the parent's threads


def share_out(
    call: Callable[[int, int], None], tasks: int, work: int, threads: int | None, tile: int | None = None
) -> None:
    """Calls `call(first, last)` until all tasks are done, through `work` elements together; None for threads is as many
    as are allowed, and for `tile`, the tasks of a call, as many as pay.
    """
    if work < WORTH_SHARING:
        call(0, tasks)
        return
    threads = threads or allowed_threads()
    count = max(min(TILES * threads, work // SMALLEST_TILE), work // LARGEST_TILE, 1)
    tile = tile or ceil_div(tasks, count)
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

    helpers = _pools.get(threads) or _pools.setdefault(threads, ThreadPoolExecutor(threads - 1, "poolcli"))
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
