"""Copies into C order in tiles that stay in the cache, whatever order their elements come from, by several threads."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled.tasks import share_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

TILE = 1 << 18  # bytes, which stay in the second cache until all elements of their lines are copied


def contiguous(x: NDArray[Any], threads: int | None) -> NDArray[Any]:
    """`x` in C order; itself where it is so already."""
    if x.flags.c_contiguous:
        return x
    made = np.empty(x.shape, x.dtype)
    tiles = list(product(*_cuts(x)))

    def copy(first: int, last: int) -> None:
        for tile in tiles[first:last]:
            np.copyto(made[tile], x[tile])

    share_out(copy, len(tiles), x.size, threads)
    return made


def _cuts(x: NDArray[Any]) -> list[list[slice]]:
    """For each axis the parts of it that tiles take: axes are cut in the order in which they lie in the memory of `x`,
    the outermost first, until tiles are small.
    """
    cuts, left = [[slice(None)] for _ in x.shape], x.nbytes
    for axis in sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis])):
        if left <= TILE:
            break
        left //= x.shape[axis]
        length = max(1, TILE // left)
        cuts[axis] = [slice(begin, begin + length) for begin in range(0, x.shape[axis], length)]
    return cuts
