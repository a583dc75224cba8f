"""Standard deviations: of short integers from exact sums, of other types in two passes in float64."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np

from poolcli.engine.compiled.kernels import Function, clamp, inlined, looped, offset, optimise_later, u8
from poolcli.engine.compiled.kernels.long import subsample, windows_joined
from poolcli.engine.compiled.kernels.pieces import aligned, by_pieces, gathered, line_at, tap_at


@inlined
def _root_of(variance, divisor):
    positive = 0.0 if variance < 0.0 else variance
    return np.sqrt(positive) if (positive >= 0.0) & (divisor > 0.0) else nan


def exact_deviation(how: Any, steps: Any) -> Any:
    """Standard deviations of short integers: sqrt((n * sum(x * x) - sum(x)**2) / (n * (n - ddof))), with exact sums.

    The rows of sums and of squares, side by side, are joined along W as if they were one.
    """
    kind, ddof, (lift, join, store, _, _) = type(steps.identity), steps.ddof, how
    windows = windows_joined(join)

    @looped
    def add_rows(sums, n, squares, x, piece):
        optimise_later()
        for w in range(u8(2) * u8(squares)):
            sums[w] = kind(0)
        for plane in range(piece.count_d if piece.count_w > 0 else 0):
            for line in range(piece.count_h):
                a = u8(plane * piece.step_d + line * piece.step_h)
                for w in range(u8(n)):
                    one = lift(x[a + w])
                    sums[w] = kind(sums[w] + one)
                    sums[u8(squares) + w] = kind(sums[u8(squares) + w] + kind(one * one))

    @by_pieces
    def exact_deviation(x, out, work, spare, table, piece):
        optimise_later()
        size, inner, stride = piece.size, piece.inner, piece.stride
        length = ((piece.columns - 1) * stride + 1) * inner + clamp(piece.count_w - 1, 0, piece.count_w) * piece.step_w
        add_rows(work, length, length, x, piece)
        _, found, _, _ = windows(work, 2 * length, piece.count_w, piece.step_w, True)
        sums, powers = offset(work, found), offset(work, found + length)
        if stride > 1:
            subsample(work, 6 * length, size, found, stride, inner)
            subsample(work, 7 * length, size, found + length, stride, inner)
            sums, powers = offset(work, 6 * length), offset(work, 7 * length)
        divisor, number = float(piece.count) - ddof, kind(piece.count)
        for w in range(u8(size)):
            spread = kind(kind(number * powers[w]) - kind(sums[w] * sums[w]))
            out[w] = store(_root_of(np.float64(spread) / (float(piece.count) * divisor), divisor), 1.0)

    return exact_deviation


def _two_passes(gather: Function, has_least: bool) -> Function:
    """The function (work, x, piece) that finds the sums of the distances from the mean (a correction) in the third row
    of `work`, and of their squares in the fourth. If `has_least`, a turn before the two passes finds the smallest
    element of each window, relative to which the others are taken.
    """

    @looped
    def two_passes(work, x, piece):
        optimise_later()
        size, count, n = piece.size, piece.count, u8(piece.size)
        means, rests = offset(work, size), offset(work, 2 * size)
        squares, least = offset(work, 3 * size), offset(work, 4 * size)
        for w in range(n):
            means[w] = rests[w] = squares[w] = 0.0
            if has_least:
                least[w] = inf
        for turn in range(0 if has_least else 1, 3):
            for tap in range(count):
                gather(work, offset(x, tap_at(piece, tap)), piece.columns, piece.stride, piece.inner)
                if has_least and turn == 0:
                    for w in range(n):
                        least[w] = work[w] if work[w] < least[w] else least[w]
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

    return two_passes  # type: ignore[no-any-return]


def _constant_window(how: Any, ddof: float, lines: int, taps: int, stride: int) -> Function:
    """The function (out, work, x, piece) for whole windows of one size, whose loops over taps LLVM unrolls: 2x2 and 3x3
    windows take 0.36 to 0.6 of the time (Zen 4). Rows are converted to float64 first, sorted by their residue modulo
    the stride.
    """
    gather, store, by, count = gathered(how.lift), how.store, np.int64(stride), lines * taps
    number, divisor, residues = float(count), float(count) - ddof, min(taps, stride)
    rows = lines * residues

    @inlined
    def element(work, w, tap, length, unit):
        line, along = tap // taps, tap % taps
        return work[u8(line * residues + along % by) * length + u8(along // by) * unit + w]

    @looped
    def constant_window(out, work, x, piece):
        optimise_later()
        inner, size, step = piece.inner, piece.size, piece.step_w
        pitch = aligned(size + (taps - 1) // by * step)
        for row in range(rows):
            residue = row % residues
            reach, source = size + (taps - 1 - residue) // by * step, line_at(piece, row // residues) + residue
            gather(offset(work, row * pitch), offset(x, source), reach // inner, by, inner)
        means, n, length, unit = offset(work, rows * pitch), u8(size), u8(pitch), u8(step)
        for w in range(n):
            total = 0.0
            for tap in range(count):
                total += element(work, w, tap, length, unit)
            means[w] = total / number
        for w in range(n):
            rest, squares = 0.0, 0.0
            for tap in range(count):
                distance = element(work, w, tap, length, unit) - means[w]
                rest += distance
                squares += distance * distance
            out[w] = store(_root_of((squares - rest * rest / number) / divisor, divisor), 1.0)

    return constant_window  # type: ignore[no-any-return]


def deviation(how: Any, steps: Any, has_least: bool, lines: int, taps: int, stride: int) -> Any:
    """Standard deviations in float64, in two passes, element by element in the order of the numpy engine. Windows of
    `lines` rows of `taps` elements, if there are any, have loops of their own.
    """
    ddof, store, whole = steps.ddof, how.store, lines * taps
    two_passes = _two_passes(gathered(how.lift), has_least)
    constant_window = _constant_window(how, ddof, lines, taps, stride) if whole else None

    @by_pieces
    def deviation(x, out, work, spare, table, piece):
        optimise_later()
        size, count = piece.size, piece.count
        if constant_window is not None and count == whole:
            constant_window(out, work, x, piece)
        else:
            two_passes(work, x, piece)
            rest, squares, divisor = offset(work, 2 * size), offset(work, 3 * size), float(count) - ddof
            for w in range(u8(size)):
                variance = (squares[w] - rest[w] * rest[w] / float(count)) / divisor
                out[w] = store(_root_of(variance, divisor), 1.0)

    return deviation
