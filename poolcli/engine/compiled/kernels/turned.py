"""Sliding windows over an array whose rows and columns are exchanged in memory, as it lies: what the plan has
as a column is a row here. A window's elements along the row are joined first, as other kernels join those of its
columns, and then its rows, as those join what they have along theirs: so all give the same bits.
"""

from __future__ import annotations

from poolcli.engine.compiled.geometry import LOW, VECTORS, Taps
from poolcli.engine.compiled.kernels.halve import EIGHT
from poolcli.engine.compiled.kernels.rows import (
    begin_at,
    fill,
    join_rows,
    plane_at,
    row_after,
    row_of,
    steps_in,
    unsigned,
)
from poolcli.engine.compiled.kernels.window import in_turn, window_of
from poolcli.engine.compiled.numbers import lift
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
    share_at,
)
from poolcli.engine.compiled.results import finish


@inlined
def _line(work, at, tap, length, how):
    return work[at + tap * length]


@looped
def _keep(lines, first, count):
    """Brings lines that are needed again to the front."""
    optimise_later()
    for i in range(unsigned(count)):
        lines[i] = lines[unsigned(first) + i]


def slide_turned(arithmetic, taps: Taps):
    """A task is an output row. `slots` lines are in `work`, of every row of x the joins along it: the next tasks find
    there what they share. Before them is a row of x, elements of one residue of the stride side by side.
    """
    stride, step, rows = taps.stride, unsigned(taps.stride), taps.rows
    down = window_of(rows, _line)

    @inlined
    def element(row, at, tap, each, how):
        return row[at + tap % step * each + tap // step]

    along, is_long = in_turn(taps.kernel, element), taps.kernel > LOW

    @looped
    def join_reaching(line, x, first, last, begins, counts, how):
        """The windows that reach beyond the row, of more elements than zeros may be among."""
        optimise_later()
        for w in range(first, last):
            join_rows(line, w, 1, x, begins[w], 1, counts[w], (0, 1), how)

    @looped
    def sort_one(row, each, x, group, pad, width, how):
        """The elements of one stride, where it is partly inside of the row."""
        optimise_later()
        for residue in range(stride):
            place = group * stride + residue - pad
            if 0 <= place < width and group < each:
                row[residue * each + group] = lift(x[place], how)

    @looped
    def sort(row, each, x, pad, width, how):
        """The elements of a row of x, those of one residue side by side; the last vector of them is filled with some
        for the second time.
        """
        optimise_later()
        begin, end, last = -(-pad // stride), min((pad + width) // stride, each), (pad + width) // stride
        sort_one(row, each, x, pad // stride, pad, width, how)
        sort_one(row, each, x, last, pad, width, how)
        source, to, apart = behind(x, begin * stride - pad), behind(row, begin), unsigned(each)
        count, some = unsigned(max(end - begin, 0)), unsigned(VECTORS)
        start, stop = unsigned(0), count if count < some else count // some * some
        while start < stop:
            for w in range(start, stop):
                for residue in range(step):
                    to[residue * apart + w] = lift(source[step * w + residue], how)
            start, stop = count - some if stop < count else count, count

    def slide_turned(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        pad, by, above, slots = across_at(numbers).pad, more_at(numbers, 7), more_at(numbers, 8), more_at(numbers, 9)
        (_, height, width), shape, size = geometry.input, geometry.output, geometry.size
        length, each = more_at(numbers, 10), more_at(numbers, 11)
        strip, apart = behind(work, stride * each), unsigned(each)
        low, high = min(-(-pad // stride), size), max((width + pad - taps.kernel) // stride + 1, 0)
        fill(work, 0, stride * each, how)
        (o, d, h), following, base = row_of(first_task, shape), 0, 0
        for t in range(first_task, last_task):
            start, plane = h * by - above, plane_at(geometry, o, d)
            if h == 0 or t == first_task:
                following, base = start, 0
            elif base + by + rows > slots:
                _keep(strip, (base + by) * length, max(0, following - start) * length)
                base = 0
            else:
                base += by
            for row in range(max(following, start), start + rows):
                to = (base + row - start) * length
                if 0 <= row < height:
                    line, its = behind(strip, to), behind(x, plane + row * geometry.apart.high)
                    sort(work, each, its, pad, width, how)
                    for w in range(unsigned(length)):
                        line[w] = along(work, w, unsigned(0), apart, how)
                    if is_long:
                        join_reaching(line, its, 0, low, geometry.begins[2], geometry.counts[2], how)
                        join_reaching(line, its, high, size, geometry.begins[2], geometry.counts[2], how)
                else:
                    fill(strip, to, length, how)
            following = max(following, start + rows)
            at, share, begin = unsigned(t * size), share_at(geometry, d, h), unsigned(base * length)
            for w in range(unsigned(size)):
                out[at + w] = finish(down(strip, begin + w, unsigned(0), unsigned(length), how), share, w, how, out)
            o, d, h = row_after(o, d, h, shape)

    return slide_turned


def tile_turned(arithmetic, taps: Taps):
    """Windows side by side along both axes, all of them inside: straight from x. A task is an output row."""
    step, rows = unsigned(taps.stride), taps.rows

    @inlined
    def element(x, at, tap, apart, how):
        return lift(x[at + tap], how)

    along = in_turn(taps.kernel, element)

    @inlined
    def line(x, at, tap, apart, how):
        return along(x, at + tap * apart, unsigned(0), apart, how)

    down = window_of(rows, line)

    def tile_turned(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        shape, size, (_, apart) = geometry.output, geometry.size, steps_in(geometry)
        n, some, high = unsigned(size), unsigned(EIGHT), unsigned(apart)
        o, d, h = row_of(first_task, shape)
        for t in range(first_task, last_task):
            row, to, share = unsigned(begin_at(geometry, o, d, h)), unsigned(t * size), share_at(geometry, d, h)
            start, stop = unsigned(0), n if n < some else n // some * some
            while start < stop:  # the last ones fill a vector too, with some for the second time
                for w in range(start, stop):
                    total = down(x, row + step * w, unsigned(0), high, how)
                    out[to + w] = finish(total, share, w, how, out)
                start, stop = n - some if stop < n else n, n
            o, d, h = row_after(o, d, h, shape)

    return tile_turned
