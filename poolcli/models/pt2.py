"""Reads the pooling calls of a program saved by torch.export (.pt2), a zip of JSON, without its code and weights."""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from poolcli.errors import RequestError
from poolcli.formats.checks import as_file_error, check_json, check_memory, check_zip_directory, json_memory_limit
from poolcli.message_fields import field, option_value
from poolcli.models import layer as shared
from poolcli.models.layer import Dim, Given, InvalidError, Layer, Shape
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from poolcli.plan.attributes import Attributes

PROGRAM = re.compile(r"(.*/)?models/[^/]+\.json|serialized_exported_program\.json")
TARGET = re.compile(r"torch\.ops\.(\w+)\.(\w+)\.(\w+)")
POOLING = re.compile(r"_?(adaptive_)?(avg|max)_pool([123])d(_with_indices)?")
RECORDS = {"avg": AvgPool, "max": MaxPool, "adaptive_avg": AdaptiveAvgPool, "adaptive_max": AdaptiveMaxPool}
ARGUMENTS = {
    "kernel_size": "kernel", "stride": "strides", "padding": "pads", "dilation": "dilations",
    "divisor_override": "divisor_override", "output_size": "output_size",
}  # fmt: skip
REDUCES = {"mean": "Mean", "amax": "Max", "max": "Max"}
DAMAGED_ZIP = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, OverflowError, RuntimeError, ValueError)
DYNAMIC = "?"


def read(path: str, given: Given, limit: int | None = None) -> list[Layer]:
    """Read the pooling calls of the program; a RequestError if the archive has no program."""
    check_zip_directory(path, limit)
    damaged = as_file_error(path, DAMAGED_ZIP, lambda error: f"a zip archive that cannot be read: {error}")
    with damaged, zipfile.ZipFile(path) as archive:
        program = _program(path, archive, limit)
    if given:
        raise RequestError(f"{path}: {field('input_shape')} is for ONNX models and IR; a .pt2 states its shapes")
    graph = _get(program, "graph_module", "graph")
    if not isinstance(_get(graph, "nodes"), list):
        raise RequestError(f"{path}: not a torch.export program: it has no nodes")
    return list(_layers(graph, ""))


def _program(path: str, archive: zipfile.ZipFile, limit: int | None) -> Any:
    """The JSON of the program; refuses one that would take too much memory."""
    found = next((each for each in archive.infolist() if PROGRAM.fullmatch(each.filename)), None)
    if found is None:
        kinds = {"/code/": "a TorchScript file", "/data.pkl": "a file of torch.save", "": "a zip archive"}
        names = "\n".join(archive.namelist())
        kind = next(kind for part, kind in kinds.items() if part in names)
        raise shared.no_model(path, f"{kind} without a torch.export program")
    check_memory(f"{path}: reading its JSON takes", 2 * found.file_size, json_memory_limit(limit, limit))
    text = archive.read(found)
    check_json(path, text, limit, limit)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{path}: not a torch.export program: {error}") from None


