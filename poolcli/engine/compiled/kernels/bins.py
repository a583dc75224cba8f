"""Windows of any place and length (bins, or sparse ones), and areas. Rows are joined in a row buffer, and then each
window: up to 4 elements by constant taps, so that no loop depends on a window (0.44 to 0.9 of the time), longer
ones in eight partial results, which fill vectors. Windows of one row are read in place.
"""

from __future__ import annotations

from typing import Any

from poolcli.engine.compiled.kernels import (
    counts_of,
    divisor_of,
    inlined,
    looped,
    next_row,
    no_alias,
    optimise_later,
    row_at,
    row_begin,
    rows_joined,
    steps_of,
    u8,
)
from poolcli.engine.compiled.view import AT, LANES


def bins(how: Any, steps: Any, taps: int, inner: bool, in_place: bool) -> Any:
    """Task t is an output row. `taps`: the longest window along W if it is short, else 0. `inner`: channels may lie
    side by side. `in_place`: all windows have one row, whose elements are neighbours.
    """
    lift, join, store, nothing, divides = how
    joined, lanes, one = rows_joined(how), u8(LANES), u8(1)
    two, three, four, five, six, seven = (u8(n) for n in range(2, 8))

    @inlined
    def element(x, work, at):
        return lift(x[at]) if in_place else work[at]

    @looped
    def short(out, to, x, work, table, by, factors):
        optimise_later()
        cs, step, at_w, own = (
            u8(table[AT.channels]),
            u8(table[AT.gap_w] * table[AT.channels]),
            u8(table[AT.at_w]),
            u8(table[AT.of_w]),
        )
        for w in range(u8(table[AT.columns])):
            begin, count = u8(table[at_w + two * w]), table[at_w + two * w + one]
            begin = begin * cs if count > 0 else u8(0)
            for c in range(cs if inner else one):
                total, at, e = nothing, begin + c, w * cs + c
                for j in range(taps):
                    value = work[at + u8(j) * step]
                    total = join(total, value if j < count else nothing)
                out[u8(to) + e] = store(total, by * factors[own + e] if divides else by)

    @looped
    def long(out, to, base, x, work, table, by, factors):
        optimise_later()
        step, at_w, own = u8(table[AT.gap_w]), u8(table[AT.at_w]), u8(table[AT.of_w])
        for w in range(u8(table[AT.columns])):
            at, count = u8(base) + u8(table[at_w + two * w]), u8(table[at_w + two * w + one])
            a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = nothing
            i = u8(0)
            if step == one:
                while i + lanes <= count:
                    s = at + i
                    a0, a1 = join(a0, element(x, work, s)), join(a1, element(x, work, s + one))
                    a2, a3 = join(a2, element(x, work, s + two)), join(a3, element(x, work, s + three))
                    a4, a5 = join(a4, element(x, work, s + four)), join(a5, element(x, work, s + five))
                    a6, a7 = join(a6, element(x, work, s + six)), join(a7, element(x, work, s + seven))
                    i += lanes
            else:
                while i + lanes <= count:
                    s = at + i * step
                    a0, a1 = join(a0, element(x, work, s)), join(a1, element(x, work, s + step))
                    a2, a3 = join(a2, element(x, work, s + two * step)), join(a3, element(x, work, s + three * step))
                    a4, a5 = join(a4, element(x, work, s + four * step)), join(a5, element(x, work, s + five * step))
                    a6, a7 = join(a6, element(x, work, s + six * step)), join(a7, element(x, work, s + seven * step))
                    i += lanes
            a0 = join(join(join(a0, a4), join(a2, a6)), join(join(a1, a5), join(a3, a7)))
            while i < count:
                a0, i = join(a0, element(x, work, at + i * step)), i + one
            out[u8(to) + w] = store(a0, by * factors[own + w] if divides else by)

    @looped
    def long_inner(out, to, x, work, table, by, factors):
        optimise_later()
        width, channels, at_w, own = table[AT.width], table[AT.channels], table[AT.at_w], table[AT.of_w]
        cs, sums = u8(channels), u8(width)
        for w in range(table[AT.columns]):
            begin, count = table[at_w + 2 * w] * channels, table[at_w + 2 * w + 1]
            whole = count // LANES * LANES
            for e in range(u8(LANES) * cs if whole > 0 else cs):
                work[sums + e] = nothing
            for i in range(count):
                lane = u8(width + (i % LANES if i < whole else 0) * channels)
                at = u8(begin + i * table[AT.gap_w] * channels)
                if i == whole and whole > 0:
                    for half in (4, 2, 1):
                        for e in range(u8(half) * cs):
                            work[sums + e] = join(work[sums + e], work[sums + u8(half) * cs + e])
                for c in range(cs):
                    work[lane + c] = join(work[lane + c], work[at + c])
            if whole == count and whole > 0:
                for half in (4, 2, 1):
                    for e in range(u8(half) * cs):
                        work[sums + e] = join(work[sums + e], work[sums + u8(half) * cs + e])
            for c in range(cs):
                e = u8(w) * cs + c
                out[u8(to) + e] = store(work[sums + c], by * factors[u8(own) + e] if divides else by)

    def kernel(x, out, places, work, spare, table, factors, first_task, last_task):
        no_alias()
        far, near = steps_of(table)
        p, d, h = row_at(table, first_task)
        for t in range(first_task, last_task):
            nd, nh = counts_of(table, d, h)
            begin, by, to = row_begin(table, p, d, h), divisor_of(table, factors, d, h), t * table[AT.size]
            if not in_place:
                joined(work, 0, table[AT.width], x, begin, nd, nh, far, near, True)
            if taps:
                short(out, to, x, work, table, by, factors)
            elif inner and table[AT.channels] > 1:
                long_inner(out, to, x, work, table, by, factors)
            else:
                long(out, to, begin if in_place else 0, x, work, table, by, factors)
            p, d, h = next_row(table, p, d, h)

    return kernel


