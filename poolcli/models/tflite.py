"""Reads the pooling layers of a TensorFlow Lite model, a flatbuffer. Numbers are those of schema.fbs, version 3."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from mmap import ACCESS_READ, mmap
from typing import Any

from poolcli.errors import RequestError
from poolcli.layouts import channels_last
from poolcli.message_fields import field
from poolcli.models import layer as shared
from poolcli.models.layer import Given, InvalidError, Layer, Shape
from poolcli.ops import AvgPool, MaxPool

OPERATOR_CODES, SUBGRAPHS, BUFFERS = 1, 2, 4  # fields of a model
TENSORS, OPERATORS, NAME = 0, 3, 4  # of a subgraph
CODE, INPUTS, OUTPUTS, OPTIONS = 0, 1, 2, 4  # of an operator
SHAPE, BUFFER, TENSOR_NAME, SIGNATURE = 0, 2, 3, 7  # of a tensor
PADDING, STRIDE_W, STRIDE_H, WIDTH, HEIGHT, ACTIVATION = range(6)  # of the options of pooling
NUMBERS = {"filter_height": HEIGHT, "filter_width": WIDTH, "stride_h": STRIDE_H, "stride_w": STRIDE_W}
PADDINGS = {0: ("SAME", "same_upper"), 1: ("VALID", "valid")}
KINDS: dict[int, tuple[str, Any]] = {  # names, and records of sliding windows or operators of whole axes
    1: ("AVERAGE_POOL_2D", AvgPool),
    17: ("MAX_POOL_2D", MaxPool),
    40: ("MEAN", shared.REDUCTIONS["Mean"]),
    82: ("REDUCE_MAX", shared.REDUCTIONS["Max"]),
}
CUSTOM, CUSTOM_NAME = 32, 1  # the code of operators that are not built in, and the field of their names
MAX_READS = 4  # of each byte, on average: layers share tensors
FREE_BYTES = 1 << 16  # of vectors that every file may read
MEMORY_PER_BYTE = 32  # a table in a list takes 128 bytes, its entry in the file 4


def read(path: str, given: Given, limit: int | None = None) -> list[Layer]:
    """Read the pooling layers, subgraph by subgraph."""
    if given:
        raise RequestError(f"{path}: {field('input_shape')} is for ONNX models and IR; a .tflite states its shapes")
    try:
        with open(path, "rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as data:
            file = Flatbuffer(data, limit)
            return list(_layers(Table(file, file.unpack(0, "I")[0])))
    except RequestError as error:
        raise RequestError(f"{path}: not a readable TensorFlow Lite model: {error.message}") from None


def _layers(model: Table) -> Iterator[Layer]:
    kinds = [_kind(each) for each in model.tables(OPERATOR_CODES)]
    buffers = model.tables(BUFFERS)
    graphs = model.tables(SUBGRAPHS)
    if not graphs:
        raise RequestError("it has no subgraphs")
    for i, graph in enumerate(graphs):
        tensors = graph.tables(TENSORS)
        scope = f"{graph.text(NAME) or i}/" if i else ""
        for operator in graph.tables(OPERATORS):
            index = operator.number(CODE, "I")
            code, kind = kinds[index] if index < len(kinds) else (-1, "")
            if code not in KINDS and not shared.pools_by_name(kind):
                continue
            places = (operator.numbers(n) for n in (INPUTS, OUTPUTS))
            inputs, outputs = ([tensors[place] for place in each if 0 <= place < len(tensors)] for each in places)
            options = operator.table(OPTIONS)
            is_sliding = isinstance(KINDS.get(code, ("", None))[1], type)
            stated = Layer(
                name=scope + (outputs[0].text(TENSOR_NAME) if outputs else kind),
                type=kind,
                version="",
                framework="TensorFlow Lite",
                given=_attributes(options) if options and is_sliding else {},
                input_shape=_shape(inputs),
                declared_shape=_shape(outputs),
            )
            axes = _integers(inputs[1], buffers) if code in KINDS and len(inputs) > 1 else None
            layer = shared.interpreted(stated, partial(_interpret, code, options, axes))
            if layer:
                yield layer


def _kind(described: Table) -> tuple[int, str]:
    """The code of an operator, and its name if it pools or is not built in."""
    code = max(described.number(0, "b"), described.number(3))
    return code, described.text(CUSTOM_NAME) if code == CUSTOM else KINDS.get(code, ("",))[0]


def _shape(tensors: list[Table]) -> Shape | None:
    """The shape of the first tensor; its signature has the dynamic lengths."""
    shape = (tensors[0].numbers(SIGNATURE) or tensors[0].numbers(SHAPE)) if tensors else None
    return tuple(size if size > 0 else "?" for size in shape) if shape else None


def _integers(tensor: Table, buffers: list[Table]) -> tuple[int, ...] | None:
    """The integers of a constant; None for other tensors."""
    place = tensor.number(BUFFER, "I")
    data = bytes(buffers[place].numbers(0, "B")) if 0 < place < len(buffers) else b""
    return struct.unpack(f"<{len(data) // 4}i", data) if data and len(data) % 4 == 0 else None


def _attributes(options: Table) -> dict[str, str]:
    padding = options.number(PADDING, "b")
    given = {name: str(options.number(place)) for name, place in NUMBERS.items()}
    return given | {"padding": PADDINGS.get(padding, (str(padding),))[0]}


def _interpret(code: int, options: Table | None, axes: tuple[int, ...] | None, layer: Layer) -> Layer | None:
    """The layer with its operator; None for a reduction over other axes than the spatial ones."""
    if code not in KINDS:
        raise RequestError(f"{layer.type} is not checked")
    op = KINDS[code][1]
    if not isinstance(op, type):
        keeps = options is not None and options.number(0, "b") != 0
        layout = shared.reduced_layout(axes, layer.input_shape, keeps=keeps, last=True)
        return replace(layer, op=op, layout=layout, keeps_axes=keeps) if layout else None
    if options is None:
        raise InvalidError("it has no options")
    rank, padding = len(layer.input_shape or "NHWC"), options.number(PADDING, "b")
    if rank != 4:
        raise InvalidError(f"its input has {rank} axes; 4 are needed")
    if padding not in PADDINGS:
        raise InvalidError(f"its padding is {padding}")
    made = shared.make_operator(
        op,
        kernel=(options.number(HEIGHT), options.number(WIDTH)),
        strides=(options.number(STRIDE_H), options.number(STRIDE_W)),
        auto_pad=PADDINGS[padding][1],
        like="tensorflow",
    )
    why = "an activation is fused into it" if options.number(ACTIVATION, "b") else None
    return replace(layer, op=made, layout=channels_last(4), shape_only=why)


class Flatbuffer:
    """The bytes of a file, and how many bytes of vectors may still be read: they may overlap."""

    def __init__(self, data: Any, limit: int | None) -> None:
        most = FREE_BYTES + MAX_READS * len(data)
        self.data, self.left = data, most if limit is None else min(most, max(FREE_BYTES, limit // MEMORY_PER_BYTE))

    def unpack(self, at: int, code: str) -> tuple[Any, ...]:
        """The numbers at a byte, by their struct code."""
        end = at + struct.calcsize("<" + code)
        if not 0 <= at <= end <= len(self.data):
            raise RequestError(f"byte {end:,} is outside the file")
        return struct.unpack_from("<" + code, self.data, at)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a flatbuffer at byte `at` of the file; fields have the numbers of the schema."""

    file: Flatbuffer
    at: int

    def _place(self, number: int) -> int | None:
        """The position of a field; None if the table omits it."""
        described, offset = self.at - self.file.unpack(self.at, "i")[0], 4 + 2 * number
        (length,) = self.file.unpack(described, "H")
        (found,) = self.file.unpack(described + offset, "H") if offset < length else (0,)
        return self.at + found if found else None

    def _target(self, place: int) -> int:
        """What the offset at a position leads to."""
        return place + int(self.file.unpack(place, "I")[0])

    def _vector(self, number: int, code: str) -> tuple[int, tuple[Any, ...]]:
        """The position of the items of a field that is a vector, and the items; none if it is omitted."""
        place = self._place(number)
        if place is None:
            return 0, ()
        start = self._target(place) + 4
        (count,) = self.file.unpack(start - 4, "I")
        self.file.left -= count * struct.calcsize("<" + code)
        if self.file.left < 0:
            raise RequestError(
                f"its lists, the last of {count:,} at byte {start:,}, overlap or take more memory than the limit; "
                f"raise {field('max_memory')}"
            )
        return start, self.file.unpack(start, f"{count}{code}")

    def number(self, number: int, code: str = "i") -> int:
        """A field that is a number with this struct code; 0 if it is omitted."""
        place = self._place(number)
        return 0 if place is None else int(self.file.unpack(place, code)[0])

    def numbers(self, number: int, code: str = "i") -> tuple[Any, ...]:
        """A field that is a vector of numbers."""
        return self._vector(number, code)[1]

    def text(self, number: int) -> str:
        """A field that is a string."""
        return bytes(self.numbers(number, "B")).decode(errors="replace")

    def table(self, number: int) -> Table | None:
        """A field that is a table."""
        place = self._place(number)
        return None if place is None else Table(self.file, self._target(place))

    def tables(self, number: int) -> list[Table]:
        """A field that is a vector of tables."""
        start, offsets = self._vector(number, "I")
        return [Table(self.file, start + 4 * i + offset) for i, offset in enumerate(offsets)]
