"""Modes, medians and standard deviations, whose windows share no results. Runs of windows that have all their elements
and the same distance are pooled in pieces, so that one element of each of them, a tap, fills vectors; other windows are
pieces of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from poolcli.engine.compiled.kernels import Function, by_rows, inlined, line_offset, looped, offset, optimise_later, u8
from poolcli.engine.compiled.kernels.operations import root_of_variance, round_to_odd

smaller, larger = inlined(lambda a, b: a if a < b else b), inlined(lambda a, b: b if a < b else a)
nan_or = inlined(lambda a, b: a if b == b else b)


class Piece(NamedTuple):
    """Windows of an output row."""

    columns: Any  # their number
    stride: Any  # pixels from one to the next
    inner: Any  # elements of a pixel
    size: Any  # outputs
    count: Any  # elements of a window
    count_h: Any  # its rows in each plane
    count_w: Any  # elements of a row
    step_d: Any  # the distances in x of planes, rows and elements
    step_h: Any
    step_w: Any


def by_pieces(compute: Function) -> Any:
    """The kernel whose tasks are output rows, in pieces that compute(x, out, work, piece) pools; `x` begins with the
    first window, `out` with its output. The windows `first` to `last` - 1 of the table can share pieces.
    """
    pool_piece = looped(compute)

    @by_rows
    def kernel(x, out, places, work, sizes, table, factors, t, r, begin, nd, nh, piece, last):
        optimise_later()
        most, low, high, at_w = sizes.piece, sizes.first, sizes.last, sizes.at_w
        inner, stride, step_d, step_h = sizes.channels, sizes.stride, sizes.step_d, sizes.step_h
        w = 0
        while w < sizes.columns:
            n, many = table[at_w + 2 * w + 1], smaller(larger(high - w, 1), most) if w >= low else 1
            count, step_w = nd * nh * n, sizes.gap_w * inner
            windows = Piece(many, stride, inner, many * inner, count, nh, n, step_d, step_h, step_w)
            source, target = begin + table[at_w + 2 * w] * inner, t * sizes.size + w * inner
            pool_piece(offset(x, source), offset(out, target), work, windows)
            w += many

    return kernel


def gathered(lift: Function) -> Function:
    """The function (row, x, piece, tap) that copies one tap of a piece to a row."""

    @looped
    def gather(row, x, piece, tap):
        optimise_later()
        line = tap // piece.count_w
        at = line_offset(line, piece.count_h, piece.step_d, piece.step_h)
        source = offset(x, at + (tap - line * piece.count_w) * piece.step_w)
        inner, step = u8(piece.inner), u8(piece.stride * piece.inner)
        if piece.stride == 1:
            for w in range(u8(piece.size)):
                row[w] = lift(source[w])
        elif piece.inner == 1:
            for w in range(u8(piece.size)):
                row[w] = lift(source[w * step])
        else:
            for w in range(u8(piece.columns)):
                for c in range(inner):
                    row[w * inner + c] = lift(source[w * step + c])

    return gather  # type: ignore[no-any-return]


def mode(how: Any, steps: Any) -> Any:
    """All pairs of the elements of a window are compared."""
    store, kind, gather = how.store, type(steps.identity), gathered(how.lift)

    @by_pieces
    def mode(x, out, work, piece):
        """The first of equal values has the most votes, because each is compared with later ones only."""
        optimise_later()
        rows, size, n = piece.count, piece.size, u8(piece.size)
        for tap in range(rows):
            gather(offset(work, tap * size), x, piece, tap)
        votes = offset(work, rows * size)
        best, most = offset(votes, size), offset(votes, 2 * size)
        for i in range(rows):
            own = u8(i * size)
            for w in range(n):
                votes[w] = kind(0)
            for j in range(i + 1, rows):
                other = u8(j * size)
                for w in range(n):
                    votes[w] += kind(work[other + w] == work[own + w])
            for w in range(n):
                value = work[own + w]
                wins = (i == 0) | (votes[w] > most[w]) | ((votes[w] == most[w]) & (value < best[w]))
                best[w], most[w] = value if wins else best[w], votes[w] if wins else most[w]
        for w in range(n):
            out[w] = store(best[w], 1.0)

    return mode


def deviation(how: Any, steps: Any, rows: int, lines: int, taps: int, stride: int) -> Any:
    """Standard deviations in two passes in float64, element by element in the order of the numpy engine; those of
    short integers are quotients of exact sums (`operations`). Windows of `rows` rows, `lines` in each plane, of `taps`
    elements, if there are any, are read twice by loops that LLVM unrolls: 2x2 windows take a third of the time.
    """
    ddof, lift, store, gather = steps.ddof, how.lift, how.store, gathered(how.lift)
    whole, step = rows * taps, u8(stride)

    @inlined
    def element(x, w, tap, far, near, unit):
        line = tap // taps
        return lift(x[u8(line // lines) * far + u8(line % lines) * near + u8(tap % taps) * unit + w * step])

    @looped
    def constant_windows(out, x, piece):
        optimise_later()
        number, divisor = float(whole), float(whole) - ddof
        far, near, unit = u8(piece.step_d), u8(piece.step_h), u8(piece.step_w)
        for w in range(u8(piece.size)):
            total, rest, squares = 0.0, 0.0, 0.0
            for tap in range(whole):
                total += element(x, w, tap, far, near, unit)
            for tap in range(whole):
                distance = element(x, w, tap, far, near, unit) - total / number
                rest += distance
                squares += distance * distance
            out[w] = store(root_of_variance((squares - rest * rest / number) / divisor, divisor), 1.0)

    @by_pieces
    def deviation(x, out, work, piece):
        optimise_later()
        if whole and piece.count == whole:
            constant_windows(out, x, piece)
            return
        size, n, count = piece.size, u8(piece.size), float(piece.count)
        means, rests, squares = offset(work, size), offset(work, 2 * size), offset(work, 3 * size)
        for w in range(n):
            means[w] = rests[w] = squares[w] = 0.0
        for tap in range(piece.count):
            gather(work, x, piece, tap)
            for w in range(n):
                means[w] += work[w]
        for w in range(n):
            means[w] /= count
        for tap in range(piece.count):
            gather(work, x, piece, tap)
            for w in range(n):
                distance = work[w] - means[w]
                rests[w] += distance
                squares[w] += distance * distance
        for w in range(n):
            variance = (squares[w] - rests[w] * rests[w] / count) / (count - ddof)
            out[w] = store(root_of_variance(variance, count - ddof), 1.0)

    return deviation


def _middle(steps):
    """middle(a, b, is_known): the mean of two elements, or NaN unless is_known; rounded to odd if `store` rounds it.

    In float64, means of up to 32 bits are exact, or so near to half of the larger element that they are rounded to it.
    """
    kind, one = type(steps.identity), type(steps.identity)(1)
    is_rounded_here = steps.output == np.float64 and not steps.write

    @inlined
    def of_integers(a, b, is_known):
        below = kind(kind(a & b) + kind(kind(a ^ b) >> one))  # floor of the mean, without overflow
        return kind(below + kind(kind(a ^ b) & below & one))  # halves to even

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

    @inlined
    def of_short(a, b, is_known):
        half = 0.5 * ((np.float64(a) + 0.0) + np.float64(b))
        return half if is_known else np.nan

    if steps.identity.dtype.kind != "f":
        return of_short if steps.output.kind == "f" or steps.write else of_integers
    keeps_type = steps.identity.dtype != np.float64 and steps.write in ("", steps.read)
    return of_short if keeps_type else of_floats


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


def _median_of_3x3(lift: Function, has_nan: bool) -> Function:
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
            if has_nan:
                invalid[w] = nan_or(nan_or(top, middle), bottom)
        for w in range(u8(piece.size)):
            low = larger(larger(work[w], work[w + one]), work[w + two])
            high = smaller(smaller(largest[w], largest[w + one]), largest[w + two])
            less, more = smaller(middles[w], middles[w + one]), larger(middles[w], middles[w + one])
            middle = larger(less, smaller(more, middles[w + two]))
            median = larger(smaller(low, middle), smaller(larger(low, middle), high))
            if has_nan:
                median = nan_or(nan_or(nan_or(median, invalid[w]), invalid[w + one]), invalid[w + two])
            found[w] = median

    return median_of_3x3  # type: ignore[no-any-return]


def median(how: Any, steps: Any) -> Any:
    """Medians by sorting; of an even number of elements, the mean of the two middle ones. The work array has a row for
    each tap, which are sorted up to the middle, and one that has NaN where a window has one.
    """
    middle, store, nothing, gather = _middle(steps), how.store, how.nothing, gathered(how.lift)
    median_of_3x3 = _median_of_3x3(how.lift, steps.identity.dtype.kind == "f")

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
                gather(row, x, piece, tap)
                for w in range(n):
                    invalid[w] = nan_or(invalid[w], row[w])
            for i in range(half + 1):
                _settle(work, i, rows, size)
        lower, invalid = offset(work, low), offset(work, nan)
        upper = lower if rows % 2 else offset(work, half * size)
        for w in range(n):
            out[w] = store(middle(lower[w], upper[w], (rows > 0) & (invalid[w] == invalid[w])), 1.0)

    return median
