"""What kernels are made of: numba's decorators, four operations that numba lacks, where rows are, and the order in
which the elements of a window are joined.

The order: rows of a window in fours (the first 2 to 5 rows, then four by four), if it has all of its rows, or one by
one; then, along the joined row, two windows of m elements give one of 2m, and 2m + 1 with another. Whatever a kernel
unrolls or passes over several times, it keeps to that, so that bits do not depend on which kernel is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, njit, types
from numba.extending import intrinsic

from poolcli.engine.compiled.view import AT_ROWS, PIECE_FIELDS, ROW_FIELDS, Sizes

# Kernels are called by address and raise nothing, so they need neither wrappers nor checks of divisors. `debug` is
# stated because its default is NUMBA_DEBUGINFO, with which numba warns of functions without source.
KERNEL: Any = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "debug": False}
inlined = njit(forceinline=True, **KERNEL)  # for functions without loops
looped = njit(forceinline=False, **KERNEL)  # for functions with loops, which begin with `optimise_later()`
u8 = np.uint64  # of positions in inner loops: numba mixes signed and unsigned numbers to floats

Function = Callable[..., Any]


def llvm_text(kernel: Function, source: Any, output: Any, work: Any) -> str:
    """The LLVM code of kernel(x, out, places, work, sizes, table, factors, first, last): pointers to elements, outputs,
    int64 (positions), totals, and to what the kernel is given, of which `sizes` are the numbers at the front of the
    table, by name; the first task and the one after its last.
    """
    x, out, totals = (types.CPointer(from_dtype(dtype)) for dtype in (source, output, work))
    integers, floats = types.CPointer(types.int64), types.CPointer(types.float64)
    sizes = from_dtype(np.dtype([(name, np.int64) for name in Sizes._fields]))
    signature = types.void(x, out, integers, totals, sizes, integers, floats, types.int64, types.int64)
    compiled = njit(signature, **KERNEL)(kernel)
    return compiled.inspect_llvm(compiled.signatures[0])


def _marking(has_own_arrays: bool) -> Any:
    @intrinsic
    def mark(typing):
        def generate(context, builder, signature, arguments):
            for argument in builder.function.args if has_own_arrays else ():
                if isinstance(argument.type, ir.PointerType):
                    argument.add_attribute("noalias")
            for attribute in ("noinline", "optnone"):  # which `build` replaces
                builder.function.attributes.add(attribute)
            return context.get_dummy_value()

        return types.void(), generate

    return mark


# Keeps numba from optimising a function on its own, which took a third of the time of a build: `build` inlines all
# functions and optimises the result, once.
optimise_later = _marking(has_own_arrays=False)
# The same of a kernel, whose pointers do not overlap: checks for overlap took up to a third of its time.
no_alias = _marking(has_own_arrays=True)


@intrinsic
def fetch(typing, pointer, place):
    """Ask for the cache line of an element, which need not be inside the array. Rows of up to 8 kB end before the
    processor has learnt to read ahead: 1.15 to 1.78 times as long without (Zen 3). "convergent" keeps LLVM from
    unrolling the loop around it, of which the processor follows a single instruction.
    """

    def generate(context, builder, signature, arguments):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        at = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(function, [at, number(0), number(3), number(1)], attrs=("convergent",))
        return context.get_dummy_value()

    return types.void(pointer, types.uint64), generate


@intrinsic
def offset(typing, pointer, count):
    """pointer + count, in elements."""
    return pointer(pointer, types.int64), lambda context, builder, signature, given: builder.gep(given[0], [given[1]])


def by_rows(compute: Function, in_pieces: bool = True) -> Any:
    """The kernel whose tasks are output rows, or pieces of them. compute(x, out, places, work, sizes, table, factors,
    t, r, begin, planes, lines, piece, last) pools one: row t is row r of its plane, `piece` is where the table has the
    piece, and `last` the row after the last one.
    """
    pool_row = looped(compute)

    def kernel(x, out, places, work, sizes, table, factors, first_task, last_task):
        no_alias()
        pieces = sizes.pieces if in_pieces else 1
        t, q, last = first_task // pieces, first_task % pieces, last_task // pieces
        p, r = t // sizes.rows, t % sizes.rows
        for _ in range(first_task, last_task):
            row, piece = AT_ROWS + ROW_FIELDS * r, sizes.at_piece + PIECE_FIELDS * q
            begin, nd, nh = p * sizes.far + table[row], table[row + 1], table[row + 2]
            pool_row(x, out, places, work, sizes, table, factors, t, r, begin, nd, nh, piece, last)
            q += 1
            if q == pieces:
                q, t, r = 0, t + 1, r + 1
                if r == sizes.rows:
                    p, r = p + 1, 0

    return kernel


@inlined
def line_offset(line, lines, far, near):
    """The distance from the first row of a window to its row `line`; each plane of it has `lines` rows."""
    plane = 0 if line < lines else line // lines
    return plane * far + (line - plane * lines) * near


def tree(taps: int, element: Function, join: Function, pair: Function | None = None) -> Function:
    """The function (v, at, w, tap) of `taps` elements from `tap` on; element(v, at, w, tap) is one, `pair` two."""
    if taps == 1:
        return element
    if taps == 2 and pair:
        return pair
    some, mid, end = tree(taps // 2, element, join, pair), u8(taps // 2), u8(taps - 1)
    even = inlined(lambda v, a, w, t: join(some(v, a, w, t), some(v, a, w, t + mid)))
    odd = inlined(lambda v, a, w, t: join(join(some(v, a, w, t), some(v, a, w, t + mid)), element(v, a, w, t + end)))
    return odd if taps % 2 else even  # type: ignore[no-any-return]


def in_fours(taps: int, element: Function, join: Function, pair: Function) -> Function:
    """The same, but four by four."""
    if taps <= 5:
        return tree(taps, element, join, pair)
    some, four, behind = in_fours(taps - 4, element, join, pair), tree(4, element, join, pair), u8(taps - 4)
    return inlined(lambda v, at, w, tap: join(some(v, at, w, tap), four(v, at, w, tap + behind)))  # type: ignore[no-any-return]


def rows_joined(how: Any) -> Function:
    """The function that joins the rows of any window, of which each plane has `lines`: in fours, or one by one."""
    lift, join, both, nothing = how.lift, how.join, how.both, how.nothing
    two = inlined(lambda x, a, b, w: both(x[a + w], x[b + w]))

    @looped
    def joined(work, to, n, x, at, planes, lines, far, near, by_fours):
        optimise_later()
        to, n, rows, a, second = u8(to), u8(n), planes * lines, u8(at), np.int64(1)  # numba compiles for each literal
        b = u8(at + line_offset(second, lines, far, near))
        done = 1 if not by_fours or rows == 1 else 4 if rows % 4 < 2 else 2
        if rows == 0:
            for w in range(n):
                work[to + w] = nothing
        elif done == 1:
            for w in range(n):
                work[to + w] = lift(x[a + w])
        elif done == 2:
            for w in range(n):
                work[to + w] = two(x, a, b, w)
        else:
            c = u8(at + line_offset(second + 1, lines, far, near))
            e = u8(at + line_offset(second + 2, lines, far, near))
            for w in range(n):
                work[to + w] = join(two(x, a, b, w), two(x, c, e, w))
        while done < rows:
            a = u8(at + line_offset(done, lines, far, near))
            if by_fours and (rows - done) % 4 == 0:
                b = u8(at + line_offset(done + 1, lines, far, near))
                c = u8(at + line_offset(done + 2, lines, far, near))
                e = u8(at + line_offset(done + 3, lines, far, near))
                for w in range(n):
                    work[to + w] = join(work[to + w], join(two(x, a, b, w), two(x, c, e, w)))
                done += 4
            else:
                for w in range(n):
                    work[to + w] = join(work[to + w], lift(x[a + w]))
                done += 1

    return joined  # type: ignore[no-any-return]
