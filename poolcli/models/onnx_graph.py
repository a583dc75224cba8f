"""Loads an ONNX model without its weights, and finds the shapes in it by onnx with our own output shapes of poolings.

Below opset 22, onnx.shape_inference keeps a last window of a ceil pooling that starts past the input, which ONNX
Runtime drops, and it has no rule for Microsoft's quantised poolings. What follows a pooling must be inferred from the
true shape. So each pooling is replaced by a stand-in, an operator of our own domain whose inference function is
registered with onnx, and notes the shape of its input. One pass of onnx does the rest, including bodies and shapes that
nodes compute. Other nodes that are asked for get a stand-in beside them; `SAME_SHAPE` replaces some without a rule.
"""

from __future__ import annotations

import json
import os
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.checks import check_memory, human_bytes
from poolcli.message_fields import field
from poolcli.models.layer import MAX_NAME, Dim, Given, Layer, Shape, named_lengths, no_model
from poolcli.system.lazy_imports import need
from poolcli.system.processes import limit_worker, run_in_subprocess

NEEDS_ONNX = "reading ONNX models needs onnx"
GRAPH = 5  # type of attributes
INT64 = 7  # type of a tensor
ONNX_ERRORS = (RuntimeError, ValueError, IndexError, OverflowError, TypeError)  # that onnx raises
LOADED, EXPANSION = 2, 32  # memory per byte of a file, and of a serialised model that is walked
DEFAULT_MEMORY = 2**30  # bytes for inlined functions, without a limit
SMALL_TENSOR = 64  # elements: larger tensors are weights, on which no shape depends
DATA_FIELDS = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
DOMAIN, NAME = "poolcli.internal", "Pooling"
# Operators without a rule: one that gives the same shape, and which of the inputs it takes.
SAME_SHAPE = {
    ("", "MeanVarianceNormalization"): ("Identity", [0]),
    ("com.microsoft", "FusedConv"): ("Conv", [0, 1]),
    ("com.microsoft", "QLinearAdd"): ("Add", [0, 3]),
    ("com.microsoft", "QLinearMul"): ("Mul", [0, 3]),
    ("com.microsoft", "QLinearLeakyRelu"): ("Identity", [0]),
    ("com.microsoft", "QLinearSigmoid"): ("Identity", [0]),
}


@dataclass(frozen=True, slots=True)
class Node:
    """A node that may pool, the layer that the file states, and the second input if that is a constant."""

    proto: Any
    opset: int
    layer: Layer
    second: Any


# Whether the output shape of a node is computed here, or only its input is asked for; None for other nodes.
Wanted = Callable[[Any], bool | None]
Compute = Callable[[Node, Shape], Shape | None]  # the output shape of a node


def read_nodes(
    path: str, given: Given, wanted: Wanted, compute: Compute, limit: int | None
) -> Iterator[tuple[Node, Shape | None]]:
    """Yield each wanted node of the model at `path`, and the shape of its input.

    A RequestError if the model cannot be read or takes more memory than `limit`.
    """
    onnx, inference = need("onnx", "onnx.shape_inference", why=f"{path}: {NEEDS_ONNX}")
    model = _load(path, limit)
    opsets = {_domain(each): each.version for each in model.opset_import}
    one = _Pass(wanted, compute, opsets, bool(given), onnx.helper)
    one.insert_stand_ins(model.graph, "", ChainMap(), ChainMap())
    if given:
        _set_input_shapes(path, model.graph, given)
    model.opset_import.add(domain=DOMAIN, version=1)

    def infer() -> bytes:
        token = PASS.set(one)
        try:
            inference.infer_shapes(model, data_prop=True)
        finally:
            PASS.reset(token)
        return json.dumps(one.shapes).encode()

    _register()
    found = _run_limited(path, "inferring its shapes", infer, inference.InferenceError, limit)
    for node, shape in zip(one.nodes, one.shapes if isinstance(found, str) else json.loads(found), strict=True):
        yield node, None if shape is None else tuple(shape)


def _load(path: str, limit: int | None) -> Any:
    onnx, protobuf = need("onnx", "google.protobuf.message", why=f"{path}: {NEEDS_ONNX}")
    check_memory(f"{path}: reading it takes", LOADED * os.path.getsize(path), limit)
    try:
        model = onnx.ModelProto.FromString(Path(path).read_bytes())
    except protobuf.DecodeError:
        raise no_model(path, "a damaged or cut ONNX model (copy or export it again), or none") from None
    if not model.graph.node or not model.opset_import:
        raise no_model(path, "not an ONNX model: it has no nodes or no opset")
    _remove_weights(model.graph)
    return _inlined(path, model, limit) if model.functions else model


