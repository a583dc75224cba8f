"""Windows that slide by one over planes too small to fill vectors by their rows, and leave them as large: whole planes
are taken as rows, and what lies beyond the edges of a plane is masked.
"""

from __future__ import annotations

from poolcli.engine.compiled.geometry import LOW, Taps
from poolcli.engine.compiled.kernels.rows import fill, join_rows, plane_at, unsigned, window_of
from poolcli.engine.compiled.numbers import join, lift
from poolcli.engine.compiled.pointers import (
    across_at,
    arithmetic_at,
    behind,
    geometry_at,
    inlined,
    looped,
    more_at,
    optimise_later,
    pointers_are_distinct,
    share_of_planes,
)
from poolcli.engine.compiled.results import finish


@looped
def _mask(inside, planes, height, width, by_row, by_column):
    """Which elements of some planes have one so many rows and columns further inside their plane."""
    optimise_later()
    for plane in range(planes):
        for h in range(height):
            for w in range(width):
                is_inside = (0 <= h + by_row < height) & (0 <= w + by_column < width)
                inside[(plane * height + h) * width + w] = 1 if is_inside else 0


@inlined
def _element(work, at, tap, places, how):
    """Element `tap` of the window at `at`; beyond its row, nothing."""
    apart, unit, inside = places
    return work[at + tap * unit] if inside[tap * apart + at] else how.total.nothing


@looped
def _join_lines(work, x, rows, size, inside, apart, how):
    """The elements of each window that lie in one column, joined from the first on, `rows` apart."""
    optimise_later()
    one, two, apart = unsigned(rows), unsigned(2 * rows), unsigned(apart)
    for i in range(unsigned(size)):
        a = lift(x[i], how) if inside[i] else how.total.nothing
        b = lift(x[i + one], how) if inside[apart + i] else how.total.nothing
        c = lift(x[i + two], how) if inside[apart + apart + i] else how.total.nothing
        work[i] = join(join(a, b, how), c, how)


def slide_maps(arithmetic, taps: Taps):
    """A task is `group` planes of `planes`; windows are of up to LOW rows, whose order of joining is that of any."""
    window = window_of(taps.kernel, _element)

    def slide_maps(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        across, group, planes = across_at(numbers), more_at(numbers, 9), more_at(numbers, 10)
        kernel_h, dilation_h, pad_h = more_at(numbers, 11), geometry.steps[1], more_at(numbers, 12)
        (_, height, width), share, (many, far, _, _, _) = geometry.input, share_of_planes(geometry), geometry.apart
        size, margin = height * width, across.kernel * across.dilation
        whole, in_line = group * size, many == 1 and far == size
        for tap in range(across.kernel):
            _mask(behind(lines, tap * whole), group, height, width, 0, tap * across.dilation - across.pad)
        over = behind(lines, across.kernel * whole)
        for tap in range(LOW):
            beyond = height if tap >= kernel_h else tap * dilation_h - pad_h
            _mask(behind(over, tap * whole), group, height, width, beyond, 0)
        fill(work, 0, whole + 2 * margin, how)
        rows, unit, apart = behind(work, margin), unsigned(across.dilation), unsigned(whole)
        for t in range(first_task, last_task):
            some = min(group, planes - t * group)
            together = some if in_line else 1
            for plane in range(0, some, together):
                top, to = plane_at(geometry, t * group + plane, 0) - pad_h * width, behind(rows, plane * size)
                _join_lines(to, behind(x, top), dilation_h * width, together * size, over, whole, how)
            begin, to = behind(rows, -across.pad), unsigned(t * whole)
            for i in range(unsigned(some * size)):
                out[to + i] = finish(window(begin, i, unsigned(0), (apart, unit, lines), how), share, i, how, out)

    return slide_maps


@looped
def _join_planes(work, x, first, planes, geometry, how):
    """The rows of the windows of some planes, joined, one output row after the other. Output rows whose windows have
    as many rows and begin one row further each are made in one pass.
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


def slide_planes(arithmetic, taps: Taps):
    """A task is `group` planes, whose output rows are as long as those of the input."""
    window = window_of(taps.kernel, _tap)

    def slide_planes(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        across, group, planes = across_at(numbers), more_at(numbers, 9), more_at(numbers, 10)
        width, size, share = geometry.input[2], geometry.output[1] * geometry.input[2], share_of_planes(geometry)
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
                    out[to + i] = finish(total, share, past + i, how, out)

    return slide_planes


@inlined
def _tap(work, at, tap, places, how):
    """Element `tap` of the window at `at`; outside its row, nothing."""
    apart, unit, inside = places
    return work[at + tap * unit] if inside[tap * apart + at] else how.total.nothing