def _get(value: Any, *names: str) -> Any:
    """The value of nested keys; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _shape(sizes: Any) -> Shape | None:
    return tuple(map(_dim, sizes)) if isinstance(sizes, list) else None


def _dim(size: Any) -> Dim:
    """A length: a number, the symbol of a dynamic one, or `?` for a formula of symbols."""
    number = _get(size, "as_int")
    if isinstance(number, int) and not isinstance(number, bool):
        return number if number > 0 else DYNAMIC
    symbol = re.match(r"Symbol\('(\w{1,40})'", str(_get(size, "as_expr", "expr_str")))
    return symbol[1] if symbol else DYNAMIC


def _value(argument: Any) -> Any:
    """The value of an argument, a dict with the type as its only key; None for types that pooling does not have, `?`
    in place of a number that depends on a dynamic length.
    """
    for kind, value in _items(argument):
        numbers = value if isinstance(value, list) else [value]
        if kind == "as_sym_ints":
            return tuple(n if isinstance(n := _get(each, "as_int"), int) else DYNAMIC for each in numbers)
        if kind in ("as_ints", "as_int", "as_bool") and all(isinstance(number, int) for number in numbers):
            return tuple(value) if isinstance(value, list) else value
    return None


def _layers(graph: Any, scope: str) -> Iterator[Layer]:
    """The pooling calls of a graph, and of the graphs within it: bodies of `cond`, `while_loop`, `map` and contexts
    such as `torch.autocast`. `scope` is the prefix of their names.
    """
    shapes = {name: _shape(_get(value, "sizes")) for name, value in _items(_get(graph, "tensor_values"))}
    for node in _list(_get(graph, "nodes")):
        arguments = {str(_get(each, "name")): _get(each, "arg") for each in _list(_get(node, "inputs"))}
        for body in (_get(each, "as_graph") for each in arguments.values()):
            if body is not None:
                yield from _layers(_get(body, "graph"), f"{scope}{_get(body, 'name')}/"[-shared.MAX_NAME :])
        target = TARGET.fullmatch(str(_get(node, "target")))
        if target is None:
            continue
        outputs = _list(_get(node, "outputs"))
        result = str(_get(outputs[0], "as_tensor", "name")) if outputs else target[2]
        data = {name: _value(argument) for name, argument in arguments.items()}
        stated = Layer(
            name=scope + result,
            type=target[2],
            version=target[1],
            framework="PyTorch",
            given={name: option_value(value) for name, value in data.items() if value is not None},
            input_shape=shapes.get(str(_get(arguments.get("self") or arguments.get("input"), "as_tensor", "name"))),
            declared_shape=shapes.get(result),
        )
        layer = shared.interpreted(stated, partial(_interpret, data))
        if layer:
            yield layer


def _interpret(data: Mapping[str, Any], layer: Layer) -> Layer | None:
    """The layer with its operator; None if it is no pooling."""
    is_own, shape = layer.version == "aten", layer.input_shape
    reduction = shared.REDUCTIONS.get(REDUCES.get(layer.type, ""))
    if is_own and reduction is not None:
        dims, keeps = data.get("dim"), data.get("keepdim") is True
        axes = (dims,) if isinstance(dims, int) else dims
        layout = shared.reduced_layout(axes, shape, keeps=keeps) if axes and DYNAMIC not in axes else None
        return replace(layer, op=reduction, layout=layout, keeps_axes=keeps) if layout else None
    pooling = POOLING.fullmatch(layer.type) if is_own else None
    if pooling is None:
        if shared.pools_by_name(layer.type):
            raise RequestError(f"{layer.type} is not checked")
        return None
    dynamic = [name for name, value in data.items() if isinstance(value, tuple) and DYNAMIC in value]
    if dynamic:
        raise RequestError(f"its {dynamic[0]} depends on a dynamic length")
    count = int(pooling[3])
    if shape is not None and len(shape) not in (count + 1, count + 2):
        raise InvalidError(f"its input has {len(shape)} axes")
    op = _operator(RECORDS[f"{pooling[1] or ''}{pooling[2]}"], data)
    return replace(layer, op=op, layout="C" + "DHW"[3 - count :] if len(shape or ()) == count + 1 else None)


def _operator(record: Any, data: Mapping[str, Any]) -> Attributes:
    """The operator of a call; missing arguments have PyTorch's defaults."""
    known = record.__dataclass_fields__
    given: dict[str, Any] = {name: None for name in ("kernel", "output_size") if name in known}
    for name, own in ARGUMENTS.items():
        value = data.get(name)
        if own in known and value is not None and value != ():
            # a list of one number is that number, for every axis
            given[own] = value[0] if isinstance(value, tuple) and len(value) == 1 else value
    if "kernel" in known:
        rounding = "ceil" if data.get("ceil_mode") is True else "floor"
        given = {"strides": given["kernel"], "rounding_type": rounding} | given
    if "exclude_pad" in known:
        given["exclude_pad"] = data.get("count_include_pad") is False
    return shared.make_operator(record, like="pytorch", **given)  # type: ignore[no-any-return]
