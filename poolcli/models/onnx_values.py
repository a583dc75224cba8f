"""What an ONNX graph says of its values: names, shapes, constants, and the graphs that its nodes hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from poolcli.models.layer import Dim, Shape

GRAPH, GRAPHS = 5, 10  # types of attributes
INT64 = 7  # type of a tensor
Shapes = Mapping[str, Shape]


def text(value: str | bytes) -> str:
    """A text of the file, which is bytes where it is no UTF-8."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def holds_graphs(node: Any) -> bool:
    """Whether a node holds a graph."""
    return any(attribute.type in (GRAPH, GRAPHS) for attribute in node.attribute)


def bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """The graphs that a node holds, each with its name."""
    for attribute in node.attribute:
        kind = attribute.type
        if kind == GRAPH:
            yield text(attribute.name), attribute.g
        elif kind == GRAPHS:
            yield from ((f"{text(attribute.name)}{i}", graph) for i, graph in enumerate(attribute.graphs))


def with_bodies(nodes: Any) -> Iterator[Any]:
    """The nodes and those of the bodies within them."""
    for node in nodes:
        yield node
        for _, graph in bodies(node):
            yield from with_bodies(graph.node)


def inside(scope: str, node: Any, number: int, name: str) -> str:
    """The scope of a body: what it is in, the node, and its name there."""
    return f"{scope}{text(node.name) or f'{text(node.op_type)}_{number}'}/{name}/"


def constant(node: Any, tensor: type[Any]) -> Any:
    """The tensor that a Constant makes, a list of integers as one, too; None for other kinds."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return attribute.t
        if attribute.name == "value_ints":
            return tensor(data_type=INT64, dims=[len(attribute.ints)], int64_data=attribute.ints)
    return None


def shapes(values: Any) -> dict[str, Shape]:
    """The shapes of values that state one."""
    found = {}
    for value in values:
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            found[value.name] = tuple(_dim(dim) for dim in kind.shape.dim)
    return found


def merged(stated: Shapes, follow: Shapes) -> dict[str, Shape]:
    """What is stated, and for lengths that are not, what follows."""
    found = dict(follow)
    for name, shape in stated.items():
        other = follow.get(name, ())
        found[name] = tuple(
            b if isinstance(b, int) and not isinstance(a, int) else a
            for a, b in zip(shape, other, strict=True)
        ) if len(other) == len(shape) else shape  # fmt: skip
    return found


def _dim(dim: Any) -> Dim:
    """A length; what is not positive is dynamic, and names that onnx made up are none."""
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return int(dim.dim_value)
    name = text(dim.dim_param)
    return "?" if not name or name.startswith("unk__") else name
