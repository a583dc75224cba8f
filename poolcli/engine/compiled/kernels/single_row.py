"""Windows of one row, read from x without a row buffer, which would take a third of the time.

Windows share none, one or half of their elements with the next one. What they share is passed on, so that every element
is read once (without it, maxima took 1.6 times as long).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from poolcli.engine.compiled.geometry import FixedWindow
from poolcli.engine.compiled.intrinsics import (
    assume_no_alias,
    clamp,
    divisors_at,
    inlined,
    looped,
    offset,
    optimise_later,
)
from poolcli.engine.compiled.kernels.rows import row_index, row_offset, unrolled, unsigned


class SharedPart(NamedTuple):
    """The part of a window that the next one shares.

    first(source, at, places, ops): the part that the window at `at` shares with the one before it.
    total(source, at, shared, places, ops): the total of the window, and the part that the next one shares.
    """

    first: Callable[..., Any]
    total: Callable[..., Any]


Element = Callable[..., Any]  # element(source, at, tap, places, ops)


def shared_part(fixed: FixedWindow, element: Element) -> SharedPart:
    """For windows of that size and stride, by half of their elements, one or none."""
    if fixed.kernel == fixed.stride:
        return _none(fixed, element)
    return _half(fixed, element) if fixed.kernel == 2 * fixed.stride else _one(fixed, element)


def _none(fixed: FixedWindow, element: Element) -> SharedPart:
    whole = unrolled(fixed.kernel, element)

    @inlined
    def first(source, at, places, ops):
        return ops.identity

    @inlined
    def total(source, at, shared, places, ops):
        return whole(source, at, unsigned(0), places, ops), shared

    return SharedPart(first, total)


def _half(fixed: FixedWindow, element: Element) -> SharedPart:
    half, stride = unrolled(fixed.stride, element), unsigned(fixed.stride)

    @inlined
    def first(source, at, places, ops):
        return half(source, at, unsigned(0), places, ops)

    @inlined
    def total(source, at, shared, places, ops):
        other = half(source, at + stride, unsigned(0), places, ops)
        return ops.combine(shared, other), other

    return SharedPart(first, total)


def _one(fixed: FixedWindow, element: Element) -> SharedPart:
    zero, last = unsigned(0), unsigned(fixed.stride)

    @inlined
    def element_or_end(source, at, tap, ends, ops):
        shared, other, places = ends
        return shared if tap == zero else other if tap == last else element(source, at, tap, places, ops)

    whole = unrolled(fixed.kernel, element_or_end)

    @inlined
    def first(source, at, places, ops):
        return element(source, at, zero, places, ops)

    @inlined
    def total(source, at, shared, places, ops):
        other = element(source, at, last, places, ops)
        return whole(source, at, zero, (shared, other, places), ops), other

    return SharedPart(first, total)


signed = np.int64


def slide_row(ops, spec):
    """A task is a piece of one row. Windows that are partly outside the row are computed one by one."""
    fixed = spec.launch.fixed
    (first_part, _), (_, total_of) = shared_part(fixed, _element_or_identity), shared_part(fixed, _element)
    whole, stride, overlap = unrolled(fixed.kernel, _element_or_identity), fixed.stride, fixed.kernel - fixed.stride
    step = unsigned(stride)

    @looped
    def partly_outside(out, to, row, first, last, within, divisors, ops):
        optimise_later()
        for w in range(first, last):
            out[to + w] = ops.finish(whole(row, w * stride, unsigned(0), within, ops), divisors, w)

    def slide_row(x, out, positions, work, iwork, params, first_task, last_task):
        assume_no_alias()
        optimise_later()
        geometry, (windows,) = params[0]
        width = geometry.input_shape[2]
        pad, pieces = windows.pad, -(-windows.outputs // windows.piece)
        within = pad, width + pad
        low, high = -(-(pad - overlap) // stride), (width + pad - fixed.kernel) // stride + 1
        for t in range(first_task, last_task):
            o, d, h = row_index(t // pieces, geometry.output_shape)
            divisors, to = divisors_at(geometry, d, h), t // pieces * geometry.row_size
            first = t % pieces * windows.piece
            last = clamp(first + windows.piece, 0, windows.outputs)
            begin = clamp(first, low, last)
            end = clamp(high, begin, last)
            row = offset(x, row_offset(geometry, o, d, h) - pad)
            partly_outside(out, to, row, first, begin, within, divisors, ops)
            shared, start = first_part(row, begin * stride, within, ops), unsigned(begin)
            inside, target = offset(row, begin * stride), offset(out, to + begin)
            for w in range(unsigned(end - begin)):
                total, shared = total_of(inside, step * w, shared, unsigned(0), ops)
                target[w] = ops.finish(total, divisors, start + w)
            partly_outside(out, to, row, end, last, within, divisors, ops)

    return slide_row


@inlined
def _element(row, at, tap, places, ops):
    return ops.lift(row[at + tap])


@inlined
def _element_or_identity(row, at, tap, within, ops):
    """The element, or the identity if it is outside the row, whose positions are `within`."""
    place = at + signed(tap)
    return ops.lift(row[place]) if within[0] <= place < within[1] else ops.identity
