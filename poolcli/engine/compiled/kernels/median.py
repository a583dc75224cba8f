"""Medians by selection: as many candidates as the median needs are kept, and the others are dropped one by one."""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.finish import round_to_odd
from poolcli.engine.compiled.intrinsics import inlined, looped, offset, optimise_later
from poolcli.engine.compiled.kernels.pieces import aligned, by_pieces, gather, tap_at
from poolcli.engine.compiled.kernels.rows import fill_identity, unsigned


@inlined
def _min(a, b):
    return a if a < b else b


@inlined
def _max(a, b):
    return b if a < b else a


@inlined
def _nan_or(a, b):
    return a if b == b else b


def _middle(steps):
    """middle(a, b, is_known): the mean of two elements, or NaN unless is_known. Means of floats are rounded to odd if
    `finish` rounds them to a shorter type.
    """
    kind, one = type(steps.identity), type(steps.identity)(1)
    is_float = steps.identity.dtype.kind == "f"
    is_rounded_here = not is_float or (steps.output == np.float64 and not steps.write)

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

    return of_floats if is_float or steps.output.kind == "f" or steps.write else of_integers


@looped
def _narrow(work, first, low, high, last, size):
    """Sort the elements of four rows, so that the smallest is in row `first` and the largest in row `last`.

    One pass for the six comparisons that this takes at most: memory is the bottleneck.
    """
    optimise_later()
    smallest, smaller, larger, largest = offset(work, first), offset(work, low), offset(work, high), offset(work, last)
    for w in range(unsigned(size)):
        a, d = _min(smallest[w], largest[w]), _max(smallest[w], largest[w])
        b, c = _min(smaller[w], larger[w]), _max(smaller[w], larger[w])
        smallest[w], smaller[w] = _min(a, b), _max(a, b)
        larger[w], largest[w] = _min(c, d), _max(c, d)


@looped
def _clamp(work, first, middle, last, size):
    """The medians of the elements of three rows, in row `middle`."""
    optimise_later()
    one, between, other = offset(work, first), offset(work, middle), offset(work, last)
    for w in range(unsigned(size)):
        low, high = _min(one[w], other[w]), _max(one[w], other[w])
        between[w] = _max(low, _min(high, between[w]))


@looped
def _drop_extremes(work, places, first, last, size):
    """Drop the smallest and the largest elements of the rows first to last; the others are in the rows between.

    The offsets of rows are read from `places`, because LLVM would otherwise check all rows at once for overlap.
    """
    optimise_later()
    half = (last - first) // 2
    for i in range(1, (last - first + 1) // 2):
        _narrow(work, places[first], places[first + i], places[last - i], places[last], size)
    if 2 * half == last - first:
        _clamp(work, places[first], places[first + half], places[last], size)


@looped
def _record_nan(work, nan, row, size):
    """Copy the NaN of a row to the row at `nan`."""
    optimise_later()
    to, at = unsigned(nan), unsigned(row * size)
    for w in range(unsigned(size)):
        work[to + w] = _nan_or(work[to + w], work[at + w])


@looped
def _median_of_3x3(work, size, pitch, unit, x, step, ops):
    """Medians of 3x3 windows, whose rows are `step` apart, in row 4 of `work`. Columns are sorted once: the result is
    the median of the largest minimum, the median of the middle elements, and the smallest maximum of the three columns.
    """
    optimise_later()
    one, two, middles = unsigned(unit), unsigned(2 * unit), offset(work, pitch)
    second, third = offset(x, step), offset(x, 2 * step)
    largest, invalid, found = offset(work, 2 * pitch), offset(work, 3 * pitch), offset(work, 4 * pitch)
    for w in range(unsigned(size) + two):
        top, middle, bottom = ops.lift(x[w]), ops.lift(second[w]), ops.lift(third[w])
        less, more = _min(top, middle), _max(top, middle)
        rest = _min(more, bottom)
        work[w], middles[w], largest[w] = _min(less, rest), _max(less, rest), _max(more, bottom)
        invalid[w] = _nan_or(_nan_or(top, middle), bottom)
    for w in range(unsigned(aligned(size))):  # whole vectors; nobody reads what is beyond `size`
        low = _max(_max(work[w], work[w + one]), work[w + two])
        high = _min(_min(largest[w], largest[w + one]), largest[w + two])
        less, more = _min(middles[w], middles[w + one]), _max(middles[w], middles[w + one])
        middle = _max(less, _min(more, middles[w + two]))
        median = _max(_min(low, middle), _min(_max(low, middle), high))
        found[w] = _nan_or(_nan_or(_nan_or(median, invalid[w]), invalid[w + one]), invalid[w + two])


@looped
def _select(work, places, x, piece, candidates, ops):
    """The offsets of the rows of the lower and the upper middle elements, and of the row of NaN.

    More than half of the elements are candidates. When there are no rows left for further ones, the extremes of the
    candidates are dropped, which cannot be the median; at last all but the middle ones are.
    """
    optimise_later()
    count, size = piece.count, piece.size
    begin, end, nan = np.int64(0), count // 2 + 2, candidates * size  # a literal 0 would compile functions twice
    if end > count:
        end = count
    for row in range(end):
        places[row] = row * size
    fill_identity(offset(work, nan), size, ops)
    tap, last, middles = 0, end - 1, 2 - count % 2
    while tap < count or last - begin >= middles:
        row = tap if tap < last else last
        if tap > last:
            _drop_extremes(work, places, begin, last, size)
            begin += 1
        if tap < count:
            gather(
                offset(work, row * size),
                offset(x, tap_at(piece, tap)),
                piece.columns,
                piece.stride,
                piece.inner,
                ops.lift,
            )
            _record_nan(work, nan, row, size)
            tap += 1
        else:
            last -= 1
    return begin * size, (last if last > begin else begin) * size, nan


def median(ops, spec):
    """Medians; of an even number of elements, the mean of the two middle ones."""
    middle = _middle(spec.arithmetic)

    @by_pieces
    def median(x, out, work, iwork, params, piece):
        optimise_later()
        size = piece.size
        if (piece.count == 9) & (piece.count_w == 3) & (piece.stride == 1):
            unit, step = piece.step_w, piece.step_h if piece.count_h == 3 else piece.step_d
            pitch = aligned(size + 2 * unit)
            _median_of_3x3(work, size, pitch, unit, x, step, ops)
            low, high, nan = 4 * pitch, 4 * pitch, 4 * pitch
        else:
            low, high, nan = _select(work, iwork, x, piece, params[4], ops)
        lower, upper, invalid = offset(work, low), offset(work, high), offset(work, nan)
        for w in range(unsigned(size)):
            is_known = (piece.count > 0) & (invalid[w] == invalid[w])
            out[w] = ops.finish(middle(lower[w], upper[w], is_known), None, 0)

    return median
