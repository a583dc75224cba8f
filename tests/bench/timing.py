"""Fair times: contenders take turns, and each is warm and alone when it is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import numpy as np

REST = 0.02  # seconds: threads of the previous contender spin for a while after a call
COPIERS = ThreadPoolExecutor(2)


def medians(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each call over `rounds`, one untimed call before each timed one."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(REST)
            call()
            start = time.perf_counter()
            call()
            spent[name].append((time.perf_counter() - start) * 1000)
    return {name: median(times) for name, times in spent.items()}


def least_cpu(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Least milliseconds of CPU time of each call over `rounds` turns, for calls of one thread: what others do on the
    machine meanwhile changes this least.
    """
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            start = time.process_time()
            call()
            least[name] = min(least[name], (time.process_time() - start) * 1000)
    return least


def reader(moved: int) -> Callable[[], None]:
    """A call in which both cores read, `moved` bytes in all."""
    sources = [np.ones(max(moved // 16, 1), np.uint64) for _ in range(2)]

    def read() -> None:
        for done in [COPIERS.submit(source.max) for source in sources]:
            done.result()

    return read


def copier(moved: int) -> Callable[[], None]:
    """A call in which both cores copy, so that `moved` bytes are read and written in all."""
    half = max(moved // 4, 1)
    sources = [np.ones(half, np.uint8) for _ in range(2)]
    targets = [np.zeros(half, np.uint8) for _ in range(2)]

    def copy() -> None:
        for done in [COPIERS.submit(np.copyto, t, s) for t, s in zip(targets, sources, strict=True)]:
            done.result()

    return copy
