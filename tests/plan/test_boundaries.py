"""Every refusal has an edge: the last that is taken, and the first that is not, with all that is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from poolcli import AdaptiveAvgPool, AvgPool, MaxPool, RequestError
from poolcli.plan import Plan


@dataclass(frozen=True)
class Ask:
    """An operator's arguments, and the shape, the type and the type of the output that it is planned for."""

    make: Any
    options: dict[str, Any]
    shape: Sequence[int] = (1, 1, 8)
    dtype: str = "float32"
    to: str | None = None

    def plan(self) -> Plan:
        plan: Plan = self.make(**self.options).plan(self.shape, self.dtype, output_dtype=self.to)
        return plan


def avg(*shape: int, dtype: str = "float32", to: str | None = None, **options: Any) -> Ask:
    return Ask(AvgPool, {"strides": 1} | options, shape or (1, 1, 8), dtype, to)


def peak(*shape: int, dtype: str = "float32", to: str | None = None, **options: Any) -> Ask:
    return Ask(MaxPool, {"strides": 1} | options, shape or (1, 1, 8), dtype, to)


def bins(*shape: int, make: Any = AdaptiveAvgPool, **options: Any) -> Ask:
    return Ask(make, options, shape or (1, 1, 8))


BIG = 2**31
EDGES: dict[str, tuple[Ask, Ask, str]] = {
    "a kernel of the padded length, and one more": (avg(kernel=11, pads_begin=1, pads_end=2),
        avg(kernel=12, pads_begin=1, pads_end=2),
        "axis W is 8 long, kernel 12 with pads 1,2 leaves no window; use kernel=11 or pads=3"),
    "a dilated window of the whole length, and one more": (peak(kernel=3, dilations=3, pads_end=0),
        peak(1, 1, 6, kernel=3, dilations=3),
        "axis W is 6 long, kernel 3 with dilation 3 spans 7 and without padding leaves no window; use kernel=2 or "
        "pads=1"),
    "a kernel of 1 and of 0": (avg(kernel=1), avg(kernel=0), "kernel is 0 on every axis; it must be at least 1"),
    "a dilation of 1 and of 0": (peak(kernel=2, dilations=1), peak(kernel=2, dilations=0),
        "dilations is 0 on every axis; it must be at least 1"),
    "one number for each axis, and one more": (avg(1, 1, 8, 8, kernel=(2, 3)), avg(1, 1, 8, 8, kernel=(2, 3, 4)),
        "kernel has 3 numbers, but layout NCHW (assumed) has 2 spatial axes (H,W); for 3 axes, use layout='CDHW'"),
    "an axis of 1 and of 0": (avg(1, 1, 1, kernel=1), avg(1, 1, 0, kernel=1),
        "axis W of the input is 0 long, but a window needs at least 1 element"),
    "a batch of 0 and of -1": (avg(0, 1, 8, kernel=1), avg(-1, 1, 8, kernel=1),
        "the shape N=-1 C=1 W=8 has a negative dimension; for a dynamic axis use any positive number"),
    "padding left out: pads below the window, and as long as it": (avg(kernel=3, pads_begin=2, exclude_pad=True),
        avg(kernel=3, pads_begin=3, exclude_pad=True),
        "exclude_pad=True needs pads smaller than the window: axis W has pads 3,0 and a window of 3; use pads of at "
        "most 2 or exclude_pad=False"),
    "padding counted: pads as long as the window": (avg(kernel=3, pads_begin=3, exclude_pad=False),
        avg(kernel=3, pads_begin=3),
        "exclude_pad=True needs pads smaller than the window: axis W has pads 3,0 and a window of 3; use pads of at "
        "most 2 or exclude_pad=False"),
    "PyTorch: pads of half the kernel, and one more": (peak(kernel=4, pads_begin=2, pads_end=2, like="pytorch"),
        peak(kernel=4, pads_begin=3, pads_end=3, like="pytorch"),
        "PyTorch allows pads of at most 2 for a kernel of 4: axis W has pads 3,3; use pads=2, or another like"),
    "PyTorch: equal pads, and more at the beginning": (avg(kernel=4, pads_begin=1, pads_end=1, like="pytorch"),
        avg(kernel=4, pads_begin=1, pads_end=0, like="pytorch"),
        "PyTorch pads both ends equally: axis W has pads 1,0; use equal pads, or another like"),
    "ONNX: the limit is the kernel's, whatever its dilation": (peak(kernel=3, dilations=2, pads_end=2, like="onnx"),
        peak(kernel=3, dilations=2, pads_end=3, like="onnx"),
        "ONNX allows pads of at most 2 for a kernel of 3: axis W has pads 0,3; use pads of at most 2, or another like"),
    "ONNX: pads that auto_pad replaces have no limit": (peak(kernel=3, pads_end=9, auto_pad="same_upper", like="onnx"),
        peak(kernel=3, pads_end=9, like="onnx"),
        "ONNX allows pads of at most 2 for a kernel of 3: axis W has pads 0,9; use pads of at most 2, or another like"),
    "TensorFlow: pads below the kernel, and as long": (peak(kernel=3, pads_begin=2, like="tensorflow"),
        peak(kernel=3, pads_begin=3, like="tensorflow"),
        "TensorFlow: pads must be smaller than the kernel: axis W has pads 3,0 and kernel 3; use pads=2, "
        "or another like"),
    "TensorFlow: lists of pads for two axes, and for three": (
        peak(1, 1, 8, 8, kernel=3, pads_begin=1, like="tensorflow"),
        peak(1, 1, 8, 8, 8, kernel=3, pads_begin=1, like="tensorflow"),
        "TensorFlow: max_pool3d takes no list of pads; use auto_pad='same_upper' or valid",
    ),
    "TensorFlow: strides that are given, and that are not": (peak(kernel=2, like="tensorflow"),
        peak(kernel=2, strides=None, like="tensorflow"),
        "TensorFlow needs strides; give strides=2 (the kernel, as in Keras layers)"),
    "PyTorch: an average without dilation, and with it on one axis of two": (
        avg(1, 1, 8, 8, kernel=2, dilations=(1, 1), like="pytorch"),
        avg(1, 1, 8, 8, kernel=2, dilations=(1, 2), like="pytorch"),
        "PyTorch has no dilation in average pooling; use dilations=1, or another like",
    ),
    "TensorFlow: an average without pads, and with them": (avg(kernel=2, like="tensorflow"),
        avg(kernel=2, pads_end=1, like="tensorflow"),
        "TensorFlow has no explicit pads in average pooling; use auto_pad='same_upper' or valid"),
    "TensorFlow: padding left out, and counted": (avg(kernel=2, exclude_pad=True, like="tensorflow"),
        avg(kernel=2, exclude_pad=False, like="tensorflow"),
        "TensorFlow never counts padding; use exclude_pad=True, or another like"),
    "PyTorch: explicit pads, and same": (avg(kernel=2, like="pytorch"),
        avg(kernel=2, auto_pad="same_upper", like="pytorch"),
        "PyTorch has no auto_pad same_upper; use explicit, or another like"),
    "ONNX: ceil, and ceil_torch": (avg(kernel=2, rounding_type="ceil", like="onnx"),
        avg(kernel=2, rounding_type="ceil_torch", like="onnx"),
        "ONNX has no rounding_type ceil_torch; use floor or ceil, or another like"),
    "ONNX has averages, and no adaptive ones": (avg(kernel=2, like="onnx"), bins(output_size=2, like="onnx"),
        "ONNX has no adaptive pooling; use like='openvino', like='pytorch' or like='tensorflow'"),
    "a divisor_override of 2**31 - 1, and of 2**31": (avg(kernel=2, divisor_override=BIG - 1),
        avg(kernel=2, divisor_override=BIG),
        "divisor_override is 2147483648; a whole number other than 0 and below 2**31 is needed"),
    "a negative divisor_override of signed and of unsigned integers": (avg(dtype="int8", kernel=2, divisor_override=-3),
        avg(dtype="uint8", kernel=2, divisor_override=-3),
        "divisor_override=-3 can give results from -170 to 0, outside uint8; use dtype='float64' or a wider "
        "integer type"),
    "a divisor_override as large as the window, and smaller": (avg(dtype="uint8", kernel=3, divisor_override=3),
        avg(dtype="uint8", kernel=3, divisor_override=2),
        "divisor_override=2 can give results from 0 to 382, outside uint8; use dtype='float64' or a wider integer "
        "type"),
    "a divisor_override of -1 of the lowest int8": (avg(dtype="int8", to="int16", kernel=1, divisor_override=-1),
        avg(dtype="int8", kernel=1, divisor_override=-1),
        "divisor_override=-1 can give results from -127 to 128, outside int8; use dtype='float64' or a wider "
        "integer type"),
    "uint8 into int16, and into int8": (peak(dtype="uint8", to="int16", kernel=2),
        peak(dtype="uint8", to="int8", kernel=2),
        "dtype='int8' cannot hold every result of uint8 input; use a float type or a wider integer type"),
    "floats into another float, and into an integer": (avg(dtype="float64", to="float16", kernel=2),
        avg(dtype="float16", to="int64", kernel=2),
        "dtype='int64' cannot hold every result of float16 input; use a float type or a wider integer type"),
    "bool: its maximum, and its average": (peak(dtype="bool", kernel=2), avg(dtype="bool", kernel=2),
        "an average of bool needs a number type: add dtype='float32' (or an integer type, rounded)"),
    "integers: windows that all hold an element, and one that holds none": (
        avg(1, 1, 6, dtype="uint8", kernel=2, strides=4, rounding_type="ceil"),
        avg(1, 1, 7, dtype="uint8", kernel=2, strides=4, rounding_type="ceil"),
        "1 window holds no input element, and uint8 has no value for the average of an empty window; use "
        "rounding_type='floor' or ceil_torch, exclude_pad=False with pads, or dtype='float32'",
    ),
    "an average of nothing: of padding that counts, and of padding that does not": (
        avg(1, 1, 5, dtype="uint8", kernel=2, strides=3, pads_begin=1, pads_end=1, rounding_type="ceil",
            exclude_pad=False),
        avg(1, 1, 5, dtype="uint8", kernel=2, strides=3, pads_begin=1, pads_end=1, rounding_type="ceil"),
        "1 window holds no input element, and uint8 has no value for the average of an empty window; use "
        "rounding_type='floor' or ceil_torch, exclude_pad=False with pads, or dtype='float32'",
    ),
    "indices of 32 bits: planes of 2**31, and of one row more": (
        peak(1, 1, 2**16, 2**15, kernel=2, axis=2, index_element_type="i32"),
        peak(1, 1, 2**16, 2**15 + 1, kernel=2, axis=2, index_element_type="i32"),
        "index_element_type='i32' cannot hold indices up to 2147549183; use i64",
    ),
    "indices of 32 bits that count the channels of one image": (
        peak(2, 3, 2**15, 2**14, kernel=2, like="tensorflow", index_element_type="i32"),
        peak(2, 5, 2**15, 2**14, kernel=2, like="tensorflow", index_element_type="i32"),
        "index_element_type='i32' cannot hold indices up to 2684354559; use i64",
    ),
    "the last axis that maxima may be counted from, and the next": (peak(1, 1, 8, 8, kernel=2, axis=3),
        peak(1, 1, 8, 8, kernel=2, axis=4), "axis is 4; it must be from -4 to 3 for 4 axes"),
    "OpenVINO: an axis that maxima are counted from, and another dialect's": (peak(kernel=2, axis=1),
        peak(kernel=2, axis=1, like="onnx"),
        "axis is an attribute of OpenVINO; ONNX fixes the axes that indices count over"),
    "an output of 1 and of 0": (bins(output_size=1), bins(output_size=0),
        "output_size is 0 on every axis; it must be at least 1"),
    "numbers up to 2**63 - 1, and above": (peak(kernel=1, strides=2**63 - 1), peak(kernel=1, strides=2**63),
        "strides on every axis is above 2**63 - 1, the largest number that is read"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_the_last_that_is_taken_and_the_first_that_is_refused(name: str) -> None:
    taken, refused, message = EDGES[name]
    assert all(length > 0 for length in taken.plan().output_shape[-1:])
    with pytest.raises(RequestError) as found:
        refused.plan()
    assert str(found.value) == message


def test_a_shape_that_is_too_large_for_any_index_is_planned() -> None:
    assert MaxPool(3, strides=2).plan((1, 1, 2**62, 5)).output_shape == (1, 1, 2**61 - 1, 2)


def test_the_divisor_counts_the_whole_kernel_where_either_end_has_pads() -> None:
    divisors = {}
    for begin, end in ((0, 0), (1, 0), (0, 1), (1, 1)):
        op = AvgPool(3, strides=2, pads_begin=begin, pads_end=end, rounding_type="ceil", exclude_pad=False)
        (windows,) = op.plan((1, 1, 4)).windows
        divisors[begin, end] = [windows.divisor(o) for o in range(windows.output)]
    assert divisors == {(0, 0): [3, 2], (1, 0): [3, 3], (0, 1): [3, 3], (1, 1): [3, 3, 3]}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("rounding", ["floor", "ceil", "ceil_torch"])
def test_a_window_one_longer_than_the_padded_axis_is_refused_at_every_size(size: int, rounding: str) -> None:
    for pads in (0, 1):
        longest = size + pads
        fitting = AvgPool(
            longest, strides=1, pads_begin=0, pads_end=pads, rounding_type=rounding, exclude_pad=False
        ).plan((1, 1, size))
        assert fitting.output_shape == (1, 1, 1)
        with pytest.raises(RequestError):
            AvgPool(
                longest + 1, strides=1, pads_begin=0, pads_end=pads, rounding_type=rounding, exclude_pad=False
            ).plan((1, 1, size))
        with pytest.raises(RequestError):
            MaxPool(longest + 1, strides=1, pads_begin=0, pads_end=pads, rounding_type=rounding).plan((1, 1, size))
