"""What tests of pictures share: pixels by chance, and their means by a loop."""

from __future__ import annotations

from typing import Any

import numpy as np

NOISE = np.random.default_rng(7)


HALVE = ("-k", "2", "-s", "2")


def pixels(height: int, width: int, channels: int = 3, dtype: str = "uint8") -> Any:
    shape = (height, width) if channels == 1 else (height, width, channels)
    return NOISE.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def halved(x: Any) -> Any:
    """Means of 2 x 2 blocks, halves to even, by a loop over Python integers."""
    out = np.empty((x.shape[0] // 2, x.shape[1] // 2, *x.shape[2:]), x.dtype)
    for i, j, *c in np.ndindex(out.shape):
        total = sum(int(x[(2 * i + a, 2 * j + b, *c)]) for a in (0, 1) for b in (0, 1))
        out[(i, j, *c)] = round(total / 4)
    return out