def _remove_weights(graph: Any) -> None:
    constants = (attribute.t for node in graph.node for attribute in node.attribute if attribute.HasField("t"))
    for tensor in (*graph.initializer, *constants):
        for name in DATA_FIELDS if prod(tensor.dims) > SMALL_TENSOR else ():
            tensor.ClearField(name)
    for node in graph.node:
        for _, body in _bodies(node):
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

    def inline() -> bytes:
        return inliner.inline_local_functions(model).SerializeToString()  # type: ignore[no-any-return]

    found = _run_limited(path, "inlining its functions", inline, checker.ValidationError, limit or DEFAULT_MEMORY)
    if isinstance(found, str):
        why = " ".join(found.rpartition(": ")[2].split())
        raise RequestError(f"{path}: onnx cannot inline its functions: {why[:200]}")
    return type(model).FromString(found)


def _run_limited(
    path: str, what: str, work: Callable[[], bytes], refused: type[Exception], limit: int | None
) -> bytes | str:
    """What `work` returns, or the message of an error of onnx; a RequestError beyond the memory `limit`.

    With a limit, onnx runs in another process: a few nodes that each double the number of axes, or functions that call
    others twice, can exhaust the memory.
    """

    def attempt() -> bytes | str:
        try:
            return work()
        except (*ONNX_ERRORS, refused) as error:
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


def _set_input_shapes(path: str, graph: Any, given: Given) -> None:
    inputs, weights = {value.name: value for value in graph.input}, {tensor.name for tensor in graph.initializer}
    own = [name for name in inputs if name not in weights]  # old files list weights as inputs, too
    declared = {name: [dim.dim_value for dim in each.type.tensor_type.shape.dim] for name, each in inputs.items()}
    for name, lengths in named_lengths(path, given, own, declared).items():
        shape = inputs[name].type.tensor_type.shape
        if shape.dim and len(shape.dim) != len(lengths):
            raise RequestError(f"{path}: input {name} has {len(shape.dim)} axes, but {len(lengths)} lengths are given")
        del shape.dim[:]
        for length in lengths:
            shape.dim.add().dim_value = length


