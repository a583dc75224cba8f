"""Regular windows of a constant size: the rows of a window are joined in a row buffer, then windows are taken along it;
and small windows that do not overlap, without the buffer.

The distance between taps is a constant, too: LLVM then loads groups of strided elements by vectors (Zen 3: 0.7 to 0.9
of the time). Lost: pieces that fit the first-level cache, several rows in a task, sorting elements by their residue
modulo the stride, touching rows by loads, two bursts of prefetches (all 0.9 to 1.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.engine.compiled.kernels import fetch, in_fours, inlined, next_row, no_alias, row_at, row_of, tree, u8
from poolcli.engine.compiled.view import AT, MARGIN, PIECE_FIELDS, VECTOR


def sliding(how: Any, steps: Any, rows: int, lines: int, taps: int, stride: int, gap: int, line: int, form: str) -> Any:
    """Windows of `rows` rows, `lines` in each plane, and of `taps` columns, `gap` apart (0: channels lie side by side).
    `line`: the elements of a cache line if lines are fetched ahead, else 0. `form`: "buffer" or "direct".

    Task t is a piece of an output row; `a` cache lines are fetched, from `b` elements after the window's first on.
    """
    lift, join, store, nothing, divides = how
    of_plane, step, zero, one, apart, ahead = u8(lines), u8(stride), u8(0), u8(1), u8(gap), u8(line)
    inner, direct, all_rows = gap == 0, form == "direct", np.int64(rows)
    vector = u8(min(MARGIN, max(VECTOR, 32 // steps.identity.itemsize)))

    @inlined
    def element(x, at, w, tap):
        begin, far, near = at
        return lift(x[begin + tap // of_plane * far + tap % of_plane * near + w])

    column = in_fours(rows, element, join)
    joined = inlined(lambda row, unit, w, tap: row[w + tap * (unit if inner else apart)])
    window = tree(taps, joined, join)
    whole = tree(taps, inlined(lambda x, at, w, tap: column(x, at, w + tap, zero)), join)

    def kernel(x, out, places, work, table, factors, first_task, last_task):
        no_alias()
        cs, size, pieces, limit = table[AT.channels], table[AT.size], table[AT.pieces], table[AT.limit]
        far, near, unit = u8(table[AT.step_d]), u8(table[AT.step_h]), u8(cs * table[AT.gap_w])
        channels, along, reach = u8(cs), u8(table[AT.of_w]), table[AT.reach] * cs
        shared, end = factors[table[AT.of_w] + table[AT.first] * cs], last_task // pieces * size
        last_row = (rows // lines - 1) * table[AT.step_d] + (lines - 1) * table[AT.step_h] + MARGIN * stride
        q, t = first_task % pieces, first_task // pieces
        p, r = row_at(table, t)
        for _ in range(first_task, last_task):
            begin, nd, nh = row_of(table, p, r)
            piece = table[AT.at_piece] + PIECE_FIELDS * q
            first, many, low, used = table[piece], table[piece + 1], table[piece + 2], table[piece + 3]
            before, lower, upper = table[piece + 4], table[piece + 5], table[piece + 6]
            at, to, by = u8(begin + low), u8(t * size + first), factors[r]
            divisor, has_all, place = by * shared, nd * nh == all_rows, (u8(begin + low), far, near)
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
                for w in range(m):
                    out[to + w] = store(whole(x, place, w * step, zero), divisor)
            else:
                left, right = u8(before), u8(before + used)
                for w in range(left):
                    work[w] = nothing
                if has_all:
                    for w in range(n):
                        work[left + w] = column(x, place, w, zero)
                else:
                    for w in range(u8(used)):
                        work[left + w] = nothing
                    for i in range(nd):
                        for j in range(nh):
                            b = at + u8(i) * far + u8(j) * near
                            for w in range(u8(used)):
                                work[left + w] = join(work[left + w], lift(x[b + w]))
                for w in range(u8(reach - before - used + MARGIN)):
                    work[right + w] = nothing
                if inner and stride > 1:
                    for w in range(m // channels):
                        for c in range(channels):
                            total = window(work, unit, w * step * channels + c, zero)
                            out[to + w * channels + c] = store(total, divisor)
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
                q, t = 0, t + 1
                p, r = next_row(table, p, r)

    return kernel
