"""Reads the pooling layers of a TensorFlow Lite model, a flatbuffer. Numbers are those of schema.fbs, version 3."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from mmap import ACCESS_READ, mmap
from typing import Any

from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.models.layer import (
    GLOBAL_SUM,
    InvalidError,
    Layer,
    LayerOp,
    Shape,
    channels_last,
    make_operator,
    pools_by_name,
    reduced_layout,
    with_warnings_after_a_contradiction,
)
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool

OPERATOR_CODES, SUBGRAPHS, BUFFERS = 1, 2, 4  # fields of a model
TENSORS, OPERATORS, NAME = 0, 3, 4  # of a subgraph
CODE, INPUTS, OUTPUTS, OPTIONS = 0, 1, 2, 4  # of an operator
SHAPE, BUFFER, TENSOR_NAME, SIGNATURE = 0, 2, 3, 7  # of a tensor
PADDING, STRIDE_W, STRIDE_H, WIDTH, HEIGHT, ACTIVATION = range(6)  # of the options of pooling
NUMBERS = {"filter_height": HEIGHT, "filter_width": WIDTH, "stride_h": STRIDE_H, "stride_w": STRIDE_W}
AUTO_PADS = ("same_upper", "valid")
SLIDING: dict[int, tuple[str, Any]] = {
    1: ("AVERAGE_POOL_2D", AvgPool), 12: ("L2_POOL_2D", AvgPool), 17: ("MAX_POOL_2D", MaxPool),
}  # fmt: skip
REDUCTIONS: dict[int, tuple[str, LayerOp]] = {
    40: ("MEAN", AdaptiveAvgPool(1)),
    74: ("SUM", GLOBAL_SUM),
    82: ("REDUCE_MAX", AdaptiveMaxPool(1)),
}
CUSTOM, CUSTOM_NAME = 32, 1  # the code of operators that are not built in, and the field of their names
ROOT_OF_SQUARES = "it is the root of the mean of squares, which no operator here computes"
MAX_AXES_BYTES = 64  # of the constant with the axes of a reduction
MAX_VECTOR = 1 << 24  # items
MAX_READS = 4  # of each byte, on average: layers share tensors
FREE_BYTES = 1 << 16  # of vectors that every file may read
MEMORY_PER_BYTE = 32  # a table in a list takes 128 bytes, its entry in the file 4


def read_tflite(path: str, given: Mapping[str, tuple[int, ...]], limit: int | None = None) -> list[Layer]:
    """Read the pooling layers, subgraph by subgraph; a RequestError if the file is invalid or takes more than
    `limit`.
    """
    if given:
        raise RequestError(f"{path}: {field('input_shape')} is for ONNX models and IR; a .tflite states its shapes")
    try:
        with open(path, "rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as data:
            file = Flatbuffer(data, limit)
            return with_warnings_after_a_contradiction(_layers(Table(file, file.number(0, "I"))))
    except RequestError as error:
        raise RequestError(f"{path}: not a readable TensorFlow Lite model: {error.message}") from None


def _layers(model: Table) -> list[Layer]:
    kinds = [_kind(each) for each in model.tables(OPERATOR_CODES)]
    buffers, found = model.tables(BUFFERS), []
    for i, graph in enumerate(model.tables(SUBGRAPHS)):
        tensors = graph.tables(TENSORS)
        scope = f"{graph.text(NAME) or i}/" if i else ""
        for operator in graph.tables(OPERATORS):
            index = operator.number(CODE, "I")
            code, kind = kinds[index] if index < len(kinds) else (-1, "")
            if code not in SLIDING and code not in REDUCTIONS and not pools_by_name(kind):
                continue
            places = (operator.numbers(n) or () for n in (INPUTS, OUTPUTS))
            inputs, outputs = ([tensors[place] for place in each if 0 <= place < len(tensors)] for each in places)
            stated = Layer(
                name=scope + (outputs[0].text(TENSOR_NAME) if outputs else kind),
                type=kind,
                version="",
                framework="TensorFlow Lite",
                input_shape=_shape(inputs),
                declared_shape=_shape(outputs),
            )
            options = operator.table(OPTIONS)
            layer: Layer | None
            if code in SLIDING:
                layer = _sliding(stated, code, options)
            elif code in REDUCTIONS:
                axes = _constant(inputs[1], buffers) if len(inputs) > 1 else None
                layer = _reducing(stated, code, axes, options)
            else:
                layer = replace(stated, problem=f"{kind} is not checked")
            if layer:
                found.append(layer)
    return found


def _kind(described: Table) -> tuple[int, str]:
    """The code of an operator, and its name if it pools or is not built in."""
    code = max(described.number(0, "b"), described.number(3))
    if code == CUSTOM:
        return code, described.text(CUSTOM_NAME)
    return code, SLIDING[code][0] if code in SLIDING else REDUCTIONS[code][0] if code in REDUCTIONS else ""


def _shape(tensors: Sequence[Table]) -> Shape | None:
    """The shape of the first tensor; its signature has the dynamic lengths."""
    if not tensors:
        return None
    shape = tensors[0].numbers(SIGNATURE) or tensors[0].numbers(SHAPE)
    return tuple(size if size > 0 else "?" for size in shape) if shape else None


def _sliding(stated: Layer, code: int, options: Table | None) -> Layer:
    """The layer with its operator, or the reason why TensorFlow Lite refuses it."""
    if options is None:
        return replace(stated, invalid=InvalidError("it has no options").sentence)
    numbers = {name: options.number(place) for name, place in NUMBERS.items()}
    padding, activation = options.number(PADDING, "b"), options.number(ACTIVATION, "b")
    words = {"padding": ("SAME", "VALID")[padding] if padding in (0, 1) else str(padding)}
    layer = replace(stated, given={name: str(number) for name, number in numbers.items()} | words)
    rank = len(layer.input_shape or "NHWC")
    try:
        if rank != 4:
            raise InvalidError(f"its input has {rank} axes; 4 are needed")
        if padding not in (0, 1):
            raise InvalidError(f"its padding is {padding}")
        op = make_operator(
            SLIDING[code][1],
            kernel=(numbers["filter_height"], numbers["filter_width"]),
            strides=(numbers["stride_h"], numbers["stride_w"]),
            auto_pad=AUTO_PADS[padding],
            like="tensorflow",
        )
    except InvalidError as error:
        return replace(layer, invalid=error.sentence)
    why = ROOT_OF_SQUARES if code == 12 else "an activation is fused into it" if activation else None
    return replace(layer, op=op, layout=channels_last(4), shape_only=why)


def _reducing(stated: Layer, code: int, axes: tuple[int, ...] | None, options: Table | None) -> Layer | None:
    """The layer with its operator; None for a reduction over other axes than the spatial ones."""
    keeps = options is not None and options.number(0, "b") != 0
    layout = reduced_layout(axes, stated.input_shape, keeps=keeps, last=True)
    return replace(stated, op=REDUCTIONS[code][1], layout=layout, keeps_axes=keeps) if layout else None


def _constant(tensor: Table, buffers: Sequence[Table]) -> tuple[int, ...] | None:
    """The integers of a constant; None for other tensors."""
    place = tensor.number(BUFFER, "I")
    data = bytes(buffers[place].numbers(0, "B", MAX_AXES_BYTES) or ()) if 0 < place < len(buffers) else b""
    return struct.unpack(f"<{len(data) // 4}i", data) if data and len(data) % 4 == 0 else None


class Flatbuffer:
    """The bytes of a file, and how many bytes of vectors may still be read.

    Vectors may overlap, so that a small file could read any amount.
    """

    def __init__(self, data: Any, limit: int | None) -> None:
        most = FREE_BYTES + MAX_READS * len(data)
        self.data, self.left = data, most if limit is None else min(most, max(FREE_BYTES, limit // MEMORY_PER_BYTE))

    def number(self, at: int, code: str = "i") -> int:
        """The number at a byte."""
        found: int = self._unpack("<" + code, at)[0]
        return found

    def numbers(self, at: int, count: int, code: str) -> tuple[Any, ...]:
        """The items of a vector, from its first byte on."""
        self.left -= count * struct.calcsize("<" + code)
        if self.left < 0:
            raise RequestError(
                f"its lists, the last at byte {at:,}, overlap or take more memory than the limit; "
                f"raise {field('max_memory')}"
            )
        return self._unpack(f"<{count}{code}", at)

    def _unpack(self, code: str, at: int) -> tuple[Any, ...]:
        if not 0 <= at <= len(self.data) - struct.calcsize(code):
            raise RequestError(f"byte {at + struct.calcsize(code):,} is outside the file")
        return struct.unpack_from(code, self.data, at)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a flatbuffer at byte `at` of the file; fields have the numbers of the schema."""

    file: Flatbuffer
    at: int

    def _place(self, number: int) -> int | None:
        """The position of a field; None if the table omits it."""
        described, offset = self.at - self.file.number(self.at), 4 + 2 * number
        found = self.file.number(described + offset, "H") if offset < self.file.number(described, "H") else 0
        return self.at + found if found else None

    def number(self, number: int, code: str = "i", default: int = 0) -> int:
        """A field that is a number with this struct code."""
        place = self._place(number)
        return default if place is None else self.file.number(place, code)

    def numbers(self, number: int, code: str = "i", most: int = MAX_VECTOR) -> tuple[Any, ...] | None:
        """A field that is a vector of numbers; None if it is omitted, or longer than `most`."""
        start, count = self._vector(number)
        return None if start is None or count > most else self.file.numbers(start, count, code)

    def text(self, number: int) -> str:
        """A field that is a string."""
        return bytes(self.numbers(number, "B") or ()).decode(errors="replace")

    def table(self, number: int) -> Table | None:
        """A field that is a table."""
        place = self._place(number)
        return None if place is None else Table(self.file, place + self.file.number(place, "I"))

    def tables(self, number: int) -> list[Table]:
        """A field that is a vector of tables."""
        start, count = self._vector(number)
        offsets = () if start is None else self.file.numbers(start, count, "I")
        return [Table(self.file, (start or 0) + 4 * i + offset) for i, offset in enumerate(offsets)]

    def _vector(self, number: int) -> tuple[int | None, int]:
        """The start of the items of a vector, and their number."""
        place = self._place(number)
        if place is None:
            return None, 0
        start = place + self.file.number(place, "I")
        count = self.file.number(start, "I")
        if count > MAX_VECTOR:
            raise RequestError(f"a list of {count:,} items at byte {start:,}")
        return start + 4, count
