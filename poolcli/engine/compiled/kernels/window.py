"""The order in which a window's elements are joined: windows of m give those of 2m (two of them) and
of 2m + 1 (two of them, and then the last element).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from poolcli.engine.compiled.kernels.rows import unsigned
from poolcli.engine.compiled.numbers import join
from poolcli.engine.compiled.pointers import inlined


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
