"""Runs the tasks of a kernel in threads; the addresses of arrays, and work arrays."""

from __future__ import annotations

import _thread
import ctypes
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled.view import CACHE_LINE
from poolcli.system.processes import allowed_threads
from poolcli.windows import ceil_div

if TYPE_CHECKING:
    from numpy.typing import NDArray

RANGES = 4  # of tasks for each thread, so that threads finish together
MIN_PER_THREAD = 1 << 23  # bytes; for fewer, starting a thread (60 to 120 us of CPU) takes over a tenth
MAX_RANGE = 1 << 22  # bytes, so that interrupts are handled soon

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


def run_tasks(call: Callable[[int, int], None], tasks: int, size: int, threads: int | None) -> None:
    """Call `call(first, last)` until all tasks are done, which read or write `size` bytes in all.

    At most `threads` threads (None: as many as are allowed) are used, and only as many as save time.
    """
    if size < 2 * MIN_PER_THREAD:
        call(0, tasks)
        return
    threads = min(threads or allowed_threads(), size // MIN_PER_THREAD)
    step = ceil_div(tasks, max(RANGES * threads, size // MAX_RANGE))
    ranges = [(first, min(first + step, tasks)) for first in range(0, tasks, step)]
    if threads == 1 or len(ranges) == 1:
        for first, last in ranges:
            call(first, last)
        return
    run_in_threads(call, ranges, min(threads, len(ranges)))


def run_in_threads(call: Callable[[int, int], None], ranges: list[tuple[int, int]], threads: int) -> None:
    """Each thread, including the caller's, takes the next range until none is left; an exception stops all.

    Threads are started for each call: that takes 40 us more than waking others, but leaves nothing to a fork, and Linux
    starts a thread on an idle core, while it may wake one on the caller's and leave both there for 3 ms.
    """
    # A thread may begin late; when all ranges are taken, the iterator in it keeps no call, and so no arrays.
    waiting = iter([partial(call, first, last) for first, last in ranges])
    begun, ended = list[None](), SimpleQueue[BaseException | None]()

    def work() -> None:
        try:
            for call_range in waiting:  # thread-safe because of the GIL
                call_range()
        except BaseException:
            for _ in waiting:
                pass  # leaves nothing for the other threads
            raise

    def help_with_work() -> None:
        begun.append(None)
        try:
            work()
        except BaseException as error:
            ended.put(error)
        else:
            ended.put(None)

    errors = list[BaseException | None]()
    try:
        with suppress(RuntimeError):  # at a limit of threads, or when the interpreter ends
            for _ in range(threads - 1):
                _thread.start_new_thread(help_with_work, ())
        work()
    finally:  # a thread that has not begun by now finds no range, so it need not be waited for
        while len(errors) < len(begun):  # which grows if one begins now: its end is not that of another one
            errors.append(ended.get())
    for error in errors:
        if error is not None:
            raise error
