"""The loops of the compiled engine, on one canonical view: (outer, D, H, W * inner), given flat.

A task makes one output row (outer, d, h), or the rows whose windows start in one block of input rows. The
rows of a window are joined in a row buffer, which is contiguous and vectorises for any number of inner
channels; then windows are taken along the buffer. How elements are joined (added, or the best of them
taken) is up to the arithmetic, `how`; where they lie to the `geometry`. Every output is made inside one
task and by the same order of operations wherever it lies, so results depend neither on threads nor on how
tasks are shared out.

A kernel is made for one arithmetic, whose types and numbers are constants in it, and gets raw pointers: to
what is read and written, to row buffers (`work`, of totals, and `lines`), to the integers and the divisors
of the geometry; then its first task and one past the last. It allocates nothing, so it knows no reference
counts and no exceptions, and its machine code asks nothing of numba when it is loaded by another process.

A signed position in the innermost loop keeps some of them from vectorising; so the loops at the bottom turn
positions into unsigned numbers first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from poolcli.engine.compiled.numbers import beats, finish, join, join_elements, join_totals, lift
from poolcli.engine.compiled.pointers import across_at, arithmetic_at, behind, down_at, geometry_at, inlined, more_at

unsigned = np.uint64
SHORT = 4  # taps
KERNELS: dict[str, Callable[..., Any]] = {}  # by name: what makes the kernel for an arithmetic


def kernel(make: Callable[..., Any]) -> Callable[..., Any]:
    """Enters a maker of kernels under its name."""
    KERNELS[make.__name__] = make
    return make


@inlined
def _task(t, shape):
    """Outer index, output d and output h of task t; `shape` is (D, H) of the output."""
    rest = t // shape[1]
    return rest // shape[0], rest % shape[0], t - rest * shape[1]


@inlined
def _next(o, d, h, shape):
    """The row after (o, d, h), without the divisions."""
    h += 1
    if h == shape[1]:
        h, d = 0, d + 1
        if d == shape[0]:
            d, o = 0, o + 1
    return o, d, h


@inlined
def _fill(work, to, size, how):
    to = unsigned(to)
    for w in range(unsigned(size)):
        work[to + w] = how.total.nothing


@inlined
def _join_two(work, to, a, b, size, how):
    to, a, b = unsigned(to), unsigned(a), unsigned(b)
    for w in range(unsigned(size)):
        work[to + w] = join(work[a + w], work[b + w], how)


@inlined
def _join_three(work, to, a, b, c, size, how):
    to, a, b, c = unsigned(to), unsigned(a), unsigned(b), unsigned(c)
    for w in range(unsigned(size)):
        work[to + w] = join(join(work[a + w], work[b + w], how), work[c + w], how)


@inlined
def _join_row(work, to, size, x, at, how):
    to, at = unsigned(to), unsigned(at)
    for w in range(unsigned(size)):
        work[to + w] = join(work[to + w], lift(x[at + w], how), how)


@inlined
def _after(at, line, lines, step):
    """Of a window's rows in x, line by line and plane by plane, the one after that at `at`: where it is, its line."""
    if line + 1 == lines:
        return at + step[0] - line * step[1], 0
    return at + step[1], line + 1


@inlined
def _join_rows(work, to, size, x, at, planes, lines, step, how):
    """At `to`, the rows of a window in x, up to 4 in one pass; `step` leads to the next plane and the next line."""
    left, line, fresh = planes * lines, 0, True
    if left == 0:
        _fill(work, to, size, how)
    to, n = unsigned(to), unsigned(size)
    while left > 0:
        a, (at, line) = unsigned(at), _after(at, line, lines, step)
        b, (two, line_two) = unsigned(at), _after(at, line, lines, step)
        c, (three, line_three) = unsigned(two), _after(two, line_two, lines, step)
        d, (four, line_four) = unsigned(three), _after(three, line_three, lines, step)
        if left >= 4 and not fresh:
            for w in range(n):
                low = join(lift(x[a + w], how), lift(x[b + w], how), how)
                high = join(lift(x[c + w], how), lift(x[d + w], how), how)
                work[to + w] = join(work[to + w], join(low, high, how), how)
        elif left % 4 == 0:
            for w in range(n):
                low = join(lift(x[a + w], how), lift(x[b + w], how), how)
                work[to + w] = join(low, join(lift(x[c + w], how), lift(x[d + w], how), how), how)
        elif left % 4 == 3:
            for w in range(n):
                low = join(lift(x[a + w], how), lift(x[b + w], how), how)
                work[to + w] = join(low, lift(x[c + w], how), how)
        elif left % 4 == 2:
            for w in range(n):
                work[to + w] = join(lift(x[a + w], how), lift(x[b + w], how), how)
        else:
            for w in range(n):
                work[to + w] = lift(x[a + w], how)
        if left % 4 == 0:
            at, line, left = four, line_four, left - 4
        elif left % 4 == 3:
            at, line, left = three, line_three, left - 3
        elif left % 4 == 2:
            at, line, left = two, line_two, left - 2
        else:
            left -= 1
        fresh = False


