"""Windows that slide by one over planes whose rows are too short to fill vectors, with outputs of the same size.

A plane is processed as one row, and elements of windows that are in another row of the plane are masked.
"""

from __future__ import annotations

from poolcli.engine.compiled.geometry import Taps
from poolcli.engine.compiled.kernels.rows import fill, join_rows, plane_at, unsigned, window_of
from poolcli.engine.compiled.pointers import (
    across_at,
    behind,
    geometry_at,
    inlined,
    looped,
    more_at,
    optimise_later,
    pointers_are_distinct,
    share_at,
)


@looped
def _join_planes(work, x, first, planes, geometry, how):
    """Combine the rows of the windows of some planes, one output row after the other.

    Output rows whose windows have the same number of rows, and start one row after the other, take one pass.
    """
    optimise_later()
    width, (_, begin, _), (_, count, _) = geometry.input[2], geometry.begins, geometry.counts
    steps, rows = (0, geometry.steps[1] * width), geometry.output[1]
    for plane in range(planes):
        h = 0
        while h < rows:
            stop = h + 1
            while stop < rows and count[stop] == count[h] and begin[stop] == begin[stop - 1] + 1:
                stop += 1
            at = plane_at(geometry, first + plane, 0) + begin[h] * width
            join_rows(work, (plane * rows + h) * width, (stop - h) * width, x, at, 1, count[h], steps, how)
            h = stop


def slide_planes(how, taps: Taps):
    """A task is a group of planes. `lines` has the mask: for each tap, whether it is inside the row of its output."""
    window = window_of(taps.kernel, _tap)

    def slide_planes(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry = geometry_at(numbers, divisors)
        across, group, planes = across_at(numbers), more_at(numbers, 9), more_at(numbers, 10)
        width, size, share = geometry.input[2], geometry.output[1] * geometry.input[2], share_at(geometry, 0, 0)
        margin, whole = across.kernel * across.dilation, group * size
        masked = more_at(numbers, 11)
        for tap in range(across.kernel):
            for i in range(masked):
                lines[tap * masked + i] = 0 <= i % width + tap * across.dilation - across.pad < width
        fill(work, 0, whole + 2 * margin, how)
        rows, unit, apart = behind(work, margin), unsigned(across.dilation), unsigned(masked)
        for t in range(first_task, last_task):
            some = min(group, planes - t * group)
            _join_planes(rows, x, t * group, some, geometry, how)
            for first in range(0, some * size, masked):
                begin, to, past = behind(rows, first - across.pad), unsigned(t * whole + first), unsigned(first)
                for i in range(unsigned(min(masked, some * size - first))):
                    total = window(begin, i, unsigned(0), (apart, unit, lines), how)
                    out[to + i] = how.finish(total, share, past + i)

    return slide_planes


@inlined
def _tap(work, at, tap, places, how):
    """Element `tap` of the window at `at`, or the identity if it is outside the row."""
    apart, unit, inside = places
    return work[at + tap * unit] if inside[tap * apart + at] else how.nothing
