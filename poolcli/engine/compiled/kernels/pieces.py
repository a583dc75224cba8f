"""Output rows in pieces: runs of windows that have all their elements and the same distance, so that one tap of all of
them fills vectors; other windows are pieces of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from poolcli.engine.compiled.geometry import CACHE_LINE
from poolcli.engine.compiled.intrinsics import (
    assume_no_alias,
    clamp,
    expanded,
    looped,
    offset,
    optimise_later,
)
from poolcli.engine.compiled.kernels.rows import line_offset, row_index, row_offset, unsigned, window_strides


class Piece(NamedTuple):
    """`columns` windows of an output row, `stride` elements along W apart, each for `inner` elements: `size` outputs.

    A window has `count` elements: `count_d`, `count_h` and `count_w` along the axes, which are `step_d`, `step_h` and
    `step_w` apart in x.
    """

    columns: Any
    stride: Any
    inner: Any
    size: Any
    count: Any
    count_d: Any
    count_h: Any
    count_w: Any
    step_d: Any
    step_h: Any
    step_w: Any


def by_pieces(compute):
    """The kernel whose tasks are output rows, in pieces that compute(x, out, work, iwork, params, piece) pools; `x`
    begins with the first element of the first window, `out` with the first output.

    Its first parameters are the windows of a piece, and the first and the last but one of those that can share one,
    with their distance.
    """
    pool_piece = looped(compute)

    def kernel(x, out, positions, work, iwork, params, first_task, last_task):
        assume_no_alias()
        optimise_later()
        geometry, own = params[0]
        most, low, high = own[0], own[1], own[2]
        inner, begin_w, (count_d, count_h, count_w) = geometry.inner, geometry.starts[2], geometry.counts
        columns, (step_d, step_h), step_w = geometry.row_size // inner, window_strides(geometry), geometry.dilations[2]
        for t in range(first_task, last_task):
            o, d, h = row_index(t, geometry.output_shape)
            source, target = offset(x, row_offset(geometry, o, d, h)), offset(out, t * geometry.row_size)
            first = 0
            while first < columns:
                many = clamp(high - first, 1, most) if first >= low else 1
                a, b, c = count_d[d], count_h[h], count_w[first]
                piece = Piece(many, own[3], inner, many * inner, a * b * c, a, b, c, step_d, step_h, step_w * inner)
                at = begin_w[first] * inner
                pool_piece(offset(source, at), offset(target, first * inner), work, iwork, own, piece)
                first += many

    return kernel


@expanded
def line_at(piece, line):
    """The position of the row `line` of the first window of a piece."""
    return line_offset(line, piece.count_h, (piece.step_d, piece.step_h))


@expanded
def tap_at(piece, tap):
    """The position of the element `tap` of the first window of a piece."""
    line = tap // piece.count_w
    return line_at(piece, line) + (tap - line * piece.count_w) * piece.step_w


@looped
def gather(row, source, columns, stride, inner, lift):
    """Copy one element of each of `columns` windows, `stride` apart, with all inner elements, to a row."""
    optimise_later()
    n, step = unsigned(inner), unsigned(stride * inner)
    if stride == 1:
        for w in range(unsigned(columns * inner)):
            row[w] = lift(source[w])
    elif inner == 1:
        for w in range(unsigned(columns)):
            row[w] = lift(source[w * step])
    else:
        for w in range(unsigned(columns)):
            for c in range(n):
                row[w * n + c] = lift(source[w * step + c])


@expanded
def aligned(size):
    """`size` rounded up, so that rows of so many elements begin at cache lines."""
    return (size + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
