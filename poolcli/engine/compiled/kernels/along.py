"""Windows along the rows of a row buffer: of any size in passes, and of a constant size in one go, in one order
(`window_of`): so all give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from poolcli.engine.compiled.geometry import Taps
from poolcli.engine.compiled.kernels.rows import finish_row, join_three, join_two, side_by_side, unsigned
from poolcli.engine.compiled.kernels.window import window_of
from poolcli.engine.compiled.numbers import join
from poolcli.engine.compiled.pointers import inlined, looped, optimise_later
from poolcli.engine.compiled.results import finish


class Along(NamedTuple):
    """How windows along rows are taken: `prepare` works on all rows of the buffer, `write` makes a row of `out` of one.

    prepare(work, length, across, inner, how), for rows of `length` totals together, returns the numbers `found` that
    write(out, at, size, work, begin, length, found, across, inner, share, first, how) needs; its row begins at `begin`.
    """

    prepare: Callable[..., Any]
    write: Callable[..., Any]


def along(taps: Taps | None) -> Along:
    """For windows of that size and stride, or for any."""
    if taps is None:
        return _in_passes
    make = _side_by_side if taps.kernel == taps.stride > 1 else _in_one_go
    return make(taps.kernel, taps.stride)


@looped
def windows_by_passes(work, length, taps, unit, whole, how):
    """The join of `taps` elements, `unit` apart, from every position of the row at 0 of `work`.

    Windows of m taps give those of 2m (two of them) and of 2m + 1 (and one tap), so k taps cost log2(k) passes,
    through the two buffers behind the row. Unless `whole`, the last pass is left to the caller: returned are the
    number of terms that it joins and where they are.
    """
    optimise_later()
    bit, done, source = 1, 1, 0
    while 2 * bit <= taps:
        bit *= 2
    last = 1 if whole else 2
    while bit > last:
        bit //= 2
        shift, spare = done * unit, 2 * length if source == length else length
        if taps & bit:
            join_three(work, spare, source, source + shift, 2 * shift, length - 2 * shift, how)
        else:
            join_two(work, spare, source, source + shift, length - 2 * shift + unit, how)
        source, done = spare, 2 * done + (taps & bit != 0)
    terms = 1 if whole else min(taps, 2 + taps % 2)
    return terms, source, source + done * unit, 2 * done * unit


@inlined
def sampled_last(taps, stride, inner):
    """Whether windows are best joined at every position before they are sampled."""
    return stride > 1 and (inner > 1 or (stride == 2 and taps % 2 == 1))


@looped
def sample(work, to, size, terms, a, b, c, stride, inner, how):
    """The terms at every stride-th group of `inner` elements, joined, at `to`."""
    optimise_later()
    to, a, b, c, step, channels = (
        unsigned(to),
        unsigned(a),
        unsigned(b),
        unsigned(c),
        unsigned(stride * inner),
        unsigned(inner),
    )
    one, two, three = unsigned(1), unsigned(2), unsigned(3)
    if inner == 1 and stride == 2 and terms == 1:
        for w in range(unsigned(size)):
            work[to + w] = work[a + two * w]
    elif inner == 1 and stride == 2 and terms == 2:
        for w in range(unsigned(size)):
            work[to + w] = join(work[a + two * w], work[b + two * w], how)
    elif inner == 1 and terms == 1:
        for w in range(unsigned(size)):
            work[to + w] = work[a + step * w]
    elif inner == 1 and terms == 2:
        for w in range(unsigned(size)):
            work[to + w] = join(work[a + step * w], work[b + step * w], how)
    elif inner == 1:
        for w in range(unsigned(size)):
            work[to + w] = join(join(work[a + step * w], work[b + step * w], how), work[c + step * w], how)
    elif inner == 3:
        for w in range(unsigned(size // 3)):
            work[to + three * w] = work[a + step * w]
            work[to + three * w + one] = work[a + step * w + one]
            work[to + three * w + two] = work[a + step * w + two]
    else:
        for w in range(unsigned(size // inner)):
            for i in range(channels):
                work[to + channels * w + i] = work[a + step * w + i]


@inlined
def _prepare(work, length, across, inner, how):
    return windows_by_passes(
        work, length, across.kernel, across.dilation * inner, sampled_last(across.kernel, across.stride, inner), how
    )


@inlined
def _write(out, at, size, work, begin, length, found, across, inner, share, first, how):
    terms, a, b, c = found
    a, b, c, sampled = a + begin, b + begin, c + begin, 3 * length
    if across.stride > 1:
        sample(work, sampled, size, terms, a, b, c, across.stride, inner, how)
        terms, a = 1, sampled
    finish_row(out, at, size, work, terms, a, b, c, share, first, how)


_in_passes = Along(_prepare, _write)


def _in_one_go(taps: int, stride: int) -> Along:
    """Elements of one residue of the stride are brought side by side first, so that every tap of the next windows is
    the next one; many channels lie side by side already.
    """
    window, step = window_of(taps, _element(stride)), unsigned(stride)

    @inlined
    def prepare(work, length, across, inner, how):
        if stride > 1 and inner == 1:
            side_by_side(work, length, stride)
        return length

    @looped
    def write(out, at, size, work, begin, length, found, across, inner, share, first, how):
        optimise_later()
        at, first, unit = unsigned(at), unsigned(first), unsigned(across.dilation * inner)
        if stride == 1 or inner == 1:
            row = unsigned(begin if stride == 1 else length + begin // stride)
            apart = unsigned(length // stride)
            for w in range(unsigned(size)):
                out[at + w] = finish(window(work, row + w, unsigned(0), (apart, unit), how), share, first + w, how, out)
        else:
            channels, row = unsigned(inner), unsigned(begin)
            for w in range(unsigned(size // inner)):
                for c in range(channels):
                    to, source = channels * w + c, row + step * channels * w + c
                    total = window(work, source, unsigned(0), (channels, step * channels), how)
                    out[at + to] = finish(total, share, first + to, how, out)

    return Along(prepare, write)


def _side_by_side(taps: int, stride: int) -> Along:
    """Windows that lie side by side: their elements are sorted in registers, once."""
    of_channels, window, step = _in_one_go(taps, stride), window_of(taps, _next), unsigned(stride)

    @inlined
    def prepare(work, length, across, inner, how):
        return length

    @looped
    def write(out, at, size, work, begin, length, found, across, inner, share, first, how):
        optimise_later()
        if inner > 1:
            of_channels.write(out, at, size, work, begin, length, found, across, inner, share, first, how)
        else:
            at, first, row = unsigned(at), unsigned(first), unsigned(begin)
            for w in range(unsigned(size)):
                total = window(work, row + step * w, unsigned(0), unsigned(0), how)
                out[at + w] = finish(total, share, first + w, how, out)

    return Along(prepare, write)


def _element(stride: int) -> Callable[..., Any]:
    """One element; places: how far those of the next residue of the stride are, and the next ones of the same."""
    by = unsigned(stride)
    one: Callable[..., Any] = inlined(
        lambda work, at, tap, places, how: work[at + tap % by * places[0] + tap // by * places[1]]
    )
    return one


@inlined
def _next(work, at, tap, places, how):
    return work[at + tap]
