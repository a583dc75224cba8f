"""Loads an ONNX model, and yields its nodes with the shapes known at each: of the main graph, of bodies, and of inlined
functions.
"""

from __future__ import annotations

import os
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.checks import check_memory, human_bytes
from poolcli.message_fields import field as words_of
from poolcli.models.layer import MAX_NAME, Dim, NotOnnxError, Shape
from poolcli.system.lazy_imports import need
from poolcli.system.limits import data_limit
from poolcli.system.subprocesses import run_in_subprocess

NEEDS_ONNX = "reading ONNX models needs onnx"
GRAPH, GRAPHS = 5, 10  # types of attributes
INT64 = 7  # type of a tensor
ONNX_ERRORS = (RuntimeError, ValueError, MemoryError, IndexError, OverflowError, TypeError)  # that onnx raises
LOADED, EXPANSION = 2, 32  # memory per byte of a file, and of a serialised model that is walked
DEFAULT_MEMORY = 2**30  # bytes for inlined functions, without a limit
SMALL_TENSOR = 64  # elements: larger tensors are weights, on which no shape depends
DATA_FIELDS = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
Shapes = Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class Node:
    """A node and what is known there.

    `scope` is the path of the bodies around it, `opsets` are by domain. By names of values: `declared` are the shapes
    that the file states, `known` those and inferred ones, `constants` small tensors, and `stopped` the nodes at which
    shape inference stopped.
    """

    proto: Any
    scope: str = ""
    opsets: Mapping[str, int] = field(default_factory=dict)
    declared: MutableMapping[str, Shape] = field(default_factory=dict)
    known: MutableMapping[str, Shape] = field(default_factory=dict)
    constants: MutableMapping[str, Any] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)


def load(
    path: str, given: Mapping[str, tuple[int, ...]], infer: Callable[[Any], Any], limit: int | None
) -> Iterator[Node]:
    """Yield the nodes of the model at `path` with the input shapes `given`; a RequestError if it cannot be read.

    `infer` returns the graph of a model with inferred shapes; `limit` is the memory in bytes.
    """
    model = _inlined(path, _without_weights(_read(path, limit)), limit)
    stated = {
        scope: shapes((*graph.input, *graph.value_info, *graph.output)) for scope, graph in _graphs(model.graph, "")
    }
    if given:
        _set_input_shapes(path, model.graph, given)
        for scope, graph in _graphs(model.graph, ""):
            _clear_shapes(graph, keep_inputs=not scope)
    return _nodes(infer(model), Node(None, opsets=opsets_of(model.opset_import)), stated, bool(given))


def _read(path: str, limit: int | None) -> Any:
    onnx, protobuf = need("onnx", "google.protobuf.message", why=f"{path}: {NEEDS_ONNX}")
    try:
        check_memory(f"{path}: reading it takes", LOADED * os.path.getsize(path), limit)
        model = onnx.ModelProto.FromString(Path(path).read_bytes())
    except FileError as error:
        raise RequestError(error.message) from None
    except protobuf.DecodeError as error:
        raise NotOnnxError(f"{path}: not an ONNX model: {' '.join(str(error).split()) or 'torn'}") from None
    if not model.graph.node or not model.opset_import:
        raise NotOnnxError(f"{path}: not an ONNX model: it has no nodes or no opset")
    return model


def _without_weights(model: Any) -> Any:
    for _, graph in _graphs(model.graph, ""):
        constants = (attribute.t for node in graph.node for attribute in node.attribute if attribute.HasField("t"))
        for tensor in (*graph.initializer, *constants):
            if prod(tensor.dims) > SMALL_TENSOR:
                for name in DATA_FIELDS:
                    tensor.ClearField(name)
    return model


def run_limited(
    path: str, what: str, work: Callable[[], bytes], refused: tuple[type[Exception], ...], limit: int | None
) -> bytes | str:
    """The model that `work` serialises, or the message of one of the errors `refused`; a RequestError beyond `limit`.

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
        with suppress(MemoryError), data_limit(limit):
            return attempt()
        return None

    found = None
    with suppress(FileError):  # the process ended without an answer
        found = run_in_subprocess(path, look)
    if found is None or len(found) > limit // EXPANSION:
        raise RequestError(
            f"{path}: {what} takes more memory than the limit, {human_bytes(limit)}; raise {words_of('max_memory')}"
        )
    return found


def _inlined(path: str, model: Any, limit: int | None) -> Any:
    """The model with its functions inlined; their nodes are named as in `Function/node__1`."""
    if not model.functions:
        return model
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


def _set_input_shapes(path: str, graph: Any, given: Mapping[str, tuple[int, ...]]) -> None:
    inputs = {value.name: value for value in graph.input}
    for name, lengths in given.items():
        if name not in inputs:
            raise RequestError(f"{path}: no input is called {name}; there are: {', '.join(map(text, inputs))[:200]}")
        shape = inputs[name].type.tensor_type.shape
        if shape.dim and len(shape.dim) != len(lengths):
            raise RequestError(f"{path}: input {name} has {len(shape.dim)} axes, but {len(lengths)} lengths are given")
        del shape.dim[:]
        for length in lengths:
            shape.dim.add().dim_value = length


def _clear_shapes(graph: Any, keep_inputs: bool) -> None:
    """Remove the shapes that a graph states, which are wrong for other inputs."""
    del graph.value_info[:]
    for value in (*graph.output, *(() if keep_inputs else graph.input)):
        value.type.tensor_type.ClearField("shape")


def text(value: str | bytes) -> str:
    """A string of the file; onnx returns bytes if it is not UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """The body graphs of a node (If, Loop, Scan), each with its name."""
    for attribute in node.attribute:
        kind = attribute.type
        if kind == GRAPH:
            yield text(attribute.name), attribute.g
        elif kind == GRAPHS:
            yield from ((f"{text(attribute.name)}{i}", graph) for i, graph in enumerate(attribute.graphs))


