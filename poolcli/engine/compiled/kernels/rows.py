"""Rows of the canonical view: where they are, and how those of a window, or elements of a row, are joined. The order of
joining is here alone: windows of m elements give those of 2m and 2m + 1, and rows are joined four by four.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from poolcli.engine.compiled.pointers import (
    geometry_at,
    inlined,
    looped,
    optimise_later,
    pointers_are_distinct,
    prefetch,
    share_at,
)

unsigned = np.uint64


@inlined
def row_of(t, shape):
    """Outer index, output d and output h of task t; `shape` is (D, H) of the output."""
    rest = t // shape[1]
    return rest // shape[0], rest % shape[0], t - rest * shape[1]


@inlined
def row_after(o, d, h, shape):
    """The row after (o, d, h), without the divisions."""
    h += 1
    if h == shape[1]:
        h, d = 0, d + 1
        if d == shape[0]:
            d, o = 0, o + 1
    return o, d, h


class Given(NamedTuple):
    """What each row of a kernel is given: pointers to what is read and written, to row buffers and the integers."""

    x: Any
    out: Any
    where: Any
    work: Any
    lines: Any
    numbers: Any


def by_rows(row):
    """The kernel whose tasks are output rows, which row(given, geometry, t, o, d, h, share) computes one after the
    other: task t is row (o, d, h), and `share` is what its sums are divided by.
    """
    compute = looped(row)

    def kernel(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        given, geometry = Given(x, out, where, work, lines, numbers), geometry_at(numbers, divisors)
        o, d, h = row_of(first_task, geometry.output)
        for t in range(first_task, last_task):
            compute(given, geometry, t, o, d, h, share_at(geometry, d, h))
            o, d, h = row_after(o, d, h, geometry.output)

    return kernel


@inlined
def plane_at(geometry, o, d):
    """Where in x the first plane of the windows of output plane (o, d) begins."""
    many, far, near, deep, _ = geometry.apart
    outer = o if many == 1 else o // many
    return outer * far + (o - outer * many) * near + geometry.begins[0][d] * deep


@inlined
def begin_at(geometry, o, d, h):
    """Where in x the first line of the windows of output row (o, d, h) begins."""
    return plane_at(geometry, o, d) + geometry.begins[1][h] * geometry.apart.high


@inlined
def steps_in(geometry):
    """How far the next plane and the next line of a window are in x."""
    return geometry.steps[0] * geometry.apart.deep, geometry.steps[1] * geometry.apart.high


@looped
def prefetch_lines(x, first, lines, step):
    """Prefetches cache lines, `step` elements apart, in the order of memory.

    Reading several short rows at once defeats the hardware prefetchers, which follow one ascending stream; this loop is
    that stream. Rows of 1 kB (AMD EPYC Zen 4): 2x2 windows took 0.58 of the time without it, 7x7 with stride 3 0.55.
    Touching the lines by loads was no faster; an unrolled loop took 1.7 times as long.
    """
    optimise_later()
    for line in range(lines):
        prefetch(x, first + line * step)


@looped
def fill(work, to, size, how):
    optimise_later()
    to = unsigned(to)
    for w in range(unsigned(size)):
        work[to + w] = how.nothing


@looped
def join_two(work, to, a, b, size, how):
    optimise_later()
    to, a, b = unsigned(to), unsigned(a), unsigned(b)
    for w in range(unsigned(size)):
        work[to + w] = how.join(work[a + w], work[b + w])


@looped
def join_three(work, to, a, b, c, size, how):
    optimise_later()
    to, a, b, c = unsigned(to), unsigned(a), unsigned(b), unsigned(c)
    for w in range(unsigned(size)):
        work[to + w] = how.join(how.join(work[a + w], work[b + w]), work[c + w])


@looped
def join_row(work, to, size, x, at, how):
    optimise_later()
    to, at = unsigned(to), unsigned(at)
    for w in range(unsigned(size)):
        work[to + w] = how.join(work[to + w], how.lift(x[at + w]))


@inlined
def _after(at, line, lines, step):
    """Of a window's rows in x, line by line and plane by plane, the one after that at `at`: where it is, its line."""
    if line + 1 == lines:
        return at + step[0] - line * step[1], 0
    return at + step[1], line + 1


