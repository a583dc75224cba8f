"""Regular windows of a constant size: the rows of a window are joined in a row buffer, then windows are taken along it;
and small windows that do not overlap, without the buffer.

The distance between taps is a constant, too: LLVM then loads groups of strided elements by vectors (Zen 3: 0.7 to 0.9
of the time). Lost: pieces that fit the first-level cache, several rows in a task, sorting elements by their residue
modulo the stride, touching rows by loads, two bursts of prefetches (all 0.9 to 1.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.engine.compiled.kernels import (
    Function,
    ends_of,
    fetch,
    in_fours,
    inlined,
    next_plane,
    no_alias,
    piece_of,
    plane_begin,
    row_at,
    steps_of,
    tree,
    u8,
)
from poolcli.engine.compiled.view import AT, MARGIN, VECTOR


def sliding(how: Any, steps: Any, rows: int, lines: int, taps: int, stride: int, gap: int, line: int, form: str) -> Any:
    """Windows of `rows` rows, `lines` in each plane, and of `taps` columns, `gap` apart (0: channels lie side by side).
    `line`: the elements of a cache line if lines are fetched ahead, else 0. `form`: "buffer" or "direct".

    Task t is a piece of an output row; `a` cache lines are fetched, from `b` elements after the window's first on.
    """
    lift, join, store, nothing, divides = how
    of_plane, step, zero, one, apart, ahead = u8(lines), u8(stride), u8(0), u8(1), u8(gap), u8(line)
    inner, direct, most = gap == 0, form == "direct", np.int64(rows)
    vector = u8(min(MARGIN, max(VECTOR, 32 // steps.identity.itemsize)))

    @inlined
    def element(x, at, w, tap):
        begin, far, near = at
        return lift(x[begin + tap // of_plane * far + tap % of_plane * near + w])

    column = in_fours(rows, element, join)
    window = tree(taps, _side_by_side if inner else _apart_by(apart), join)
    whole = tree(taps, inlined(lambda x, at, w, tap: column(x, at, w + tap, zero)), join)

    def kernel(x, out, places, work, spare, table, factors, first_task, last_task):
        no_alias()
        cs, size, height, pieces = table[AT.channels], table[AT.size], table[AT.height], table[AT.pieces]
        limit, row, at_h, of_h = table[AT.limit], table[AT.row], table[AT.at_h], table[AT.of_h]
        (far, near), unit, channels, along = steps_of(table), u8(cs * table[AT.gap_w]), u8(cs), u8(table[AT.of_w])
        reach, shared, end = (
            table[AT.reach] * cs,
            factors[table[AT.of_w] + table[AT.first] * cs],
            last_task // pieces * size,
        )
        last_row = (rows // lines - 1) * far + (lines - 1) * near + MARGIN * stride
        q, t = first_task % pieces, first_task // pieces
        p, d, h = row_at(table, t)
        base, nd, by_d = plane_begin(table, p, d), table[table[AT.at_d] + 2 * d + 1], factors[d]
        first, many, low, used, before = piece_of(table, q)
        lower, upper = ends_of(table, first, many)
        for _ in range(first_task, last_task):
            if pieces > 1:
                first, many, low, used, before = piece_of(table, q)
                lower, upper = ends_of(table, first, many)
            begin, nh, by = base + table[at_h + 2 * h] * row, table[at_h + 2 * h + 1], by_d * factors[of_h + h]
            at, to, has_all, divisor = u8(begin + low), u8(t * size + first), nd * nh == most, by * shared
            # Whole vectors: what is made beyond the end of a row is made again with the next one.
            n, m = u8(used), u8(many)
            if begin + low + used + last_row < limit:
                n = (n + vector - one) // vector * vector
                if t * size + first + many + MARGIN <= end:
                    m = (m + vector - one) // vector * vector
            if line:
                for i in range(u8(table[AT.a])):
                    fetch(x, u8(begin + table[AT.b]) + i * ahead)
            if direct and has_all:
                place = at, u8(far), u8(near)
                for w in range(m):
                    out[to + w] = store(whole(x, place, w * step, zero), divisor)
            else:
                left, right = u8(before), u8(before + used)
                for w in range(left):
                    work[w] = nothing
                if has_all:
                    place = at, u8(far), u8(near)
                    for w in range(n):
                        work[left + w] = column(x, place, w, zero)
                else:
                    for w in range(u8(used)):
                        work[left + w] = nothing
                    for i in range(nd):
                        for j in range(nh):
                            b = at + u8(i * far + j * near)
                            for w in range(u8(used)):
                                work[left + w] = join(work[left + w], lift(x[b + w]))
                for w in range(u8(reach - before - used + MARGIN)):
                    work[right + w] = nothing
                if inner and stride > 1:
                    for w in range(m // channels):
                        for c in range(channels):
                            out[to + w * channels + c] = store(
                                window(work, unit, w * step * channels + c, zero), divisor
                            )
                else:
                    for w in range(m):
                        out[to + w] = store(window(work, unit, w * step, zero), divisor)
                if divides:
                    for i in range(lower + many - upper):
                        w = u8(i if i < lower else i - lower + upper)
                        source = w * step
                        if inner and stride > 1:
                            source = w // channels * step * channels + w % channels
                        out[to + w] = store(window(work, unit, source, zero), by * factors[along + u8(first) + w])
            q += 1
            if q == pieces:
                q, t, h = 0, t + 1, h + 1
                if h == height:
                    p, d, h = next_plane(table, p, d)
                    base, nd, by_d = plane_begin(table, p, d), table[table[AT.at_d] + 2 * d + 1], factors[d]

    return kernel


def _apart_by(distance: Any) -> Function:
    return inlined(lambda row, unit, w, tap: row[w + tap * distance])  # type: ignore[no-any-return]


@inlined
def _side_by_side(row, unit, w, tap):
    return row[w + tap * unit]
