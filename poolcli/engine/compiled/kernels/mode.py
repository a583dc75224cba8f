"""The mode: the most frequent value of a window, the smallest of equally frequent ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from poolcli.engine.compiled.kernels import looped, offset, optimise_later, u8
from poolcli.engine.compiled.kernels.pieces import by_pieces, gathered, tap_at


def mode(how: Any, steps: Any, stride: int) -> Any:
    """All pairs of the elements of a window are compared, for all windows of a piece. `stride` along W, or 0 if it is
    not constant; a constant one takes half the time.
    """
    store, kind, every, gather = how.store, type(steps.identity), np.int64(stride), gathered(how.lift)

    @looped
    def count_votes(work, votes, i, rows, size):
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

    @by_pieces
    def mode(x, out, work, piece):
        """The first of equal values has the most votes, because each is compared with later ones only."""
        optimise_later()
        rows, size, n = piece.count, piece.size, u8(piece.size)
        for tap in range(rows):
            source = offset(x, tap_at(piece, tap))
            gather(offset(work, tap * size), source, piece.columns, every if stride else piece.stride, piece.inner)
        votes = offset(work, rows * size)
        best, most = offset(votes, size), offset(votes, 2 * size)
        for i in range(rows):
            count_votes(work, votes, i, rows, size)
            own = u8(i * size)
            for w in range(n):
                value = work[own + w]
                wins = (i == 0) | (votes[w] > most[w]) | ((votes[w] == most[w]) & (value < best[w]))
                best[w], most[w] = value if wins else best[w], votes[w] if wins else most[w]
        for w in range(n):
            out[w] = store(best[w], 1.0)

    return mode
