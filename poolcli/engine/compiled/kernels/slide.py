"""Windows that slide: rows are joined in the row buffer of a task, and windows taken along it: of any size in passes,
of a constant size in one go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from poolcli.engine.compiled.geometry import Taps
from poolcli.engine.compiled.kernels.rows import (
    begin_at,
    fill,
    finish_row,
    join_row,
    join_rows,
    join_three,
    join_two,
    plane_at,
    prefetch_lines,
    row_after,
    row_of,
    sample,
    side_by_side,
    steps_in,
    unsigned,
    window_of,
)
from poolcli.engine.compiled.kernels.tiles import VECTOR
from poolcli.engine.compiled.machine import uses_gathers
from poolcli.engine.compiled.pointers import (
    across_at,
    behind,
    down_at,
    geometry_at,
    inlined,
    looped,
    more_at,
    optimise_later,
    pointers_are_distinct,
    share_at,
)


class Along(NamedTuple):
    """How windows along rows are taken: `prepare` works on all rows of the buffer, `write` makes a row of `out` of one.

    prepare(work, length, across, inner, how), for rows of `length` totals together, returns the numbers `found` that
    write(out, at, size, work, begin, length, found, across, inner, share, first, how) needs; its row begins at `begin`.
    """

    prepare: Callable[..., Any]
    write: Callable[..., Any]


def along(how: Any, taps: Taps | None) -> Along:
    """For windows of that size and stride, or for any."""
    if taps is None:
        return _in_passes
    return _in_one_go(taps.kernel, taps.stride, unsigned(VECTOR // how.nothing.dtype.itemsize))


@looped
def windows_by_passes(work, length, taps, unit, whole, how):
    """The join of `taps` elements, `unit` apart, from every position of the row at 0 of `work`.

    Windows of m taps give those of 2m (two of them) and of 2m + 1 (and one tap), so k taps cost log2(k) passes,
    through the two buffers behind the row. Unless `whole`, the last pass is left to the caller: returned are the
    number of terms that it joins and where they are.
    """
    optimise_later()
    bit, done, source = 1, 1, 0
    while 2 * bit <= taps:
        bit *= 2
    last = 1 if whole else 2
    while bit > last:
        bit //= 2
        shift, spare = done * unit, 2 * length if source == length else length
        if taps & bit:
            join_three(work, spare, source, source + shift, 2 * shift, length - 2 * shift, how)
        else:
            join_two(work, spare, source, source + shift, length - 2 * shift + unit, how)
        source, done = spare, 2 * done + (taps & bit != 0)
    terms = 1 if whole else min(taps, 2 + taps % 2)
    return terms, source, source + done * unit, 2 * done * unit


@inlined
def _prepare(work, length, across, inner, how):
    """Windows that are sampled are joined at every position before: leaving the last pass to sampling saved nothing."""
    return windows_by_passes(work, length, across.kernel, across.dilation * inner, across.stride > 1, how)


@inlined
def _write(out, at, size, work, begin, length, found, across, inner, share, first, how):
    terms, a, b, c = found
    a, b, c, sampled = a + begin, b + begin, c + begin, 3 * length
    if across.stride > 1:
        sample(work, sampled, size, a, across.stride, inner)
        a = sampled
    finish_row(out, at, size, work, terms, a, b, c, share, first, how)


_in_passes = Along(_prepare, _write)


def _in_one_go(taps: int, stride: int, vector: Any) -> Along:
    """Where LLVM would take strided loads for gathers (up to a quarter longer with AVX-512; without it, they take 0.83
    to 1 of the time), elements of one residue of the stride are brought side by side first, so that every tap of the
    next windows is the next one. Many channels lie side by side already, and windows that share nothing are read once.

    A row is divided by one divisor first, and then outputs at its ends by their own: 0.85 of the time for 3x3 windows.
    """
    window, step = window_of(taps, _element(stride)), unsigned(stride)
    sorts = stride > 1 and taps > stride and uses_gathers(stride)
    gap = unsigned(1 if sorts else stride)  # between the first elements of neighbouring windows

    @inlined
    def prepare(work, length, across, inner, how):
        if sorts and inner == 1:
            side_by_side(work, length, stride)
        return length

    @looped
    def write(out, at, size, work, begin, length, found, across, inner, share, first, how):
        optimise_later()
        out, n, channels, unit = behind(out, at), unsigned(size), unsigned(inner), unsigned(across.dilation * inner)
        row = unsigned(length + begin // stride if sorts and inner == 1 else begin)
        zero, apart, next_pixel = unsigned(0), unsigned(length // stride), step * channels
        whole, of_pixels, places = unsigned(across.whole * inner), (channels, next_pixel), (unsigned(1), step)
        if sorts or stride == 1:
            places = (apart, unit)
        if stride > 1 and inner > 1:
            for pixel in range(n // channels):
                for c in range(channels):
                    total = window(work, row + next_pixel * pixel + c, zero, of_pixels, how)
                    out[channels * pixel + c] = how.finish(total, share, whole)
        else:
            start, stop = zero, n if n < vector else n // vector * vector
            while start < stop:  # the last outputs fill a vector too, some of them for the second time
                for w in range(start, stop):
                    out[w] = how.finish(window(work, row + gap * w, zero, places, how), share, whole)
                start, stop = n - vector if stop < n else n, n
        if how.divides:
            low = min(max(0, across.whole * inner - first), size)
            high = min(max(low, across.cut * inner - first), size)
            for i in range(low + size - high):
                w = unsigned(i if i < low else i - low + high)
                source = row + gap * w
                if stride > 1 and inner > 1:
                    source, places = row + w + w // channels * (next_pixel - channels), of_pixels
                out[w] = how.finish(window(work, source, zero, places, how), share, unsigned(first) + w)

    return Along(prepare, write)


def _element(stride: int) -> Callable[..., Any]:
    """One element; places: how far those of the next residue of the stride are, and the next ones of the same."""
    by = unsigned(stride)
    one: Callable[..., Any] = inlined(
        lambda work, at, tap, places, how: work[at + tap % by * places[0] + tap // by * places[1]]
    )
    return one


@looped
def piece_of(p, across, width, inner, work, rows, how):
    """Piece p of a row: its first output and their number, its first input and their number, where those belong in
    the row buffer. What the buffer holds before and behind them, for `rows` rows, joins nothing.
    """
    optimise_later()
    _, stride, _, pad, reach, outputs, piece, _, _ = across
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


def slide(how, taps):
    """Sliding windows. A task is a piece of one output row, or `group` whole rows where they are short."""
    prepare, write = along(how, taps)

    def slide(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry = geometry_at(numbers, divisors)
        across, group = across_at(numbers), more_at(numbers, 9)
        width, shape, size, inner = geometry.input[2], geometry.output, geometry.size, geometry.inner
        (count_d, count_h, _), steps = geometry.counts, steps_in(geometry)
        lines_to_prefetch, elements, fresh = more_at(numbers, 10), more_at(numbers, 11), more_at(numbers, 12)
        row_length, pieces = across.reach * inner, -(-across.outputs // across.piece)
        length = row_length * group
        fill(work, 0, length, how)
        columns, p, row = width // inner, first_task % pieces, first_task // pieces * group
        begin = row_of(row, shape)
        for _ in range(first_task, last_task):
            first, many, low, used, before = piece_of(p, across, columns, inner, work, group, how)
            some, (o, d, h) = min(group, geometry.rows - row), begin
            for r in range(some):
                to, at = r * row_length + before, begin_at(geometry, o, d, h) + low
                prefetch_lines(x, at + fresh, lines_to_prefetch, elements)
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
                ends[to + w] = how.join(ends[below + w], how.lift(x[source + w]))


def slide_blocks(how, taps):
    """Sliding windows of many overlapping rows, of one plane each. A task is a piece of a block of rows.

    Rows, padding included, are cut into blocks of a window's height. A window is the end of one block, whose
    joins are made once from its last row upwards, and the beginning of the next, joined row by row.
    """
    prepare, write = along(how, taps)

    def slide_blocks(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry = geometry_at(numbers, divisors)
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
                    work[middle + w] = how.join(ends[end + w], work[beginning + w])
                found, to = (
                    prepare(work, length, across, inner, how),
                    ((o * shape[0] + d) * shape[1] + h) * size + first,
                )
                write(out, to, many, work, 0, length, found, across, inner, share_at(geometry, d, h), first, how)

    return slide_blocks
