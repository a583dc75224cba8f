"""Interprets the pooling layers of an IR by the version of their operator, as OpenVINO 2026.4 does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from poolcli.arguments import AUTO_PADS, INDEX_TYPES, ROUNDING_TYPES
from poolcli.errors import RequestError
from poolcli.models.layer import (
    GLOBAL_SUM,
    RANKS,
    InvalidError,
    Layer,
    LayerOp,
    Shape,
    check_count,
    check_rank,
    global_norm,
    make_operator,
    may_pool,
    reduced_layout,
)
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from poolcli.plan.attributes import BinAttributes
from poolcli.suggestions import did_you_mean

NEWEST_OPSET = 16  # whose operators are known here
MAX_NUMBER = 2**63 - 1
SLIDING = ("kernel", "strides", "pads_begin", "pads_end", "rounding_type", "auto_pad")
AVERAGE = (*SLIDING, "exclude-pad")
MAX_8 = (*SLIDING, "dilations", "index_element_type", "axis")
ELEMENT_TYPES = "f16|f32|f64|bf16|[iu](4|8|16|32|64)|u[1236]|boolean|string|dynamic|nf4|f8e4m3|f8e5m2|f4e2m1|f8e8m0"
OLD_POOLING = "; it is of an IR before version 10: convert the model again with ovc, which writes AvgPool and MaxPool"
SecondInput = Callable[[str], tuple[int, ...]]  # the integers of a layer's second input, which errors name as the text
Data = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of layer: its name, the attributes of each version of its operator, and the record of that.

    For a reduction, whose axes are the second input, `op` is the operator itself. That input of adaptive pooling has
    the output lengths.
    """

    name: str
    versions: Mapping[int, tuple[str, ...]]
    op: LayerOp | type[Any]


REDUCES: dict[int, tuple[str, ...]] = {1: ("keep_dims",)}
REDUCES_4 = {4: ("keep_dims",)}
KINDS = {
    kind.name.lower(): kind
    for kind in (
        Kind("AvgPool", {1: AVERAGE, 14: AVERAGE, 16: (*AVERAGE, "dilations")}, AvgPool),
        Kind("MaxPool", {1: SLIDING, 8: MAX_8, 14: MAX_8}, MaxPool),
        Kind("AdaptiveAvgPool", {8: ()}, AdaptiveAvgPool),
        Kind("AdaptiveMaxPool", {8: ("index_element_type",)}, AdaptiveMaxPool),
        Kind("ReduceMean", REDUCES, AdaptiveAvgPool(1)),
        Kind("ReduceMax", REDUCES, AdaptiveMaxPool(1)),
        Kind("ReduceSum", REDUCES, GLOBAL_SUM),
        Kind("ReduceL1", REDUCES_4, global_norm(1)),
        Kind("ReduceL2", REDUCES_4, global_norm(2)),
    )
}


def reads_second_input(kind: str) -> bool:
    """Whether the axes or output lengths of a layer are its second input."""
    return kind.lower() in KINDS and kind.lower() not in ("avgpool", "maxpool")


def interpret(layer: Layer, second: SecondInput) -> Layer | None:
    """The layer with its operator; None if it reduces other axes than the spatial ones."""
    kind, shape, data = KINDS.get(layer.type.lower()), layer.input_shape, layer.given
    if kind is None:
        raise RequestError(f"{layer.type} is not checked{OLD_POOLING if layer.type.lower() == 'pooling' else ''}")
    version = _version(kind, layer.version)
    known, warnings = kind.versions[version], list[str]()
    for name in data:  # OpenVINO ignores attributes that the version does not have silently
        if name not in known:
            later = [number for number, names in kind.versions.items() if name in names]
            why = f" before opset{min(later)}" if later else ""
            hint = did_you_mean(name, known)
            warnings.append(f"attribute {name} is not one of {kind.name}'s{why} and is ignored{hint}")
    if not isinstance(kind.op, type):
        keeps = data.get("keep_dims", "false").strip().lower() in ("true", "1")
        layout = _reduced_layout(second, shape, layer.declared_shape, keeps)
        found = replace(layer, op=kind.op, layout=layout, keeps_axes=keeps, warnings=tuple(warnings))
        return found if layout else None
    if shape is not None:
        check_rank(shape)
    axes = None if shape is None else len(shape) - 2
    record: Any = kind.op
    if issubclass(record, BinAttributes):
        sizes = second("its output size")
        if axes is not None:
            check_count("its output size", len(sizes), axes)
        given: dict[str, Any] = {"output_size": sizes}
    else:
        given = _sliding(kind.name, version, data, axes, warnings)
    if "index_element_type" in known:
        given["index_element_type"] = _index_type(data, warnings)
    return replace(layer, op=make_operator(record, **given), warnings=tuple(warnings))


