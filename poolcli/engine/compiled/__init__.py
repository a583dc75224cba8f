"""Loads compiled kernels: from this process, from the kernel cache, or by compiling them."""

from __future__ import annotations

import os
import threading
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from poolcli.engine import choose
from poolcli.engine.choose import KernelError, is_switched_off, kernel_errors
from poolcli.engine.compiled import kernel_cache
from poolcli.engine.compiled.build import Call, LoadedKernel, build, loaded
from poolcli.system.lazy_imports import COMPILED, gc_disabled, loading

if TYPE_CHECKING:
    from poolcli.engine.compiled.choice import Kernel


LLVM_BYTES = 1 << 26  # more than it takes to compile a kernel, or to load one

_kernels: dict[str, LoadedKernel] = {}
_failed: dict[str, str] = {}  # the reasons of failures, so that they are not tried again
_lock = threading.RLock()
# A fork waits until no other thread loads a kernel, as the child would wait forever for this lock, or for one of
# llvmlite's. The lock is reentrant because a signal handler may fork during a compilation. Of hooks before a fork,
# the latest is called first: that of logging, to which numba logs, must come after this one.
import_module("logging")
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def load(kernel: Kernel) -> Call:
    """The kernel as a function of pointers and a range of tasks, which releases the GIL.

    Raises KernelError if it can be neither loaded nor compiled, MemoryError if memory does not suffice for that.
    """
    if kernel.name not in _kernels:
        with _lock, loading(COMPILED):
            if kernel.name not in _kernels:
                _kernels[kernel.name] = _read_or_compiled(kernel)
    return _kernels[kernel.name].call


def _read_or_compiled(kernel: Kernel) -> LoadedKernel:
    if is_switched_off():
        raise KernelError("NUMBA_DISABLE_JIT switches numba off; use engine numpy or auto")
    if kernel.name in _failed:
        raise KernelError(_failed[kernel.name])
    np.empty(LLVM_BYTES, np.uint8)  # raises MemoryError; where LLVM runs out of memory, it aborts the process
    try:
        with kernel_errors():
            code = kernel_cache.read(kernel.name)
            return (loaded(code) if code else None) or _compiled(kernel)
    except KernelError as error:
        if not isinstance(error.__cause__, RecursionError):  # the next caller's stack may be less deep
            _failed[kernel.name] = error.message
        raise


def _compiled(kernel: Kernel) -> LoadedKernel:
    with gc_disabled():
        choose.announce(f"compiling kernels for {kernel.dtype} (first run only)")
        code = build(kernel)
    found = loaded(code)
    if found is None:
        raise RuntimeError(f"the compiled kernel {kernel.name} does not have its function")
    kernel_cache.keep(kernel.name, code)
    return found
