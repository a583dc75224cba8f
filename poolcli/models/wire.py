"""An ONNX file without its weights: the protobuf messages as they lie there, large numbers left out.

Weights are 99 % of a model and say nothing of shapes. They are stepped over, so that memory and time follow from the
number of nodes. Field numbers are those of onnx.proto3.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poolcli.models.pieces import Pieces, TornError

SMALL = 512  # bytes: what is not longer is copied as it is; the shapes and axes that nodes read are shorter
LONGEST = 1 << 16  # bytes of a text or a list that is kept
LONGEST_NUMBER = 10  # bytes
DEEPEST = 90  # messages within messages; protobuf itself reads 100
VARINT, BITS_64, LENGTH, BITS_32 = 0, 1, 2, 5


@dataclass(frozen=True, eq=False)
class Message:
    """The fields of a message that hold messages, by number, and those that hold the numbers of a tensor."""

    inner: dict[int, Message] = field(default_factory=dict)
    weights: frozenset[int] = frozenset()


TENSOR = Message(weights=frozenset({4, 5, 6, 7, 9, 10, 11}))
SPARSE = Message({1: TENSOR, 2: TENSOR})
ATTRIBUTE = Message({5: TENSOR, 10: TENSOR, 22: SPARSE, 23: SPARSE})
NODE = Message({5: ATTRIBUTE})
GRAPH = Message({1: NODE, 5: TENSOR, 15: SPARSE, **{n: Message() for n in (11, 12, 13)}})
FUNCTION = Message({7: NODE, 11: ATTRIBUTE})
MODEL = Message({7: GRAPH, 25: FUNCTION})
ATTRIBUTE.inner.update({6: GRAPH, 11: GRAPH})


def without_weights(path: str) -> bytes:
    """The model at `path` as protobuf, its tensors of more than 512 bytes without their numbers.

    TornError where the file is torn or is something else.
    """
    with open(path, "rb") as stream:
        data = Pieces(stream)
        return _copy(data, 0, data.length, MODEL, 0)


def _number(data: Pieces, at: int, stop: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    value = shift = 0
    for byte in data.bytes(at, min(at + LONGEST_NUMBER, stop)):
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise TornError(f"a number at byte {at:,} does not end")


def _copy(data: Pieces, at: int, stop: int, message: Message, depth: int) -> bytes:
    """The message that lies from `at` to `stop`, copied field by field."""
    if depth > DEEPEST:
        raise TornError(f"more than {DEEPEST} messages within each other")
    out = bytearray()
    while at < stop:
        start = at
        key, at = _number(data, at, stop)
        kind, number = key & 7, key >> 3
        if kind == LENGTH:
            length, at = _number(data, at, stop)
            begin, at = at, at + length
            if at <= stop and length > SMALL:
                if number in message.inner:
                    part = _copy(data, begin, at, message.inner[number], depth + 1)
                    out += _to_varint(key) + _to_varint(len(part)) + part
                    continue
                if number in message.weights or length > LONGEST:
                    continue
        elif kind == VARINT:
            _, at = _number(data, at, stop)
        elif kind in (BITS_64, BITS_32):
            at += 8 if kind == BITS_64 else 4
        else:
            raise TornError(f"a field of kind {kind} at byte {start:,}")
        if at > stop:
            raise TornError(f"a field at byte {start:,} goes past the end of what it is in")
        out += data.bytes(start, at)
    return bytes(out)


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
