"""Windows of any place and length (bins, or sparse ones), and areas. Rows are joined in a row buffer, and then each
window: up to 4 elements by constant taps, so that no loop depends on a window (0.44 to 0.9 of the time), longer
ones in eight partial results, which fill vectors. Windows of one row are read in place.
"""

from __future__ import annotations

from typing import Any

from poolcli.engine.compiled.kernels import by_rows, fetch, inlined, looped, offset, optimise_later, rows_joined, u8
from poolcli.engine.compiled.view import LANES


def bins(how: Any, steps: Any, taps: int, inner: bool, in_place: bool, line: int) -> Any:
    """Task t is an output row. `taps`: the longest window along W if it is short, else 0. `inner`: channels may lie
    side by side. `in_place`: all windows have one row, whose elements are neighbours; if `line`, the elements of a
    cache line, is not 0, `b` lines that begin `c` elements behind each are fetched ahead (0.75 of the time).
    """
    lift, join, _, store, nothing, divides = how
    joined, lanes, zero, one, ahead = rows_joined(how), u8(LANES), u8(0), u8(1), u8(line)
    two, three, four, five, six, seven = (u8(n) for n in range(2, 8))
    element = inlined((lambda x, work, at: lift(x[at])) if in_place else (lambda x, work, at: work[at]))

    @looped
    def short(out, to, work, sizes, table, by, factors):
        optimise_later()
        cs, at_w, own = u8(sizes.channels), u8(sizes.at_w), u8(sizes.of_w)
        step = u8(sizes.gap_w) * cs
        for w in range(u8(sizes.columns)):
            begin, count = u8(table[at_w + two * w]), table[at_w + two * w + one]
            begin = begin * cs if count > 0 else zero
            for c in range(cs if inner else one):
                total, at, e = nothing, begin + c, w * cs + c
                for j in range(taps):
                    value = work[at + u8(j) * step]
                    total = join(total, value if j < count else nothing)
                out[to + e] = store(total, by * factors[own + e] if divides else by)

    @looped
    def window(x, work, at, count, step):
        """The total of `count` elements. LLVM loads vectors only where `step` is a constant: 0.6 of the time."""
        optimise_later()
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = nothing
        s, left = at, count
        while left >= lanes:
            a0, a1 = join(a0, element(x, work, s)), join(a1, element(x, work, s + step))
            a2, a3 = join(a2, element(x, work, s + two * step)), join(a3, element(x, work, s + three * step))
            a4, a5 = join(a4, element(x, work, s + four * step)), join(a5, element(x, work, s + five * step))
            a6, a7 = join(a6, element(x, work, s + six * step)), join(a7, element(x, work, s + seven * step))
            s, left = s + lanes * step, left - lanes
        a0 = join(join(join(a0, a4), join(a2, a6)), join(join(a1, a5), join(a3, a7)))
        while left > zero:
            a0, s, left = join(a0, element(x, work, s)), s + step, left - one
        return a0

    @looped
    def long(out, to, base, x, work, sizes, table, by, factors):
        optimise_later()
        cs, at_w, own = u8(sizes.channels if inner else 1), u8(sizes.at_w), u8(sizes.of_w)
        gap = u8(sizes.gap_w) * cs
        for w in range(u8(sizes.columns)):
            begin, count = base + u8(table[at_w + two * w]) * cs, u8(table[at_w + two * w + one])
            if line:
                for i in range(u8(sizes.b)):
                    fetch(x, begin + u8(sizes.c) + i * ahead)
            for c in range(cs):
                e, at = w * cs + c, begin + c
                total = window(x, work, at, count, one) if in_place or gap == one else window(x, work, at, count, gap)
                out[to + e] = store(total, by * factors[own + e] if divides else by)

    @by_rows
    def kernel(x, out, places, work, sizes, table, factors, t, r, begin, nd, nh, piece, last):
        optimise_later()
        to = u8(t * sizes.size)
        if not in_place:
            joined(work, 0, sizes.width, x, begin, nd, nh, sizes.step_d, sizes.step_h, True)
        if taps:
            short(out, to, work, sizes, table, factors[r], factors)
        else:
            long(out, to, u8(begin if in_place else 0), x, work, sizes, table, factors[r], factors)

    return kernel


def areas(how: Any, steps: Any) -> Any:
    """Weighted sums, whose border elements count partly: rows first, then along the row, tap by tap, in the order of
    the numpy engine. `c` and `e`: where the table has the weights along H and W, `a` and `b` for each window.
    """
    lift, _, _, store, nothing, divides = how
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

    @looped
    def along_row(totals, work, sizes, table):
        optimise_later()
        cs, at_w, one = u8(sizes.channels), u8(sizes.at_w), u8(1)
        for w in range(u8(sizes.columns)):
            first, count = u8(table[at_w + w + w]) * cs, u8(table[at_w + w + w + one])
            weight = u8(sizes.e) + w * u8(sizes.b)
            for c in range(cs):
                total = nothing
                for j in range(count):
                    total = total + work[first + c + j * cs] * kind(table[weight + j])
                totals[w * cs + c] = total

    @by_rows
    def kernel(x, out, places, work, sizes, table, factors, t, r, begin, nd, nh, piece, last):
        optimise_later()
        to, own, totals = u8(t * sizes.size), u8(sizes.of_w), offset(work, sizes.width)
        for i in range(nh):
            add_row(work, sizes.width, x, begin + i * sizes.step_h, kind(table[sizes.c + r * sizes.a + i]), i == 0)
        along_row(totals, work, sizes, table)
        for e in range(u8(sizes.size)):
            out[to + e] = store(totals[e], factors[r] * factors[own + e] if divides else factors[r])

    return kernel
