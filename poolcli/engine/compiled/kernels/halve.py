"""Windows of 2 along W that do not overlap, of two rows in one pass from x, for one inner element and for three."""

from __future__ import annotations

from sys import byteorder

from poolcli.engine.compiled.kernels.rows import (
    begin_at,
    by_rows,
    finish_row,
    join_rows,
    prefetch_lines,
    sample,
    steps_in,
    unsigned,
)
from poolcli.engine.compiled.pointers import add_pixels, behind, inlined, looped, more_at, optimise_later

EIGHT = 8  # outputs, which fill a vector of sums in float64


@inlined
def pair_of_pairs(x, a, b, i, j, how):
    """The join of elements i and j of the rows of x at a and b, in the order in which other kernels join them."""
    first = how.join(how.lift(x[a + i]), how.lift(x[b + i]))
    return how.join(first, how.join(how.lift(x[a + j]), how.lift(x[b + j])))


def halve(how, taps):
    """For one inner element."""

    @by_rows
    def row(given, geometry, t, o, d, h, share):
        optimise_later()
        x, out, work, size = given.x, given.out, given.work, geometry.size
        (count_d, count_h, _), steps, first = geometry.counts, steps_in(geometry), begin_at(geometry, o, d, h)
        one, two, eight, n, to = unsigned(1), unsigned(2), unsigned(EIGHT), unsigned(size), unsigned(t * size)
        lines, elements, fresh = more_at(given.numbers, 0), more_at(given.numbers, 1), more_at(given.numbers, 2)
        prefetch_lines(x, first + fresh, lines, elements)
        if count_d[d] * count_h[h] == 2:
            a, b = unsigned(first), unsigned(first + (steps[1] if count_h[h] == 2 else steps[0]))
            start, stop = unsigned(0), n if size < EIGHT else n // eight * eight
            while start < stop:  # the last ones fill a vector too, with some for the second time
                for w in range(start, stop):
                    total = pair_of_pairs(x, a, b, two * w, two * w + one, how)
                    out[to + w] = how.finish(total, share, w)
                start, stop = n - eight if stop < n else n, n
        else:
            join_rows(work, 0, 2 * size, x, first, count_d[d], count_h[h], steps, how)
            for w in range(n):
                out[to + w] = how.finish(how.join(work[two * w], work[two * w + one]), share, w)

    return row


PIXELS = 12  # numbers that `add_pixels` makes


@looped
def _pairs_of_any(work, x, a, b, size, how):
    """Each element is joined with the third after it, and then every other pixel taken. (Taking elements six apart from
    x takes twice as long.)
    """
    optimise_later()
    three = unsigned(3)
    for i in range(unsigned(2 * size - 3)):
        work[i] = pair_of_pairs(x, a, b, i, i + three, how)
    sample(work, 2 * size, size, 0, 2, 3)


@looped
def _pairs_of_bytes(work, x, a, b, size, how):
    """Bytes are sorted in registers: two thirds of the time. The last pixels fill a vector too, some of them again."""
    optimise_later()
    if size < PIXELS:
        _pairs_of_any(work, x, a, b, size, how)
    else:
        for some in range(0, size, PIXELS):
            to = min(some, size - PIXELS)
            at = unsigned(2 * to)
            add_pixels(behind(work, 2 * size + to), behind(x, a + at), behind(x, b + at))


def halve_pixels(how, taps):
    """For three inner elements."""
    pairs_of_pixels = _pairs_of_bytes if how.adds_bytes and byteorder == "little" else _pairs_of_any

    @by_rows
    def row(given, geometry, t, o, d, h, share):
        optimise_later()
        x, work, size, used, three = given.x, given.work, geometry.size, 2 * geometry.size, unsigned(3)
        (count_d, count_h, _), steps, first = geometry.counts, steps_in(geometry), begin_at(geometry, o, d, h)
        if count_d[d] * count_h[h] == 2:
            a, b = unsigned(first), unsigned(first + (steps[1] if count_h[h] == 2 else steps[0]))
            pairs_of_pixels(work, x, a, b, size, how)
        else:
            join_rows(work, 0, used, x, first, count_d[d], count_h[h], steps, how)
            for i in range(unsigned(used - 3)):
                work[i] = how.join(work[i], work[i + three])
            sample(work, 2 * size, size, 0, 2, 3)
        finish_row(given.out, t * size, size, work, 1, used, 0, 0, share, 0, how)

    return row
