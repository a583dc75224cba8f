"""Regular windows of any size: one kernel for all small arrays of a pair of types, and for long windows.

Rows are joined in a row buffer; windows of m elements along it give those of 2m, so k taps take log2(k) passes. Windows
of many overlapping rows are joined by blocks (`tall`).
"""

from __future__ import annotations

from typing import Any

from poolcli.engine.compiled.kernels import by_rows, inlined, looped, no_alias, offset, optimise_later, rows_joined, u8
from poolcli.engine.compiled.view import AT_ROWS, PIECE_FIELDS, ROW_FIELDS


@inlined
def clamp(value, low, high):
    """min(max(value, low), high); the builtins are functions that numba compiles, 20 ms each."""
    value = low if value < low else value
    return high if value > high else value


def padding(nothing: Any) -> Any:
    """The function (work, before, used, length) that fills a row buffer before and after `used` totals."""

    @looped
    def pad(work, before, used, length):
        optimise_later()
        for w in range(u8(before)):
            work[w] = nothing
        for w in range(u8(length - before - used)):
            work[u8(before + used) + w] = nothing

    return pad


def row_finished(how: Any) -> Any:
    """The function (out, to, size, work, length, sizes, by, factors, first) that makes `size` outputs, of which the
    first is number `first` of its row, of the joined row of `length` elements in `work`.

    Windows are joined in passes that alternate between two buffers after the row; an odd element is taken from the row.
    The last pass is joined with the output; for a stride, only pixels that begin a window are stored.
    """
    join, store, divides = how.join, how.store, how.divides

    @looped
    def finished(out, to, size, work, length, sizes, by, factors, first):
        optimise_later()
        taps, unit, stride = sizes.taps, sizes.gap_w * sizes.channels, sizes.stride
        bit, done, source = 1, 1, 0
        while 2 * bit <= taps:
            bit *= 2
        last = 1 if stride > 1 else 2
        while bit > last:
            bit //= 2
            shift, spare = done * unit, 2 * length if source == length else length
            target, a, b, c = u8(spare), u8(source), u8(source + shift), u8(2 * shift)
            if taps & bit:
                for w in range(u8(clamp(length - 2 * shift, 0, length))):
                    work[target + w] = join(join(work[a + w], work[b + w]), work[c + w])
            else:
                for w in range(u8(clamp(length - 2 * shift + unit, 0, length))):
                    work[target + w] = join(work[a + w], work[b + w])
            source, done = spare, 2 * done + (taps & bit != 0)
        to, a, b, c = u8(to), u8(source), u8(source + done * unit), u8(2 * done * unit)
        own = u8(sizes.of_w + first)
        if stride > 1:
            step, cs = u8(stride * sizes.channels), u8(sizes.channels)
            for pixel in range(u8(size) // cs):
                for c in range(cs):
                    w = pixel * cs + c
                    out[to + w] = store(work[a + pixel * step + c], by * factors[own + w] if divides else by)
        elif taps == 1:
            for w in range(u8(size)):
                out[to + w] = store(work[a + w], by * factors[own + w] if divides else by)
        elif taps % 2:
            for w in range(u8(size)):
                total = join(join(work[a + w], work[b + w]), work[c + w])
                out[to + w] = store(total, by * factors[own + w] if divides else by)
        else:
            for w in range(u8(size)):
                out[to + w] = store(join(work[a + w], work[b + w]), by * factors[own + w] if divides else by)

    return finished


def long(how: Any, steps: Any) -> Any:
    """Task t is a piece of an output row. `a` is the number of rows of a whole window."""
    pad, joined, finished = padding(how.nothing), rows_joined(how), row_finished(how)

    @by_rows
    def kernel(x, out, places, work, sizes, table, factors, t, r, begin, nd, nh, piece, last):
        optimise_later()
        size, length = sizes.size, sizes.reach * sizes.channels
        far, near = sizes.step_d, sizes.step_h
        first, low, used, before = table[piece], table[piece + 2], table[piece + 3], table[piece + 4]
        joined(work, before, used, x, begin + low, nd, nh, far, near, nd * nh == sizes.a)
        pad(work, before, used, length)
        finished(out, t * size + first, table[piece + 1], work, length, sizes, factors[r], factors, first)

    return kernel


def tall(how: Any, steps: Any) -> Any:
    """Windows of many overlapping rows of one plane: `a` rows, `b` apart, the first `c` above the input.

    Rows, padding included, are divided into `e` blocks of the height of a window (van Herk). A window is the end of one
    block, which is joined once from its last row upwards, and the start of the next, which is joined row by row. A task
    is a piece of a block of rows. The buffer of ends has a row of `nothing` at last.
    """
    lift, join = how.lift, how.join
    pad, finished = padding(how.nothing), row_finished(how)

    @looped
    def add_row(work, to, n, a, x, at):
        optimise_later()
        for w in range(u8(n)):
            work[u8(to) + w] = join(work[u8(a) + w], lift(x[u8(at) + w]))

    @looped
    def join_two(work, to, n, a, b):
        optimise_later()
        for w in range(u8(n)):
            work[u8(to) + w] = join(work[u8(a) + w], work[u8(b) + w])

    def kernel(x, out, places, work, sizes, table, factors, first_task, last_task):
        no_alias()
        rows, apart, above, blocks = sizes.a, sizes.b, sizes.c, sizes.e
        size, pieces, height, row = sizes.size, sizes.pieces, sizes.height, sizes.step_h
        length, high, depth = sizes.reach * sizes.channels, sizes.high, sizes.rows // height
        prefix, ends = 3 * length, 4 * length
        for t in range(first_task, last_task):
            rest = t // pieces
            plane = rest // blocks
            piece = sizes.at_piece + PIECE_FIELDS * (t - rest * pieces)
            first, many, low = table[piece], table[piece + 1], table[piece + 2]
            used, before = table[piece + 3], table[piece + 4]
            pad(work, before, used, length)
            r = plane % depth * height
            begin = plane // depth * sizes.far + table[AT_ROWS + ROW_FIELDS * r]
            begin -= (clamp(above, 0, rows) - above) * row  # of the slab, if its first window is in the padding
            block = rest - plane * blocks
            at, top, below = begin + low, block * rows - above, ends + rows * used
            pad(offset(work, prefix), used, 0, used)
            pad(offset(work, below), used, 0, used)
            for y in range(top + rows - 1, top - 1, -1):
                to = ends + (y - top) * used
                if (y >= 0) & (y < high):
                    add_row(work, to, used, to + used, x, at + y * row)
                else:
                    join_two(work, to, used, to + used, below)
            done = top + rows
            last = clamp(((block + 1) * rows - 1) // apart, 0, height - 1)
            for h in range(-(-block * rows // apart), last + 1):
                start = h * apart - above
                for y in range(clamp(done, 0, high), clamp(start + rows, 0, high)):
                    add_row(work, prefix, used, prefix, x, at + y * row)
                done = done if done > start + rows else start + rows
                join_two(work, before, used, ends + (start - top) * used, prefix)
                to = (plane * height + h) * size + first
                finished(out, to, many, work, length, sizes, factors[r + h], factors, first)

    return kernel
