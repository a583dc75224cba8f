"""Windows of one row, straight from x: where rows need not be joined, a row buffer takes a third of the time. What a
window shares with the next one (nothing, one element or half of it) is passed on, so that every element is read once.
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


class Passed(NamedTuple):
    """given(source, at, places, how) is what the window at `at` gets as if from one before it;
    take(source, at, passed, places, how) is its total, and what it passes on.
    """

    given: Callable[..., Any]
    take: Callable[..., Any]


Element = Callable[..., Any]  # element(source, at, tap, places, how)


def passed_on(taps: Taps, element: Element) -> Passed:
    """For windows of that size and stride."""
    if taps.kernel == taps.stride:
        return _nothing(taps, element)
    return _half(taps, element) if taps.kernel == 2 * taps.stride else _one(taps, element)


def _nothing(taps: Taps, element: Element) -> Passed:
    whole = window_of(taps.kernel, element)

    @inlined
    def given(source, at, places, how):
        return how.nothing

    @inlined
    def take(source, at, passed, places, how):
        return whole(source, at, unsigned(0), places, how), passed

    return Passed(given, take)


def _half(taps: Taps, element: Element) -> Passed:
    half, stride = window_of(taps.stride, element), unsigned(taps.stride)

    @inlined
    def given(source, at, places, how):
        return half(source, at, unsigned(0), places, how)

    @inlined
    def take(source, at, passed, places, how):
        other = half(source, at + stride, unsigned(0), places, how)
        return how.join(passed, other), other

    return Passed(given, take)


def _one(taps: Taps, element: Element) -> Passed:
    first, final = unsigned(0), unsigned(taps.stride)

    @inlined
    def element_or_passed(source, at, tap, ends, how):
        passed, other, places = ends
        return passed if tap == first else other if tap == final else element(source, at, tap, places, how)

    whole = window_of(taps.kernel, element_or_passed)

    @inlined
    def given(source, at, places, how):
        return element(source, at, first, places, how)

    @inlined
    def take(source, at, passed, places, how):
        other = element(source, at, final, places, how)
        return whole(source, at, first, (passed, other, places), how), other

    return Passed(given, take)


signed = np.int64


def slide_line(how, taps: Taps):
    """A task is a piece of one row. Windows that reach beyond the row are taken one by one."""
    (given, _), (_, take) = passed_on(taps, _element_or_nothing), passed_on(taps, _element)
    whole, stride, shared = window_of(taps.kernel, _element_or_nothing), taps.stride, taps.kernel - taps.stride
    step = unsigned(stride)

    @looped
    def reaching(out, to, row, first, last, within, share, how):
        optimise_later()
        for w in range(first, last):
            out[to + w] = how.finish(whole(row, w * stride, unsigned(0), within, how), share, w)

    def slide_line(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry = geometry_at(numbers, divisors)
        across, width, pad = across_at(numbers), geometry.input[2], across_at(numbers).pad
        pieces, within = -(-across.outputs // across.piece), (pad, width + pad)
        low, high = max(-(-(pad - shared) // stride), 0), (width + pad - taps.kernel) // stride + 1
        for t in range(first_task, last_task):
            o, d, h = row_of(t // pieces, geometry.output)
            share, to = share_at(geometry, d, h), t // pieces * geometry.size
            first = t % pieces * across.piece
            last = min(first + across.piece, across.outputs)
            begin = min(max(first, low), last)
            end = min(max(begin, high), last)
            row = behind(x, begin_at(geometry, o, d, h) - pad)
            reaching(out, to, row, first, begin, within, share, how)
            passed, start = given(row, begin * stride, within, how), unsigned(begin)
            inside, target = behind(row, begin * stride), behind(out, to + begin)
            for w in range(unsigned(end - begin)):
                total, passed = take(inside, step * w, passed, unsigned(0), how)
                target[w] = how.finish(total, share, start + w)
            reaching(out, to, row, end, last, within, share, how)

    return slide_line


@inlined
def _element(row, at, tap, places, how):
    return how.lift(row[at + tap])


@inlined
def _element_or_nothing(row, at, tap, within, how):
    """The element of that tap; outside what is within the row, nothing."""
    place = at + signed(tap)
    return how.lift(row[place]) if within[0] <= place < within[1] else how.nothing
