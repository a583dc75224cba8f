"""How many threads a call may use."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from poolcli.errors import RequestError
from poolcli.message_fields import field


def allowed_threads(asked: int | None = None) -> int:
    """`asked`, at most the cores that this process may use (affinity and cgroup quota); None asks for all of them."""
    if asked is not None and asked < 1:
        raise RequestError(f"{field('threads')} is {asked}, it must be at least 1")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(asked or cores, cores, _quota() or cores))


@cache
def _quota() -> int | None:
    """Whole cores that the control group (version 2) grants, rounded up; None without a limit. Read once: each reading
    takes as long as pooling thousands of elements.
    """
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return -(-int(quota) // int(period))
    except (OSError, ValueError):  # no control group, or "max"
        return None
