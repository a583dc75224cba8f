"""Standard deviations: of short integers from exact sums, of other types in two passes in float64."""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.finish import quotient_by_any
from poolcli.engine.compiled.intrinsics import inlined, looped, offset, optimise_later
from poolcli.engine.compiled.kernels.pieces import aligned, by_pieces, gather, gather_tap, tap_at
from poolcli.engine.compiled.kernels.rows import combine_rows, line_offset, subsample, unsigned, window_strides
from poolcli.engine.compiled.kernels.slide import combine_windows


@inlined
def _root_of(variance, divisor):
    positive = 0.0 if variance < 0.0 else variance
    return np.sqrt(positive) if (positive >= 0.0) & (divisor > 0.0) else np.nan


@looped
def _sums(work, length, size, x, at, rows, columns, ops):
    """The sums of windows whose rows have `length` elements: the pointer to them.

    rows: the planes and lines of a window, and their strides; columns: its elements along W, their distance, the stride
    of windows and the inner elements.
    """
    optimise_later()
    (planes, lines, steps), (count, unit, stride, inner) = rows, columns
    combine_rows(work, length, x, at, planes, lines, steps, ops)
    _, found, _, _ = combine_windows(work, length, count, unit, True, ops)
    if stride > 1:
        subsample(work, 3 * length, size, found, stride, inner)
    return offset(work, 3 * length if stride > 1 else found)


def exact_deviation(ops, spec):
    """Standard deviations of short integers: sqrt((n * sum(x * x) - sum(x)**2) / (n * (n - ddof))), with exact sums."""
    kind, ddof, lift = type(ops.identity), spec.arithmetic.ddof, ops.lift
    square = inlined(lambda element: lift(element) * lift(element))
    of_squares = ops._replace(lift=square, pair=inlined(lambda a, b: square(a) + square(b)))

    @by_pieces
    def exact_deviation(args, geometry, piece, divisors):
        optimise_later()
        d, h, work, x, size, inner = piece.d, piece.h, args.work, args.x, piece.size, geometry.inner
        count_d, count_h, count, unit = (
            geometry.counts[0][d],
            geometry.counts[1][h],
            piece.count_w,
            geometry.dilations[2] * inner,
        )
        at, columns = np.int64(tap_at(geometry, piece, 0)), (count, unit, piece.stride, inner)
        rows = count_d if count > 0 else 0, count_h, window_strides(geometry)
        length = ((piece.columns - 1) * piece.stride + 1) * inner + (max(count, 1) - 1) * unit
        sums = _sums(work, length, size, x, at, rows, columns, ops)
        powers = _sums(offset(work, 4 * length), length, size, x, at, rows, columns, of_squares)
        divisor, number = float(piece.count) - ddof, kind(piece.count)
        by = float(piece.count) * divisor
        inverse = 1.0 / by
        for w in range(unsigned(size)):
            spread = kind(kind(number * powers[w]) - kind(sums[w] * sums[w]))
            root = _root_of(quotient_by_any(np.float64(spread), by, inverse), divisor)
            args.out[piece.target + w] = ops.finish(root, divisors, w)

    return exact_deviation


@looped
def _two_passes(work, x, geometry, piece, has_least, ops):
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
        gather_tap(work, x, tap, geometry, piece, ops)
        for w in range(n):
            work[least + w] = work[w] if work[w] < work[least + w] else work[least + w]
    for tap in range(count):
        gather_tap(work, x, tap, geometry, piece, ops)
        for w in range(n):
            work[mean + w] += work[w] - work[least + w]
    for w in range(n):
        work[mean + w] /= float(count)
    for tap in range(count):
        gather_tap(work, x, tap, geometry, piece, ops)
        for w in range(n):
            distance = (work[w] - work[least + w]) - work[mean + w]
            work[rest + w] += distance
            work[squares + w] += distance * distance


def _fixed_window(ops, fixed, ddof):
    """The standard deviations of whole windows of one size, whose loops over taps LLVM unrolls.

    2x2 and 3x3 windows take 0.36 to 0.6 of the time of `_two_passes` (AMD EPYC Zen 4). Rows are converted to float64
    first, sorted by their residue modulo the stride.
    """
    kernel, by, count = fixed.kernel, fixed.stride, fixed.kernel * fixed.rows
    number, divisor = float(count), float(count) - ddof

    @inlined
    def element(work, w, tap, length, unit):
        line, along = tap // kernel, tap % kernel
        return work[unsigned(line * by + along % by) * length + unsigned(along // by) * unit + w]

    @looped
    def fixed_window(out, work, x, geometry, piece, divisors):
        optimise_later()
        inner, size, inverse, reciprocal = geometry.inner, piece.size, 1 / number, 1 / divisor
        unit, begin = geometry.dilations[2] * inner, geometry.starts[2][piece.first] * inner
        length = unsigned(aligned(size + (kernel - 1) // by * unit))
        for row in range(count // kernel * by):
            at, residue = line_offset(geometry, piece.o, piece.d, piece.h, row // by) + unsigned(begin), row % by
            reach = size + (kernel - 1 - residue) // by * unit if residue < kernel else 0
            gather(
                offset(work, np.int64(unsigned(row) * length)),
                x,
                at + unsigned(residue),
                reach // inner,
                by,
                inner,
                ops,
            )
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
            out[piece.target + w] = ops.finish(_root_of(variance, divisor), divisors, w)

    return fixed_window


def deviation(ops, spec):
    """Standard deviations in float64, in two passes, element by element in the order of the numpy engine."""
    fixed, ddof = spec.launch.fixed, spec.arithmetic.ddof
    whole, fixed_window = (fixed.kernel * fixed.rows, _fixed_window(ops, fixed, ddof)) if fixed else (0, None)

    @by_pieces
    def deviation(args, geometry, piece, divisors):
        optimise_later()
        work, size, count = args.work, piece.size, piece.count
        if fixed is not None and count == whole:
            fixed_window(args.out, work, args.x, geometry, piece, divisors)
        else:
            _two_passes(work, args.x, geometry, piece, args.params[2] != 0, ops)
            rest, squares, divisor = offset(work, 2 * size), offset(work, 3 * size), float(count) - ddof
            for w in range(unsigned(size)):
                variance = (squares[w] - rest[w] * rest[w] / float(count)) / divisor
                args.out[piece.target + w] = ops.finish(_root_of(variance, divisor), divisors, w)

    return deviation
