"""Reads an ONNX file without its weights, which are 99 % of a model and say nothing about shapes.

`onnx.load` takes twice the file in memory: 2 GB and 5 s for a model of 1 GB, where this takes 40 MB and 0.5 s.
"""

from __future__ import annotations

from os import SEEK_END
from typing import BinaryIO

from poolcli.models.layer import TruncatedError, read_exactly

SMALL = 512  # bytes: shorter fields are copied unchanged; the shapes and axes that nodes read are shorter
LONGEST = 1 << 16  # bytes of a text or a list that is kept
LONGEST_NUMBER = 10  # bytes
DEEPEST = 90  # nested messages; protobuf itself reads 100
VARINT, LENGTH = 0, 2  # kinds of fields
FIXED = {1: 8, 5: 4}  # bytes of other kinds
TENSOR = "tensor"
WEIGHTS = {4, 5, 6, 7, 9, 10, 11}  # fields of a tensor
# The fields that lead to tensors: by message, what the message in a field is. Numbers are those of onnx.proto3.
INNER = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: TENSOR, 15: "sparse tensor"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: TENSOR, 6: "graph", 10: TENSOR, 11: "graph", 22: "sparse tensor", 23: "sparse tensor"},
    "sparse tensor": {1: TENSOR, 2: TENSOR},
}


def without_weights(stream: BinaryIO) -> bytes:
    """The model as protobuf, tensors of more than 512 bytes without their numbers.

    Raises
    ------
    TruncatedError
        The file ends early, or is no protobuf message.
    """
    return _copy(stream, 0, stream.seek(0, SEEK_END), "model", 0)


def _copy(stream: BinaryIO, at: int, stop: int, message: str, depth: int) -> bytes:
    """The message between `at` and `stop`, copied field by field."""
    if depth > DEEPEST:
        raise TruncatedError(f"more than {DEEPEST} nested messages")
    out = bytearray()
    while at < stop:
        key, begin, end = _field(stream, at, stop)
        inner = INNER.get(message, {}).get(key >> 3) if key & 7 == LENGTH else None
        if inner and end - begin > SMALL:
            copied = _copy(stream, begin, end, inner, depth + 1)
            out += _to_varint(key) + _to_varint(len(copied)) + copied
        elif end - begin <= SMALL or (end - begin <= LONGEST and not (message == TENSOR and key >> 3 in WEIGHTS)):
            out += read_exactly(stream, at, end - at)
        at = end
    return bytes(out)


def _field(stream: BinaryIO, at: int, stop: int) -> tuple[int, int, int]:
    """The key of the field that lies at `at`, where its content begins, and where it ends."""
    key, begin = _number(stream, at, stop)
    kind = key & 7
    if kind == LENGTH:
        length, begin = _number(stream, begin, stop)
        end = begin + length
    elif kind == VARINT:
        _, end = _number(stream, begin, stop)
    elif kind in FIXED:
        end = begin + FIXED[kind]
    else:
        raise TruncatedError(f"a field of kind {kind} at byte {at:,}")
    if end > stop:
        raise TruncatedError(f"a field at byte {at:,} goes past the end of what it is in")
    return key, begin, end


def _number(stream: BinaryIO, at: int, stop: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    value = shift = 0
    for byte in read_exactly(stream, at, min(LONGEST_NUMBER, stop - at)):
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise TruncatedError(f"a number at byte {at:,} does not end")


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
