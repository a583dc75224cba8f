"""Standard deviations in two passes in float64; those of short integers are quotients of exact sums (`operations`)."""

from __future__ import annotations

from typing import Any

from poolcli.engine.compiled.kernels import Function, looped, offset, optimise_later, u8
from poolcli.engine.compiled.kernels.operations import root_of_variance
from poolcli.engine.compiled.kernels.pieces import by_pieces, gathered, tap_at


def _two_passes(gather: Function) -> Function:
    """The function (work, x, piece) that finds the sums of the distances from the mean (a correction) in the third row
    of `work`, and of their squares in the fourth.
    """

    @looped
    def two_passes(work, x, piece):
        optimise_later()
        size, count, n = piece.size, piece.count, u8(piece.size)
        means, rests, squares = offset(work, size), offset(work, 2 * size), offset(work, 3 * size)
        for w in range(n):
            means[w] = rests[w] = squares[w] = 0.0
        for turn in range(2):
            for tap in range(count):
                gather(work, offset(x, tap_at(piece, tap)), piece.columns, piece.stride, piece.inner)
                if turn == 0:
                    for w in range(n):
                        means[w] += work[w]
                else:
                    for w in range(n):
                        distance = work[w] - means[w]
                        rests[w] += distance
                        squares[w] += distance * distance
            if turn == 0:
                for w in range(n):
                    means[w] /= float(count)

    return two_passes  # type: ignore[no-any-return]


def deviation(how: Any, steps: Any) -> Any:
    """Element by element in the order of the numpy engine."""
    ddof, store, two_passes = steps.ddof, how.store, _two_passes(gathered(how.lift))

    @by_pieces
    def deviation(x, out, work, piece):
        optimise_later()
        size, count = piece.size, float(piece.count)
        two_passes(work, x, piece)
        rest, squares, divisor = offset(work, 2 * size), offset(work, 3 * size), count - ddof
        for w in range(u8(size)):
            variance = (squares[w] - rest[w] * rest[w] / count) / divisor
            out[w] = store(root_of_variance(variance, divisor), 1.0)

    return deviation
