"""Loads an ONNX model without its weights, inlines its functions, and finds names, bodies and shapes in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.checks import check_memory, human_bytes
from poolcli.message_fields import field
from poolcli.models.layer import MAX_NAME, SAVED_MODEL, Dim, Given, Shape, named_lengths
from poolcli.system.lazy_imports import need
from poolcli.system.processes import limit_worker, run_in_subprocess

NEEDS_ONNX = "reading ONNX models needs onnx"
OTHER_PROTOBUF = {  # protobuf has no signature, so others than ONNX are recognised by the ends of their paths
    "saved_model.pb": SAVED_MODEL,
    ".pb": (
        "a frozen graph of TensorFlow; convert it: python -m tf2onnx.convert --graphdef FILE --inputs NAME:0 "
        "--outputs NAME:0 --output model.onnx"
    ),
}
GRAPH, GRAPHS = 5, 10  # types of attributes
ONNX_ERRORS = (RuntimeError, ValueError, MemoryError, IndexError, OverflowError, TypeError)  # that onnx raises
LOADED, EXPANSION = 2, 32  # memory per byte of a file, and of a serialised model that is walked
DEFAULT_MEMORY = 2**30  # bytes for inlined functions, without a limit
SMALL_TENSOR = 64  # elements: larger tensors are weights, on which no shape depends
DATA_FIELDS = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


def load(path: str, limit: int | None) -> Any:
    """The model without its weights, and with its functions inlined; a RequestError if it cannot be read."""
    onnx, protobuf = need("onnx", "google.protobuf.message", why=f"{path}: {NEEDS_ONNX}")
    other = next((kind for ending, kind in OTHER_PROTOBUF.items() if path.lower().endswith(ending)), None)
    try:
        check_memory(f"{path}: reading it takes", LOADED * os.path.getsize(path), limit)
        model = onnx.ModelProto.FromString(Path(path).read_bytes())
    except FileError as error:
        raise RequestError(error.message) from None
    except protobuf.DecodeError as error:
        why = " ".join(str(error).split()) or "torn"
        raise RequestError(f"{path}: {other or f'not an ONNX model: {why}'}") from None
    if not model.graph.node or not model.opset_import:
        raise RequestError(f"{path}: {other or 'not an ONNX model: it has no nodes or no opset'}")
    _remove_weights(model.graph)
    return _inlined(path, model, limit) if model.functions else model


def _remove_weights(graph: Any) -> None:
    constants = (attribute.t for node in graph.node for attribute in node.attribute if attribute.HasField("t"))
    for tensor in (*graph.initializer, *constants):
        for name in DATA_FIELDS if prod(tensor.dims) > SMALL_TENSOR else ():
            tensor.ClearField(name)
    for node in graph.node:
        for _, body in bodies(node):
            _remove_weights(body)


def _inlined(path: str, model: Any, limit: int | None) -> Any:
    """The model with its functions inlined; their nodes are named as in `Function/node__1`."""
    inliner, checker = need("onnx.inliner", "onnx.checker", why=f"{path}: {NEEDS_ONNX}")
    for function in model.functions:
        # onnx inlines only functions with the opsets of the model; an operator must be the same in both anyway.
        del function.opset_import[:]
        function.opset_import.extend(model.opset_import)
        for node in function.node:
            name = text(node.name) or (text(node.output[0]) if node.output else text(node.op_type))
            node.name = f"{text(function.name)[:MAX_NAME]}/{name}"

    def work() -> bytes:
        return inliner.inline_local_functions(model).SerializeToString()  # type: ignore[no-any-return]

    refused = (*ONNX_ERRORS, checker.ValidationError)
    found = run_limited(path, "inlining its functions", work, refused, limit or DEFAULT_MEMORY)
    if isinstance(found, str):
        why = " ".join(found.rpartition(": ")[2].split())
        raise RequestError(f"{path}: onnx cannot inline its functions: {why[:200]}")
    return type(model).FromString(found)


def run_limited(
    path: str, what: str, work: Callable[[], bytes], refused: tuple[type[Exception], ...], limit: int | None
) -> bytes | str:
    """What `work` returns, or the message of one of the errors `refused`; a RequestError beyond the memory `limit`.

    With a limit, onnx runs in another process: a few nodes that each double the number of axes, or functions that call
    others twice, can exhaust the memory.
    """

    def attempt() -> bytes | str:
        try:
            return work()
        except MemoryError:
            raise
        except refused as error:
            return str(error)

    if limit is None or sys.platform != "linux":
        return attempt()

    def look() -> bytes | str | None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # C++ reports failed allocations to stderr
        with suppress(MemoryError), limit_worker(limit):
            return attempt()
        return None

    found = None
    with suppress(FileError):  # the process ended without an answer
        found = run_in_subprocess(path, look)
    if found is None or len(found) > limit // EXPANSION:
        raise RequestError(
            f"{path}: {what} takes more memory than the limit, {human_bytes(limit)}; raise {field('max_memory')}"
        )
    return found


def set_input_shapes(path: str, graph: Any, given: Given) -> None:
    """Replace the shapes of inputs of the model by the given ones."""
    inputs, weights = {value.name: value for value in graph.input}, {tensor.name for tensor in graph.initializer}
    own = [name for name in inputs if name not in weights]  # old files list weights as inputs, too
    for name, lengths in named_lengths(path, given, own, inputs).items():
        shape = inputs[name].type.tensor_type.shape
        if shape.dim and len(shape.dim) != len(lengths):
            raise RequestError(f"{path}: input {name} has {len(shape.dim)} axes, but {len(lengths)} lengths are given")
        del shape.dim[:]
        for length in lengths:
            shape.dim.add().dim_value = length


def text(value: str | bytes) -> str:
    """A string of the file; onnx returns bytes if it is not UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """The body graphs of a node (If, Loop, Scan), each with its name."""
    for attribute in node.attribute:
        if attribute.type == GRAPH:
            yield text(attribute.name), attribute.g
        elif attribute.type == GRAPHS:
            yield from ((f"{text(attribute.name)}{i}", graph) for i, graph in enumerate(attribute.graphs))


def scope_of(around: str, node: Any, number: int, body: str) -> str:
    """The scope of a body, the prefix of its nodes' names. `number` is the node's index in its graph."""
    name = text(node.name) or f"{text(node.op_type)}_{number}"
    return f"{around}{name if len(name) <= MAX_NAME else f'{name[:MAX_NAME]}#{number}'}/{body}/"


def shape_of(kind: Any) -> Shape | None:
    """The shape of a value of this type, or None."""
    has_shape = kind is not None and kind.HasField("tensor_type") and kind.tensor_type.HasField("shape")
    return tuple(map(_dim, kind.tensor_type.shape.dim)) if has_shape else None


def _dim(proto: Any) -> Dim:
    """A length; one that is not positive is dynamic, and names that onnx generated (`unk__0`) do not count."""
    if proto.HasField("dim_value") and proto.dim_value > 0:
        return int(proto.dim_value)
    name = text(proto.dim_param)
    return "?" if not name or name.startswith("unk__") else name


def merged(stated: Shape | None, inferred: Shape | None) -> Shape | None:
    """The inferred shape; unknown lengths, or all if another rank is stated, are those that the file states."""
    if stated is None or inferred is None or len(stated) != len(inferred):
        return inferred if stated is None else stated
    return tuple(b if isinstance(b, int) else a for a, b in zip(stated, inferred, strict=True))


def key_of(node: Any) -> tuple[str, str]:
    """The domain and name of the operator of a node."""
    domain = text(node.domain)
    return "" if domain == "ai.onnx" else domain, text(node.op_type)
