"""The loops of the compiled engine, on one canonical view: (outer, D, H, W * inner), given flat.

A task makes one output row (outer, d, h), or the rows whose windows start in one block of input rows. The
rows of a window are joined in a row buffer, which is contiguous and vectorises for any number of inner
channels; then windows are taken along the buffer. How elements are joined (added, or the best of them
taken) is up to the arithmetic, `how`; where they lie to the `geometry`. Every output is made inside one
task and by the same order of operations wherever it lies, so results depend neither on threads nor on how
tasks are shared out.

A kernel is made for one arithmetic, whose types and numbers are constants in it, and gets raw pointers: to
what is read and written, to row buffers (`work`, of totals, and `lines`), to the integers and the divisors
of the geometry; then its first task and one past the last. It allocates nothing, so it knows no reference
counts and no exceptions, and its machine code asks nothing of numba when it is loaded by another process.

A signed position in the innermost loop keeps some of them from vectorising; so the loops at the bottom turn
positions into unsigned numbers first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numba import from_dtype, njit, types

from poolcli.engine.compiled.kernels.best import best_at, slide_at
from poolcli.engine.compiled.kernels.each import each, each_inner
from poolcli.engine.compiled.kernels.line import slide_line
from poolcli.engine.compiled.kernels.maps import slide_maps
from poolcli.engine.compiled.kernels.medians import median
from poolcli.engine.compiled.kernels.slide import slide, slide_blocks
from poolcli.engine.compiled.kernels.statistics import deviations, moments
from poolcli.engine.compiled.kernels.tiles import tiles, tiles_of_pixels
from poolcli.engine.compiled.kernels.votes import mode_each, mode_few
from poolcli.engine.compiled.kernels.weighed import weighed
from poolcli.engine.compiled.machine import Code, emit
from poolcli.engine.compiled.numbers import functions_of
from poolcli.engine.compiled.pointers import KERNEL

if TYPE_CHECKING:
    from poolcli.engine.compiled.choose import Choice

# What makes the kernel for an arithmetic, and for one size of windows where that is constant in it.
MAKERS: tuple[Callable[..., Any], ...] = (
    slide,
    slide_blocks,
    slide_maps,
    slide_line,
    tiles,
    tiles_of_pixels,
    each,
    each_inner,
    best_at,
    slide_at,
    mode_each,
    mode_few,
    weighed,
    moments,
    deviations,
    median,
)
KERNELS = {make.__name__: make for make in MAKERS}
# Kernels that take up to a third less time by vectors of 512 bits, which LLVM leaves alone unasked; rows must be long
# enough. Not those that let LLVM choose an order of additions: their bits would be others.
WIDE = {"slide", "slide_line", "slide_maps", "slide_at", "tiles", "moments", "deviations", "median"}
STRIDED = {"slide", "slide_blocks", "tiles"}  # which load elements a stride apart


def build(choice: Choice) -> Code:
    """The machine code of the kernel that was chosen: numba makes a module of LLVM of its Python, for one arithmetic
    and its types.
    """
    x, out, work, divisor = (
        types.CPointer(from_dtype(dtype)) for dtype in (choice.source, choice.made, choice.totals, choice.divisor)
    )
    places, lines = types.CPointer(types.int64), types.CPointer(types.int32)
    signature = types.void(x, out, places, work, lines, places, divisor, types.int64, types.int64)
    how, loops = functions_of(choice.how, choice.source, choice.made, choice.divisor), choice.loops
    compiled = njit(signature, **KERNEL)(KERNELS[loops.kernel](how, loops.taps))
    stride = loops.taps.stride if loops.taps and loops.kernel in STRIDED else 1
    return emit(compiled.inspect_llvm(compiled.signatures[0]), wide=loops.kernel in WIDE, stride=stride)
