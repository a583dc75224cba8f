"""Small maps, windows that slide by one, outputs as long as inputs: whole planes. The rows of each window are joined,
one output row after the other, and then windows are taken along all of them as if they were one; masks hide what is
beyond a row's ends. Rows of 7 elements would leave vectors empty: 1.3 to 4.2 times as long. Lost: planes in groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.engine.compiled.kernels import fetch, in_fours, inlined, no_alias, row_of, tree, u8
from poolcli.engine.compiled.view import AT, MARGIN, VECTOR


def maps(how: Any, steps: Any, rows: int, taps: int, gap: int, line: int) -> Any:
    """Windows of `rows` rows and `taps` columns, `gap` apart. `line`: as of `sliding`.

    Task t is a plane. Masks are for `a` rows; `b` cache lines are fetched, from `c` elements after its first on.
    """
    lift, join, store, nothing, divides = how
    zero, ahead, distance = u8(0), u8(line), u8(gap)
    vector = u8(min(MARGIN, max(VECTOR, 32 // steps.identity.itemsize)))
    kind, margin = type(steps.identity), np.int64(taps * gap)
    inside, outside = kind(1), kind(0)

    @inlined
    def element(x, at, w, tap):
        return lift(x[at[0] + tap * at[1] + w])

    @inlined
    def masked(work, at, w, tap):
        masks, chunk, begin = at
        value = work[begin + w + tap * distance]
        return value if work[masks + tap * chunk + w] != outside else nothing

    column, window = in_fours(rows, element, join), tree(taps, masked, join)

    def kernel(x, out, places, work, table, factors, first_task, last_task):
        no_alias()
        height, wide, step, near = table[AT.height], table[AT.width], table[AT.a], u8(table[AT.step_h])
        plane, chunk, pad = u8(height * wide), u8(step * wide), table[AT.pad]
        behind = (table[AT.high] + 1) * (table[AT.step_h] // table[AT.gap_h]) + MARGIN
        masks = margin + height * wide + step * wide + margin + MARGIN
        for i in range(u8(masks)):
            work[i] = nothing
        for tap in range(taps):
            for i in range(step * wide):
                place = i % wide + tap * gap - pad
                work[u8(masks + tap * step * wide + i)] = inside if (place >= 0) & (place < wide) else outside
        for t in range(first_task, last_task):
            begin, _, _ = row_of(table, t, 0)
            if line:
                for i in range(u8(table[AT.b])):
                    fetch(x, u8(begin + table[AT.c]) + i * ahead)
            n, to = u8(wide), u8(t) * plane
            if begin + behind < table[AT.limit]:
                n = (n + vector - u8(1)) // vector * vector
            for h in range(height):
                first, _, count = row_of(table, t, h)
                at, place = u8(margin + h * wide), (u8(first), near)
                if count == rows:
                    for w in range(n):
                        work[at + w] = column(x, place, w, zero)
                else:
                    for w in range(n):
                        work[at + w] = nothing
                    for j in range(u8(count)):
                        b = u8(first) + j * near
                        for w in range(n):
                            work[at + w] = join(work[at + w], lift(x[b + w]))
            done = zero
            while done < plane:
                many = chunk if done + chunk < plane else plane - done
                place = u8(masks), chunk, done + u8(margin - pad)
                for w in range(many):
                    divisor = factors[u8(table[AT.of_w]) + done + w] if divides else 1.0
                    out[to + done + w] = store(window(work, place, w, zero), divisor)
                done += chunk

    return kernel
