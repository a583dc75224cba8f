"""An ONNX file without its weights: the protobuf messages as they lie there, large numbers left out.

Weights are 99 % of a model and say nothing of shapes. They are stepped over, so that memory and time follow from the
number of nodes. Field numbers are those of onnx.proto3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from secrets import token_hex
from typing import BinaryIO

from poolcli.models.byte_reader import ByteReader, TruncatedError

SMALL = 512  # bytes: what is not longer is copied as it is; the shapes and axes that nodes read are shorter
LONGEST = 1 << 16  # bytes of a text or a list that is kept
LONGEST_NUMBER = 10  # bytes
INLINE = 1 << 14  # bytes of a graph that stays in its node
DEEPEST = 90  # messages within messages; protobuf itself reads 100
VARINT, BITS_64, LENGTH, BITS_32 = 0, 1, 2, 5


@dataclass(frozen=True, eq=False)
class Message:
    """The fields of a message that hold messages, by number, those that hold the numbers of a tensor, and those that
    are laid `apart`, with the field of a graph that holds the like.
    """

    inner: dict[int, Message] = field(default_factory=dict)
    weights: frozenset[int] = frozenset()
    apart: dict[int, int] = field(default_factory=dict)


GRAPH_OF_MODEL, FUNCTIONS = 7, 25
NODES, INITIALIZERS, VALUES = 1, 5, 13  # fields of a graph
NODES_OF_FUNCTION, VALUES_OF_FUNCTION = 7, 12
NAME_OF_GRAPH = 2
TENSOR = Message(weights=frozenset({4, 5, 6, 7, 9, 10, 11}))
SPARSE = Message({1: TENSOR, 2: TENSOR})
DEFAULT = Message({5: TENSOR, 10: TENSOR, 22: SPARSE, 23: SPARSE})  # an attribute without graphs
ATTRIBUTE = Message(dict(DEFAULT.inner))
NODE = Message({5: ATTRIBUTE})
GRAPH = Message(
    {NODES: NODE, INITIALIZERS: TENSOR, 15: SPARSE, **{n: Message() for n in (11, 12, VALUES)}},
    apart={NODES: NODES, INITIALIZERS: INITIALIZERS, VALUES: VALUES},
)
FUNCTION = Message(
    {NODES_OF_FUNCTION: NODE, VALUES_OF_FUNCTION: Message(), 11: DEFAULT},
    apart={NODES_OF_FUNCTION: NODES, VALUES_OF_FUNCTION: VALUES},
)
MODEL = Message({GRAPH_OF_MODEL: GRAPH, FUNCTIONS: FUNCTION})
ATTRIBUTE.inner.update({6: GRAPH, 11: GRAPH})
MARK = token_hex(8)  # begins the names of graphs that are laid apart; no file knows it


@dataclass(slots=True)
class StrippedGraph:
    """A graph, or a function, as protobuf, its tensors of more than 512 bytes without their numbers: `head`, and what
    it has many of: each node, initializer and stated value by itself.

    `bodies` are the large graphs that a node holds, by its number; in the node, their heads are called `MARK` and their
    place here.
    """

    head: bytes = b""
    nodes: list[bytes] = field(default_factory=list)
    initializers: list[bytes] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    bodies: dict[int, list[StrippedGraph]] = field(default_factory=dict)

    def add(self, number: int, part: bytes, bodies: list[StrippedGraph]) -> None:
        """Adds one of what there are many of, as the field `number` of a graph."""
        {NODES: self.nodes, INITIALIZERS: self.initializers, VALUES: self.values}[number].append(part)
        if bodies:
            self.bodies[len(self.nodes) - 1] = bodies

    def taken(self) -> Iterator[bytes]:
        """The nodes, of which each is forgotten as it is told."""
        self.nodes.reverse()
        while self.nodes:
            yield self.nodes.pop()

    @property
    def joined(self) -> bytes | None:
        """The graph in one piece; None where it is large."""
        many = ((NODES, self.nodes), (INITIALIZERS, self.initializers), (VALUES, self.values))
        size = len(self.head) + sum(len(each) for _, pieces in many for each in pieces)
        if self.bodies or size > INLINE:
            return None
        return self.head + b"".join(_message(number, each) for number, pieces in many for each in pieces)


@dataclass(slots=True)
class StrippedModel:
    """A model: `head` is what it has besides the nodes, initializers and values of its graph, and its functions."""

    head: bytes = b""
    graph: StrippedGraph = field(default_factory=StrippedGraph)
    functions: list[StrippedGraph] = field(default_factory=list)


def stripped(stream: BinaryIO) -> StrippedModel:
    """The model without its weights; TornError where the file is torn or is something else."""
    data, model, out = ByteReader(stream), StrippedModel(), bytearray()
    for start, number, begin, at in _fields(data, 0, data.length):
        if begin < at and number == GRAPH_OF_MODEL:  # a message that comes twice is one of all its fields
            out += _message(number, _copy(data, begin, at, GRAPH, 1, model.graph, []))
        elif begin < at and number == FUNCTIONS:
            model.functions.append(_stripped(data, begin, at, FUNCTION, 1))
        elif at - start <= LONGEST:
            out += data.bytes(start, at)
    model.head = bytes(out)
    return model


def _stripped(data: ByteReader, begin: int, at: int, message: Message, depth: int) -> StrippedGraph:
    made = StrippedGraph()
    made.head = _copy(data, begin, at, message, depth, made, [])
    return made


def _message(number: int, content: bytes) -> bytes:
    return _to_varint(number << 3 | LENGTH) + _to_varint(len(content)) + content


def _number(data: ByteReader, at: int, stop: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    value = shift = 0
    for byte in data.bytes(at, min(at + LONGEST_NUMBER, stop)):
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise TruncatedError(f"a number at byte {at:,} does not end")


def _field(data: ByteReader, at: int, stop: int) -> tuple[int, int, int]:
    """The key of the field that lies at `at`, where its content begins, and where it ends."""
    key, begin = _number(data, at, stop)
    kind, end = key & 7, begin
    if kind == LENGTH:
        length, begin = _number(data, begin, stop)
        end = begin + length
    elif kind == VARINT:
        _, end = _number(data, begin, stop)
    elif kind in (BITS_64, BITS_32):
        end += 8 if kind == BITS_64 else 4
    else:
        raise TruncatedError(f"a field of kind {kind} at byte {at:,}")
    if end > stop:
        raise TruncatedError(f"a field at byte {at:,} goes past the end of what it is in")
    return key, begin, end


def _fields(data: ByteReader, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Each field: where it lies, its number, where its content begins (where it ends, if that is no message), where it
    ends.
    """
    while at < stop:
        start = at
        key, begin, at = _field(data, at, stop)
        yield start, key >> 3, begin if key & 7 == LENGTH else at, at