@looped
def join_rows(work, to, size, x, at, planes, lines, step, how):
    """At `to`, the rows of a window in x, up to 5 in one pass; `step` leads to the next plane and the next line. A pass
    of 5 takes 0.8 of the time of two passes, but one of 7 took 1.2 times as long as two (AVX-512).
    """
    optimise_later()
    left, line, fresh = planes * lines, 0, True
    if left == 0:
        fill(work, to, size, how)
    to, n = unsigned(to), unsigned(size)
    while left > 0:
        a, (at, line) = unsigned(at), _after(at, line, lines, step)
        b, (two, line_two) = unsigned(at), _after(at, line, lines, step)
        c, (three, line_three) = unsigned(two), _after(two, line_two, lines, step)
        d, (four, line_four) = unsigned(three), _after(three, line_three, lines, step)
        e, (five, line_five) = unsigned(four), _after(four, line_four, lines, step)
        if left % 4 == 1 and left > 4:
            for w in range(n):
                low = how.join(how.lift(x[b + w]), how.lift(x[c + w]))
                high = how.join(how.lift(x[d + w]), how.lift(x[e + w]))
                work[to + w] = how.join(how.lift(x[a + w]), how.join(low, high))
        elif left >= 4 and not fresh:
            for w in range(n):
                low = how.join(how.lift(x[a + w]), how.lift(x[b + w]))
                high = how.join(how.lift(x[c + w]), how.lift(x[d + w]))
                work[to + w] = how.join(work[to + w], how.join(low, high))
        elif left % 4 == 0:
            for w in range(n):
                low = how.join(how.lift(x[a + w]), how.lift(x[b + w]))
                work[to + w] = how.join(low, how.join(how.lift(x[c + w]), how.lift(x[d + w])))
        elif left % 4 == 3:
            for w in range(n):
                low = how.join(how.lift(x[a + w]), how.lift(x[b + w]))
                work[to + w] = how.join(low, how.lift(x[c + w]))
        elif left % 4 == 2:
            for w in range(n):
                work[to + w] = how.join(how.lift(x[a + w]), how.lift(x[b + w]))
        else:
            for w in range(n):
                work[to + w] = how.lift(x[a + w])
        if left % 4 == 1 and left > 4:
            at, line, left = five, line_five, left - 5
        elif left % 4 == 0:
            at, line, left = four, line_four, left - 4
        elif left % 4 == 3:
            at, line, left = three, line_three, left - 3
        elif left % 4 == 2:
            at, line, left = two, line_two, left - 2
        else:
            left -= 1
        fresh = False


@looped
def side_by_side(work, length, stride):
    """Brings elements of one residue of the stride side by side, behind the row at 0."""
    optimise_later()
    each, to, step = unsigned(length // stride), unsigned(length), unsigned(stride)
    for w in range(each):
        for residue in range(step):
            work[to + residue * each + w] = work[step * w + residue]


@looped
def sample(work, to, size, at, stride, inner):
    """Every stride-th group of `inner` totals, at `to`: of three, two thirds of the time where each is named."""
    optimise_later()
    to, at, step, channels = unsigned(to), unsigned(at), unsigned(stride * inner), unsigned(inner)
    one, two, three = unsigned(1), unsigned(2), unsigned(3)
    if inner == 1:
        for w in range(unsigned(size)):
            work[to + w] = work[at + step * w]
    elif inner == 3:
        for w in range(unsigned(size // 3)):
            work[to + three * w] = work[at + step * w]
            work[to + three * w + one] = work[at + step * w + one]
            work[to + three * w + two] = work[at + step * w + two]
    else:
        for w in range(unsigned(size // inner)):
            for i in range(channels):
                work[to + channels * w + i] = work[at + step * w + i]


@looped
def finish_row(out, at, size, work, terms, a, b, c, share, first, how):
    """The last pass along the row, and from sums to means."""
    optimise_later()
    at, a, b, c, first = unsigned(at), unsigned(a), unsigned(b), unsigned(c), unsigned(first)
    if terms == 1:
        for w in range(unsigned(size)):
            out[at + w] = how.finish(work[a + w], share, first + w)
    elif terms == 2:
        for w in range(unsigned(size)):
            total = how.join(work[a + w], work[b + w])
            out[at + w] = how.finish(total, share, first + w)
    else:
        for w in range(unsigned(size)):
            total = how.join(how.join(work[a + w], work[b + w]), work[c + w])
            out[at + w] = how.finish(total, share, first + w)


def window_of(taps: int, element: Callable[..., Any]) -> Callable[..., Any]:
    """The join of that many elements from the one at `tap` on, where element(work, at, tap, places, how) is one."""
    if taps == 1:
        return element
    some, half, rest = window_of(taps // 2, element), unsigned(taps // 2), unsigned(taps - 1)

    def pair(work, at, tap, places, how):
        first = some(work, at, tap, places, how)
        return how.join(first, some(work, at, tap + half, places, how))

    def three(work, at, tap, places, how):
        first = two(work, at, tap, places, how)
        return how.join(first, element(work, at, tap + rest, places, how))

    two: Callable[..., Any] = inlined(pair)
    return two if taps % 2 == 0 else cast("Callable[..., Any]", inlined(three))


NOWHERE = np.int32(2**31 - 1)


@inlined
def _line(geometry, d, h, line):
    """Which plane of the windows of output row (d, h) their row `line` is in, and which row it is there."""
    in_d = 0 if geometry.counts[0][d] == 1 else line // geometry.counts[1][h]
    return in_d, line - in_d * geometry.counts[1][h]


@inlined
def line_at(geometry, o, d, h, line):
    """Where row `line` of the windows of output row (o, d, h) begins in x."""
    (deep, high), (in_d, in_h) = steps_in(geometry), _line(geometry, d, h, np.int64(line))
    return unsigned(begin_at(geometry, o, d, h) + in_d * deep + in_h * high)


@inlined
def steps_to(geometry, d, h, line):
    """How many rows of the plane their row `line` comes after their first one."""
    in_d, in_h = _line(geometry, d, h, np.int64(line))
    return in_d * geometry.steps[0] * geometry.input[1] + in_h * geometry.steps[1]


@inlined
def place_of(geometry, d, h, line):
    """The row of the plane that is row `line` of the windows of output row (d, h)."""
    first = geometry.begins[0][d] * geometry.input[1] + geometry.begins[1][h]
    return first + steps_to(geometry, d, h, line)
