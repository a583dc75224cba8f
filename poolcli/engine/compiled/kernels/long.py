"""Regular windows of any size: one kernel for all small arrays of a pair of types, and for long windows.

Rows are joined in a row buffer; windows of m elements along it give those of 2m, so k taps take log2(k) passes. Windows
of many overlapping rows are joined by blocks (`tall`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.engine.compiled.kernels import (
    Function,
    clamp,
    counts_of,
    divisor_of,
    filled,
    looped,
    next_row,
    no_alias,
    optimise_later,
    piece_of,
    plane_begin,
    row_at,
    row_begin,
    rows_joined,
    steps_of,
    u8,
)
from poolcli.engine.compiled.view import AT


def windows_joined(join: Function) -> Function:
    """The function (work, length, taps, unit, whole) that joins `taps` elements, `unit` apart, from every position of
    the first row of `work`, in passes that alternate between the two buffers after the row. An odd element is taken
    from the first row.

    Unless `whole`, the last pass is left to the caller: returned are the number of terms that it joins, and their
    positions.
    """

    @looped
    def joined(work, length, taps, unit, whole):
        optimise_later()
        bit, done, source = 1, 1, np.int64(0)
        while 2 * bit <= taps:
            bit *= 2
        last = 1 if whole else 2
        while bit > last:
            bit //= 2
            shift, spare = done * unit, 2 * length if source == length else length
            to, a, b, c = u8(spare), u8(source), u8(source + shift), u8(2 * shift)
            if taps & bit:
                for w in range(u8(clamp(length - 2 * shift, 0, length))):
                    work[to + w] = join(join(work[a + w], work[b + w]), work[c + w])
            else:
                for w in range(u8(clamp(length - 2 * shift + unit, 0, length))):
                    work[to + w] = join(work[a + w], work[b + w])
            source, done = spare, 2 * done + (taps & bit != 0)
        terms = 1 if whole else clamp(taps, 1, 2 + taps % 2)
        return terms, source, source + done * unit, 2 * done * unit

    return joined  # type: ignore[no-any-return]


@looped
def subsample(work, to, size, at, stride, channels):
    """Copy every stride-th pixel to `to`; unrolling three channels takes two thirds of the time."""
    optimise_later()
    to, at, step, cs = u8(to), u8(at), u8(stride * channels), u8(channels)
    one, two, three = u8(1), u8(2), u8(3)
    if channels == 1:
        for w in range(u8(size)):
            work[to + w] = work[at + step * w]
    elif channels == 3:
        for w in range(u8(size // 3)):
            work[to + three * w] = work[at + step * w]
            work[to + three * w + one] = work[at + step * w + one]
            work[to + three * w + two] = work[at + step * w + two]
    else:
        for w in range(u8(size // channels)):
            for c in range(cs):
                work[to + cs * w + c] = work[at + step * w + c]


def row_finished(how: Any) -> Function:
    """The function (out, at, size, work, length, found, table, by, factors, first) that makes an output row of what
    `windows_joined` found; `first` is the number of its first element in a whole row.
    """
    _, join, store, _, divides = how

    @looped
    def finished(out, at, size, work, length, found, table, by, factors, first):
        optimise_later()
        terms, a, b, c = found
        if table[AT.stride] > 1:
            subsample(work, 3 * length, size, a, table[AT.stride], table[AT.channels])
            a = 3 * length
        to, a, b, c, own = u8(at), u8(a), u8(b), u8(c), u8(table[AT.of_w] + first)
        if terms == 1:
            for w in range(u8(size)):
                out[to + w] = store(work[a + w], by * factors[own + w] if divides else by)
        elif terms == 2:
            for w in range(u8(size)):
                out[to + w] = store(join(work[a + w], work[b + w]), by * factors[own + w] if divides else by)
        else:
            for w in range(u8(size)):
                total = join(join(work[a + w], work[b + w]), work[c + w])
                out[to + w] = store(total, by * factors[own + w] if divides else by)

    return finished  # type: ignore[no-any-return]


def long(how: Any, steps: Any) -> Any:
    """Task t is a piece of an output row. `a` is the number of rows of a whole window."""
    fill, joined, windows, finished = (
        filled(how.nothing),
        rows_joined(how),
        windows_joined(how.join),
        row_finished(how),
    )

    def kernel(x, out, places, work, spare, table, factors, first_task, last_task):
        no_alias()
        channels, size, pieces = table[AT.channels], table[AT.size], table[AT.pieces]
        length, unit = table[AT.reach] * channels, table[AT.gap_w] * channels
        far, near = steps_of(table)
        q, t = first_task % pieces, first_task // pieces
        p, d, h = row_at(table, t)
        for _ in range(first_task, last_task):
            nd, nh = counts_of(table, d, h)
            first, many, low, used, before = piece_of(table, q)
            fill(work, 0, before)
            at = row_begin(table, p, d, h) + low
            joined(work, before, used, x, at, nd, nh, far, near, nd * nh == table[AT.a])
            fill(work, before + used, length - before - used)
            found = windows(work, length, table[AT.taps], unit, table[AT.stride] > 1)
            by = divisor_of(table, factors, d, h)
            finished(out, t * size + first, many, work, length, found, table, by, factors, first)
            q += 1
            if q == pieces:
                q, t = 0, t + 1
                p, d, h = next_row(table, p, d, h)

    return kernel


def tall(how: Any, steps: Any) -> Any:
    """Windows of many overlapping rows of one plane: `a` rows, `b` apart, the first `c` above the input.

    Rows, padding included, are divided into `e` blocks of the height of a window (van Herk). A window is the end of one
    block, which is joined once from its last row upwards, and the start of the next, which is joined row by row. A task
    is a piece of a block of rows. The buffer of ends has a row of `nothing` at last.
    """
    lift, join, nothing = how.lift, how.join, how.nothing
    fill, windows, finished = filled(nothing), windows_joined(join), row_finished(how)

    @looped
    def add_row(work, to, n, x, at):
        optimise_later()
        for w in range(u8(n)):
            work[u8(to) + w] = join(work[u8(to) + w], lift(x[u8(at) + w]))

    @looped
    def join_two(work, to, n, a, b):
        optimise_later()
        for w in range(u8(n)):
            work[u8(to) + w] = join(work[u8(a) + w], work[u8(b) + w])

    @looped
    def copy(work, to, n, a):
        optimise_later()
        for w in range(u8(n)):
            work[u8(to) + w] = work[u8(a) + w]

    def kernel(x, out, places, work, spare, table, factors, first_task, last_task):
        no_alias()
        rows, apart, above, blocks = table[AT.a], table[AT.b], table[AT.c], table[AT.e]
        channels, size, pieces, height = table[AT.channels], table[AT.size], table[AT.pieces], table[AT.high]
        length, unit, row = table[AT.reach] * channels, table[AT.gap_w] * channels, table[AT.row]
        prefix = 3 * length + table[AT.piece] * channels
        ends = prefix + length
        for t in range(first_task, last_task):
            q, rest = t % pieces, t // pieces
            rest, block = rest // blocks, rest % blocks
            p, d = rest // table[AT.depth], rest % table[AT.depth]
            first, many, low, used, before = piece_of(table, q)
            fill(work, 0, before)
            fill(work, before + used, length - before - used)
            at, top = plane_begin(table, p, d) + low, block * rows - above
            fill(work, ends + rows * used, used)
            for r in range(rows - 1, -1, -1):
                to = ends + r * used
                copy(work, to, used, to + used)
                if 0 <= top + r < height:
                    add_row(work, to, used, x, at + (top + r) * row)
            fill(work, prefix, used)
            done = top + rows
            last = clamp(((block + 1) * rows - 1) // apart, 0, table[AT.height] - 1)
            for h in range(-(-block * rows // apart), last + 1):
                start = h * apart - above
                for r in range(clamp(done, 0, height), clamp(start + rows, 0, height)):
                    add_row(work, prefix, used, x, at + r * row)
                done = done if done > start + rows else start + rows
                join_two(work, before, used, ends + (start - top) * used, prefix)
                found = windows(work, length, table[AT.taps], unit, table[AT.stride] > 1)
                to, by = (rest * table[AT.height] + h) * size + first, divisor_of(table, factors, d, h)
                finished(out, to, many, work, length, found, table, by, factors, first)

    return kernel
