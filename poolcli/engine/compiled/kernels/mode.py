"""The mode: the most frequent value of a window, the smallest of equally frequent ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.engine.compiled.kernels import looped, offset, optimise_later, u8
from poolcli.engine.compiled.kernels.pieces import by_pieces, gathered, line_at, tap_at


@looped
def _heapsort(run, count):
    """Sort by a max-heap of the elements before `end`, which are sifted down from `top`."""
    optimise_later()
    first, end = count // 2, count
    while end > 1:
        if first > 0:
            first -= 1
        else:
            end -= 1
            run[0], run[end] = run[end], run[0]
        value, top, below = run[first], first, 2 * first + 1
        while below < end:
            if below + 1 < end and run[below + 1] > run[below]:
                below += 1
            if run[below] <= value:
                break
            run[top] = run[below]
            top, below = below, 2 * below + 1
        run[top] = value


@looped
def _mode_of_run(run, count):
    """The mode of `count` contiguous elements, which are sorted unless one value has the majority: the only one that
    more than half of the elements can have (Boyer and Moore).
    """
    optimise_later()
    value, lead, votes = run[0], 0, 0
    for i in range(count):
        if lead == 0:
            value = run[i]
        lead += 1 if run[i] == value else -1
    for i in range(count):
        votes += 1 if run[i] == value else 0
    if 2 * votes > count:
        return value
    _heapsort(run, count)
    most, votes = 0, 0
    for i in range(count):
        votes = votes + 1 if i > 0 and run[i] == run[i - 1] else 1
        if votes > most:
            value, most = run[i], votes
    return value


@looped
def _mode_of_window(run, x, piece):
    """The mode of the only window of a piece, whose elements are copied to `run`."""
    optimise_later()
    wide = piece.count_w
    for line in range(piece.count_d * piece.count_h):
        at = line_at(piece, line)
        for i in range(wide):
            run[line * wide + i] = x[at + i * piece.step_w]
    return _mode_of_run(run, piece.count)


def mode_sort(how: Any, steps: Any) -> Any:
    """Windows of any position and size, one by one."""
    store = how.store

    @by_pieces
    def mode_sort(x, out, work, spare, table, piece):
        optimise_later()
        for c in range(piece.inner):
            out[c] = store(_mode_of_window(work, offset(x, c), piece), 1.0)

    return mode_sort


@looped
def _count_votes(work, votes, i, rows, size, kind):
    """For each element of row i, how many of the later rows have the same value; four rows in one pass."""
    optimise_later()
    n, own, j = u8(size), u8(i * size), i + 1
    for w in range(n):
        votes[w] = kind(0)
    while j + 4 <= rows:
        a, b = u8(j * size), u8((j + 1) * size)
        c, e = u8((j + 2) * size), u8((j + 3) * size)
        for w in range(n):
            one, two = kind(work[a + w] == work[own + w]), kind(work[b + w] == work[own + w])
            three, four = kind(work[c + w] == work[own + w]), kind(work[e + w] == work[own + w])
            votes[w] += (one + two) + (three + four)
        j += 4
    while j < rows:
        a = u8(j * size)
        for w in range(n):
            votes[w] += kind(work[a + w] == work[own + w])
        j += 1


@looped
def _elect(work, rows, size, kind):
    """The mode of each column of `rows` rows: the pointer to them.

    The first of equal values has the most votes, because each is compared with later ones only.
    """
    optimise_later()
    n = u8(size)
    votes = offset(work, rows * size)
    best, most = offset(votes, size), offset(votes, 2 * size)
    for i in range(rows):
        _count_votes(work, votes, i, rows, size, kind)
        own = u8(i * size)
        for w in range(n):
            value = work[own + w]
            wins = (i == 0) | (votes[w] > most[w]) | ((votes[w] == most[w]) & (value < best[w]))
            best[w], most[w] = value if wins else best[w], votes[w] if wins else most[w]
    return best


def mode_pairs(how: Any, steps: Any, stride: int) -> Any:
    """Small windows, a constant stride apart along W: all pairs of elements are compared, for all windows of a piece. A
    constant stride takes half the time.
    """
    store, kind, apart, gather = how.store, type(steps.identity), np.int64(stride), gathered(how.lift)

    @by_pieces
    def mode_pairs(x, out, work, spare, table, piece):
        optimise_later()
        size = piece.size
        if size > 1:
            for tap in range(piece.count):
                gather(offset(work, tap * size), offset(x, tap_at(piece, tap)), size, apart, 1)
            best = _elect(work, piece.count, size, kind)
            for w in range(u8(size)):
                out[w] = store(best[w], 1.0)
        else:
            out[0] = store(_mode_of_window(work, x, piece), 1.0)

    return mode_pairs
