"""Interprets the pooling layers of an OpenVINO IR by the version of their operator, as OpenVINO 2026.4 does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from poolcli.arguments import AUTO_PADS, MAX_INT, ROUNDING_TYPES
from poolcli.errors import RequestError
from poolcli.models import layer as shared
from poolcli.models.layer import InvalidError, Layer
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from poolcli.suggestions import did_you_mean

NEWEST_OPSET = 16  # whose operators are known here
SLIDING = ("kernel", "strides", "pads_begin", "pads_end", "rounding_type", "auto_pad")
AVERAGE = (*SLIDING, "exclude-pad")
MAX_8 = (*SLIDING, "dilations", "index_element_type", "axis")
# By the type in lower case: the attributes of each version, and the operator of a reduction, whose axes are the second
# input, or a record of one; the second input of adaptive pooling has the output lengths.
KINDS: dict[str, tuple[Mapping[int, tuple[str, ...]], Any]] = {
    "avgpool": ({1: AVERAGE, 14: AVERAGE, 16: (*AVERAGE, "dilations")}, AvgPool),
    "maxpool": ({1: SLIDING, 8: MAX_8, 14: MAX_8}, MaxPool),
    "adaptiveavgpool": ({8: ()}, AdaptiveAvgPool),
    "adaptivemaxpool": ({8: ("index_element_type",)}, AdaptiveMaxPool),
    **{f"reduce{name}".lower(): ({1: ("keep_dims",)}, op) for name, op in shared.REDUCTIONS.items()},
}
SecondInput = Callable[[str], tuple[int, ...]]  # the integers of a layer's second input, which errors name as the text


def interpret(layer: Layer, second: SecondInput) -> Layer | None:
    """The layer with its operator; None if it reduces other axes than the spatial ones."""
    kind, shape, data, warnings = layer.type, layer.input_shape, layer.given, list[str]()
    if kind.lower() not in KINDS:
        raise RequestError(f"{kind} is not checked")
    versions, op = KINDS[kind.lower()]
    version = _version(layer, versions)
    known = versions[version]
    for name in data:  # OpenVINO ignores attributes that the version does not have silently
        if name not in known:
            later = [number for number, names in versions.items() if name in names]
            why = f" before opset{min(later)}" if later else ""
            warnings.append(f"attribute {name} is not one of {kind}'s{why} and is ignored{did_you_mean(name, known)}")
    if not isinstance(op, type):
        return _reduction(replace(layer, op=op, warnings=tuple(warnings)), second)
    shared.check_rank(shape)
    if op in (AvgPool, MaxPool):
        given = _sliding(layer, version, known, warnings)
    else:
        sizes = second("its output size")
        shared.check_count("its output size", len(sizes), len(sizes) if shape is None else len(shape) - 2)
        given = {"output_size": sizes}
    return replace(layer, op=shared.make_operator(op, **given), warnings=tuple(warnings))


def _version(layer: Layer, versions: Mapping[int, Any]) -> int:
    opset = re.fullmatch(r"opset([0-9]{1,3})", layer.version)
    if not opset:
        raise InvalidError(f"it has no opset {layer.version[:40]!r}")
    if int(opset[1]) > NEWEST_OPSET:
        raise RequestError(f"{layer.version} is newer than opset{NEWEST_OPSET}, the newest that is known here")
    known = [version for version in versions if version <= int(opset[1])]
    if not known:
        raise InvalidError(f"{layer.version} has no {layer.type}")
    return max(known)


def _reduction(layer: Layer, second: SecondInput) -> Layer | None:
    """The layer if it reduces the spatial axes; a RequestError if it may, but its axes are not known."""
    shape, keeps = layer.input_shape, layer.given.get("keep_dims", "false").strip().lower() in ("true", "1")
    if shape is None or len(shape) not in shared.RANKS:
        return None
    try:
        layout = shared.reduced_layout(second("its list of axes"), shape, keeps=keeps)
    except RequestError as error:
        if isinstance(error, InvalidError) or shared.may_pool(shape, layer.declared_shape, keeps=keeps):
            raise
        return None
    return replace(layer, layout=layout, keeps_axes=keeps) if layout else None


def _sliding(layer: Layer, version: int, known: tuple[str, ...], warnings: list[str]) -> dict[str, Any]:
    kind, shape, data = layer.type, layer.input_shape, layer.given
    for needed in ("kernel", "strides"):
        if not data.get(needed, "").strip():
            raise InvalidError(f"{kind} has no attribute {needed}")
    count = len(data["kernel"].split(",")) if shape is None else len(shape) - 2
    lists = [name for name in ("kernel", "strides", "pads_begin", "pads_end", "dilations") if name in known]
    given: dict[str, Any] = {key: _integers(key, data[key], count) for key in lists if data.get(key, "").strip()}
    given["auto_pad"] = _word("auto_pad", data.get("auto_pad", "explicit"), AUTO_PADS)
    given["rounding_type"] = _word("rounding_type", data.get("rounding_type", "floor"), ROUNDING_TYPES)
    if given["rounding_type"] == "ceil_torch" and version < 14:
        raise InvalidError(f"{kind} has rounding_type ceil_torch from opset14 on")
    if "exclude-pad" in known:
        if version >= 16 and "dilations" not in given:
            raise InvalidError("AvgPool of opset16 without dilations crashes; write 1 for each axis")
        word = data.get("exclude-pad", "true").strip().lower()
        if word not in ("true", "false", "1", "0"):
            warnings.append(f"exclude-pad is {word[:40]!r}, which OpenVINO reads as true")
        given["exclude_pad"] = word not in ("false", "0")
    elif "axis" in known:
        axis = _integer("axis", data.get("axis", "0"))
        if not -count - 2 <= axis < count + 2:
            raise InvalidError(f"axis is {axis}; it must be from {-count - 2} to {count + 1}")
    return given


def _word(name: str, text: str, words: tuple[str, ...]) -> str:
    word = text.strip().lower()
    if word not in words:
        raise InvalidError(f"{name} is {text[:40]!r}; it must be one of {', '.join(words)}")
    return word


def _integer(name: str, text: str) -> int:
    """The integer at the start of a text: OpenVINO ignores what follows it."""
    found = re.match(r"\s*([+-]?[0-9]{1,19})(?![0-9])", text)
    if not found or abs(int(found[1])) > MAX_INT:
        raise InvalidError(f"{name} is {text[:40]!r}; whole numbers are needed")
    return int(found[1])


@lru_cache(maxsize=1024)  # layers of one model are often alike
def _integers(name: str, text: str, count: int) -> tuple[int, ...]:
    parts = text.split(",")
    shared.check_count(name, len(parts), count)
    return tuple(_integer(name, part) for part in parts)
