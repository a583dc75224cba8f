"""Building a kernel: numba makes a module of LLVM of its Python, for one arithmetic and its types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import from_dtype, njit, types

from poolcli.engine.compiled.kernels import KERNELS
from poolcli.engine.compiled.machine import Code, emit
from poolcli.engine.compiled.pointers import KERNEL

if TYPE_CHECKING:
    from poolcli.engine.compiled.choice import Choice


# Kernels that take up to a third less time by vectors of 512 bits, which LLVM leaves alone unasked; rows must be long
# enough. Not those that let LLVM choose an order of additions: their bits would be others.
WIDE = {"slide", "slide_line", "slide_maps", "slide_planes", "slide_at", "halve"}
TWICE = {"each"}  # spares up-sampling a sixth of its time, and costs a tenth of the build


def build(choice: Choice) -> Code:
    """The machine code of the kernel that was chosen."""
    x, out, work, divisor = (
        types.CPointer(from_dtype(dtype)) for dtype in (choice.source, choice.made, choice.totals, choice.divisor)
    )
    places, lines = types.CPointer(types.int64), types.CPointer(types.int32)
    signature = types.void(x, out, places, work, lines, places, divisor, types.int64, types.int64)
    compiled = njit(signature, **KERNEL)(KERNELS[choice.kernel](choice.how, choice.taps))
    return emit(compiled.inspect_llvm(compiled.signatures[0]), wide=choice.kernel in WIDE, twice=choice.kernel in TWICE)
