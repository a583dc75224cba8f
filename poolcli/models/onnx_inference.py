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


def read_nodes(
    path: str, given: Given, wanted: Wanted, compute: Compute, limit: int | None
) -> Iterator[tuple[Node, Shape | None, bool]]:
    """Yield each wanted node of the model at `path`, the shape of its input, and whether the model's inputs are fixed.

    A RequestError if the model cannot be read or takes more memory than `limit`.
    """
    onnx, inference = need("onnx", "onnx.shape_inference", why=f"{path}: {NEEDS_ONNX}")
    model = load(path, limit)
    opsets = {"" if text(each.domain) == "ai.onnx" else text(each.domain): each.version for each in model.opset_import}
    one = _Pass(wanted, compute, opsets, bool(given), onnx.helper)
    one.insert_stand_ins(model.graph, "", ChainMap(), ChainMap())
    if given:
        set_input_shapes(path, model.graph, given)
    model.opset_import.add(domain=DOMAIN, version=1)
    inputs = [shape_of(value.type) or ("?",) for value in model.graph.input]
    is_fixed = all(isinstance(length, int) for shape in inputs for length in shape)

    def work() -> bytes:
        token = PASS.set(one)
        try:
            inference.infer_shapes(model, data_prop=True)
        finally:
            PASS.reset(token)
        return json.dumps(one.shapes).encode()

    _register()
    found = run_limited(path, "inferring its shapes", work, (*ONNX_ERRORS, inference.InferenceError), limit)
    for node, shape in zip(one.nodes, one.shapes if isinstance(found, str) else json.loads(found), strict=True):
        yield node, None if shape is None else tuple(shape), is_fixed


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
        shapes = shapes.new_child({each.name: shape for each in values if (shape := shape_of(each.type)) is not None})
        constants = constants.new_child({tensor.name: tensor for tensor in graph.initializer})
        kept, beside = set[str](), list[tuple[int, Any]]()
        for number, node in enumerate(graph.node):
            self._note_constant(node, constants)
            for name, body in bodies(node):
                self.insert_stand_ins(body, scope_of(scope, node, number, name), shapes, constants)
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
        node = Node(
            proto=type(proto).FromString(proto.SerializeToString()),
            name=scope + (text(proto.name) or text(result) or kind),
            opset=self.opsets.get(domain, 1),
            stated=shapes.get(first),
            declared=shapes.get(result),
            second=constants.get(second),
        )
        self.nodes.append(node)
        self.shapes.append(None if self.is_given else node.stated)
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
        shape = self.shapes[row] = merged(None if self.is_given else node.stated, shape_of(kind))
        if kind is None or not kind.HasField("tensor_type"):
            return
        output = merged(None if self.is_given else node.declared, None if shape is None else self.compute(node, shape))
        lengths = None if output is None else [None if length == "?" else length for length in output]
        for place in range(context.get_num_outputs()):  # the second one is the indices
            element = INT64 if place else kind.tensor_type.elem_type
            context.set_output_type(place, self.helper.make_tensor_type_proto(element, lengths))


PASS: ContextVar[_Pass] = ContextVar("PASS")  # of this thread, for the function that is registered with onnx


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
    schema.set_type_and_shape_inference_function(lambda context: PASS.get().infer(context))
    defs.register_schema(schema)
