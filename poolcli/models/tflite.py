"""Reads the pooling layers of a TensorFlow Lite model, a flatbuffer. Numbers are those of schema.fbs, version 3."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import SEEK_END
from typing import Any, BinaryIO

from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.models.layer import (
    GLOBAL_SUM,
    InvalidError,
    Layer,
    LayerOp,
    Shape,
    TruncatedError,
    channels_last,
    make_operator,
    pools_by_name,
    read_exactly,
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
    with open(path, "rb") as stream:
        try:
            model = Table(stream, _unpack(stream, "I", 0), VectorBudget(stream.seek(0, SEEK_END), limit))
            return with_warnings_after_a_contradiction(_layers(model))
        except (TruncatedError, struct.error) as error:
            why = getattr(error, "message", error)  # in which fields are marked
            raise RequestError(f"{path}: not a readable TensorFlow Lite model: {why}") from None


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
    data = buffers[place].raw(0, MAX_AXES_BYTES) if 0 < place < len(buffers) else b""
    return struct.unpack(f"<{len(data) // 4}i", data) if data and len(data) % 4 == 0 else None


class VectorBudget:
    """Limits the bytes of vectors that are read: vectors may overlap, so that a small file could read any amount."""

    def __init__(self, length: int, limit: int | None) -> None:
        most = FREE_BYTES + MAX_READS * length
        self._left = most if limit is None else min(most, max(FREE_BYTES, limit // MEMORY_PER_BYTE))
        self._is_limited = self._left < most

    def count(self, size: int, start: int) -> None:
        """Count the bytes of a vector; refuse more than the limit."""
        self._left -= size
        if self._left < 0:
            more = f"take more memory than the limit; raise {field('max_memory')}" if self._is_limited else "overlap"
            raise TruncatedError(f"its lists, the last at byte {start:,}, {more}")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a flatbuffer at byte `at` of the file; fields have the numbers of the schema."""

    stream: BinaryIO
    at: int
    vectors: VectorBudget

    def _place(self, number: int) -> int | None:
        """The position of a field; None if the table omits it."""
        described = self.at - _unpack(self.stream, "i", self.at)
        offset = 4 + 2 * number
        if offset >= _unpack(self.stream, "H", described):
            return None
        found = _unpack(self.stream, "H", described + offset)
        return self.at + found if found else None

    def number(self, number: int, code: str = "i", default: int = 0) -> int:
        """A field that is a number with this struct code."""
        place = self._place(number)
        return default if place is None else _unpack(self.stream, code, place)

    def numbers(self, number: int, code: str = "i") -> tuple[int, ...] | None:
        """A field that is a vector of numbers; None if it is omitted."""
        start, count = self._vector(number)
        if start is None:
            return None
        return struct.unpack(f"<{count}{code}", self._read(start, count * struct.calcsize("<" + code)))

    def text(self, number: int) -> str:
        """A field that is a string."""
        start, count = self._vector(number)
        return "" if start is None else self._read(start, count).decode(errors="replace")

    def raw(self, number: int, most: int) -> bytes:
        """A field that is a vector of bytes; empty if it is longer than `most`."""
        start, count = self._vector(number)
        return b"" if start is None or count > most else read_exactly(self.stream, start, count)

    def table(self, number: int) -> Table | None:
        """A field that is a table."""
        place = self._place(number)
        return None if place is None else Table(self.stream, place + _unpack(self.stream, "I", place), self.vectors)

    def tables(self, number: int) -> list[Table]:
        """A field that is a vector of tables."""
        start, count = self._vector(number)
        if start is None:
            return []
        offsets = struct.unpack(f"<{count}I", self._read(start, 4 * count))
        return [Table(self.stream, start + 4 * i + offset, self.vectors) for i, offset in enumerate(offsets)]

    def _read(self, start: int, size: int) -> bytes:
        self.vectors.count(size, start)
        return read_exactly(self.stream, start, size)

    def _vector(self, number: int) -> tuple[int | None, int]:
        """The start of the items of a vector, and their number."""
        place = self._place(number)
        if place is None:
            return None, 0
        start = place + _unpack(self.stream, "I", place)
        count = _unpack(self.stream, "I", start)
        if count > MAX_VECTOR:
            raise TruncatedError(f"a list of {count:,} items at byte {start:,}")
        return start + 4, count


def _unpack(stream: BinaryIO, code: str, at: int) -> int:
    found: int = struct.unpack("<" + code, read_exactly(stream, at, struct.calcsize("<" + code)))[0]
    return found
