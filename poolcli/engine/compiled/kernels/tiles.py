"""Windows that do not overlap: small ones straight from x, without a row buffer, and pairs of three-channel pixels."""

from __future__ import annotations

from sys import byteorder

from poolcli.engine.compiled.geometry import Taps
from poolcli.engine.compiled.kernels.rows import (
    begin_at,
    by_rows,
    finish_row,
    join_rows,
    prefetch_lines,
    sample,
    steps_in,
    unsigned,
    window_of,
)
from poolcli.engine.compiled.pointers import add_pixels, behind, inlined, looped, more_at, optimise_later

VECTOR = 64  # bytes of totals that fill a vector
zero = unsigned(0)


@inlined
def _element(x, at, row, step, how):
    """The element in row `row` of a window, whose rows are `step` apart."""
    return how.lift(x[at + row * step])


@inlined
def _total(work, at, tap, step, how):
    return work[at + tap]


def tiles(how, taps: Taps):
    """For windows of constant size, rows included, for one inner element; all of them lie inside the input along W.

    A row buffer takes 1.2 times as long (rows of 1 kB, AMD EPYC Zen 4). Windows cut along D or H need one all the same.
    """
    column, stride, reach = window_of(taps.rows, _element), unsigned(taps.stride), taps.kernel - taps.stride
    whole = window_of(taps.kernel, inlined(lambda x, at, tap, step, how: column(x, at + tap, zero, step, how)))
    joined, vector = window_of(taps.kernel, _total), unsigned(VECTOR // how.nothing.dtype.itemsize)

    @by_rows
    def row(given, geometry, t, o, d, h, share):
        optimise_later()
        x, out, work, n, to = given.x, given.out, given.work, unsigned(geometry.size), unsigned(t * geometry.size)
        (count_d, count_h, _), steps, first = geometry.counts, steps_in(geometry), begin_at(geometry, o, d, h)
        lines, elements, fresh = more_at(given.numbers, 0), more_at(given.numbers, 1), more_at(given.numbers, 2)
        prefetch_lines(x, first + fresh, lines, elements)
        if count_d[d] * count_h[h] == taps.rows:
            at, step = unsigned(first), unsigned(steps[1] if count_h[h] == taps.rows else steps[0])
            start, stop = zero, n if n < vector else n // vector * vector
            while start < stop:  # the last outputs fill a vector too, with some for the second time
                for w in range(start, stop):
                    out[to + w] = how.finish(whole(x, at + stride * w, zero, step, how), share, zero)
                start, stop = n - vector if stop < n else n, n
        else:
            used = geometry.size * taps.stride + reach
            join_rows(work, 0, used, x, first, count_d[d], count_h[h], steps, how)
            for w in range(n):
                out[to + w] = how.finish(joined(work, stride * w, zero, zero, how), share, zero)

    return row


PIXELS = 12  # numbers that `add_pixels` makes


@inlined
def _pair_of_pairs(x, a, b, i, j, how):
    """The join of elements i and j of the rows of x at a and b, in the order in which other kernels join them."""
    first = how.join(how.lift(x[a + i]), how.lift(x[b + i]))
    return how.join(first, how.join(how.lift(x[a + j]), how.lift(x[b + j])))


@looped
def _pairs_of_any(work, x, a, b, size, how):
    """Each element is joined with the third after it, and then every other pixel taken. (Taking elements six apart from
    x takes twice as long.)
    """
    optimise_later()
    three = unsigned(3)
    for i in range(unsigned(2 * size - 3)):
        work[i] = _pair_of_pairs(x, a, b, i, i + three, how)
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


def tiles_of_pixels(how, taps):
    """For windows of two pixels along W, of two rows in one pass, for three inner elements."""
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
