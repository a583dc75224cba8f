"""numba as a front end alone: it types kernels and writes their LLVM, which is optimised and made machine code once.

By itself numba optimises every helper of a kernel, makes machine code of each, and then does so for the whole: half of
the time of a build. A compiler class is what numba lets be replaced; the library that it fills keeps here what it is
given.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import FixupArgs, GenericRewrites, ReconstructSSA, TranslateByteCode

# What kernels need of numba's 25 passes: they make no functions, and have no `with` and nothing to unroll.
PASSES = [
    TranslateByteCode(), FixupArgs(), GenericRewrites(), ReconstructSSA(), NopythonTypeInference(),
    PreLowerStripPhis(), IRLegalization(), NativeLowering(), NoPythonBackend(),
]  # fmt: skip


class _Passes(PassManager):
    """Those, one after the other; by itself numba finds anew after each what lives where (a sixth of its time)."""

    def run(self, state: Any) -> None:
        """Makes LLVM of a function."""
        for one in PASSES:
            one.run_pass(state)


class _Unused:
    """What stands for a code generator where numba would tell it of a function to call."""

    def set_env(self, name: str, environment: object) -> None:
        """No function is called."""


class _Library(JITCodeLibrary):
    """LLVM as it was written, with that of all helpers."""

    codegen = _Unused()

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """None: there is no machine code."""
        self._ensure_finalized()
        return 0


class FrontEnd(CompilerBase):
    """numba's compiler, up to LLVM."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing, target, library or _Library(target.codegen(), "kernel"), *rest)

    def define_pipelines(self) -> list[PassManager]:
        """One way to compile."""
        return [_Passes("kernel")]


class Whole(FrontEnd):
    """The same for a kernel, each of whose pointers leads to memory of its own: LLVM need not ask whether what it reads
    has just been written (a tenth of the build, and up to a third of the time of a kernel).
    """

    def __init__(self, typing: Any, target: Any, library: Any, types: Any, result: Any, flags: Any, *rest: Any) -> None:
        flags.noalias = True
        super().__init__(typing, target, library, types, result, flags, *rest)
