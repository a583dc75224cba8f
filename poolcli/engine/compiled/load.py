"""Kernels by what tells them apart: in this process, else in the cache, else built."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from poolcli.engine.compiled import spent, store
from poolcli.engine.compiled.ability import is_switched_off
from poolcli.engine.compiled.machine import Kernel, LoadedKernel, loaded
from poolcli.engine.fallback import KernelError, kernel_errors
from poolcli.system.gc import gc_disabled

if TYPE_CHECKING:
    from poolcli.engine.compiled.choice import Choice

_kernels: dict[str, LoadedKernel] = {}
_failed: dict[str, str] = {}  # why a kernel cannot be had, so that a later call need not find out again
_preparing = threading.Lock()


def load(choice: Choice) -> Kernel:
    """The kernel that was chosen, as a function of pointers and a range of tasks; it lets other threads run. Raises
    KernelError where it cannot be had.
    """
    kernel = _kernels.get(choice.variant)
    if kernel is None:
        with _preparing, spent.timed():
            kernel = _kernels.get(choice.variant) or _found(choice, lambda: _kept(choice) or _built(choice))
    assert kernel is not None  # noqa: S101  # built or raised
    return kernel.call


def load_kept(choice: Choice) -> None:
    """Loads the kernel that was chosen where it is kept; builds none."""
    if choice.variant not in _kernels:
        with _preparing, spent.timed():
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
    code = store.read(choice.variant)
    return loaded(code) if code else None


def _built(choice: Choice) -> LoadedKernel:
    """Built here and kept, unless another process has just done so."""
    with store.writing(choice.variant) as keep:
        kernel = _kept(choice)
        if kernel is None:
            with gc_disabled():
                from poolcli.engine.compiled.build import build

                spent.announce(f"compiling for {choice.dtype} arrays, once: later runs load what is made now")
                code = build(choice)
            kernel = loaded(code)
            if kernel is None:
                raise RuntimeError(f"the kernel {choice.variant} was built without its function")
            keep(code)
    return kernel
