"""What kernels find behind the pointers that they are given; `geometry.flat` puts the integers there."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from poolcli.engine.compiled.geometry import (
    APART,
    ARRAYS,
    LANES,
    MORE,
    ColumnWindows,
    Divisors,
    Geometry,
    RowWindows,
    Strides,
)

# Kernels are called by their machine code alone, and know no exceptions.
KERNEL: Any = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
INLINED: Any = {"forceinline": True, **KERNEL}
inlined = njit(**INLINED)  # for functions without loops
looped = njit(forceinline=False, **KERNEL)  # for functions with loops, which begin with `optimise_later()`


@intrinsic
def optimise_later(typing):
    """Has numba leave a function as it is written. Otherwise it would optimise each one by itself and make machine code
    of it, before it is known where it is inlined: a third of the time of a build. `machine.emit` inlines them all and
    optimises the whole.
    """

    def generate(context, builder, signature, arguments):
        for attribute in ("noinline", "optnone"):  # which machine.emit takes away
            builder.function.attributes.add(attribute)
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def pointers_are_distinct(typing):
    """Promises that each pointer of a kernel leads to memory of its own, so that LLVM need not ask whether what is read
    has just been written: up to a third of the time of a kernel.
    """

    def generate(context, builder, signature, arguments):
        for argument in builder.function.args:
            if isinstance(argument.type, ir.PointerType):
                argument.add_attribute("noalias")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def behind(typing, pointer, count):
    """The pointer to `count` elements further."""

    def generate(context, builder, signature, arguments):
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.int64), generate


@intrinsic
def behind_as(typing, pointer, count, like):
    """The same as a pointer to numbers of the type of `like`."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(builder.gep(arguments[0], [arguments[1]]), context.get_value_type(signature.return_type))

    return types.CPointer(like)(pointer, types.int64, like), generate


@intrinsic
def prefetch(typing, pointer, index):
    """Prefetches the cache line of an element, which need not be inside the array.

    "convergent" keeps LLVM from unrolling the loop around it: hardware prefetchers follow the stride of a single
    instruction, and eight copies of it each have a stride of eight lines.
    """

    def generate(context, builder, signature, arguments):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        at = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), byte)
        read, all_levels, data = number(0), number(3), number(1)
        builder.call(function, [at, read, all_levels, data], attrs=("convergent",))
        return context.get_dummy_value()

    return types.void(pointer, types.int64), generate


@intrinsic
def add_pixels(typing, target, first, second):
    """Adds four pairs of neighbouring pixels of two rows, three bytes a pixel, as int16: 12 numbers of 24 bytes of each
    row, and behind them two that mean nothing.
    """

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
    """The vector of bytes behind the pointer."""
    found = builder.gep(pointer, [ir.Constant(ir.IntType(64), place)])
    return builder.load(builder.bitcast(found, vector.as_pointer()), align=1)


def _places(numbers):
    """Which elements a shuffle takes."""
    return ir.Constant(ir.VectorType(ir.IntType(32), len(numbers)), list(numbers))


@intrinsic
def half_even_shift(typing, total, bits):
    """total / 2**bits to the nearest integer, halves to even. Its steps are as wide as the total, where those of Python
    are of 64 bits, which fill vectors with a fourth of the numbers.
    """

    def generate(context, builder, signature, arguments):
        value, wide = arguments
        one = value.type(1)
        by = builder.trunc(wide, value.type) if value.type.width < 64 else wide
        odd = builder.and_(builder.ashr(value, by), one)
        below_half = builder.sub(builder.shl(one, builder.sub(by, one)), one)
        return builder.ashr(builder.add(builder.add(value, odd), below_half), by)

    return total(total, types.int64), generate


@intrinsic
def sum_of_lanes(typing, pointer, blocks):
    """The sum in float64 of so many blocks of LANES floats: lane by lane, and then of the lanes, each with the one that
    half of them lie before, until one is left.
    """

    def generate(context, builder, signature, arguments):
        values, count = arguments
        wide, index = ir.VectorType(ir.DoubleType(), LANES), ir.IntType(64)
        kind = context.get_data_type(pointer.dtype)
        block = ir.VectorType(kind, LANES).as_pointer()
        before, body, after = (
            builder.block,
            builder.append_basic_block("lanes"),
            builder.append_basic_block("lanes.end"),
        )
        nothing = ir.Constant(wide, [0.0] * LANES)
        builder.cbranch(builder.icmp_signed(">", count, index(0)), body, after)
        with builder.goto_block(body):
            i, so_far = builder.phi(index), builder.phi(wide)
            at = builder.gep(values, [builder.mul(i, index(LANES))])
            found = builder.load(builder.bitcast(at, block), align=context.get_abi_sizeof(kind))
            total = builder.fadd(so_far, found if isinstance(kind, ir.DoubleType) else builder.fpext(found, wide))
            following = builder.add(i, index(1))
            for phi, first, later in ((i, index(0), following), (so_far, nothing, total)):
                phi.add_incoming(first, before)
                phi.add_incoming(later, body)
            builder.cbranch(builder.icmp_signed("<", following, count), body, after)
        builder.position_at_end(after)
        lanes = builder.phi(wide)
        lanes.add_incoming(nothing, before)
        lanes.add_incoming(total, body)
        half = LANES // 2
        while half:
            masks = (ir.Constant(ir.VectorType(ir.IntType(32), half), [*range(i, i + half)]) for i in (0, half))
            lanes = builder.fadd(*(builder.shuffle_vector(lanes, lanes, mask) for mask in masks))
            half //= 2
        return builder.extract_element(lanes, index(0))

    return types.float64(pointer, types.int64), generate


@inlined
def geometry_at(numbers, divisors):
    """The geometry, with pointers for arrays."""
    depth, height, columns = numbers[5], numbers[6], numbers[11]
    reciprocals = behind(divisors, depth + height + numbers[13])
    begins = behind(numbers, ARRAYS)
    counts = behind(begins, depth + height + columns)
    return Geometry(
        numbers[0],
        numbers[1],
        (numbers[2], numbers[3], numbers[4]),
        (depth, height),
        numbers[7],
        (begins, behind(begins, depth), behind(begins, depth + height)),
        (counts, behind(counts, depth), behind(counts, depth + height)),
        (numbers[8], numbers[9], numbers[10]),
        (_of_axes(divisors, depth, height), _of_axes(reciprocals, depth, height)),
        Strides(numbers[APART], numbers[APART + 1], numbers[APART + 2], numbers[APART + 3], numbers[APART + 4]),
        numbers[12],
    )


@inlined
def _of_axes(numbers, depth, height):
    """Where those of D, H and W begin."""
    return numbers, behind(numbers, depth), behind(numbers, depth + height)


@inlined
def share_at(geometry, d, h):
    """What sums of the output row (d, h) are divided by."""
    (of_d, of_h, along), (by_d, by_h, reciprocals) = geometry.divisors
    return Divisors(of_d[d] * of_h[h], along, by_d[d] * by_h[h], reciprocals, float(geometry.elements))


@inlined
def more_at(numbers, place):
    """One of the numbers that a kernel alone is given."""
    return numbers[MORE + place]


@inlined
def across_at(numbers):
    """The windows along W, which come first of what a kernel alone is given."""
    n = behind(numbers, MORE)
    return RowWindows(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8])


@inlined
def down_at(numbers):
    """The windows along H, which come after those along W."""
    n = behind(numbers, MORE + 9)
    return ColumnWindows(n[0], n[1], n[2], n[3])
