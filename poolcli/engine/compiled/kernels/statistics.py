"""Standard deviations and medians: of whole rows of windows at once, in pieces; windows along W that reach beyond the
input, and hold fewer elements than the others, are taken each on its own.
"""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.kernels.rows import line_at, row_after, row_of, unsigned
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


@looped
def _whole(geometry, columns, longest):
    """The windows along W from the first to before the last that hold as many elements as any, and are as far apart:
    those that reach beyond both ends of the input need not be.
    """
    optimise_later()
    count, begin, low = geometry.counts[2], geometry.begins[2], 0
    while low < columns and count[low] < longest:
        low += 1
    high = low + 1
    while (
        high < columns and count[high] == longest and 0 < begin[low + 1] - begin[low] == begin[high] - begin[high - 1]
    ):
        high += 1
    return low, high


@inlined
def _stride(geometry, first, many):
    """How far windows along W are apart, of so many from the first on."""
    begin = geometry.begins[2]
    return begin[first + 1] - begin[first] if many > 1 else 1


@looped
def _take(work, to, source, at, stride, many, inner, how):
    """Brings one element of each of so many windows along W side by side, with all inner elements."""
    optimise_later()
    to, at, step = unsigned(to), unsigned(at), unsigned(stride * inner)
    if stride == 1:
        for w in range(unsigned(many * inner)):
            work[to + w] = how.lift(source[at + w])
    elif inner == 1:
        for w in range(unsigned(many)):
            work[to + w] = how.lift(source[at + w * step])
    else:
        n = unsigned(inner)
        for w in range(unsigned(many)):
            for c in range(n):
                work[to + w * n + c] = how.lift(source[at + w * step + c])


@inlined
def _tap_at(geometry, o, d, h, first, tap):
    """Where in x the element `tap` of window `first` along W is, of those of output row (o, d, h)."""
    along, inner = geometry.counts[2][first], geometry.inner
    line = tap // along
    beside = geometry.begins[2][first] + (tap - line * along) * geometry.steps[2]
    return line_at(geometry, o, d, h, line) + unsigned(beside * inner)


@inlined
def _root_of(variance, divisor):
    positive = 0.0 if variance < 0.0 else variance
    return np.sqrt(positive) if (positive >= 0.0) & (divisor > 0.0) else np.nan


@looped
def _add_moments(work, width, x, at, is_first, how):
    """Adds a row of x to that at 0 of `work`, and its squares to the row behind it; or begins them."""
    optimise_later()
    at, n = unsigned(at), unsigned(width)
    for w in range(n):
        value = how.lift(x[at + w])
        work[w] = value if is_first else work[w] + value
        work[n + w] = value * value if is_first else work[n + w] + value * value


@looped
def _add(work, to, size, row):
    optimise_later()
    to, row = unsigned(to), unsigned(row)
    for w in range(unsigned(size)):
        work[to + w] = work[to + w] + work[row + w]


