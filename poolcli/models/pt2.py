"""Reads the pooling calls of a program saved by torch.export (.pt2), a zip of JSON; no code runs, no weights
are read.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.checks import check_json, check_zip_directory
from poolcli.message_fields import field, option_value
from poolcli.models import shape_propagation as propagation
from poolcli.models.layer import (
    EXPORT_KERAS,
    EXPORT_SCRIPT,
    EXPORT_TORCH,
    GLOBAL_SUM,
    Dim,
    Layer,
    LayerOp,
    Shape,
    pools_spatial_axes,
    spatial_layout,
)
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool

PROGRAM = re.compile(r"(.*/)?models/[^/]+\.json|serialized_exported_program\.json")
TARGET = re.compile(r"torch\.ops\.(?:aten|torchvision)\.(\w+)\.(\w+)")
SLIDING = re.compile(r"(avg|max)_pool([123])d(_with_indices)?")
ADAPTIVE = re.compile(r"_?adaptive_(avg|max)_pool([123])d")
REDUCTIONS: dict[str, LayerOp] = {
    "mean": AdaptiveAvgPool(1),
    "amax": AdaptiveMaxPool(1),
    "sum": GLOBAL_SUM,
}
CONVOLUTIONS = re.compile(r"conv[123]d|convolution")
SHAPE_PRESERVING = re.compile(
    r"((leaky_)?relu6?|sigmoid|silu|mish|gelu|elu|tanh|hard(swish|sigmoid|tanh)|clamp(_min|_max)?|dropout|sqrt|exp|neg|pow)_?"
    r"|batch_norm|group_norm|layer_norm|instance_norm|_?(log_)?softmax|clone|contiguous|detach_?|alias|to|_to_copy"
)
BROADCASTING = re.compile(r"(add|sub|mul|div)_?|maximum|minimum")
UNSUPPORTED = re.compile(r"max_unpool[23]d|fractional_max_pool[23]d|(ps_)?roi_(align|pool)")
DAMAGED_ZIP = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, OverflowError, RuntimeError, ValueError)
MAX_JSON = 1 << 28  # bytes of JSON
END_OF_AXIS = 2**63 - 1  # the default end of aten.slice
Values = Mapping[str, Any]


def read_pt2(path: str, given: Mapping[str, tuple[int, ...]], limit: int | None = None) -> list[Layer]:
    """Read the pooling calls of the program; a RequestError if the archive has no program."""
    try:
        check_zip_directory(path, limit)
        with zipfile.ZipFile(path) as archive:
            program = _program(path, archive, limit)
    except RequestError:
        raise
    except FileError as error:
        raise RequestError(error.message) from error
    except DAMAGED_ZIP as error:
        raise RequestError(f"{path}: a zip archive that cannot be read: {error}") from None
    if given:
        raise RequestError(f"{path}: {field('input_shape')} is for ONNX models and IR; a .pt2 states its shapes")
    graph = _get(program, "graph_module", "graph")
    shapes = {name: _shape(_get(value, "sizes")) for name, value in _items(_get(graph, "tensor_values"))}
    if not isinstance(_get(graph, "nodes"), list):
        raise RequestError(f"{path}: not a torch.export program: it has no nodes")
    flow = propagation.ShapePropagation(shapes.get)
    return [layer for node in graph["nodes"] for layer in _propagated(node, shapes, flow)]


def _program(path: str, archive: zipfile.ZipFile, limit: int | None) -> Any:
    """The JSON of the program; refuses one that would take too much memory."""
    found = [each for each in archive.infolist() if PROGRAM.fullmatch(each.filename)]
    if not found:
        raise RequestError(f"{path}: {_archive_kind(archive.namelist())}")
    if found[0].file_size > MAX_JSON:
        raise RequestError(f"{path}: {found[0].file_size:,} bytes of JSON; programs of up to {MAX_JSON:,} are read")
    text = archive.read(found[0])
    check_json(path, text, limit, limit)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{path}: not a torch.export program: {error}") from None


def _archive_kind(names: list[str]) -> str:
    if any("/code/" in name for name in names):
        return f"a TorchScript file, which is never opened; {EXPORT_SCRIPT}"
    if any(name.endswith(("data.pkl", "constants.pkl")) for name in names):
        return f"a PyTorch file, which is never opened; {EXPORT_TORCH}"
    if "model.weights.h5" in names:
        return f"a Keras model; {EXPORT_KERAS}"
    return "a zip archive without a model"


def _get(value: Any, *names: str) -> Any:
    """The value of nested keys; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _shape(sizes: Any) -> Shape | None:
    return tuple(_dim(size) for size in sizes) if isinstance(sizes, list) else None


def _dim(size: Any) -> Dim:
    """A length: a number, the symbol of a dynamic one, or `?` for a formula of symbols."""
    number = _get(size, "as_int")
    if isinstance(number, int) and not isinstance(number, bool):
        return number if number > 0 else "?"
    symbol = re.match(r"Symbol\('(\w{1,40})'", str(_get(size, "as_expr", "expr_str")))
    return symbol[1] if symbol else "?"


def _value(argument: Any) -> Any:
    """The value of an argument, a dict with the type as its only key; None for types that pooling does not have."""
    for kind, value in _items(argument):
        numbers = value if isinstance(value, list) else [value]
        if kind in ("as_ints", "as_int", "as_bool") and all(isinstance(number, int) for number in numbers):
            return tuple(value) if isinstance(value, list) else value
    return None


