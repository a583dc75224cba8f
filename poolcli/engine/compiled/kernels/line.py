"""Windows of one row, straight from x: where rows need not be joined, a row buffer takes a third of the time."""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.geometry import Taps
from poolcli.engine.compiled.kernels.passed import passed_on
from poolcli.engine.compiled.kernels.rows import begin_at, row_of, unsigned
from poolcli.engine.compiled.kernels.window import window_of
from poolcli.engine.compiled.numbers import lift
from poolcli.engine.compiled.pointers import (
    across_at,
    arithmetic_at,
    behind,
    geometry_at,
    inlined,
    looped,
    optimise_later,
    pointers_are_distinct,
    share_at,
)
from poolcli.engine.compiled.results import finish

signed = np.int64


def slide_line(arithmetic, taps: Taps):
    """A task is a piece of one row. Windows that reach beyond the row are taken one by one."""
    (given, _), (_, take) = passed_on(taps, _element_or_nothing), passed_on(taps, _element)
    whole, stride, shared = window_of(taps.kernel, _element_or_nothing), taps.stride, taps.kernel - taps.stride
    step = unsigned(stride)

    @looped
    def reaching(out, to, row, first, last, within, share, how):
        optimise_later()
        for w in range(first, last):
            out[to + w] = finish(whole(row, w * stride, unsigned(0), within, how), share, w, how, out)

    def slide_line(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        across, width, pad = across_at(numbers), geometry.input[2], across_at(numbers).pad
        pieces, within = -(-across.outputs // across.piece), (pad, width + pad)
        low, high = max(-(-(pad - shared) // stride), 0), (width + pad - taps.kernel) // stride + 1
        for t in range(first_task, last_task):
            o, d, h = row_of(t // pieces, geometry.output)
            share, to = share_at(geometry, d, h), t // pieces * geometry.size
            first = t % pieces * across.piece
            last = min(first + across.piece, across.outputs)
            begin = min(max(first, low), last)
            end = min(max(begin, high), last)
            row = behind(x, begin_at(geometry, o, d, h) - pad)
            reaching(out, to, row, first, begin, within, share, how)
            passed, start = given(row, begin * stride, within, how), unsigned(begin)
            inside, target = behind(row, begin * stride), behind(out, to + begin)
            for w in range(unsigned(end - begin)):
                total, passed = take(inside, step * w, passed, unsigned(0), how)
                target[w] = finish(total, share, start + w, how, out)
            reaching(out, to, row, end, last, within, share, how)

    return slide_line


@inlined
def _element(row, at, tap, places, how):
    return lift(row[at + tap], how)


@inlined
def _element_or_nothing(row, at, tap, within, how):
    """The element of that tap; outside what is within the row, nothing."""
    place = at + signed(tap)
    return lift(row[place], how) if within[0] <= place < within[1] else how.total.nothing