def _copy(
    data: ByteReader, at: int, stop: int, message: Message, depth: int, into: StrippedGraph, bodies: list[StrippedGraph]
) -> bytes:
    """The message that lies from `at` to `stop`, copied field by field; those that it lays apart go `into` the graph
    that it is in, and large graphs that it holds to the `bodies` of its node.
    """
    if depth > DEEPEST:
        raise TruncatedError(f"more than {DEEPEST} messages within each other")
    out = bytearray()
    for start, number, begin, end in _fields(data, at, stop):
        length = end - begin
        inner = message.inner.get(number) if length else None
        if inner and number in message.apart:
            own: list[StrippedGraph] = []
            part = data.bytes(begin, end) if length <= SMALL else _copy(data, begin, end, inner, depth + 1, into, own)
            into.add(message.apart[number], part, own)
        elif inner is GRAPH and length > SMALL:
            body = _stripped(data, begin, end, GRAPH, depth + 1)
            whole = body.joined
            if whole is None:
                whole = body.head + _message(NAME_OF_GRAPH, f"{MARK}{len(bodies)}".encode())
                bodies.append(body)
            out += _message(number, whole)
        elif inner and length > SMALL:
            out += _message(number, _copy(data, begin, end, inner, depth + 1, into, bodies))
        elif length <= SMALL or (length <= LONGEST and number not in message.weights):
            out += data.bytes(start, end)
    return bytes(out)


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
