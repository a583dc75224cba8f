"""Medians of whole rows of windows at once, in pieces, as deviations are taken."""

from __future__ import annotations

from poolcli.engine.compiled.kernels.rows import row_after, row_of, unsigned
from poolcli.engine.compiled.kernels.statistics import in_lines, stride_of, take, tap_at, whole_windows
from poolcli.engine.compiled.pointers import (
    behind,
    geometry_at,
    inlined,
    looped,
    more_at,
    optimise_later,
    pointers_are_distinct,
    share_at,
)


@inlined
def _less(a, b):
    return a if a < b else b


@inlined
def _more(a, b):
    return b if a < b else a


@inlined
def _nan_or(a, b):
    return a if b == b else b


@looped
def _exchange(work, a, b, size):
    """Of each pair of elements of the rows at `a` and `b` the smaller goes to the first row."""
    optimise_later()
    low, high = behind(work, a), behind(work, b)
    for w in range(unsigned(size)):
        low[w], high[w] = _less(low[w], high[w]), _more(low[w], high[w])


@looped
def _keep_inner(work, first, low, high, last, size):
    """Leaves in the rows at `low` and `high`, which may be one, what lies inside of the elements of the other two."""
    optimise_later()
    smallest, smaller, larger, largest = behind(work, first), behind(work, low), behind(work, high), behind(work, last)
    for w in range(unsigned(size)):
        smaller[w] = _more(smallest[w], smaller[w])
    for w in range(unsigned(size)):
        larger[w] = _less(larger[w], largest[w])


@looped
def _inner(work, places, first, last, size):
    """Leaves the smallest and the largest elements of the rows from `first` to `last` out: the others are in the rows
    between. Where rows are is read from `places`: LLVM would otherwise ask of all at once whether any two overlap.
    """
    optimise_later()
    half = (last - first) // 2
    for i in range((last - first + 1) // 2):
        _exchange(work, places[first + i], places[last - i], size)
    for i in range(1, half):
        _exchange(work, places[first], places[first + i], size)
        _exchange(work, places[last - i], places[last], size)
    _keep_inner(work, places[first], places[first + half], places[last - half], places[last], size)


@looped
def _mind(work, nan, row, size):
    """Notes in the row at `nan` which elements of another are NaN."""
    optimise_later()
    to, at = unsigned(nan), unsigned(row * size)
    for w in range(unsigned(size)):
        work[to + w] = _nan_or(work[to + w], work[at + w])


@looped
def _of_nine(work, size, pitch, unit, x, a, b, c, how):
    """Medians of three rows of three elements, in row 4, from columns that are sorted once: the median of the largest
    of the least elements, the median of the middle ones, and the least of the largest.
    """
    optimise_later()
    one, two, middles = unsigned(unit), unsigned(2 * unit), behind(work, pitch)
    largest, invalid, found = behind(work, 2 * pitch), behind(work, 3 * pitch), behind(work, 4 * pitch)
    for w in range(unsigned(size) + two):
        top, middle, bottom = how.lift(x[a + w]), how.lift(x[b + w]), how.lift(x[c + w])
        less, more = _less(top, middle), _more(top, middle)
        rest = _less(more, bottom)
        work[w], middles[w], largest[w] = _less(less, rest), _more(less, rest), _more(more, bottom)
        invalid[w] = _nan_or(_nan_or(top, middle), bottom)
    for w in range(unsigned(size)):
        low = _more(_more(work[w], work[w + one]), work[w + two])
        high = _less(_less(largest[w], largest[w + one]), largest[w + two])
        less, more = _less(middles[w], middles[w + one]), _more(middles[w], middles[w + one])
        middle = _more(less, _less(more, middles[w + two]))
        median = _more(_less(low, middle), _less(_more(low, middle), high))
        found[w] = _nan_or(_nan_or(_nan_or(median, invalid[w]), invalid[w + one]), invalid[w + two])


def median(how, taps):
    """Medians, by leaving out the smallest and the largest of more than half of the elements, and taking the next one
    instead, until the middle ones are left.
    """
    minds_nan = how.nothing.dtype.kind == "f"

    def median(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry = geometry_at(numbers, divisors)
        longest, piece, nan_row = more_at(numbers, 0), more_at(numbers, 1), more_at(numbers, 2)
        inner, (count_d, count_h, count_w) = geometry.inner, geometry.counts
        columns = geometry.size // inner
        low, high = whole_windows(geometry, columns, longest)
        o, d, h = row_of(first_task, geometry.output)
        for t in range(first_task, last_task):
            share, first = share_at(geometry, d, h), 0
            while first < columns:
                many = min(piece, high - first) if (low <= first) & (first < high) else 1
                count, size, stride = (
                    count_d[d] * count_h[h] * count_w[first],
                    many * inner,
                    stride_of(geometry, first, many),
                )
                if (count == 9) & (count_w[first] == 3) & (stride == 1):
                    a, b = tap_at(geometry, o, d, h, first, 0), tap_at(geometry, o, d, h, first, 3)
                    c, unit = tap_at(geometry, o, d, h, first, 6), geometry.steps[2] * inner
                    pitch = in_lines(size + 2 * unit)
                    _of_nine(work, size, pitch, unit, x, a, b, c, how)
                    nan, one, two = 4 * pitch, 4 * pitch, 4 * pitch
                else:
                    begin, end, nan = 0, min(count, count // 2 + 2), nan_row * size
                    for row in range(end):
                        lines[row] = row * size
                    for w in range(unsigned(size)):
                        work[unsigned(nan) + w] = how.nothing
                    for tap in range(count):
                        row = min(tap, end - 1)
                        if tap >= end:
                            _inner(work, lines, begin, end - 1, size)
                            begin += 1
                        take(work, row * size, x, tap_at(geometry, o, d, h, first, tap), stride, many, inner, how)
                        if minds_nan:
                            _mind(work, nan, row, size)
                    while end - begin > 2 - count % 2:
                        _inner(work, lines, begin, end - 1, size)
                        begin, end = begin + 1, end - 1
                    one, two = begin * size, max(end - 1, begin) * size
                low_row, high_row = behind(work, one), behind(work, two)
                target, invalid = unsigned(t * geometry.size + first * inner), behind(work, nan)
                for w in range(unsigned(size)):
                    is_known = (count > 0) & (invalid[w] == invalid[w])
                    out[target + w] = how.finish(how.middle(low_row[w], high_row[w], is_known), share, w)
                first += many
            o, d, h = row_after(o, d, h, geometry.output)

    return median
