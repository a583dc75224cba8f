"""Output rows in pieces: runs of windows that have all their elements and the same distance, so that one tap of all of
them fills vectors; other windows are pieces of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from poolcli.engine.compiled.geometry import CACHE_LINE
from poolcli.engine.compiled.intrinsics import (
    assume_no_alias,
    divisors_at,
    expanded,
    inlined,
    load_geometry,
    looped,
    optimise_later,
)
from poolcli.engine.compiled.kernels.rows import Arguments, line_offset, next_row, row_index, unsigned


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
    """The kernel whose tasks are output rows, in pieces that compute(args, geometry, piece, divisors) pools.

    Its first two parameters are the elements of the longest window along W, and the windows of a piece.
    """
    pool_piece = looped(compute)

    def kernel(x, out, positions, work, iwork, params, divisor_table, first_task, last_task):
        assume_no_alias()
        optimise_later()
        args, geometry = Arguments(x, out, positions, work, iwork, params), load_geometry(params, divisor_table)
        longest, most, inner, (count_d, count_h, count_w) = (
            params[0],
            params[1],
            geometry.inner,
            geometry.counts,
        )
        columns = geometry.row_size // inner
        low, high = _whole_windows(geometry, columns, longest)
        begin_w, (o, d, h) = geometry.starts[2], row_index(first_task, geometry.output_shape)
        for t in range(first_task, last_task):
            divisors, first = divisors_at(geometry, d, h), 0
            while first < columns:
                many = min(most, high - first) if (low <= first) & (first < high) else 1
                stride = begin_w[first + 1] - begin_w[first] if many > 1 else 1
                target, count = (
                    unsigned(t * geometry.row_size + first * inner),
                    count_d[d] * count_h[h] * count_w[first],
                )
                piece = Piece(o, d, h, first, many, stride, many * inner, target, count, count_w[first])
                pool_piece(args, geometry, piece, divisors)
                first += many
            o, d, h = next_row(o, d, h, geometry.output_shape)

    return kernel


@looped
def _whole_windows(geometry, columns, longest):
    """The first run of windows along W, from low to high - 1, that have `longest` elements and one distance.

    Windows that reach over both ends of the input may have fewer elements than those beside them.
    """
    optimise_later()
    count, begin, low = geometry.counts[2], geometry.starts[2], 0
    while low < columns and count[low] < longest:
        low += 1
    high = low + 1
    while (
        high < columns and count[high] == longest and 0 < begin[low + 1] - begin[low] == begin[high] - begin[high - 1]
    ):
        high += 1
    return low, high


@looped
def gather(row, source, at, columns, stride, inner, ops):
    """Copy one element of each of `columns` windows, `stride` apart, with all inner elements, to a row."""
    optimise_later()
    at, step = unsigned(at), unsigned(stride * inner)
    if stride == 1:
        for w in range(unsigned(columns * inner)):
            row[w] = ops.lift(source[at + w])
    elif inner == 1:
        for w in range(unsigned(columns)):
            row[w] = ops.lift(source[at + w * step])
    else:
        n = unsigned(inner)
        for w in range(unsigned(columns)):
            for c in range(n):
                row[w * n + c] = ops.lift(source[at + w * step + c])


@expanded
def gather_tap(row, x, tap, geometry, piece, ops):
    """Copy the element `tap` of every window of a piece to a row."""
    gather(row, x, tap_at(geometry, piece, tap), piece.columns, piece.stride, geometry.inner, ops)


@inlined
def tap_at(geometry, piece, tap):
    """The position in x of the element `tap` of the first window of a piece."""
    along = piece.count_w
    line = tap // along
    beside = geometry.starts[2][piece.first] + (tap - line * along) * geometry.dilations[2]
    return line_offset(geometry, piece.o, piece.d, piece.h, line) + unsigned(beside * geometry.inner)


@expanded
def aligned(size):
    """`size` rounded up, so that rows of so many elements begin at cache lines."""
    return (size + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
