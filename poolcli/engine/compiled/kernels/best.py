"""The best elements of any windows and where they are."""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.geometry import LINE, VECTORS
from poolcli.engine.compiled.kernels.places import NOWHERE, line_at, place_of
from poolcli.engine.compiled.kernels.rows import row_after, row_of, unsigned
from poolcli.engine.compiled.numbers import is_worse_zero, join, lift, rank
from poolcli.engine.compiled.pointers import (
    arithmetic_at,
    behind,
    behind_as,
    geometry_at,
    inlined,
    looped,
    optimise_later,
    pointers_are_distinct,
    share_at,
)
from poolcli.engine.compiled.results import finish


@inlined
def _rank_at(x, at, how):
    return rank(lift(x[at], how), how)


@inlined
def _better(value, line, other, other_line):
    """Of a rank and a later one the better, and its line."""
    return max(value, other), other_line if other > value else line


@looped
def _rank_rows(ranks, lines, x, size, geometry, o, d, h, how):
    """Along the rows of the window of output row (d, h) the ranks of the best elements, and in which of its rows they
    come first. Four rows in one pass, where there are as many.
    """
    optimise_later()
    n, rows, row = unsigned(size), geometry.counts[0][d] * geometry.counts[1][h], 0
    none, one, two, three = np.int32(0), np.int32(1), np.int32(2), np.int32(3)
    for w in range(n):
        ranks[w], lines[w] = rank(how.total.nothing, how), none
    while row < rows:
        a, line, four = line_at(geometry, o, d, h, row), np.int32(row), row + 4 <= rows
        if four:
            b, c = line_at(geometry, o, d, h, row + 1), line_at(geometry, o, d, h, row + 2)
            e = line_at(geometry, o, d, h, row + 3)
            for w in range(n):
                first, its = _better(_rank_at(x, a + w, how), none, _rank_at(x, b + w, how), one)
                last, of_last = _better(_rank_at(x, c + w, how), two, _rank_at(x, e + w, how), three)
                value, at = _better(first, its, last, of_last)
                ranks[w], lines[w] = _better(ranks[w], lines[w], value, np.int32(line + at))
        else:
            for w in range(n):
                ranks[w], lines[w] = _better(ranks[w], lines[w], _rank_at(x, a + w, how), line)
        row += 4 if four else 1


@looped
def _best_side_by_side(ranks, lines, taps, how):
    """Of up to LINE ranks the highest, the first line that has it, and its first place there, by whole vectors: those
    from `taps` on do not count.
    """
    optimise_later()
    lowest, line, place, last = rank(how.total.nothing, how), NOWHERE, NOWHERE, np.int32(taps)
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
    best, line, place, by, one = rank(how.total.nothing, how), NOWHERE, np.int64(-1), unsigned(step), step == 1
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
    most, place = rank(how.total.nothing, how), np.int64(-1)
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
    total, by = how.total.nothing, unsigned(step)
    for line in range(geometry.counts[0][d] * geometry.counts[1][h]):
        at = line_at(geometry, o, d, h, line) + unsigned(begin)
        for j in range(unsigned(taps)):
            total = join(total, lift(x[at + j * by], how), how)
    return total


def best_at(arithmetic, taps):
    """The best elements of windows of any places and lengths and their positions inside the plane: the first in
    row-major order, -1 for none. Windows along W are given for every inner element.
    """

    def best_at(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        begin_w, (count_d, count_h, count_w) = geometry.begins[2], geometry.counts
        width, size, inner, step = geometry.input[2], geometry.size, geometry.inner, geometry.steps[2] * geometry.inner
        ranks, columns = behind_as(work, 0, rank(how.total.nothing, how)), width // inner
        o, d, h = row_of(first_task, geometry.output)
        for t in range(first_task, last_task):
            rows, share = count_d[d] * count_h[h], share_at(geometry, d, h)
            in_line, first = rows <= 1 and step == 1, line_at(geometry, o, d, h, 0)
            if not in_line:
                _rank_rows(ranks, lines, x, width, geometry, o, d, h, how)
            for w in range(size):
                begin, count, line = begin_w[w], count_w[w] if rows > 0 else 0, np.int32(0)
                if in_line:
                    place = _best_in_line(ranks, x, first + unsigned(begin), count, how)
                else:
                    line, place = _best_of(behind(ranks, begin), behind(lines, begin), count, step, how)
                value, position = how.total.nothing, np.int64(-1)
                if place >= 0:
                    value = lift(x[line_at(geometry, o, d, h, line) + unsigned(begin + place * step)], how)
                    column = begin if inner == 1 else begin // inner
                    position = place_of(geometry, d, h, line) * columns + column + place * geometry.steps[2]
                    if is_worse_zero(value, how):
                        value = _of_zeros(x, geometry, o, d, h, begin, count, step, how)
                out[t * size + w], where[t * size + w] = finish(value, share, w, how, out), position
            o, d, h = row_after(o, d, h, geometry.output)

    return best_at
