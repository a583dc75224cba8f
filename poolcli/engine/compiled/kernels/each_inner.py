"""Windows of any places and lengths over many inner elements, which fill vectors: added as `each` adds those of one."""

from __future__ import annotations

from poolcli.engine.compiled.geometry import LANES
from poolcli.engine.compiled.kernels.rows import (
    begin_at,
    fill,
    finish_row,
    join_row,
    join_rows,
    join_two,
    row_after,
    row_of,
    steps_in,
    unsigned,
)
from poolcli.engine.compiled.numbers import join, lanes_of
from poolcli.engine.compiled.pointers import (
    arithmetic_at,
    behind,
    geometry_at,
    looped,
    optimise_later,
    pointers_are_distinct,
    share_at,
)


@looped
def _join_totals(work, to, size, totals, at, how):
    optimise_later()
    to, at = unsigned(to), unsigned(at)
    for w in range(unsigned(size)):
        work[to + w] = join(work[to + w], totals[at + w], how)


@looped
def _join_columns(work, size, join_one, values, at, count, step, how):
    """At 0 of `work` the totals of `count` columns of `size` elements; columns are `step` apart."""
    optimise_later()
    lanes = lanes_of(step == size, how)
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


def each_inner(arithmetic, taps):
    """A window at a time, with all inner elements: its rows are joined, where they are several, then its columns."""

    def each_inner(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        shape, size, inner, step = geometry.output, geometry.size, geometry.inner, geometry.steps[2] * geometry.inner
        begin_w, (count_d, count_h, count_w), steps = geometry.begins[2], geometry.counts, steps_in(geometry)
        joined = behind(work, LANES * inner)
        o, d, h = row_of(first_task, shape)
        for t in range(first_task, last_task):
            share = share_at(geometry, d, h)
            for pixel in range(size // inner):
                at, count, first = begin_at(geometry, o, d, h) + begin_w[pixel] * inner, count_w[pixel], pixel * inner
                if count_d[d] * count_h[h] == 1:
                    _join_columns(work, inner, join_row, x, at, count, step, how)
                else:
                    reach = max(0, (count - 1) * step + inner)
                    join_rows(joined, 0, reach, x, at, count_d[d], count_h[h], steps, how)
                    _join_columns(work, inner, _join_totals, joined, 0, count, step, how)
                finish_row(out, t * size + first, inner, work, 1, 0, 0, 0, share, first, how)
            o, d, h = row_after(o, d, h, shape)

    return each_inner
