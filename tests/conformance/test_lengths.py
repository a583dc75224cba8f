"""Output lengths on every small combination of numbers and words, against each framework's own shape inference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import pytest

from poolcli import AvgPool, MaxPool, RequestError
from tests.profiles import sized

SIZES, KERNELS, STRIDES, DILATIONS = range(1, sized(7, 9)), range(1, sized(4, 6)), range(1, sized(4, 5)), (1, 2)
PADS = range(sized(3, 4))
WORDS = ("explicit", "same_upper", "same_lower", "valid")
Combination = tuple[Any, ...]


def combinations(dilations: tuple[int, ...], words: tuple[str, ...], symmetric: bool) -> Iterator[tuple[Any, ...]]:
    """(size, kernel, stride, dilation, pads, auto_pad); pads only where they are read."""
    for word in words:
        pads = [(b, e) for b in PADS for e in PADS if word == "explicit" and (b == e or not symmetric)] or [(0, 0)]
        yield from product(SIZES, KERNELS, STRIDES, dilations, pads, (word,))


def differing(
    record: Any, rounding: str, like: str, combined: Iterable[Combination], theirs: Callable[[Combination], int | None]
) -> list[tuple[Combination, int, int]]:
    """The combinations with both lengths where these differ; refusals of either side are left to the tests of those."""
    wrong = []
    for combination in combined:
        mine, other = length(record, rounding, like, combination), theirs(combination)
        if mine is not None and other is not None and mine != other:
            wrong.append((combination, mine, other))
    return wrong


def length(record: Any, rounding: str, like: str, combination: Combination) -> int | None:
    """poolcli's output length on one axis; None where it refuses."""
    size, kernel, stride, dilation, (begin, end), word = combination
    more = {"exclude_pad": False} if record is AvgPool and like == "openvino" else {}
    op = record(
        kernel, strides=stride, pads_begin=begin, pads_end=end, dilations=dilation, auto_pad=word,
        rounding_type=rounding, like=like, **more,
    )  # fmt: skip
    try:
        return int(op.plan((1, 1, size)).output_shape[2])
    except RequestError:
        return None


@cache
def _input(size: int) -> Any:
    import openvino as ov
    from openvino import opset8

    return opset8.parameter([1, 1, size], ov.Type.f32)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "ceil_torch"])
@pytest.mark.parametrize("record", [AvgPool, MaxPool])
def test_openvino_has_the_same_lengths(record: Any, rounding: str) -> None:
    from openvino import opset14, opset16

    def theirs(combination: Combination) -> int | None:
        size, kernel, stride, dilation, (begin, end), word = combination
        shared = {"strides": [stride], "pads_begin": [begin], "pads_end": [end], "kernel_shape": [kernel],
                  "dilations": [dilation], "rounding_type": rounding, "auto_pad": word}  # fmt: skip
        make = opset14.max_pool if record is MaxPool else partial(opset16.avg_pool, exclude_pad=False)
        try:
            return int(make(_input(size), **shared).output(0).get_partial_shape()[2].get_length())
        except RuntimeError:
            return None

    assert differing(record, rounding, "openvino", combinations(DILATIONS, WORDS, False), theirs) == []


@pytest.mark.parametrize("rounding", ["floor", "ceil"])
@pytest.mark.parametrize("record", [AvgPool, MaxPool])
def test_pytorch_has_the_same_lengths(record: Any, rounding: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is compared where it is installed")

    def theirs(combination: Combination) -> int | None:
        size, kernel, stride, dilation, (pad, _), _ = combination
        x, words = torch.empty((1, 1, size), device="meta"), {"ceil_mode": rounding == "ceil"}
        make = partial(torch.max_pool1d, dilation=dilation) if record is MaxPool else torch.nn.functional.avg_pool1d
        try:
            return int(make(x, kernel, stride, pad, **words).shape[2])
        except RuntimeError:
            return None

    combined = combinations(DILATIONS if record is MaxPool else (1,), ("explicit",), True)
    assert differing(record, rounding, "pytorch", combined, theirs) == []


@pytest.mark.parametrize("rounding", ["floor", "ceil"])
@pytest.mark.parametrize("record", [AvgPool, MaxPool])
def test_onnx_has_the_same_lengths(record: Any, rounding: str) -> None:
    import onnx
    from onnx import TensorProto, helper

    from tests.conformance.onnx_peer import AUTO_PADS

    found: dict[Combination, int] = {}
    asked = list(combinations(DILATIONS, WORDS, False))
    for size in SIZES:
        chosen = [c for c in asked if c[0] == size and length(record, rounding, "onnx", c) is not None]
        nodes = []
        for i, (_, kernel, stride, dilation, ends, word) in enumerate(chosen):
            pads: dict[str, Any] = {"pads": list(ends)} if word == "explicit" else {}
            words: dict[str, Any] = {
                "ceil_mode": int(rounding == "ceil"),
                "auto_pad": AUTO_PADS[word],
                "dilations": [dilation],
            }
            name = "MaxPool" if record is MaxPool else "AveragePool"
            shared: dict[str, Any] = {"kernel_shape": [kernel], "strides": [stride]}
            nodes.append(helper.make_node(name, ["x"], [f"y{i}"], **shared, **words, **pads))
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, size])
        graph = helper.make_graph(nodes, "sweep", [x], [])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
        for value in onnx.shape_inference.infer_shapes(model).graph.value_info:
            dim = value.type.tensor_type.shape.dim[2]
            if dim.HasField("dim_value"):
                found[chosen[int(value.name[1:])]] = dim.dim_value
    assert differing(record, rounding, "onnx", asked, found.get) == []


@pytest.mark.parametrize("record", [AvgPool, MaxPool])
def test_tensorflow_has_the_same_lengths(record: Any) -> None:
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is compared where it is installed")
    graph = tf.Graph()

    def theirs(combination: Combination) -> int | None:
        size, kernel, stride, _, pads, word = combination
        explicit = [[0, 0], list(pads), [0, 0]] if any(pads) else "VALID"
        make = tf.nn.max_pool1d if record is MaxPool else tf.nn.avg_pool1d
        try:
            with graph.as_default():  # shapes alone: nothing is computed
                x = tf.compat.v1.placeholder(tf.float32, [1, size, 1])
                return int(make(x, kernel, stride, {"same_upper": "SAME"}.get(word, explicit)).shape[1])
        except (ValueError, TypeError):
            return None

    combined = combinations((1,), ("explicit", "same_upper", "valid"), False)
    assert differing(record, "floor", "tensorflow", combined, theirs) == []
