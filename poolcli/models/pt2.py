"""Pooling calls of a program that torch.export saved (.pt2): a zip of JSON. Nothing in it is run, no weight is read."""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from poolcli.errors import FileError, RequestError
from poolcli.formats.checks import check_json, check_members
from poolcli.message_fields import as_typed, field
from poolcli.models.layer import (
    EXPORT_KERAS,
    EXPORT_SCRIPT,
    EXPORT_TORCH,
    Dim,
    Layer,
    Outdated,
    Shape,
    Whole,
    is_pooling,
    spatial_layout,
)
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from poolcli.plan.attributes import Attributes

PROGRAM = re.compile(r"(.*/)?models/[^/]+\.json|serialized_exported_program\.json")
TARGET = re.compile(r"torch\.ops\.(?:aten|torchvision)\.(\w+)\.(\w+)")
POOLING = re.compile(r"(_?adaptive_)?(avg|max)_pool([123])d(_with_indices)?")
REDUCING: dict[str, Attributes | Whole] = {
    "mean": AdaptiveAvgPool(1),
    "amax": AdaptiveMaxPool(1),
    "sum": Whole(AvgPool, (("divisor_override", 1),)),
}
UNCHECKED = re.compile(r"max_unpool[23]d|fractional_max_pool[23]d|(ps_)?roi_(align|pool)")
TORN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, OverflowError, RuntimeError, ValueError)
LARGEST = 1 << 28  # bytes of JSON
Values = Mapping[str, Any]


def read_pt2(path: str, given: Mapping[str, tuple[int, ...]], limit: int | None = None) -> list[Layer]:
    """The pooling calls of the program's graph; a RequestError where the archive holds none."""
    try:
        check_members(path, limit)
        with zipfile.ZipFile(path) as archive:
            program = _program(path, archive, limit)
    except RequestError:
        raise
    except FileError as error:
        raise RequestError(error.message) from error
    except TORN as error:
        raise RequestError(f"{path}: a zip archive that cannot be read: {error}") from None
    if given:
        raise RequestError(f"{path}: {field('input_shape')} is for ONNX models and IR; a .pt2 states its shapes")
    graph = _at(program, "graph_module", "graph")
    shapes = {name: _shape(_at(value, "sizes")) for name, value in _items(_at(graph, "tensor_values"))}
    if not isinstance(_at(graph, "nodes"), list):
        raise RequestError(f"{path}: not a torch.export program: it has no nodes")
    outdated = Outdated()
    every = (
        outdated.follow(
            _layer(node, shapes), _tensors(_arguments(node).values()), _tensors(_listed(_at(node, "outputs")))
        )
        for node in graph["nodes"]
    )
    return [layer for layer in every if layer]


def _program(path: str, archive: zipfile.ZipFile, limit: int | None) -> Any:
    """The JSON of the program; refused where it would take more memory than `limit`, or than such a file may."""
    found = [each for each in archive.infolist() if PROGRAM.fullmatch(each.filename)]
    if not found:
        raise RequestError(f"{path}: {_what(archive.namelist())}")
    if found[0].file_size > LARGEST:
        raise RequestError(f"{path}: {found[0].file_size:,} bytes of JSON; programs of up to {LARGEST:,} are read")
    text = archive.read(found[0])
    try:
        check_json(path, text, limit, limit)
    except FileError as error:
        raise RequestError(error.message) from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{path}: not a torch.export program: {error}") from None


def _what(names: list[str]) -> str:
    """What an archive is that holds no program of torch.export."""
    if any("/code/" in name for name in names):
        return f"a TorchScript file, which is never opened; {EXPORT_SCRIPT}"
    if any(name.endswith(("data.pkl", "constants.pkl")) for name in names):
        return f"a PyTorch file, which is never opened; {EXPORT_TORCH}"
    if "model.weights.h5" in names:
        return f"a Keras model; {EXPORT_KERAS}"
    return "a zip archive without a model"


def _at(value: Any, *names: str) -> Any:
    """What lies under these names; None where nothing does."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _shape(sizes: Any) -> Shape | None:
    return tuple(_dim(size) for size in sizes) if isinstance(sizes, list) else None


def _dim(size: Any) -> Dim:
    """A length: a number, the symbol of a dynamic one, or `?` for a formula of symbols."""
    number = _at(size, "as_int")
    if isinstance(number, int) and not isinstance(number, bool):
        return number if number > 0 else "?"
    symbol = re.match(r"Symbol\('(\w{1,40})'", str(_at(size, "as_expr", "expr_str")))
    return symbol[1] if symbol else "?"


def _value(argument: Any) -> Any:
    """The value of an argument as its only key says; None for what no pooling has."""
    for kind, value in _items(argument):
        numbers = value if isinstance(value, list) else [value]
        if kind in ("as_ints", "as_int", "as_bool") and all(isinstance(number, int) for number in numbers):
            return tuple(value) if isinstance(value, list) else value
    return None


def _arguments(node: Any) -> dict[str, Any]:
    return {str(_at(each, "name")): _at(each, "arg") for each in _listed(_at(node, "inputs"))}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _tensors(values: Iterable[Any]) -> list[str]:
    """The names of the tensors of arguments or outputs."""
    every = (each for value in values for each in (_at(value, "as_tensor"), *_listed(_at(value, "as_tensors"))))
    return [name for each in every if isinstance(name := _at(each, "name"), str)]


def _layer(node: Any, shapes: Mapping[str, Shape | None]) -> Layer | None:
    """The layer of a call; None where it does not pool."""
    target = TARGET.fullmatch(str(_at(node, "target")))
    if target is None:
        return None
    kind, arguments = target[1], _arguments(node)
    data = {name: _value(argument) for name, argument in arguments.items()}
    shape = shapes.get(str(_at(arguments.get("self") or arguments.get("input"), "as_tensor", "name")))
    result = next(iter(_tensors(_listed(_at(node, "outputs")))), kind)
    layer = partial(
        Layer, name=result, type=kind, version="aten", framework="PyTorch", input_shape=shape,
        declared_shape=shapes.get(result),
        given={name: as_typed(value) for name, value in data.items() if value is not None},
    )  # fmt: skip
    if UNCHECKED.fullmatch(kind):
        return layer(problem=f"{kind} is not checked")
    if kind in REDUCING:
        axes = data.get("dim") if isinstance(data.get("dim"), tuple) else None
        keeps = data.get("keepdim") is True
        if not is_pooling(axes, shape, keeps=keeps):
            return None
        return layer(op=REDUCING[kind], layout=spatial_layout(axes or (), shape), keeps_axes=keeps)
    pools = POOLING.fullmatch(kind)
    if pools is None:
        return None
    try:
        op = (_adaptive if pools[1] else _sliding)(pools[2], data)
    except RequestError as error:
        return layer(invalid=f"refuses it: {error.message}")
    rank, spatial = None if shape is None else len(shape), int(pools[3])
    if rank not in (None, spatial + 1, spatial + 2):
        return layer(invalid=f"refuses it: its input has {rank} axes")
    return layer(op=op, layout="C" + "DHW"[3 - spatial :] if rank == spatial + 1 else None)


def _sliding(word: str, data: Values) -> Any:
    """The operator of windows that slide; what is left out is PyTorch's default."""
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
    """The numbers of an argument, one that serves every axis as itself."""
    value = data.get(name)
    if value is None or value == ():
        return default
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value
