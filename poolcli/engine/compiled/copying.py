"""Copies of elements that lie in another order than they are counted in."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from poolcli.engine.compiled.tasks import share_out

Array = np.ndarray[Any, np.dtype[Any]]
TILE = 1 << 18  # bytes, which stay in the second cache until all elements of their lines are copied
ROWS, COLUMNS = (
    64,
    128,
)  # elements of a tile that is turned, which fill lines and touch few pages
FEW = 16  # elements of a run


def contiguous(x: Array, threads: int | None) -> Array:
    """`x` in C order, copied by several threads in tiles that stay in the cache; itself where it is so already."""
    if x.flags.c_contiguous:
        return x
    made = np.empty(x.shape, x.dtype)
    tiles = _tiles(x)

    def copy(first: int, last: int) -> None:
        for tile in tiles[first:last]:
            _copy_runs(made[tile], x[tile])

    share_out(copy, len(tiles), x.size, threads)
    return made


def take(x: Array, first: int, last: int, target: Array) -> None:
    """Copies the elements from number `first` to before `last`, counted in C order, side by side to `target`."""
    for box, begin, end in _boxes(x.shape, first, last):
        source = x[box]
        _copy(target[begin - first : end - first].reshape(source.shape), source, source)


def put(x: Array, first: int, last: int, source: Array) -> None:
    """Copies elements that lie side by side to where those of these numbers are in x."""
    for box, begin, end in _boxes(x.shape, first, last):
        target = x[box]
        _copy(target, source[begin - first : end - first].reshape(target.shape), target)


def _copy(target: Array, source: Array, strided: Array) -> None:
    """Copies a box, in tiles where the order of the elements is another."""
    if not _is_turned(strided):
        _copy_runs(target, source)
        return
    for tile in _tiles(strided):
        _copy_runs(target[tile], source[tile])


def _copy_runs(target: Array, source: Array) -> None:
    """Copies an array; runs of few elements that lie side by side (channels of pixels back to front) as one element
    each, which takes half of the time.
    """
    length, steps = source.shape[-1], {source.strides[-1], target.strides[-1]}
    if 1 < length <= FEW and steps == {source.itemsize}:
        run = np.dtype((np.void, length * source.itemsize))
        target, source = target.view(run), source.view(run)
    np.copyto(target, source)


Box = tuple[int | slice, ...]


def _boxes(shape: tuple[int, ...], begin: int, end: int) -> Iterator[tuple[Box, int, int]]:
    """The elements from number `begin` to before `end` as boxes, each with its first number and one past its last:
    whole ones of the first axis, and parts of those before and behind.
    """
    inside = prod(shape[1:])
    first, last = -(-begin // inside), end // inside
    if begin < first * inside:
        yield from _part(first - 1, shape, begin, end)
    if first < last:
        yield (slice(first, last),), first * inside, last * inside
    if first <= last and last * inside < end:
        yield from _part(last, shape, begin, end)


def _part(place: int, shape: tuple[int, ...], begin: int, end: int) -> Iterator[tuple[Box, int, int]]:
    inside = prod(shape[1:])
    before = place * inside
    for box, first, last in _boxes(shape[1:], max(begin - before, 0), min(end - before, inside)):
        yield (place, *box), before + first, before + last


def _tiles(x: Array) -> list[tuple[slice, ...]]:
    """Parts of an array that stay in the cache while they are copied to or from one in C order: of its last axis, and
    of another one whose elements lie closer, as much as fills lines of the cache; then of the others, closest first.
    """
    last = x.ndim - 1
    others = sorted(range(last), key=lambda axis: abs(x.strides[axis]) if x.shape[axis] > 1 else x.nbytes)
    sides = {others[0]: ROWS, last: COLUMNS} if _is_turned(x) else {last: x.shape[last]}
    lengths, left = [1] * x.ndim, TILE // x.itemsize
    for axis in (*sides, *(axis for axis in others if axis not in sides)):
        lengths[axis] = max(min(x.shape[axis], sides.get(axis, left), left), 1)
        left //= lengths[axis]
    cuts = [[slice(i, i + n) for i in range(0, size, n)] for size, n in zip(x.shape, lengths, strict=True)]
    return list(product(*cuts))


def _is_turned(x: Array) -> bool:
    """Whether elements of another axis than the last one lie closer together."""
    *others, last = (abs(step) if length > 1 else x.nbytes for step, length in zip(x.strides, x.shape, strict=True))
    return min(others, default=last) < last
