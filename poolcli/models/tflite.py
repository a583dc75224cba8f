"""Pooling layers of a TensorFlow Lite model. Field numbers and codes are those of its schema.fbs, version 3."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.models.byte_reader import ByteReader, Table, TruncatedError, root
from poolcli.models.layer import Layer, Shape, Whole, channels_last, is_pooling, spatial_layout
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from poolcli.plan.attributes import Attributes, SlidingAttributes

OPERATOR_CODES, SUBGRAPHS, BUFFERS = 1, 2, 4  # fields of a model
TENSORS, OPERATORS, NAME = 0, 3, 4  # of a subgraph
CODE, INPUTS, OUTPUTS, OPTIONS = 0, 1, 2, 4  # of an operator
SHAPE, BUFFER, TENSOR_NAME, SIGNATURE = 0, 2, 3, 7  # of a tensor
PADDING, STRIDE_W, STRIDE_H, WIDTH, HEIGHT, ACTIVATION = range(6)  # of the options of pooling
NUMBERS = {"filter_height": HEIGHT, "filter_width": WIDTH, "stride_h": STRIDE_H, "stride_w": STRIDE_W}
AUTO_PADS = ("same_upper", "valid")
SLIDING: dict[int, tuple[str, type[SlidingAttributes]]] = {
    1: ("AVERAGE_POOL_2D", AvgPool), 12: ("L2_POOL_2D", AvgPool), 17: ("MAX_POOL_2D", MaxPool),
}  # fmt: skip
REDUCING: dict[int, tuple[str, Attributes | Whole]] = {
    40: ("MEAN", AdaptiveAvgPool(1)),
    74: ("SUM", Whole(AvgPool, (("divisor_override", 1),))),
    82: ("REDUCE_MAX", AdaptiveMaxPool(1)),
}
ROOT_OF_SQUARES = "it is the root of the mean of squares, which no operator here computes"
MOST_AXES = 64  # bytes of the constant that says which axes are reduced


def read_tflite(path: str, given: Mapping[str, tuple[int, ...]]) -> list[Layer]:
    """The pooling layers of the model, subgraph by subgraph; a RequestError where it cannot be read."""
    if given:
        raise RequestError(f"{path}: {field('input_shape')} is for ONNX models and IR; a .tflite states its shapes")
    with open(path, "rb") as stream:
        try:
            return list(_layers(root(ByteReader(stream))))
        except (TruncatedError, struct.error) as error:
            raise RequestError(f"{path}: no TensorFlow Lite model that can be read: {error}") from None


def _layers(model: Table) -> list[Layer]:
    codes = [max(each.number(0, "b"), each.number(3)) for each in model.tables(OPERATOR_CODES)]
    buffers, found = model.tables(BUFFERS), []
    for i, graph in enumerate(model.tables(SUBGRAPHS)):
        tensors = graph.tables(TENSORS)
        scope = f"{graph.text(NAME) or i}/" if i else ""
        for operator in graph.tables(OPERATORS):
            index = operator.number(CODE, "I")
            code = codes[index] if index < len(codes) else -1
            if code not in SLIDING and code not in REDUCING:
                continue
            inputs, outputs = (_tensors(operator.numbers(n), tensors) for n in (INPUTS, OUTPUTS))
            options = operator.table(OPTIONS)
            layer = (
                _sliding(code, scope, inputs, outputs, options)
                if code in SLIDING
                else _reducing(code, scope, inputs, outputs, options, buffers)
            )
            if layer:
                found.append(layer)
    return found


def _tensors(places: Sequence[int] | None, tensors: Sequence[Table]) -> list[Table]:
    return [tensors[place] for place in places or () if 0 <= place < len(tensors)]


def _shape(tensors: Sequence[Table]) -> Shape | None:
    """The shape of the first of some tensors, with its dynamic lengths."""
    if not tensors:
        return None
    shape = tensors[0].numbers(SIGNATURE) or tensors[0].numbers(SHAPE)
    return tuple(size if size > 0 else "?" for size in shape) if shape else None


def _shared(kind: str, scope: str, inputs: Sequence[Table], outputs: Sequence[Table]) -> dict[str, Any]:
    return {
        "name": scope + (outputs[0].text(TENSOR_NAME) if outputs else kind),
        "type": kind,
        "version": "",
        "framework": "TensorFlow Lite",
        "input_shape": _shape(inputs),
        "declared_shape": _shape(outputs),
    }


def _sliding(
    code: int, scope: str, inputs: Sequence[Table], outputs: Sequence[Table], options: Table | None
) -> Layer:  # fmt: skip
    kind, record = SLIDING[code]
    shared = _shared(kind, scope, inputs, outputs)
    if options is None:
        return Layer(**shared, invalid="refuses it: it has no options")
    numbers = {name: options.number(place) for name, place in NUMBERS.items()}
    padding, activation = options.number(PADDING, "b"), options.number(ACTIVATION, "b")
    words = {"padding": ("SAME", "VALID")[padding] if padding in (0, 1) else str(padding)}
    given = {name: str(number) for name, number in numbers.items()} | words
    rank = len(shared["input_shape"] or "NHWC")
    if rank != 4 or padding not in (0, 1):
        what = f"its input has {rank} axes, 4 are needed" if rank != 4 else f"its padding is {padding}"
        return Layer(**shared, given=given, invalid=f"refuses it: {what}")
    try:
        op = record(
            kernel=(numbers["filter_height"], numbers["filter_width"]),
            strides=(numbers["stride_h"], numbers["stride_w"]),
            auto_pad=AUTO_PADS[padding],
            like="tensorflow",
        )
    except RequestError as error:
        return Layer(**shared, given=given, invalid=f"refuses it: {error.message}")
    why = ROOT_OF_SQUARES if code == 12 else "an activation is fused into it" if activation else None
    return Layer(**shared, given=given, op=op, layout=channels_last(4), shape_only=why)


def _reducing(
    code: int, scope: str, inputs: Sequence[Table], outputs: Sequence[Table], options: Table | None,
    buffers: Sequence[Table],
) -> Layer | None:  # fmt: skip
    """The layer of a reduction; None where it is over other axes than the spatial ones."""
    kind, op = REDUCING[code]
    shape = _shape(inputs)
    axes = _constant(inputs[1], buffers) if len(inputs) > 1 else None
    keeps = options is not None and options.number(0, "b") != 0
    if not is_pooling(axes, shape, keeps=keeps, last=True):
        return None
    layout = spatial_layout(axes or (), shape)
    return Layer(**_shared(kind, scope, inputs, outputs), op=op, layout=layout, keeps_axes=keeps)


def _constant(tensor: Table, buffers: Sequence[Table]) -> tuple[int, ...] | None:
    """The integers of a constant; None where it is none."""
    place = tensor.number(BUFFER, "I")
    data = buffers[place].raw(0, MOST_AXES) if 0 < place < len(buffers) else b""
    return struct.unpack(f"<{len(data) // 4}i", data) if data and len(data) % 4 == 0 else None
