"""Windows of any position and size (bins, areas, or sparse ones), combined one by one."""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.geometry import LANES
from poolcli.engine.compiled.intrinsics import inlined, looped, offset, optimise_later, select, sum_of_lanes
from poolcli.engine.compiled.kernels.rows import (
    by_rows,
    combine_row,
    combine_rows,
    combine_two,
    fill_identity,
    finish_row,
    row_offset,
    unsigned,
    window_strides,
)

signed = np.int64


def irregular_short(ops, spec):
    """Windows of up to SHORT_WINDOW elements along W. They have a constant number of taps, so that no loop depends on a
    window: 0.44 to 0.9 of the time of one tap of all windows after the other.

    Elements after a window are loaded, but not used: the joined row is followed by as many as a window may reach.
    """
    taps = unsigned(spec.launch.fixed.kernel)

    @by_rows
    def row(args, geometry, t, o, d, h, divisors):
        optimise_later()
        width, size, work = geometry.input_shape[2], geometry.row_size, args.work
        begin, (count_d, count_h, count), out = geometry.starts[2], geometry.counts, offset(args.out, t * size)
        first, step = row_offset(geometry, o, d, h), unsigned(geometry.dilations[2] * geometry.inner)
        combine_rows(work, width, args.x, first, count_d[d], count_h[h], window_strides(geometry), ops)
        for w in range(unsigned(size)):
            total, own = ops.identity, count[w]
            at = unsigned(begin[w] if own > 0 else 0)
            for j in range(taps):
                total = ops.combine(total, select(signed(j) < own, work[at + j * step], ops.identity))
            out[w] = ops.finish(total, divisors, w)

    return row


def _run_of(convert, ops, uses_lanes):
    """run(values, first, count, step): the total of `count` values, `step` apart, which `convert` makes accumulators.

    If `uses_lanes`, they are summed in LANES partial sums, whatever `step` is: a region may have fewer inner elements
    than the whole, and must give the same bits.
    """
    identity, combine = ops.identity, ops.combine

    @inlined
    def sum_of_lanes_apart(values, first, blocks, step):
        a = b = c = d = e = f = g = h = identity
        for block in range(blocks):
            at = first + block * LANES * step
            a += convert(values[unsigned(at)])
            b += convert(values[unsigned(at + step)])
            c += convert(values[unsigned(at + 2 * step)])
            d += convert(values[unsigned(at + 3 * step)])
            e += convert(values[unsigned(at + 4 * step)])
            f += convert(values[unsigned(at + 5 * step)])
            g += convert(values[unsigned(at + 6 * step)])
            h += convert(values[unsigned(at + 7 * step)])
        return ((a + e) + (c + g)) + ((b + f) + (d + h))

    @inlined
    def run(values, first, count, step):
        total = identity
        if uses_lanes:
            blocks = count // LANES
            if step == 1:
                total = sum_of_lanes(offset(values, first), blocks)
            else:
                total = sum_of_lanes_apart(values, first, blocks, step)
            for i in range(blocks * LANES, count):
                total = combine(total, convert(values[unsigned(first + i * step)]))
            return total
        for i in range(count):
            total = combine(total, convert(values[unsigned(first + i * step)]))
        return total

    return run


def irregular(ops, spec):
    """Windows of any position and size; those along W are repeated for every inner element."""
    combine_accumulators = _run_of(type(ops.identity), ops, spec.arithmetic.is_float_sum)

    @by_rows
    def row(args, geometry, t, o, d, h, divisors):
        optimise_later()
        width, size, work = geometry.input_shape[2], geometry.row_size, args.work
        begin, (count_d, count_h, count), out = geometry.starts[2], geometry.counts, offset(args.out, t * size)
        first, step = row_offset(geometry, o, d, h), geometry.dilations[2] * geometry.inner
        combine_rows(work, width, args.x, first, count_d[d], count_h[h], window_strides(geometry), ops)
        totals = offset(work, width)
        for w in range(size):
            totals[w] = combine_accumulators(work, begin[w], count[w], step)
        for w in range(unsigned(size)):
            out[w] = ops.finish(totals[w], divisors, w)

    return row


def irregular_row(ops, spec):
    """Windows of one row, which are read in place; those along W are repeated for every inner element."""
    combine_elements = _run_of(ops.lift, ops, spec.arithmetic.is_float_sum and spec.source.kind == "f")

    @by_rows
    def row(args, geometry, t, o, d, h, divisors):
        optimise_later()
        size, totals, out = geometry.row_size, args.work, offset(args.out, t * geometry.row_size)
        begin, count = geometry.starts[2], geometry.counts[2]
        source, step = offset(args.x, row_offset(geometry, o, d, h)), geometry.dilations[2] * geometry.inner
        for w in range(size):
            totals[w] = combine_elements(source, begin[w], count[w], step)
        for w in range(unsigned(size)):
            out[w] = ops.finish(totals[w], divisors, w)

    return row


