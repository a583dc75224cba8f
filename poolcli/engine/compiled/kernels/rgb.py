"""Averages of 2x2 pixels of three bytes: deinterleaved in registers. Without it they take 4.2 times as long (Zen 3)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from poolcli.engine.compiled.kernels import looped, next_row, no_alias, offset, optimise_later, row_at, row_of, u8
from poolcli.engine.compiled.view import AT

SUMS = 12  # of `add_pixels`


@intrinsic
def add_pixels(typing, target, first, second):
    """Sums of 2x2 pixels of two rows of bytes, as int16: 12 from 24 bytes of each row, and 2 undefined ones."""

    def generate(context, builder, signature, arguments):
        to, *rows = arguments
        half, whole = (ir.VectorType(ir.IntType(8), n) for n in (16, 32))
        words = ir.VectorType(ir.IntType(16), 16)
        zeros, total = ir.Constant(whole, None), ir.Constant(words, None)
        for row in rows:
            low, high = (_loaded(builder, row, place, half) for place in (0, 8))
            four = builder.shuffle_vector(low, high, _places(range(32)))
            for pixel in (0, 3):
                taken = [start + pixel + byte for start in (0, 6, 20, 26) for byte in range(3)]
                filled = [place for byte in taken for place in (byte, 32)]  # a byte, and a zero above it
                lanes = filled[:12] + [32] * 4 + filled[12:] + [32] * 4
                wide = builder.bitcast(builder.shuffle_vector(four, zeros, _places(lanes)), words)
                total = builder.add(total, wide)
        for n in (0, 1):
            eight = builder.shuffle_vector(total, total, _places(range(8 * n, 8 * n + 8)))
            place = builder.gep(to, [ir.Constant(ir.IntType(64), 6 * n)])
            builder.store(eight, builder.bitcast(place, eight.type.as_pointer()), align=2)
        return context.get_dummy_value()

    return types.void(target, first, second), generate


def _loaded(builder, pointer, place, vector):
    """The vector of bytes at `place` bytes from the pointer."""
    found = builder.gep(pointer, [ir.Constant(ir.IntType(64), place)])
    return builder.load(builder.bitcast(found, vector.as_pointer()), align=1)


def _places(numbers):
    """The mask of a shuffle."""
    return ir.Constant(ir.VectorType(ir.IntType(32), len(numbers)), list(numbers))


@looped
def _add_row(work, x, a, b, size):
    """The sums of a row; the last vector starts earlier."""
    optimise_later()
    for some in range(0, size, SUMS):
        to = some if some < size - SUMS else size - SUMS
        add_pixels(offset(work, to), offset(x, a + 2 * to), offset(x, b + 2 * to))


def rgb(how: Any, steps: Any) -> Any:
    """Task t is an output row, of at least SUMS elements; all windows are whole, and have two rows of one plane."""
    store = how.store

    def kernel(x, out, places, work, table, factors, first_task, last_task):
        no_alias()
        size, near = table[AT.size], table[AT.step_h]
        p, r = row_at(table, first_task)
        for t in range(first_task, last_task):
            begin, _, _ = row_of(table, p, r)
            _add_row(work, x, begin, begin + near, size)
            for w in range(u8(size)):
                out[u8(t * size) + w] = store(work[w], factors[r])
            p, r = next_row(table, p, r)

    return kernel
