"""Runs the tasks of a kernel in threads; the addresses of arrays, work arrays, and copies in C order."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled.view import CACHE_LINE
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


COPIED_BYTES = 1 << 20  # at a time, by each thread
RANGES = 4  # of tasks for each thread, so that threads finish together
MIN_PER_THREAD = 1 << 23  # bytes; for fewer, handing over the work (60 to 90 us of CPU) takes over a tenth
MAX_RANGE = 1 << 22  # bytes, so that interrupts are handled soon

_current_core = getattr(ctypes.CDLL(None), "sched_getcpu", None) if sys.platform == "linux" else None


def run_tasks(call: Callable[[int, int], None], tasks: int, size: int, threads: int | None) -> None:
    """Call `call(first, last)` until all tasks are done, which read or write `size` bytes in all.

    At most `threads` threads (None: as many as are allowed) are used, and only as many as save time.
    """
    if size < 2 * MIN_PER_THREAD:
        call(0, tasks)
        return
    threads = min(threads or allowed_threads(), size // MIN_PER_THREAD)
    count = max(RANGES * threads, size // MAX_RANGE)
    step = ceil_div(tasks, count)
    ranges = [(first, min(first + step, tasks)) for first in range(0, tasks, step)]
    if threads == 1 or len(ranges) == 1:
        for first, last in ranges:
            call(first, last)
        return
    run_in_threads(call, ranges, min(threads, len(ranges)))


def run_in_threads(call: Callable[[int, int], None], ranges: list[tuple[int, int]], threads: int) -> None:
    """Each thread, including the caller's, takes the next range until none is left; an exception stops all."""
    # A request may wait for long; when all ranges are taken, the iterator in it keeps no call, and so no arrays.
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

    _helpers.start(help_with_work, threads - 1)
    errors = list[BaseException | None]()
    try:
        work()
    finally:  # a helper that has not begun by now finds no range, so it need not be waited for
        while len(errors) < len(begun):  # which grows if one begins now: its end is not that of another one
            errors.append(ended.get())
    for error in errors:
        if error is not None:
            raise error


class Helpers:
    """Threads that wait for functions to call, shared by all callers.

    An executor of concurrent.futures takes twice the CPU time for each call, and the caller waits for all of its
    threads, even for those that have not begun.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all threads: after a fork, the child has none of them."""
        self._lock = threading.Lock()
        self.threads: list[threading.Thread] = []
        self._requests = SimpleQueue[Callable[[], object]]()
        self._placed: tuple[object, ...] = ()

    def start(self, function: Callable[[], object], count: int) -> None:
        """Let `count` threads call the function, or as many as can be started."""
        if len(self.threads) < count:
            self._add(count)
        self.move_off_this_core()
        for _ in self.threads[:count]:
            self._requests.put(function)

    def _add(self, count: int) -> None:
        with self._lock, suppress(RuntimeError):  # at a limit of threads, or when the interpreter ends
            while len(self.threads) < count:
                thread = threading.Thread(target=_serve, args=(self._requests,), name="poolcli", daemon=True)
                thread.start()
                self.threads.append(thread)

    def move_off_this_core(self) -> None:
        """Let threads run on every core but the caller's.

        Linux may wake a thread on the caller's core and leave both there for a time slice of 3 ms: a call of 1.8 ms
        after a pause of 20 ms took 3.3.
        """
        if _current_core is None:
            return
        wanted = (_current_core(), os.sched_getaffinity(0), len(self.threads))
        if wanted == self._placed:
            return
        core, allowed, _ = self._placed = wanted
        for thread in self.threads:
            with suppress(OSError):
                os.sched_setaffinity(thread.native_id or 0, allowed - {core} or allowed)


def _serve(requests: SimpleQueue[Callable[[], object]]) -> None:
    while True:
        requests.get()()  # in one expression, so that no name keeps the function, and its arrays, until the next one


_helpers = Helpers()
os.register_at_fork(after_in_child=_helpers.reset)


def contiguous(x: NDArray[Any], threads: int | None) -> NDArray[Any]:
    """A copy of `x` in C order, made by several threads."""
    copy = np.empty(x.shape, x.dtype)
    copy_into(copy, x, threads)
    return copy


def copy_into(target: NDArray[Any], source: NDArray[Any], threads: int | None) -> None:
    """Copy an array to one of its shape, in boxes that stay in the cache until all of their cache lines are copied."""
    first = next((axis for axis, n in enumerate(source.shape) if n > 1), 0)
    rows = source.shape[first] if source.ndim else 1
    step = max(1, COPIED_BYTES * rows // max(source.nbytes, 1))

    def copy(begin: int, end: int) -> None:
        box = (*(slice(None),) * first, slice(begin * step, end * step))
        np.copyto(target[box], source[box])

    run_tasks(copy, -(-rows // step), source.nbytes, threads)
