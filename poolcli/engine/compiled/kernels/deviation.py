"""Standard deviations: of short integers from exact sums, of other types in two passes in float64."""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.finish import quotient_by_any
from poolcli.engine.compiled.kernels.pieces import aligned, by_pieces, gather, gather_tap, tap_at
from poolcli.engine.compiled.kernels.rows import join_rows, line_at, sample, steps_in, unsigned
from poolcli.engine.compiled.kernels.slide import windows_by_passes
from poolcli.engine.compiled.pointers import behind, inlined, looped, more_at, optimise_later


@inlined
def _root_of(variance, divisor):
    positive = 0.0 if variance < 0.0 else variance
    return np.sqrt(positive) if (positive >= 0.0) & (divisor > 0.0) else np.nan


@looped
def _sums(work, length, size, x, at, rows, columns, how):
    """The sums of windows whose rows have `length` elements: the pointer to them.

    rows: the planes and lines of a window, and their strides; columns: its elements along W, their distance, the stride
    of windows and the inner elements.
    """
    optimise_later()
    (planes, lines, steps), (count, unit, stride, inner) = rows, columns
    join_rows(work, 0, length, x, at, planes, lines, steps, how)
    _, found, _, _ = windows_by_passes(work, length, count, unit, True, how)
    if stride > 1:
        sample(work, 3 * length, size, found, stride, inner)
    return behind(work, 3 * length if stride > 1 else found)


def exact_deviation(how, taps):
    """Standard deviations of short integers: sqrt((n * sum(x * x) - sum(x)**2) / (n * (n - ddof))), with exact sums."""
    kind, ddof, lift = type(how.nothing), how.ddof, how.lift
    of_squares = how._replace(lift=inlined(lambda element: lift(element) * lift(element)))

    @by_pieces
    def exact_deviation(given, geometry, piece, share):
        optimise_later()
        d, h, work, x, size, inner = piece.d, piece.h, given.work, given.x, piece.size, geometry.inner
        count_d, count_h, count, unit = (
            geometry.counts[0][d],
            geometry.counts[1][h],
            piece.count_w,
            geometry.steps[2] * inner,
        )
        at, columns = np.int64(tap_at(geometry, piece, 0)), (count, unit, piece.stride, inner)
        rows = count_d if count > 0 else 0, count_h, steps_in(geometry)
        length = ((piece.columns - 1) * piece.stride + 1) * inner + (max(count, 1) - 1) * unit
        sums = _sums(work, length, size, x, at, rows, columns, how)
        powers = _sums(behind(work, 4 * length), length, size, x, at, rows, columns, of_squares)
        divisor, number = float(piece.count) - ddof, kind(piece.count)
        by = float(piece.count) * divisor
        inverse = 1.0 / by
        for w in range(unsigned(size)):
            spread = kind(kind(number * powers[w]) - kind(sums[w] * sums[w]))
            root = _root_of(quotient_by_any(np.float64(spread), by, inverse), divisor)
            given.out[piece.target + w] = how.finish(root, share, w)

    return exact_deviation


@looped
def _two_passes(work, x, geometry, piece, has_least, how):
    """The sums of the distances from the mean (a correction) in the third row of `work`, and of their squares in the
    fourth. Integers are taken relative to the smallest one of their window.
    """
    optimise_later()
    n, count = unsigned(piece.size), piece.count
    mean, rest, squares, least = n, 2 * n, 3 * n, 4 * n
    for w in range(n):
        work[mean + w], work[rest + w], work[squares + w] = 0.0, 0.0, 0.0
        work[least + w] = np.inf if has_least else 0.0
    for tap in range(count if has_least else 0):
        gather_tap(work, 0, x, tap, geometry, piece, how)
        for w in range(n):
            work[least + w] = work[w] if work[w] < work[least + w] else work[least + w]
    for tap in range(count):
        gather_tap(work, 0, x, tap, geometry, piece, how)
        for w in range(n):
            work[mean + w] += work[w] - work[least + w]
    for w in range(n):
        work[mean + w] /= float(count)
    for tap in range(count):
        gather_tap(work, 0, x, tap, geometry, piece, how)
        for w in range(n):
            distance = (work[w] - work[least + w]) - work[mean + w]
            work[rest + w] += distance
            work[squares + w] += distance * distance


def _fixed_window(how, taps):
    """The standard deviations of whole windows of one size, whose loops over taps LLVM unrolls.

    Rows of elements are converted to float64 first, sorted by their residue modulo the stride.
    """
    kernel, by, count = taps.kernel, taps.stride, taps.kernel * taps.rows
    number, divisor = float(count), float(count) - how.ddof

    @inlined
    def element(work, w, tap, length, unit):
        line, along = tap // kernel, tap % kernel
        return work[unsigned(line * by + along % by) * length + unsigned(along // by) * unit + w]

    @looped
    def fixed_window(out, work, x, geometry, piece, share):
        optimise_later()
        inner, size, inverse, reciprocal = geometry.inner, piece.size, 1 / number, 1 / divisor
        unit, begin = geometry.steps[2] * inner, geometry.begins[2][piece.first] * inner
        length = unsigned(aligned(size + (kernel - 1) // by * unit))
        for row in range(count // kernel * by):
            at, residue = line_at(geometry, piece.o, piece.d, piece.h, row // by) + unsigned(begin), row % by
            reach = size + (kernel - 1 - residue) // by * unit if residue < kernel else 0
            gather(work, unsigned(row) * length, x, at + unsigned(residue), reach // inner, by, inner, how)
        means, unit = unsigned(count // kernel * by) * length, unsigned(unit)
        for w in range(unsigned(size)):
            total = 0.0
            for tap in range(count):
                total += element(work, w, tap, length, unit)
            work[means + w] = quotient_by_any(total, number, inverse)
        for w in range(unsigned(size)):
            rest, squares = 0.0, 0.0
            for tap in range(count):
                distance = element(work, w, tap, length, unit) - work[means + w]
                rest += distance
                squares += distance * distance
            variance = quotient_by_any(squares - quotient_by_any(rest * rest, number, inverse), divisor, reciprocal)
            out[piece.target + w] = how.finish(_root_of(variance, divisor), share, w)

    return fixed_window


def deviation(how, taps):
    """Standard deviations in float64, in two passes, element by element in the order of the numpy engine."""
    ddof, whole = how.ddof, 0 if taps is None else taps.kernel * taps.rows
    fixed_window = _fixed_window(how, taps) if taps else None

    @by_pieces
    def deviation(given, geometry, piece, share):
        optimise_later()
        work, size, count = given.work, piece.size, piece.count
        if taps is not None and count == whole:
            fixed_window(given.out, work, given.x, geometry, piece, share)
        else:
            _two_passes(work, given.x, geometry, piece, more_at(given.numbers, 2) != 0, how)
            rest, squares, divisor = behind(work, 2 * size), behind(work, 3 * size), float(count) - ddof
            for w in range(unsigned(size)):
                variance = (squares[w] - rest[w] * rest[w] / float(count)) / divisor
                given.out[piece.target + w] = how.finish(_root_of(variance, divisor), share, w)

    return deviation
