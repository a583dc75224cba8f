"""The best elements of windows and where they are: of windows of any places and lengths, and of a constant size."""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.geometry import LINE, VECTORS
from poolcli.engine.compiled.kernels.rows import (
    NOWHERE,
    by_rows,
    fill,
    line_at,
    place_of,
    row_after,
    row_of,
    side_by_side,
    steps_to,
    unsigned,
)
from poolcli.engine.compiled.pointers import (
    across_at,
    behind,
    behind_as,
    geometry_at,
    inlined,
    looped,
    optimise_later,
    pointers_are_distinct,
    share_at,
)


@inlined
def _rank_at(x, at, how):
    return how.rank(how.lift(x[at]))


@inlined
def _better(value, line, other, other_line):
    """Of a rank and a later one the better, and its line."""
    return max(value, other), other_line if other > value else line


@looped
def _rank_rows(ranks, lines, x, size, geometry, o, d, h, how):
    """Along the rows of the window of output row (d, h) the ranks of the best elements, and in which of its rows they
    come first.
    """
    optimise_later()
    n = unsigned(size)
    for w in range(n):
        ranks[w], lines[w] = how.rank(how.nothing), np.int32(0)
    for row in range(geometry.counts[0][d] * geometry.counts[1][h]):
        at, line = line_at(geometry, o, d, h, row), np.int32(row)
        for w in range(n):
            ranks[w], lines[w] = _better(ranks[w], lines[w], _rank_at(x, at + w, how), line)


