"""The contender that anybody can write: pooling of planes by plain loops in numba, sizes and strides as constants, with
poolcli's bits: sums in float64, padding left out of divisors, NaN wins. One thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from poolcli.arguments import per_axis
from tests.bench.rows import Array, Row

Pairs = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]


def plain_loop(row: Row, x: Array) -> Callable[[], Array] | None:
    """The call for a row that it can compute: sliding windows over two axes of float32 in C order."""
    op = row.op
    if op.name not in ("avg", "max") or row.layout or row.indices or x.ndim != 4 or x.dtype != np.float32:
        return None
    if op.dilations not in (1, (1, 1)) or op.rounding_type != "floor" or op.pads_begin != op.pads_end:
        return None
    if (op.name == "avg" and op.exclude_pad is False) or not x.flags.c_contiguous:
        return None
    (kh, kw), (sh, sw), (ph, pw) = (
        per_axis(name, getattr(op, name), "HW") for name in ("kernel", "strides", "pads_begin")
    )
    pool = (_average if op.name == "avg" else _maximum)(kh, kw, sh, sw, ph, pw)
    planes = x.reshape(-1, *x.shape[2:])
    height, width = (
        (n + 2 * p - k) // s + 1 for n, k, s, p in zip(x.shape[2:], (kh, kw), (sh, sw), (ph, pw), strict=True)
    )
    out = np.empty((*x.shape[:2], height, width), np.float32)
    found = out.reshape(-1, height, width)

    def call() -> Array:
        pool(planes, found)
        return out

    return call


def _average(kh: int, kw: int, sh: int, sw: int, ph: int, pw: int) -> Any:
    import numba

    @numba.njit
    def pool(x, out):  # type: ignore[no-untyped-def]  # numba infers types
        width = x.shape[2]
        cut_at_end = 0
        while cut_at_end < out.shape[2] and (out.shape[2] - 1 - cut_at_end) * sw - pw + kw > width:
            cut_at_end += 1
        sums = np.zeros(width + 2 * pw + kw)
        for plane in range(x.shape[0]):
            for h in range(out.shape[1]):
                top, bottom = max(h * sh - ph, 0), min(h * sh - ph + kh, x.shape[1])
                for w in range(width):
                    sums[pw + w] = x[plane, top, w]
                for row in range(top + 1, bottom):
                    for w in range(width):
                        sums[pw + w] += x[plane, row, w]
                divisor = float((bottom - top) * kw)
                for w in range(out.shape[2]):
                    total = sums[w * sw]
                    for tap in range(1, kw):
                        total += sums[w * sw + tap]
                    out[plane, h, w] = total / divisor
                for cut in range(-(-pw // sw) + cut_at_end):  # windows that reach beyond the row
                    w = cut if cut * sw < pw else out.shape[2] - 1 - cut + -(-pw // sw)
                    left, right = max(w * sw - pw, 0), min(w * sw - pw + kw, width)
                    total = 0.0
                    for i in range(left, right):
                        total += sums[pw + i]
                    out[plane, h, w] = total / ((bottom - top) * (right - left))
        return out

    return pool


def _maximum(kh: int, kw: int, sh: int, sw: int, ph: int, pw: int) -> Any:
    import numba

    @numba.njit
    def better(a, b):  # type: ignore[no-untyped-def]
        return a if a > b or a != a else b

    @numba.njit
    def pool(x, out):  # type: ignore[no-untyped-def]
        width = x.shape[2]
        best = np.full(width + 2 * pw + kw, -np.inf, np.float32)
        for plane in range(x.shape[0]):
            for h in range(out.shape[1]):
                top, bottom = max(h * sh - ph, 0), min(h * sh - ph + kh, x.shape[1])
                for w in range(width):
                    best[pw + w] = x[plane, top, w]
                for row in range(top + 1, bottom):
                    for w in range(width):
                        best[pw + w] = better(best[pw + w], x[plane, row, w])
                for w in range(out.shape[2]):
                    value = best[w * sw]
                    for tap in range(1, kw):
                        value = better(value, best[w * sw + tap])
                    out[plane, h, w] = value
        return out

    return pool
