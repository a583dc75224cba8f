"""The kernels: loops over one canonical view, (outer, D, H, W * inner).

A task is one output row (outer, d, h), a group of rows, a piece of a row, or a block of rows. The rows of a window are
combined in a row buffer first, which is contiguous and vectorises for any number of inner elements; then the windows
are computed along the buffer. How elements are combined is up to the arithmetic (`ops`), where they are to the
`geometry`. Every output is computed inside one task and in the same order of operations wherever it is, so the bits do
not depend on threads or on how tasks are divided.

A kernel is compiled for one arithmetic, whose types and numbers are constants. Its arguments are raw pointers: x, out,
positions, the work arrays of accumulators and of int32, and a tuple of the geometry and of the kernel's own parameters;
then its first task and the one after its last. It allocates nothing and raises nothing, so its machine code needs
nothing from numba when another process loads it.

Positions in inner loops are unsigned: numba handles negative ones by a branch that keeps some loops from vectorising.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import from_dtype, njit, types

from poolcli.engine.compiled.codegen import Code, emit
from poolcli.engine.compiled.intrinsics import KERNEL
from poolcli.engine.compiled.kernels.argmax import argmax, argmax_row, slide_argmax
from poolcli.engine.compiled.kernels.deviation import deviation, exact_deviation
from poolcli.engine.compiled.kernels.irregular import (
    irregular,
    irregular_inner,
    irregular_row,
    irregular_short,
    weighted_sum,
)
from poolcli.engine.compiled.kernels.median import median
from poolcli.engine.compiled.kernels.mode import mode_pairs, mode_sort
from poolcli.engine.compiled.kernels.single_row import slide_row
from poolcli.engine.compiled.kernels.slide import slide, slide_blocks, slide_planes
from poolcli.engine.compiled.kernels.tiles import rgb_tiles, tiles
from poolcli.engine.compiled.operations import operations_of

if TYPE_CHECKING:
    from poolcli.engine.compiled.kernel_choice import KernelSpec

# Each makes a kernel of the operations of an arithmetic and of what its KernelSpec has as constants.
MAKERS: tuple[Callable[..., Any], ...] = (
    slide,
    slide_blocks,
    slide_planes,
    slide_row,
    tiles,
    rgb_tiles,
    irregular,
    irregular_short,
    irregular_row,
    irregular_inner,
    argmax,
    argmax_row,
    slide_argmax,
    mode_sort,
    mode_pairs,
    weighted_sum,
    exact_deviation,
    deviation,
    median,
)
KERNELS = {make.__name__: make for make in MAKERS}
# Vectors of 512 bits, which LLVM avoids by default, take up to a third less time in these kernels if rows are long.
# The bits do not depend on it: no kernel lets LLVM choose the order of additions.
WIDE = {"slide", "slide_row", "slide_planes", "slide_argmax", "tiles", "exact_deviation", "deviation", "median"}
STRIDED = {"slide", "slide_blocks", "tiles"}  # load elements a stride apart


def build(spec: KernelSpec) -> Code:
    """Compile a kernel: numba generates LLVM code from its Python code, `emit` machine code from that."""
    arithmetic, launch = spec.arithmetic, spec.launch
    elements: tuple[np.dtype[Any], ...] = spec.source, arithmetic.output, arithmetic.identity.dtype
    x, out, work = (types.CPointer(from_dtype(dtype)) for dtype in elements)
    positions, iwork = types.CPointer(types.int64), types.CPointer(types.int32)
    params = types.CPointer(_type_of((spec.geometry, launch.params)))
    signature = types.void(x, out, positions, work, iwork, params, types.int64, types.int64)
    make = KERNELS[launch.kernel]
    compiled = njit(signature, **KERNEL)(make(operations_of(arithmetic), spec))
    stride = launch.fixed.stride if launch.fixed and launch.kernel in STRIDED else 1
    return emit(compiled.inspect_llvm(compiled.signatures[0]), wide=launch.kernel in WIDE, stride=stride)


def _type_of(value: Any) -> Any:
    """The type of parameters in memory: tuples of integers, of pointers in place of arrays, and of such tuples."""
    if isinstance(value, tuple):
        kind = type(value) if hasattr(value, "_fields") else None
        return types.BaseTuple.from_types([_type_of(each) for each in value], kind)
    return types.CPointer(from_dtype(value.dtype)) if isinstance(value, np.ndarray) else types.int64
