"""Windows of one row, read from x without a row buffer, which would take a third of the time.

Windows share nothing, one element or half of their elements with the next one; what they share is passed on, so that
every element is read once (without it, maxima took 1.6 times as long).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from poolcli.engine.compiled.geometry import Taps
from poolcli.engine.compiled.kernels.rows import begin_at, row_of, unsigned, window_of
from poolcli.engine.compiled.pointers import (
    across_at,
    behind,
    geometry_at,
    inlined,
    looped,
    optimise_later,
    pointers_are_distinct,
    share_at,
)


class SharedPart(NamedTuple):
    """The part of a window that the next one shares.

    first(source, at, places, how): the part that the window at `at` shares with the one before it.
    total(source, at, shared, places, how): the total of the window, and the part that the next one shares.
    """

    first: Callable[..., Any]
    total: Callable[..., Any]


Element = Callable[..., Any]  # element(source, at, tap, places, how)


def shared_part(taps: Taps, element: Element) -> SharedPart:
    """For windows of that size and stride, by half of their elements, one or none."""
    if taps.kernel == taps.stride:
        return _none(taps, element)
    return _half(taps, element) if taps.kernel == 2 * taps.stride else _one(taps, element)


def _none(taps: Taps, element: Element) -> SharedPart:
    whole = window_of(taps.kernel, element)

    @inlined
    def first(source, at, places, how):
        return how.nothing

    @inlined
    def total(source, at, shared, places, how):
        return whole(source, at, unsigned(0), places, how), shared

    return SharedPart(first, total)


def _half(taps: Taps, element: Element) -> SharedPart:
    half, stride = window_of(taps.stride, element), unsigned(taps.stride)

    @inlined
    def first(source, at, places, how):
        return half(source, at, unsigned(0), places, how)

    @inlined
    def total(source, at, shared, places, how):
        other = half(source, at + stride, unsigned(0), places, how)
        return how.join(shared, other), other

    return SharedPart(first, total)


def _one(taps: Taps, element: Element) -> SharedPart:
    zero, last = unsigned(0), unsigned(taps.stride)

    @inlined
    def element_or_end(source, at, tap, ends, how):
        shared, other, places = ends
        return shared if tap == zero else other if tap == last else element(source, at, tap, places, how)

    whole = window_of(taps.kernel, element_or_end)

    @inlined
    def first(source, at, places, how):
        return element(source, at, zero, places, how)

    @inlined
    def total(source, at, shared, places, how):
        other = element(source, at, last, places, how)
        return whole(source, at, zero, (shared, other, places), how), other

    return SharedPart(first, total)


signed = np.int64


def slide_row(how, taps: Taps):
    """A task is a piece of one row. Windows that are partly outside the row are computed one by one."""
    (first_part, _), (_, total_of) = shared_part(taps, _element_or_identity), shared_part(taps, _element)
    whole, stride, overlap = window_of(taps.kernel, _element_or_identity), taps.stride, taps.kernel - taps.stride
    step = unsigned(stride)

    @looped
    def partly_outside(out, to, row, first, last, within, share, how):
        optimise_later()
        for w in range(first, last):
            out[to + w] = how.finish(whole(row, w * stride, unsigned(0), within, how), share, w)

    def slide_row(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry = geometry_at(numbers, divisors)
        across, width, pad = across_at(numbers), geometry.input[2], across_at(numbers).pad
        pieces, within = -(-across.outputs // across.piece), (pad, width + pad)
        low, high = max(-(-(pad - overlap) // stride), 0), (width + pad - taps.kernel) // stride + 1
        for t in range(first_task, last_task):
            o, d, h = row_of(t // pieces, geometry.output)
            share, to = share_at(geometry, d, h), t // pieces * geometry.size
            first = t % pieces * across.piece
            last = min(first + across.piece, across.outputs)
            begin = min(max(first, low), last)
            end = min(max(begin, high), last)
            row = behind(x, begin_at(geometry, o, d, h) - pad)
            partly_outside(out, to, row, first, begin, within, share, how)
            shared, start = first_part(row, begin * stride, within, how), unsigned(begin)
            inside, target = behind(row, begin * stride), behind(out, to + begin)
            for w in range(unsigned(end - begin)):
                total, shared = total_of(inside, step * w, shared, unsigned(0), how)
                target[w] = how.finish(total, share, start + w)
            partly_outside(out, to, row, end, last, within, share, how)

    return slide_row


@inlined
def _element(row, at, tap, places, how):
    return how.lift(row[at + tap])


@inlined
def _element_or_identity(row, at, tap, within, how):
    """The element, or the identity if it is outside the row, whose positions are `within`."""
    place = at + signed(tap)
    return how.lift(row[place]) if within[0] <= place < within[1] else how.nothing
