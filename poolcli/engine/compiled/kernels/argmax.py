"""Maxima or minima with their positions. "Better" is larger for maxima; of equal elements, the first one wins."""

from __future__ import annotations

import operator

import numpy as np

from poolcli.engine.compiled.finish import composed
from poolcli.engine.compiled.geometry import ARGMAX_BLOCK, VECTOR_ELEMENTS, RowWindows
from poolcli.engine.compiled.intrinsics import (
    assume_no_alias,
    bits_as,
    divisors_at,
    inlined,
    load_geometry,
    looped,
    offset,
    offset_as,
    optimise_later,
    record_at,
)
from poolcli.engine.compiled.kernels.rows import (
    NO_LINE,
    by_rows,
    deinterleave,
    fill_identity,
    line_offset,
    next_row,
    row_in_plane,
    row_index,
    rows_from_first,
    unsigned,
)
from poolcli.engine.compiled.operations import float_parts


def _beats(steps):
    """beats(a, b): whether a replaces b as the maximum or minimum. NaN beats every number, and zeros are equal."""
    if steps.identity.dtype.kind == "f":
        return inlined(lambda a, b: (a < b) | ((a != a) & (b == b)))
    better = operator.gt if steps.accumulator == "max" else operator.lt
    return inlined(lambda a, b: better(a, b))


def _ranked(ops, steps):
    """The operations whose elements are ranks: integers, of which the largest belongs to the best element.

    Ranks of integers are themselves, or their complements for minima. Ranks of floats, of which the minimum is wanted,
    are their bits, transformed to fall as numbers grow; -0 + 0 is 0, so both zeros have one rank.
    """
    kind, of_bits = type(steps.identity), steps.identity.dtype.kind == "f"
    number, bits, sign_shift, highest = float_parts(steps.identity)

    @inlined
    def falling(value):
        raw = bits_as(number(number(value) + number(0)), bits)
        rising = bits(raw ^ bits(bits(raw >> sign_shift) & highest))
        return highest if value != value else bits(~rising)

    if of_bits:
        return ops._replace(identity=~steps.identity.view(bits), lift=composed(ops.lift, falling))
    if steps.accumulator == "min":
        return ops._replace(identity=~steps.identity, lift=composed(ops.lift, inlined(lambda value: kind(~value))))
    return ops


def _is_worse_zero(steps):
    """is_worse_zero(value): whether it is the zero that loses against the other: +0, as minima are wanted of floats."""
    if steps.identity.dtype.kind != "f":
        return inlined(lambda value: False)
    number, bits, _, _ = float_parts(steps.identity)
    return inlined(lambda value: bits_as(number(value), bits) == bits(0))


@inlined
def _better(value, line, other, other_line):
    """The better of two ranks, and its line; `other` comes later."""
    return max(value, other), other_line if other > value else line


@looped
def _rank_rows(ranks, lines, x, size, geometry, o, d, h, ops):
    """The highest rank in the rows of the windows of output row (d, h) along W, and its first line."""
    optimise_later()
    n = unsigned(size)
    for w in range(n):
        ranks[w], lines[w] = ops.identity, np.int32(0)
    for row in range(geometry.counts[0][d] * geometry.counts[1][h]):
        at, line = line_offset(geometry, o, d, h, row), np.int32(row)
        for w in range(n):
            ranks[w], lines[w] = _better(ranks[w], lines[w], ops.lift(x[at + w]), line)


