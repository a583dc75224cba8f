"""Output lengths on every small combination of numbers and words, against each framework's own shape inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from poolcli import AvgPool, MaxPool, RequestError
from tests.conformance.peers import ONNX, OPENVINO, PYTORCH
from tests.profiles import sized

SIZES, KERNELS, STRIDES, DILATIONS = range(1, sized(7, 9)), range(1, sized(4, 6)), range(1, sized(4, 5)), (1, 2)
PADS = range(sized(3, 4))
WORDS = ("explicit", "same_upper", "same_lower", "valid")
RECORDS = pytest.mark.parametrize("record", [AvgPool, MaxPool])


def asked(
    record: Any, rounding: str, like: str, words: tuple[str, ...] = WORDS, symmetric: bool = False
) -> Iterator[tuple[Any, int]]:
    """Each operator and a size; pads only where they are read, dilations where the framework has them."""
    dilations = DILATIONS if like in ("openvino", "onnx") or (like, record) == ("pytorch", MaxPool) else (1,)
    more = {"exclude_pad": False} if record is AvgPool and like == "openvino" else {}
    for word in words:
        pads = [(b, e) for b in PADS for e in PADS if word == "explicit" and (b == e or not symmetric)] or [(0, 0)]
        for size, kernel, stride, dilation, (begin, end) in product(SIZES, KERNELS, STRIDES, dilations, pads):
            op = record(
                kernel, strides=stride, pads_begin=begin, pads_end=end, dilations=dilation, auto_pad=word,
                rounding_type=rounding, like=like, **more,
            )  # fmt: skip
            yield op, size


def length(op: Any, size: int) -> int | None:
    """poolcli's output length on one axis; None where it refuses."""
    try:
        return int(op.plan((1, 1, size)).output_shape[2])
    except RequestError:
        return None


def differing(
    questions: Iterator[tuple[Any, int]], theirs: Callable[[Any, int], int | None]
) -> list[tuple[Any, int, int, int]]:
    """The questions with both lengths where these differ; refusals of either side are left to the tests of those."""
    lengths = [(op, size, length(op, size), theirs(op, size)) for op, size in questions]
    return [(op, size, a, b) for op, size, a, b in lengths if a is not None and b is not None and a != b]


@cache
def _input(size: int) -> Any:
    import openvino as ov
    from openvino import opset8

    return opset8.parameter([1, 1, size], ov.Type.f32)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "ceil_torch"])
@RECORDS
def test_openvino_has_the_same_lengths(record: Any, rounding: str) -> None:
    def theirs(op: Any, size: int) -> int | None:
        try:
            return int(OPENVINO.adapter.node(op, _input(size), 1).output(0).get_partial_shape()[2].get_length())
        except RuntimeError:
            return None

    assert differing(asked(record, rounding, "openvino"), theirs) == []


@pytest.mark.parametrize("rounding", ["floor", "ceil"])
@RECORDS
def test_pytorch_has_the_same_lengths(record: Any, rounding: str) -> None:
    def theirs(op: Any, size: int) -> int | None:
        x = np.zeros((1, 1, size), np.float32)
        return None if PYTORCH.refuses(op, x) else PYTORCH.ask([(op, x)])[0][0].shape[2]

    assert differing(asked(record, rounding, "pytorch", ("explicit",), symmetric=True), theirs) == []


@pytest.mark.parametrize("rounding", ["floor", "ceil"])
@RECORDS
def test_onnx_has_the_same_lengths(record: Any, rounding: str) -> None:
    import onnx
    from onnx import TensorProto, helper

    found: dict[tuple[Any, int], int] = {}
    questions = [each for each in asked(record, rounding, "onnx") if length(*each) is not None]
    for size in SIZES:
        chosen = [op for op, its_size in questions if its_size == size]
        nodes = [ONNX.adapter.node(op, 1, "x", [f"y{i}"]) for i, op in enumerate(chosen)]
        for node in (node for node, op in zip(nodes, chosen, strict=True) if op.auto_pad != "explicit"):
            node.attribute.remove(next(each for each in node.attribute if each.name == "pads"))  # which onnx would read
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, size])
        graph = helper.make_graph(nodes, "sweep", [x], [])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
        for value in onnx.shape_inference.infer_shapes(model).graph.value_info:
            dim = value.type.tensor_type.shape.dim[2]
            if dim.HasField("dim_value"):
                found[chosen[int(value.name[1:])], size] = dim.dim_value
    assert differing(iter(questions), lambda op, size: found.get((op, size))) == []


@RECORDS
def test_tensorflow_has_the_same_lengths(record: Any) -> None:
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is compared where it is installed")
    graph = tf.Graph()

    def theirs(op: Any, size: int) -> int | None:
        pads = [op.pads_begin, op.pads_end]
        padding = "SAME" if op.auto_pad == "same_upper" else [[0, 0], pads, [0, 0]] if any(pads) else "VALID"
        make = tf.nn.max_pool1d if record is MaxPool else tf.nn.avg_pool1d
        try:
            with graph.as_default():  # shapes alone: nothing is computed
                x = tf.compat.v1.placeholder(tf.float32, [1, size, 1])
                return int(make(x, op.kernel, op.strides, padding).shape[1])
        except (ValueError, TypeError):
            return None

    words = ("explicit", "same_upper", "valid")
    assert differing(asked(record, "floor", "tensorflow", words), theirs) == []