def _version(kind: Kind, text: str) -> int:
    opset = re.fullmatch(r"opset([0-9]{1,3})", text)
    if not opset:
        raise InvalidError(f"it has no opset {text[:40]!r}")
    if int(opset[1]) > NEWEST_OPSET:
        raise RequestError(f"{text} is newer than opset{NEWEST_OPSET}, the newest that is known here")
    known = [version for version in kind.versions if version <= int(opset[1])]
    if not known:
        raise InvalidError(f"{text} has no {kind.name}")
    return max(known)


def _reduced_layout(second: SecondInput, shape: Shape | None, declared: Shape | None, keeps: bool) -> str | None:
    """The layout whose spatial axes a reduction pools; None if it reduces other axes.

    A RequestError if its axes are not known and, by the shapes, may be the spatial ones.
    """
    if shape is None or len(shape) not in RANKS:
        return None
    try:
        return reduced_layout(second("its list of axes"), shape, keeps=keeps)
    except RequestError as error:
        if isinstance(error, InvalidError) or may_pool(shape, declared, keeps=keeps):
            raise
        return None


def _sliding(name: str, version: int, data: Data, axes: int | None, warnings: list[str]) -> dict[str, Any]:
    for needed in ("kernel", "strides"):
        if not data.get(needed, "").strip():
            raise InvalidError(f"{name} has no attribute {needed}")
    count = axes if axes is not None else len(data["kernel"].split(","))
    lists = ["kernel", "strides", "pads_begin", "pads_end"]
    lists += ["dilations"] if "dilations" in KINDS[name.lower()].versions[version] else []
    given: dict[str, Any] = {key: _numbers(key, data[key], count) for key in lists if data.get(key, "").strip()}
    given["auto_pad"] = _word("auto_pad", data.get("auto_pad", "explicit"), AUTO_PADS)
    given["rounding_type"] = _word("rounding_type", data.get("rounding_type", "floor"), ROUNDING_TYPES)
    if given["rounding_type"] == "ceil_torch" and version < 14:
        raise InvalidError(f"{name} has rounding_type ceil_torch from opset14 on")
    if name == "AvgPool":
        if version >= 16 and "dilations" not in given:
            raise InvalidError("AvgPool of opset16 without dilations crashes; write 1 for each axis")
        word = data.get("exclude-pad", "true").strip().lower()
        if word not in ("true", "false", "1", "0"):
            warnings.append(f"exclude-pad is {word[:40]!r}, which OpenVINO reads as true")
        given["exclude_pad"] = word not in ("false", "0")
    elif version >= 8:
        axis = _number("axis", data.get("axis", "0"))
        if not -count - 2 <= axis < count + 2:
            raise InvalidError(f"axis is {axis}; it must be from {-count - 2} to {count + 1}")
        given["axis"] = axis
    return given


def _index_type(data: Data, warnings: list[str]) -> str:
    word = data.get("index_element_type", "i64").strip().lower()
    if not re.fullmatch(ELEMENT_TYPES, word):
        raise InvalidError(f"index_element_type is {word[:40]!r}; it must be i32 or i64")
    if word not in INDEX_TYPES:
        warnings.append(f"index_element_type is {word[:40]!r}, with which OpenVINO gives no indices or wrong ones")
        return "i64"
    return word


def _word(name: str, text: str, words: tuple[str, ...]) -> str:
    word = text.strip().lower()
    if word not in words:
        raise InvalidError(f"{name} is {text[:40]!r}; it must be one of {', '.join(words)}")
    return word


def _number(name: str, text: str) -> int:
    """The integer at the start of a text: OpenVINO ignores what follows it."""
    found = re.match(r"\s*([+-]?[0-9]{1,19})(?![0-9])", text)
    if not found or abs(int(found[1])) > MAX_NUMBER:
        raise InvalidError(f"{name} is {text[:40]!r}; whole numbers are needed")
    return int(found[1])


@lru_cache(maxsize=1024)  # layers of one model are often alike
def _numbers(name: str, text: str, count: int) -> tuple[int, ...]:
    parts = text.split(",")
    check_count(name, len(parts), count)
    return tuple(_number(name, part) for part in parts)
