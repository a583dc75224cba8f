"""Loads compiled kernels: from this process, from the kernel cache, or by compiling them: numba makes an LLVM module of
a kernel, LLVM optimises it once and emits an object file. Loading that needs llvmlite only, so that a process whose
kernels are cached does not import numba.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine import choose
from poolcli.engine.choose import KernelError, is_switched_off, kernel_errors
from poolcli.engine.compiled import kernel_cache
from poolcli.engine.compiled.kernel_cache import Code
from poolcli.system.lazy_imports import COMPILED, gc_disabled, loading

if TYPE_CHECKING:
    from poolcli.engine.compiled.choice import Kernel


POINTERS, INTEGERS = 9, 2  # arguments of a kernel; numba adds the first two pointers
LINKED = {"memset", "memcpy", "memmove", "sqrt", "fabs", "rint", "fma"}  # which every process has
LLVM_BYTES = 1 << 26  # more than it takes to compile a kernel, or to load one

Call = Callable[..., int]
_kernels: dict[str, Call] = {}
_engines: list[Any] = []  # of LLVM, which own the code
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
    return _kernels[kernel.name]


def _read_or_compiled(kernel: Kernel) -> Call:
    if is_switched_off():
        raise KernelError("NUMBA_DISABLE_JIT switches numba off; use engine numpy or auto")
    if kernel.name in _failed:
        raise KernelError(_failed[kernel.name])
    np.empty(LLVM_BYTES, np.uint8)  # raises MemoryError; where LLVM runs out of memory, it aborts the process
    try:
        with kernel_errors():
            code = kernel_cache.read(kernel.name)
            if code is not None:
                return loaded(code)
            with gc_disabled():
                choose.announce(f"compiling kernels for {kernel.dtype} (first run only)")
                code = build(kernel)
            call = loaded(code)
            kernel_cache.keep(kernel.name, code)
            return call
    except KernelError as error:
        if not isinstance(error.__cause__, RecursionError):  # the next caller's stack may be less deep
            _failed[kernel.name] = error.message
        raise


def build(kernel: Kernel) -> Code:
    """Compile a kernel: numba generates LLVM code from its Python code. LLVM inlines everything, vectorises loops, and
    of bins also partial results (7x7 to 1: 0.75 of the time; other kernels take up to 1.6 times as long).
    """
    from poolcli.engine.compiled.kernels import llvm_text
    from poolcli.engine.compiled.kernels.operations import numbers_of

    converts = "+f16c" in kernel_cache.processor()[1] or os.uname().machine in ("aarch64", "arm64")
    if "float16" in (kernel.arithmetic.read, kernel.arithmetic.write) and not converts:
        raise RuntimeError("this processor does not convert float16")  # LLVM would abort the process
    module_name, _, name = kernel.maker.rpartition(".")
    make = getattr(import_module(f"poolcli.engine.compiled.kernels.{module_name}"), name)
    made = make(numbers_of(kernel.arithmetic), kernel.arithmetic, *kernel.constants)
    text = llvm_text(made, kernel.source, kernel.arithmetic.output, kernel.work)
    llvm = kernel_cache.binding()
    machine = _machine(llvm)
    attributes = re.compile("^attributes #.*", re.MULTILINE)  # of `optimise_later`
    text = attributes.sub(lambda line: line[0].replace("noinline", "alwaysinline").replace("optnone", ""), text)
    module = llvm.parse_assembly(text)
    options = llvm.create_pipeline_tuning_options(3)
    options.loop_vectorization = options.loop_interleaving = options.loop_unrolling = True
    options.slp_vectorization = kernel.maker == "bins.bins"
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    (symbol,) = (function.name for function in module.functions if not function.is_declaration)
    declared = {function.name for function in module.functions if function.is_declaration}
    unknown = {name for name in declared if not name.startswith("llvm.")} - LINKED
    if unknown:
        raise RuntimeError(f"a kernel calls functions that other processes may lack: {', '.join(sorted(unknown))}")
    return Code(symbol, machine.emit_object(module))


def loaded(code: Code) -> Call:
    """Load machine code."""
    llvm = kernel_cache.binding()
    # llvmlite's memory manager places code and constants side by side. LLVM's aborts the process where free memory is
    # further apart than the 2 GiB that addresses in a kernel span, as it may be in large programs.
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(llvm), use_lmm=True)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.data))
    engine.finalize_object()
    if not (address := engine.get_function_address(code.symbol)):
        raise RuntimeError("a compiled kernel does not have its function")
    _engines.append(engine)
    return ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * POINTERS, *[ctypes.c_int64] * INTEGERS)(address)


def _machine(llvm: Any) -> Any:
    """Vectors of 256 bits: with AVX-512, LLVM makes gathers of strided loads, which take 1.2 to 1.5 times as long."""
    name, features = kernel_cache.processor()
    features = features.replace("+avx512", "-avx512")
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, reloc="pic", codemodel="small"
    )
