"""Whether two axes read the same elements and divide by the same numbers, of any length.

What a window reads and divides by is linear in its number between a few corners (where its ends cross those of the
input and of the padding), so that two axes that agree at the corners of both agree everywhere. Bins too: the distance
of a bin's end from a line of whole numbers never turns back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod

from poolcli.dialects import DIALECTS
from poolcli.plan import Plan, plan_or_none
from poolcli.plan.attributes import Attributes
from poolcli.windows import AxisWindows, Bins, Cells, Sliding, ceil_div

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
    """Whether each window of `a` reads what that of `b` reads, and as much of each element."""
    if isinstance(a, Cells) or isinstance(b, Cells):
        return a == b
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


MOST_SIZES = 256  # of an axis, beyond which it is not shown that two operators are the same at each


def same_at_every_size(a: Plan, b: Plan, b_at: Callable[[Sequence[int]], Plan | None]) -> bool:
    """Whether the attributes of `a` and what `b` plans are the same at every input size that both take; `b_at` plans it
    at other shapes.

    Long inputs show another kernel, stride or dilation. All else recurs with the stride from the length on at which no
    window reaches past both ends, so that lengths up to there and two strides more show it.
    """
    own = a.given
    bins = [isinstance(w, Bins) for w in (*a.windows, *b.windows)]
    if any(bins):
        return all(bins)
    both = zip(a.windows, b.windows, strict=True)
    pairs = [(v, w) for v, w in both if isinstance(v, Sliding) and isinstance(w, Sliding)]
    if own is None or any(_moves(v) != _moves(w) for v, w in pairs):
        return False
    longest = [max(w.extent + w.pad_begin + w.pad_end for w in pair) + 2 * pair[0].stride for pair in pairs]
    if max(longest) > MOST_SIZES:
        return a.windows == b.windows and _rules(a) == _rules(b)
    alone = [{i: size} for i, most in enumerate(longest) for size in range(1, most + 1)]
    together = [dict.fromkeys(range(len(pairs)), size) for size in range(1, max(longest) + 1)]
    return all(_same_at(a, own, b_at, sizes) for sizes in (*alone, *together))


def _rules(plan: Plan) -> tuple[object, ...]:
    """What else than its windows decides on those of another size; of no use where auto_pad sets the pads."""
    rounding, auto_pad = plan.attributes["rounding_type"], plan.attributes["auto_pad"]
    rule = DIALECTS[plan.like].ceil if rounding == "ceil" else rounding
    sets_pads = str(auto_pad).startswith("same")
    return rule, plan.reducer, plan.divisor_override, plan.like if sets_pads else None, auto_pad if sets_pads else None


def _moves(w: Sliding) -> tuple[int, int, int]:
    return w.kernel, w.stride, w.dilation if w.kernel > 1 else 1


def _same_at(plan: Plan, a: Attributes, b_at: Callable[[Sequence[int]], Plan | None], sizes: Mapping[int, int]) -> bool:
    """Whether two operators are the same where axes of the plan have other sizes; so where one of them is refused."""
    shape = list(plan.input_shape)
    for i, size in sizes.items():
        shape[plan.axes[i].position] = size
    one, two = planned(a, shape, plan), b_at(shape)
    return one is None or two is None or same(one, two)


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


FURTHER = 12  # sizes above and below that of the input that are tried


def distinguishing_input(a: Attributes, plan: Plan, b: Attributes, other: Plan) -> str:
    """A window that two operators read or divide differently, or an input size at which their outputs differ."""
    if not same(plan, other):
        for axis, theirs in zip(plan.axes, other.axes, strict=True):
            v, w = axis.windows, theirs.windows
            at = sorted((corners(v) or set()) | (corners(w) or set()))
            o = next((o for o in at if v.span(o) != w.span(o)), None)
            if o is not None:
                return f"other data: window {axis.name} {o} reads {_span_text(v.span(o))} or {_span_text(w.span(o))}"
        return "other data: windows that reach past the input are divided by other numbers"
    for i, axis in enumerate(plan.axes):
        for more, sign in product(range(1, FURTHER + 1), (1, -1)):
            size = plan.input_shape[axis.position] + sign * more
            difference = _difference_at(a, b, plan, i, size) if size > 0 else None
            if difference:
                return f"an input of {axis.name}={size}{difference}"
    return f"indistinguishable for sizes within +-{FURTHER}"


def _span_text(span: range) -> str:
    if len(span) < 2:
        return str(span[0]) if span else "nothing"
    return f"{span[0]} to {span[-1]}" + (f" in steps of {span.step}" if span.step > 1 else "")


def _difference_at(a: Attributes, b: Attributes, plan: Plan, i: int, size: int) -> str | None:
    """How two operators differ where axis `i` has another size; None where they do not."""
    shape = list(plan.input_shape)
    shape[plan.axes[i].position] = size
    one, two = (planned(op, shape, plan) for op in (a, b))
    if one is None or two is None:
        return ", which one of them refuses" if one is not two else None
    outputs = one.windows[i].output, two.windows[i].output
    if outputs[0] != outputs[1]:
        return f": {outputs[0]} or {outputs[1]} outputs"
    return None if same(one, two) else ": other windows or divisors"


def planned(op: Attributes, shape: Sequence[int], plan: Plan) -> Plan | None:
    """The plan of `op` on another shape, of the types and the layout of `plan`; None where it is refused."""
    return plan_or_none(op, shape, plan.dtype, layout=plan.layout, output_dtype=plan.output_dtype)
