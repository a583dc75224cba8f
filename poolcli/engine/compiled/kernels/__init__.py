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

from poolcli.engine.compiled.view import AT

# Kernels are called by address and raise nothing, so they need neither wrappers nor checks of divisors. `debug` is
# stated because its default is NUMBA_DEBUGINFO, with which numba warns of functions without source.
KERNEL: Any = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "debug": False}
inlined = njit(forceinline=True, **KERNEL)  # for functions without loops
looped = njit(forceinline=False, **KERNEL)  # for functions with loops, which begin with `optimise_later()`
u8 = np.uint64  # of positions in inner loops: numba mixes signed and unsigned numbers to floats

Function = Callable[..., Any]


def llvm_text(kernel: Function, source: Any, output: Any, work: Any) -> str:
    """The LLVM code of kernel(x, out, places, work, spare, table, factors, first, last): pointers to elements, outputs,
    positions, totals, int32, and to what the kernel is given (`Sizes`); the first task and the one after its last.
    """
    x, out, totals = (types.CPointer(from_dtype(dtype)) for dtype in (source, output, work))
    integers, floats, spare = (types.CPointer(kind) for kind in (types.int64, types.float64, types.int32))
    signature = types.void(x, out, integers, totals, spare, integers, floats, types.int64, types.int64)
    compiled = njit(signature, **KERNEL)(kernel)
    return compiled.inspect_llvm(compiled.signatures[0])


@intrinsic
def optimise_later(typing):
    """Keep numba from optimising a function on its own, which took a third of the time of a build: `build` inlines all
    functions and optimises the result, once.
    """

    def generate(context, builder, signature, arguments):
        for attribute in ("noinline", "optnone"):  # which `build` replaces
            builder.function.attributes.add(attribute)
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def no_alias(typing):
    """Declare that the pointers of a kernel do not overlap; checks for overlap took up to a third of its time."""

    def generate(context, builder, signature, arguments):
        for argument in builder.function.args:
            if isinstance(argument.type, ir.PointerType):
                argument.add_attribute("noalias")
        for attribute in ("noinline", "optnone"):
            builder.function.attributes.add(attribute)
        return context.get_dummy_value()

    return types.void(), generate


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

    def generate(context, builder, signature, arguments):
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.int64), generate


@inlined
def clamp(value, low, high):
    """min(max(value, low), high); the builtins are functions that numba compiles, 20 ms each."""
    value = low if value < low else value
    return high if value > high else value


@inlined
def row_at(table, t):
    """The plane, d and h of output row t."""
    rest = t // table[AT.height]
    return rest // table[AT.depth], rest % table[AT.depth], t - rest * table[AT.height]


@inlined
def next_row(table, p, d, h):
    """The row after (p, d, h), without the divisions."""
    h += 1
    if h == table[AT.height]:
        h, d = 0, d + 1
        if d == table[AT.depth]:
            d, p = 0, p + 1
    return p, d, h


@inlined
def next_plane(table, p, d):
    """The first row of the output plane after (p, d)."""
    d += 1
    return (p + 1, 0, 0) if d == table[AT.depth] else (p, d, 0)


@inlined
def piece_of(table, q):
    """Piece q of a row: its first output and their number, its first element and their number, and the position of that
    in the row buffer.
    """
    channels, reach, pixels = table[AT.channels], table[AT.reach], table[AT.width] // table[AT.channels]
    first = q * table[AT.piece]
    start = first * table[AT.stride] - table[AT.pad]
    low = clamp(start, 0, pixels)
    used, before = clamp(start + reach, low, pixels) - low, clamp(low - start, 0, reach)
    many = clamp(table[AT.piece], 0, table[AT.columns] - first)
    return first * channels, many * channels, low * channels, used * channels, before * channels


@inlined
def ends_of(table, first, many):
    """The outputs of a piece of `many`, from `first` on, that have the divisor of whole windows."""
    lower = clamp(table[AT.first] * table[AT.channels] - first, 0, many)
    return lower, clamp(table[AT.last] * table[AT.channels] - first, lower, many)


@inlined
def plane_begin(table, p, d):
    """The position in x of the first row of the first plane that the windows of output plane (p, d) read."""
    split = table[AT.split]
    far = p if split == 1 else p // split
    return far * table[AT.far] + (p - far * split) * table[AT.near] + table[table[AT.at_d] + 2 * d] * table[AT.plane]


@inlined
def row_begin(table, p, d, h):
    """The position in x of the first row of the windows of output row (p, d, h)."""
    return plane_begin(table, p, d) + table[table[AT.at_h] + 2 * h] * table[AT.row]