@looped
def _best_side_by_side(ranks, lines, taps, how):
    """Of up to LINE ranks the highest, the first line that has it, and its first place there, by whole vectors: those
    from `taps` on do not count.
    """
    optimise_later()
    lowest, line, place, last = how.rank(how.nothing), NOWHERE, NOWHERE, np.int32(taps)
    best, padded = lowest, unsigned(-(-taps // VECTORS) * VECTORS)
    for j in range(padded):
        best = max(best, ranks[j] if np.int32(j) < last else lowest)
    for j in range(padded):
        its = lines[j] if (np.int32(j) < last) & (ranks[j] == best) else NOWHERE
        line = its if its < line else line
    for j in range(padded):
        its = np.int32(j) if (np.int32(j) < last) & (ranks[j] == best) & (lines[j] == line) else NOWHERE
        place = its if its < place else place
    return best, line, place


@looped
def _best_of(ranks, lines, taps, step, how):
    """Of ranks `step` apart the highest, the first line that has it, and its first place there."""
    optimise_later()
    best, line, place, by, one = how.rank(how.nothing), NOWHERE, np.int64(-1), unsigned(step), step == 1
    for first in range(0, taps, LINE if one else 1):
        at = unsigned(first) * by
        other, its, found = ranks[at], lines[at], np.int32(0)
        if one:
            other, its, found = _best_side_by_side(behind(ranks, at), behind(lines, at), min(LINE, taps - first), how)
        if other > best or (other == best and its < line):
            best, line, place = other, its, np.int64(first + found)
    return line, place


@looped
def _best_in_line(ranks, x, at, taps, how):
    """The first place of the highest rank of elements side by side."""
    optimise_later()
    most, place = how.rank(how.nothing), np.int64(-1)
    lowest = most
    for first in range(0, taps, LINE):
        best, found, start, last = lowest, NOWHERE, unsigned(at + first), np.int32(min(LINE, taps - first))
        padded = unsigned(-(-last // VECTORS) * VECTORS)
        for j in range(padded):
            value = _rank_at(x, start + j, how) if np.int32(j) < last else lowest
            ranks[j], best = value, max(best, value)
        for j in range(padded):
            its = np.int32(j) if ranks[j] == best else NOWHERE
            found = its if its < found else found
        if place < 0 or best > most:
            most, place = best, np.int64(first + found)
    return place


@looped
def _of_zeros(x, geometry, o, d, h, begin, taps, step, how):
    """Of the elements of a window the best, which is one zero or the other."""
    optimise_later()
    total, by = how.nothing, unsigned(step)
    for line in range(geometry.counts[0][d] * geometry.counts[1][h]):
        at = line_at(geometry, o, d, h, line) + unsigned(begin)
        for j in range(unsigned(taps)):
            total = how.join(total, how.lift(x[at + j * by]))
    return total


def best_at(how, taps):
    """The best elements of windows of any places and lengths and their positions inside the plane: the first in
    row-major order, -1 for none. Windows along W are given for every inner element.
    """

    @by_rows
    def row(given, geometry, t, o, d, h, share):
        optimise_later()
        x, lines, ranks = given.x, given.lines, behind_as(given.work, 0, how.rank(how.nothing))
        begin_w, (count_d, count_h, count_w) = geometry.begins[2], geometry.counts
        width, size, inner, step = geometry.input[2], geometry.size, geometry.inner, geometry.steps[2] * geometry.inner
        columns, rows, first = width // inner, count_d[d] * count_h[h], line_at(geometry, o, d, h, 0)
        in_line = rows <= 1 and step == 1
        if not in_line:
            _rank_rows(ranks, lines, x, width, geometry, o, d, h, how)
        for w in range(size):
            begin, count, line = begin_w[w], count_w[w] if rows > 0 else 0, np.int32(0)
            if in_line:
                place = _best_in_line(ranks, x, first + unsigned(begin), count, how)
            else:
                line, place = _best_of(behind(ranks, begin), behind(lines, begin), count, step, how)
            value, position = how.nothing, np.int64(-1)
            if place >= 0:
                value = how.lift(x[line_at(geometry, o, d, h, line) + unsigned(begin + place * step)])
                column = begin if inner == 1 else begin // inner
                position = place_of(geometry, d, h, line) * columns + column + place * geometry.steps[2]
                if how.is_worse_zero(value):
                    value = _of_zeros(x, geometry, o, d, h, begin, count, step, how)
            given.out[t * size + w], given.where[t * size + w] = how.finish(value, share, w), position

    return row


@inlined
def _better_element(value, line, other, other_line, how):
    """Of an element and a later one the better, and its line."""
    return how.join(other, value), other_line if how.beats(other, value) else line


@looped
def _join_rows(work, lines, x, size, low, geometry, o, d, h, how):
    """Of `size` elements from `low` on along the rows of the window of output row (d, h) the best, and how many rows of
    the plane after its first one they come first.
    """
    optimise_later()
    n, rows = unsigned(size), geometry.counts[0][d] * geometry.counts[1][h]
    if rows == 0:
        for w in range(n):
            work[w], lines[w] = how.nothing, NOWHERE
    for row in range(rows):
        at, line = line_at(geometry, o, d, h, row) + unsigned(low), np.int32(steps_to(geometry, d, h, row))
        if row == 0:
            for w in range(n):
                work[w], lines[w] = how.lift(x[at + w]), line
        else:
            for w in range(n):
                work[w], lines[w] = _better_element(work[w], lines[w], how.lift(x[at + w]), line, how)


def slide_at(how, taps):
    """One tap of all windows of a row at a time."""
    taps, stride, none = taps.kernel, taps.stride, NOWHERE

    def slide_at(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry = geometry_at(numbers, divisors)
        across, inner = across_at(numbers), geometry.inner
        width, size, pad = geometry.input[2], geometry.size, across.pad * inner
        columns = width // inner
        length = across.reach * inner
        apart, row = unsigned(length // stride), unsigned(length if stride > 1 else 0)
        before, unit = max(0, min(pad, length)), unsigned(across.dilation * inner)
        low = max(-pad, 0)
        used = max(0, min(length - before, width - low))
        fill(work, 0, length, how)
        for w in range(length):
            lines[w] = none
        padded = -(-size // VECTORS) * VECTORS  # what is made beyond a row is not written
        bests, its_lines = behind(work, 2 * length + VECTORS), behind(lines, 2 * length + VECTORS)
        its_taps = behind(its_lines, padded)
        o, d, h = row_of(first_task, geometry.output)
        for t in range(first_task, last_task):
            share, target = share_at(geometry, d, h), unsigned(t * size)
            _join_rows(behind(work, before), behind(lines, before), x, used, low, geometry, o, d, h, how)
            if stride > 1:
                side_by_side(work, length, stride)
                side_by_side(lines, length, stride)
            for w in range(unsigned(padded)):
                best, line, tap = how.nothing, none, np.int32(0)
                for j in range(unsigned(taps)):
                    at = row + j % unsigned(stride) * apart + j // unsigned(stride) * unit + w
                    value, its = work[at], lines[at]
                    # among equal elements that of the smaller line comes first in row-major order
                    first = (its < line) & ((value == best) | (value != value))
                    taken = how.beats(value, best) | first
                    best, line, tap = how.join(value, best), its if taken else line, np.int32(j) if taken else tap
                bests[w], its_lines[w], its_taps[w] = best, line, tap
            for w in range(unsigned(size)):
                out[target + w] = how.finish(bests[w], share, w)
            begin, channels = place_of(geometry, d, h, 0) * columns - across.pad, unsigned(inner)
            if inner == 1:
                for w in range(unsigned(size)):
                    at = begin + np.int64(w * unsigned(stride)) + np.int64(its_taps[w]) * across.dilation
                    where[target + w] = -1 if its_lines[w] == none else np.int64(its_lines[w]) * columns + at
            else:
                for pixel in range(unsigned(size // inner)):  # so that nothing is divided
                    first, at_pixel = pixel * channels, begin + np.int64(pixel * unsigned(stride))
                    for w in range(first, first + channels):
                        at = at_pixel + np.int64(its_taps[w]) * across.dilation
                        where[target + w] = -1 if its_lines[w] == none else np.int64(its_lines[w]) * columns + at
            o, d, h = row_after(o, d, h, geometry.output)

    return slide_at
