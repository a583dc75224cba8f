"""Threads: as many as are allowed, from several callers at once, after a fork, and no bit changed by them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

import poolcli
from poolcli import AdaptiveAvgPool, AvgPool, MaxPool, MedianPool, ModePool, StdPool
from poolcli.engine import run
from poolcli.engine.compiled.pool import address, work_array
from poolcli.plan.plan import whole
from poolcli.system import processes


def test_threads_are_at_most_the_cores_of_the_process() -> None:
    cores = len(os.sched_getaffinity(0))
    assert processes.allowed_threads(1) == 1
    assert processes.allowed_threads(10_000) <= cores
    assert processes.allowed_threads() == processes.allowed_threads(cores)


def test_a_quota_of_the_control_group_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    for text, expected in (("150000 100000", 2), ("max 100000", 8), ("400000 100000", 4)):
        monkeypatch.setattr("pathlib.Path.read_text", lambda self, text=text: text)
        processes._quota.cache_clear()
        assert processes.allowed_threads() == processes.allowed_threads() == expected
    processes._quota.cache_clear()


def test_several_python_threads_may_call_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolcli.engine.compiled.pool.MIN_PER_THREAD", 1)  # so that they share helpers
    x = np.random.default_rng(0).random((4, 8, 65, 65)).astype(np.float32)
    expected = poolcli.avg_pool(x, 3, strides=2, engine="numpy")
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(poolcli.avg_pool, x, 3, strides=2, engine="numba", threads=2) for _ in range(64)]
    for call in calls:
        np.testing.assert_array_equal(call.result(), expected)


@pytest.mark.parametrize("size", [1, 100, 5000])
def test_work_arrays_are_large_enough_and_aligned_to_cache_lines(size: int) -> None:
    array, start = work_array(size)
    assert (start % 64, start >= address(array), start + size <= address(array) + array.size) == (0, True, True)


FORKED = """
import os, sys, threading, numpy as np, poolcli
x = np.ones((4, 8, 64, 64), np.float32)
poolcli.engine.compiled.pool.MIN_PER_THREAD = 1
poolcli.avg_pool(x, 2, strides=2, engine="numba", threads=2)
child = os.fork()
y = poolcli.avg_pool(x, 2, strides=2, engine="numba", threads=2)
assert (y == 1).all()
assert [thread.name for thread in threading.enumerate()] == ["MainThread", "poolcli"]
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def assert_runs(code: str) -> None:
    """The code ends well and silently in a fresh process."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]  # Python 3.12 warns of every such fork
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_fork_after_a_call_can_call_too() -> None:
    assert_runs("import poolcli.engine.compiled.pool\n" + FORKED)


# `meanwhile` is called while a kernel is loaded. An alarm ends a process that waits forever.
FORKED_WHILE_LOADING = """
import os, signal, sys, threading, time
import numpy as np, poolcli
from poolcli.engine.compiled import kernel_cache
x, read = np.ones((1, 1, 8, 8), np.float32), kernel_cache.read
def pool():
    assert (poolcli.avg_pool(x, 2, strides=2, engine="numba") == 1).all()
def fork():
    signal.alarm(30)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        pool()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
def read_slowly(name):
    kernel_cache.read = read
    meanwhile()
    return read(name)
kernel_cache.read = read_slowly
"""
FORKS = {
    "by another thread": """
loading = threading.Event()
def meanwhile():
    import logging
    loading.set()
    time.sleep(0.3)
    logging.getLogger("another")  # takes a lock that a fork takes, too, as numba does
thread = threading.Thread(target=pool)
thread.start()
loading.wait()
fork()
thread.join()
""",
    "by the same thread, as in a signal handler": """
meanwhile = fork
pool()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("how", FORKS)
def test_a_fork_while_a_kernel_is_loaded_can_call_too(how: str) -> None:
    assert_runs(FORKED_WHILE_LOADING + FORKS[how])


