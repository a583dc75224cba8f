"""Output lengths on every small combination of numbers and words, against each framework's own shape inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

import pytest

from poolcli import AvgPool, MaxPool, RequestError
from tests.conformance.compare import SWEPT
from tests.profiles import sized

SIZES, KERNELS, STRIDES, DILATIONS = range(1, sized(7, 9)), range(1, sized(4, 6)), range(1, sized(4, 5)), (1, 2)
PADS = range(sized(3, 4))
WORDS = ("explicit", "same_upper", "same_lower", "valid")


def combinations(dilations: tuple[int, ...], words: tuple[str, ...], symmetric: bool) -> Iterator[tuple[Any, ...]]:
    """(size, kernel, stride, dilation, pads, auto_pad); pads only where they are read."""
    for word in words:
        pads = [(b, e) for b in PADS for e in PADS if word == "explicit" and (b == e or not symmetric)] or [(0, 0)]
        yield from product(SIZES, KERNELS, STRIDES, dilations, pads, (word,))


def length(make: Any, combination: tuple[Any, ...], rounding: str, like: str, **more: Any) -> int | None:
    """poolcli's output length on one axis; None where it refuses."""
    size, kernel, stride, dilation, (begin, end), word = combination
    op = make(kernel, stride, begin, end, dilation, word, rounding, like, **more)
    try:
        return int(op.plan((1, 1, size)).output_shape[2])
    except RequestError:
        return None


def differing(
    name: str, combined: Iterator[tuple[Any, ...]], ours: Callable[..., int | None], theirs: Callable[..., int | None]
) -> list[tuple[tuple[Any, ...], int, int]]:
    """The combinations with both lengths where these differ; refusals of either side are left to the tests of those."""
    wrong = []
    for combination in combined:
        mine, other = ours(combination), theirs(combination)
        if mine is None or other is None:
            continue
        SWEPT[name] += 1
        if mine != other:
            wrong.append((combination, mine, other))
    return wrong


@cache
def _input(size: int) -> Any:
    import openvino as ov
    from openvino import opset8

    return opset8.parameter([1, 1, size], ov.Type.f32)


@pytest.mark.parametrize("rounding", ["floor", "ceil", "ceil_torch"])
@pytest.mark.parametrize("name", ["avg", "max"])
def test_openvino_has_the_same_lengths(name: str, rounding: str) -> None:
    from openvino import opset14, opset16

    def theirs(combination: tuple[Any, ...]) -> int | None:
        size, kernel, stride, dilation, (begin, end), word = combination
        shared = {"strides": [stride], "pads_begin": [begin], "pads_end": [end], "kernel_shape": [kernel],
                  "rounding_type": rounding, "auto_pad": word}  # fmt: skip
        try:
            if name == "max":
                made = opset14.max_pool(_input(size), dilations=[dilation], **shared)
            else:
                made = opset16.avg_pool(_input(size), exclude_pad=False, dilations=[dilation], **shared)
            return int(made.output(0).get_partial_shape()[2].get_length())
        except RuntimeError:
            return None

    def ours(combination: tuple[Any, ...]) -> int | None:
        if name == "max":
            return length(MaxPool, combination, rounding, "openvino")
        return length(AvgPool, combination, rounding, "openvino", exclude_pad=False)

    wrong = differing(f"OpenVINO {name} {rounding}", combinations(DILATIONS, WORDS, False), ours, theirs)
    assert wrong == []


@pytest.mark.parametrize("rounding", ["floor", "ceil"])
@pytest.mark.parametrize("name", ["avg", "max"])
def test_pytorch_has_the_same_lengths(name: str, rounding: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is compared where it is installed")
    inputs = {size: torch.empty((1, 1, size), device="meta") for size in SIZES}

    def theirs(combination: tuple[Any, ...]) -> int | None:
        size, kernel, stride, dilation, (pad, _), _ = combination
        try:
            if name == "max":
                made = torch.max_pool1d(inputs[size], kernel, stride, pad, dilation, rounding == "ceil")
            else:
                made = torch.nn.functional.avg_pool1d(inputs[size], kernel, stride, pad, rounding == "ceil")
            return int(made.shape[2])
        except RuntimeError:
            return None

    dilations = DILATIONS if name == "max" else (1,)
    make = MaxPool if name == "max" else AvgPool
    wrong = differing(
        f"PyTorch {name} {rounding}",
        combinations(dilations, ("explicit",), True),
        lambda combination: length(make, combination, rounding, "pytorch"),
        theirs,
    )
    assert wrong == []


@pytest.mark.parametrize("rounding", ["floor", "ceil"])
@pytest.mark.parametrize("name", ["avg", "max"])
def test_onnx_has_the_same_lengths(name: str, rounding: str) -> None:
    import onnx
    from onnx import TensorProto, helper

    make = MaxPool if name == "max" else AvgPool
    words = {"explicit": "NOTSET", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}
    found: dict[tuple[Any, ...], int] = {}
    asked = list(combinations(DILATIONS, WORDS, False))
    for size in SIZES:
        chosen = [c for c in asked if c[0] == size and length(make, c, rounding, "onnx") is not None]
        nodes = []
        for i, (_, kernel, stride, dilation, (begin, end), word) in enumerate(chosen):
            pads: dict[str, Any] = {"pads": [begin, end]} if word == "explicit" else {}
            nodes.append(
                helper.make_node(
                    "MaxPool" if name == "max" else "AveragePool", ["x"], [f"y{i}"], kernel_shape=[kernel],
                    strides=[stride], dilations=[dilation], ceil_mode=int(rounding == "ceil"), auto_pad=words[word],
                    **pads,
                )
            )  # fmt: skip
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, size])
        graph = helper.make_graph(nodes, "sweep", [x], [])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
        inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
        for value in inferred:
            dim = value.type.tensor_type.shape.dim[2]
            if dim.HasField("dim_value"):
                found[chosen[int(value.name[1:])]] = dim.dim_value
    wrong = differing(
        f"ONNX {name} {rounding}",
        iter(asked),
        lambda combination: length(make, combination, rounding, "onnx"),
        lambda combination: found.get(combination),
    )
    assert wrong == []


@pytest.mark.parametrize("name", ["avg", "max"])
def test_tensorflow_has_the_same_lengths(name: str) -> None:
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is compared where it is installed")
    words = {"same_upper": "SAME", "valid": "VALID"}
    graph = tf.Graph()

    def theirs(combination: tuple[Any, ...]) -> int | None:
        size, kernel, stride, _, pads, word = combination
        padding = words.get(word) or ([[0, 0], list(pads), [0, 0]] if any(pads) else "VALID")
        try:
            with graph.as_default():  # shapes alone: nothing is computed
                x = tf.compat.v1.placeholder(tf.float32, [1, size, 1])
                return int(getattr(tf.nn, f"{name}_pool1d")(x, kernel, stride, padding).shape[1])
        except (ValueError, TypeError):
            return None

    make = MaxPool if name == "max" else AvgPool
    wrong = differing(
        f"TensorFlow {name}",
        combinations((1,), ("explicit", "same_upper", "valid"), False),
        lambda combination: length(make, combination, "floor", "tensorflow"),
        theirs,
    )
    assert wrong == []
