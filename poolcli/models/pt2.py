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
from poolcli.models.layer import (
    EXPORT_KERAS,
    EXPORT_SCRIPT,
    EXPORT_TORCH,
    GLOBAL_SUM,
    Dim,
    InvalidError,
    Layer,
    LayerOp,
    Shape,
    make_operator,
    reduced_layout,
    with_warnings_after_a_contradiction,
)
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool

PROGRAM = re.compile(r"(.*/)?models/[^/]+\.json|serialized_exported_program\.json")
TARGET = re.compile(r"torch\.ops\.(?:aten|torchvision)\.(\w+)\.(\w+)")
POOLING = re.compile(r"_?(adaptive_)?(avg|max)_pool([123])d(_with_indices)?")
REDUCTIONS: dict[str, LayerOp] = {
    "mean": AdaptiveAvgPool(1),
    "amax": AdaptiveMaxPool(1),
    "sum": GLOBAL_SUM,
}
UNSUPPORTED = re.compile(r"max_unpool[23]d|fractional_max_pool[23]d|(ps_)?roi_(align|pool)")
DAMAGED_ZIP = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, OverflowError, RuntimeError, ValueError)
MAX_JSON = 1 << 28  # bytes of JSON
DYNAMIC = "?"
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
    layers = (_layer(node, shapes) for node in graph["nodes"])
    return with_warnings_after_a_contradiction([layer for layer in layers if layer])


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


def _layer(node: Any, shapes: Mapping[str, Shape | None]) -> Layer | None:
    """The layer of a call; None if it is no pooling."""
    target = TARGET.fullmatch(str(_get(node, "target")))
    if target is None:
        return None
    inputs = _get(node, "inputs")
    arguments = {str(_get(each, "name")): _get(each, "arg") for each in (inputs if isinstance(inputs, list) else ())}
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
        return Layer(**shared, problem=f"{target[1]} is not checked")
    dynamic = [name for name, value in data.items() if isinstance(value, tuple) and DYNAMIC in value]
    if dynamic and POOLING.fullmatch(target[1]):
        return Layer(**shared, problem=f"its {dynamic[0]} depends on a dynamic length")
    if target[1] in REDUCTIONS:
        axes = data.get("dim") if isinstance(data.get("dim"), tuple) else None
        keeps = data.get("keepdim") is True
        layout = reduced_layout(axes, shape, keeps=keeps)
        return Layer(**shared, op=REDUCTIONS[target[1]], layout=layout, keeps_axes=keeps) if layout else None
    pooling = POOLING.fullmatch(target[1])
    if pooling is None:
        return None
    count = int(pooling[3])
    try:
        op = _operator(pooling[1] is not None, pooling[2], data)
        if shape is not None and len(shape) not in (count + 1, count + 2):
            raise InvalidError(f"its input has {len(shape)} axes")
    except InvalidError as error:
        return Layer(**shared, invalid=error.sentence)
    return Layer(**shared, op=op, layout="C" + "DHW"[3 - count :] if len(shape or ()) == count + 1 else None)


def _operator(adaptive: bool, word: str, data: Values) -> LayerOp:
    """The operator of a call; missing arguments have PyTorch's defaults."""
    if adaptive:
        record = AdaptiveAvgPool if word == "avg" else AdaptiveMaxPool
        return make_operator(record, output_size=_numbers(data, "output_size", None), like="pytorch")
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
        return make_operator(AvgPool, **given)
    return make_operator(MaxPool, **given, dilations=_numbers(data, "dilation", 1))


def _numbers(data: Values, name: str, default: int | None) -> Any:
    """The numbers of an argument; a list of one number is that number, for every axis."""
    value = data.get(name)
    if value is None or value == ():
        return default
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value
