"""Windows of any places and lengths, each on its own, and over many inner elements, which fill vectors."""

from __future__ import annotations

from poolcli.engine.compiled.geometry import LANES, SHORT
from poolcli.engine.compiled.kernels.rows import (
    begin_at,
    by_rows,
    fill,
    finish_row,
    join_row,
    join_rows,
    join_two,
    steps_in,
    unsigned,
)
from poolcli.engine.compiled.pointers import behind, looped, more_at, optimise_later


@looped
def _each_short(work, to, size, begin, count, step, longest, how):
    """Short windows anywhere in the row, joined one tap of all of them at a time: no branch depends on a length."""
    optimise_later()
    to = unsigned(to)
    fill(work, to, size, how)
    for j in range(longest):
        for w in range(unsigned(size)):
            at = unsigned(begin[w] + min(j, count[w] - 1) * step)
            work[to + w] = how.join(work[to + w], work[at] if j < count[w] else how.nothing)


def each(how, taps):
    """Windows of any places and lengths, each on its own; those along W are given for every inner element."""

    @by_rows
    def row(given, geometry, t, o, d, h, share):
        optimise_later()
        x, work, longest = given.x, given.work, more_at(given.numbers, 0)
        width, size, inner = geometry.input[2], geometry.size, geometry.inner
        begin_w, (count_d, count_h, count_w) = geometry.begins[2], geometry.counts
        first, step_w = begin_at(geometry, o, d, h), geometry.steps[2] * inner
        in_place = count_d[d] * count_h[h] == 1 and longest > SHORT and how.is_own_total
        if not in_place:
            join_rows(work, 0, width, x, first, count_d[d], count_h[h], steps_in(geometry), how)
        if longest <= SHORT:
            _each_short(work, width, size, begin_w, count_w, step_w, longest, how)
        elif in_place:
            for w in range(size):
                work[width + w] = how.join_elements(x, first + begin_w[w], count_w[w], step_w)
        else:
            for w in range(size):
                work[width + w] = how.join_totals(work, begin_w[w], count_w[w], step_w)
        finish_row(given.out, t * size, size, work, 1, width, 0, 0, share, 0, how)

    return row


@looped
def _join_totals(work, to, size, totals, at, how):
    optimise_later()
    to, at = unsigned(to), unsigned(at)
    for w in range(unsigned(size)):
        work[to + w] = how.join(work[to + w], totals[at + w])


@looped
def _join_columns(work, size, join_one, values, at, count, step, how):
    """At 0 of `work` the totals of `count` columns of `size` elements; columns are `step` apart."""
    optimise_later()
    lanes = LANES if how.fills_lanes and step == size else 1
    whole = count // lanes * lanes
    fill(work, 0, lanes * size, how)
    for first in range(0, whole, lanes):
        for lane in range(lanes):
            join_one(work, lane * size, size, values, at + (first + lane) * step, how)
    half = lanes // 2
    while half > 0:
        join_two(work, 0, 0, half * size, half * size, how)
        half //= 2
    for column in range(whole, count):
        join_one(work, 0, size, values, at + column * step, how)


def each_inner(how, taps):
    """A window at a time, with all inner elements: its rows are joined, where they are several, then its columns."""

    @by_rows
    def row(given, geometry, t, o, d, h, share):
        optimise_later()
        x, work, size, inner = given.x, given.work, geometry.size, geometry.inner
        begin_w, (count_d, count_h, count_w) = geometry.begins[2], geometry.counts
        joined, step = behind(work, LANES * inner), geometry.steps[2] * inner
        for pixel in range(size // inner):
            at, count, first = begin_at(geometry, o, d, h) + begin_w[pixel] * inner, count_w[pixel], pixel * inner
            if count_d[d] * count_h[h] == 1:
                _join_columns(work, inner, join_row, x, at, count, step, how)
            else:
                reach = max(0, (count - 1) * step + inner)
                join_rows(joined, 0, reach, x, at, count_d[d], count_h[h], steps_in(geometry), how)
                _join_columns(work, inner, _join_totals, joined, 0, count, step, how)
            finish_row(given.out, t * size + first, inner, work, 1, 0, 0, 0, share, first, how)

    return row
