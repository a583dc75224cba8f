"""Regular windows: rows are combined in a row buffer, and then windows along it (a vertical and a horizontal pass).

Windows of any size are combined in log2(kernel) passes, those of a small constant size by one unrolled loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from poolcli.engine.compiled.arithmetic import NO_DIVISOR, Arithmetic
from poolcli.engine.compiled.codegen import uses_gathers
from poolcli.engine.compiled.geometry import VECTOR_BYTES, FixedWindow
from poolcli.engine.compiled.intrinsics import (
    assume_no_alias,
    clamp,
    divisors_at,
    expanded,
    inlined,
    looped,
    offset,
    offset_as,
    optimise_later,
    select,
)
from poolcli.engine.compiled.kernels.rows import (
    combine_row,
    combine_rows,
    combine_three,
    combine_two,
    deinterleave,
    fill_identity,
    finish_row,
    next_row,
    plane_offset,
    prefetch_lines,
    row_index,
    row_offset,
    subsample,
    touch_rows,
    unrolled,
    unsigned,
    window_strides,
)

if TYPE_CHECKING:
    from poolcli.engine.compiled.kernel_choice import KernelSpec


class HorizontalPass(NamedTuple):
    """How windows along a row are combined, in two steps.

    prepare(work, length, windows, inner, ops) processes the rows of a task, `length` accumulators in all; its result is
    `found` of write(out, at, size, work, begin, length, found, windows, inner, divisors, first, ops), which computes an
    output row from the row at `begin`.
    """

    prepare: Callable[..., Any]
    write: Callable[..., Any]


def horizontal_pass(spec: KernelSpec) -> HorizontalPass:
    """The pass for a constant window, or for any."""
    return _unrolled_pass(spec.launch.fixed, spec.arithmetic) if spec.launch.fixed else _doubling_passes


@looped
def combine_windows(work, length, taps, unit, whole, ops):
    """Combine `taps` elements, `unit` apart, from every position of the first row of `work`.

    Two windows of m taps give one of 2m, and with another tap one of 2m + 1, so k taps take log2(k) passes, which
    alternate between the two buffers after the row. Unless `whole`, the last pass is left to the caller: returned are
    the number of terms that it combines, and their positions.
    """
    optimise_later()
    bit, done, source = 1, 1, np.int64(0)  # literal numbers would compile the passes twice
    while 2 * bit <= taps:
        bit *= 2
    last = 1 if whole else 2
    while bit > last:
        bit //= 2
        shift, spare = done * unit, 2 * length if source == length else length
        if taps & bit:
            combine_three(work, spare, source, source + shift, 2 * shift, length - 2 * shift, ops)
        else:
            combine_two(work, spare, source, source + shift, length - 2 * shift + unit, ops)
        source, done = spare, 2 * done + (taps & bit != 0)
    terms = 1 if whole else clamp(taps, 1, 2 + taps % 2)
    return terms, source, source + done * unit, 2 * done * unit


@inlined
def _prepare(work, length, windows, inner, ops):
    """Strided windows are combined at every position first; combining while subsampling saved nothing."""
    return combine_windows(work, length, windows.kernel, windows.dilation * inner, windows.stride > 1, ops)


@inlined
def _write(out, at, size, work, begin, length, found, windows, inner, divisors, first, ops):
    terms, a, b, c = found
    a, b, c, sampled = a + begin, b + begin, c + begin, 3 * length
    if windows.stride > 1:
        subsample(work, sampled, size, a, windows.stride, inner)
        a = sampled
    finish_row(out, at, size, work, terms, a, b, c, divisors, first, ops)


_doubling_passes = HorizontalPass(_prepare, _write)


def _unrolled_pass(fixed: FixedWindow, steps: Arithmetic) -> HorizontalPass:
    """All taps of a window in one unrolled loop.

    If LLVM would use gathers for strided loads (up to a quarter slower with AVX-512; without it, they take 0.83 to 1 of
    the time), elements are sorted by their residue modulo the stride first, so that a tap of neighbouring windows is
    contiguous. Not if there are many channels, which are contiguous, or if windows do not overlap.

    All outputs are divided by the divisor of whole windows, and then those at the ends of the row again by their own:
    0.85 of the time for 3x3 windows.
    """
    taps, stride, vector = fixed.kernel, fixed.stride, unsigned(VECTOR_BYTES // steps.identity.dtype.itemsize)
    window, step = unrolled(taps, _element(stride)), unsigned(stride)
    divides = steps.divisor != NO_DIVISOR and steps.result != "scaled"
    sorts = stride > 1 and taps > stride and uses_gathers(stride)
    gap = unsigned(1 if sorts else stride)  # between the first elements of neighbouring windows

    @expanded
    def prepare(work, length, windows, inner, ops):
        if sorts and inner == 1:
            deinterleave(work, length, stride)
        return length

    @looped
    def write(out, at, size, work, begin, length, found, windows, inner, divisors, first, ops):
        optimise_later()
        out, n, channels, unit = offset(out, at), unsigned(size), unsigned(inner), unsigned(windows.dilation * inner)
        row = unsigned(length + begin // stride if sorts and inner == 1 else begin)
        zero, apart, next_pixel = unsigned(0), unsigned(length // stride), step * channels
        whole, of_pixels, places = unsigned(windows.full_start * inner), (channels, next_pixel), (unsigned(1), step)
        if sorts or stride == 1:
            places = (apart, unit)
        if stride > 1 and inner > 1:
            for pixel in range(n // channels):
                for c in range(channels):
                    total = window(work, row + next_pixel * pixel + c, zero, of_pixels, ops)
                    out[channels * pixel + c] = ops.finish(total, divisors, whole)
        else:
            start, stop = zero, n if n < vector else n // vector * vector
            while start < stop:  # the last vector starts earlier and writes some outputs twice
                for w in range(start, stop):
                    out[w] = ops.finish(window(work, row + gap * w, zero, places, ops), divisors, whole)
                start, stop = n - vector if stop < n else n, n
        if divides:
            low = clamp(windows.full_start * inner - first, 0, size)
            high = clamp(windows.full_stop * inner - first, low, size)
            for i in range(low + size - high):
                w = unsigned(i if i < low else i - low + high)
                source = row + gap * w
                if stride > 1 and inner > 1:
                    source, places = row + w + w // channels * (next_pixel - channels), of_pixels
                out[w] = ops.finish(window(work, source, zero, places, ops), divisors, unsigned(first) + w)

    return HorizontalPass(prepare, write)


def _element(stride: int) -> Callable[..., Any]:
    """One element; places: the distances of the next residue modulo the stride, and of the next element of the same."""
    by = unsigned(stride)
    one: Callable[..., Any] = inlined(
        lambda work, at, tap, places, ops: work[at + tap % by * places[0] + tap // by * places[1]]
    )
    return one


@looped
def piece_of(p, windows, width, inner, work, rows, ops):
    """Piece p of a row: its first output and their number, its first element and their number, and the position of that
    in the row buffer. The buffer is filled with the identity before and after them, for `rows` rows.
    """
    optimise_later()
    _, stride, _, pad, reach, outputs, piece, _, _ = windows
    first = p * piece
    start = first * stride - pad
    low = clamp(start, 0, width)
    used, before = clamp(start + reach, low, width) - low, clamp(low - start, 0, reach)
    if outputs > piece:
        for row in range(rows):
            at = row * reach * inner
            fill_identity(offset(work, at), before * inner, ops)
            fill_identity(offset(work, at + (before + used) * inner), (reach - before - used) * inner, ops)
    return first * inner, clamp(piece, 0, outputs - first) * inner, low * inner, used * inner, before * inner


def slide(ops, spec):
    """Regular windows. A task is a piece of an output row, or `group` whole rows if they are short."""
    prepare, write = horizontal_pass(spec)

    def slide(x, out, positions, work, iwork, params, first_task, last_task):
        assume_no_alias()
        optimise_later()
        geometry, (windows, group, ahead) = params[0]
        width, shape, size, inner = geometry.input_shape[2], geometry.output_shape, geometry.row_size, geometry.inner
        (count_d, count_h, _), steps = geometry.counts, window_strides(geometry)
        row_length, pieces = windows.reach * inner, -(-windows.outputs // windows.piece)
        length = row_length * group
        fill_identity(work, length, ops)  # whole rows leave their padding like that; `piece_of` renews it for pieces
        columns, p, row = width // inner, first_task % pieces, first_task // pieces * group
        begin = row_index(row, shape)
        for _ in range(first_task, last_task):
            first, many, low, used, before = piece_of(p, windows, columns, inner, work, group, ops)
            some, (o, d, h) = clamp(group, 0, geometry.rows - row), begin
            # the vertical pass: the rows of each window, one group row after the other in the buffer
            for r in range(some):
                to, at = r * row_length + before, row_offset(geometry, o, d, h) + low
                prefetch_lines(x, at + ahead.first, ahead.lines, ahead.elements)
                if ahead.touches:
                    touch_rows(x, at, count_d[d] * count_h[h], steps[1], used, ahead.elements)
                combine_rows(offset(work, to), used, x, at, count_d[d], count_h[h], steps, ops)
                prefetch_lines(x, at + ahead.first + ahead.lines * ahead.elements, ahead.late, ahead.elements)
                o, d, h = next_row(o, d, h, shape)
            # the horizontal pass: all rows at once, as if they were one
            found, (o, d, h) = prepare(work, length, windows, inner, ops), begin
            for r in range(some):
                at, divisors = (row + r) * size + first, divisors_at(geometry, d, h)
                write(out, at, many, work, r * row_length, length, found, windows, inner, divisors, first, ops)
                o, d, h = next_row(o, d, h, shape)
            p += 1
            if p == pieces:  # counted, because divisions took a sixth of the time of rows of 28 outputs
                p, row, begin = 0, row + group, (o, d, h)

    return slide


@looped
def _block_ends(ends, height, size, x, at, high, first, rows, ops):
    """ends[r]: the combined rows first + r to the last of a block, for every r; rows outside the input are skipped."""
    optimise_later()
    n = unsigned(size)
    for r in range(height - 1, -1, -1):
        to = unsigned(r * size)
        below, source = to + n, unsigned(at + (first + r) * high)
        if first + r < 0 or first + r >= rows:
            for w in range(n):
                ends[to + w] = ends[below + w]
        else:
            for w in range(n):
                ends[to + w] = ops.combine(ends[below + w], ops.lift(x[source + w]))


def slide_blocks(ops, spec):
    """Windows of many overlapping rows of one plane. A task is a piece of a block of rows.

    Rows, padding included, are divided into blocks of the height of a window (van Herk). A window is the end of one
    block, which is combined once from its last row upwards, and the start of the next, which is combined row by row.
    """
    prepare, write = horizontal_pass(spec)

    def slide_blocks(x, out, positions, work, iwork, params, first_task, last_task):
        assume_no_alias()
        optimise_later()
        geometry, (windows, down) = params[0]
        (_, height, width), shape, size, inner = (
            geometry.input_shape,
            geometry.output_shape,
            geometry.row_size,
            geometry.inner,
        )
        rows, down_stride, above, blocks = down
        length, pieces = windows.reach * inner, -(-windows.outputs // windows.piece)
        prefix = 3 * length + windows.piece * inner
        ends, high = offset(work, prefix + length), geometry.strides.row
        fill_identity(work, length, ops)
        for t in range(first_task, last_task):
            o, d, block = row_index(t // pieces, (shape[0], blocks))
            first, many, low, used, before = piece_of(t % pieces, windows, width // inner, inner, work, 1, ops)
            at, top = plane_offset(geometry, o, d) + low, block * rows - above
            fill_identity(offset(ends, rows * used), used, ops)
            _block_ends(ends, rows, used, x, at, high, top, height, ops)
            fill_identity(offset(work, prefix), used, ops)
            done = top + rows
            last = clamp(((block + 1) * rows - 1) // down_stride, 0, shape[1] - 1)
            for h in range(-(-block * rows // down_stride), last + 1):
                start = h * down_stride - above
                for r in range(clamp(done, 0, height), clamp(start + rows, 0, height)):
                    combine_row(work, prefix, used, x, at + r * high, ops)
                done = done if done > start + rows else start + rows
                middle, end, beginning = unsigned(before), unsigned((start - top) * used), unsigned(prefix)
                for w in range(unsigned(used)):
                    work[middle + w] = ops.combine(ends[end + w], work[beginning + w])
                found, to = (
                    prepare(work, length, windows, inner, ops),
                    ((o * shape[0] + d) * shape[1] + h) * size + first,
                )
                write(out, to, many, work, 0, length, found, windows, inner, divisors_at(geometry, d, h), first, ops)

    return slide_blocks


@looped
def _run_of_rows(geometry, h, last):
    """The end, at most `last`, of the output rows from h on whose windows have the same divisor and as many rows, and
    start one row after the other.
    """
    optimise_later()
    begin, count, divisor, stop = geometry.starts[1], geometry.counts[1], geometry.divisors[1], h + 1
    while (
        stop < last and count[stop] == count[h] and begin[stop] == begin[stop - 1] + 1 and divisor[stop] == divisor[h]
    ):
        stop += 1
    return stop


@looped
def _join_rows(work, x, first, rows, geometry, ops):
    """Combine the rows of the windows of output rows, the first of which is number `first` of all planes."""
    optimise_later()
    width, height, done = geometry.input_shape[2], geometry.output_shape[1], 0
    steps, plane = (0, geometry.dilations[1] * width), first // height
    h = first - plane * height
    while done < rows:
        stop = _run_of_rows(geometry, h, clamp(h + rows - done, 0, height))
        at = plane_offset(geometry, plane, 0) + geometry.starts[1][h] * width
        combine_rows(offset(work, done * width), (stop - h) * width, x, at, 1, geometry.counts[1][h], steps, ops)
        done, h = done + stop - h, stop
        if h == height:
            plane, h = plane + 1, 0


@looped
def _join_three_rows(work, size, x, inside, apart, step, ops):
    """Combine three rows, `step` elements apart, for outputs of whole planes; rows outside the plane are masked.

    The first and the last row of a plane, in passes of their own, are too short to fill vectors.
    """
    optimise_later()
    combine = ops.combine
    lift = ops.lift
    below, last, middle, end = unsigned(step), unsigned(2 * step), unsigned(apart), unsigned(2 * apart)
    for i in range(unsigned(size)):
        a, b, c = lift(x[i]), lift(x[i + below]), lift(x[i + last])
        a = select(inside[i] != 0, a, ops.identity)
        b = select(inside[i + middle] != 0, b, ops.identity)
        c = select(inside[i + end] != 0, c, ops.identity)
        work[i] = combine(combine(a, b), c)


def slide_planes(ops, spec):
    """Windows that slide by one over planes whose rows are too short to fill vectors, with outputs of the same size.

    Rows are processed as one, and elements of windows that are in another row of the plane are masked. A task is a
    group of planes, in parts of up to `most` output rows: of whole planes if they are small, otherwise of rows with the
    same divisors.

    The work array has the row buffer of a part, and its masks: for each tap, whether it is inside the row of its
    output; and if `three_rows`, for each row of the windows, whether it is inside the plane. Masks have the type of
    accumulators, but int32 for those of 8 and 16 bytes: 0.75 to 0.9 of the time (AVX-512).
    """
    window = unrolled(spec.launch.fixed.kernel, _tap)
    kind = np.int32 if ops.identity.dtype.itemsize > 4 else type(ops.identity)

    def slide_planes(x, out, positions, work, iwork, params, first_task, last_task):
        assume_no_alias()
        optimise_later()
        geometry, (windows, group, most, has_whole_planes, three_rows, above) = params[0]
        width, height, down = geometry.input_shape[2], geometry.output_shape[1], geometry.dilations[1]
        masked, margin, size = most * width, windows.kernel * windows.dilation, height * width
        inside = offset_as(work, masked + 2 * margin, kind(0))
        inside_h = offset(inside, windows.kernel * masked)
        for tap in range(windows.kernel):
            for i in range(masked):
                inside[tap * masked + i] = kind(0 <= i % width + tap * windows.dilation - windows.pad < width)
        for row in range(3 * three_rows):
            for i in range(masked):
                inside_h[row * masked + i] = kind(0 <= i % size // width + row * down - above < height)
        is_one_row = three_rows == 1 and geometry.strides.split == 1 and geometry.strides.far == size
        fill_identity(work, masked + 2 * margin, ops)
        joined, unit, apart = offset(work, margin), unsigned(windows.dilation), unsigned(masked)
        begin, rows = offset(joined, -windows.pad), geometry.rows
        last = clamp(last_task * group * height, 0, rows)
        row = first_task * group * height
        while row < last:
            h = row % height
            stop = clamp(row + most, 0, last)
            if has_whole_planes == 0:
                stop = row - h + _run_of_rows(geometry, h, clamp(h + most, 0, height))
            start, part = (row - above) * width, (stop - row) * width
            if is_one_row and start >= 0 and start + part + 2 * down * width <= rows * width:
                base = offset(x, plane_offset(geometry, 0, 0) + start)
                _join_three_rows(joined, part, base, inside_h, masked, down * width, ops)
            else:
                _join_rows(joined, x, row, stop - row, geometry, ops)
            divisors, to = divisors_at(geometry, 0, h), unsigned(row * width)
            for i in range(unsigned(part)):
                total = window(begin, i, unsigned(0), (apart, unit, inside), ops)
                out[to + i] = ops.finish(total, divisors, i)
            row = stop

    return slide_planes


@inlined
def _tap(work, at, tap, places, ops):
    """Element `tap` of the window at `at`, or the identity if it is outside the row."""
    apart, unit, inside = places
    return select(inside[tap * apart + at] != 0, work[at + tap * unit], ops.identity)
