"""Standard deviations: of short integers from exact sums, of other types in two passes in float64."""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.finish import quotient_by_any
from poolcli.engine.compiled.intrinsics import clamp, inlined, looped, offset, optimise_later, select, square
from poolcli.engine.compiled.kernels.pieces import aligned, by_pieces, gather, line_at, tap_at
from poolcli.engine.compiled.kernels.rows import subsample, unsigned
from poolcli.engine.compiled.kernels.slide import combine_windows


@inlined
def _root_of(variance, divisor):
    positive = select(variance < 0.0, 0.0, variance)
    return select((positive >= 0.0) & (divisor > 0.0), np.sqrt(positive), np.nan)


@looped
def _add_rows(sums, size, x, piece, lift, kind):
    """The sums of the rows of the windows in the row `sums`, and those of their squares in the row after it: three rows
    in a pass, or one. Before the first pass, what the rows have is masked.
    """
    optimise_later()
    n, squares, step, mask = unsigned(size), offset(sums, size), piece.step_h, kind(0)
    for plane in range(select(piece.count_w > 0, piece.count_d, 0)):
        line = 0
        while line < piece.count_h:
            a = offset(x, plane * piece.step_d + line * step)
            if piece.count_h - line > 2:
                b, c = offset(a, step), offset(a, 2 * step)
                for w in range(n):
                    one, two, three = lift(a[w]), lift(b[w]), lift(c[w])
                    sums[w] = (sums[w] & mask) + (one + two + three)
                    squares[w] = (squares[w] & mask) + (square(one) + square(two) + square(three))
                line += 3
            else:
                for w in range(n):
                    one = lift(a[w])
                    sums[w] = (sums[w] & mask) + one
                    squares[w] = (squares[w] & mask) + square(one)
                line += 1
            mask = kind(-1)


def exact_deviation(ops, spec):
    """Standard deviations of short integers: sqrt((n * sum(x * x) - sum(x)**2) / (n * (n - ddof))), with exact sums."""
    kind, ddof, lift = type(ops.identity), spec.arithmetic.ddof, ops.lift

    @by_pieces
    def exact_deviation(x, out, work, iwork, params, piece):
        optimise_later()
        size, inner, stride = piece.size, piece.inner, piece.stride
        length = ((piece.columns - 1) * stride + 1) * inner + clamp(piece.count_w - 1, 0, piece.count_w) * piece.step_w
        _add_rows(work, length, x, piece, lift, kind)
        # the rows of sums and of squares, side by side, are combined along W as if they were one
        _, found, _, _ = combine_windows(work, 2 * length, piece.count_w, piece.step_w, True, ops)
        sums, powers = offset(work, found), offset(work, found + length)
        if stride > 1:
            subsample(work, 6 * length, size, found, stride, inner)
            subsample(work, 7 * length, size, found + length, stride, inner)
            sums, powers = offset(work, 6 * length), offset(work, 7 * length)
        divisor, number = float(piece.count) - ddof, kind(piece.count)
        by = float(piece.count) * divisor
        inverse = 1.0 / by
        for w in range(unsigned(size)):
            spread = kind(kind(number * powers[w]) - kind(sums[w] * sums[w]))
            root = _root_of(quotient_by_any(np.float64(spread), by, inverse), by)
            out[w] = ops.finish(root, None, 0)

    return exact_deviation


