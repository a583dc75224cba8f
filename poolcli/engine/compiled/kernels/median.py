"""Medians by sorting: all windows of a piece at once, of which each element has a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.engine.compiled.kernels import Function, inlined, looped, offset, optimise_later, u8
from poolcli.engine.compiled.kernels.operations import round_to_odd
from poolcli.engine.compiled.kernels.pieces import by_pieces, gathered, tap_at


@inlined
def smaller(a, b):
    return a if a < b else b


@inlined
def larger(a, b):
    return b if a < b else a


def _middle(steps):
    """middle(a, b, is_known): the mean of two elements, or NaN unless is_known.

    In float64, means of up to 32 bits are exact, or so near to half of the larger element that they are rounded to it.
    Means are rounded to odd if `finish` rounds them to another type.
    """
    kind, one = type(steps.identity), type(steps.identity)(1)
    is_float, is_short = steps.identity.dtype.kind == "f", steps.identity.dtype != np.float64
    keeps_type = is_short and steps.write in ("", steps.read)
    is_rounded_here = steps.output == np.float64 and not steps.write

    @inlined
    def of_integers(a, b, is_known):
        below = kind(kind(a & b) + kind(kind(a ^ b) >> one))  # floor of the mean, without overflow
        return kind(below + kind(kind(a ^ b) & below & one))  # halves to even

    @inlined
    def in_float64(a, b, is_known):
        half = 0.5 * ((np.float64(a) + 0.0) + np.float64(b))
        return half if is_known else np.nan

    @inlined
    def of_floats(a, b, is_known):
        low, high = np.float64(a) + 0.0, np.float64(b)
        total = low + high
        back = total - low
        error = (low - (total - back)) + (high - back)
        half = 0.5 * (total if is_rounded_here or error != error else round_to_odd(total, error))
        overflows = (abs(total) == np.inf) & (abs(low) < np.inf) & (abs(high) < np.inf)
        found = low / 2 + high / 2 if overflows else half
        return found if is_known else np.nan

    if not is_float:
        return in_float64 if steps.output.kind == "f" or steps.write else of_integers
    return in_float64 if keeps_type else of_floats


@inlined
def _nan_or(a, b):
    return a if b == b else b


@looped
def _settle(work, i, rows, size):
    """Exchange elements of row i with those of all later rows until its are the smallest. One row at a time: LLVM
    checks at once for all turns of a loop whether its rows overlap.
    """
    optimise_later()
    low = u8(i * size)
    for j in range(i + 1, rows):
        other = u8(j * size)
        for w in range(u8(size)):
            a, b = work[low + w], work[other + w]
            work[low + w], work[other + w] = smaller(a, b), larger(a, b)


def _median_of_3x3(lift: Function) -> Function:
    @looped
    def median_of_3x3(work, x, piece, step):
        """Medians of 3x3 windows, whose rows are `step` apart, or NaN, in row 3 of `work`. Columns are sorted
        once: the result is the median of the largest minimum, the median of the middle elements, and the smallest
        maximum of the three. Without it, medians of bytes take 8 times as long.
        """
        optimise_later()
        one, two, pitch = u8(piece.step_w), u8(2 * piece.step_w), piece.size + 2 * piece.step_w
        second, third, middles = offset(x, step), offset(x, 2 * step), offset(work, pitch)
        largest, found, invalid = offset(work, 2 * pitch), offset(work, 3 * pitch), offset(work, 4 * pitch)
        for w in range(u8(pitch)):
            top, middle, bottom = lift(x[w]), lift(second[w]), lift(third[w])
            less, more = smaller(top, middle), larger(top, middle)
            rest = smaller(more, bottom)
            work[w], middles[w], largest[w] = smaller(less, rest), larger(less, rest), larger(more, bottom)
            invalid[w] = _nan_or(_nan_or(top, middle), bottom)
        for w in range(u8(piece.size)):
            low = larger(larger(work[w], work[w + one]), work[w + two])
            high = smaller(smaller(largest[w], largest[w + one]), largest[w + two])
            less, more = smaller(middles[w], middles[w + one]), larger(middles[w], middles[w + one])
            middle = larger(less, smaller(more, middles[w + two]))
            median = larger(smaller(low, middle), smaller(larger(low, middle), high))
            found[w] = _nan_or(_nan_or(_nan_or(median, invalid[w]), invalid[w + one]), invalid[w + two])

    return median_of_3x3  # type: ignore[no-any-return]


def median(how: Any, steps: Any) -> Any:
    """Medians; of an even number of elements, the mean of the two middle ones. The work array has a row for each
    element of a window, which are sorted up to the middle, and one that has NaN where a window has one.
    """
    middle, store, nothing, gather = _middle(steps), how.store, how.nothing, gathered(how.lift)
    median_of_3x3 = _median_of_3x3(how.lift)

    @by_pieces
    def median(x, out, work, piece):
        optimise_later()
        rows, size, n = piece.count, piece.size, u8(piece.size)
        half, nan = rows // 2, rows * size
        low = (half - 1 if (rows > 0) & (rows % 2 == 0) else half) * size
        if (rows == 9) & (piece.count_w == 3) & (piece.stride == 1) & (2 * piece.step_w <= size):
            median_of_3x3(work, x, piece, piece.step_h if piece.count_h == 3 else piece.step_d)
            low = nan = 3 * (size + 2 * piece.step_w)
        else:
            for w in range(n):
                work[u8(nan) + w] = nothing
            for tap in range(rows):
                row, invalid = offset(work, tap * size), offset(work, nan)
                gather(row, offset(x, tap_at(piece, tap)), piece.columns, piece.stride, piece.inner)
                for w in range(n):
                    invalid[w] = _nan_or(invalid[w], row[w])
            for i in range(half + 1):
                _settle(work, i, rows, size)
        lower, invalid = offset(work, low), offset(work, nan)
        upper = lower if rows % 2 else offset(work, half * size)
        for w in range(n):
            out[w] = store(middle(lower[w], upper[w], (rows > 0) & (invalid[w] == invalid[w])), 1.0)

    return median
