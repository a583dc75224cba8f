"""Regular windows of a constant size: the rows of a window are joined in a row buffer, then windows are taken along it;
small windows that do not overlap, without the buffer; and whole small maps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.engine.compiled.kernels import by_rows, fetch, in_fours, inlined, no_alias, optimise_later, tree, u8
from poolcli.engine.compiled.kernels.operations import joined_pixels
from poolcli.engine.compiled.view import AT_ROWS, MARGIN, ROW_FIELDS, VECTOR


def _column(how: Any, rows: int, lines: int) -> Any:
    """The function (x, at, w, tap) of all rows of a window; `at`: the first element and what rows and planes add."""
    lift, both, of_plane, one = how.lift, how.both, u8(lines), u8(1)
    read = inlined(lambda x, at, w, tap: x[at[0] + tap * at[1] + tap // of_plane * at[2] + w])
    element = inlined(lambda x, at, w, tap: lift(read(x, at, w, tap)))
    pair = inlined(lambda x, at, w, tap: both(read(x, at, w, tap), read(x, at, w, tap + one)))
    return in_fours(rows, element, how.join, pair)


def sliding(
    how: Any, steps: Any, rows: int, lines: int, taps: int, stride: int, gap: int, line: int, form: str, channels: int
) -> Any:
    """Windows of `rows` rows, `lines` in each plane, and of `taps` columns, `gap` apart. `line`: the elements of a
    cache line if lines are fetched ahead, else 0. `form`: "buffer", "direct", or "bytes": 2x2 of bytes. `channels` lie
    side by side; 0: any number. Sums of a few fill one vector, to which pixels are added.

    Task t is a piece of an output row; 2 * `a` cache lines are fetched, from `b` elements after the window's first on.
    """
    lift, join, _, store, nothing, divides = how
    of_bytes, step, zero, apart, ahead = form == "bytes", u8(stride), u8(0), u8(gap * channels), u8(line)
    direct, all_rows, up, down = form != "buffer", np.int64(rows), u8(VECTOR - 1), ~u8(VECTOR - 1)
    planes_behind, lines_behind, margin = rows // lines - 1, lines - 1, MARGIN * stride
    is_vector = channels > 1 and steps.total == "sum"
    in_pixels = channels != 1 and stride > 1 and not is_vector
    join_pixels, group = joined_pixels(steps, taps, gap, max(channels, 1), form), 8 // max(channels, 1) * channels

    column = _column(how, rows, lines)
    window = tree(taps, inlined(lambda row, unit, w, tap: row[w + tap * (apart if channels else unit)]), join)
    columns = inlined(lambda x, at, w, tap: column(x, at, w + tap * apart, zero))
    whole, half, shares_halves = tree(taps, columns, join), tree(stride, columns, join), taps == 2 * stride and gap == 1

    @by_rows
    def kernel(x, out, places, work, sizes, table, factors, t, r, begin, nd, nh, piece, last):
        optimise_later()
        first, many, low = table[piece], table[piece + 1], table[piece + 2]
        used, before = table[piece + 3], table[piece + 4]
        count = np.int64(channels) if channels else sizes.channels
        near, unit, cs = u8(sizes.step_h), u8(gap * count), u8(count)
        to, at, by = u8(t * sizes.size + first), u8(begin + low), factors[r]
        place, along = (at, near, u8(sizes.step_d) - u8(lines) * near), u8(sizes.of_w)
        # Whole vectors: what is made beyond the end of a row is made again with the next one.
        n, m = u8(used), u8(many)
        behind = used + planes_behind * sizes.step_d + lines_behind * sizes.step_h + margin
        if (begin + low + behind < sizes.limit) & (t * sizes.size + first + many + MARGIN <= last * sizes.size):
            n, m = (n + up) & down, (m + up) & down
        if line:
            for i in range(u8(sizes.a)):
                fetch(x, u8(begin + sizes.b) + i * ahead)
        if direct:
            divisor = by * factors[along]
            if of_bytes and begin + low + stride * many + sizes.step_h + MARGIN < sizes.limit:
                for w in range(0, many, group):
                    join_pixels(work, u8(w), x, at + u8(w) * step, near)
                for w in range(m):
                    out[to + w] = store(work[w], divisor)
            elif shares_halves:
                shared = half(x, place, zero, zero)
                for w in range(m):
                    other = half(x, place, w * step + step, zero)
                    out[to + w] = store(join(shared, other), divisor)
                    shared = other
            else:
                for w in range(m):
                    out[to + w] = store(whole(x, place, w // cs * step * cs + w % cs, zero), divisor)
        else:
            row = u8(before)
            if nd * nh == all_rows:
                for w in range(n):
                    work[row + w] = column(x, place, w, zero)
            else:
                for w in range(n):
                    work[row + w] = nothing
                for i in range(nd * nh):
                    start = u8(begin + low + i // nh * sizes.step_d + i % nh * sizes.step_h)
                    for w in range(u8(used)):
                        work[row + w] = join(work[row + w], lift(x[start + w]))
        if line:  # the second half: the processor waits if it is asked for too much at once (5x5 by 4: 1.3)
            for i in range(u8(sizes.a), u8(2 * sizes.a)):
                fetch(x, u8(begin + sizes.b) + i * ahead)
        if not direct:
            for w in range(row):
                work[w] = nothing
            for w in range(u8(sizes.reach * count + MARGIN - before - used)):
                work[row + u8(used) + w] = nothing
            divisor = by * factors[along + u8(sizes.first) * cs]
            if is_vector:
                for w in range(0, many, count):
                    join_pixels(work, u8(w), work, u8(w) * step, zero)
                for w in range(m):
                    out[to + w] = store(work[w], divisor)
            elif in_pixels:
                for w in range(m // cs):
                    for c in range(cs):
                        out[to + w * cs + c] = store(window(work, unit, w * step * cs + c, zero), divisor)
            else:
                for w in range(m):
                    out[to + w] = store(window(work, unit, w * step, zero), divisor)
            if divides:
                lower, upper = table[piece + 5], table[piece + 6]
                for i in range(lower + many - upper):
                    w = u8(i + (upper - lower) * (i >= lower))
                    total = work[w] if is_vector else window(work, unit, w // cs * step * cs + w % cs, zero)
                    out[to + w] = store(total, by * factors[along + u8(first) + w])

    return kernel


def maps(how: Any, steps: Any, rows: int, taps: int, gap: int) -> Any:
    """Small maps, of windows that slide by one and outputs as long as inputs. The rows of each window are joined, one
    output row after the other, and then windows are taken along all of them as if they were one; masks hide what is
    beyond a row's ends. Rows of 7 elements would leave vectors empty: 1.3 to 4.2 times as long.

    Task t is a plane. Masks are for `a` rows.
    """
    lift, join, _, store, nothing, divides = how
    vector, kind, margin = u8(VECTOR), type(steps.identity), np.int64(taps * gap)
    inside, outside, zero, distance = kind(1), kind(0), u8(0), u8(gap)

    @inlined
    def masked(work, at, w, tap):
        masks, chunk, begin = at
        value = work[begin + w + tap * distance]
        return value if work[masks + tap * chunk + w] != outside else nothing

    column, window = _column(how, rows, rows), tree(taps, masked, join)

    def kernel(x, out, places, work, sizes, table, factors, first_task, last_task):
        no_alias()
        height, wide, step, near = sizes.height, sizes.width, sizes.a, u8(sizes.step_h)
        plane, chunk, pad = u8(height * wide), u8(step * wide), sizes.pad
        behind = (sizes.high + 1) * (sizes.step_h // sizes.gap_h) + MARGIN
        masks = margin + height * wide + step * wide + margin + MARGIN
        for i in range(u8(masks)):
            work[i] = nothing
        for tap in range(taps):
            for i in range(step * wide):
                place = i % wide + tap * gap - pad
                work[u8(masks + tap * step * wide + i)] = inside if (place >= 0) & (place < wide) else outside
        for t in range(first_task, last_task):
            n, to, begin = u8(wide), u8(t) * plane, t * sizes.far
            if begin + table[AT_ROWS] + behind < sizes.limit:
                n = (n + vector - u8(1)) // vector * vector
            for h in range(height):
                row = AT_ROWS + ROW_FIELDS * h
                first, count = begin + table[row], table[row + 2]
                at, place = u8(margin + h * wide), (u8(first), near, zero)
                if count == rows:
                    for w in range(n):
                        work[at + w] = column(x, place, w, zero)
                else:
                    for w in range(n):
                        work[at + w] = nothing
                    for i in range(u8(count)):
                        for w in range(n):
                            work[at + w] = join(work[at + w], lift(x[u8(first) + i * near + w]))
            done = zero
            while done < plane:
                many = chunk if done + chunk < plane else plane - done
                place = u8(masks), chunk, done + u8(margin - pad)
                for w in range(many):
                    divisor = factors[u8(sizes.of_w) + done + w] if divides else 1.0
                    out[to + done + w] = store(window(work, place, w, zero), divisor)
                done += chunk

    return kernel
