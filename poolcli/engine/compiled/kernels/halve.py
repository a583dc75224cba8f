"""Windows of 2 along W that do not overlap, of two rows in one pass from x, for one inner element."""

from __future__ import annotations

from poolcli.engine.compiled.kernels.rows import (
    begin_at,
    row_after,
    row_of,
    rows_joined,
    steps_in,
    unsigned,
)
from poolcli.engine.compiled.numbers import join, lift
from poolcli.engine.compiled.pointers import (
    arithmetic_at,
    geometry_at,
    inlined,
    optimise_later,
    pointers_are_distinct,
    share_at,
)
from poolcli.engine.compiled.results import finish

EIGHT = 8  # outputs, which fill a vector of sums in float64


@inlined
def pair_of_pairs(x, a, b, i, j, how):
    """The join of elements i and j of the rows of x at a and b, in the order in which other kernels join them."""
    first = join(lift(x[a + i], how), lift(x[b + i], how), how)
    return join(first, join(lift(x[a + j], how), lift(x[b + j], how), how), how)


def halve(arithmetic, taps):
    """For one inner element, of rows in order or back to front."""
    back = taps is not None and taps.back
    join_rows = rows_joined(back)

    @inlined
    def place(w, n):
        return n - unsigned(1) - w if back else w

    def halve(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        shape, size, (count_d, count_h, _), steps = geometry.output, geometry.size, geometry.counts, steps_in(geometry)
        one, two, eight, n = unsigned(1), unsigned(2), unsigned(EIGHT), unsigned(size)
        whole = n if size < EIGHT else n // eight * eight
        o, d, h = row_of(first_task, shape)
        for t in range(first_task, last_task):
            first, to = begin_at(geometry, o, d, h), unsigned(t * size)
            rows, share = count_d[d] * count_h[h], share_at(geometry, d, h)
            if rows == 2:
                low = first - 2 * size + 1 if back else first
                a, b = unsigned(low), unsigned(low + (steps[1] if count_h[h] == 2 else steps[0]))
                start, stop = unsigned(0), whole
                while start < stop:  # the last ones fill a vector too, with some for the second time
                    for w in range(start, stop):
                        i, j = (two * w + one, two * w) if back else (two * w, two * w + one)
                        at = place(w, n)
                        out[to + at] = finish(pair_of_pairs(x, a, b, i, j, how), share, at, how, out)
                    start, stop = n - eight if stop < n else n, n
            else:
                join_rows(work, 0, 2 * size, x, first, count_d[d], count_h[h], steps, how)
                for w in range(n):
                    out[to + w] = finish(join(work[two * w], work[two * w + one], how), share, w, how, out)
            o, d, h = row_after(o, d, h, shape)

    return halve
