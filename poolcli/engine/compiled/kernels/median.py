"""Medians by selection: as many candidates as the median needs are kept, and the others are dropped one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.engine.compiled.kernels import Function, clamp, inlined, looped, offset, optimise_later, u8
from poolcli.engine.compiled.kernels.operations import round_to_odd
from poolcli.engine.compiled.kernels.pieces import aligned, by_pieces, gathered, tap_at
from poolcli.engine.compiled.view import AT


@inlined
def smaller(a, b):
    return a if a < b else b


@inlined
def larger(a, b):
    return b if a < b else a


@inlined
def _nan_or(a, b):
    return a if b == b else b


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


@looped
def _drop_extremes(work, places, first, last, size):
    """Drop the smallest and the largest elements of the rows first to last; the others are in the rows between.

    In each pass the elements of four rows are sorted, so that the smallest is in row `first` and the largest in row
    `last`: six comparisons at most, because memory is the bottleneck. Offsets of rows are read from `places`, because
    LLVM would otherwise check all rows at once for overlap.
    """
    optimise_later()
    n, half = u8(size), (last - first) // 2
    smallest, largest = offset(work, places[first]), offset(work, places[last])
    for i in range(1, (last - first + 1) // 2):
        low, high = offset(work, places[first + i]), offset(work, places[last - i])
        for w in range(n):
            a, d = smaller(smallest[w], largest[w]), larger(smallest[w], largest[w])
            b, c = smaller(low[w], high[w]), larger(low[w], high[w])
            smallest[w], low[w] = smaller(a, b), larger(a, b)
            high[w], largest[w] = smaller(c, d), larger(c, d)
    if 2 * half == last - first:
        middle = offset(work, places[first + half])
        for w in range(n):
            a, b = smaller(smallest[w], largest[w]), larger(smallest[w], largest[w])
            middle[w] = larger(a, smaller(b, middle[w]))


def _median_of_3x3(lift: Function) -> Function:
    @looped
    def median_of_3x3(work, size, pitch, unit, x, step):
        """Medians of 3x3 windows, whose rows are `step` apart, in row 4 of `work`. Columns are sorted once: the result
        is the median of the largest minimum, the median of the middle elements, and the smallest maximum of the three.
        """
        optimise_later()
        one, two, middles = u8(unit), u8(2 * unit), offset(work, pitch)
        second, third = offset(x, step), offset(x, 2 * step)
        largest, invalid, found = offset(work, 2 * pitch), offset(work, 3 * pitch), offset(work, 4 * pitch)
        for w in range(u8(size) + two):
            top, middle, bottom = lift(x[w]), lift(second[w]), lift(third[w])
            less, more = smaller(top, middle), larger(top, middle)
            rest = smaller(more, bottom)
            work[w], middles[w], largest[w] = smaller(less, rest), larger(less, rest), larger(more, bottom)
            invalid[w] = _nan_or(_nan_or(top, middle), bottom)
        for w in range(u8(aligned(size))):  # whole vectors; nobody reads what is beyond `size`
            low = larger(larger(work[w], work[w + one]), work[w + two])
            high = smaller(smaller(largest[w], largest[w + one]), largest[w + two])
            less, more = smaller(middles[w], middles[w + one]), larger(middles[w], middles[w + one])
            middle = larger(less, smaller(more, middles[w + two]))
            median = larger(smaller(low, middle), smaller(larger(low, middle), high))
            found[w] = _nan_or(_nan_or(_nan_or(median, invalid[w]), invalid[w + one]), invalid[w + two])

    return median_of_3x3  # type: ignore[no-any-return]


def _selecting(how: Any) -> Function:
    gather, nothing = gathered(how.lift), how.nothing

    @looped
    def select(work, places, x, piece, candidates):
        """The offsets of the rows of the lower and the upper middle elements, and of the row of NaN.

        More than half of the elements are candidates. When there are no rows left for further ones, the extremes of the
        candidates are dropped, which cannot be the median; at last all but the middle ones are.
        """
        optimise_later()
        count, size, n, nan = piece.count, piece.size, u8(piece.size), candidates * piece.size
        begin, end, invalid = np.int64(0), clamp(count // 2 + 2, 0, count), offset(work, nan)
        for row in range(end):
            places[row] = row * size
        for w in range(n):
            invalid[w] = nothing
        tap, last, middles = 0, end - 1, 2 - count % 2
        while (tap < count) | (last - begin >= middles):
            if tap > last:
                _drop_extremes(work, places, begin, last, size)
                begin += 1
            row = offset(work, clamp(tap, 0, last) * size)
            if tap < count:
                gather(row, offset(x, tap_at(piece, tap)), piece.columns, piece.stride, piece.inner)
                for w in range(n):
                    invalid[w] = _nan_or(invalid[w], row[w])
                tap += 1
            else:
                last -= 1
        return begin * size, clamp(last, begin, count) * size, nan

    return select  # type: ignore[no-any-return]


def median(how: Any, steps: Any) -> Any:
    """Medians; of an even number of elements, the mean of the two middle ones. `a`: the candidates that are kept."""
    middle, store, median_of_3x3, select = _middle(steps), how.store, _median_of_3x3(how.lift), _selecting(how)

    @by_pieces
    def median(x, out, places, work, table, piece):
        optimise_later()
        size = piece.size
        if (piece.count == 9) & (piece.count_w == 3) & (piece.stride == 1):
            pitch = aligned(size + 2 * piece.step_w)
            step = piece.step_h if piece.count_h == 3 else piece.step_d
            median_of_3x3(work, size, pitch, piece.step_w, x, step)
            low = high = nan = 4 * pitch
        else:
            low, high, nan = select(work, places, x, piece, table[AT.a])
        lower, upper, invalid = offset(work, low), offset(work, high), offset(work, nan)
        for w in range(u8(size)):
            is_known = (piece.count > 0) & (invalid[w] == invalid[w])
            out[w] = store(middle(lower[w], upper[w], is_known), 1.0)

    return median
