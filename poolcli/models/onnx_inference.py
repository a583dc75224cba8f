"""Shape inference of an ONNX graph by onnx, with our own output shapes of poolings.

Below opset 22, onnx.shape_inference keeps a last window of a ceil pooling that starts past the input, which ONNX
Runtime drops, and it has no rule for Microsoft's quantised poolings. What follows a pooling must be inferred from the
true shape. So each pooling is replaced by a stand-in, an operator of our own domain whose inference function is
registered with onnx. One pass of onnx does the rest, including bodies and shapes that nodes compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from poolcli.models.layer import Shape
from poolcli.models.onnx_graph import ONNX_ERRORS, bodies, dim, key_of, merged, opsets_of, run_limited
from poolcli.system.lazy_imports import need

DOMAIN, NAME = "poolcli.internal", "Pooling"
Compute = Callable[[Any, int, Shape], Shape | None]  # the output shape of a node, from its opset and its input shape
Pools = Callable[[Any], bool]  # whether a node is a pooling


def infer(path: str, model: Any, pools: Pools, compute: Compute, limit: int | None) -> Any:
    """Return the graph of the `model` from the file at `path` with inferred shapes.

    `compute` must be a module-level function, as it is registered with onnx once. `limit` is the memory for the
    inference, in bytes.
    """
    onnx, inference = need("onnx", "onnx.shape_inference", why="reading ONNX models needs onnx")
    _register(compute)
    opsets = opsets_of(model.opset_import)
    _insert_stand_ins(model.graph, opsets, pools, onnx)
    _clear_shapes_after_pools(model.graph, opsets, onnx.defs, set())
    model.opset_import.add(domain=DOMAIN, version=1)

    def work() -> bytes:
        return inference.infer_shapes(model, data_prop=True).SerializeToString()  # type: ignore[no-any-return]

    found = run_limited(path, "inferring its shapes", work, (*ONNX_ERRORS, inference.InferenceError), limit)
    graph = model.graph if isinstance(found, str) else type(model).FromString(found).graph
    _remove_stand_ins(graph)
    return graph


def _insert_stand_ins(graph: Any, opsets: Mapping[str, int], pools: Pools, onnx: Any) -> None:
    """Replace each pooling by a stand-in, with the node, its opset and the stated type of its output as attributes."""
    make_node = onnx.helper.make_node
    stated = {value.name: value.type for value in (*graph.output, *graph.value_info)}
    constants = {each.name: each for each in graph.initializer if each.data_type == onnx.TensorProto.INT64}
    for node in graph.node:
        for _, body in bodies(node):
            _insert_stand_ins(body, opsets, pools, onnx)
        if node.op_type == "Identity" and len(node.input) == 1 and node.input[0] in constants:
            # onnx does not propagate a constant through Identity to the shape input of a Reshape.
            node.CopyFrom(make_node("Constant", [], node.output, name=node.name, value=constants[node.input[0]]))
        elif pools(node):
            kind = {"stated": stated[node.output[0]]} if node.output and node.output[0] in stated else {}
            held = {"node": node.SerializeToString(), "opset": opsets.get(key_of(node)[0], 1)}
            node.CopyFrom(make_node(NAME, node.input, node.output, domain=DOMAIN, **held, **kind))


def _clear_shapes_after_pools(graph: Any, opsets: Mapping[str, int], defs: Any, after: set[str]) -> bool:
    """Remove the stated shapes of poolings and of what follows them, which onnx would prefer to the inferred ones.

    `after` collects the names of these values. Outputs of nodes without an inference rule keep their stated shapes.
    Returns whether the graph reads or outputs one of these values.
    """
    reads_any = False
    for node in graph.node:
        reads = any(name in after for name in node.input)
        for _, body in bodies(node):
            if reads:
                after.update(value.name for value in body.input)
        for _, body in bodies(node):
            reads |= _clear_shapes_after_pools(body, opsets, defs, after)
        domain, kind = key_of(node)
        if domain == DOMAIN or (reads and _has_rule(domain, kind, opsets.get(domain, 1), defs)):
            after.update(node.output)
        reads_any |= reads
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.name in after and value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return reads_any or any(value.name in after for value in graph.output)


@lru_cache(1024)
def _has_rule(domain: str, kind: str, opset: int, defs: Any) -> bool:
    """Whether onnx can infer the output shapes of an operator."""
    try:
        schema = defs.get_schema(kind, opset, domain)
    except (defs.SchemaError, TypeError):  # TypeError: opset exceeds 32 bits
        return False
    return bool(schema.has_type_and_shape_inference_function or schema.has_function)


def _remove_stand_ins(graph: Any) -> None:
    for node in graph.node:
        for _, body in bodies(node):
            _remove_stand_ins(body)
        if node.domain == DOMAIN and node.op_type == NAME:
            node.ParseFromString(next(each.s for each in node.attribute if each.name == "node"))


@lru_cache(1)
def _register(compute: Compute) -> None:
    """Register the operator of stand-ins with onnx, once."""
    (onnx,) = need("onnx", why="reading ONNX models needs onnx")
    schema_type = onnx.defs.OpSchema
    option = schema_type.FormalParameterOption.Variadic

    def infer_node(context: Any) -> None:
        kind = context.get_input_type(0) if context.has_input(0) else None
        if kind is None or not kind.HasField("tensor_type"):
            return
        found = None
        if kind.tensor_type.HasField("shape"):
            node = onnx.NodeProto.FromString(context.get_attribute("node").s)
            found = compute(node, context.get_attribute("opset").i, tuple(map(dim, kind.tensor_type.shape.dim)))
        stated = context.get_attribute("stated")
        if stated is not None and stated.tp.tensor_type.HasField("shape"):
            known = tuple(map(dim, stated.tp.tensor_type.shape.dim))
            found = merged({"": known}, {"": found} if found else {})[""]
        lengths = None if found is None else [None if length == "?" else length for length in found]
        for place in range(context.get_num_outputs()):  # the second one is the indices
            element = onnx.TensorProto.INT64 if place else kind.tensor_type.elem_type
            context.set_output_type(place, onnx.helper.make_tensor_type_proto(element, lengths))

    schema = schema_type(
        NAME,
        DOMAIN,
        1,
        inputs=[schema_type.FormalParameter("X", "T", param_option=option, is_homogeneous=False)],
        outputs=[schema_type.FormalParameter("Y", "T", param_option=option, is_homogeneous=False)],
        type_constraints=[("T", ["tensor(float)"], "")],  # ignored by shape inference
    )
    schema.set_type_and_shape_inference_function(infer_node)
    onnx.defs.register_schema(schema)