@looped
def _best_of_block(ranks, lines, taps, ops):
    """The highest of up to ARGMAX_BLOCK ranks, its first line, and its first position there, by whole vectors."""
    optimise_later()
    lowest, line, place, last = ops.identity, NO_LINE, NO_LINE, np.int32(taps)
    best, padded = lowest, unsigned(-(-taps // VECTOR_ELEMENTS) * VECTOR_ELEMENTS)
    for j in range(padded):
        best = max(best, ranks[j] if np.int32(j) < last else lowest)
    for j in range(padded):
        its = lines[j] if (np.int32(j) < last) & (ranks[j] == best) else NO_LINE
        line = its if its < line else line
    for j in range(padded):
        its = np.int32(j) if (np.int32(j) < last) & (ranks[j] == best) & (lines[j] == line) else NO_LINE
        place = its if its < place else place
    return best, line, place


@looped
def _best_of(ranks, lines, taps, step, ops):
    """The first line and the first position there of the highest of ranks that are `step` apart."""
    optimise_later()
    best, line, place, by, one = ops.identity, NO_LINE, np.int64(-1), unsigned(step), step == 1
    for first in range(0, taps, ARGMAX_BLOCK if one else 1):
        at = unsigned(first) * by
        other, its, found = ranks[at], lines[at], np.int32(0)
        if one:
            other, its, found = _best_of_block(
                offset(ranks, at), offset(lines, at), min(ARGMAX_BLOCK, taps - first), ops
            )
        if other > best or (other == best and its < line):
            best, line, place = other, its, np.int64(first + found)
    return line, place


@looped
def _best_of_row(ranks, x, at, taps, ops):
    """The first position of the highest rank of contiguous elements."""
    optimise_later()
    most, place = ops.identity, np.int64(-1)
    lowest = most
    for first in range(0, taps, ARGMAX_BLOCK):
        best, found, start, last = lowest, NO_LINE, unsigned(at + first), np.int32(min(ARGMAX_BLOCK, taps - first))
        padded = unsigned(-(-last // VECTOR_ELEMENTS) * VECTOR_ELEMENTS)
        for j in range(padded):
            value = ops.lift(x[start + j]) if np.int32(j) < last else lowest
            ranks[j], best = value, max(best, value)
        for j in range(padded):
            its = np.int32(j) if ranks[j] == best else NO_LINE
            found = its if its < found else found
        if place < 0 or best > most:
            most, place = best, np.int64(first + found)
    return place


@looped
def _best_zero(x, geometry, o, d, h, begin, taps, step, ops):
    """The best element of a window with zeros of both signs."""
    optimise_later()
    total, by = ops.identity, unsigned(step)
    for line in range(geometry.counts[0][d] * geometry.counts[1][h]):
        at = line_offset(geometry, o, d, h, line) + unsigned(begin)
        for j in range(unsigned(taps)):
            total = ops.combine(total, ops.lift(x[at + j * by]))
    return total


def argmax(ops, spec):
    """Windows of any position and size; those along W are repeated for every inner element.

    Positions count from the start of the plane; an empty window has -1.
    """
    ranked, is_worse_zero = _ranked(ops, spec.arithmetic), _is_worse_zero(spec.arithmetic)

    @by_rows
    def row(args, geometry, t, o, d, h, divisors):
        optimise_later()
        x, lines, ranks = args.x, args.iwork, offset_as(args.work, 0, ranked.identity)
        begin_w, (count_d, count_h, count_w) = geometry.starts[2], geometry.counts
        width, size, inner, step = (
            geometry.input_shape[2],
            geometry.row_size,
            geometry.inner,
            geometry.dilations[2] * geometry.inner,
        )
        columns, rows, first = width // inner, count_d[d] * count_h[h], line_offset(geometry, o, d, h, 0)
        in_line = rows <= 1 and step == 1
        if not in_line:
            _rank_rows(ranks, lines, x, width, geometry, o, d, h, ranked)
        for w in range(size):
            begin, count, line = begin_w[w], count_w[w] if rows > 0 else 0, np.int32(0)
            if in_line:
                place = _best_of_row(ranks, x, first + unsigned(begin), count, ranked)
            else:
                line, place = _best_of(offset(ranks, begin), offset(lines, begin), count, step, ranked)
            value, position = ops.identity, np.int64(-1)
            if place >= 0:
                value = ops.lift(x[line_offset(geometry, o, d, h, line) + unsigned(begin + place * step)])
                column = begin if inner == 1 else begin // inner
                position = row_in_plane(geometry, d, h, line) * columns + column + place * geometry.dilations[2]
                if is_worse_zero(value):
                    value = _best_zero(x, geometry, o, d, h, begin, count, step, ops)
            args.out[t * size + w], args.positions[t * size + w] = ops.finish(value, divisors, w), position

    return row


@inlined
def _better_element(value, line, other, other_line, beats, ops):
    """The better of two elements, and its line; `other` comes later."""
    return ops.combine(other, value), other_line if beats(other, value) else line


@looped
def _combine_rows(work, lines, x, size, low, geometry, o, d, h, beats, ops):
    """For each of `size` elements from `low` on, the best in the rows of the windows of output row (d, h), and the
    distance from the first of these rows to the first with that element.
    """
    optimise_later()
    n, rows = unsigned(size), geometry.counts[0][d] * geometry.counts[1][h]
    if rows == 0:
        for w in range(n):
            work[w], lines[w] = ops.identity, NO_LINE
    for row in range(rows):
        at, line = line_offset(geometry, o, d, h, row) + unsigned(low), np.int32(rows_from_first(geometry, d, h, row))
        if row == 0:
            for w in range(n):
                work[w], lines[w] = ops.lift(x[at + w]), line
        else:
            for w in range(n):
                work[w], lines[w] = _better_element(work[w], lines[w], ops.lift(x[at + w]), line, beats, ops)


def slide_argmax(ops, spec):
    """Windows of constant size along W, all windows of a row at once, one tap after the other."""
    taps, stride, beats, none = spec.launch.fixed.kernel, spec.launch.fixed.stride, _beats(spec.arithmetic), NO_LINE

    def slide_argmax(x, out, positions, work, iwork, params, divisor_table, first_task, last_task):
        assume_no_alias()
        optimise_later()
        geometry = load_geometry(params, divisor_table)
        windows, inner = record_at(params, 0, RowWindows), geometry.inner
        width, size, pad = geometry.input_shape[2], geometry.row_size, windows.pad * inner
        columns = width // inner
        length = windows.reach * inner
        apart, row = unsigned(length // stride), unsigned(length if stride > 1 else 0)
        before, unit = max(0, min(pad, length)), unsigned(windows.dilation * inner)
        low = max(-pad, 0)
        used = max(0, min(length - before, width - low))
        fill_identity(work, length, ops)
        for w in range(length):
            iwork[w] = none
        padded = -(-size // VECTOR_ELEMENTS) * VECTOR_ELEMENTS  # results after the end of a row are not written
        bests, its_lines = offset(work, 2 * length + VECTOR_ELEMENTS), offset(iwork, 2 * length + VECTOR_ELEMENTS)
        its_taps = offset(its_lines, padded)
        o, d, h = row_index(first_task, geometry.output_shape)
        for t in range(first_task, last_task):
            divisors, target = divisors_at(geometry, d, h), unsigned(t * size)
            _combine_rows(offset(work, before), offset(iwork, before), x, used, low, geometry, o, d, h, beats, ops)
            if stride > 1:
                deinterleave(work, length, stride)
                deinterleave(iwork, length, stride)
            for w in range(unsigned(padded)):
                best, line, tap = ops.identity, none, np.int32(0)
                for j in range(unsigned(taps)):
                    at = row + j % unsigned(stride) * apart + j // unsigned(stride) * unit + w
                    value, its = work[at], iwork[at]
                    # of equal elements, the one with the smaller line is first in row-major order
                    first = (its < line) & ((value == best) | (value != value))
                    taken = beats(value, best) | first
                    best, line, tap = ops.combine(value, best), its if taken else line, np.int32(j) if taken else tap
                bests[w], its_lines[w], its_taps[w] = best, line, tap
            for w in range(unsigned(size)):
                out[target + w] = ops.finish(bests[w], divisors, w)
            begin, channels = row_in_plane(geometry, d, h, 0) * columns - windows.pad, unsigned(inner)
            if inner == 1:
                for w in range(unsigned(size)):
                    at = begin + np.int64(w * unsigned(stride)) + np.int64(its_taps[w]) * windows.dilation
                    positions[target + w] = -1 if its_lines[w] == none else np.int64(its_lines[w]) * columns + at
            else:
                for pixel in range(unsigned(size // inner)):  # by pixels, to avoid divisions
                    first, at_pixel = pixel * channels, begin + np.int64(pixel * unsigned(stride))
                    for w in range(first, first + channels):
                        at = at_pixel + np.int64(its_taps[w]) * windows.dilation
                        positions[target + w] = -1 if its_lines[w] == none else np.int64(its_lines[w]) * columns + at
            o, d, h = next_row(o, d, h, geometry.output_shape)

    return slide_argmax
