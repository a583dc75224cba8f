"""The mode: the most frequent value of a window, the smallest of equally frequent ones."""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.intrinsics import looped, offset, optimise_later
from poolcli.engine.compiled.kernels.pieces import by_pieces, gather, tap_at
from poolcli.engine.compiled.kernels.rows import by_rows, row_offset, unsigned, window_strides


@looped
def _sift(run, top, count):
    """Sift the element at `top` of a max-heap down."""
    optimise_later()
    value = run[top]
    below = 2 * top + 1
    while below < count:
        if below + 1 < count and run[below + 1] > run[below]:
            below += 1
        if run[below] <= value:
            break
        run[top] = run[below]
        top, below = below, 2 * below + 1
    run[top] = value


@looped
def _heapsort(run, count):
    optimise_later()
    for i in range(count // 2):
        _sift(run, count // 2 - 1 - i, count)
    for i in range(count - 1):
        last = count - 1 - i
        run[0], run[last] = run[last], run[0]
        _sift(run, 0, last)


@looped
def _majority(run, count):
    """The only value that more than half of the elements can have (Boyer and Moore), and how many have it."""
    optimise_later()
    value, lead, votes = run[0], 0, 0
    for i in range(count):
        if lead == 0:
            value = run[i]
        lead += 1 if run[i] == value else -1
    for i in range(count):
        votes += 1 if run[i] == value else 0
    return value, votes


@looped
def _mode_of_run(run, count):
    """The mode of `count` contiguous elements, which are sorted unless one value has the majority."""
    optimise_later()
    value, most = _majority(run, count)
    if 2 * most > count:
        return value
    _heapsort(run, count)
    most, votes = 0, 0
    for i in range(count):
        votes = votes + 1 if i > 0 and run[i] == run[i - 1] else 1
        if votes > most:
            value, most = run[i], votes
    return value


@looped
def _mode_at(run, x, geometry, o, d, h, begin, columns):
    """The mode of one window, whose elements are copied to `run`; along W it has `columns` of them, from `begin` on."""
    optimise_later()
    (count_d, count_h, _), step, count = geometry.counts, geometry.dilations[2] * geometry.inner, np.int64(0)
    (deep, high), first = window_strides(geometry), row_offset(geometry, o, d, h) + begin
    for i in range(count_d[d]):
        for j in range(count_h[h]):
            at = first + i * deep + j * high
            for k in range(columns):
                run[count] = x[at + k * step]
                count += 1
    return _mode_of_run(run, count)


def mode_sort(ops, spec):
    """Windows of any position and size, one by one; windows along W are repeated for every inner element."""

    @by_rows
    def row(args, geometry, t, o, d, h, divisors):
        optimise_later()
        begin, count = geometry.starts[2], geometry.counts[2]
        for w in range(geometry.row_size):
            found = _mode_at(args.work, args.x, geometry, o, d, h, begin[w], count[w])
            args.out[t * geometry.row_size + w] = ops.finish(found, divisors, w)

    return row


@looped
def _count_votes(work, votes, i, rows, size, kind):
    """For each element of row i, how many of the later rows have the same value; four rows in one pass."""
    optimise_later()
    n, own, j = unsigned(size), unsigned(i * size), i + 1
    for w in range(n):
        votes[w] = kind(0)
    while j + 4 <= rows:
        a, b = unsigned(j * size), unsigned((j + 1) * size)
        c, e = unsigned((j + 2) * size), unsigned((j + 3) * size)
        for w in range(n):
            one, two = kind(work[a + w] == work[own + w]), kind(work[b + w] == work[own + w])
            three, four = kind(work[c + w] == work[own + w]), kind(work[e + w] == work[own + w])
            votes[w] += (one + two) + (three + four)
        j += 4
    while j < rows:
        a = unsigned(j * size)
        for w in range(n):
            votes[w] += kind(work[a + w] == work[own + w])
        j += 1


@looped
def _elect(work, rows, size, kind):
    """The mode of each column of `rows` rows: the pointer to them.

    The first of equal values has the most votes, because each is compared with later ones only.
    """
    optimise_later()
    n = unsigned(size)
    votes = offset(work, rows * size)
    best, most = offset(votes, size), offset(votes, 2 * size)
    for i in range(rows):
        _count_votes(work, votes, i, rows, size, kind)
        own = unsigned(i * size)
        for w in range(n):
            value = work[own + w]
            wins = (i == 0) | (votes[w] > most[w]) | ((votes[w] == most[w]) & (value < best[w]))
            best[w], most[w] = value if wins else best[w], votes[w] if wins else most[w]
    return best


def mode_pairs(ops, spec):
    """Small windows of constant size along W: all pairs of elements are compared, for all windows of a piece."""
    stride, kind = spec.launch.fixed.stride, type(ops.identity)

    @by_pieces
    def mode_pairs(args, geometry, piece, divisors):
        optimise_later()
        work, begin = args.work, geometry.starts[2][piece.first]
        if piece.columns > 1:
            for tap in range(piece.count):
                at = tap_at(geometry, piece, tap)  # a constant stride takes half the time here
                gather(offset(work, tap * piece.size), args.x, at, piece.columns, stride, 1, ops)
            best = _elect(work, piece.count, piece.size, kind)
            for w in range(unsigned(piece.size)):
                args.out[piece.target + w] = ops.finish(best[w], divisors, w)
        else:
            found = _mode_at(work, args.x, geometry, piece.o, piece.d, piece.h, begin, piece.count_w)
            args.out[piece.target] = ops.finish(found, divisors, 0)

    return mode_pairs
