"""Windows that do not overlap: small ones, read from x without a row buffer, and 2x2 windows of RGB pixels."""

from __future__ import annotations

from sys import byteorder

import numpy as np

from poolcli.engine.compiled.geometry import VECTOR_BYTES
from poolcli.engine.compiled.intrinsics import add_pixels, inlined, looped, offset, optimise_later
from poolcli.engine.compiled.kernels.rows import (
    by_rows,
    combine_rows,
    finish_row,
    prefetch_lines,
    row_offset,
    subsample,
    touch_rows,
    unrolled,
    unsigned,
    window_strides,
)

zero = unsigned(0)


@inlined
def _element(x, at, row, step, ops):
    """The element in row `row` of a window; rows are `step` elements apart."""
    return ops.lift(x[at + row * step])


@inlined
def _two_elements(x, at, row, step, ops):
    at = at + row * step
    return ops.pair(x[at], x[at + step])


@inlined
def _total(work, at, tap, step, ops):
    return work[at + tap]


def tiles(ops, spec):
    """Windows of constant size, including the number of rows, and one channel; all are inside the input along W.

    A row buffer takes 1.2 times as long (rows of 1 kB, AMD EPYC Zen 4). It is used for windows cut along D or H.
    """
    fixed = spec.launch.fixed
    column, stride = unrolled(fixed.rows, _element, _two_elements), unsigned(fixed.stride)
    whole = unrolled(fixed.kernel, inlined(lambda x, at, tap, step, ops: column(x, at + tap, zero, step, ops)))
    joined, vector = unrolled(fixed.kernel, _total), unsigned(VECTOR_BYTES // ops.identity.dtype.itemsize)

    @by_rows
    def row(args, geometry, t, o, d, h, divisors):
        optimise_later()
        x, out, work, n, to = args.x, args.out, args.work, unsigned(geometry.row_size), unsigned(t * geometry.row_size)
        (count_d, count_h, _), steps, first = geometry.counts, window_strides(geometry), row_offset(geometry, o, d, h)
        used, rows = geometry.row_size * fixed.stride + fixed.kernel - fixed.stride, count_d[d] * count_h[h]
        (ahead,) = args.params
        prefetch_lines(x, first + ahead.first, ahead.lines, ahead.elements)
        if ahead.touches:
            touch_rows(x, first, rows, steps[1], used, ahead.elements)
        if rows == fixed.rows:
            at, step = unsigned(first), unsigned(steps[1] if count_h[h] == fixed.rows else steps[0])
            start, stop = zero, n if n < vector else n // vector * vector
            while start < stop:  # the last vector starts earlier and writes some outputs twice
                for w in range(start, stop):
                    out[to + w] = ops.finish(whole(x, at + stride * w, zero, step, ops), divisors, zero)
                start, stop = n - vector if stop < n else n, n
        else:
            combine_rows(work, used, x, first, count_d[d], count_h[h], steps, ops)
            for w in range(n):
                out[to + w] = ops.finish(joined(work, stride * w, zero, zero, ops), divisors, zero)

    return row


SUMS = 12  # of `add_pixels`


@inlined
def _pair_of_pairs(x, a, b, i, j, ops):
    """Combine elements i and j of the rows of x at a and b, in the order of other kernels."""
    return ops.combine(ops.pair(x[a + i], x[b + i]), ops.pair(x[a + j], x[b + j]))


@looped
def _pairs_of_any(work, x, a, b, size, ops):
    """Combine each pixel with the next one, and keep every other result; strided loads from x take twice as long."""
    optimise_later()
    three = unsigned(3)
    for i in range(unsigned(2 * size - 3)):
        work[i] = _pair_of_pairs(x, a, b, i, i + three, ops)
    subsample(work, 2 * size, size, 0, 2, 3)


@looped
def _pairs_of_bytes(work, x, a, b, size, ops):
    """Deinterleave bytes in registers: two thirds of the time. The last vector starts earlier."""
    optimise_later()
    if size < SUMS:
        _pairs_of_any(work, x, a, b, size, ops)
    else:
        for some in range(0, size, SUMS):
            to = some if some < size - SUMS else size - SUMS
            at = unsigned(2 * to)
            add_pixels(offset(work, 2 * size + to), offset(x, a + at), offset(x, b + at))


def rgb_tiles(ops, spec):
    """2x2 windows of three channels, in one pass; windows of other heights need a row buffer."""
    adds_bytes = (
        spec.source == np.uint8 and spec.arithmetic.accumulator == "sum" and spec.arithmetic.identity.dtype == np.int16
    )
    pairs_of_pixels = _pairs_of_bytes if adds_bytes and byteorder == "little" else _pairs_of_any

    @by_rows
    def row(args, geometry, t, o, d, h, divisors):
        optimise_later()
        x, work, size, used, three = args.x, args.work, geometry.row_size, 2 * geometry.row_size, unsigned(3)
        (count_d, count_h, _), steps, first = geometry.counts, window_strides(geometry), row_offset(geometry, o, d, h)
        if count_d[d] * count_h[h] == 2:
            a, b = unsigned(first), unsigned(first + (steps[1] if count_h[h] == 2 else steps[0]))
            pairs_of_pixels(work, x, a, b, size, ops)
        else:
            combine_rows(work, used, x, first, count_d[d], count_h[h], steps, ops)
            for i in range(unsigned(used - 3)):
                work[i] = ops.combine(work[i], work[i + three])
            subsample(work, 2 * size, size, 0, 2, 3)
        finish_row(args.out, t * size, size, work, 1, used, 0, 0, divisors, 0, ops)

    return row
