"""Weighted sums: means of areas, whose border elements count partly."""

from __future__ import annotations

from poolcli.engine.compiled.geometry import TABLES_AT
from poolcli.engine.compiled.intrinsics import looped, offset, optimise_later, param_at
from poolcli.engine.compiled.kernels.rows import by_rows, finish_row, row_offset, unsigned, window_strides


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
def _weighted_sums(work, to, columns, inner, begin, count, weights, longest, ops):
    """The weighted sums along the first row of `work`, window by window, for every inner element."""
    optimise_later()
    to, many, most = unsigned(to), unsigned(inner), unsigned(longest)
    for w in range(unsigned(columns)):
        first, own = unsigned(begin[w]) * many, w * most
        for c in range(many):
            total, at = ops.identity, first + c
            for j in range(unsigned(count[w])):
                total = total + work[at + j * many] * ops.weight(weights[own + j])
            work[to + w * many + c] = total


def weighted_sum(ops, fixed):
    """Windows of any position and size along H and W: first the rows, then along the row, tap by tap, in the order of
    the numpy engine.
    """

    @by_rows
    def row(args, geometry, t, o, d, h, divisors):
        optimise_later()
        work, high, wide = args.work, param_at(args.params, 0), param_at(args.params, 1)
        width, shape, size, inner = geometry.input_shape[2], geometry.output_shape, geometry.row_size, geometry.inner
        columns = size // inner
        along_h = offset(args.params, TABLES_AT + 2 * (shape[0] + shape[1] + columns))
        along_w = offset(along_h, shape[1] * high)
        begin_w, (_, count_h, count_w), (_, step) = geometry.starts[2], geometry.counts, window_strides(geometry)
        first = row_offset(geometry, o, d, h)
        for i in range(count_h[h]):
            _add_weighted_row(work, width, args.x, first + i * step, ops.weight(along_h[h * high + i]), i == 0, ops)
        _weighted_sums(work, width, columns, inner, begin_w, count_w, along_w, wide, ops)
        finish_row(args.out, t * size, size, work, 1, width, 0, 0, divisors, 0, ops)

    return row
