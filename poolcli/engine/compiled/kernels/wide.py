"""Means of 64-bit integers."""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.kernels.rows import begin_at, row_after, row_of, steps_in
from poolcli.engine.compiled.pointers import (
    arithmetic_at,
    geometry_at,
    inlined,
    optimise_later,
    pointers_are_distinct,
)
from poolcli.engine.compiled.results import nearest_quotient, odd_quotient


@inlined
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


@inlined
def _as_floats(high, low):
    """high * 2**32 + low as the nearest float64, or one beside it, and the exact rest."""
    high += low >> 32
    low &= 0xFFFFFFFF
    first = float(high >> 32) * 18446744073709551616.0
    second, third = float(high & 0xFFFFFFFF) * 4294967296.0, float(low)
    some = first + second  # the three do not overlap, so that each sum leaves an exact rest
    rest = second - (some - first)
    total = some + third
    return total, rest + (third - (total - some))


def mean_wide(arithmetic, taps):
    """Means of 64-bit integers, summed exactly in halves of 32 bits."""

    def mean_wide(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        pointers_are_distinct()
        optimise_later()
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        width, shape, inner, (plane, row) = geometry.input[2], geometry.output, geometry.inner, steps_in(geometry)
        begin, count, step, divisor = geometry.begins, geometry.counts, geometry.steps, geometry.divisors[0]
        mask = np.int64(0xFFFFFFFF)
        high_mask = mask if how.unsigned else np.int64(-1)
        o, d, h = row_of(first_task, shape)
        for t in range(first_task, last_task):
            for w in range(2 * width):
                work[w] = 0
            for i in range(count[0][d]):
                for j in range(count[1][h]):
                    line = begin_at(geometry, o, d, h) + i * plane + j * row
                    for w in range(width):
                        work[w] += (x[line + w] >> 32) & high_mask
                        work[width + w] += x[line + w] & mask
            outer_divisor = divisor[0][d] * divisor[1][h]
            for w in range(geometry.size // inner):
                whole = outer_divisor * divisor[2][w * inner]
                sign = -1 if whole < 0 else 1
                for c in range(inner):
                    high, low, at = np.int64(0), np.int64(0), begin[2][w] * inner + c
                    for _ in range(count[2][w]):
                        high += work[at]
                        low += work[width + at]
                        at += step[2] * inner
                    to = t * geometry.size + w * inner + c
                    if how.rounded:
                        out[to] = _wide_half_even(sign * high, sign * low, sign * whole)
                    else:
                        total, error = _as_floats(high, low)
                        if how.odd:
                            out[to] = odd_quotient(total, error, float(whole))
                        else:
                            out[to] = nearest_quotient(total, error, float(whole))[0]
            o, d, h = row_after(o, d, h, shape)

    return mean_wide