def _two_passes(has_least):
    """two_passes(work, x, piece, stride, first_turn, lift): the sums of the distances from the mean (a correction) in
    the third row of `work`, and of their squares in the fourth. If `has_least`, a turn before the first of the two
    passes finds the smallest element of each window, relative to which the others are taken.
    """

    @looped
    def two_passes(work, x, piece, stride, first_turn, lift):
        optimise_later()
        size, count, n = piece.size, piece.count, unsigned(piece.size)
        means, rests = offset(work, size), offset(work, 2 * size)
        squares, least = offset(work, 3 * size), offset(work, 4 * size)
        for w in range(n):
            means[w] = rests[w] = squares[w] = 0.0
            if has_least:
                least[w] = np.inf
        for turn in range(first_turn, 3):
            for tap in range(count):
                gather(work, offset(x, tap_at(piece, tap)), piece.columns, stride, piece.inner, lift)
                if has_least and turn == 0:
                    for w in range(n):
                        least[w] = select(work[w] < least[w], work[w], least[w])
                elif turn == 1:
                    for w in range(n):
                        means[w] += work[w] - least[w] if has_least else work[w]
                else:
                    for w in range(n):
                        distance = (work[w] - least[w] if has_least else work[w]) - means[w]
                        rests[w] += distance
                        squares[w] += distance * distance
            if turn == 1:
                for w in range(n):
                    means[w] /= float(count)

    return two_passes


def _fixed_window(fixed, ddof):
    """The standard deviations of whole windows of one size, whose loops over taps LLVM unrolls.

    2x2 and 3x3 windows take 0.36 to 0.6 of the time of `_two_passes` (AMD EPYC Zen 4). Rows are converted to float64
    first, sorted by their residue modulo the stride.
    """
    kernel, by, count = fixed.kernel, fixed.stride, fixed.kernel * fixed.rows
    number, divisor, residues = float(count), float(count) - ddof, min(kernel, by)
    rows = fixed.rows * residues

    @inlined
    def element(work, w, tap, length, unit):
        line, along = tap // kernel, tap % kernel
        return work[unsigned(line * residues + along % by) * length + unsigned(along // by) * unit + w]

    @looped
    def fixed_window(out, work, x, piece, ops):
        optimise_later()
        inner, size, step = piece.inner, piece.size, piece.step_w
        inverse, reciprocal = 1 / number, 1 / divisor
        pitch = aligned(size + (kernel - 1) // by * step)
        for row in range(rows):
            residue = row % residues
            reach, source = size + (kernel - 1 - residue) // by * step, line_at(piece, row // residues) + residue
            gather(offset(work, row * pitch), offset(x, source), reach // inner, np.int64(by), inner, ops.lift)
        means, n, length, unit = offset(work, rows * pitch), unsigned(size), unsigned(pitch), unsigned(step)
        for w in range(n):
            total = 0.0
            for tap in range(count):
                total += element(work, w, tap, length, unit)
            means[w] = quotient_by_any(total, number, inverse)
        for w in range(n):
            rest, squares = 0.0, 0.0
            for tap in range(count):
                distance = element(work, w, tap, length, unit) - means[w]
                rest += distance
                squares += distance * distance
            variance = quotient_by_any(squares - quotient_by_any(rest * rest, number, inverse), divisor, reciprocal)
            out[w] = ops.finish(_root_of(variance, divisor), None, 0)

    return fixed_window


def deviation(ops, spec):
    """Standard deviations in float64, in two passes, element by element in the order of the numpy engine."""
    fixed, ddof = spec.launch.fixed, spec.arithmetic.ddof
    whole, fixed_window = (fixed.kernel * fixed.rows, _fixed_window(fixed, ddof)) if fixed else (0, None)
    stride, two_passes = np.int64(fixed.stride if fixed else 0), _two_passes(has_least=spec.launch.params[4] != 0)

    @by_pieces
    def deviation(x, out, work, iwork, params, piece):
        optimise_later()
        size, count = piece.size, piece.count
        if fixed is not None and count == whole:
            fixed_window(out, work, x, piece, ops)
        else:
            if fixed is None:
                two_passes(work, x, piece, piece.stride, 1 - params[4], ops.lift)
            else:  # of constants, LLVM makes less machine code
                two_passes(work, x, piece, stride, 1, ops.lift)
            rest, squares, divisor = offset(work, 2 * size), offset(work, 3 * size), float(count) - ddof
            for w in range(unsigned(size)):
                variance = (squares[w] - rest[w] * rest[w] / float(count)) / divisor
                out[w] = ops.finish(_root_of(variance, divisor), None, 0)

    return deviation