@looped
def _combine_accumulators(work, to, size, totals, at, ops):
    optimise_later()
    to, at = unsigned(to), unsigned(at)
    for w in range(unsigned(size)):
        work[to + w] = ops.combine(work[to + w], totals[at + w])


@looped
def _combine_columns(work, size, combine_one, values, at, count, step, lanes, ops):
    """Combine `count` columns of `size` elements, `step` apart, in `lanes` rows of `work`, and these in the first."""
    optimise_later()
    whole = count // lanes * lanes
    fill_identity(work, lanes * size, ops)
    for first in range(0, whole, lanes):
        for lane in range(lanes):
            combine_one(work, lane * size, size, values, at + (first + lane) * step, ops)
    half = lanes // 2
    while half > 0:
        combine_two(work, 0, 0, half * size, half * size, ops)
        half //= 2
    for column in range(whole, count):
        combine_one(work, 0, size, values, at + column * step, ops)


def irregular_inner(ops, spec):
    """Windows with many inner elements, which fill vectors: the rows of a window are combined, then its columns."""
    lanes = LANES if spec.arithmetic.is_float_sum else 1

    @by_rows
    def row(args, geometry, t, o, d, h, divisors):
        optimise_later()
        x, work, size, inner = args.x, args.work, geometry.row_size, geometry.inner
        begin_w, (count_d, count_h, count_w) = geometry.starts[2], geometry.counts
        joined, step = offset(work, LANES * inner), geometry.dilations[2] * inner
        for pixel in range(size // inner):
            at, count, first = row_offset(geometry, o, d, h) + begin_w[pixel] * inner, count_w[pixel], pixel * inner
            if count_d[d] * count_h[h] == 1:
                _combine_columns(work, inner, combine_row, x, at, count, step, lanes, ops)
            else:
                reach = (count - 1) * step + inner if count > 0 else 0
                combine_rows(joined, reach, x, at, count_d[d], count_h[h], window_strides(geometry), ops)
                _combine_columns(work, inner, _combine_accumulators, joined, 0, count, step, lanes, ops)
            finish_row(args.out, t * size + first, inner, work, 1, 0, 0, 0, divisors, first, ops)

    return row


@looped
def _add_weighted_row(work, size, x, at, weight, starts, ops):
    """Add a row of x times its weight to the first row of `work`, or start with it."""
    optimise_later()
    at = unsigned(at)
    if starts:
        for w in range(unsigned(size)):
            work[w] = ops.lift(x[at + w]) * weight
    else:
        for w in range(unsigned(size)):
            work[w] = work[w] + ops.lift(x[at + w]) * weight


@looped
def _weighted_sums(work, to, columns, inner, begin, count, weights, longest, kind, ops):
    """The weighted sums along the first row of `work`, window by window, for every inner element."""
    optimise_later()
    to, many, most = unsigned(to), unsigned(inner), unsigned(longest)
    for w in range(unsigned(columns)):
        first, own = unsigned(begin[w]) * many, w * most
        for c in range(many):
            total, at = ops.identity, first + c
            for j in range(unsigned(count[w])):
                total = total + work[at + j * many] * kind(weights[own + j])
            work[to + w * many + c] = total


def weighted_sum(ops, spec):
    """Weighted sums of areas, whose border elements count partly, along H and W.

    Rows are summed first, and then along the row, tap by tap, in the order of the numpy engine.
    """
    kind = type(ops.identity)

    @by_rows
    def row(args, geometry, t, o, d, h, divisors):
        optimise_later()
        work, (high, wide), (along_h, along_w) = args.work, args.params, geometry.weights
        width, size, inner = geometry.input_shape[2], geometry.row_size, geometry.inner
        columns = size // inner
        begin_w, (_, count_h, count_w), (_, step) = geometry.starts[2], geometry.counts, window_strides(geometry)
        first = row_offset(geometry, o, d, h)
        for i in range(count_h[h]):
            _add_weighted_row(work, width, args.x, first + i * step, kind(along_h[h * high + i]), i == 0, ops)
        _weighted_sums(work, width, columns, inner, begin_w, count_w, along_w, wide, kind, ops)
        finish_row(args.out, t * size, size, work, 1, width, 0, 0, divisors, 0, ops)

    return row
