"""Standard deviations in two passes in float64; those of short integers are quotients of exact sums (`operations`)."""

from __future__ import annotations

from typing import Any

from poolcli.engine.compiled.kernels import Function, inlined, looped, offset, optimise_later, u8
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


def deviation(how: Any, steps: Any, rows: int, lines: int, taps: int, stride: int) -> Any:
    """Element by element in the order of the numpy engine. Windows of `rows` rows, `lines` in each plane, of `taps`
    elements, if there are any, are read twice by loops that LLVM unrolls: 2x2 windows take a third of the time.
    """
    ddof, lift, store, whole, step = steps.ddof, how.lift, how.store, rows * taps, u8(stride)
    two_passes = _two_passes(gathered(lift))

    @inlined
    def element(x, w, tap, far, near, unit):
        line = tap // taps
        return lift(x[u8(line // lines) * far + u8(line % lines) * near + u8(tap % taps) * unit + w * step])

    @looped
    def constant_windows(out, x, piece):
        optimise_later()
        number, divisor = float(whole), float(whole) - ddof
        far, near, unit = u8(piece.step_d), u8(piece.step_h), u8(piece.step_w)
        for w in range(u8(piece.size)):
            total, rest, squares = 0.0, 0.0, 0.0
            for tap in range(whole):
                total += element(x, w, tap, far, near, unit)
            for tap in range(whole):
                distance = element(x, w, tap, far, near, unit) - total / number
                rest += distance
                squares += distance * distance
            out[w] = store(root_of_variance((squares - rest * rest / number) / divisor, divisor), 1.0)

    @by_pieces
    def deviation(x, out, work, piece):
        optimise_later()
        if whole and piece.count == whole:
            constant_windows(out, x, piece)
            return
        size, count = piece.size, float(piece.count)
        two_passes(work, x, piece)
        rest, squares, divisor = offset(work, 2 * size), offset(work, 3 * size), count - ddof
        for w in range(u8(size)):
            variance = (squares[w] - rest[w] * rest[w] / count) / divisor
            out[w] = store(root_of_variance(variance, divisor), 1.0)

    return deviation
