"""Positions of maxima and minima: those of the first elements of windows that equal the outputs, which other kernels
have computed. NaN equals NaN here, and the two zeros each other. Of regular windows, all whole ones of a row are
compared at once, from the last tap to the first. Others are searched until the element is found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.engine.compiled.kernels import by_rows, inlined, line_offset, looped, optimise_later, u8
from poolcli.engine.compiled.view import AT_ROWS, MARGIN, ROW_FIELDS

AT_ONCE, FEW, MANY = 32, 8, 512  # elements are compared 32 by 32 without branches, up to 512; the last 8 one by one


def search(how: Any, steps: Any, taps: int, stride: int, gap: int) -> Any:
    """Task t is an output row; positions count from the start of a plane of the input, an empty window has -1. `taps`,
    `stride`, `gap`: of regular windows along W, as of `sliding`; 0: of windows of any place and size. `work` is int32.
    """
    lift, is_float, is_as_read = how.lift, steps.identity.dtype.kind == "f", steps.write == steps.read
    step, inner, apart, last = u8(stride), gap == 0, u8(gap), u8(max(taps, 1) - 1)

    @inlined
    def matches(element, value):
        one, best = lift(element), lift(value) if is_as_read else value
        return (one == best) | (one != one) if is_float else one == best

    @inlined
    def first_of_row(x, at, unit, value, found, position, pixels):
        """`found`, or the position of the first element of a row of a window that equals the value."""
        for j in range(taps):
            tap = last - u8(j)
            place = position + np.int32(tap) * pixels
            found = place if matches(x[at + tap * (unit if inner else apart)], value) else found
        return found

    @looped
    def search_row(x, at, values, to, found, size, channels, position, pixels):
        optimise_later()
        at, to, cs = u8(at), u8(to), u8(channels)
        unit = u8(pixels) * cs
        if stride == 1 or not inner:
            for w in range(u8(size)):
                found[w] = first_of_row(x, at + w * step, unit, values[to + w], found[w], position, pixels)
        else:
            for w in range(u8(size // channels)):
                for c in range(cs):
                    e, source = w * cs + c, at + w * step * cs + c
                    found[e] = first_of_row(x, source, unit, values[to + e], found[e], position, pixels)

    @looped
    def first_match(x, at, count, unit, value, limit):
        """The number of the first of `count` elements that equals the value; `count` if there is none."""
        optimise_later()
        i = np.int64(0)
        while unit == 1 and i + FEW < count and at + i + MANY <= limit:  # what is behind the last one does not count
            many = MANY if i + MANY < count else -(-(count - i) // AT_ONCE) * AT_ONCE
            found = np.int32(MANY)
            for j in range(np.int32(many)):
                place = np.int32(j) if matches(x[u8(at + i + j)], value) else np.int32(MANY)
                found = place if place < found else found
            if found < MANY:
                return i + found if i + found < count else count
            i += MANY
        while i < count and not matches(x[u8(at + i * unit)], value):
            i += 1
        return i

    def kernel(x, out, places, work, sizes, table, factors, t, r, begin, nd, nh, piece, last):
        optimise_later()
        cs, pixels, at_w = sizes.channels, sizes.gap_w, sizes.at_w
        columns, far, near = sizes.width // cs, sizes.step_d, sizes.step_h
        far_line, near_line = sizes.gap_d * sizes.high * columns, sizes.gap_h * columns
        low, high = sizes.first, sizes.last
        if taps == 0 or table[at_w + 2 * low + 1] != taps:  # an empty window has no elements, either
            low = high = sizes.columns
        whole, start = (high - low) * cs, table[at_w + 2 * low]
        padded = -(-whole // MARGIN) * MARGIN
        to, top = t * sizes.size, table[AT_ROWS + ROW_FIELDS * r + 3] * columns
        if taps and low < high:
            size, first, base = whole, u8(to + low * cs), top + start
            reach = begin + (nd - 1) * far + (nh - 1) * near + start * cs + padded * stride + taps * pixels * cs
            if (not inner) & (t + 1 < last) & (reach < sizes.limit):
                size = padded  # whole vectors; nobody reads what is found beyond the end of a row
            for w in range(u8(size)):
                work[w] = np.int32(-1)
            for line in range(nd * nh - 1, -1, -1):
                at = begin + line_offset(line, nh, far, near) + start * cs
                its = np.int32(line_offset(line, nh, far_line, near_line))
                search_row(x, at, out, first, work, size, cs, its, np.int32(pixels))
            for w in range(u8(whole)):
                pixel = np.int64(w // u8(cs) if inner else w)
                places[first + w] = np.int64(-1) if work[w] < 0 else base + pixel * stride + np.int64(work[w])
        w = 0 if low > 0 else high
        while w < sizes.columns:
            begin_w, count = table[at_w + 2 * w], table[at_w + 2 * w + 1]
            for c in range(cs):
                e, place = u8(to + w * cs + c), np.int64(-1)
                for line in range(nd * nh):
                    at = begin + line_offset(line, nh, far, near) + begin_w * cs + c
                    match = first_match(x, at, count, pixels * cs, out[e], sizes.limit)
                    if match < count:
                        place = top + line_offset(line, nh, far_line, near_line) + begin_w + match * pixels
                        break
                places[e] = place
            w = w + 1 if w + 1 != low else high

    return by_rows(kernel, in_pieces=False)
