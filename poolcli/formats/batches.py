"""Regions of chunked arrays in parts of so many chunks, which limits what a library keeps for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from poolcli.windows import Ranges, ceil_div

MAX_CHUNKS = 1024  # per call of a library; zarr takes about 10 KB of memory for each, HDF5 6 KB


def batches(region: Ranges, chunk: Sequence[int], most: int = MAX_CHUNKS) -> Iterator[Ranges]:
    """Splits a region at chunk boundaries into parts that touch at most `most` chunks each.

    >>> list(batches((range(3, 9),), (4,)))
    [(range(3, 9),)]
    """
    if not all(region):
        return
    touched = [range(span.start // c, ceil_div(span.stop, c)) for span, c in zip(region, chunk, strict=True)]
    steps = [1] * len(region)
    for axis in reversed(range(len(region))):
        steps[axis] = max(1, min(len(touched[axis]), most // prod(steps)))
    starts = [range(span.start, span.stop, step) for span, step in zip(touched, steps, strict=True)]
    for first in product(*starts):
        yield tuple(
            range(max(span.start, at * c), min(span.stop, (at + step) * c))
            for span, at, step, c in zip(region, first, steps, chunk, strict=True)
        )
