"""Windows that slide: rows are joined in the row buffer of a task, and windows taken along it."""

from __future__ import annotations

from poolcli.engine.compiled.kernels.along import along
from poolcli.engine.compiled.kernels.rows import (
    begin_at,
    fill,
    join_row,
    plane_at,
    row_after,
    row_of,
    rows_joined,
    steps_in,
    unsigned,
)
from poolcli.engine.compiled.numbers import join, lift
from poolcli.engine.compiled.pointers import (
    across_at,
    arithmetic_at,
    behind,
    down_at,
    geometry_at,
    looped,
    more_at,
    optimise_later,
    pointers_are_distinct,
    share_at,
)


@looped
def piece_of(p, across, width, inner, work, rows, how):
    """Piece p of a row: its first output and their number, its first input and their number, where those belong in
    the row buffer. What the buffer holds before and behind them, for `rows` rows, joins nothing.
    """
    optimise_later()
    _, stride, _, pad, reach, outputs, piece = across
    first = p * piece
    start = first * stride - pad
    low = min(max(start, 0), width)
    used = max(0, min(start + reach, width) - low)
    before = max(0, min(low - start, reach))
    if outputs > piece:
        for row in range(rows):
            at = row * reach * inner
            fill(work, at, before * inner, how)
            fill(work, at + (before + used) * inner, (reach - before - used) * inner, how)
    return first * inner, min(piece, outputs - first) * inner, low * inner, used * inner, before * inner


def slide(arithmetic, taps):
    """Sliding windows. A task is a piece of one output row, or `group` whole rows where they are short."""
    (prepare, write), back = along(taps), taps is not None and taps.back
    join_rows, step = rows_joined(back), -1 if back else 1

    def slide(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        across, group = across_at(numbers), more_at(numbers, 7)
        width, shape, size, inner = geometry.input[2], geometry.output, geometry.size, geometry.inner
        (count_d, count_h, _), steps = geometry.counts, steps_in(geometry)
        row_length, pieces = across.reach * inner, -(-across.outputs // across.piece)
        length = row_length * group
        fill(work, 0, length, how)
        columns, p, row = width // inner, first_task % pieces, first_task // pieces * group
        begin = row_of(row, shape)
        for _ in range(first_task, last_task):
            first, many, low, used, before = piece_of(p, across, columns, inner, work, group, how)
            some, (o, d, h) = min(group, geometry.rows - row), begin
            for r in range(some):
                to, at = r * row_length + before, begin_at(geometry, o, d, h) + step * low
                join_rows(work, to, used, x, at, count_d[d], count_h[h], steps, how)
                o, d, h = row_after(o, d, h, shape)
            found, (o, d, h) = prepare(work, length, across, inner, how), begin
            for r in range(some):
                at, share = (row + r) * size + first, share_at(geometry, d, h)
                write(out, at, many, work, r * row_length, length, found, across, inner, share, first, how)
                o, d, h = row_after(o, d, h, shape)
            p += 1
            if p == pieces:
                p, row, begin = 0, row + group, (o, d, h)

    return slide


@looped
def _block_ends(ends, height, size, x, at, high, first, rows, how):
    """ends[r]: the join of rows first + r and below of a block, for every r; rows outside the input join nothing."""
    optimise_later()
    n = unsigned(size)
    for r in range(height - 1, -1, -1):
        to = unsigned(r * size)
        below, source = to + n, unsigned(at + (first + r) * high)
        if first + r < 0 or first + r >= rows:
            for w in range(n):
                ends[to + w] = ends[below + w]
        else:
            for w in range(n):
                ends[to + w] = join(ends[below + w], lift(x[source + w], how), how)


def slide_blocks(arithmetic, taps):
    """Sliding windows of many overlapping rows, of one plane each. A task is a piece of a block of rows.

    Rows, padding included, are cut into blocks of a window's height. A window is the end of one block, whose
    joins are made once from its last row upwards, and the beginning of the next, joined row by row.
    """
    prepare, write = along(taps)

    def slide_blocks(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        across, down = across_at(numbers), down_at(numbers)
        (_, height, width), shape, size, inner = geometry.input, geometry.output, geometry.size, geometry.inner
        rows, down_stride, above, blocks = down
        length, pieces = across.reach * inner, -(-across.outputs // across.piece)
        prefix = 3 * length + across.piece * inner
        ends, high = behind(work, prefix + length), geometry.apart.high
        fill(work, 0, length, how)
        for t in range(first_task, last_task):
            o, d, block = row_of(t // pieces, (shape[0], blocks))
            first, many, low, used, before = piece_of(t % pieces, across, width // inner, inner, work, 1, how)
            at, top = plane_at(geometry, o, d) + low, block * rows - above
            fill(ends, rows * used, used, how)
            _block_ends(ends, rows, used, x, at, high, top, height, how)
            fill(work, prefix, used, how)
            done = top + rows
            for h in range(-(-block * rows // down_stride), min(shape[1], ((block + 1) * rows - 1) // down_stride + 1)):
                start = h * down_stride - above
                fresh, stop = max(done, 0), min(start + rows, height)
                for r in range(fresh, stop):
                    join_row(work, prefix, used, x, at + r * high, how)
                done = max(done, start + rows)
                middle, end, beginning = unsigned(before), unsigned((start - top) * used), unsigned(prefix)
                for w in range(unsigned(used)):
                    work[middle + w] = join(ends[end + w], work[beginning + w], how)
                found, to = (
                    prepare(work, length, across, inner, how),
                    ((o * shape[0] + d) * shape[1] + h) * size + first,
                )
                write(out, to, many, work, 0, length, found, across, inner, share_at(geometry, d, h), first, how)

    return slide_blocks
