"""The loops of the numba engine, on one canonical view: (outer, D, H, W * inner).

A task is one output row (outer, d, h). Its windows' rows are combined into a row buffer, which is contiguous
and vectorises for any number of inner channels; then the buffer is reduced along the row. Every output is
made inside one task, so results depend neither on threads nor on how tasks are shared out.

`begin`, `count` and `step` are the windows of each axis: window o reads begin[o] + j * step for j < count[o].
Kernels release the global interpreter lock and start no threads themselves (`compiled` does).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from poolcli.engine.cache import usable_folder

kernel = njit(nogil=True, error_model="numpy", cache=usable_folder() is not None)
uncached = njit(nogil=True, error_model="numpy")


@njit(inline="always")
def _task(t, outputs_d, outputs_h):
    """Outer index, output d and output h of task t."""
    return t // (outputs_d * outputs_h), t // outputs_h % outputs_d, t % outputs_h


@njit(inline="always")
def _half_even(total, divisor):
    """total / divisor to the nearest integer, halves to even; divisor > 0."""
    quotient = total // divisor
    twice = 2 * (total - quotient * divisor)
    return quotient + (twice > divisor or (twice == divisor and quotient & 1 == 1))


@kernel
def mean_float(x, out, inner, tasks, begin, count, step, divisor):
    """Means of float16 (given as float32) and float32, summed in float64."""
    row = np.empty(x.shape[3], np.float64)
    for t in range(tasks[0], tasks[1]):
        o, d, h = _task(t, out.shape[1], out.shape[2])
        row[:] = 0.0
        for i in range(count[0][d]):
            for j in range(count[1][h]):
                source = x[o, begin[0][d] + i * step[0], begin[1][h] + j * step[1]]
                for w in range(row.size):
                    row[w] += source[w]
        outer_divisor = float(divisor[0][d]) * float(divisor[1][h])
        target = out[o, d, h]
        for w in range(begin[2].size):
            whole = outer_divisor * divisor[2][w]
            for c in range(inner):
                total = 0.0
                at = begin[2][w] * inner + c
                for _ in range(count[2][w]):
                    total += row[at]
                    at += step[2] * inner
                target[w * inner + c] = total / whole


@njit(inline="always")
def _two_sum(total, error, addend):
    """total + addend, and error plus the exact rounding error of that addition (Knuth)."""
    new = total + addend
    back = new - total
    return new, error + ((total - (new - back)) + (addend - back))


@kernel
def mean_double(x, out, inner, tasks, begin, count, step, divisor, scale):
    """Means of float64 * scale / scale, with the rounding error of every addition carried along."""
    row = np.empty(x.shape[3], np.float64)
    row_error = np.empty(x.shape[3], np.float64)
    for t in range(tasks[0], tasks[1]):
        o, d, h = _task(t, out.shape[1], out.shape[2])
        row[:] = 0.0
        row_error[:] = 0.0
        for i in range(count[0][d]):
            for j in range(count[1][h]):
                source = x[o, begin[0][d] + i * step[0], begin[1][h] + j * step[1]]
                for w in range(row.size):
                    row[w], row_error[w] = _two_sum(row[w], row_error[w], source[w] * scale)
        outer_divisor = float(divisor[0][d]) * float(divisor[1][h])
        target = out[o, d, h]
        for w in range(begin[2].size):
            whole = outer_divisor * divisor[2][w]
            for c in range(inner):
                total, error = 0.0, 0.0
                at = begin[2][w] * inner + c
                for _ in range(count[2][w]):
                    total, error = _two_sum(total, error + row_error[at], row[at])
                    at += step[2] * inner
                if np.isfinite(total):
                    total += error
                target[w * inner + c] = total / whole / scale


@kernel
def mean_integer(x, out, inner, tasks, begin, count, step, divisor, rounded):
    """Means of integers of up to 32 bits, summed exactly; rounded half to even, or as floats."""
    row = np.empty(x.shape[3], np.int64)
    for t in range(tasks[0], tasks[1]):
        o, d, h = _task(t, out.shape[1], out.shape[2])
        row[:] = 0
        for i in range(count[0][d]):
            for j in range(count[1][h]):
                source = x[o, begin[0][d] + i * step[0], begin[1][h] + j * step[1]]
                for w in range(row.size):
                    row[w] += source[w]
        outer_divisor = divisor[0][d] * divisor[1][h]
        target = out[o, d, h]
        for w in range(begin[2].size):
            whole = outer_divisor * divisor[2][w]
            for c in range(inner):
                total = np.int64(0)
                at = begin[2][w] * inner + c
                for _ in range(count[2][w]):
                    total += row[at]
                    at += step[2] * inner
                if rounded:
                    target[w * inner + c] = _half_even(-total if whole < 0 else total, abs(whole))
                else:
                    target[w * inner + c] = float(total) / whole


@njit(inline="always")
def _wide_half_even(high, low, divisor):
    """(high * 2**32 + low) / divisor, halves to even, for 0 < divisor < 2**31, modulo 2**64."""
    high += low >> 32
    low &= 0xFFFFFFFF
    quotient_high = high // divisor
    rest = ((high - quotient_high * divisor) << 32) + low
    quotient_low = rest // divisor
    twice = 2 * (rest - quotient_low * divisor)
    quotient = (quotient_high << 32) + quotient_low
    return quotient + (twice > divisor or (twice == divisor and quotient & 1 == 1))


@kernel
def mean_wide(x, out, inner, tasks, begin, count, step, divisor, rounded, unsigned):
    """Means of 64-bit integers (unsigned ones given as int64), summed exactly in halves of 32 bits."""
    mask = np.int64(0xFFFFFFFF)
    high_mask = mask if unsigned else np.int64(-1)
    row = np.empty((2, x.shape[3]), np.int64)
    for t in range(tasks[0], tasks[1]):
        o, d, h = _task(t, out.shape[1], out.shape[2])
        row[:] = 0
        for i in range(count[0][d]):
            for j in range(count[1][h]):
                source = x[o, begin[0][d] + i * step[0], begin[1][h] + j * step[1]]
                for w in range(row.shape[1]):
                    row[0, w] += (source[w] >> 32) & high_mask
                    row[1, w] += source[w] & mask
        outer_divisor = divisor[0][d] * divisor[1][h]
        target = out[o, d, h]
        for w in range(begin[2].size):
            whole = outer_divisor * divisor[2][w]
            sign = -1 if whole < 0 else 1
            for c in range(inner):
                high, low = np.int64(0), np.int64(0)
                at = begin[2][w] * inner + c
                for _ in range(count[2][w]):
                    high += row[0, at]
                    low += row[1, at]
                    at += step[2] * inner
                if rounded:
                    target[w * inner + c] = _wide_half_even(sign * high, sign * low, sign * whole)
                else:
                    target[w * inner + c] = (float(high) * 4294967296.0 + float(low)) / whole


@kernel
def maximum(x, out, inner, tasks, begin, count, step, lowest):
    """Maxima; NaN wins over every number."""
    row = np.empty(x.shape[3], x.dtype)
    for t in range(tasks[0], tasks[1]):
        o, d, h = _task(t, out.shape[1], out.shape[2])
        row[:] = lowest
        for i in range(count[0][d]):
            for j in range(count[1][h]):
                source = x[o, begin[0][d] + i * step[0], begin[1][h] + j * step[1]]
                for w in range(row.size):
                    value = source[w]
                    row[w] = value if value > row[w] or value != value else row[w]
        target = out[o, d, h]
        for w in range(begin[2].size):
            for c in range(inner):
                best = lowest
                at = begin[2][w] * inner + c
                for _ in range(count[2][w]):
                    value = row[at]
                    best = value if value > best or value != value else best
                    at += step[2] * inner
                target[w * inner + c] = best


@kernel
def maximum_at(x, out, where, inner, tasks, begin, count, step, lowest):
    """Maxima and their positions inside the plane: the first in row-major order, the first NaN, -1 for none."""
    height, width = x.shape[2], x.shape[3] // inner
    row = np.empty(x.shape[3], x.dtype)
    row_at = np.empty(x.shape[3], np.int64)
    for t in range(tasks[0], tasks[1]):
        o, d, h = _task(t, out.shape[1], out.shape[2])
        row[:] = lowest
        row_at[:] = -1
        for i in range(count[0][d]):
            for j in range(count[1][h]):
                in_d, in_h = begin[0][d] + i * step[0], begin[1][h] + j * step[1]
                source = x[o, in_d, in_h]
                line = in_d * height + in_h
                for w in range(row.size):
                    value = source[w]
                    if row_at[w] < 0 or value > row[w] or (value != value and row[w] == row[w]):
                        row[w] = value
                        row_at[w] = line
        for w in range(begin[2].size):
            for c in range(inner):
                best, best_at = lowest, np.int64(-1)
                for j in range(count[2][w]):
                    at = begin[2][w] + j * step[2]
                    value, line = row[at * inner + c], row_at[at * inner + c]
                    if line < 0:
                        continue
                    # Among equal values the smaller (line, column) comes first in row-major order.
                    position = line * width + at
                    larger = value > best or (value != value and best == best)
                    equal = value == best or (value != value and best != best)
                    if best_at < 0 or larger or (equal and position < best_at):
                        best, best_at = value, position
                out[o, d, h, w * inner + c] = best
                where[o, d, h, w * inner + c] = best_at
