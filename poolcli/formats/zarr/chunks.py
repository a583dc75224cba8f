"""Chunks and shards: how arrays are cut that are made here, and how regions are, so that each holds few chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from poolcli.errors import RequestError
from poolcli.layouts import spatial_axes
from poolcli.message_fields import field
from poolcli.windows import ceil_div

if TYPE_CHECKING:
    pass

USUAL = {1: 2**20, 2: 1024, 3: 128}  # the length of a chunk along each spatial axis, by their number


@dataclass(frozen=True, slots=True)
class Grid:
    """How an array is cut: what is coded as one, and what is one file or object, None where each chunk is."""

    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def unit(self) -> tuple[int, ...]:
        """What is written as a whole or not at all."""
        return self.shards or self.chunks


def grid_of(
    shape: Sequence[int],
    layout: str,
    *,
    asked: tuple[int, ...] | None = None,
    asked_shards: tuple[int, ...] | None = None,
    kept: Mapping[str, Any] | None = None,
    most: int | None = None,
) -> Grid:
    """The chunks and shards of an array: as asked for, else as the input's, else chunks of about a million elements.

    Where they were not asked for, they become smaller until one has at most `most` elements. A RequestError for numbers
    that fit neither the axes nor each other.

    >>> grid_of((1, 3, 500, 700, 100), "NCDHW").chunks
    (1, 1, 128, 128, 100)
    >>> grid_of((500, 700), "HW", asked=(64,), asked_shards=(256, 512))
    Grid(chunks=(64, 64), shards=(256, 512), notes=())
    """
    kept = kept or {}
    free = asked is None and asked_shards is None
    chunks = _lengths("chunks", asked, layout) or kept.get("chunks") or _lengths("chunks", _usual(layout), layout)
    shards = _lengths("shards", asked_shards, layout) or (kept.get("shards") if free else None)
    assert chunks is not None  # noqa: S101  # there is always a usual one
    if shards and any(shard % chunk for shard, chunk in zip(shards, chunks, strict=True)):
        raise RequestError(
            f"{field('shards', shards)} are no multiples of the chunks ({','.join(map(str, chunks))})"
            + (
                f"; give {field('chunks')} too"
                if asked is None
                else f"; use {field('shards', _multiples(shards, chunks))}"
            )
        )
    chunks = tuple(max(1, min(chunk, n)) for chunk, n in zip(chunks, shape, strict=True))
    if shards:
        shards = tuple(c * ceil_div(max(1, min(s, n)), c) for s, c, n in zip(shards, chunks, shape, strict=True))
    return _smaller(Grid(chunks, shards), most) if free and most is not None else Grid(chunks, shards)


def _multiples(shards: Sequence[int], chunks: Sequence[int]) -> tuple[int, ...]:
    """The next multiples of the chunks."""
    return tuple(ceil_div(shard, chunk) * chunk for shard, chunk in zip(shards, chunks, strict=True))


def _usual(layout: str) -> tuple[int, ...]:
    return (USUAL.get(len(spatial_axes(layout)), 32),)


def _lengths(name: str, numbers: tuple[int, ...] | None, layout: str) -> tuple[int, ...] | None:
    """One number for each axis: numbers for all of them, or for the spatial ones (D, H, W) while N and C have 1."""
    if numbers is None:
        return None
    if any(number < 1 for number in numbers):
        raise RequestError(f"{field(name, numbers)}: must be at least 1")
    if len(numbers) == len(layout) and len(numbers) > 1:
        return numbers
    spatial = spatial_axes(layout)
    if len(numbers) not in (1, len(spatial)):
        raise RequestError(
            f"{field(name, numbers)}: give 1 number, {len(spatial)} (for the spatial axes of {layout}) or {len(layout)}"
        )
    found = [1] * len(layout)
    for axis, number in zip(spatial, numbers * len(spatial), strict=False):
        found[axis] = number
    return tuple(found)


def _smaller(grid: Grid, most: int) -> Grid:
    """The grid with its units halved, along the longest axis each time, until one has at most `most` elements."""
    chunks, shards = grid.chunks, grid.shards
    while shards and prod(shards) > most and shards != chunks:
        counts = [shard // chunk for shard, chunk in zip(shards, chunks, strict=True)]
        axis = max((i for i, count in enumerate(counts) if count > 1), key=shards.__getitem__)
        shards = _with(shards, axis, ceil_div(counts[axis], 2) * chunks[axis])
    if shards and prod(shards) > most:
        shards = None
    while prod(chunks) > max(most, 1) and not shards:
        axis = max(range(len(chunks)), key=chunks.__getitem__)
        chunks = _with(chunks, axis, ceil_div(chunks[axis], 2))
    if (chunks, shards) == (grid.chunks, grid.shards):
        return grid
    words = [",".join(map(str, unit)) for unit in (shards or chunks, grid.unit)]
    kind = "shards" if shards else "chunks"
    return Grid(chunks, shards, (f"{kind} of {words[0]} instead of {words[1]}: each is made in memory as a whole",))


def _with(lengths: tuple[int, ...], axis: int, length: int) -> tuple[int, ...]:
    return (*lengths[:axis], length, *lengths[axis + 1 :])
