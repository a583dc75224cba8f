"""Layers of an IR on inputs of other lengths, which OpenVINO itself finds out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.models.layer import Layer, Shape
from poolcli.system.lazy_imports import need


def reshaped(path: str, layers: Sequence[Layer], given: Mapping[str, tuple[int, ...]]) -> list[Layer]:
    """The layers with the input shapes that follow from lengths of the model's inputs."""
    (frontend,) = need("openvino.frontend", why=f"{path}: {field('input_shape')} of an IR needs openvino")
    reader = frontend.FrontEndManager().load_by_framework("ir")  # others would try too, and write what they think of it
    try:
        model = reader.convert(reader.load(path))
    except RuntimeError as error:
        raise RequestError(f"{path}: OpenVINO cannot read it: {_last(error)}") from None
    inputs = {name: port for port in model.inputs for name in (port.node.friendly_name, *port.names)}
    unknown = [name for name in given if name not in inputs]
    if unknown:
        raise RequestError(f"{path}: no input is called {unknown[0]}; there are: {', '.join(inputs)[:200]}")
    try:
        model.reshape({inputs[name]: list(lengths) for name, lengths in given.items()})
    except RuntimeError as error:
        raise RequestError(f"{path}: OpenVINO takes no such lengths: {_last(error)}") from None
    shapes = dict(_shapes(model, ""))
    return [_moved(layer, shapes.get(layer.name)) for layer in layers]


def _shapes(model: Any, scope: str) -> Iterator[tuple[str, Shape]]:
    """The shape of the first input of every layer that has a rank, by name; of bodies after what they are in."""
    for node in model.get_ordered_ops():
        for name, body in _bodies(node):
            yield from _shapes(body, f"{scope}{node.friendly_name}/{name}/")
        if node.get_input_size():
            partial = node.input(0).get_partial_shape()
            if partial.rank.is_static:
                yield scope + node.friendly_name, tuple(dim.get_length() if dim.is_static else "?" for dim in partial)


def _bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """The models that a node holds, each by its tag in an IR."""
    kind = node.get_type_name()
    if kind == "If":
        yield from (("then_body", node.get_function(0)), ("else_body", node.get_function(1)))
    elif kind in ("Loop", "TensorIterator"):
        yield "body", node.get_function()


def _moved(layer: Layer, shape: Shape | None) -> Layer:
    if shape is None or layer.input_shape is None:
        return layer
    other = any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(shape, layer.input_shape, strict=False)
    )
    return replace(layer, input_shape=shape, moved=other)


def _last(error: RuntimeError) -> str:
    """The last line of a message that has many."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no reason given"
