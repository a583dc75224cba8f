"""An ONNX graph in parts, with the shapes that follow from its nodes: memory follows from a part, not from them all."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any

from poolcli.core.frozen import frozen
from poolcli.models.onnx_values import Shapes, bodies, constant, inside, shapes, with_bodies
from poolcli.models.wire import Lean

AT_ONCE = 1000  # nodes of a part
BEFORE = 300  # of the part before, from which lengths may be computed, as a Reshape takes them
REFUSED_BY_ONNX = (RuntimeError, ValueError, MemoryError, IndexError, OverflowError, TypeError)


@frozen
class Part:
    """Nodes of the graph from number `first` on, of which the part before had the first `repeated` too. `stated` are
    the shapes that the file states, by scope.
    """

    graph: Any
    stated: Mapping[str, Shapes]
    first: int
    repeated: int


def stated_values(onnx: Any, head: Any, lean: Lean) -> dict[str, bytes]:
    """What the file states of the values of its graph, by name."""
    found = {}
    for one in lean.values:
        found[onnx.ValueInfoProto.FromString(one).name] = one
    for value in (*head.graph.input, *head.graph.output):
        if value.type.tensor_type.HasField("shape"):
            found[value.name] = value.SerializeToString()
    return found


def parts(onnx: Any, head: Any, lean: Lean, stated: dict[str, bytes], moved: bool) -> Iterator[Part]:
    """The graph part by part; where it is `moved`, what is stated of values between its nodes holds no longer."""
    types = {value.name: value.SerializeToString() for value in head.graph.input}
    constants = {onnx.TensorProto.FromString(one).name: one for one in lean.initializers}
    for start in range(0, len(lean.nodes), AT_ONCE):
        first = max(0, start - BEFORE)
        model = onnx.ModelProto(ir_version=head.ir_version, opset_import=head.opset_import)
        for one in lean.nodes[first : start + AT_ONCE]:
            model.graph.node.add().MergeFromString(one)
        made = {name: None for node in model.graph.node for name in node.output}
        used = dict.fromkeys(name for node in with_bodies(model.graph.node) for name in node.input if name not in made)
        for names, known, there in (
            (used, types, model.graph.input), (used, constants, model.graph.initializer),
            (made, types if moved else ChainMap(types, stated), model.graph.value_info),
        ):  # fmt: skip
            for name in names:
                if name in known:
                    there.add().MergeFromString(known[name])
        here = [onnx.ValueInfoProto.FromString(stated[name]) for name in (*used, *made) if name in stated]
        tables = {"": shapes(here)} | _bodies_stated(model.graph, "", first)
        graph = _inferred(onnx, model).graph
        for value in graph.value_info:
            types.setdefault(value.name, value.SerializeToString())
        constants |= _constants(onnx, model.graph)
        yield Part(graph, tables, first, start - first)


def _constants(onnx: Any, graph: Any) -> dict[str, bytes]:
    """What Constant nodes make, as initializers that other parts may use."""
    found = {}
    for node in graph.node:
        tensor = constant(node, onnx.TensorProto) if node.op_type == "Constant" and node.output else None
        if tensor is not None:
            tensor.name = node.output[0]
            found[node.output[0]] = tensor.SerializeToString()
    return found


def _bodies_stated(graph: Any, scope: str, first: int = 0) -> dict[str, Shapes]:
    """The shapes that bodies state, by scope."""
    found: dict[str, Shapes] = {}
    for i, node in enumerate(graph.node, first):
        for name, body in bodies(node):
            within = inside(scope, node, i, name)
            found[within] = shapes((*body.input, *body.value_info, *body.output))
            found |= _bodies_stated(body, within)
    return found


def _inferred(onnx: Any, model: Any) -> Any:
    """The model with the shapes that follow from its nodes; as it is where onnx cannot tell."""
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (*REFUSED_BY_ONNX, onnx.shape_inference.InferenceError):
        return model
