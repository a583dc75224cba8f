"""Kernels by what tells them apart: in this process, else in the cache, else built."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from poolcli.core.collector import without_collector
from poolcli.engine.compiled import spent, store
from poolcli.engine.compiled.machine import Kernel, LoadedKernel, loaded

if TYPE_CHECKING:
    from poolcli.engine.compiled.choice import Choice

_kernels: dict[str, LoadedKernel] = {}
_preparing = threading.Lock()


def load(choice: Choice) -> Kernel:
    """The kernel that was chosen, as a function of pointers and a range of tasks; it lets other threads run."""
    kernel = _kernels.get(choice.variant)
    if kernel is None:
        with _preparing, spent.timed():
            kernel = _kernels.get(choice.variant)
            if kernel is None:
                kernel = _kernels[choice.variant] = _kept(choice) or _built(choice)
    return kernel.call


def load_kept(choice: Choice) -> None:
    """Loads the kernel that was chosen where it is kept; builds none."""
    if choice.variant in _kernels:
        return
    with _preparing, spent.timed():
        kernel = _kernels.get(choice.variant) or _kept(choice)
        if kernel:
            _kernels[choice.variant] = kernel


def _kept(choice: Choice) -> LoadedKernel | None:
    code = store.read(choice.variant)
    return loaded(code) if code else None


def _built(choice: Choice) -> LoadedKernel:
    """Built here and kept, unless another process has just done so."""
    with store.writing(choice.variant) as keep:
        kernel = _kept(choice)
        if kernel is None:
            spent.announce(f"compiling for {choice.dtype} arrays, once: later runs load what is made now")
            with without_collector():
                from poolcli.engine.compiled.build import build

                code = build(choice)
            kernel = loaded(code)
            if kernel is None:
                raise RuntimeError(f"the kernel {choice.variant} was built without its function")
            keep(code)
    return kernel
