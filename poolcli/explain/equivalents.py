"""Every kernel, stride, dilation and padding that makes the windows of an axis read what they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product

from poolcli.explain.equivalence import corners, reads_same_elements
from poolcli.windows import AxisWindows, Sliding, ceil_div

FREE = 5  # values that are tried, from the least on, where the windows leave a number free
SHORT = 8  # elements, up to which taps of a window may lie on both sides of the input
SHOWN = 40  # windows at each end that are looked at


def equivalents(w: AxisWindows) -> Iterator[Sliding]:
    """Sliding windows that read what `w` reads, without padding at the end; `w` itself first, then the least pads.

    Where a window begins or ends inside the input, its numbers follow from it. Where all of them reach past an end, so
    that a number is free, its `FREE` least values are tried.
    """
    found: dict[Sliding, None] = {}
    if isinstance(w, Sliding):
        own = replace(w, dilation=w.dilation if w.kernel > 1 else 1, pad_end=0, counted="inside")
        found[own] = None
        yield own
    spans = _spans(w)
    for dilation in _dilations(w, spans):
        for stride in _strides(w, spans, dilation):
            for begin, last in _ends(w, spans, stride, dilation):
                moves, rest = divmod(begin + last, dilation)
                made = Sliding(w.size, w.output, moves + 1, stride, dilation if moves else 1, begin, 0)
                if not rest and moves >= 0 and made not in found and reads_same_elements(w, made):
                    found[made] = None
                    yield made


def _dilations(w: AxisWindows, spans: Mapping[int, range]) -> list[int]:
    """The one that windows of several elements show; windows of one may be any, as their neighbours lie outside."""
    shown = {span.step for span in spans.values() if len(span) > 1}
    if shown:
        return [*shown] if len(shown) == 1 else []
    outside = range(1, FREE if w.size <= SHORT else 2)
    return sorted({*outside, getattr(w, "dilation", 1)})


def _spans(w: AxisWindows) -> dict[int, range]:
    """What windows at both ends and at the corners read, those that read nothing left out."""
    shown = {*(corners(w) or ()), *range(min(SHOWN, w.output)), *range(max(0, w.output - SHOWN), w.output)}
    return {o: span for o in sorted(shown) if (span := w.span(o))}


def _firsts(spans: Mapping[int, range], dilation: int) -> list[tuple[int, int, bool]]:
    """(output, the first element read, whether the window begins there): else it may begin in the padding."""
    return [(o, span[0], span[0] >= dilation) for o, span in spans.items()]


def _lasts(spans: Mapping[int, range], dilation: int, size: int) -> list[tuple[int, int, bool]]:
    """(output, the last element read, whether the window ends there): else it may end in the padding."""
    return [(o, span[-1], span[-1] + dilation < size) for o, span in spans.items()]


def _strides(w: AxisWindows, spans: Mapping[int, range], dilation: int) -> Iterable[int]:
    """The one stride that two windows with known ends have, or the least that are left."""
    firsts, lasts = _firsts(spans, dilation), _lasts(spans, dilation, w.size)
    least = 1
    for ends, sign in ((firsts, 1), (lasts, -1)):
        known = [(o, at) for o, at, exact in ends if exact]
        if len(known) > 1:
            (a, at), (b, then) = known[0], known[-1]
            stride, rest = divmod(then - at, b - a)
            return [stride] if stride > 0 and not rest else []
        for o, at in known:
            bounds = [ceil_div(sign * (at - then), sign * (o - p)) for p, then, _ in ends if sign * (o - p) > 0]
            least = max(least, *bounds) if bounds else least
    own = [w.stride] if isinstance(w, Sliding) else []
    if w.output == 1:  # the stride only says how much of the end may be left unread
        return dict.fromkeys((*own, w.size, 2 * w.size))
    return dict.fromkeys((*own, *range(least, least + FREE)))


def _ends(w: AxisWindows, spans: Mapping[int, range], stride: int, dilation: int) -> Iterator[tuple[int, int]]:
    """(padding at the beginning, position of the first window's last tap): each where windows leave it."""
    begins = [(o * stride - at, exact) for o, at, exact in _firsts(spans, dilation)]
    lasts = [(at - o * stride, exact) for o, at, exact in _lasts(spans, dilation, w.size)]
    pairs = product(_values(begins, dilation, 0), _values(lasts, dilation, None))
    yield from sorted(pairs, key=lambda pair: (sum(pair), pair))


def _values(bounds: Iterable[tuple[int, bool]], dilation: int, least: int | None) -> list[int]:
    """The numbers that are at least every bound, the exact ones met, and alike modulo the dilation; where windows read
    nothing, any that are near the input.
    """
    numbers = list(bounds)
    if not numbers:
        return [*range(-FREE if least is None else least, FREE)]
    low = max(number for number, _ in numbers)
    if len({number % dilation for number, _ in numbers}) > 1:
        return []
    exact = {number for number, known in numbers if known}
    if exact:
        return [low] if exact == {low} and (least is None or low >= least) else []
    if least is not None and low < least:
        low += ceil_div(least - low, dilation) * dilation
    return [low + i * dilation for i in range(FREE)]
