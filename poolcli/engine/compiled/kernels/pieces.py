"""Output rows in pieces, for statistics, whose windows share no results: runs of windows that have all their elements
and the same distance, so that one tap of all of them fills vectors; other windows are pieces of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from poolcli.engine.compiled.kernels import (
    Function,
    clamp,
    inlined,
    line_offset,
    looped,
    next_row,
    no_alias,
    offset,
    optimise_later,
    row_at,
    row_of,
    u8,
)
from poolcli.engine.compiled.view import AT


class Piece(NamedTuple):
    """`columns` windows of an output row, `stride` pixels of `inner` elements apart: `size` outputs. A window has
    `count` elements: `lines` rows, of which each plane has `count_h`, of `count_w` elements; `step_d`, `step_h` and
    `step_w` are their distances in x.
    """

    columns: Any
    stride: Any
    inner: Any
    size: Any
    count: Any
    lines: Any
    count_h: Any
    count_w: Any
    step_d: Any
    step_h: Any
    step_w: Any


def by_pieces(compute: Function) -> Any:
    """The kernel whose tasks are output rows, in pieces that compute(x, out, work, piece) pools; `x`
    begins with the first element of the first window, `out` with the first output. The windows `first` to `last` - 1 of
    the table can share pieces.
    """
    pool_piece = looped(compute)

    def kernel(x, out, places, work, table, factors, first_task, last_task):
        no_alias()
        most, low, high, at_w = table[AT.piece], table[AT.first], table[AT.last], table[AT.at_w]
        inner, stride, step_d, step_h = table[AT.channels], table[AT.stride], table[AT.step_d], table[AT.step_h]
        p, r = row_at(table, first_task)
        for t in range(first_task, last_task):
            begin, nd, nh = row_of(table, p, r)
            w = 0
            while w < table[AT.columns]:
                n, many = table[at_w + 2 * w + 1], clamp(high - w, 1, most) if w >= low else 1
                count, step_w = nd * nh * n, table[AT.gap_w] * inner
                piece = Piece(many, stride, inner, many * inner, count, nd * nh, nh, n, step_d, step_h, step_w)
                source, target = begin + table[at_w + 2 * w] * inner, t * table[AT.size] + w * inner
                pool_piece(offset(x, source), offset(out, target), work, piece)
                w += many
            p, r = next_row(table, p, r)

    return kernel


@inlined
def tap_at(piece, tap):
    """The position of the element `tap` of the first window of a piece."""
    line = tap // piece.count_w
    at = line_offset(line, piece.count_h, piece.step_d, piece.step_h)
    return at + (tap - line * piece.count_w) * piece.step_w


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
