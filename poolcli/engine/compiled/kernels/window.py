"""The order in which a window's elements are joined: windows of m give those of 2m (two of them) and
of 2m + 1 (two of them, and then the last element).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from poolcli.engine.compiled.kernels.rows import unsigned
from poolcli.engine.compiled.numbers import join
from poolcli.engine.compiled.pointers import inlined

FOUR = 4


def in_turn(taps: int, element: Callable[..., Any]) -> Callable[..., Any]:
    """The same in the order in which the rows of windows are joined: up to four, and then by four."""
    if taps <= FOUR:
        return window_of(taps, element)
    some, four, behind = in_turn(taps - FOUR, element), window_of(FOUR, element), unsigned(taps - FOUR)

    @inlined
    def longer(work, at, tap, places, how):
        so_far = some(work, at, tap, places, how)
        return join(so_far, four(work, at, tap + behind, places, how), how)

    return cast("Callable[..., Any]", longer)


def window_of(taps: int, element: Callable[..., Any]) -> Callable[..., Any]:
    """The join of that many elements from the one at `tap` on, where element(work, at, tap, places, how) is one."""
    if taps == 1:
        return element
    some, half, rest = window_of(taps // 2, element), unsigned(taps // 2), unsigned(taps - 1)

    def pair(work, at, tap, places, how):
        first = some(work, at, tap, places, how)
        return join(first, some(work, at, tap + half, places, how), how)

    def three(work, at, tap, places, how):
        first = two(work, at, tap, places, how)
        return join(first, element(work, at, tap + rest, places, how), how)

    two: Callable[..., Any] = inlined(pair)
    return two if taps % 2 == 0 else cast("Callable[..., Any]", inlined(three))