@inlined
def _windows(work, length, taps, unit, whole, how):
    """The join of `taps` elements, `unit` apart, from every position of the row at 0 of `work`.

    Windows of m taps give those of 2m (two of them) and of 2m + 1 (and one tap), so k taps cost log2(k) passes,
    through the two buffers behind the row. Unless `whole`, the last pass is left to the caller: returned are the
    number of terms that it joins and where they are.
    """
    bit, done, source = 1, 1, 0
    while 2 * bit <= taps:
        bit *= 2
    last = 1 if whole else 2
    while bit > last:
        bit //= 2
        shift, spare = done * unit, 2 * length if source == length else length
        if taps & bit:
            _join_three(work, spare, source, source + shift, 2 * shift, length - 2 * shift, how)
        else:
            _join_two(work, spare, source, source + shift, length - 2 * shift + unit, how)
        source, done = spare, 2 * done + (taps & bit != 0)
    terms = 1 if whole else min(taps, 2 + taps % 2)
    return terms, source, source + done * unit, 2 * done * unit


@inlined
def _whole(taps, stride, inner):
    """Whether windows are best joined at every position before they are sampled."""
    return stride > 1 and (inner > 1 or (stride == 2 and taps % 2 == 1))


@inlined
def _sample(work, to, size, terms, a, b, c, stride, inner, how):
    """The terms at every stride-th group of `inner` elements, joined, at `to`."""
    to, a, b, c, step, channels = (
        unsigned(to),
        unsigned(a),
        unsigned(b),
        unsigned(c),
        unsigned(stride * inner),
        unsigned(inner),
    )
    one, two, three = unsigned(1), unsigned(2), unsigned(3)
    if inner == 1 and stride == 2 and terms == 1:
        for w in range(unsigned(size)):
            work[to + w] = work[a + two * w]
    elif inner == 1 and stride == 2 and terms == 2:
        for w in range(unsigned(size)):
            work[to + w] = join(work[a + two * w], work[b + two * w], how)
    elif inner == 1 and terms == 1:
        for w in range(unsigned(size)):
            work[to + w] = work[a + step * w]
    elif inner == 1 and terms == 2:
        for w in range(unsigned(size)):
            work[to + w] = join(work[a + step * w], work[b + step * w], how)
    elif inner == 1:
        for w in range(unsigned(size)):
            work[to + w] = join(join(work[a + step * w], work[b + step * w], how), work[c + step * w], how)
    elif inner == 3:
        for w in range(unsigned(size // 3)):
            work[to + three * w] = work[a + step * w]
            work[to + three * w + one] = work[a + step * w + one]
            work[to + three * w + two] = work[a + step * w + two]
    else:
        for w in range(unsigned(size // inner)):
            for i in range(channels):
                work[to + channels * w + i] = work[a + step * w + i]


@inlined
def _finish(out, at, size, work, terms, a, b, c, outer_divisor, divisor, first, how):
    """The last pass along the row, and from sums to means."""
    at, a, b, c, first = unsigned(at), unsigned(a), unsigned(b), unsigned(c), unsigned(first)
    if terms == 1:
        for w in range(unsigned(size)):
            out[at + w] = finish(work[a + w], outer_divisor, divisor[first + w], how, out)
    elif terms == 2:
        for w in range(unsigned(size)):
            total = join(work[a + w], work[b + w], how)
            out[at + w] = finish(total, outer_divisor, divisor[first + w], how, out)
    else:
        for w in range(unsigned(size)):
            total = join(join(work[a + w], work[b + w], how), work[c + w], how)
            out[at + w] = finish(total, outer_divisor, divisor[first + w], how, out)


@inlined
def _piece(p, across, width, inner, work, rows, how):
    """Piece p of a row: its first output and their number, its first input and their number, where those belong in
    the row buffer. What the buffer holds before and behind them, for `rows` rows, joins nothing.
    """
    _, stride, _, pad, reach, outputs, piece = across
    first = p * piece
    start = first * stride - pad
    low = min(max(start, 0), width)
    used = max(0, min(start + reach, width) - low)
    before = max(0, min(low - start, reach))
    if outputs > piece:
        for row in range(rows):
            at = row * reach * inner
            _fill(work, at, before * inner, how)
            _fill(work, at + (before + used) * inner, (reach - before - used) * inner, how)
    return first * inner, min(piece, outputs - first) * inner, low * inner, used * inner, before * inner


@kernel
def slide(arithmetic):
    """Sliding windows. A task is a piece of one output row, or `group` whole rows where they are short."""

    def slide(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        across, group = across_at(numbers), more_at(numbers, 7)
        (depth, height, width), shape, size, inner = geometry.input, geometry.output, geometry.size, geometry.inner
        (begin_d, begin_h, _), (count_d, count_h, _) = geometry.begins, geometry.counts
        steps = geometry.steps[0] * height * width, geometry.steps[1] * width
        divisor_d, divisor_h, divisor_w = geometry.divisors
        taps, stride, dilation, _, reach, outputs, piece = across
        length, pieces, last = reach * inner, -(-outputs // piece), geometry.rows
        sampled = 3 * length * group
        _fill(work, 0, length * group, how)
        for t in range(first_task, last_task):
            first, many, low, used, before = _piece(t % pieces, across, width // inner, inner, work, group, how)
            row, to = t // pieces * group, before
            some, (o, d, h) = min(group, last - row), _task(row, shape)
            for _ in range(some):
                line = (o * depth + begin_d[d]) * height + begin_h[h]
                _join_rows(work, to, used, x, line * width + low, count_d[d], count_h[h], steps, how)
                to, (o, d, h) = to + length, _next(o, d, h, shape)
            at, (o, d, h) = row * size + first, _task(row, shape)
            terms, a, b, c = _windows(work, length * group, taps, dilation * inner, _whole(taps, stride, inner), how)
            for _ in range(some):
                if stride > 1:
                    _sample(work, sampled, many, terms, a, b, c, stride, inner, how)
                whole = divisor_d[d] * divisor_h[h]
                left, found = (1, sampled) if stride > 1 else (terms, a)
                _finish(out, at, many, work, left, found, b, c, whole, divisor_w, first, how)
                a, b, c, at, (o, d, h) = a + length, b + length, c + length, at + size, _next(o, d, h, shape)

    return slide


@inlined
def _block_ends(ends, height, size, x, at, width, first, rows, how):
    """ends[r]: the join of rows first + r and below of a block, for every r; rows outside the input join nothing."""
    n = unsigned(size)
    for r in range(height - 1, -1, -1):
        to = unsigned(r * size)
        below, source = to + n, unsigned(at + (first + r) * width)
        if first + r < 0 or first + r >= rows:
            for w in range(n):
                ends[to + w] = ends[below + w]
        else:
            for w in range(n):
                ends[to + w] = join(ends[below + w], lift(x[source + w], how), how)


@kernel
def slide_blocks(arithmetic):
    """Sliding windows of many overlapping rows, of one plane each. A task is a piece of a block of rows.

    Rows, padding included, are cut into blocks of a window's height. A window is the end of one block, whose
    joins are made once from its last row upwards, and the beginning of the next, joined row by row.
    """

    def slide_blocks(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        across, down = across_at(numbers), down_at(numbers)
        (depth, height, width), shape, size, inner = geometry.input, geometry.output, geometry.size, geometry.inner
        begin_d, (divisor_d, divisor_h, divisor_w) = geometry.begins[0], geometry.divisors
        taps, stride, dilation, _, reach, outputs, piece = across
        rows, down_stride, above, blocks = down
        length, pieces = reach * inner, -(-outputs // piece)
        sampled = 3 * length
        prefix = sampled + piece * inner
        ends = behind(work, prefix + length)
        _fill(work, 0, length, how)
        for t in range(first_task, last_task):
            o, d, block = _task(t // pieces, (shape[0], blocks))
            first, many, low, used, before = _piece(t % pieces, across, width // inner, inner, work, 1, how)
            at, top = (o * depth + begin_d[d]) * height * width + low, block * rows - above
            _fill(ends, rows * used, used, how)
            _block_ends(ends, rows, used, x, at, width, top, height, how)
            _fill(work, prefix, used, how)
            done = top + rows
            for h in range(-(-block * rows // down_stride), min(shape[1], ((block + 1) * rows - 1) // down_stride + 1)):
                start = h * down_stride - above
                fresh, stop = max(done, 0), min(start + rows, height)
                for r in range(fresh, stop):
                    _join_row(work, prefix, used, x, at + r * width, how)
                done = max(done, start + rows)
                middle, end, beginning = unsigned(before), unsigned((start - top) * used), unsigned(prefix)
                for w in range(unsigned(used)):
                    work[middle + w] = join(ends[end + w], work[beginning + w], how)
                terms, a, b, c = _windows(work, length, taps, dilation * inner, _whole(taps, stride, inner), how)
                if stride > 1:
                    _sample(work, sampled, many, terms, a, b, c, stride, inner, how)
                    terms, a = 1, sampled
                target, whole = ((o * shape[0] + d) * shape[1] + h) * size + first, divisor_d[d] * divisor_h[h]
                _finish(out, target, many, work, terms, a, b, c, whole, divisor_w, first, how)

    return slide_blocks


@inlined
def _pair_of_pairs(x, a, b, i, j, how):
    """The join of elements i and j of the rows of x at a and b."""
    first = join(lift(x[a + i], how), lift(x[a + j], how), how)
    return join(first, join(lift(x[b + i], how), lift(x[b + j], how), how), how)


@kernel
def halve(arithmetic):
    """Windows of 2 along W that do not overlap, for 1 or 3 inner elements; of two rows, in one pass from x to out."""

    def halve(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        (depth, height, width), shape, size, inner = geometry.input, geometry.output, geometry.size, geometry.inner
        (begin_d, begin_h, _), (count_d, count_h, _) = geometry.begins, geometry.counts
        steps = geometry.steps[0] * height * width, geometry.steps[1] * width
        divisor_d, divisor_h, divisor_w = geometry.divisors
        one, two, three, four, five, six = unsigned(1), unsigned(2), unsigned(3), unsigned(4), unsigned(5), unsigned(6)
        used = 2 * size
        for t in range(first_task, last_task):
            o, d, h = _task(t, shape)
            first, to, n = ((o * depth + begin_d[d]) * height + begin_h[h]) * width, unsigned(t * size), unsigned(size)
            rows, whole = count_d[d] * count_h[h], divisor_d[d] * divisor_h[h]
            if rows == 2:
                a, b = unsigned(first), unsigned(first + (steps[1] if count_h[h] == 2 else steps[0]))
                if inner == 1:
                    for w in range(n):
                        total = _pair_of_pairs(x, a, b, two * w, two * w + one, how)
                        out[to + w] = finish(total, whole, divisor_w[w], how, out)
                else:
                    for w in range(n // three):
                        i, r = six * w, three * w
                        total = _pair_of_pairs(x, a, b, i, i + three, how)
                        out[to + r] = finish(total, whole, divisor_w[r], how, out)
                        total = _pair_of_pairs(x, a, b, i + one, i + four, how)
                        out[to + r + one] = finish(total, whole, divisor_w[r], how, out)
                        total = _pair_of_pairs(x, a, b, i + two, i + five, how)
                        out[to + r + two] = finish(total, whole, divisor_w[r], how, out)
            else:
                _join_rows(work, 0, used, x, first, count_d[d], count_h[h], steps, how)
                if inner == 1:
                    for w in range(n):
                        total = join(work[two * w], work[two * w + one], how)
                        out[to + w] = finish(total, whole, divisor_w[w], how, out)
                else:
                    for w in range(n // three):
                        for c in range(three):
                            total = join(work[six * w + c], work[six * w + three + c], how)
                            out[to + three * w + c] = finish(total, whole, divisor_w[three * w], how, out)

    return halve


@inlined
def _each_short(work, to, size, begin, count, step, longest, how):
    """Short windows anywhere in the row, joined one tap of all of them at a time: no branch depends on a length."""
    to = unsigned(to)
    _fill(work, to, size, how)
    for j in range(longest):
        for w in range(unsigned(size)):
            at = unsigned(begin[w] + min(j, count[w] - 1) * step)
            work[to + w] = join(work[to + w], work[at] if j < count[w] else how.total.nothing, how)


@kernel
def each(arithmetic):
    """Windows of any places and lengths, each on its own; those along W are given for every inner element."""

    def each(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        longest = more_at(numbers, 0)
        (depth, height, width), shape, size, inner = geometry.input, geometry.output, geometry.size, geometry.inner
        (begin_d, begin_h, begin_w), (count_d, count_h, count_w) = geometry.begins, geometry.counts
        steps, step_w = (geometry.steps[0] * height * width, geometry.steps[1] * width), geometry.steps[2] * inner
        divisor_d, divisor_h, divisor_w = geometry.divisors
        for t in range(first_task, last_task):
            o, d, h = _task(t, shape)
            rows, whole = count_d[d] * count_h[h], divisor_d[d] * divisor_h[h]
            in_place = rows == 1 and longest > SHORT
            first = ((o * depth + begin_d[d]) * height + begin_h[h]) * width
            if not in_place:
                _join_rows(work, 0, width, x, first, count_d[d], count_h[h], steps, how)
            if longest <= SHORT:
                _each_short(work, width, size, begin_w, count_w, step_w, longest, how)
            elif in_place:
                for w in range(size):
                    work[width + w] = join_elements(x, first + begin_w[w], count_w[w], step_w, how)
            else:
                for w in range(size):
                    work[width + w] = join_totals(work, begin_w[w], count_w[w], step_w, how)
            _finish(out, t * size, size, work, 1, width, 0, 0, whole, divisor_w, 0, how)

    return each


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


@kernel
def mean_wide(arithmetic):
    """Means of 64-bit integers, summed exactly in halves of 32 bits."""

    def mean_wide(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        (depth, height, width), shape, inner = geometry.input, geometry.output, geometry.inner
        begin, count, step, divisor = geometry.begins, geometry.counts, geometry.steps, geometry.divisors
        mask = np.int64(0xFFFFFFFF)
        high_mask = mask if how.unsigned else np.int64(-1)
        for t in range(first_task, last_task):
            o, d, h = _task(t, shape)
            for w in range(2 * width):
                work[w] = 0
            for i in range(count[0][d]):
                for j in range(count[1][h]):
                    line = (o * depth + begin[0][d] + i * step[0]) * height + begin[1][h] + j * step[1]
                    for w in range(width):
                        work[w] += (x[line * width + w] >> 32) & high_mask
                        work[width + w] += x[line * width + w] & mask
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
                        out[to] = (float(high) * 4294967296.0 + float(low)) / whole

    return mean_wide


@kernel
def best_at(arithmetic):
    """The best elements and their positions inside the plane: the first in row-major order, -1 for none."""

    def best_at(x, out, where, work, lines, numbers, divisors, first_task, last_task):
        geometry, how = geometry_at(numbers, divisors), arithmetic_at(arithmetic, numbers)
        (depth, height, width), shape, size, inner = geometry.input, geometry.output, geometry.size, geometry.inner
        (begin_d, begin_h, begin_w), (count_d, count_h, count_w) = geometry.begins, geometry.counts
        step_d, step_h, step_w = geometry.steps
        n = unsigned(width)
        for t in range(first_task, last_task):
            o, d, h = _task(t, shape)
            rows = count_d[d] * count_h[h]
            for r in range(rows):
                plane = o * depth + begin_d[d] + r // count_h[h] * step_d
                at, line = unsigned((plane * height + begin_h[h] + r % count_h[h] * step_h) * width), np.int32(r)
                if r == 0:
                    for w in range(n):
                        work[w], lines[w] = lift(x[at + w], how), line
                else:
                    for w in range(n):
                        value = lift(x[at + w], how)
                        lines[w] = line if beats(value, work[w], how) else lines[w]
                        work[w] = join(value, work[w], how)
            for w in range(size // inner):
                for c in range(inner):
                    best, best_line, best_at = how.total.nothing, np.int32(rows), -1
                    for j in range(count_w[w] if rows else 0):
                        at = begin_w[w] + j * step_w
                        value, line = work[unsigned(at * inner + c)], lines[unsigned(at * inner + c)]
                        # among equal values that of the smaller line comes first in row-major order
                        first = (line < best_line) & ((value == best) | (value != value))
                        taken = beats(value, best, how) | first  # no branch: which is better cannot be foreseen
                        best = join(value, best, how)
                        best_line = line if taken else best_line
                        best_at = at if taken else best_at
                    if best_at >= 0:
                        in_d, in_h = best_line // count_h[h] * step_d, best_line % count_h[h] * step_h
                        best_at += ((begin_d[d] + in_d) * height + begin_h[h] + in_h) * (width // inner)
                    out[t * size + w * inner + c] = finish(best, 1, 1, how, out)
                    where[t * size + w * inner + c] = best_at

    return best_at
