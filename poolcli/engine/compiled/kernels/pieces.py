"""Output rows in pieces, for statistics, whose windows share no results: runs of windows that have all their elements
and the same distance, so that one tap of all of them fills vectors; other windows are pieces of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from poolcli.engine.compiled.kernels import (
    Function,
    clamp,
    counts_of,
    inlined,
    line_offset,
    looped,
    next_row,
    no_alias,
    offset,
    optimise_later,
    row_at,
    row_begin,
    steps_of,
    u8,
)
from poolcli.engine.compiled.view import AT, CACHE_LINE


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


def by_pieces(compute: Function) -> Any:
    """The kernel whose tasks are output rows, in pieces that compute(x, out, work, spare, table, piece) pools; `x`
    begins with the first element of the first window, `out` with the first output. The windows `first` to `last` - 1 of
    the table can share pieces.
    """
    pool_piece = looped(compute)

    def kernel(x, out, places, work, spare, table, factors, first_task, last_task):
        no_alias()
        most, low, high, at_w, inner = (
            table[AT.piece],
            table[AT.first],
            table[AT.last],
            table[AT.at_w],
            table[AT.channels],
        )
        (step_d, step_h), step_w = steps_of(table), table[AT.gap_w] * inner
        p, d, h = row_at(table, first_task)
        for t in range(first_task, last_task):
            (a, b), begin, to = counts_of(table, d, h), row_begin(table, p, d, h), t * table[AT.size]
            w = 0
            while w < table[AT.columns]:
                many, c = clamp(high - w, 1, most) if w >= low else 1, table[at_w + 2 * w + 1]
                piece = Piece(many, table[AT.stride], inner, many * inner, a * b * c, a, b, c, step_d, step_h, step_w)
                source, target = offset(x, begin + table[at_w + 2 * w] * inner), offset(out, to + w * inner)
                pool_piece(source, target, work, spare, table, piece)
                w += many
            p, d, h = next_row(table, p, d, h)

    return kernel


@inlined
def line_at(piece, line):
    """The position of the row `line` of the first window of a piece."""
    return line_offset(line, piece.count_h, piece.step_d, piece.step_h)


@inlined
def tap_at(piece, tap):
    """The position of the element `tap` of the first window of a piece."""
    line = tap // piece.count_w
    return line_at(piece, line) + (tap - line * piece.count_w) * piece.step_w


def gathered(lift: Function) -> Function:
    """The function (row, source, columns, stride, inner) that copies one element of each of `columns` windows, `stride`
    apart, with all inner elements, to a row.
    """

    @looped
    def gather(row, source, columns, stride, inner):
        optimise_later()
        n, step = u8(inner), u8(stride * inner)
        if stride == 1:
            for w in range(u8(columns * inner)):
                row[w] = lift(source[w])
        elif inner == 1:
            for w in range(u8(columns)):
                row[w] = lift(source[w * step])
        else:
            for w in range(u8(columns)):
                for c in range(n):
                    row[w * n + c] = lift(source[w * step + c])

    return gather  # type: ignore[no-any-return]


@inlined
def aligned(size):
    """`size` rounded up, so that rows of so many elements begin at cache lines."""
    return (size + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
