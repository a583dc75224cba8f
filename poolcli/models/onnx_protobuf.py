"""Reads an ONNX file without its weights: the protobuf messages as they are stored, large numbers left out.

Weights are 99 % of a model and say nothing about shapes. They are skipped, so memory and time follow from the number
of nodes. Field numbers are those of onnx.proto3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import BinaryIO

from poolcli.models.byte_reader import ByteReader, TruncatedError

SMALL = 512  # bytes: shorter fields are copied unchanged; the shapes and axes that nodes read are shorter
LONGEST = 1 << 16  # bytes of a text or a list that is kept
LONGEST_NUMBER = 10  # bytes
DEEPEST = 90  # nested messages; protobuf itself reads 100
VARINT, BITS_64, LENGTH, BITS_32 = 0, 1, 2, 5


@dataclass(frozen=True, eq=False)
class Message:
    """The fields of a message that hold messages, by number, and those that hold the numbers of a tensor."""

    inner: dict[int, Message] = field(default_factory=dict)
    weights: frozenset[int] = frozenset()


TENSOR = Message(weights=frozenset({4, 5, 6, 7, 9, 10, 11}))
SPARSE = Message({1: TENSOR, 2: TENSOR})
DEFAULT = Message({5: TENSOR, 10: TENSOR, 22: SPARSE, 23: SPARSE})  # an attribute without graphs
ATTRIBUTE = Message(dict(DEFAULT.inner))
NODE = Message({5: ATTRIBUTE})
GRAPH = Message({1: NODE, 5: TENSOR, 15: SPARSE, **{number: Message() for number in (11, 12, 13)}})
FUNCTION = Message({7: NODE, 11: DEFAULT, 12: Message()})
MODEL = Message({7: GRAPH, 25: FUNCTION})
ATTRIBUTE.inner.update({6: GRAPH, 11: GRAPH})


def without_weights(stream: BinaryIO) -> bytes:
    """The model as protobuf, tensors of more than 512 bytes without their numbers.

    Raises
    ------
    TruncatedError
        The file ends early, or is no protobuf message.
    """
    data = ByteReader(stream)
    return _copy(data, 0, data.length, MODEL, 0)


def _copy(data: ByteReader, at: int, stop: int, message: Message, depth: int) -> bytes:
    """The message between `at` and `stop`, copied field by field."""
    if depth > DEEPEST:
        raise TruncatedError(f"more than {DEEPEST} nested messages")
    out = bytearray()
    while at < stop:
        start = at
        key, begin, at = _field(data, at, stop)
        number, length = key >> 3, at - begin
        inner = message.inner.get(number) if key & 7 == LENGTH else None
        if inner and length > SMALL:
            copied = _copy(data, begin, at, inner, depth + 1)
            out += _to_varint(key) + _to_varint(len(copied)) + copied
        elif length <= SMALL or (length <= LONGEST and number not in message.weights):
            out += data.bytes(start, at)
    return bytes(out)


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


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
