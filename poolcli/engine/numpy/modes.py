"""The value that occurs most often in every window: all elements of a window in a row, sorted, and the longest run."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from poolcli.engine.numpy.reduce import Array, along
from poolcli.engine.rounding import storable
from poolcli.plan.region import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.choose import Pool

ELEMENTS = 1 << 18  # of windows that are taken at once


def mode_of(region: Region, counts: NDArray[np.int64] | None = None) -> Pool:
    """What makes of an array the mode of every window, or of the `counts` smallest elements of each."""
    shape, counts, places = region.output_shape, _counts(region) if counts is None else counts, tuple(_places(region))
    window = prod(place.shape[1] for place in places)
    block = max(1, ELEMENTS // max(window, 1))

    def pool(x: Array, out: Array, threads: int | None) -> None:
        elements, modes = np.ascontiguousarray(x).reshape(-1), np.empty(prod(shape), x.dtype)
        for first in range(0, modes.size, block):
            outputs = np.arange(first, min(first + block, modes.size))
            at = np.unravel_index(outputs, shape)
            offsets = np.zeros((outputs.size, 1), np.int64)
            for place, index in zip(places, at, strict=True):
                offsets = (offsets[:, :, None] + place[index][:, None, :]).reshape(outputs.size, -1)
            inside = counts.reshape(-1)[outputs]
            taken = elements[np.maximum(offsets, 0)]
            taken[offsets < 0] = highest(x)
            modes[outputs] = _longest_runs(taken, inside)
        out[...] = storable(modes.reshape(shape), out.dtype)

    return pool


def _longest_runs(elements: Array, counts: NDArray[np.int64]) -> Array:
    """Of each row the value that occurs most often, the smallest of such, among its `counts` smallest."""
    ordered, places = np.sort(elements, axis=1), np.arange(elements.shape[1])
    starts = np.ones(ordered.shape, bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    lengths = places - np.maximum.accumulate(np.where(starts, places, 0), axis=1)
    longest = np.where(places < counts[:, None], lengths, -1).argmax(axis=1)
    return np.asarray(ordered[np.arange(len(ordered)), longest])


def _places(region: Region) -> Iterator[NDArray[np.int64]]:
    """For each axis and each of its outputs, how far its elements lie from the array's first; far below 0 outside."""
    unit = prod(region.input_shape)
    spatial = {axis.position: axis.windows for axis in region.plan.axes}
    nowhere = -2 * unit - 1
    for position, (outputs, length) in enumerate(zip(region.outputs, region.input_shape, strict=True)):
        unit //= max(length, 1)
        if position not in spatial:
            yield np.arange(length)[:, None] * unit
            continue
        spans, low = [spatial[position].span(o) for o in outputs], region.reads[position].start
        places = np.full((len(spans), max(map(len, spans))), nowhere)
        for row, span in zip(places, spans, strict=True):
            row[: len(span)] = (np.arange(span.start, span.stop, span.step) - low) * unit
        yield places


def _counts(region: Region) -> NDArray[np.int64]:
    """How many elements of each window lie inside the input."""
    counts = np.ones((1,) * len(region.outputs), np.int64)
    for axis in region.plan.axes:
        outputs = region.outputs[axis.position]
        inside = axis.windows.inside(np.arange(outputs.start, outputs.stop))
        counts = counts * along(inside, axis.position, len(region.outputs))
    return np.broadcast_to(counts, region.output_shape)


def highest(x: Array) -> int:
    """What sorts behind every element, or is equal to it."""
    return 1 if x.dtype.kind == "b" else int(np.iinfo(x.dtype).max)
