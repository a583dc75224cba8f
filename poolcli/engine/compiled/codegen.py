"""Compiles LLVM modules of kernels to machine code, and loads machine code.

Both need llvmlite only, so that a process whose kernels are cached does not import numba.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import llvmlite.binding as llvm

POINTERS, INTEGERS = 8, 2  # arguments of a kernel; numba adds the first two pointers
LINKED = {"memset", "memcpy", "memmove", "pow", "sqrt", "fabs", "rint"}  # which every process has

Kernel = Callable[..., int]


class Code(NamedTuple):
    """Machine code as an object file, and the name of its function."""

    symbol: str
    data: bytes


class LoadedKernel(NamedTuple):
    """A function, and the engine that owns its code."""

    call: Kernel
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


def fuses() -> bool:
    """Whether this processor has fused multiply-add."""
    return not {"+fma", "+fp-armv8"}.isdisjoint(_processor()[1].split(","))


def divides_fast() -> bool:
    """Whether a division takes less time than the five instructions that give the same quotient from a reciprocal.

    AMD EPYC Zen 4 divides four float64 in 5 cycles, so averages with divisions take 0.83 to 1.04 of the time. Intel
    Xeons take 8 cycles, and 1.15 to 1.33 of the time for small maps.
    """
    return _processor()[0].startswith("znver")


def uses_gathers(stride: int) -> bool:
    """Whether LLVM uses gathers for loads that are `stride` elements apart, as it does with AVX-512.

    On AMD, gathers are slow: kernels for strides of 3 and more, compiled without AVX-512, take 0.67 to 0.83 of the time
    (EPYC Zen 4, rows of 1 kB); for a stride of 2, LLVM uses no gathers, and AVX-512 takes 0.8 to 0.95.
    """
    name, features = _processor()
    return "+avx512f" in features.split(",") and not (stride > 2 and name.startswith("znver"))


def emit(text: str, wide: bool = False, stride: int = 1) -> Code:
    """Compile the only function of a module, with everything inlined and loops vectorised.

    wide: use 512-bit vectors if the processor has them. stride: that of strided loads, if they might become gathers.
    """
    llvm = binding()
    machine, module = _machine(llvm, wide, stride), llvm.parse_assembly(_to_optimise(text))
    options = llvm.create_pipeline_tuning_options(3)
    options.loop_vectorization = options.loop_interleaving = options.loop_unrolling = True
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


def _machine(llvm: Any, wide: bool = False, stride: int = 1) -> llvm.TargetMachine:
    name, features = _processor()
    if not uses_gathers(stride):
        features = features.replace("+avx512", "-avx512")
    elif wide:
        features += ",-prefer-256-bit"
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, reloc="pic", codemodel="small"
    )