def _graphs(graph: Any, scope: str) -> Iterator[tuple[str, Any]]:
    """The graph and all bodies in it, each with its scope."""
    yield scope, graph
    for number, node in enumerate(graph.node):
        for name, body in bodies(node):
            yield from _graphs(body, _scope(scope, node, number, name))


def _scope(around: str, node: Any, number: int, body: str) -> str:
    """The scope of a body, the prefix of its nodes' names. `number` is the node's index in its graph."""
    name = text(node.name) or f"{text(node.op_type)}_{number}"
    return f"{around}{name if len(name) <= MAX_NAME else f'{name[:MAX_NAME]}#{number}'}/{body}/"


def shapes(values: Any) -> dict[str, Shape]:
    """The shapes of the values that have one."""
    found: dict[str, Shape] = {}
    for value in values:
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            found.setdefault(value.name, tuple(map(dim, kind.shape.dim)))
    return found


def merged(stated: Shapes, inferred: Shapes) -> dict[str, Shape]:
    """The inferred shapes; unknown lengths are those that the file states."""
    found = dict(inferred)
    for name, shape in stated.items():
        other = inferred.get(name, ())
        found[name] = tuple(
            b if isinstance(b, int) else a
            for a, b in zip(shape, other, strict=True)
        ) if len(other) == len(shape) else shape  # fmt: skip
    return found


def dim(proto: Any) -> Dim:
    """A length; one that is not positive is dynamic, and names that onnx generated (`unk__0`) do not count."""
    if proto.HasField("dim_value") and proto.dim_value > 0:
        return int(proto.dim_value)
    name = text(proto.dim_param)
    return "?" if not name or name.startswith("unk__") else name


def opsets_of(imports: Any) -> dict[str, int]:
    """The opset versions by domain."""
    return {"" if text(o.domain) == "ai.onnx" else text(o.domain): o.version for o in imports}


def key_of(node: Any) -> tuple[str, str]:
    """The domain and name of the operator of a node."""
    domain = text(node.domain)
    return "" if domain == "ai.onnx" else domain, text(node.op_type)


def _nodes(graph: Any, around: Node, stated: Mapping[str, Shapes], moved: bool) -> Iterator[Node]:
    """All nodes of a graph, each before those of its bodies, in which the values `around` the graph are visible."""
    own, inferred = stated.get(around.scope, {}), shapes((*graph.input, *graph.value_info, *graph.output))
    here = replace(
        around,
        declared=ChainMap(dict(own), around.declared),
        known=ChainMap(inferred if moved else merged(own, inferred), around.known),
        constants=ChainMap({tensor.name: tensor for tensor in graph.initializer}, around.constants),
    )
    for number, proto in enumerate(graph.node):
        _note_constant(proto, here.constants)
        node = replace(here, proto=proto)
        yield node
        _note_stop(node)
        for name, body in bodies(proto):
            yield from _nodes(body, replace(here, scope=_scope(here.scope, proto, number, name)), stated, moved)


def _note_stop(node: Node) -> None:
    """Remember the node for outputs of unknown shape, if all its inputs are known; else the earlier node."""
    proto = node.proto
    unknown = [name for name in proto.output if name and not _is_known(node.known.get(name))]
    if not unknown:
        return
    before = [name for name in proto.input if name and name not in node.constants]
    found = next((node.stopped[name] for name in before if name in node.stopped), None)
    if found is None and all(_is_known(node.known.get(name)) for name in before):
        name = text(proto.name) or (text(proto.output[0]) if proto.output else "")
        found = f"{node.scope}{name} ({text(proto.op_type)})"
    if found is not None:
        node.stopped.update(dict.fromkeys(unknown, found))


def _note_constant(node: Any, constants: MutableMapping[str, Any]) -> None:
    """Remember the output of a Constant, or of an Identity of a constant."""
    if len(node.output) != 1:
        return
    tensor = None
    if node.op_type == "Constant":
        tensor = _constant(node)
    elif node.op_type == "Identity" and len(node.input) == 1:
        tensor = constants.get(node.input[0])
    if tensor is not None:
        constants[node.output[0]] = tensor


def _is_known(shape: Shape | None) -> bool:
    return shape is not None and all(isinstance(length, int) for length in shape)


def _constant(node: Any) -> Any:
    """The value of a Constant if it is a tensor or a list of integers, else None."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return attribute.t
        if attribute.name == "value_ints":
            return type(attribute.t)(data_type=INT64, dims=[len(attribute.ints)], int64_data=attribute.ints)
    return None