@inlined
def counts_of(table, d, h):
    """The number of planes of the windows of an output row, and of rows in each."""
    return table[table[AT.at_d] + 2 * d + 1], table[table[AT.at_h] + 2 * h + 1]


@inlined
def divisor_of(table, factors, d, h):
    """The factors of the divisor along D and H."""
    return factors[d] * factors[table[AT.of_h] + h]


@inlined
def steps_of(table):
    """The distances in x of the planes of a window, and of its rows."""
    return table[AT.gap_d] * table[AT.plane], table[AT.gap_h] * table[AT.row]


@inlined
def line_offset(line, lines, far, near):
    """The distance from the first row of a window to its row `line`; each plane of it has `lines` rows."""
    plane = 0 if line < lines else line // lines
    return plane * far + (line - plane * lines) * near


def tree(taps: int, element: Function, join: Function) -> Function:
    """The function (v, at, w, tap) of `taps` elements from `tap` on; element(v, at, w, tap) is one."""
    if taps == 1:
        return element
    some, half, last = tree(taps // 2, element, join), u8(taps // 2), u8(taps - 1)

    @inlined
    def even(v, at, w, tap):
        return join(some(v, at, w, tap), some(v, at, w, tap + half))

    if taps % 2 == 0:
        return even  # type: ignore[no-any-return]

    @inlined
    def odd(v, at, w, tap):
        return join(even(v, at, w, tap), element(v, at, w, tap + last))

    return odd  # type: ignore[no-any-return]


def in_fours(taps: int, element: Function, join: Function) -> Function:
    """The same, but four by four."""
    if taps <= 5:
        return tree(taps, element, join)
    some, four, behind = in_fours(taps - 4, element, join), tree(4, element, join), u8(taps - 4)

    @inlined
    def longer(v, at, w, tap):
        return join(some(v, at, w, tap), four(v, at, w, tap + behind))

    return longer  # type: ignore[no-any-return]


def rows_joined(how: Any) -> Function:
    """The function (work, to, n, x, at, planes, lines, far, near, has_all) that joins the rows of any window, of which
    each plane has `lines`: in fours if the window has all of its rows, else one by one.
    """
    lift, join, nothing = how.lift, how.join, how.nothing

    @looped
    def joined(work, to, n, x, at, planes, lines, far, near, has_all):
        optimise_later()
        to, n, rows, done = u8(to), u8(n), planes * lines, 0
        if has_all and rows > 1:
            done = (rows - 2) % 4 + 2
            a = u8(at)
            b, c = u8(at + line_offset(1, lines, far, near)), u8(at + line_offset(2, lines, far, near))
            e, f = u8(at + line_offset(3, lines, far, near)), u8(at + line_offset(4, lines, far, near))
            if done == 2:
                for w in range(n):
                    work[to + w] = join(lift(x[a + w]), lift(x[b + w]))
            elif done == 3:
                for w in range(n):
                    work[to + w] = join(join(lift(x[a + w]), lift(x[b + w])), lift(x[c + w]))
            else:
                for w in range(n):
                    low, high = join(lift(x[a + w]), lift(x[b + w])), join(lift(x[c + w]), lift(x[e + w]))
                    work[to + w] = join(low, high)
                if done == 5:
                    for w in range(n):
                        work[to + w] = join(work[to + w], lift(x[f + w]))
            while done < rows:
                a = u8(at + line_offset(done, lines, far, near))
                b = u8(at + line_offset(done + 1, lines, far, near))
                c = u8(at + line_offset(done + 2, lines, far, near))
                e = u8(at + line_offset(done + 3, lines, far, near))
                for w in range(n):
                    low, high = join(lift(x[a + w]), lift(x[b + w])), join(lift(x[c + w]), lift(x[e + w]))
                    work[to + w] = join(work[to + w], join(low, high))
                done += 4
        elif rows == 0:
            for w in range(n):
                work[to + w] = nothing
        else:
            for w in range(n):
                work[to + w] = lift(x[u8(at) + w])
            for line in range(1, rows):
                a = u8(at + line_offset(line, lines, far, near))
                for w in range(n):
                    work[to + w] = join(work[to + w], lift(x[a + w]))

    return joined  # type: ignore[no-any-return]


def filled(nothing: Any) -> Function:
    """The function (work, to, n) that fills n totals with `nothing`."""

    @looped
    def fill(work, to, n):
        optimise_later()
        for w in range(u8(n)):
            work[u8(to) + w] = nothing

    return fill  # type: ignore[no-any-return]
