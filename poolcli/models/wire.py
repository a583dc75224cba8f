"""An ONNX file without its weights: the protobuf messages as they lie there, large numbers left out.

Weights are 99 % of a model and say nothing of shapes. They are stepped over, so that memory and time follow from the
number of nodes. Field numbers are those of onnx.proto3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import BinaryIO

from poolcli.core.frozen import frozen
from poolcli.models.pieces import Pieces, TornError

SMALL = 512  # bytes: what is not longer is copied as it is; the shapes and axes that nodes read are shorter
LONGEST = 1 << 16  # bytes of a text or a list that is kept
LONGEST_NUMBER = 10  # bytes
DEEPEST = 90  # messages within messages; protobuf itself reads 100
VARINT, BITS_64, LENGTH, BITS_32 = 0, 1, 2, 5


@dataclass(frozen=True, eq=False)
class Message:
    """The fields of a message that hold messages, by number, those that hold the numbers of a tensor, and those that
    are laid `apart`.
    """

    inner: dict[int, Message] = field(default_factory=dict)
    weights: frozenset[int] = frozenset()
    apart: frozenset[int] = frozenset()


GRAPH_OF_MODEL = 7
NODES, INITIALIZERS, VALUES = 1, 5, 13  # fields of a graph
TENSOR = Message(weights=frozenset({4, 5, 6, 7, 9, 10, 11}))
SPARSE = Message({1: TENSOR, 2: TENSOR})
ATTRIBUTE = Message({5: TENSOR, 10: TENSOR, 22: SPARSE, 23: SPARSE})
NODE = Message({5: ATTRIBUTE})
IN_GRAPHS = {NODES: NODE, INITIALIZERS: TENSOR, 15: SPARSE, **{n: Message() for n in (11, 12, VALUES)}}
GRAPH = Message(IN_GRAPHS)
FUNCTION = Message({7: NODE, 11: ATTRIBUTE})
OUTERMOST = Message(IN_GRAPHS, apart=frozenset({NODES, INITIALIZERS, VALUES}))
MODEL = Message({GRAPH_OF_MODEL: OUTERMOST, 25: FUNCTION})
ATTRIBUTE.inner.update({6: GRAPH, 11: GRAPH})


@frozen
class Lean:
    """A model as protobuf, its tensors of more than 512 bytes without their numbers: `head`, and what its graph has
    many of: each node, initializer and stated value by itself.
    """

    head: bytes
    nodes: list[bytes]
    initializers: list[bytes]
    values: list[bytes]


def lean_of(stream: BinaryIO) -> Lean:
    """The model without its weights; TornError where the file is torn or is something else."""
    apart: dict[int, list[bytes]] = {NODES: [], INITIALIZERS: [], VALUES: []}
    data = Pieces(stream)
    head = _copy(data, 0, data.length, MODEL, 0, apart)
    return Lean(head, apart[NODES], apart[INITIALIZERS], apart[VALUES])


def joined(lean: Lean) -> bytes:
    """The model in one piece; of a message that comes twice, protobuf takes the fields together."""
    many = ((NODES, lean.nodes), (INITIALIZERS, lean.initializers), (VALUES, lean.values))
    graph = b"".join(_message(number, each) for number, pieces in many for each in pieces)
    return lean.head + _message(GRAPH_OF_MODEL, graph)


def _message(number: int, content: bytes) -> bytes:
    return _to_varint(number << 3 | LENGTH) + _to_varint(len(content)) + content


def _number(data: Pieces, at: int, stop: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    value = shift = 0
    for byte in data.bytes(at, min(at + LONGEST_NUMBER, stop)):
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise TornError(f"a number at byte {at:,} does not end")


def _field(data: Pieces, at: int, stop: int) -> tuple[int, int, int]:
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
        raise TornError(f"a field of kind {kind} at byte {at:,}")
    if end > stop:
        raise TornError(f"a field at byte {at:,} goes past the end of what it is in")
    return key, begin, end


def _copy(data: Pieces, at: int, stop: int, message: Message, depth: int, apart: dict[int, list[bytes]]) -> bytes:
    """The message that lies from `at` to `stop`, copied field by field; those that it lays apart go to their lists."""
    if depth > DEEPEST:
        raise TornError(f"more than {DEEPEST} messages within each other")
    out = bytearray()
    while at < stop:
        start = at
        key, begin, at = _field(data, at, stop)
        number, is_message = key >> 3, key & 7 == LENGTH
        length = at - begin if is_message else 0
        inner = message.inner.get(number) if is_message else None
        if inner and number in message.apart:
            part = data.bytes(begin, at) if length <= SMALL else _copy(data, begin, at, inner, depth + 1, apart)
            apart[number].append(part)
        elif inner and (length > SMALL or inner.apart):
            part = _copy(data, begin, at, inner, depth + 1, apart)
            out += _message(number, part)
        elif length <= SMALL or (length <= LONGEST and number not in message.weights):
            out += data.bytes(start, at)
    return bytes(out)


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
