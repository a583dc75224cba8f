"""Whether two axes read the same elements and divide by the same numbers, of any length.

What a window reads and divides by is linear in its number between a few corners (where its ends cross those of the
input and of the padding), so that two axes that agree at the corners of both agree everywhere. Bins too: the distance
of a bin's end from a line of whole numbers never turns back.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING

from poolcli.windows import AxisWindows, Bins, Sliding, ceil_div

if TYPE_CHECKING:
    from poolcli.plan import Plan

LISTED = 64  # windows that are all looked at
EDGES = 100_000  # dilated windows at the ends of an axis, which have no corners, that are compared one by one


def corners(w: AxisWindows) -> set[int] | None:
    """Outputs between which windows change by steps of one size; None where they are too many."""
    last = w.output - 1
    if w.output <= LISTED:
        return set(range(w.output))
    found = {0, 1, last - 1, last}
    if isinstance(w, Bins):
        return found
    if w.dilation > 1 and w.kernel > 1:
        inner = w.interior
        if w.output - len(inner) > EDGES:
            return None
        return {*found, *range(inner.start), *range(inner.stop, w.output), *inner[:2], *inner[-2:]}
    ends = (w.size, w.size + w.pad_end)
    for place in (0, *ends, w.kernel, *(end - w.kernel for end in (0, *ends))):
        turn = ceil_div(place + w.pad_begin, w.stride)
        found |= {turn - 1, turn, turn + 1}
    return {o for o in found if 0 <= o <= last}


def reads_same_elements(a: AxisWindows, b: AxisWindows) -> bool:
    """Whether each window of `a` reads what that of `b` reads."""
    if (a.size, a.output) != (b.size, b.output):
        return False
    at = _both(a, b)
    return a == b if at is None else all(a.span(o) == b.span(o) for o in at)


def ratio(a: AxisWindows | None, b: AxisWindows | None) -> Fraction | None:
    """What the divisors of `a` are to those of `b`, where that is the same for every window; None stands for 1 always.

    Both must read the same. Windows that divide by 0 must be those of both.
    """
    at = _both(a, b)
    if at is None:
        return Fraction(1) if a == b else None
    found = {(_divisor(a, o), _divisor(b, o)) for o in at}
    if any((x == 0) != (y == 0) for x, y in found):
        return None
    ratios = {Fraction(x, y) for x, y in found if y}
    return None if len(ratios) > 1 else next(iter(ratios), Fraction(1))


def same_divisors(a: Plan, b: Plan) -> bool:
    """Whether two plans that read the same divide every window by the same number."""
    factors = [Fraction(a.divisor_override or 1, b.divisor_override or 1)]
    for v, w in zip(a.windows, b.windows, strict=True):
        found = ratio(None if a.divisor_override else v, None if b.divisor_override else w)
        if found is None:
            return False
        factors.append(found)
    return prod(factors) == 1


def one_divisor(plan: Plan) -> int | None:
    """What every window of `plan` is divided by, where that is one number."""
    if plan.divisor_override is not None:
        return plan.divisor_override
    found = [ratio(w, None) for w in plan.windows]
    return None if None in found else int(prod(n for n in found if n is not None))


def same_reduction(a: Plan, b: Plan) -> bool:
    """Whether the elements of equal windows become equal numbers: a sign is lost in even powers, and a sum that is
    divided and multiplied by the whole kernel stays what it is where every window is full.
    """
    if a.reducer == b.reducer:
        return True
    power = a.reducer.power
    even = power is not None and power == b.reducer.power and power % 2 == 0
    return even and all(len(w.interior) == w.output for w in (*a.windows, *b.windows) if isinstance(w, Sliding))


def same(a: Plan, b: Plan) -> bool:
    """Whether two plans read the same elements, do the same with them, and divide by the same numbers."""
    return (
        same_reduction(a, b)
        and a.output_shape == b.output_shape
        and all(reads_same_elements(v, w) for v, w in zip(a.windows, b.windows, strict=True))
        and not (a.reducer.divides and b.reducer.divides and not same_divisors(a, b))
    )


def _both(*axes: AxisWindows | None) -> set[int] | None:
    found: set[int] = set()
    for w in axes:
        if w is not None:
            own = corners(w)
            if own is None:
                return None
            found |= own
    return found


def _divisor(w: AxisWindows | None, o: int) -> int:
    return 1 if w is None else w.divisor(o)
