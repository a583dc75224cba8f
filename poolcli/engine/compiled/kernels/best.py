"""The best elements and where they are."""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.geometry import MANY, VECTORS
from poolcli.engine.compiled.kernels.rows import begin_at, fill, row_after, row_of, side_by_side, steps_in, unsigned
from poolcli.engine.compiled.numbers import beats, join, lift, of_rank, rank
from poolcli.engine.compiled.pointers import across_at, arithmetic_at, behind, geometry_at, inlined, share_at
from poolcli.engine.compiled.results import finish

SHORT = 12  # taps
NONE = np.int32(2**31 - 1)


@inlined
def _row_in_plane(geometry, d, h, line):
    """The row of the plane that is row `line` of the windows of output row (d, h)."""
    in_d = 0 if geometry.counts[0][d] == 1 else line // geometry.counts[1][h]
    in_h = line - in_d * geometry.counts[1][h]
    depth = geometry.begins[0][d] + in_d * geometry.steps[0]
    return depth * geometry.input[1] + geometry.begins[1][h] + in_h * geometry.steps[1]


@inlined
def _begin(geometry, o, d, h, line, low):
    """Where element `low` of row `line` of the windows of output row (d, h) is in x."""
    deep, high = steps_in(geometry)
    in_d = 0 if geometry.counts[0][d] == 1 else line // geometry.counts[1][h]
    in_h = line - in_d * geometry.counts[1][h]
    return unsigned(begin_at(geometry, o, d, h) + in_d * deep + in_h * high + low)


@inlined
def _better(value, line, other, other_line, how):
    """Of an element and a later one the better, and its line."""
    return join(other, value, how), other_line if beats(other, value, how) else line


@inlined
def _join_rows(work, lines, x, size, low, geometry, o, d, h, how):
    """Of `size` elements from `low` on along the rows of the window of output row (d, h) the best, and in which of its
    rows they come first. Four rows in one pass, where there are as many.
    """
    n, rows, row = unsigned(size), geometry.counts[0][d] * geometry.counts[1][h], 0
    if rows == 0:
        fill(work, 0, size, how)
        for w in range(n):
            lines[w] = NONE
    while row < rows:
        a, line, four = _begin(geometry, o, d, h, row, low), np.int32(row), row > 0 and row + 4 <= rows
        if row == 0:
            for w in range(n):
                work[w], lines[w] = lift(x[a + w], how), line
        elif four:
            b, c = _begin(geometry, o, d, h, row + 1, low), _begin(geometry, o, d, h, row + 2, low)
            e, one, two, three = _begin(geometry, o, d, h, row + 3, low), np.int32(1), np.int32(2), np.int32(3)
            for w in range(n):
                first, its = _better(lift(x[a + w], how), np.int32(0), lift(x[b + w], how), one, how)
                last, of_last = _better(lift(x[c + w], how), two, lift(x[e + w], how), three, how)
                value, at = _better(first, its, last, of_last, how)
                work[w], lines[w] = _better(work[w], lines[w], value, np.int32(line + at), how)
        else:
            for w in range(n):
                work[w], lines[w] = _better(work[w], lines[w], lift(x[a + w], how), line, how)
        row += 4 if four else 1


def slide_at(arithmetic, taps):
    """The best elements of sliding windows of a constant size and their positions, one tap of all at a time."""
    (taps, stride), none = taps, NONE

    def slide_at(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
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
        o, d, h = row_of(first_task, geometry.output)
        for t in range(first_task, last_task):
            share, target = share_at(geometry, d, h), unsigned(t * size)
            _join_rows(behind(work, before), behind(lines, before), x, used, low, geometry, o, d, h, how)
            if stride > 1:
                side_by_side(work, length, stride)
                side_by_side(lines, length, stride)
            for w in range(unsigned(size)):
                best, line, tap = how.total.nothing, none, np.int32(0)
                for j in range(unsigned(taps)):
                    at = row + j % unsigned(stride) * apart + j // unsigned(stride) * unit + w
                    value, its = work[at], lines[at]
                    # among equal elements that of the smaller line comes first in row-major order
                    first = (its < line) & ((value == best) | (value != value))
                    taken = beats(value, best, how) | first
                    best, line, tap = join(value, best, how), its if taken else line, np.int32(j) if taken else tap
                out[target + w] = finish(best, share, w, how, out)
                lines[2 * length + w], lines[2 * length + size + w] = line, tap
            for pixel in range(size // inner):  # so that nothing is divided, which takes longer than all the rest
                for w in range(pixel * inner, (pixel + 1) * inner):
                    line, tap = lines[2 * length + w], np.int64(lines[2 * length + size + w])
                    at = pixel * stride - across.pad + tap * across.dilation
                    row_of_plane = _row_in_plane(geometry, d, h, np.int64(line))
                    where[t * size + w] = -1 if line == none else row_of_plane * columns + at
            o, d, h = row_after(o, d, h, geometry.output)

    return slide_at


@inlined
def _best_of(run, lines, taps, rows, places, how):
    """Of elements side by side the best, the first line that has it, and its first place there.

    Many of one line are taken by whole vectors, in which elements from `taps` on do not count.
    """
    lowest, line, place = rank(how.total.nothing, how), NONE, np.int64(NONE)
    last, padded = unsigned(taps), unsigned(-(-taps // VECTORS) * VECTORS)
    best = lowest
    if taps <= SHORT:
        for j in range(last):
            best = max(best, rank(run[j], how))
    else:
        for j in range(padded):
            best = max(best, rank(run[j], how) if j < last else lowest)
    value = of_rank(best, how)
    if rows == 1 and SHORT < taps <= MANY:
        for j in range(padded):
            places[j] = np.int32(j) if ((run[j] == value) | (run[j] != run[j])) & (j < last) else NONE
        for j in range(padded):
            place = min(place, np.int64(places[j]))
        return value, np.int32(0), place
    for j in range(last):
        if ((run[j] == value) | (run[j] != run[j])) and lines[j] < line:  # hardly ever, so that the branch is free
            line, place = lines[j], np.int64(j)
    return value, line, place


def best_at(arithmetic, taps):
    """The best elements of windows of any places and lengths and their positions inside the plane: the first in
    row-major order, -1 for none. Windows along W are given for every inner element.
    """

    def best_at(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        begin_w, (count_d, count_h, count_w) = geometry.begins[2], geometry.counts
        width, size, inner, step = geometry.input[2], geometry.size, geometry.inner, geometry.steps[2] * geometry.inner
        apart, apart_lines, columns = behind(work, width), behind(lines, width), width // inner
        o, d, h = row_of(first_task, geometry.output)
        for t in range(first_task, last_task):
            rows, share = count_d[d] * count_h[h], share_at(geometry, d, h)
            _join_rows(work, lines, x, width, 0, geometry, o, d, h, how)
            for w in range(size):
                run, of_run, count = behind(work, begin_w[w]), behind(lines, begin_w[w]), count_w[w]
                if step != 1:
                    for j in range(count):
                        apart[j], apart_lines[j] = run[j * step], of_run[j * step]
                    run, of_run = apart, apart_lines
                best, line, tap = _best_of(run, of_run, count, rows, apart_lines, how)
                out[t * size + w] = finish(best, share, w, how, out)
                begin = begin_w[w] if inner == 1 else begin_w[w] // inner
                row = _row_in_plane(geometry, d, h, np.int64(line))
                where[t * size + w] = -1 if line == NONE else row * columns + begin + tap * geometry.steps[2]
            o, d, h = row_after(o, d, h, geometry.output)

    return best_at
