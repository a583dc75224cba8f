"""Kernels by name, loaded from the cache or compiled, once for all types that they are called with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from poolcli.engine.compiled import cache

Kernel = Callable[..., None]

_kernels: dict[str, Kernel] = {}
_ready: set[str] = set()
_preparing = threading.Lock()


def load(name: str, variant: str, dtype: str, arguments: tuple[Any, ...]) -> Kernel:
    """The kernel, compiled for the types of `arguments` (which `variant` names), to be called with them and tasks."""
    if variant not in _ready:
        with _preparing, cache.timed(), cache.locked(name):
            if variant not in _ready:
                _prepare(name, variant, dtype, arguments)
                _ready.add(variant)
    return _kernels[name]


def _prepare(name: str, variant: str, dtype: str, arguments: tuple[Any, ...]) -> None:
    """Loads or compiles by a call without tasks. Where that fails but compiling afresh does not, what failed was an
    entry of the cache (damaged ones raise many kinds of exception): the cache is emptied.
    """
    from poolcli.engine.compiled import kernels

    kernel = _kernels.setdefault(name, getattr(kernels, name))
    if not cache.is_ready(variant):
        cache.announce(f"compiling {name} for {dtype} (first use only)")
    try:
        kernel(*arguments, (0, 0))
    except Exception:
        fresh = kernels.uncached(getattr(kernels, name).py_func)
        fresh(*arguments, (0, 0))
        _kernels[name] = fresh
        cache.purge()
    else:
        cache.mark_ready(variant)