def moments(how, taps):
    """Standard deviations of short integers, from exact sums of them and of their squares: of the rows of a window
    first, then along the row.
    """
    kind, less = type(how.nothing), how.ddof

    def moments(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry = geometry_at(numbers, divisors)
        longest, piece, inner, width = more_at(numbers, 0), more_at(numbers, 1), geometry.inner, geometry.input[2]
        columns, (count_d, count_h, count_w) = geometry.size // inner, geometry.counts
        low, high = _whole(geometry, columns, longest)
        o, d, h = row_of(first_task, geometry.output)
        for t in range(first_task, last_task):
            share, rows, first = share_at(geometry, d, h), count_d[d] * count_h[h], 0
            for line in range(rows):
                _add_moments(work, width, x, line_at(geometry, o, d, h, line), line == 0, how)
            while first < columns:
                many = min(piece, high - first) if (low <= first) & (first < high) else 1
                stride, n, size = _stride(geometry, first, many), rows * count_w[first], many * inner
                total = 2 * width
                squares, tap = total + size, total + 2 * size
                for k in range(count_w[first] if rows > 0 else 0):
                    at = (geometry.begins[2][first] + k * geometry.steps[2]) * inner
                    _take(work, total if k == 0 else tap, work, at, stride, many, inner, how)
                    if k > 0:
                        _add(work, total, size, tap)
                    _take(work, squares if k == 0 else tap, work, width + at, stride, many, inner, how)
                    if k > 0:
                        _add(work, squares, size, tap)
                sums, powers = behind(work, total), behind(work, squares)
                target, divisor, number = unsigned(t * geometry.size + first * inner), float(n) - less, kind(n)
                for w in range(unsigned(size)):
                    spread = kind(kind(number * powers[w]) - kind(sums[w] * sums[w]))
                    root = _root_of(np.float64(spread) / (float(n) * divisor), divisor)
                    out[target + w] = how.finish(root, share, w)
                first += many
            o, d, h = row_after(o, d, h, geometry.output)

    return moments


@looped
def _spread(work, size, count, x, geometry, o, d, h, first, many, has_least, how):
    """The sums of squared distances from the mean, in the third row of `work`, and in the second those of the
    distances, by which the mean is off; integers count from the least one of the window on.
    """
    optimise_later()
    inner, stride, n = geometry.inner, _stride(geometry, first, many), unsigned(size)
    mean, rest, squares, least = n, 2 * n, 3 * n, 4 * n
    for w in range(n):
        work[mean + w], work[rest + w], work[squares + w] = 0.0, 0.0, 0.0
        work[least + w] = np.inf if has_least else 0.0
    for tap in range(count if has_least else 0):
        _take(work, 0, x, _tap_at(geometry, o, d, h, first, tap), stride, many, inner, how)
        for w in range(n):
            work[least + w] = work[w] if work[w] < work[least + w] else work[least + w]
    for tap in range(count):
        _take(work, 0, x, _tap_at(geometry, o, d, h, first, tap), stride, many, inner, how)
        for w in range(n):
            work[mean + w] += work[w] - work[least + w]
    for w in range(n):
        work[mean + w] /= float(count)
    for tap in range(count):
        _take(work, 0, x, _tap_at(geometry, o, d, h, first, tap), stride, many, inner, how)
        for w in range(n):
            distance = (work[w] - work[least + w]) - work[mean + w]
            work[rest + w] += distance
            work[squares + w] += distance * distance


def deviations(how, taps):
    """Standard deviations in two passes, in float64 and in the order of the numpy engine: element by element."""
    less = how.ddof

    def deviations(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry = geometry_at(numbers, divisors)
        longest, piece, has_least = more_at(numbers, 0), more_at(numbers, 1), more_at(numbers, 2) != 0
        inner, (count_d, count_h, count_w) = geometry.inner, geometry.counts
        columns = geometry.size // inner
        low, high = _whole(geometry, columns, longest)
        o, d, h = row_of(first_task, geometry.output)
        for t in range(first_task, last_task):
            share, first = share_at(geometry, d, h), 0
            while first < columns:
                many = min(piece, high - first) if (low <= first) & (first < high) else 1
                count, size = count_d[d] * count_h[h] * count_w[first], many * inner
                _spread(work, size, count, x, geometry, o, d, h, first, many, has_least, how)
                rest, squares = behind(work, 2 * size), behind(work, 3 * size)
                target, divisor = unsigned(t * geometry.size + first * inner), float(count) - less
                for w in range(unsigned(size)):
                    variance = (squares[w] - rest[w] * rest[w] / float(count)) / divisor
                    out[target + w] = how.finish(_root_of(variance, divisor), share, w)
                first += many
            o, d, h = row_after(o, d, h, geometry.output)

    return deviations


@looped
def _exchange(work, a, b, size):
    """Of each pair of elements of the rows at `a` and `b` the smaller goes to the first row."""
    optimise_later()
    low, high = behind(work, a), behind(work, b)
    for w in range(unsigned(size)):
        one, two = low[w], high[w]
        low[w] = one if one < two else two
        high[w] = two if one < two else one


@looped
def _keep_inner(work, first, low, high, last, size):
    """Leaves in the rows at `low` and `high`, which may be one, what lies inside of the elements of the other two."""
    optimise_later()
    smallest, smaller, larger, largest = behind(work, first), behind(work, low), behind(work, high), behind(work, last)
    for w in range(unsigned(size)):
        one, two = smallest[w], smaller[w]
        smaller[w] = two if one < two else one
    for w in range(unsigned(size)):
        one, two = larger[w], largest[w]
        larger[w] = one if one < two else two


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
        value = work[at + w]
        work[to + w] = work[to + w] if value == value else value


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
        low, high = _whole(geometry, columns, longest)
        o, d, h = row_of(first_task, geometry.output)
        for t in range(first_task, last_task):
            share, first = share_at(geometry, d, h), 0
            while first < columns:
                many = min(piece, high - first) if (low <= first) & (first < high) else 1
                count, size, stride = (
                    count_d[d] * count_h[h] * count_w[first],
                    many * inner,
                    _stride(geometry, first, many),
                )
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
                    _take(work, row * size, x, _tap_at(geometry, o, d, h, first, tap), stride, many, inner, how)
                    if minds_nan:
                        _mind(work, nan, row, size)
                while end - begin > 2 - count % 2:
                    _inner(work, lines, begin, end - 1, size)
                    begin, end = begin + 1, end - 1
                one, two = unsigned(begin * size), unsigned(max(end - 1, begin) * size)
                target, invalid = unsigned(t * geometry.size + first * inner), behind(work, nan)
                for w in range(unsigned(size)):
                    is_known = (count > 0) & (invalid[w] == invalid[w])
                    out[target + w] = how.finish(how.middle(work[one + w], work[two + w], is_known), share, w)
                first += many
            o, d, h = row_after(o, d, h, geometry.output)

    return median