@pytest.mark.parametrize("here", [True, False])
def test_an_error_in_one_thread_reaches_the_caller_and_stops_the_others(here: bool) -> None:
    from poolcli.engine.compiled.pool import run_in_threads

    seen, other = [], threading.Event()

    def call(first: int, last: int) -> None:
        seen.append(first)
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main:
            other.set()
        if is_main == here:
            raise ZeroDivisionError
        assert here or other.wait(60)  # it may begin late

    with pytest.raises(ZeroDivisionError):
        run_in_threads(call, [(i, i + 1) for i in range(200_000)], 2)
    assert len(seen) < 200_000


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("name", "dtype"), [("avg", "float32"), ("avg", "float64"), ("avg", "uint8"), ("max", "float32")]
)
def test_results_are_the_same_bits_for_any_number_of_threads(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poolcli.engine.call.allowed_threads", lambda asked: asked or 1)
    monkeypatch.setattr("poolcli.engine.compiled.pool.MIN_PER_THREAD", 1)
    x = (np.random.default_rng(2).random((2, 3, 65, 67)) * 255).astype(dtype)
    plan = (AvgPool if name == "avg" else MaxPool)(5, strides=2, pads=2).plan(x.shape, dtype)
    results = [run(plan, x, engine="numba", threads=n)[0].tobytes() for n in (1, 2, 4)]
    assert len(set(results)) == 1


@pytest.mark.parametrize(
    ("size", "tasks", "asked", "threads", "ranges"),
    [
        (1 << 20, 512, None, 1, 1),
        ((1 << 23) - 1, 512, None, 1, 1),
        (1 << 23, 512, None, 2, 8),
        (1 << 26, 4096, None, 8, 32),
        (1 << 26, 4096, 1, 1, 16),
        (1 << 28, 4096, 2, 2, 64),
        (1 << 26, 1, None, 1, 1),
        (1 << 28, 3, None, 3, 3),
    ],
)
def test_threads_are_as_many_as_the_work_is_worth_and_have_four_ranges_each(
    size: int, tasks: int, asked: int | None, threads: int, ranges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from poolcli.engine.compiled import pool as launch

    alone: list[tuple[int, int]] = []
    shared: list[tuple[int, list[tuple[int, int]]]] = []
    monkeypatch.setattr(launch, "allowed_threads", lambda: 8)
    monkeypatch.setattr(launch, "run_in_threads", lambda call, ranges, count: shared.append((count, ranges)))
    launch.run_tasks(lambda first, last: alone.append((first, last)), tasks, size, asked)
    ((count, found),) = shared or [(1, alone)]
    assert (count, len(found)) == (threads, ranges)
    assert [task for span in found for task in range(*span)] == list(range(tasks))


def test_a_caller_does_not_wait_for_a_thread_that_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    from poolcli.engine.compiled import pool as launch

    late, found = list[Callable[[], object]](), list[int]()
    monkeypatch.setattr(launch.HELPERS, "start", lambda function, _: late.append(function))
    call = partial(lambda array, first, last: found.append(first), np.zeros(1))
    kept = weakref.ref(call)
    launch.run_in_threads(call, [(i, i + 1) for i in range(8)], 2)
    del call
    assert (found, len(late), kept()) == (list(range(8)), 1, None)
    late.pop()()  # after the work that nobody waited for
    assert found == list(range(8))


def test_the_end_of_a_late_thread_is_not_taken_for_that_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    from poolcli.engine.compiled import pool as launch

    def start(function: Callable[[], object], count: int) -> None:
        for late in range(count):
            threading.Timer(0.1 * late, function).start()

    caller, helped, found = threading.get_ident(), threading.Event(), list[int]()

    def call(first: int, last: int) -> None:
        if threading.get_ident() == caller:
            assert helped.wait(60)
        else:
            helped.set()
            time.sleep(0.5)  # until long after the late thread has found nothing to do
        found.append(first)

    monkeypatch.setattr(launch.HELPERS, "start", start)
    launch.run_in_threads(call, [(0, 1), (1, 2)], 3)
    assert sorted(found) == [0, 1]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be kept off a core")
def test_threads_are_kept_off_the_core_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    from poolcli.engine.compiled import pool as launch

    caller, cores, found = threading.get_ident(), os.sched_getaffinity(0), list[tuple[int, set[int]]]()
    begun = threading.Event()

    def call(first: int, last: int) -> None:
        found.append((threading.get_ident(), os.sched_getaffinity(0)))
        if threading.get_ident() != caller:
            begun.set()
        assert begun.wait(60)  # it may begin late

    monkeypatch.setattr(launch, "HELPERS", launch.Helpers())
    for _ in range(3):
        begun.clear()
        launch.run_in_threads(call, [(i, i + 1) for i in range(4)], 2)
    helped = [used for thread, used in found if thread != caller]
    assert len({thread for thread, _ in found}) == 2
    assert {len(used) for used in helped} == {max(1, len(cores) - 1)}
    assert all(used == cores for thread, used in found if thread == caller)


def test_where_no_thread_can_be_started_the_caller_computes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    from poolcli.engine.compiled import pool as launch

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    found = list[int]()
    monkeypatch.setattr(launch, "HELPERS", launch.Helpers())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    launch.run_in_threads(lambda first, last: found.append(first), [(i, i + 1) for i in range(8)], 2)
    assert found == list(range(8))


@pytest.mark.parametrize(
    ("op", "shape", "dtype", "read"),
    [
        (AvgPool(2, strides=2), (1, 2, 8, 10), "float32", 2 * 8 * 10 * 4),
        (MaxPool(3, strides=1, pads=1), (1, 2, 8, 10), "uint8", 2 * 8 * 10 * 3),
        (AvgPool((20, 1), strides=1), (1, 2, 100, 10), "uint8", 2 * 81 * 10 * 8),
        (AdaptiveAvgPool(20), (1, 2, 8, 10), "float64", 2 * 20 * 20 * 8),
        (MedianPool(3, strides=1, pads=1), (1, 2, 8, 10), "uint8", 2 * 8 * 10 * 9),
        (MedianPool(5, strides=1, pads=2), (1, 2, 8, 10), "uint8", 2 * 8 * 10 * 25 * 3),
        (ModePool(2, strides=2), (1, 2, 8, 10), "uint16", 2 * 4 * 5 * 4 * 2 * 2),
        (StdPool(5, strides=1, pads=2), (1, 2, 8, 10), "uint8", 2 * 8 * 10 * 5 * 6),
        (StdPool(3, strides=1, pads=1), (1, 2, 8, 10), "float32", 2 * 8 * 10 * 9 * 2 * 4),
    ],
)
def test_work_is_measured_by_the_bytes_that_a_kernel_reads(
    op: Any, shape: tuple[int, ...], dtype: str, read: int
) -> None:
    from poolcli.engine.compiled.choice import choose_kernel

    assert choose_kernel(whole(op.plan(shape, dtype))).bytes_read == read


@pytest.mark.compiles
def test_arrays_live_as_long_as_a_thread_may_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from poolcli.engine.compiled import pool

    calls = list[Any]()
    monkeypatch.setattr(pool, "MIN_PER_THREAD", 0)  # what one thread pools is done when the call returns
    monkeypatch.setattr(pool, "run_tasks", lambda call, tasks, size, threads: calls.append(call))
    x = np.ones((1, 2, 8, 8), np.float32)
    y = AvgPool(2, strides=2)(x, engine="numba")
    found = [weakref.ref(x), weakref.ref(y)]
    del x, y
    assert all(array() is not None for array in found)
    calls.clear()
    assert [array() for array in found] == [None, None]
