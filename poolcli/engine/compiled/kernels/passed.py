"""What a window of a constant size shares with the next one, and passes on: nothing, one element or half of it.

So every element is read once, and sorted in registers. LLVM takes those behind the last full vector one by one where
something is passed on, so that it does not pay for short rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from poolcli.engine.compiled.geometry import Taps
from poolcli.engine.compiled.kernels.rows import unsigned
from poolcli.engine.compiled.kernels.window import window_of
from poolcli.engine.compiled.numbers import join
from poolcli.engine.compiled.pointers import inlined


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
        return how.total.nothing

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
        return join(passed, other, how), other

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
