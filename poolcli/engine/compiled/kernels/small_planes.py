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


def slide_planes(ops, spec):
    """A task is a group of planes. `iwork` has the mask: for each tap, whether it is inside the row of its output."""
    window = unrolled(spec.launch.fixed.kernel, _tap)

    def slide_planes(x, out, positions, work, iwork, params, divisor_table, first_task, last_task):
        assume_no_alias()
        optimise_later()
        geometry = load_geometry(params, divisor_table)
        windows, group, planes = record_at(params, 0, RowWindows), params[9], params[10]
        width, size, divisors = (
            geometry.input_shape[2],
            geometry.output_shape[1] * geometry.input_shape[2],
            divisors_at(geometry, 0, 0),
        )
        margin, whole = windows.kernel * windows.dilation, group * size
        masked = params[11]
        for tap in range(windows.kernel):
            for i in range(masked):
                iwork[tap * masked + i] = 0 <= i % width + tap * windows.dilation - windows.pad < width
        fill_identity(work, whole + 2 * margin, ops)
        rows, unit, apart = offset(work, margin), unsigned(windows.dilation), unsigned(masked)
        for t in range(first_task, last_task):
            some = min(group, planes - t * group)
            _join_planes(rows, x, t * group, some, geometry, ops)
            for first in range(0, some * size, masked):
                begin, to, past = offset(rows, first - windows.pad), unsigned(t * whole + first), unsigned(first)
                for i in range(unsigned(min(masked, some * size - first))):
                    total = window(begin, i, unsigned(0), (apart, unit, iwork), ops)
                    out[to + i] = ops.finish(total, divisors, past + i)

    return slide_planes


@inlined
def _tap(work, at, tap, places, ops):
    """Element `tap` of the window at `at`, or the identity if it is outside the row."""
    apart, unit, inside = places
    return work[at + tap * unit] if inside[tap * apart + at] else ops.identity
