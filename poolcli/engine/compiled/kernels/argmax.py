"""Maxima or minima with their positions. "Better" is larger for maxima; of equal elements, the first one wins."""

from __future__ import annotations

import operator

import numpy as np

from poolcli.engine.compiled.finish import composed
from poolcli.engine.compiled.geometry import ARGMAX_BLOCK, VECTOR_ELEMENTS
from poolcli.engine.compiled.intrinsics import (
    assume_no_alias,
    bits_as,
    inlined,
    looped,
    offset,
    offset_as,
    optimise_later,
)
from poolcli.engine.compiled.kernels.rows import (
    by_rows,
    deinterleave,
    fill_identity,
    line_offset,
    next_row,
    row_index,
    row_offset,
    unsigned,
    window_strides,
)
from poolcli.engine.compiled.operations import float_parts

NO_LINE = np.int32(2**31 - 1)


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


@looped
def _rank_rows(ranks, lines, x, size, rows, high, steps, ops):
    """The highest rank in `rows` rows of a window along W, of which each plane has `high`, and its first line."""
    optimise_later()
    n = unsigned(size)
    for w in range(n):
        ranks[w], lines[w] = ops.identity, np.int32(0)
    for row in range(rows):
        source, line = offset(x, line_offset(row, high, steps)), np.int32(row)
        for w in range(n):
            rank, best = ops.lift(source[w]), ranks[w]
            lines[w] = line if rank > best else lines[w]
            ranks[w] = rank if rank > best else best


