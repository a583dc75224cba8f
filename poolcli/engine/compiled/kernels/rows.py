"""Rows of the canonical view, joined in the row buffer of a task."""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.engine.compiled.numbers import join, lift
from poolcli.engine.compiled.pointers import inlined, looped, optimise_later
from poolcli.engine.compiled.results import finish

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
def fill(work, to, size, how):
    optimise_later()
    to = unsigned(to)
    for w in range(unsigned(size)):
        work[to + w] = how.total.nothing


@looped
def join_two(work, to, a, b, size, how):
    optimise_later()
    to, a, b = unsigned(to), unsigned(a), unsigned(b)
    for w in range(unsigned(size)):
        work[to + w] = join(work[a + w], work[b + w], how)


@looped
def join_three(work, to, a, b, c, size, how):
    optimise_later()
    to, a, b, c = unsigned(to), unsigned(a), unsigned(b), unsigned(c)
    for w in range(unsigned(size)):
        work[to + w] = join(join(work[a + w], work[b + w], how), work[c + w], how)


@looped
def join_row(work, to, size, x, at, how):
    optimise_later()
    to, at = unsigned(to), unsigned(at)
    for w in range(unsigned(size)):
        work[to + w] = join(work[to + w], lift(x[at + w], how), how)


@inlined
def _after(at, line, lines, step):
    """Of a window's rows in x, line by line and plane by plane, the one after that at `at`: where it is, its line."""
    if line + 1 == lines:
        return at + step[0] - line * step[1], 0
    return at + step[1], line + 1


def rows_joined(back: bool) -> Any:
    """What joins the rows of a window in x, whose elements lie side by side: in order, or back to front, where
    totals rather than elements change places.
    """
    place: Any = inlined((lambda to, w: to - w) if back else (lambda to, w: to + w))

    @looped
    def join_rows(work, to, size, x, at, planes, lines, step, how):
        """At `to`, the rows of a window in x, up to 4 in one pass; `step` leads to the next plane and the next line."""
        optimise_later()
        left, line, fresh = planes * lines, 0, True
        if left == 0:
            fill(work, to, size, how)
        if back:
            to, at = to + size - 1, at - size + 1
        to, n = unsigned(to), unsigned(size)
        while left > 0:
            a, (at, line) = unsigned(at), _after(at, line, lines, step)
            b, (two, line_two) = unsigned(at), _after(at, line, lines, step)
            c, (three, line_three) = unsigned(two), _after(two, line_two, lines, step)
            d, (four, line_four) = unsigned(three), _after(three, line_three, lines, step)
            if left >= 4 and not fresh:
                for w in range(n):
                    low = join(lift(x[a + w], how), lift(x[b + w], how), how)
                    high = join(lift(x[c + w], how), lift(x[d + w], how), how)
                    work[place(to, w)] = join(work[place(to, w)], join(low, high, how), how)
            elif left % 4 == 0:
                for w in range(n):
                    low = join(lift(x[a + w], how), lift(x[b + w], how), how)
                    work[place(to, w)] = join(low, join(lift(x[c + w], how), lift(x[d + w], how), how), how)
            elif left % 4 == 3:
                for w in range(n):
                    low = join(lift(x[a + w], how), lift(x[b + w], how), how)
                    work[place(to, w)] = join(low, lift(x[c + w], how), how)
            elif left % 4 == 2:
                for w in range(n):
                    work[place(to, w)] = join(lift(x[a + w], how), lift(x[b + w], how), how)
            else:
                for w in range(n):
                    work[place(to, w)] = lift(x[a + w], how)
            if left % 4 == 0:
                at, line, left = four, line_four, left - 4
            elif left % 4 == 3:
                at, line, left = three, line_three, left - 3
            elif left % 4 == 2:
                at, line, left = two, line_two, left - 2
            else:
                left -= 1
            fresh = False

    return join_rows


join_rows = rows_joined(back=False)


@looped
def side_by_side(work, length, stride):
    """Brings elements of one residue of the stride side by side, behind the row at 0."""
    optimise_later()
    each, to, step = unsigned(length // stride), unsigned(length), unsigned(stride)
    for w in range(each):
        for residue in range(step):
            work[to + residue * each + w] = work[step * w + residue]


@looped
def finish_row(out, at, size, work, terms, a, b, c, share, first, how):
    """The last pass along the row, and from sums to means."""
    optimise_later()
    at, a, b, c, first = unsigned(at), unsigned(a), unsigned(b), unsigned(c), unsigned(first)
    if terms == 1:
        for w in range(unsigned(size)):
            out[at + w] = finish(work[a + w], share, first + w, how, out)
    elif terms == 2:
        for w in range(unsigned(size)):
            total = join(work[a + w], work[b + w], how)
            out[at + w] = finish(total, share, first + w, how, out)
    else:
        for w in range(unsigned(size)):
            total = join(join(work[a + w], work[b + w], how), work[c + w], how)
            out[at + w] = finish(total, share, first + w, how, out)
