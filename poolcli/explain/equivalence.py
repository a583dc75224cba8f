"""Whether two plans read the same elements and divide by the same numbers.

What a window reads and divides by is piecewise linear in its index. The breakpoints are where its ends cross those of
the input and of the padding, so two axes that agree at the breakpoints of both agree everywhere, whatever their length.
This holds for bins too: the distance between a bin's end and a line of integers is monotonic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod

from poolcli.dialects import DIALECTS
from poolcli.plan import Plan, plan_or_none
from poolcli.plan.attributes import Attributes
from poolcli.windows import AxisWindows, Bins, Cells, Sliding, ceil_div

ALL_COMPARED = 64  # axes of up to as many windows are compared window by window
MAX_EDGE_WINDOWS = 100_000  # dilated windows that overlap the border have no breakpoints and are compared one by one
MAX_SIZES_COMPARED = 256  # of one axis; where more would be needed, only equal windows and rules count as the same


def breakpoints(w: AxisWindows) -> set[int] | None:
    """The outputs between which windows are linear in their index; None if there are too many."""
    last = w.output - 1
    if w.output <= ALL_COMPARED:
        return set(range(w.output))
    found = {0, 1, last - 1, last}
    if isinstance(w, Bins):
        return found
    if w.dilation > 1 and w.kernel > 1:
        inner = w.interior
        if w.output - len(inner) > MAX_EDGE_WINDOWS:
            return None
        return {*found, *range(inner.start), *range(inner.stop, w.output), *inner[:2], *inner[-2:]}
    ends = (w.size, w.size + w.pad_end)
    for place in (0, *ends, w.kernel, *(end - w.kernel for end in (0, *ends))):
        turn = ceil_div(place + w.pad_begin, w.stride)
        found |= {turn - 1, turn, turn + 1}
    return {o for o in found if 0 <= o <= last}


def reads_same_elements(a: AxisWindows, b: AxisWindows) -> bool:
    """Whether windows with the same index read the same elements, with the same weights."""
    if a == b or isinstance(a, Cells) or isinstance(b, Cells):
        return a == b
    if (a.size, a.output) != (b.size, b.output):
        return False
    at = _common_breakpoints(a, b)
    return at is not None and all(a.span(o) == b.span(o) for o in at)


def divisor_ratio(a: AxisWindows | None, b: AxisWindows | None) -> Fraction | None:
    """The ratio of the divisors of axes that read the same, if it is constant; those of an axis that is None are 1."""
    if a == b:
        return Fraction(1)
    at = _common_breakpoints(a, b)
    if at is None:
        return None
    found = {(1 if a is None else a.divisor(o), 1 if b is None else b.divisor(o)) for o in at}
    if any((x == 0) != (y == 0) for x, y in found):
        return None
    ratios = {Fraction(x, y) for x, y in found if y}
    return None if len(ratios) > 1 else next(iter(ratios), Fraction(1))


def same_divisors(a: Plan, b: Plan) -> bool:
    """Whether two plans that read the same elements divide every window by the same number."""
    factors = [Fraction(a.divisor_override or 1, b.divisor_override or 1)]
    for v, w in zip(a.windows, b.windows, strict=True):
        found = divisor_ratio(None if a.divisor_override else v, None if b.divisor_override else w)
        if found is None:
            return False
        factors.append(found)
    return prod(factors) == 1


def same_reduction(a: Plan, b: Plan) -> bool:
    """Whether two reducers give the same on equal windows."""
    if a.reducer == b.reducer:
        return True
    if all(w.longest == 1 and not w.empty_windows for w in (*a.windows, *b.windows)):  # all but most norms: the element
        reducers = (a.reducer, b.reducer)
        return all(r.picks or (r.adds and (r.power is None or (r.signed and r.power == 1))) for r in reducers)
    power = a.reducer.power  # signed or not, even ones are the same inside the input
    even = power is not None and power == b.reducer.power and power % 2 == 0
    return even and all(len(w.interior) == w.output for w in (*a.windows, *b.windows) if isinstance(w, Sliding))


def same_pooling(a: Plan, b: Plan) -> bool:
    """Whether two plans read the same elements, do the same with them, and divide by the same numbers."""
    return (
        same_reduction(a, b)
        and a.output_shape == b.output_shape
        and all(reads_same_elements(v, w) for v, w in zip(a.windows, b.windows, strict=True))
        and (same_divisors(a, b) or not (a.reducer.divides or b.reducer.divides))
    )


def same_at_every_size(a: Plan, b: Plan, b_at: Callable[[Sequence[int]], Plan | None]) -> bool:
    """Whether `a.given` and the pooling that `b_at` plans are the same at every input size that both accept.

    Different kernels, strides or dilations differ on long inputs. All else repeats with the stride once no window
    overlaps both borders, so sizes up to that length plus two strides are compared.
    """
    bins = [isinstance(w, Bins) for w in (*a.windows, *b.windows)]
    if any(bins):
        return all(bins) and a.op == b.op
    both = zip(a.windows, b.windows, strict=True)
    pairs = [(v, w) for v, w in both if isinstance(v, Sliding) and isinstance(w, Sliding)]
    geometries = [[(w.kernel, w.stride, w.dilation if w.kernel > 1 else 1) for w in pair] for pair in pairs]
    if any(v != w for v, w in geometries):
        return False
    longest = [max(w.extent + w.pad_begin + w.pad_end for w in pair) + 2 * pair[0].stride for pair in pairs]
    if max(longest) > MAX_SIZES_COMPARED:
        return a.windows == b.windows and _size_rules(a) == _size_rules(b)
    alone = [{i: size} for i, most in enumerate(longest) for size in range(1, most + 1)]
    together = [dict.fromkeys(range(len(pairs)), size) for size in range(1, max(longest) + 1)]
    for sizes in (*alone, *together):
        shape = list(a.input_shape)
        for i, size in sizes.items():
            shape[a.axes[i].position] = size
        one, two = plan_at_shape(a.given, shape, a), b_at(shape)
        if one and two and not same_pooling(one, two):
            return False
    return True


def _size_rules(plan: Plan) -> tuple[object, ...]:
    rule, auto_pad = DIALECTS[plan.like].rounding_rule(plan.attributes["rounding_type"]), plan.attributes["auto_pad"]
    sets_pads = str(auto_pad).startswith("same")
    return rule, plan.reducer, plan.divisor_override, plan.like if sets_pads else None, auto_pad if sets_pads else None


def _common_breakpoints(*axes: AxisWindows | None) -> set[int] | None:
    every = [breakpoints(w) for w in axes if w is not None]
    known = [found for found in every if found is not None]
    return set[int]().union(*known) if len(known) == len(every) else None


def plan_at_shape(op: Attributes, shape: Sequence[int], plan: Plan) -> Plan | None:
    """The plan of `op` on another shape, with the types and layout of `plan`; None if it is refused."""
    return plan_or_none(op, shape, plan.dtype, layout=plan.layout, output_dtype=plan.output_dtype)