def areas(how: Any, steps: Any) -> Any:
    """Weighted sums, whose border elements count partly: rows first, then along the row, tap by tap, in the order of
    the numpy engine. Behind the windows, the table has the weights along H (from `c` on, `a` for each window) and those
    along W (from `e` on, `b` for each).
    """
    lift, _, store, nothing, divides = how
    kind = type(steps.identity)

    @looped
    def add_row(work, n, x, at, weight, starts):
        optimise_later()
        if starts:
            for w in range(u8(n)):
                work[w] = lift(x[u8(at) + w]) * weight
        else:
            for w in range(u8(n)):
                work[w] = work[w] + lift(x[u8(at) + w]) * weight

    def kernel(x, out, places, work, spare, table, factors, first_task, last_task):
        no_alias()
        width, channels, _ = table[AT.width], table[AT.channels], steps_of(table)
        weights_h, weights_w, own = table[AT.c], table[AT.e], u8(table[AT.of_w])
        cs, at_w, row = u8(channels), table[AT.at_w], table[AT.row]
        p, d, h = row_at(table, first_task)
        for t in range(first_task, last_task):
            _, nh = counts_of(table, d, h)
            begin, by, to = row_begin(table, p, d, h), divisor_of(table, factors, d, h), u8(t * table[AT.size])
            for i in range(nh):
                add_row(work, width, x, begin + i * row, kind(table[weights_h + h * table[AT.a] + i]), i == 0)
            for w in range(table[AT.columns]):
                first, count = u8(table[at_w + 2 * w]) * cs, u8(table[at_w + 2 * w + 1])
                weight, to_pixel = u8(weights_w + w * table[AT.b]), u8(w) * cs
                for c in range(cs):
                    total = nothing
                    for j in range(count):
                        total = total + work[first + c + j * cs] * kind(table[weight + j])
                    e = to_pixel + c
                    out[to + e] = store(total, by * factors[own + e] if divides else by)
            p, d, h = next_row(table, p, d, h)

    return kernel
