"""The value that occurs most often in a window."""

from __future__ import annotations

from poolcli.engine.compiled.kernels.rows import begin_at, by_rows, steps_in, unsigned
from poolcli.engine.compiled.pointers import behind, looped, more_at, optimise_later


@looped
def _sift(run, top, count):
    """Lets the element at `top` of a heap sink to its place: each is at least as large as the two below it."""
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
def _sort(run, count):
    optimise_later()
    for i in range(count // 2):
        _sift(run, count // 2 - 1 - i, count)
    for i in range(count - 1):
        last = count - 1 - i
        run[0], run[last] = run[last], run[0]
        _sift(run, 0, last)


@looped
def _majority(run, count):
    """The one value that more than half of the elements can have (Boyer and Moore), and how many do."""
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
def _mode_of(run, count):
    """The mode of elements side by side, whose order is lost where no value has the majority."""
    optimise_later()
    value, most = _majority(run, count)
    if 2 * most > count:
        return value
    _sort(run, count)
    most, votes = 0, 0
    for i in range(count):
        votes = votes + 1 if i > 0 and run[i] == run[i - 1] else 1
        if votes > most:
            value, most = run[i], votes
    return value


@looped
def _mode_at(run, x, geometry, o, d, h, w):
    """The mode of one window, whose elements are brought side by side first."""
    optimise_later()
    (count_d, count_h, count_w), step, many = geometry.counts, geometry.steps[2] * geometry.inner, 0
    (deep, high), begin = steps_in(geometry), begin_at(geometry, o, d, h) + geometry.begins[2][w]
    for i in range(count_d[d]):
        for j in range(count_h[h]):
            at = begin + i * deep + j * high
            for k in range(count_w[w]):
                run[many] = x[at + k * step]
                many += 1
    return _mode_of(run, many)


def mode_each(how, taps):
    """Windows of any places and lengths, each on its own; those along W are given for every inner element."""

    @by_rows
    def row(given, geometry, t, o, d, h, share):
        optimise_later()
        for w in range(geometry.size):
            found = _mode_at(given.work, given.x, geometry, o, d, h, w)
            given.out[t * geometry.size + w] = how.finish(found, share, w)

    return row


@looped
def _count_votes(work, votes, i, rows, size, how):
    """How many of the rows from i on have what row i has, element by element; four rows in one pass."""
    optimise_later()
    n, own, j = unsigned(size), unsigned(i * size), i + 1
    for w in range(n):
        votes[w] = how.nothing
    while j + 4 <= rows:
        a, b = unsigned(j * size), unsigned((j + 1) * size)
        c, e = unsigned((j + 2) * size), unsigned((j + 3) * size)
        for w in range(n):
            one, two = how.vote(work[a + w], work[own + w]), how.vote(work[b + w], work[own + w])
            three, four = how.vote(work[c + w], work[own + w]), how.vote(work[e + w], work[own + w])
            votes[w] += (one + two) + (three + four)
        j += 4
    while j < rows:
        a = unsigned(j * size)
        for w in range(n):
            votes[w] += how.vote(work[a + w], work[own + w])
        j += 1


@looped
def _elect(work, rows, size, how):
    """The mode of each column of `rows` rows, in the second row behind them; votes are counted in the first and the
    third. The first of equal values has the most votes, because each is compared with those after it alone.
    """
    optimise_later()
    n = unsigned(size)
    votes = behind(work, rows * size)
    best, most = behind(votes, size), behind(votes, 2 * size)
    for i in range(rows):
        _count_votes(work, votes, i, rows, size, how)
        own = unsigned(i * size)
        for w in range(n):
            value = work[own + w]
            wins = (i == 0) | (votes[w] > most[w]) | ((votes[w] == most[w]) & (value < best[w]))
            best[w], most[w] = value if wins else best[w], votes[w] if wins else most[w]
    return best


def mode_few(how, taps):
    """Windows of few elements and a constant size along W, whose votes are counted for whole rows at once, in pieces;
    those that reach beyond the input are taken each on its own.
    """
    taps, stride = taps.kernel, taps.stride

    @by_rows
    def row(given, geometry, t, o, d, h, share):
        optimise_later()
        x, out, work, piece = given.x, given.out, given.work, more_at(given.numbers, 0)
        size, step = geometry.size, geometry.steps[2]
        begin_w, (count_d, count_h, count_w), (deep, high) = geometry.begins[2], geometry.counts, steps_in(geometry)
        low, end = 0, size
        while low < size and count_w[low] < taps:
            low += 1
        while end > low and count_w[end - 1] < taps:
            end -= 1
        for first in range(low, end, piece):
            many, to = min(piece, end - first), unsigned(0)
            for i in range(count_d[d]):
                for j in range(count_h[h]):
                    at = begin_at(geometry, o, d, h) + i * deep + j * high + begin_w[first]
                    for k in range(taps):
                        source = unsigned(at + k * step)
                        for w in range(unsigned(many)):
                            work[to + w] = x[source + w * unsigned(stride)]
                        to += unsigned(many)
            best = _elect(work, count_d[d] * count_h[h] * taps, many, how)
            target = unsigned(t * size + first)
            for w in range(unsigned(many)):
                out[target + w] = how.finish(best[w], share, unsigned(first) + w)
        for w in range(low):
            out[t * size + w] = how.finish(_mode_at(work, x, geometry, o, d, h, w), share, w)
        for w in range(end, size):
            out[t * size + w] = how.finish(_mode_at(work, x, geometry, o, d, h, w), share, w)

    return row
