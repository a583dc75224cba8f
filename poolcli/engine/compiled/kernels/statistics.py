"""Standard deviations of whole rows of windows at once, in pieces; windows along W that reach beyond the input, and
hold fewer elements than the others, are taken each on its own.
"""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.geometry import CACHE_LINE
from poolcli.engine.compiled.kernels.rows import join_rows, line_at, row_after, row_of, sample, steps_in, unsigned
from poolcli.engine.compiled.kernels.slide import windows_by_passes
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
from poolcli.engine.compiled.results import quotient_by_any


@looped
def whole_windows(geometry, columns, longest):
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
def stride_of(geometry, first, many):
    """How far windows along W are apart, of so many from the first on."""
    begin = geometry.begins[2]
    return begin[first + 1] - begin[first] if many > 1 else 1


@looped
def take(work, to, source, at, stride, many, inner, how):
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
def tap_at(geometry, o, d, h, first, tap):
    """Where in x the element `tap` of window `first` along W is, of those of output row (o, d, h)."""
    along, inner = geometry.counts[2][first], geometry.inner
    line = tap // along
    beside = geometry.begins[2][first] + (tap - line * along) * geometry.steps[2]
    return line_at(geometry, o, d, h, line) + unsigned(beside * inner)


@inlined
def in_lines(size):
    """At least so many numbers, so that rows of them begin with lines of the cache."""
    return (size + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE


@inlined
def _root_of(variance, divisor):
    positive = 0.0 if variance < 0.0 else variance
    return np.sqrt(positive) if (positive >= 0.0) & (divisor > 0.0) else np.nan


@looped
def _sums(work, wide, size, x, at, rows, along, how):
    """The sums of windows whose rows reach over `wide` elements of x: behind which pointer they are."""
    optimise_later()
    (planes, lines, steps), (count, unit, stride, inner) = rows, along
    join_rows(work, 0, wide, x, at, planes, lines, steps, how)
    _, found, _, _ = windows_by_passes(work, wide, count, unit, True, how)
    if stride > 1:
        sample(work, 3 * wide, size, found, stride, inner)
    return behind(work, 3 * wide if stride > 1 else found)


def moments(how, taps):
    """Standard deviations of short integers, from exact sums of them and of their squares: of the rows of a window
    first, then along the row.
    """
    kind, less, lift = type(how.nothing), how.ddof, how.lift
    of_squares = how._replace(lift=inlined(lambda element: lift(element) * lift(element)))

    def moments(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry = geometry_at(numbers, divisors)
        longest, piece, inner, step = more_at(numbers, 0), more_at(numbers, 1), geometry.inner, geometry.steps[2]
        columns, (count_d, count_h, count_w), steps = geometry.size // inner, geometry.counts, steps_in(geometry)
        low, high = whole_windows(geometry, columns, longest)
        o, d, h = row_of(first_task, geometry.output)
        for t in range(first_task, last_task):
            share, first = share_at(geometry, d, h), 0
            while first < columns:
                many = min(piece, high - first) if (low <= first) & (first < high) else 1
                stride, size, count, unit = stride_of(geometry, first, many), many * inner, count_w[first], step * inner
                at, along = np.int64(tap_at(geometry, o, d, h, first, 0)), (count, unit, stride, inner)
                rows = count_d[d] if count > 0 else 0, count_h[h], steps
                wide = ((many - 1) * stride + 1) * inner + (max(count, 1) - 1) * unit
                sums = _sums(work, wide, size, x, at, rows, along, how)
                powers = _sums(behind(work, 4 * wide), wide, size, x, at, rows, along, of_squares)
                n, target = count_d[d] * count_h[h] * count, unsigned(t * geometry.size + first * inner)
                divisor, number = float(n) - less, kind(n)
                by = float(n) * divisor
                inverse = 1.0 / by
                for w in range(unsigned(size)):
                    spread = kind(kind(number * powers[w]) - kind(sums[w] * sums[w]))
                    root = _root_of(quotient_by_any(np.float64(spread), by, inverse), divisor)
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
    inner, stride, n = geometry.inner, stride_of(geometry, first, many), unsigned(size)
    mean, rest, squares, least = n, 2 * n, 3 * n, 4 * n
    for w in range(n):
        work[mean + w], work[rest + w], work[squares + w] = 0.0, 0.0, 0.0
        work[least + w] = np.inf if has_least else 0.0
    for tap in range(count if has_least else 0):
        take(work, 0, x, tap_at(geometry, o, d, h, first, tap), stride, many, inner, how)
        for w in range(n):
            work[least + w] = work[w] if work[w] < work[least + w] else work[least + w]
    for tap in range(count):
        take(work, 0, x, tap_at(geometry, o, d, h, first, tap), stride, many, inner, how)
        for w in range(n):
            work[mean + w] += work[w] - work[least + w]
    for w in range(n):
        work[mean + w] /= float(count)
    for tap in range(count):
        take(work, 0, x, tap_at(geometry, o, d, h, first, tap), stride, many, inner, how)
        for w in range(n):
            distance = (work[w] - work[least + w]) - work[mean + w]
            work[rest + w] += distance
            work[squares + w] += distance * distance


def _of_whole_windows(how, taps):
    """What makes standard deviations of whole windows of a constant size, from rows of elements as float64, in which
    those of one residue of the stride are side by side. Windows are so small that LLVM unrolls the loops over taps.
    """
    kernel, by, count = taps.kernel, taps.stride, taps.kernel * taps.rows
    number, divisor = float(count), float(count) - how.ddof

    @inlined
    def element(work, w, tap, each, unit):
        line, along = tap // kernel, tap % kernel
        return work[unsigned(line * by + along % by) * each + unsigned(along // by) * unit + w]

    @looped
    def of_whole_windows(out, target, work, size, x, geometry, o, d, h, first, share):
        optimise_later()
        inner, inverse, reciprocal = geometry.inner, 1 / number, 1 / divisor
        unit, begin = geometry.steps[2] * inner, geometry.begins[2][first] * inner
        each = unsigned(in_lines(size + (kernel - 1) // by * unit))
        for row in range(count // kernel * by):
            at, residue = line_at(geometry, o, d, h, row // by) + unsigned(begin), row % by
            reach = size + (kernel - 1 - residue) // by * unit if residue < kernel else 0
            take(work, unsigned(row) * each, x, at + unsigned(residue), by, reach // inner, inner, how)
        means, unit = unsigned(count // kernel * by) * each, unsigned(unit)
        for w in range(unsigned(size)):
            total = 0.0
            for tap in range(count):
                total += element(work, w, tap, each, unit)
            work[means + w] = quotient_by_any(total, number, inverse)
        for w in range(unsigned(size)):
            rest, squares = 0.0, 0.0
            for tap in range(count):
                distance = element(work, w, tap, each, unit) - work[means + w]
                rest += distance
                squares += distance * distance
            variance = quotient_by_any(squares - quotient_by_any(rest * rest, number, inverse), divisor, reciprocal)
            out[target + w] = how.finish(_root_of(variance, divisor), share, w)

    return of_whole_windows


def deviations(how, taps):
    """Standard deviations in two passes, in float64 and in the order of the numpy engine: element by element."""
    less, whole = how.ddof, 0 if taps is None else taps.kernel * taps.rows
    of_whole_windows = _of_whole_windows(how, taps) if taps else None

    def deviations(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry = geometry_at(numbers, divisors)
        longest, piece, has_least = more_at(numbers, 0), more_at(numbers, 1), more_at(numbers, 2) != 0
        inner, (count_d, count_h, count_w) = geometry.inner, geometry.counts
        columns = geometry.size // inner
        low, high = whole_windows(geometry, columns, longest)
        o, d, h = row_of(first_task, geometry.output)
        for t in range(first_task, last_task):
            share, first = share_at(geometry, d, h), 0
            while first < columns:
                many = min(piece, high - first) if (low <= first) & (first < high) else 1
                target = unsigned(t * geometry.size + first * inner)
                count, size = count_d[d] * count_h[h] * count_w[first], many * inner
                if taps is not None and count == whole:
                    of_whole_windows(out, target, work, size, x, geometry, o, d, h, first, share)
                else:
                    _spread(work, size, count, x, geometry, o, d, h, first, many, has_least, how)
                    rest, squares = behind(work, 2 * size), behind(work, 3 * size)
                    divisor = float(count) - less
                    for w in range(unsigned(size)):
                        variance = (squares[w] - rest[w] * rest[w] / float(count)) / divisor
                        out[target + w] = how.finish(_root_of(variance, divisor), share, w)
                first += many
            o, d, h = row_after(o, d, h, geometry.output)

    return deviations
