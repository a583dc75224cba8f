"""What a kernel does with numbers, compiled from its arithmetic: closures that numba inlines.

Totals are int16, int32 or int64 for integers (wide enough for every sum, so sums are exact), float64 for floats of 16
and 32 bits, and complex128 for float64: its imaginary part is the sum of the rounding errors; or for deviations of
short integers, whose sums and sums of squares are exact. Maxima and minima have the type of the input, and float32 for
floats of 16 bits.
"""

from __future__ import annotations

import platform
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from poolcli.engine.compiled.arithmetic import Arithmetic
from poolcli.engine.compiled.kernels import Function, inlined


class Numbers(NamedTuple):
    """The functions of an arithmetic."""

    lift: Function  # lift(element): the total of one element
    join: Function  # join(a, b): the total of two; NaN wins, and so does one of the two zeros
    both: Function  # both(a, b): the total of two elements
    store: Function  # store(total, divisor): the output
    nothing: Any  # the total of no element
    divides: bool  # whether `store` reads the divisor


def numbers_of(steps: Arithmetic) -> Numbers:
    """The operations of an arithmetic."""
    lift, join = _lift(steps), _join(steps)
    value, least = (_lift(steps._replace(term="")), _minimum(negated=True)) if steps.term == "negated" else (lift, join)
    both = inlined(lambda a, b: least(value(a), value(b)))
    return Numbers(lift, join, both, _store(steps), steps.identity, steps.divides)


@intrinsic
def _half(typing, number):
    """float32 from the bits of a float16, or the reverse, by one instruction: means of float16 take half as long."""

    def generate(context, builder, signature, arguments):
        if number == types.int16:
            return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return (types.float32 if number == types.int16 else types.int16)(number), generate


READ = {
    "float16": _half,
    "bfloat16": inlined(lambda raw: np.uint32(np.uint32(raw) << np.uint32(16)).view(np.float32)),
}


def _lift(steps):
    in_pairs = steps.identity.dtype.kind == "c"
    kind = np.float64 if in_pairs else type(steps.identity)
    terms = {
        "": kind,
        "negated": inlined(lambda value: kind(-value)),
        "abs": inlined(lambda value: kind(abs(np.float64(value)))),
        "square": inlined(lambda value: kind(np.float64(value) * np.float64(value))),
    }
    pair = inlined(lambda value: complex(value, 0.0)) if in_pairs else None
    if steps.total == "sum_and_squares":
        pair = inlined(lambda value: complex(value, value * value) if in_pairs else value + (value * value << 32))
    return composed(READ.get(steps.read), terms[steps.term], pair)


def _least(builder, a, b, negated=False):
    """The minimum of IEEE 754-2019 (NaN wins, and -0 over 0) of two, or of their negatives. That of x86 is the second
    argument if one is NaN or both are zeros, so that both orders joined by a bitwise or are NaN or -0, and otherwise
    equal: 3 instructions, LLVM's own operation takes 5 (1.1 to 1.4 times as long). LLVM moves a negation behind
    comparisons, so that of two elements has to be there (maxima of 3x3 by 3: 0.6 of the time).
    """
    bits = ir.IntType(64 if a.type == ir.DoubleType() else 32)
    order = ">" if negated else "<"
    least = [builder.select(builder.fcmp_ordered(order, one, other), one, other) for one, other in ((a, b), (b, a))]
    least = [builder.fneg(each) for each in least] if negated else least
    return builder.bitcast(builder.or_(*(builder.bitcast(each, bits) for each in least)), a.type)


def _minimum(negated=False):
    @intrinsic
    def minimum(typing, a, b):
        def generate(context, builder, signature, arguments):
            if platform.machine() not in ("aarch64", "arm64"):
                return _least(builder, *arguments, negated)
            kind, numbers = arguments[0].type, [builder.fneg(each) for each in arguments] if negated else arguments
            function = builder.module.declare_intrinsic("llvm.minimum", [kind], ir.FunctionType(kind, [kind, kind]))
            return builder.call(function, numbers)  # one instruction

        return a(a, a), generate

    return inlined(lambda one, other: minimum(one, other))