def _propagated(node: Any, shapes: Mapping[str, Shape | None], flow: propagation.ShapePropagation) -> list[Layer]:
    """The layers of a call on propagated shapes; propagates its output shapes."""
    target = TARGET.fullmatch(str(_get(node, "target")))
    arguments = _arguments(node)
    sources = [name for argument in arguments.values() for name in _tensors(argument)]
    results = [name for output in _as_list(_get(node, "outputs")) for name in _tensors(output)]
    layers = _layers(node, target, arguments, shapes) if target else []
    if layers and sources and results:
        return [flow.pool(layer, sources[0], results[0]) for layer in layers]
    rule = _rule(target[1], target[2], arguments, shapes) if target else None
    flow.node(results[0] if results else "", rule, sources, results)
    return layers


def _rule(name: str, overload: str, arguments: Values, shapes: Mapping[str, Shape | None]) -> propagation.Rule | None:
    """The shape rule of a call; None if there is none."""
    if SHAPE_PRESERVING.fullmatch(name):
        return propagation.same
    if BROADCASTING.fullmatch(name):
        return propagation.broadcast
    data = {each: _value(argument) for each, argument in arguments.items()}
    if name == "cat":
        axis = data.get("dim", 0)
        return propagation.concatenation(axis) if isinstance(axis, int) else None
    if name == "slice":
        numbers = [
            data.get(each, default) for each, default in (("dim", 0), ("start", 0), ("end", END_OF_AXIS), ("step", 1))
        ]
        axis, start, end, step = (each if isinstance(each, int) else None for each in numbers)
        return (
            None if None in (axis, start, end) or not step else propagation.sliced(axis or 0, slice(start, end, step))
        )
    weight = shapes.get(str(_get(arguments.get("weight"), "as_tensor", "name")))
    if not CONVOLUTIONS.fullmatch(name) or overload != "default" or not weight or data.get("transposed"):
        return None
    padding = _numbers(data, "padding", 0)
    sizes = {"strides": _numbers(data, "stride", 1), "dilations": _numbers(data, "dilation", 1)}
    return propagation.convolution(weight[0], kernel=weight[2:], pads_begin=padding, pads_end=padding, **sizes)


def _arguments(node: Any) -> dict[str, Any]:
    return {str(_get(each, "name")): _get(each, "arg") for each in _as_list(_get(node, "inputs"))}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _tensors(argument: Any) -> list[str]:
    many = [_get(each, "name") for each in _as_list(_get(argument, "as_tensors"))]
    return [name for name in (_get(argument, "as_tensor", "name"), *many) if isinstance(name, str)]


def _layers(
    node: Any, target: re.Match[str], arguments: Values, shapes: Mapping[str, Shape | None]
) -> list[Layer]:  # fmt: skip
    """The layer of a call; empty if it is no pooling."""
    data = {name: _value(argument) for name, argument in arguments.items()}
    shape = shapes.get(str(_get(arguments.get("self") or arguments.get("input"), "as_tensor", "name")))
    outputs = _get(node, "outputs")
    result = str(_get(outputs[0], "as_tensor", "name")) if isinstance(outputs, list) and outputs else target[1]
    shared: dict[str, Any] = {
        "name": result, "type": target[1], "version": "aten", "framework": "PyTorch", "input_shape": shape,
        "declared_shape": shapes.get(result),
        "given": {name: option_value(value) for name, value in data.items() if value is not None},
    }  # fmt: skip
    if UNSUPPORTED.fullmatch(target[1]):
        return [Layer(**shared, problem=f"{target[1]} is not checked")]
    if target[1] in REDUCTIONS:
        axes = data.get("dim") if isinstance(data.get("dim"), tuple) else None
        keeps = data.get("keepdim") is True
        if not pools_spatial_axes(axes, shape, keeps=keeps):
            return []
        layout = spatial_layout(axes or (), shape)
        return [Layer(**shared, op=REDUCTIONS[target[1]], layout=layout, keeps_axes=keeps)]
    sliding, adaptive = SLIDING.fullmatch(target[1]), ADAPTIVE.fullmatch(target[1])
    if sliding is None and adaptive is None:
        return []
    found = sliding or adaptive
    axes_there = int(found[2]) if found else 0
    try:
        op = _sliding(sliding[1], data) if sliding else _adaptive(adaptive[1] if adaptive else "", data)
    except RequestError as error:
        return [Layer(**shared, invalid=f"refuses it: {error.message}")]
    if shape is not None and len(shape) not in (axes_there + 1, axes_there + 2):
        return [Layer(**shared, invalid=f"refuses it: its input has {len(shape)} axes")]
    layout = "C" + "DHW"[3 - axes_there :] if shape is not None and len(shape) == axes_there + 1 else None
    return [Layer(**shared, op=op, layout=layout)]


def _sliding(word: str, data: Values) -> Any:
    """The operator with sliding windows; missing arguments have PyTorch's defaults."""
    padding = _numbers(data, "padding", 0)
    given: dict[str, Any] = {
        "kernel": _numbers(data, "kernel_size", None),
        "strides": _numbers(data, "stride", None),
        "pads_begin": padding,
        "pads_end": padding,
        "rounding_type": "ceil" if data.get("ceil_mode") is True else "floor",
        "like": "pytorch",
    }
    if word == "avg":
        given["exclude_pad"] = data.get("count_include_pad") is False
        given["divisor_override"] = data.get("divisor_override")
        return AvgPool(**given)
    return MaxPool(**given, dilations=_numbers(data, "dilation", 1))


def _adaptive(word: str, data: Values) -> Any:
    record = AdaptiveAvgPool if word == "avg" else AdaptiveMaxPool
    return record(_numbers(data, "output_size", None), like="pytorch")


def _numbers(data: Values, name: str, default: int | None) -> Any:
    """The numbers of an argument; a list of one number is that number, for every axis."""
    value = data.get(name)
    if value is None or value == ():
        return default
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value
