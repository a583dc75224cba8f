"""Windows that slide by one over planes whose rows are too short to fill vectors, with outputs of the same size.

A plane is processed as one row, and elements of windows that are in another row of the plane are masked. 3x3 windows of
7 to 28 columns take 0.41 to 0.65 of the time of `slide` (float32, AMD EPYC Zen 4); with 56, it is 0.88 to 1.04.
"""

from __future__ import annotations

from poolcli.engine.compiled.geometry import RowWindows
from poolcli.engine.compiled.intrinsics import (
    assume_no_alias,
    divisors_at,
    inlined,
    load_geometry,
    looped,
    offset,
    optimise_later,
    record_at,
)
from poolcli.engine.compiled.kernels.rows import combine_rows, fill_identity, plane_offset, unrolled, unsigned


@looped
def _join_planes(work, x, first, planes, geometry, ops):
    """Combine the rows of the windows of some planes, one output row after the other.

    Output rows whose windows have the same number of rows, and start one row after the other, take one pass.
    """
    optimise_later()
    width, (_, begin, _), (_, count, _) = geometry.input_shape[2], geometry.starts, geometry.counts
    steps, rows = (0, geometry.dilations[1] * width), geometry.output_shape[1]
    for plane in range(planes):
        h = 0
        while h < rows:
            stop = h + 1
            while stop < rows and count[stop] == count[h] and begin[stop] == begin[stop - 1] + 1:
                stop += 1
            at = plane_offset(geometry, first + plane, 0) + begin[h] * width
            row = offset(work, (plane * rows + h) * width)
            combine_rows(row, (stop - h) * width, x, at, 1, count[h], steps, ops)
            h = stop


@looped
def _join_three_rows(work, size, x, inside, apart, step, ops):
    """Combine three rows, `step` elements apart, for outputs of whole planes; rows outside the plane are masked.

    The first and the last row of a plane, in passes of their own, are too short to fill vectors.
    """
    optimise_later()
    combine = ops.combine
    lift = ops.lift
    below, last, middle, end = unsigned(step), unsigned(2 * step), unsigned(apart), unsigned(2 * apart)
    for i in range(unsigned(size)):
        a, b, c = lift(x[i]), lift(x[i + below]), lift(x[i + last])
        a = a if inside[i] else ops.identity
        b = b if inside[i + middle] else ops.identity
        c = c if inside[i + end] else ops.identity
        work[i] = combine(combine(a, b), c)


def slide_planes(ops, spec):
    """A task is a group of planes, in parts of `masked` outputs.

    `iwork` has the masks of a part: for each tap, whether it is inside the row of its output; and if `three_rows`, for
    each row of the windows, whether it is inside the plane. Parts are whole planes then.
    """
    window = unrolled(spec.launch.fixed.kernel, _tap)

    def slide_planes(x, out, positions, work, iwork, params, divisor_table, first_task, last_task):
        assume_no_alias()
        optimise_later()
        geometry = load_geometry(params, divisor_table)
        windows, group, planes = record_at(params, 0, RowWindows), params[9], params[10]
        masked, three_rows, above = params[11], params[12], params[13]
        width, height, divisors = geometry.input_shape[2], geometry.output_shape[1], divisors_at(geometry, 0, 0)
        size, margin = height * width, windows.kernel * windows.dilation
        whole, down, inside_h = group * size, geometry.dilations[1], offset(iwork, windows.kernel * masked)
        for tap in range(windows.kernel):
            for i in range(masked):
                iwork[tap * masked + i] = 0 <= i % width + tap * windows.dilation - windows.pad < width
        for row in range(3 * three_rows):
            for i in range(masked):
                inside_h[row * masked + i] = 0 <= i % size // width + row * down - above < height
        is_one_row = three_rows == 1 and geometry.strides.split == 1 and geometry.strides.far == size
        fill_identity(work, whole + 2 * margin, ops)
        rows, unit, apart = offset(work, margin), unsigned(windows.dilation), unsigned(masked)
        for t in range(first_task, last_task):
            some, begin_x = min(group, planes - t * group), t * whole - above * width
            joins_three = is_one_row and begin_x >= 0 and begin_x + some * size + 2 * down * width <= planes * size
            if not joins_three:
                _join_planes(rows, x, t * group, some, geometry, ops)
            for first in range(0, some * size, masked):
                part = min(masked, some * size - first)
                if joins_three:
                    start = offset(x, plane_offset(geometry, 0, 0) + begin_x + first)
                    _join_three_rows(offset(rows, first), part, start, inside_h, masked, down * width, ops)
                begin, to = offset(rows, first - windows.pad), unsigned(t * whole + first)
                past = unsigned(0 if three_rows == 1 else first)  # whole planes have the same divisors
                for i in range(unsigned(part)):
                    total = window(begin, i, unsigned(0), (apart, unit, iwork), ops)
                    out[to + i] = ops.finish(total, divisors, past + i)

    return slide_planes


@inlined
def _tap(work, at, tap, places, ops):
    """Element `tap` of the window at `at`, or the identity if it is outside the row."""
    apart, unit, inside = places
    return work[at + tap * unit] if inside[tap * apart + at] else ops.identity