def joined_pixels(steps, taps, gap, channels, form):
    """The intrinsic (work, to, source, at, near) that adds `taps` pixels of totals, `gap` apart, as `tree` does; or, of
    the form "bytes", as many 2x2 pixels as 8 totals hold, in rows `near` apart: shuffles take the elements of a column.
    """
    of_bytes, count = form == "bytes", 8 if form == "bytes" else 1 << (channels - 1).bit_length()  # of a vector
    places = [[(2 * p + tap) * channels + c for p in range(8 // channels) for c in range(channels)] for tap in (0, 1)]
    masks = [ir.Constant(ir.VectorType(ir.IntType(32), 8), (place + place)[:8]) for place in places]

    def added(builder, vectors):
        half, add = len(vectors) // 2, builder.fadd if steps.identity.dtype.kind == "f" else builder.add
        if half == 0:
            return vectors[0]
        both = add(added(builder, vectors[:half]), added(builder, vectors[half : 2 * half]))
        return add(both, vectors[-1]) if len(vectors) % 2 else both

    @intrinsic
    def join(typing, work, to, source, at, near):
        def generate(context, builder, signature, arguments):
            target, to, source, at, near = arguments
            totals, first = ir.VectorType(target.type.pointee, count), builder.gep(source, [at])
            kind = ir.VectorType(source.type.pointee, 16) if of_bytes else totals
            apart = [near.type(0), near] if of_bytes else [near.type(tap * gap * channels) for tap in range(taps)]
            places = [builder.bitcast(builder.gep(first, [step]), kind.as_pointer()) for step in apart]
            vectors = [builder.load(place, align=1) for place in places]
            if of_bytes:
                taken = [builder.shuffle_vector(row, row, mask) for row in vectors for mask in masks]
                vectors = [builder.zext(each, totals) for each in taken]
            place = builder.bitcast(builder.gep(target, [to]), totals.as_pointer())
            builder.store(added(builder, vectors), place, align=1)
            return context.get_dummy_value()

        return types.void(work, types.uint64, source, types.uint64, types.uint64), generate

    return join


def _join(steps):
    kind, is_float = type(steps.identity), steps.identity.dtype.kind == "f"
    if steps.total == "max":
        return inlined(lambda a, b: a if a > b else b)
    if steps.total == "min":
        return _minimum() if is_float else inlined(lambda a, b: a if a < b else b)
    if steps.total == "sum_with_error":
        return _two_sum
    if steps.identity.dtype.kind == "c":
        return inlined(lambda a, b: a + b)
    return inlined(lambda a, b: kind(a + b))  # numba adds integers in 64 bits


@inlined
def _two_sum(a, b):
    """a + b, and the exact rounding error of the addition (Knuth) added to the errors so far."""
    new = a.real + b.real
    back = new - a.real
    return complex(new, a.imag + b.imag + ((a.real - (new - back)) + (b.real - back)))


@intrinsic
def _fused(typing, a, b, c):
    """a * b + c, rounded once. Dekker's product took 17 operations for it: float64 averages 1.5 times as long."""
    kind = types.float64
    return kind(kind, kind, kind), lambda context, builder, signature, arguments: builder.fma(*arguments)


@inlined
def _nearest_quotient(parts, divisor):
    """The sum of two parts over the divisor, rounded to nearest, and the part of the quotient that was rounded off."""
    total, error = parts
    found = (total + 0.0) / divisor
    more = (_fused(-found, divisor, total) + error) / divisor
    better = found + more
    if not np.isfinite(better) or more == 0.0:
        return found, 0.0
    return better, more - (better - found)


@inlined
def round_to_odd(near, rest):
    """near + rest rounded to odd: the neighbour whose last bit is set, unless `rest` is 0."""
    bits = np.float64(near).view(np.int64)
    if rest != 0.0 and bits & 1 == 0:
        bits += 1 if (rest > 0.0) == (near > 0.0) else -1
    return np.int64(bits).view(np.float64)


PARTS = {  # a total as two float64
    "c": inlined(lambda total: (total.real, total.imag)),
    "f": inlined(lambda total: (float(total), 0.0)),
    "i": inlined(lambda total: (float(total), float(total - np.int64(float(total))))),
}
_sum_of_pair = inlined(lambda total: total.real + total.imag if np.isfinite(total.real) else total.real)


@inlined
def _half_even(total, wide_divisor):
    """The nearest integer to total / divisor, halves to even, by integer arithmetic."""
    divisor = np.int64(wide_divisor)
    sign = -1 if divisor < 0 else 1
    total, divisor = sign * np.int64(total), sign * divisor
    quotient = total // divisor
    twice = 2 * (total - quotient * divisor)
    return quotient + (twice > divisor or (twice == divisor and quotient & 1 == 1))


@inlined
def _odd_float32(value):
    """The bits of a float64 as a float32 that is rounded to odd, so that rounding it once more is rounding once."""
    near = np.float64(np.float32(value))
    bits = np.float32(value).view(np.int32)
    other = np.int32(bits + (np.int32(1) if abs(near) < abs(value) else np.int32(-1)))
    return other if (near != value) & (bits & np.int32(1) == np.int32(0)) else bits


@inlined
def _float16(value):
    bits = np.int32(_odd_float32(np.float64(value)))
    return np.int16(0x7E00) if value != value else _half(bits.view(np.float32))


@inlined
def _bfloat16(value):
    bits = np.int32(_odd_float32(np.float64(value)))
    even = (bits >> np.int32(16)) & np.int32(1)
    return np.uint16(np.int32(0x7FC0) if value != value else np.int32(bits + np.int32(0x7FFF) + even) >> np.int32(16))


WRITE = {"float16": _float16, "bfloat16": _bfloat16}  # the nearest, halves to even, as an integer


@inlined
def root_of_variance(variance, divisor):
    """The standard deviation: NaN without a positive divisor."""
    positive = 0.0 if variance < 0.0 else variance
    return np.sqrt(positive) if (positive >= 0.0) & (divisor > 0.0) else np.nan


def composed(*functions):
    """One function of one value that applies all in turn; None is left out, because each function costs 15 ms."""
    return reduce(lambda first, then: inlined(lambda value: then(first(value))), filter(None, functions))


SUMS = {  # a sum and a sum of squares; of bytes, the sum is the lower half
    "c": inlined(lambda total: (np.int64(total.real), np.int64(total.imag))),
    "i": inlined(lambda total: (np.int64(np.int32(total)), (total - np.int64(np.int32(total))) >> 32)),
}


def _store(steps):
    """store(total, divisor). Totals of floats that are -0 become 0, as in sums that start from 0."""
    kind, bits, times = steps.identity.dtype.kind, steps.bits, float(steps.times)
    parts, sums_of = PARTS.get(kind), SUMS.get(kind)
    write = composed(np.sqrt if steps.root else None, WRITE.get(steps.write, steps.output.type))
    whole = _sum_of_pair if kind == "c" else float
    direct = composed(_sum_of_pair, write) if kind == "c" else write
    nan = steps.identity.dtype.type(np.nan) if kind == "f" else 0
    wide, half, ddof = type(steps.identity), (1 << bits) // 2 - 1, steps.ddof

    def deviation(total, count):
        """sqrt((n * sum(x * x) - sum(x)**2) / (n * (n - ddof)))"""
        number, divisor = np.int64(count), count - ddof
        added, squares = sums_of(total)
        spread = float(number * squares - added * added)
        return write(root_of_variance(spread / (count * divisor), divisor))

    stores = {
        "": lambda total, divisor: direct(total),
        "element": lambda total, divisor: write(total if total == total else nan),
        "negated": lambda total, divisor: write(-total if total == total else nan),
        "quotient": lambda total, divisor: write((float(total) + 0.0) / divisor),
        "scaled": lambda total, divisor: write((float(total) + 0.0) * divisor),
        "shift": lambda total, divisor: write(wide(total + wide((total >> bits) & 1) + wide(half)) >> bits),
        "half_even_float32": lambda total, divisor: write(np.rint(np.float32(total) / np.float32(divisor))),
        "half_even_float64": lambda total, divisor: write(np.rint(np.float64(total) / divisor)),
        "half_even_int64": lambda total, divisor: write(_half_even(total, divisor)),
        "times": lambda total, divisor: write(whole(total) / divisor * times),
        "deviation": deviation,
        "nearest": lambda total, divisor: write(_nearest_quotient(parts(total), divisor)[0]),
        "odd": lambda total, divisor: write(round_to_odd(*_nearest_quotient(parts(total), divisor))),
    }
    return inlined(stores["nearest" if steps.result == "quotient" and kind == "c" else steps.result])
