"""Maxima or minima with their positions. "Better" is larger for maxima; of equal elements, the first one wins.

`best_of_any` ranks elements by integers, of which the largest belongs to the best one, so that each window takes two
reductions that LLVM vectorises; `best_sliding` takes all windows of a row at once, tap by tap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.engine.compiled.kernels import (
    Function,
    clamp,
    counts_of,
    inlined,
    line_offset,
    looped,
    next_row,
    no_alias,
    optimise_later,
    row_at,
    row_begin,
    steps_of,
    u8,
)
from poolcli.engine.compiled.kernels.operations import composed
from poolcli.engine.compiled.view import AT, NO_LINE

BLOCK = 1 << 12  # elements that are searched at once
NONE = np.int32(NO_LINE)
PADDED = 16  # a multiple of the elements of a vector


def rank_dtype(identity: np.generic) -> np.dtype[Any]:
    """The type of ranks."""
    return identity.dtype if identity.dtype.kind != "f" else np.dtype(f"i{identity.dtype.itemsize}")


def _ranks(how: Any, steps: Any) -> tuple[Function, Any]:
    """rank(element), and the lowest rank. Those of integers are themselves, or their complements for minima; those of
    floats their bits, made to rise with the numbers: -0 + 0 is 0, so both zeros have one rank, and NaN is the highest.
    """
    identity, lift, is_max = steps.identity, how.lift, steps.total == "max"
    kind = type(identity)
    if identity.dtype.kind != "f":
        return (lift, identity) if is_max else (composed(lift, inlined(lambda value: kind(~value))), ~identity)
    bits = rank_dtype(identity).type
    shift, highest = bits(8 * identity.itemsize - 1), bits(np.iinfo(bits).max)

    @inlined
    def rank(value):
        raw = kind(kind(value) + kind(0)).view(bits)
        rising = bits(raw ^ bits(bits(raw >> shift) & highest))
        return highest if value != value else rising if is_max else bits(~rising)

    low = identity.view(bits)
    return composed(lift, rank), bits(low ^ (bits(low >> shift) & highest)) if is_max else bits(
        ~(low ^ (bits(low >> shift) & highest))
    )


def _is_worse_zero(steps: Any) -> Function:
    """is_worse_zero(value): whether it is the zero that loses against the other."""
    identity, is_max = steps.identity, steps.total == "max"
    if identity.dtype.kind != "f":
        return inlined(lambda value: False)  # type: ignore[no-any-return]
    kind, bits = type(identity), rank_dtype(identity).type
    loser = kind(-0.0 if is_max else 0.0).view(bits)
    return inlined(lambda value: kind(value).view(bits) == loser)  # type: ignore[no-any-return]


def best_of_any(how: Any, steps: Any, in_place: bool) -> Any:
    """Windows of any place and size; `in_place`: all have one row, whose elements are neighbours, of one channel.

    Task t is an output row. `work` has the ranks of a row, `spare` the rows that they are from. Positions count from
    the start of the plane; an empty window has -1.
    """
    lift, join, store, nothing, _ = how
    (rank, lowest), is_worse_zero = _ranks(how, steps), _is_worse_zero(steps)

    @looped
    def rank_rows(ranks, lines, x, at, n, rows, high, far, near):
        """The highest rank in the rows of a window at each place along W, and its first row."""
        optimise_later()
        for w in range(u8(n)):
            ranks[w], lines[w] = lowest, np.int32(0)
        for row in range(rows):
            begin, line = u8(at + line_offset(row, high, far, near)), np.int32(row)
            for w in range(u8(n)):
                its, best = rank(x[begin + w]), ranks[w]
                lines[w] = line if its > best else lines[w]
                ranks[w] = its if its > best else best

    @looped
    def best_of_block(ranks, lines, at, taps):
        """The highest of up to BLOCK ranks, its first row, and its first place there, by whole vectors."""
        optimise_later()
        line, place, last, at = NONE, NONE, np.int32(taps), u8(at)
        best, n = lowest, u8(-(-taps // PADDED) * PADDED)
        for j in range(n):
            its = ranks[at + j] if np.int32(j) < last else lowest
            best = its if its > best else best
        for j in range(n):
            its = lines[at + j] if (np.int32(j) < last) & (ranks[at + j] == best) else NONE
            line = its if its < line else line
        for j in range(n):
            its = np.int32(j) if (np.int32(j) < last) & (ranks[at + j] == best) & (lines[at + j] == line) else NONE
            place = its if its < place else place
        return best, line, place

    @looped
    def best_of_window(ranks, lines, begin, taps, step):
        """The first row and the first place there of the highest of ranks that are `step` apart."""
        optimise_later()
        best, line, place, block = lowest, NONE, np.int64(-1), BLOCK if step == 1 else 1
        for first in range(0, taps, block):
            at = begin + first * step
            other, its, found = ranks[u8(at)], lines[u8(at)], np.int32(0)
            if step == 1:
                other, its, found = best_of_block(ranks, lines, at, clamp(taps - first, 0, block))
            if place < 0 or other > best or (other == best and its < line):
                best, line, place = other, its, np.int64(first + found)
        return line, place

    @looped
    def best_in_place(ranks, x, begin, taps):
        """The first place of the highest rank of neighbours."""
        optimise_later()
        most, place = lowest, np.int64(-1)
        for first in range(0, taps, BLOCK):
            best, found, at = lowest, NONE, u8(begin + first)
            last = np.int32(clamp(taps - first, 0, BLOCK))
            n = u8(-(-last // PADDED) * PADDED)
            for j in range(n):
                its = rank(x[at + j]) if np.int32(j) < last else lowest
                ranks[j], best = its, its if its > best else best
            for j in range(n):
                its = np.int32(j) if ranks[j] == best else NONE
                found = its if its < found else found
            if place < 0 or best > most:
                most, place = best, np.int64(first + found)
        return place

    @looped
    def best_zero(x, at, rows, high, far, near, taps, step):
        """The best element of a window with zeros of both signs."""
        optimise_later()
        total = nothing
        for row in range(rows):
            begin = u8(at + line_offset(row, high, far, near))
            for j in range(u8(taps)):
                total = join(total, lift(x[begin + j * u8(step)]))
        return total

    def kernel(x, out, places, work, spare, table, factors, first_task, last_task):
        no_alias()
        cs, width, far_near = table[AT.channels], table[AT.width], steps_of(table)
        far, near = far_near
        pixels, step = width // cs, table[AT.gap_w] * cs
        p, d, h = row_at(table, first_task)
        for t in range(first_task, last_task):
            nd, nh = counts_of(table, d, h)
            rows, begin = nd * nh, row_begin(table, p, d, h)
            top = table[table[AT.at_d] + 2 * d] * table[AT.high] + table[table[AT.at_h] + 2 * h]
            if not in_place:
                rank_rows(work, spare, x, begin, width, rows, nh, far, near)
            for w in range(table[AT.columns]):
                pair = table[AT.at_w] + 2 * w
                start, count = table[pair], table[pair + 1] if rows > 0 else 0
                for c in range(cs):
                    at, value, position, line = start * cs + c, nothing, np.int64(-1), np.int64(0)
                    if in_place:
                        place = best_in_place(work, x, begin + at, count)
                    else:
                        its, place = best_of_window(work, spare, at, count, step)
                        line = np.int64(its)
                    if place >= 0:
                        value = lift(x[u8(begin + at + line_offset(line, nh, far, near) + place * step)])
                        in_plane = top + line_offset(line, nh, table[AT.gap_d] * table[AT.high], table[AT.gap_h])
                        position = in_plane * pixels + start + place * table[AT.gap_w]
                        if is_worse_zero(value):
                            value = best_zero(x, begin + at, rows, nh, far, near, count, step)
                    e = u8(t * table[AT.size] + w * cs + c)
                    out[e], places[e] = store(value, 1.0), position
            p, d, h = next_row(table, p, d, h)

    return kernel


def best_sliding(how: Any, steps: Any, taps: int, stride: int) -> Any:
    """Regular windows of constant size along W, all windows of a row at once, tap by tap: two to four times as fast
    as `best_of_any`. Rows are sorted by their residue modulo the stride first.

    Task t is an output row. `work` has two rows of `a` elements and the best of each window, `spare` the same of the
    rows that they are from, and the taps.
    """
    lift, join, store, nothing, _ = how
    is_float, is_max = steps.identity.dtype.kind == "f", steps.total == "max"
    every, one_tap = u8(stride), np.int64(stride)

    @inlined
    def beats(a, b):
        """Whether a replaces b. NaN beats every number, and zeros are equal."""
        wins = a > b if is_max else a < b
        return wins | ((a != a) & (b == b)) if is_float else wins

    @looped
    def join_rows(work, lines, to, x, at, n, rows, high, far, near, far_line, near_line):
        """The best in the rows of the windows at each place along W, and the distance from the first of these rows to
        the first with that element.
        """
        optimise_later()
        to, n = u8(to), u8(n)
        if rows == 0:
            for w in range(n):
                work[to + w], lines[to + w] = nothing, NONE
        for row in range(rows):
            begin, line = (
                u8(at + line_offset(row, high, far, near)),
                np.int32(line_offset(row, high, far_line, near_line)),
            )
            if row == 0:
                for w in range(n):
                    work[to + w], lines[to + w] = lift(x[begin + w]), line
            else:
                for w in range(n):
                    other, best = lift(x[begin + w]), work[to + w]
                    lines[to + w] = line if beats(other, best) else lines[to + w]
                    work[to + w] = join(other, best)

    @looped
    def sort_by_residue(row, length):
        optimise_later()
        each, to = u8(length // one_tap), u8(length)
        for w in range(each):
            for residue in range(every):
                row[to + residue * each + w] = row[every * w + residue]

    def kernel(x, out, places, work, spare, table, factors, first_task, last_task):
        no_alias()
        cs, width, size, pad, length = (
            table[AT.channels],
            table[AT.width],
            table[AT.size],
            table[AT.pad],
            table[AT.a],
        )
        columns, far_near = width // cs, steps_of(table)
        far, near = far_near
        margin, n = clamp(pad * cs, 0, length), -(-size // PADDED) * PADDED
        low = clamp(-pad * cs, 0, width)
        used = clamp(width - low, 0, length - margin)
        row, apart, unit = u8(length if stride > 1 else 0), u8(length // stride), u8(table[AT.gap_w] * cs)
        bests, its_lines = u8(2 * length + PADDED), u8(2 * length + PADDED)
        its_taps = its_lines + u8(n)
        far_line, near_line = table[AT.gap_d] * table[AT.high], table[AT.gap_h]
        for w in range(u8(length)):
            work[w], spare[w] = nothing, NONE
        p, d, h = row_at(table, first_task)
        for t in range(first_task, last_task):
            nd, nh = counts_of(table, d, h)
            at = row_begin(table, p, d, h) + low
            join_rows(work, spare, margin, x, at, used, nd * nh, nh, far, near, far_line, near_line)
            if stride > 1:
                sort_by_residue(work, length)
                sort_by_residue(spare, length)
            for w in range(u8(n)):
                best, line, tap = nothing, NONE, np.int32(0)
                for j in range(u8(taps)):
                    place = row + j % every * apart + j // every * unit + w
                    value, its = work[place], spare[place]
                    # of equal elements, the one with the smaller row is first in row-major order
                    first = (its < line) & ((value == best) | (value != value))
                    taken = beats(value, best) | first
                    best, line, tap = join(value, best), its if taken else line, np.int32(j) if taken else tap
                work[bests + w], spare[its_lines + w], spare[its_taps + w] = best, line, tap
            to = u8(t * size)
            for w in range(u8(size)):
                out[to + w] = store(work[bests + w], 1.0)
            top = table[table[AT.at_d] + 2 * d] * table[AT.high] + table[table[AT.at_h] + 2 * h]
            begin, channels = top * columns - pad, u8(cs)
            if cs == 1:
                for w in range(u8(size)):
                    its, tap = np.int64(spare[its_lines + w]), np.int64(spare[its_taps + w])
                    place = begin + its * columns + np.int64(w) * stride + tap * table[AT.gap_w]
                    places[to + w] = -1 if its == NO_LINE else place
            else:
                for pixel in range(table[AT.columns]):
                    first, at_pixel = u8(pixel) * channels, begin + pixel * stride
                    for w in range(first, first + channels):
                        its, tap = np.int64(spare[its_lines + w]), np.int64(spare[its_taps + w])
                        place = at_pixel + its * columns + tap * table[AT.gap_w]
                        places[to + w] = -1 if its == NO_LINE else place
            p, d, h = next_row(table, p, d, h)

    return kernel
