"""The best elements of sliding windows of a constant size, and where they are."""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.geometry import VECTORS
from poolcli.engine.compiled.kernels.places import NOWHERE, line_at, place_of, steps_to
from poolcli.engine.compiled.kernels.rows import fill, row_after, row_of, side_by_side, unsigned
from poolcli.engine.compiled.numbers import beats, join, lift
from poolcli.engine.compiled.pointers import (
    across_at,
    arithmetic_at,
    behind,
    geometry_at,
    inlined,
    looped,
    optimise_later,
    pointers_are_distinct,
    share_at,
)
from poolcli.engine.compiled.results import finish


@inlined
def _better(value, line, other, other_line, how):
    """Of an element and a later one the better, and its line."""
    return join(other, value, how), other_line if beats(other, value, how) else line


@looped
def _join_rows(work, lines, x, size, low, geometry, o, d, h, how):
    """Of `size` elements from `low` on along the rows of the window of output row (d, h) the best, and how many rows of
    the plane after its first one they come first. Four rows in one pass, where there are as many.
    """
    optimise_later()
    n, low, rows, row = unsigned(size), unsigned(low), geometry.counts[0][d] * geometry.counts[1][h], 0
    if rows == 0:
        fill(work, 0, size, how)
        for w in range(n):
            lines[w] = NOWHERE
    while row < rows:
        a, one = line_at(geometry, o, d, h, row) + low, np.int32(steps_to(geometry, d, h, row))
        four = row > 0 and row + 4 <= rows
        if row == 0:
            for w in range(n):
                work[w], lines[w] = lift(x[a + w], how), one
        elif four:
            b, two = line_at(geometry, o, d, h, row + 1) + low, np.int32(steps_to(geometry, d, h, row + 1))
            c, three = line_at(geometry, o, d, h, row + 2) + low, np.int32(steps_to(geometry, d, h, row + 2))
            e, its_four = line_at(geometry, o, d, h, row + 3) + low, np.int32(steps_to(geometry, d, h, row + 3))
            for w in range(n):
                first, its = _better(lift(x[a + w], how), one, lift(x[b + w], how), two, how)
                last, of_last = _better(lift(x[c + w], how), three, lift(x[e + w], how), its_four, how)
                value, at = _better(first, its, last, of_last, how)
                work[w], lines[w] = _better(work[w], lines[w], value, at, how)
        else:
            for w in range(n):
                work[w], lines[w] = _better(work[w], lines[w], lift(x[a + w], how), one, how)
        row += 4 if four else 1


def slide_at(arithmetic, taps):
    """One tap of all windows of a row at a time."""
    taps, stride, none = taps.kernel, taps.stride, NOWHERE

    def slide_at(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
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
                best, line, tap = how.total.nothing, none, np.int32(0)
                for j in range(unsigned(taps)):
                    at = row + j % unsigned(stride) * apart + j // unsigned(stride) * unit + w
                    value, its = work[at], lines[at]
                    # among equal elements that of the smaller line comes first in row-major order
                    first = (its < line) & ((value == best) | (value != value))
                    taken = beats(value, best, how) | first
                    best, line, tap = join(value, best, how), its if taken else line, np.int32(j) if taken else tap
                bests[w], its_lines[w], its_taps[w] = best, line, tap
            for w in range(unsigned(size)):
                out[target + w] = finish(bests[w], share, w, how, out)
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
