"""Shape inference of an ONNX graph by onnx, with our own output shapes of poolings.

Below opset 22, onnx.shape_inference keeps a last window of a ceil pooling that starts past the input, which ONNX
Runtime drops, and it has no rule for Microsoft's quantised poolings. What follows a pooling must be inferred from the
true shape. So each pooling is replaced by a stand-in, an operator of our own domain whose inference function is
registered with onnx, and notes the shape of its input. One pass of onnx does the rest, including bodies and shapes that
nodes compute. Other nodes that are asked for get a stand-in beside them.
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from poolcli.models.layer import Given, Shape
from poolcli.models.onnx_graph import (
    NEEDS_ONNX,
    ONNX_ERRORS,
    bodies,
    key_of,
    load,
    merged,
    run_limited,
    scope_of,
    set_input_shapes,
    shape_of,
    text,
)
from poolcli.system.lazy_imports import need

DOMAIN, NAME = "poolcli.internal", "Pooling"
INT64 = 7  # type of a tensor


@dataclass(frozen=True, slots=True)
class Node:
    """A node that may pool.

    `name` is with the path of the bodies around it. `stated` and `declared` are the shapes of input and output in the
    file, and `second` is the second input if that is a constant.
    """

    proto: Any
    name: str
    opset: int
    stated: Shape | None
    declared: Shape | None
    second: Any


# Whether the output shape of a node is computed here, or only its input is asked for; None for other nodes.
Wanted = Callable[[Any], bool | None]
Compute = Callable[[Node, Shape], Shape | None]  # the output shape of a node


@dataclass(frozen=True, slots=True)
class _Run:
    """One pass of onnx: the nodes, the known shapes of their inputs, and how outputs are computed."""

    nodes: list[Node]
    shapes: list[Shape | None]
    compute: Compute
    is_given: bool  # lengths of inputs, to which stated shapes do not apply


RUN: ContextVar[_Run] = ContextVar("RUN")  # of this thread, for the function that is registered with onnx


def read_nodes(
    path: str, given: Given, wanted: Wanted, compute: Compute, limit: int | None
) -> Iterator[tuple[Node, Shape | None, bool]]:
    """Yield each wanted node of the model at `path`, the shape of its input, and whether the model's inputs are fixed.

    A RequestError if the model cannot be read or takes more memory than `limit`.
    """
    onnx, inference = need("onnx", "onnx.shape_inference", why=f"{path}: {NEEDS_ONNX}")
    model = load(path, limit)
    opsets = {"" if text(each.domain) == "ai.onnx" else text(each.domain): each.version for each in model.opset_import}
    walk = _Walk(wanted, opsets, bool(given), onnx)
    walk.insert_stand_ins(model.graph, "", ChainMap(), ChainMap())
    if given:
        set_input_shapes(path, model.graph, given)
    model.opset_import.add(domain=DOMAIN, version=1)
    is_fixed = all(_is_known(shape_of(value.type)) for value in model.graph.input)
    shapes: list[Shape | None] = [None if given else node.stated for node in walk.nodes]

    def work() -> bytes:
        token = RUN.set(_Run(walk.nodes, shapes, compute, bool(given)))
        try:
            inference.infer_shapes(model, data_prop=True)
        finally:
            RUN.reset(token)
        return json.dumps(shapes).encode()

    _register()
    found = run_limited(path, "inferring its shapes", work, (*ONNX_ERRORS, inference.InferenceError), limit)
    for node, shape in zip(walk.nodes, shapes if isinstance(found, str) else json.loads(found), strict=True):
        yield node, None if shape is None else tuple(shape), is_fixed


def _is_known(shape: Shape | None) -> bool:
    return shape is not None and all(isinstance(length, int) for length in shape)


class _Walk:
    """Replaces poolings in a graph and its bodies by stand-ins, and collects the `nodes` that are wanted."""

    def __init__(self, wanted: Wanted, opsets: Mapping[str, int], is_given: bool, onnx: Any) -> None:
        self.wanted, self.opsets, self.is_given, self.onnx = wanted, opsets, is_given, onnx
        self.nodes: list[Node] = []

    def insert_stand_ins(
        self, graph: Any, scope: str, shapes: ChainMap[str, Shape], constants: ChainMap[str, Any]
    ) -> None:
        """`shapes` are those that the file states and `constants` small tensors, by name, both of what is around."""
        values = (*graph.input, *graph.value_info, *graph.output)
        shapes = shapes.new_child({each.name: shape for each in values if (shape := shape_of(each.type)) is not None})
        constants = constants.new_child({tensor.name: tensor for tensor in graph.initializer})
        inferred, probes = set[str](), list[tuple[int, Any]]()
        for number, node in enumerate(graph.node):
            self._note_constant(node, constants)
            for name, body in bodies(node):
                self.insert_stand_ins(body, scope_of(scope, node, number, name), shapes, constants)
            is_pooling = self.wanted(node)
            if is_pooling is not None:
                copy = type(node).FromString(node.SerializeToString())
                self.nodes.append(self._noted(copy, scope, shapes, constants))
            if is_pooling:
                node.CopyFrom(self._stand_in(node, list(node.output)))
            elif is_pooling is not None:
                probes.append((number, self._stand_in(node, [f"{DOMAIN}/{len(self.nodes)}"])))
            if is_pooling or _has_rule(*key_of(node), self.opsets.get(key_of(node)[0], 1)):
                inferred.update(node.output)
        for number, probe in reversed(probes):
            graph.node.insert(number, probe)
        # onnx would prefer stated shapes to those that it infers from ours.
        parameters = {value.name for value in graph.input} if scope else set()  # of a body, which its node passes
        for value in (*graph.value_info, *graph.output, *(graph.input if scope else ())):
            is_inferred = self.is_given or value.name in inferred or value.name in parameters
            if is_inferred and value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")

    def _noted(self, node: Any, scope: str, shapes: Mapping[str, Shape], constants: Mapping[str, Any]) -> Node:
        first, second, *_ = [*list[str](node.input), "", ""]
        result, *_ = [*list[str](node.output), ""]
        domain, kind = key_of(node)
        return Node(
            proto=node,
            name=scope + (text(node.name) or text(result) or kind),
            opset=self.opsets.get(domain, 1),
            stated=shapes.get(first),
            declared=shapes.get(result),
            second=constants.get(second),
        )

    def _stand_in(self, node: Any, outputs: list[str]) -> Any:
        """A node of our own with the first input of the last noted one."""
        row = len(self.nodes) - 1
        return self.onnx.helper.make_node(NAME, list(node.input)[:1], outputs, domain=DOMAIN, row=row)

    def _note_constant(self, node: Any, constants: ChainMap[str, Any]) -> None:
        """Note the output of a Constant that is a tensor or a list of integers, or of an Identity of a constant."""
        tensor = None
        if node.op_type == "Identity" and len(node.input) == 1:
            tensor = constants.get(node.input[0])
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.name == "value":
                tensor = attribute.t
            elif attribute.name == "value_ints":
                tensor = self.onnx.helper.make_tensor("", INT64, [len(attribute.ints)], attribute.ints)
        if tensor is None or len(node.output) != 1:
            return
        constants[node.output[0]] = tensor
        if node.op_type == "Identity" and tensor.data_type == INT64:
            # onnx does not propagate a constant through Identity to the shape input of a Reshape.
            node.CopyFrom(self.onnx.helper.make_node("Constant", [], node.output, name=node.name, value=tensor))


@lru_cache(1024)
def _has_rule(domain: str, kind: str, opset: int) -> bool:
    """Whether onnx can infer the output shapes of an operator."""
    (defs,) = need("onnx.defs", why=NEEDS_ONNX)
    try:
        schema = defs.get_schema(kind, opset, domain)
    except (defs.SchemaError, TypeError):  # TypeError: opset exceeds 32 bits
        return False
    return bool(schema.has_type_and_shape_inference_function or schema.has_function)


def _infer_stand_in(context: Any) -> None:
    """Note the shape of the input, and infer those of the outputs."""
    (helper,) = need("onnx.helper", why=NEEDS_ONNX)
    run, row = RUN.get(), context.get_attribute("row").i
    node, kind = run.nodes[row], context.get_input_type(0) if context.has_input(0) else None
    shape = run.shapes[row] = merged(None if run.is_given else node.stated, shape_of(kind))
    if kind is None or not kind.HasField("tensor_type"):
        return
    output = merged(None if run.is_given else node.declared, None if shape is None else run.compute(node, shape))
    lengths = None if output is None else [None if length == "?" else length for length in output]
    for place in range(context.get_num_outputs()):  # the second one is the indices
        element = INT64 if place else kind.tensor_type.elem_type
        context.set_output_type(place, helper.make_tensor_type_proto(element, lengths))


@lru_cache(1)
def _register() -> None:
    """Register the operator of stand-ins with onnx, once."""
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
    schema.set_type_and_shape_inference_function(_infer_stand_in)
    defs.register_schema(schema)
