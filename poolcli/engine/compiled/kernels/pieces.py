"""Output rows in pieces: runs of windows that have all their elements and the same distance, so that one tap of all of
them fills vectors; other windows are pieces of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from poolcli.engine.compiled.geometry import CACHE_LINE
from poolcli.engine.compiled.kernels.rows import Given, line_at, row_after, row_of, unsigned
from poolcli.engine.compiled.pointers import (
    geometry_at,
    inlined,
    looped,
    more_at,
    optimise_later,
    pointers_are_distinct,
    share_at,
)


class Piece(NamedTuple):
    """The windows `first` to first + `columns` - 1 along W of output row (o, d, h), `stride` elements apart.

    `size` is columns * inner, `target` the position of the first output, `count` the number of elements of a window,
    of which `count_w` are along W.
    """

    o: Any
    d: Any
    h: Any
    first: Any
    columns: Any
    stride: Any
    size: Any
    target: Any
    count: Any
    count_w: Any


def by_pieces(compute):
    """The kernel whose tasks are output rows, in pieces that compute(given, geometry, piece, share) pools.

    Its first two parameters are the elements of the longest window along W, and the windows of a piece.
    """
    pool_piece = looped(compute)

    def kernel(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        given, geometry = Given(x, out, where, work, lines, numbers), geometry_at(numbers, divisors)
        longest, most, inner, (count_d, count_h, count_w) = (
            more_at(numbers, 0),
            more_at(numbers, 1),
            geometry.inner,
            geometry.counts,
        )
        columns = geometry.size // inner
        low, high = _whole_windows(geometry, columns, longest)
        begin_w, (o, d, h) = geometry.begins[2], row_of(first_task, geometry.output)
        for t in range(first_task, last_task):
            share, first = share_at(geometry, d, h), 0
            while first < columns:
                many = min(most, high - first) if (low <= first) & (first < high) else 1
                stride = begin_w[first + 1] - begin_w[first] if many > 1 else 1
                target, count = unsigned(t * geometry.size + first * inner), count_d[d] * count_h[h] * count_w[first]
                piece = Piece(o, d, h, first, many, stride, many * inner, target, count, count_w[first])
                pool_piece(given, geometry, piece, share)
                first += many
            o, d, h = row_after(o, d, h, geometry.output)

    return kernel


@looped
def _whole_windows(geometry, columns, longest):
    """The first run of windows along W, from low to high - 1, that have `longest` elements and one distance.

    Windows that reach over both ends of the input may have fewer elements than those beside them.
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


@looped
def gather(work, to, source, at, columns, stride, inner, how):
    """Copy one element of each of `columns` windows, `stride` apart, with all inner elements, to a row of `work`."""
    optimise_later()
    to, at, step = unsigned(to), unsigned(at), unsigned(stride * inner)
    if stride == 1:
        for w in range(unsigned(columns * inner)):
            work[to + w] = how.lift(source[at + w])
    elif inner == 1:
        for w in range(unsigned(columns)):
            work[to + w] = how.lift(source[at + w * step])
    else:
        n = unsigned(inner)
        for w in range(unsigned(columns)):
            for c in range(n):
                work[to + w * n + c] = how.lift(source[at + w * step + c])


@inlined
def gather_tap(work, to, x, tap, geometry, piece, how):
    """Copy the element `tap` of every window of a piece to a row of `work`."""
    gather(work, to, x, tap_at(geometry, piece, tap), piece.columns, piece.stride, geometry.inner, how)


@inlined
def tap_at(geometry, piece, tap):
    """The position in x of the element `tap` of the first window of a piece."""
    along = piece.count_w
    line = tap // along
    beside = geometry.begins[2][piece.first] + (tap - line * along) * geometry.steps[2]
    return line_at(geometry, piece.o, piece.d, piece.h, line) + unsigned(beside * geometry.inner)


@inlined
def aligned(size):
    """`size` rounded up, so that rows of so many elements begin at cache lines."""
    return (size + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
