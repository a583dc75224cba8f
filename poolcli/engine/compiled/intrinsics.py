"""What kernels are built from: numba decorators and LLVM intrinsics."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from poolcli.engine.compiled.geometry import LANES, Divisors

# Kernels are called by address and raise nothing, so they need neither wrappers nor checks of divisors. `debug` is
# stated because its default is NUMBA_DEBUGINFO, with which numba warns of functions without source.
KERNEL: Any = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "debug": False}
inlined = njit(forceinline=True, **KERNEL)  # for functions without loops
# For short functions with one or two calls: numba copies their statements to the caller before it types anything, and
# saves the 15 ms of a function. Copies are typed each time, and statements of long functions take longer.
expanded = njit(inline="always", **KERNEL)
looped = njit(forceinline=False, **KERNEL)  # for functions with loops, which begin with `optimise_later()`


@intrinsic
def optimise_later(typing):
    """Keep numba from optimising a function on its own, which took a third of the time of a build.

    `codegen.emit` inlines all functions and optimises the result.
    """

    def generate(context, builder, signature, arguments):
        for attribute in ("noinline", "optnone"):  # which codegen.emit removes
            builder.function.attributes.add(attribute)
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def assume_no_alias(typing):
    """Declare that the pointers of a kernel do not overlap; checks for overlap took up to a third of its time."""

    def generate(context, builder, signature, arguments):
        for argument in builder.function.args:
            if isinstance(argument.type, ir.PointerType):
                argument.add_attribute("noalias")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def offset(typing, pointer, count):
    """pointer + count, in elements."""

    def generate(context, builder, signature, arguments):
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.int64), generate


@intrinsic
def offset_as(typing, pointer, count, like):
    """pointer + count, as a pointer to the type of `like`."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(builder.gep(arguments[0], [arguments[1]]), context.get_value_type(signature.return_type))

    return types.CPointer(like)(pointer, types.int64, like), generate


@intrinsic
def clamp(typing, value, low, high):
    """min(max(value, low), high) of int64; the builtins are functions that numba compiles, 20 ms each."""

    def generate(context, builder, signature, arguments):
        number, least, most = arguments
        number = builder.select(builder.icmp_signed("<", number, least), least, number)
        return builder.select(builder.icmp_signed(">", number, most), most, number)

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def bits_as(typing, value, kind):
    """The bits of a number as one of another type of the same size."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(kind.dtype))

    return kind.dtype(value, kind), generate


@intrinsic
def select(typing, condition, value, other):
    """value if condition else other, without a branch: LLVM would load `value` only where the condition holds.

    Without AVX-512 there are masked loads of 4 and 8 bytes only: 3x3 windows over maps of bytes took 4 to 6 times as
    long.
    """

    def generate(context, builder, signature, arguments):
        return builder.select(*arguments)

    return value(types.boolean, value, value), generate


def _selected(returns_larger):
    @intrinsic
    def selected(typing, a, b):
        def generate(context, builder, signature, arguments):
            compare = builder.icmp_signed if getattr(a, "signed", True) else builder.icmp_unsigned
            is_less = (builder.fcmp_ordered if isinstance(a, types.Float) else compare)("<", *arguments)
            return builder.select(is_less, *(arguments[::-1] if returns_larger else arguments))

        return a(a, a), generate

    return selected


# a if a < b else b, and b if a < b else a: functions of two statements would take 15 ms each.
smaller, larger = _selected(False), _selected(True)


@intrinsic
def square(typing, value):
    """value * value in its type; numba multiplies integers in 64 bits, which halves the elements of a vector."""

    def generate(context, builder, signature, arguments):
        return builder.mul(arguments[0], arguments[0])

    return value(value), generate


@intrinsic
def prefetch(typing, pointer, index):
    """Prefetch the cache line of an element, which need not be inside the array.

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
def touch(typing, pointer, index):
    """Load an element that nothing waits for.

    An empty piece of assembly uses it, so that LLVM keeps the load; "convergent" as in `prefetch`.
    """

    def generate(context, builder, signature, arguments):
        byte = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), ir.IntType(8).as_pointer())
        user = ir.InlineAsm(ir.FunctionType(ir.VoidType(), [ir.IntType(8)]), "", "r", side_effect=True)
        builder.call(user, [builder.load(byte)], attrs=("convergent",))
        return context.get_dummy_value()

    return types.void(pointer, types.int64), generate


@intrinsic
def add_pixels(typing, target, first, second):
    """Sums of 2x2 RGB pixels of two rows of bytes, as int16: 12 from 24 bytes of each row, and 2 undefined ones."""

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


@intrinsic
def half_even_shift(typing, total, bits):
    """The nearest integer to total / 2**bits, halves to even, in the type of `total`.

    Integer operations of numba have 64 bits, so that vectors would hold a fourth of the numbers.
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
    """The sum of `blocks` * LANES floats in float64: LANES partial sums, whose halves are added until one is left."""

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
        zeros = ir.Constant(wide, [0.0] * LANES)
        builder.cbranch(builder.icmp_signed(">", count, index(0)), body, after)
        with builder.goto_block(body):
            i, so_far = builder.phi(index), builder.phi(wide)
            at = builder.gep(values, [builder.mul(i, index(LANES))])
            found = builder.load(builder.bitcast(at, block), align=context.get_abi_sizeof(kind))
            total = builder.fadd(so_far, found if isinstance(kind, ir.DoubleType) else builder.fpext(found, wide))
            following = builder.add(i, index(1))
            for phi, first, later in ((i, index(0), following), (so_far, zeros, total)):
                phi.add_incoming(first, before)
                phi.add_incoming(later, body)
            builder.cbranch(builder.icmp_signed("<", following, count), body, after)
        builder.position_at_end(after)
        lanes = builder.phi(wide)
        lanes.add_incoming(zeros, before)
        lanes.add_incoming(total, body)
        half = LANES // 2
        while half:
            masks = (ir.Constant(ir.VectorType(ir.IntType(32), half), [*range(i, i + half)]) for i in (0, half))
            lanes = builder.fadd(*(builder.shuffle_vector(lanes, lanes, mask) for mask in masks))
            half //= 2
        return builder.extract_element(lanes, index(0))

    return types.float64(pointer, types.int64), generate


@expanded
def divisors_at(geometry, d, h):
    """The divisors of output row (d, h)."""
    (of_d, of_h, along_w), (by_d, by_h, reciprocals) = geometry.divisors, geometry.reciprocals
    return Divisors(of_d[d] * of_h[h], along_w, by_d[d] * by_h[h], reciprocals, float(geometry.kernel_elements))
