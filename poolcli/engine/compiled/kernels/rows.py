"""Rows of the view: their positions, and how rows of a window, or elements of a row, are combined.

The order of operations is defined here: two windows of m elements give one of 2m, or 2m + 1 with another element, and
rows are combined four by four.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from poolcli.engine.compiled.intrinsics import (
    assume_no_alias,
    divisors_at,
    expanded,
    inlined,
    looped,
    offset,
    optimise_later,
    prefetch,
    touch,
)

unsigned = np.uint64


@expanded
def row_index(t, shape):
    """Outer index, d and h of output row t; `shape` is (D, H) of the output."""
    rest = t // shape[1]
    return rest // shape[0], rest % shape[0], t - rest * shape[1]


@inlined
def next_row(o, d, h, shape):
    """The row after (o, d, h), without the divisions."""
    h += 1
    if h == shape[1]:
        h, d = 0, d + 1
        if d == shape[0]:
            d, o = 0, o + 1
    return o, d, h


class Arguments(NamedTuple):
    """The pointer arguments of a kernel, and its own parameters."""

    x: Any
    out: Any
    positions: Any
    work: Any
    iwork: Any
    params: Any


def by_rows(row):
    """The kernel whose tasks are output rows: row(args, geometry, t, o, d, h, divisors) computes row t, (o, d, h)."""
    compute = looped(row)

    def kernel(x, out, positions, work, iwork, params, first_task, last_task):
        assume_no_alias()
        optimise_later()
        geometry, own = params[0]
        args = Arguments(x, out, positions, work, iwork, own)
        o, d, h = row_index(first_task, geometry.output_shape)
        for t in range(first_task, last_task):
            compute(args, geometry, t, o, d, h, divisors_at(geometry, d, h))
            o, d, h = next_row(o, d, h, geometry.output_shape)

    return kernel


@expanded
def plane_offset(geometry, o, d):
    """The position in x of the first plane of the windows of output plane (o, d)."""
    split, far, near, plane, _ = geometry.strides
    outer = o if split == 1 else o // split
    return outer * far + (o - outer * split) * near + geometry.starts[0][d] * plane


@expanded
def row_offset(geometry, o, d, h):
    """The position in x of the first row of the windows of output row (o, d, h)."""
    return plane_offset(geometry, o, d) + geometry.starts[1][h] * geometry.strides.row


@expanded
def window_strides(geometry):
    """The distances in x to the next plane and to the next row of a window."""
    return geometry.dilations[0] * geometry.strides.plane, geometry.dilations[1] * geometry.strides.row


@looped
def prefetch_lines(x, first, lines, step):
    """Prefetch cache lines, `step` elements apart, in ascending order.

    Reading several short rows at once defeats the hardware prefetchers, which follow one ascending stream; this loop is
    that stream. Rows of 1 kB (AMD EPYC Zen 4): 2x2 windows took 0.58 of the time without it, 7x7 with stride 3 0.55.
    Touching the lines by loads was no faster; an unrolled loop took 1.7 times as long.
    """
    optimise_later()
    for line in range(lines):
        prefetch(x, first + line * step)


@looped
def touch_rows(x, at, rows, row, size, step):
    """Load one element of each cache line of `rows` rows of one plane, one row after the other; `step` elements are a
    cache line. Windows that lie in the padding have no rows: loads, unlike prefetches, must be inside the array.

    Hardware prefetchers run ahead of loads in one ascending stream, but not of prefetches. Rows of more than 2 kB, of
    windows that do not overlap (AMD EPYC Zen 4): 0.66 to 0.9 of the time with prefetching. Shorter rows end before the
    prefetchers have learnt them, and computing waits for loads, not for prefetches.
    """
    optimise_later()
    for _ in range(rows):
        for element in range(0, size, step):
            touch(x, at + element)
        at += row


@looped
def fill_identity(total, size, ops):
    optimise_later()
    for w in range(unsigned(size)):
        total[w] = ops.identity


@looped
def combine_two(work, to, a, b, size, ops):
    optimise_later()
    to, a, b = unsigned(to), unsigned(a), unsigned(b)
    for w in range(unsigned(size)):
        work[to + w] = ops.combine(work[a + w], work[b + w])


@looped
def combine_three(work, to, a, b, c, size, ops):
    optimise_later()
    to, a, b, c = unsigned(to), unsigned(a), unsigned(b), unsigned(c)
    for w in range(unsigned(size)):
        work[to + w] = ops.combine(ops.combine(work[a + w], work[b + w]), work[c + w])


@looped
def combine_row(work, to, size, x, at, ops):
    optimise_later()
    to, at = unsigned(to), unsigned(at)
    for w in range(unsigned(size)):
        work[to + w] = ops.combine(work[to + w], ops.lift(x[at + w]))


@inlined
def _after(at, line, lines, step):
    """The row of a window after the one at `at`, which is number `line` of its plane: its position and number."""
    if line + 1 == lines:
        return at + step[0] - line * step[1], 0
    return at + step[1], line + 1


@looped
def combine_rows(total, size, x, at, planes, lines, step, ops):
    """Combine the rows of a window in the row `total`. The first one is at `at`; `step` has the distances to the next
    plane and to the next row.

    Up to 5 rows are combined in one pass: a pass of 5 takes 0.8 of the time of two, one of 7 took 1.2 times as long as
    two (AVX-512).
    """
    optimise_later()
    combine = ops.combine  # one by one: numba warns of tuples of functions
    lift = ops.lift
    pair = ops.pair
    n, left, line, fresh = unsigned(size), planes * lines, np.int64(0), True
    if left == 0:
        fill_identity(total, size, ops)
    while left > 0:
        a, (at, line) = offset(x, at), _after(at, line, lines, step)
        b, (two, line_two) = offset(x, at), _after(at, line, lines, step)
        c, (three, line_three) = offset(x, two), _after(two, line_two, lines, step)
        d, (four, line_four) = offset(x, three), _after(three, line_three, lines, step)
        e, (five, line_five) = offset(x, four), _after(four, line_four, lines, step)
        if left % 4 == 1 and left > 4:
            for w in range(n):
                low, high = pair(b[w], c[w]), pair(d[w], e[w])
                total[w] = combine(lift(a[w]), combine(low, high))
            at, line, left = five, line_five, left - 5
        elif left % 4 == 0:
            if fresh:
                for w in range(n):
                    low, high = pair(a[w], b[w]), pair(c[w], d[w])
                    total[w] = combine(low, high)
            else:
                for w in range(n):
                    low, high = pair(a[w], b[w]), pair(c[w], d[w])
                    total[w] = combine(total[w], combine(low, high))
            at, line, left = four, line_four, left - 4
        elif left % 4 == 3:
            for w in range(n):
                total[w] = combine(pair(a[w], b[w]), lift(c[w]))
            at, line, left = three, line_three, left - 3
        elif left % 4 == 2:
            for w in range(n):
                total[w] = pair(a[w], b[w])
            at, line, left = two, line_two, left - 2
        else:
            for w in range(n):
                total[w] = lift(a[w])
            left -= 1
        fresh = False


@looped
def deinterleave(work, length, stride):
    """Sort the first row of `work` by the residue of positions modulo the stride, into the row after it."""
    optimise_later()
    each, to, step = unsigned(length // stride), unsigned(length), unsigned(stride)
    for w in range(each):
        for residue in range(step):
            work[to + residue * each + w] = work[step * w + residue]


@looped
def subsample(work, to, size, at, stride, inner):
    """Copy every stride-th group of `inner` elements to `to`; unrolling three takes two thirds of the time."""
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
def finish_row(out, at, size, work, terms, a, b, c, divisors, first, ops):
    """The last pass along the row, which combines up to three terms, and the outputs."""
    optimise_later()
    at, a, b, c, first = unsigned(at), unsigned(a), unsigned(b), unsigned(c), unsigned(first)
    if terms == 1:
        for w in range(unsigned(size)):
            out[at + w] = ops.finish(work[a + w], divisors, first + w)
    elif terms == 2:
        for w in range(unsigned(size)):
            total = ops.combine(work[a + w], work[b + w])
            out[at + w] = ops.finish(total, divisors, first + w)
    else:
        for w in range(unsigned(size)):
            total = ops.combine(ops.combine(work[a + w], work[b + w]), work[c + w])
            out[at + w] = ops.finish(total, divisors, first + w)


def unrolled(taps: int, element: Callable[..., Any], pair: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function that combines `taps` elements from `tap` on; element(work, at, tap, places, ops) returns one, and
    `pair`, if there is one, two.
    """
    if taps == 1:
        return element
    if taps == 2 and pair is not None:
        return pair
    some, half, rest = unrolled(taps // 2, element, pair), unsigned(taps // 2), unsigned(taps - 1)

    def both(work, at, tap, places, ops):
        first = some(work, at, tap, places, ops)
        return ops.combine(first, some(work, at, tap + half, places, ops))

    def and_one(work, at, tap, places, ops):
        first = even(work, at, tap, places, ops)
        return ops.combine(first, element(work, at, tap + rest, places, ops))

    even: Callable[..., Any] = pair if taps == 3 and pair is not None else inlined(both)
    return even if taps % 2 == 0 else cast("Callable[..., Any]", inlined(and_one))


@expanded
def line_offset(line, lines, steps):
    """The distance from the first row of a window to its row `line`. Each plane of it has `lines` rows; `steps` are the
    distances to the next plane and to the next row.
    """
    plane = 0 if line < lines else line // lines
    return plane * steps[0] + (line - plane * lines) * steps[1]
