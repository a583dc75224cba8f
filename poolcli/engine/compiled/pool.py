"""The numba engine: views an array as its kernel does, and runs the tasks of the kernel in threads."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import prod
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.call import Array
from poolcli.engine.choose import NUMPY
from poolcli.engine.compiled import load
from poolcli.engine.compiled.arithmetic import LARGEST_SUM
from poolcli.engine.compiled.choice import Prepared, choose_for_memory_order, choose_kernel
from poolcli.engine.compiled.view import CACHE_LINE, with_strides
from poolcli.plan.plan import Region
from poolcli.system.processes import allowed_threads
from poolcli.windows import Cells, ceil_div

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.choose import Pool

# numba's functions begin with pointers to a return value and to an exception; kernels have neither.
_unused, _libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
UNUSED = ctypes.addressof(_unused)
RANGES = 4  # of tasks for each thread, so that threads finish together
MIN_PER_THREAD = 1 << 22  # bytes; for fewer, waking a thread (0.1 to 0.2 ms of CPU) takes over a tenth
MAX_RANGE = 1 << 22  # bytes, so that interrupts are handled soon
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
        needs_scaling = squares_64_bits and int(abs(np.frexp(x)[1]).max(initial=0)) > MAX_EXPONENT
        largest = max(-int(x.min(initial=0)), int(x.max(initial=0))) if sums_64_bits else 0
        if needs_scaling or largest * longest > LARGEST_SUM:
            return NUMPY.load()(region, indices)(x, out, threads)
        if x.dtype != source:  # its bits, in native byte order
            x = x.astype(x.dtype.newbyteorder("="), copy=False).view(source)
        prepared, ordered = default, x if is_in_order else x.transpose(view.order)
        if not ordered.flags.c_contiguous:
            prepared = choose_for_memory_order(region, indices, default, x)
            ordered = x.transpose(prepared.view.order)
        its = prepared.view
        values = out.view(dtype).transpose(its.order) if as_bits else np.empty(its.ordered_shape, dtype)
        positions = np.empty(its.output_shape, np.int64) if indices else None
        run(prepared, ordered, values, positions, threads)
        if not as_bits:
            from poolcli.engine.numpy.sums import storable

            with np.errstate(all="ignore"):
                out[...] = storable(its.to_layout(values), out.dtype)
        has_infinite = can_overflow and not np.isfinite(out).all()
        if has_infinite and float(np.abs(x).max(initial=0, where=np.isfinite(x))) > MAX_SUM / longest:  # perhaps sums
            again = np.empty_like(out)
            NUMPY.load()(region, indices)(x, again, threads)
            np.copyto(out, again, where=~np.isfinite(out))  # others keep their bits, whatever else is in the array
        return None if positions is None else _positions_in_plane(region, prepared, positions)

    return pool


def _run_small(prepared: Prepared) -> Callable[[Array, Array], object]:
    """The same as `run` for arrays in C order that one thread pools: a call of few microseconds."""
    call = partial(load, prepared.kernel)
    numbers, factors, tasks = address(prepared.table), address(prepared.factors), prepared.tasks

    def run_small(x: Array, out: Array) -> None:
        _array, work = work_array(prepared.work_bytes)
        call()(UNUSED, UNUSED, address(x), address(out), UNUSED, work, numbers, numbers, factors, 0, tasks)

    return run_small


def run(prepared: Prepared, source: Array, values: Array, positions: Array | None, threads: int | None) -> None:
    """Run the kernel from `source` to `values`, whose axes are in the order of the view, and find `positions`."""
    kernel = load(prepared.kernel)
    search = load(prepared.search) if prepared.search is not None else None
    table = prepared.table
    if not source.flags.c_contiguous:
        source = source.reshape(prepared.view.input_shape)  # a view, if its strides allow that
        if source.strides[3] != source.itemsize or any(step % source.itemsize for step in source.strides):
            source = np.ascontiguousarray(source)
        table = with_strides(table, source)
    target = values if values.flags.c_contiguous else np.empty(values.shape, values.dtype)
    x, out, numbers, factors = address(source), address(target), address(table), address(prepared.factors)
    tasks, rows = prepared.tasks // prepared.units, prepared.view.rows // prepared.units
    used = source, target, positions, table, prepared  # by helpers, which outlast an interrupted call

    def run_range(first: int, last: int, _used: object = used) -> None:
        _array, work = work_array(prepared.work_bytes)
        kernel(UNUSED, UNUSED, x, out, UNUSED, work, numbers, numbers, factors, first * tasks, last * tasks)
        if search is not None and positions is not None:
            places = address(positions)
            search(UNUSED, UNUSED, x, out, places, work, numbers, numbers, factors, first * rows, last * rows)

    run_tasks(run_range, prepared.units, prepared.bytes_read, threads)
    if target is not values:
        np.copyto(values, target)


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


def address(array: NDArray[Any]) -> int:
    """The address of its first element."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]  # 4 times as fast as below
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
    run_in_threads(call, ranges, min(threads, len(ranges)))


class Helpers:
    """Threads that are kept for later calls, of all callers, and stay off the caller's core. As they wait for the GIL,
    Linux may wake them there, when the caller releases it; in a virtual machine that was idle before, both then stay
    there for 3 ms: calls of 4 to 8 ms take 1.3 to 1.6 times as long.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all threads: after a fork, the child has none of them."""
        self._lock, self._threads = threading.RLock(), list[threading.Thread]()
        self._requests = SimpleQueue[Callable[[], object]]()

    def start(self, function: Callable[[], object], count: int) -> None:
        """Let `count` threads call the function, or as many as can be started."""
        with self._lock, suppress(RuntimeError):  # at a limit of threads, or when the interpreter ends
            while len(self._threads) < count:
                thread = threading.Thread(target=_serve, args=(self._requests,), name="poolcli", daemon=True)
                thread.start()
                self._threads.append(thread)
        if count and hasattr(os, "sched_setaffinity"):
            cores = os.sched_getaffinity(0)
            others = cores - {_libc.sched_getcpu()} or cores
            for thread in self._threads:
                with suppress(OSError):
                    os.sched_setaffinity(thread.native_id or 0, others)
        for _ in self._threads[:count]:
            self._requests.put(function)


def _serve(requests: SimpleQueue[Callable[[], object]]) -> None:
    while True:
        requests.get()()  # in one expression, so that no name keeps the function, and its arrays, until the next one


HELPERS = Helpers()
os.register_at_fork(after_in_child=HELPERS.reset)


def run_in_threads(call: Callable[[int, int], None], ranges: list[tuple[int, int]], threads: int) -> None:
    """Each thread, including the caller's, takes the next range until none is left; an exception stops all."""
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
            ended.put(None)
        except BaseException as error:
            ended.put(error)

    errors = list[BaseException | None]()
    try:
        HELPERS.start(help_with_work, threads - 1)
        work()
    finally:  # a thread that has not begun by now finds no range, so it need not be waited for
        while len(errors) < len(begun):  # which grows if one begins now: its end is not that of another one
            errors.append(ended.get())
    for error in filter(None, errors):
        raise error