@looped
def _best_of_block(ranks, lines, taps, ops):
    """The highest of up to ARGMAX_BLOCK ranks, its first line, and its first position there, by whole vectors."""
    optimise_later()
    lowest, line, place, last = ops.identity, NO_LINE, NO_LINE, np.int32(taps)
    best, padded = lowest, unsigned(-(-taps // VECTOR_ELEMENTS) * VECTOR_ELEMENTS)
    for j in range(padded):
        rank = ranks[j] if np.int32(j) < last else lowest
        best = rank if rank > best else best
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
    best, line, place, by, block = ops.identity, NO_LINE, np.int64(-1), unsigned(step), ARGMAX_BLOCK if step == 1 else 1
    for first in range(0, taps, block):
        at = unsigned(first) * by
        other, its, found = ranks[at], lines[at], np.int32(0)
        if step == 1:
            size = taps - first if taps - first < block else block
            other, its, found = _best_of_block(offset(ranks, first), offset(lines, first), size, ops)
        if other > best or (other == best and its < line):
            best, line, place = other, its, np.int64(first + found)
    return line, place


@looped
def _best_of_row(ranks, x, taps, ops):
    """The first position of the highest rank of contiguous elements."""
    optimise_later()
    most, place = ops.identity, np.int64(-1)
    lowest = most
    for first in range(0, taps, ARGMAX_BLOCK):
        best, found, source = lowest, NO_LINE, offset(x, first)
        last = np.int32(taps - first if taps - first < ARGMAX_BLOCK else ARGMAX_BLOCK)
        padded = unsigned(-(-last // VECTOR_ELEMENTS) * VECTOR_ELEMENTS)
        for j in range(padded):
            rank = ops.lift(source[j]) if np.int32(j) < last else lowest
            ranks[j], best = rank, rank if rank > best else best
        for j in range(padded):
            its = np.int32(j) if ranks[j] == best else NO_LINE
            found = its if its < found else found
        if place < 0 or best > most:
            most, place = best, np.int64(first + found)
    return place


@looped
def _best_zero(x, rows, high, steps, taps, step, ops):
    """The best element of a window with zeros of both signs."""
    optimise_later()
    total, by = ops.identity, unsigned(step)
    for line in range(rows):
        source = offset(x, line_offset(line, high, steps))
        for j in range(unsigned(taps)):
            total = ops.combine(total, ops.lift(source[j * by]))
    return total


def argmax(ops, spec):
    """Windows of any position and size; those along W are repeated for every inner element.

    Positions count from the start of the plane; an empty window has -1.
    """
    ranked, is_worse_zero = _ranked(ops, spec.arithmetic), _is_worse_zero(spec.arithmetic)

    @by_rows
    def row(args, geometry, t, o, d, h, divisors):
        optimise_later()
        lines, ranks, inner, steps = (
            args.iwork,
            offset_as(args.work, 0, ranked.identity),
            geometry.inner,
            window_strides(geometry),
        )
        begin_w, (count_d, count_h, count_w) = geometry.starts[2], geometry.counts
        dilation_d, dilation_h, dilation = geometry.dilations
        _, height, width = geometry.input_shape
        rows, high, step, columns = count_d[d] * count_h[h], count_h[h], dilation * inner, width // inner
        x, plane_row = (
            offset(args.x, row_offset(geometry, o, d, h)),
            geometry.starts[0][d] * height + geometry.starts[1][h],
        )
        _rank_rows(ranks, lines, x, width, rows, high, steps, ranked)
        for w in range(geometry.row_size):
            begin, count, value, position = begin_w[w], count_w[w] if rows > 0 else 0, ops.identity, np.int64(-1)
            line, place = _best_of(offset(ranks, begin), offset(lines, begin), count, step, ranked)
            if place >= 0:
                source, its = offset(x, begin), np.int64(line)
                value = ops.lift(source[line_offset(its, high, steps) + place * step])
                in_plane = plane_row + line_offset(its, high, (dilation_d * height, dilation_h))
                column = begin if inner == 1 else begin // inner
                position = in_plane * columns + column + place * dilation
                if is_worse_zero(value):
                    value = _best_zero(source, rows, high, steps, count, step, ops)
            args.out[t * geometry.row_size + w], args.positions[t * geometry.row_size + w] = (
                ops.finish(value, None, 0),
                position,
            )

    return row


def argmax_row(ops, spec):
    """Windows of one row and neighbouring elements of one channel, which are read in place."""
    ranked, is_worse_zero = _ranked(ops, spec.arithmetic), _is_worse_zero(spec.arithmetic)

    @by_rows
    def row(args, geometry, t, o, d, h, divisors):
        optimise_later()
        ranks, size, width = offset_as(args.work, 0, ranked.identity), geometry.row_size, geometry.input_shape[2]
        begin, (count_d, count_h, count_w) = geometry.starts[2], geometry.counts
        x, rows = offset(args.x, row_offset(geometry, o, d, h)), count_d[d] * count_h[h]
        first = (geometry.starts[0][d] * geometry.input_shape[1] + geometry.starts[1][h]) * width
        for w in range(size):
            source, count, value, position = offset(x, begin[w]), count_w[w] * rows, ops.identity, np.int64(-1)
            place = _best_of_row(ranks, source, count, ranked)
            if place >= 0:
                value, position = ops.lift(source[place]), first + begin[w] + place
                if is_worse_zero(value):
                    value = _best_zero(source, 1, 1, (0, 0), count, 1, ops)
            args.out[t * size + w], args.positions[t * size + w] = ops.finish(value, None, 0), position

    return row


@looped
def _combine_rows(work, lines, x, size, rows, high, steps, heights, beats, ops):
    """For each of `size` elements, the best in `rows` rows of the windows, of which each plane has `high`, and the
    distance from the first of these rows to the first with that element.
    """
    optimise_later()
    n = unsigned(size)
    if rows == 0:
        for w in range(n):
            work[w], lines[w] = ops.identity, NO_LINE
    for row in range(rows):
        source, line = offset(x, line_offset(row, high, steps)), np.int32(line_offset(row, high, heights))
        if row == 0:
            for w in range(n):
                work[w], lines[w] = ops.lift(source[w]), line
        else:
            for w in range(n):
                other, best = ops.lift(source[w]), work[w]
                lines[w] = line if beats(other, best) else lines[w]
                work[w] = ops.combine(other, best)


def slide_argmax(ops, spec):
    """Windows of constant size along W, all windows of a row at once, one tap after the other."""
    taps, stride, beats, none = spec.launch.fixed.kernel, spec.launch.fixed.stride, _beats(spec.arithmetic), NO_LINE

    def slide_argmax(x, out, positions, work, iwork, params, first_task, last_task):
        assume_no_alias()
        optimise_later()
        geometry, (windows,) = params[0]
        (_, height, width), size, inner, pad = geometry.input_shape, geometry.row_size, geometry.inner, windows.pad
        columns, length, margin = width // inner, windows.reach * inner, pad * inner
        apart, row, unit = unsigned(length // stride), unsigned(length if stride > 1 else 0), windows.dilation * inner
        low, before = (0, margin if margin < length else length) if margin > 0 else (-margin, 0)
        used = width - low if width - low < length - before else length - before
        used, next_tap = used if used > 0 else 0, unsigned(unit)
        fill_identity(work, length, ops)
        for w in range(length):
            iwork[w] = none
        padded = -(-size // VECTOR_ELEMENTS) * VECTOR_ELEMENTS  # results after the end of a row are not written
        bests, its_lines = offset(work, 2 * length + VECTOR_ELEMENTS), offset(iwork, 2 * length + VECTOR_ELEMENTS)
        its_taps, steps = offset(its_lines, padded), window_strides(geometry)
        (begin_d, begin_h, _), (count_d, count_h, _) = geometry.starts, geometry.counts
        heights = geometry.dilations[0] * height, geometry.dilations[1]
        o, d, h = row_index(first_task, geometry.output_shape)
        for t in range(first_task, last_task):
            target, rows = t * size, count_d[d] * count_h[h]
            source = offset(x, row_offset(geometry, o, d, h) + low)
            _combine_rows(
                offset(work, before), offset(iwork, before), source, used, rows, count_h[h], steps, heights, beats, ops
            )
            if stride > 1:
                deinterleave(work, length, stride)
                deinterleave(iwork, length, stride)
            for w in range(unsigned(padded)):
                best, line, tap = ops.identity, none, np.int32(0)
                for j in range(unsigned(taps)):
                    at = row + j % unsigned(stride) * apart + j // unsigned(stride) * next_tap + w
                    value, its = work[at], iwork[at]
                    # of equal elements, the one with the smaller line is first in row-major order
                    first = (its < line) & ((value == best) | (value != value))
                    taken = beats(value, best) | first
                    best, line, tap = ops.combine(value, best), its if taken else line, np.int32(j) if taken else tap
                bests[w], its_lines[w], its_taps[w] = best, line, tap
            values, places = offset(out, target), offset(positions, target)
            for w in range(unsigned(size)):
                values[w] = ops.finish(bests[w], None, 0)
            begin, channels = (begin_d[d] * height + begin_h[h]) * columns - pad, unsigned(inner)
            if inner == 1:
                for w in range(unsigned(size)):
                    at = begin + np.int64(w * unsigned(stride)) + np.int64(its_taps[w]) * windows.dilation
                    places[w] = -1 if its_lines[w] == none else np.int64(its_lines[w]) * columns + at
            else:
                for pixel in range(unsigned(size // inner)):  # by pixels, to avoid divisions
                    first, at_pixel = pixel * channels, begin + np.int64(pixel * unsigned(stride))
                    for w in range(first, first + channels):
                        at = at_pixel + np.int64(its_taps[w]) * windows.dilation
                        places[w] = -1 if its_lines[w] == none else np.int64(its_lines[w]) * columns + at
            o, d, h = next_row(o, d, h, geometry.output_shape)

    return slide_argmax
