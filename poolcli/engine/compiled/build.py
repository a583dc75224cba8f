"""From Python functions to machine code: numba makes an LLVM module of a kernel, LLVM optimises it once and emits an
object file. Loading that needs llvmlite only, so that a process whose kernels are cached does not import numba.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import llvmlite.binding as llvm

    from poolcli.engine.compiled.choice import Kernel

POINTERS, INTEGERS = 8, 2  # arguments of a kernel; numba adds the first two pointers
LINKED = {"memset", "memcpy", "memmove", "sqrt", "fabs", "rint", "fma"}  # which every process has

Call = Callable[..., int]


class Code(NamedTuple):
    """Machine code as an object file, and the name of its function."""

    symbol: str
    data: bytes


class LoadedKernel(NamedTuple):
    """A function, and the engine that owns its code."""

    call: Call
    engine: Any


@cache
def binding() -> Any:
    """llvmlite, initialised for this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache
def _processor() -> tuple[str, str]:
    """The name and features of the processor: from numba's environment variables, else of this machine."""
    llvm = binding()
    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES")
    return name, llvm.get_host_cpu_features().flatten() if features is None else features


def description() -> str:
    """What machine code depends on: platform, processor and LLVM version."""
    llvm, (name, features) = binding(), _processor()
    return f"{llvm.get_default_triple()} {name} {features} LLVM {llvm.llvm_version_info}"


def build(kernel: Kernel) -> Code:
    """Compile a kernel: numba generates LLVM code from its Python code, `emit` machine code from that."""
    from poolcli.engine.compiled.kernels import llvm_text
    from poolcli.engine.compiled.kernels.operations import numbers_of

    module, _, name = kernel.maker.rpartition(".")
    make = getattr(import_module(f"poolcli.engine.compiled.kernels.{module}"), name)
    made = make(numbers_of(kernel.arithmetic), kernel.arithmetic, *kernel.constants)
    text = llvm_text(made, kernel.source, kernel.arithmetic.output, kernel.work)
    return emit(text, together=kernel.maker == "bins.bins")


def emit(text: str, together: bool) -> Code:
    """Compile the only function of a module, with everything inlined and loops vectorised; `together` also makes
    vectors of partial results (7x7 to 1: 0.75 of the time; other kernels take up to 1.6 times as long).
    """
    llvm = binding()
    machine, module = _machine(llvm), llvm.parse_assembly(_to_optimise(text))
    options = llvm.create_pipeline_tuning_options(3)
    options.loop_vectorization = options.loop_interleaving = options.loop_unrolling = True
    options.slp_vectorization = together
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    (symbol,) = (function.name for function in module.functions if not function.is_declaration)
    declared = {function.name for function in module.functions if function.is_declaration}
    unknown = {name for name in declared if not name.startswith("llvm.")} - LINKED
    if unknown:
        raise RuntimeError(f"a kernel calls functions that other processes may lack: {', '.join(sorted(unknown))}")
    return Code(symbol, machine.emit_object(module))


def _to_optimise(text: str) -> str:
    """The module with alwaysinline in place of the attributes that `optimise_later` sets."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("attributes #"):
            lines[number] = line.replace("noinline", "alwaysinline").replace("optnone", "")
    return "\n".join(lines)


def loaded(code: Code) -> LoadedKernel | None:
    """Load machine code; None if it does not have the function."""
    llvm = binding()
    # llvmlite's memory manager places code and constants side by side. LLVM's aborts the process where free memory is
    # further apart than the 2 GiB that addresses in a kernel span, as it may be in large programs.
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(llvm), use_lmm=True)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.data))
    engine.finalize_object()
    address = engine.get_function_address(code.symbol)
    if not address:
        return None
    types = [ctypes.c_void_p] * POINTERS + [ctypes.c_int64] * INTEGERS
    return LoadedKernel(ctypes.CFUNCTYPE(ctypes.c_int32, *types)(address), engine)


def _machine(llvm: Any) -> llvm.TargetMachine:
    """Vectors of 256 bits: with AVX-512, LLVM makes gathers of strided loads, which take 1.2 to 1.5 times as long."""
    name, features = _processor()
    features = features.replace("+avx512", "-avx512")
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, reloc="pic", codemodel="small"
    )
