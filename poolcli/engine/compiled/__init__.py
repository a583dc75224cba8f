"""Kernels by what tells them apart: in this process, else in the cache, else built; and the time that this takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from poolcli.engine import choose as engines  # `choose` is a module of this package
from poolcli.engine.choose import KernelError, is_switched_off, kernel_errors
from poolcli.engine.compiled import kernel_cache
from poolcli.engine.compiled.machine import Kernel, LoadedKernel, loaded
from poolcli.system.lazy_imports import gc_disabled

if TYPE_CHECKING:
    from poolcli.engine.compiled.choose import Choice


_spent: list[float] = []


@contextmanager
def timed() -> Iterator[None]:
    """Adds the time inside to what this process has spent on building and loading kernels."""
    start = time.perf_counter()
    try:
        yield
    finally:
        _spent.append(time.perf_counter() - start)


def seconds_spent() -> float:
    """What this process has spent on building and loading kernels."""
    return sum(_spent)


_kernels: dict[str, LoadedKernel] = {}
_failed: dict[str, str] = {}  # why a kernel cannot be had, so that a later call need not find out again
_preparing = threading.Lock()


def load(choice: Choice) -> Kernel:
    """The kernel that was chosen, as a function of pointers and a range of tasks; it lets other threads run. Raises
    KernelError where it cannot be had.
    """
    kernel = _kernels.get(choice.variant)
    if kernel is None:
        with _preparing, timed():
            kernel = _kernels.get(choice.variant) or _found(choice, lambda: _kept(choice) or _built(choice))
    assert kernel is not None  # noqa: S101  # built or raised
    return kernel.call


def load_kept(choice: Choice) -> None:
    """Loads the kernel that was chosen where it is kept; builds none."""
    if choice.variant not in _kernels:
        with _preparing, timed():
            _found(choice, lambda: _kernels.get(choice.variant) or _kept(choice))


def _found(choice: Choice, find: Callable[[], LoadedKernel | None]) -> LoadedKernel | None:
    """What `find` gives, noted for later calls, and so is why it fails."""
    if choice.variant in _failed:
        raise KernelError(_failed[choice.variant])
    try:
        with kernel_errors():
            if is_switched_off():
                raise KernelError("NUMBA_DISABLE_JIT switches numba off; use engine numpy or auto")
            kernel = find()
    except KernelError as error:
        _failed[choice.variant] = error.message
        raise
    if kernel is not None:
        _kernels[choice.variant] = kernel
    return kernel


def _kept(choice: Choice) -> LoadedKernel | None:
    code = kernel_cache.read(choice.variant)
    return loaded(code) if code else None


def _built(choice: Choice) -> LoadedKernel:
    """Built here and kept, unless another process has just done so."""
    with kernel_cache.writing(choice.variant) as keep:
        kernel = _kept(choice)
        if kernel is None:
            with gc_disabled():
                from poolcli.engine.compiled.kernels import build

                engines.announce(f"compiling kernels for {choice.dtype} (first run only)")
                code = build(choice)
            kernel = loaded(code)
            if kernel is None:
                raise RuntimeError(f"the kernel {choice.variant} was built without its function")
            keep(code)
    return kernel
