"""Weighted sums: means of areas, whose border elements count partly."""

from __future__ import annotations

from poolcli.engine.compiled.geometry import ARRAYS
from poolcli.engine.compiled.kernels.rows import begin_at, by_rows, finish_row, steps_in, unsigned
from poolcli.engine.compiled.pointers import behind, looped, more_at, optimise_later


@looped
def _add_weighted_row(work, size, x, at, weight, starts, how):
    """Add a row of x times its weight to the first row of `work`, or start with it."""
    optimise_later()
    at = unsigned(at)
    if starts:
        for w in range(unsigned(size)):
            work[w] = how.lift(x[at + w]) * weight
    else:
        for w in range(unsigned(size)):
            work[w] = work[w] + how.lift(x[at + w]) * weight


@looped
def _weighted_sums(work, to, columns, inner, begin, count, weights, longest, how):
    """The weighted sums along the first row of `work`, window by window, for every inner element."""
    optimise_later()
    to, many, most = unsigned(to), unsigned(inner), unsigned(longest)
    for w in range(unsigned(columns)):
        first, own = unsigned(begin[w]) * many, w * most
        for c in range(many):
            total, at = how.nothing, first + c
            for j in range(unsigned(count[w])):
                total = total + work[at + j * many] * how.weight(weights[own + j])
            work[to + w * many + c] = total


def weighted_sum(how, taps):
    """Windows of any position and size along H and W: first the rows, then along the row, tap by tap, in the order of
    the numpy engine.
    """

    @by_rows
    def row(given, geometry, t, o, d, h, share):
        optimise_later()
        work, high, wide = given.work, more_at(given.numbers, 0), more_at(given.numbers, 1)
        width, shape, size, inner = geometry.input[2], geometry.output, geometry.size, geometry.inner
        columns = size // inner
        along_h = behind(given.numbers, ARRAYS + 2 * (shape[0] + shape[1] + columns))
        along_w = behind(along_h, shape[1] * high)
        begin_w, (_, count_h, count_w), (_, step) = geometry.begins[2], geometry.counts, steps_in(geometry)
        first = begin_at(geometry, o, d, h)
        for i in range(count_h[h]):
            _add_weighted_row(work, width, given.x, first + i * step, how.weight(along_h[h * high + i]), i == 0, how)
        _weighted_sums(work, width, columns, inner, begin_w, count_w, along_w, wide, how)
        finish_row(given.out, t * size, size, work, 1, width, 0, 0, share, 0, how)

    return row