def text(value: str | bytes) -> str:
    """A string of the file; onnx returns bytes if it is not UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def key_of(node: Any) -> tuple[str, str]:
    """The domain and name of the operator of a node."""
    return _domain(node), text(node.op_type)


def _domain(proto: Any) -> str:
    domain = text(proto.domain)
    return "" if domain == "ai.onnx" else domain


def _bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """The body graphs of a node (If, Loop, Scan), each with its name; no operator has a list of them."""
    return ((text(attribute.name), attribute.g) for attribute in node.attribute if attribute.type == GRAPH)


def _shape_of(kind: Any) -> Shape | None:
    has_shape = kind is not None and kind.HasField("tensor_type") and kind.tensor_type.HasField("shape")
    return tuple(map(_dim, kind.tensor_type.shape.dim)) if has_shape else None


def _dim(proto: Any) -> Dim:
    """A length; one that is not positive is dynamic, and names that onnx generated (`unk__0`) do not count."""
    if proto.HasField("dim_value") and proto.dim_value > 0:
        return int(proto.dim_value)
    name = text(proto.dim_param)
    return "?" if not name or name.startswith("unk__") else name


def _merged(stated: Shape | None, inferred: Shape | None) -> Shape | None:
    """The inferred shape; unknown lengths, or all if another rank is stated, are those that the file states."""
    if stated is None or inferred is None or len(stated) != len(inferred):
        return inferred if stated is None else stated
    return tuple(b if isinstance(b, int) else a for a, b in zip(stated, inferred, strict=True))


class _Pass:
    """One pass of onnx over a model: the `nodes` that are wanted, and the known `shapes` of their inputs."""

    def __init__(
        self, wanted: Wanted, compute: Compute, opsets: Mapping[str, int], is_given: bool, helper: Any
    ) -> None:
        self.wanted, self.compute, self.opsets, self.helper = wanted, compute, opsets, helper
        self.is_given = is_given  # lengths of inputs, to which stated shapes do not apply
        self.nodes: list[Node] = []
        self.shapes: list[Shape | None] = []

    def insert_stand_ins(
        self, graph: Any, scope: str, shapes: ChainMap[str, Shape], constants: ChainMap[str, Any]
    ) -> None:
        """`shapes` are those that the file states and `constants` small tensors, by name, both of what is around."""
        values = (*graph.input, *graph.value_info, *graph.output)
        shapes = shapes.new_child({each.name: shape for each in values if (shape := _shape_of(each.type)) is not None})
        constants = constants.new_child({tensor.name: tensor for tensor in graph.initializer})
        kept, beside = set[str](), list[tuple[int, Any]]()
        for number, node in enumerate(graph.node):
            self._note_constant(node, constants)
            name = text(node.name) or f"{text(node.op_type)}_{number}"
            for body_name, body in _bodies(node):
                inner = f"{scope}{name if len(name) <= MAX_NAME else f'{name[:MAX_NAME]}#{number}'}/{body_name}/"
                self.insert_stand_ins(body, inner, shapes, constants)
            kind, places = SAME_SHAPE.get(key_of(node), ("", []))
            if places and max(places) < len(node.input):
                made = self.helper.make_node(kind, [node.input[i] for i in places], node.output)
                made.attribute.extend(node.attribute)  # others than the operator's own are ignored
                node.CopyFrom(made)
            is_pooling = self.wanted(node)
            if not is_pooling and key_of(node)[0] and not self.is_given:  # onnx has no rules for other domains
                kept.update(node.output)
            if is_pooling is None:
                continue
            row = self._note(node, scope, shapes, constants)
            outputs = list(node.output) if is_pooling else [f"{DOMAIN}/{row}"]
            stand_in = self.helper.make_node(NAME, list(node.input)[:1], outputs, domain=DOMAIN, row=row)
            if is_pooling:
                node.CopyFrom(stand_in)
            else:
                beside.append((number, stand_in))
        for number, stand_in in reversed(beside):
            graph.node.insert(number, stand_in)
        # onnx would prefer stated shapes to those that it infers from ours; the node of a body infers its inputs.
        for value in (*graph.value_info, *graph.output, *(graph.input if scope else ())):
            if value.name not in kept and value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")

    def _note(self, proto: Any, scope: str, shapes: Mapping[str, Shape], constants: Mapping[str, Any]) -> int:
        """Note a node; returns its index."""
        first, second, *_ = [*list[str](proto.input), "", ""]
        result, *_ = [*list[str](proto.output), ""]
        domain, kind = key_of(proto)
        opset = self.opsets.get(domain, 1)
        layer = Layer(
            name=scope + (text(proto.name) or text(result) or kind),
            type=kind,
            version=domain or f"opset {opset}",
            framework="ONNX Runtime",
            stated_input=shapes.get(first),
            declared_shape=shapes.get(result),
        )
        node = Node(type(proto).FromString(proto.SerializeToString()), opset, layer, constants.get(second))
        self.nodes.append(node)
        self.shapes.append(None if self.is_given else layer.stated_input)
        return len(self.nodes) - 1

    def _note_constant(self, node: Any, constants: ChainMap[str, Any]) -> None:
        """Note the output of a Constant that is a tensor or a list of integers, or of an Identity of a constant."""
        tensor = None
        if node.op_type == "Identity" and len(node.input) == 1:
            tensor = constants.get(node.input[0])
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.name == "value":
                tensor = attribute.t
            elif attribute.name == "value_ints":
                tensor = self.helper.make_tensor("", INT64, [len(attribute.ints)], attribute.ints)
        if tensor is None or len(node.output) != 1:
            return
        constants[node.output[0]] = tensor
        if node.op_type == "Identity" and tensor.data_type == INT64:
            # onnx does not propagate a constant through Identity to the shape input of a Reshape.
            node.CopyFrom(self.helper.make_node("Constant", [], node.output, name=node.name, value=tensor))

    def infer(self, context: Any) -> None:
        """Note the shape of a stand-in's input, and infer those of its outputs."""
        row = context.get_attribute("row").i
        node, kind = self.nodes[row], context.get_input_type(0) if context.has_input(0) else None
        shape = self.shapes[row] = _merged(None if self.is_given else node.layer.stated_input, _shape_of(kind))
        if kind is None or not kind.HasField("tensor_type"):
            return
        declared = None if self.is_given else node.layer.declared_shape
        output = _merged(declared, None if shape is None else self.compute(node, shape))
        lengths = None if output is None else [None if length == "?" else length for length in output]
        for place in range(context.get_num_outputs()):  # the second one is the indices
            element = INT64 if place else kind.tensor_type.elem_type
            context.set_output_type(place, self.helper.make_tensor_type_proto(element, lengths))


PASS: ContextVar[_Pass] = ContextVar("PASS")  # of this thread, for the function that is registered with onnx


@lru_cache(1)
def _register() -> None:
    (defs,) = need("onnx.defs", why=NEEDS_ONNX)
    make_parameter, option = defs.OpSchema.FormalParameter, defs.OpSchema.FormalParameterOption.Variadic
    schema = defs.OpSchema(
        NAME,
        DOMAIN,
        1,
        inputs=[make_parameter("X", "T", param_option=option, is_homogeneous=False)],
        outputs=[make_parameter("Y", "T", param_option=option, is_homogeneous=False)],
        type_constraints=[("T", ["tensor(float)"], "")],  # ignored by shape inference
    )
    schema.set_type_and_shape_inference_function(lambda context: PASS.get().infer(context))
    defs.register_schema(schema)
