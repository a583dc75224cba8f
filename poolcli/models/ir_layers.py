"""Interprets the pooling layers of an IR by the version of their operator, as OpenVINO 2026.4 does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from poolcli.arguments import AUTO_PADS, INDEX_TYPES, ROUNDING_TYPES
from poolcli.errors import RequestError
from poolcli.message_fields import for_python
from poolcli.models.layer import (
    GLOBAL_SUM,
    RANKS,
    GlobalWindow,
    InvalidError,
    Layer,
    LayerOp,
    Shape,
    check_count,
    check_rank,
    make_operator,
    may_pool,
    reduced_layout,
)
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, LpPool, MaxPool
from poolcli.suggestions import did_you_mean

NEWEST_OPSET = 16  # whose operators are known here
MAX_NUMBER = 2**63 - 1
SLIDING = ("kernel", "strides", "pads_begin", "pads_end", "rounding_type", "auto_pad")
AVERAGE = (*SLIDING, "exclude-pad")
MAX_8 = (*SLIDING, "dilations", "index_element_type", "axis")
ELEMENT_TYPES = "f16|f32|f64|bf16|[iu](4|8|16|32|64)|u[1236]|boolean|string|dynamic|nf4|f8e4m3|f8e5m2|f4e2m1|f8e8m0"
OLD_POOLING = "; it is of an IR before version 10: convert the model again with ovc, which writes AvgPool and MaxPool"
SecondInput = Callable[[], tuple[int, ...]]
Data = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RawLayer:
    """A layer as the file states it; `ports` are the ids of its inputs."""

    id: str
    name: str
    type: str
    version: str
    data: Data
    ports: list[str]
    inputs: list[Shape]
    outputs: list[Shape]


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of layer: its name, the attributes of each version of its operator, and how to create that.

    Without `make`, the second input has the output lengths, or the axes of a reduction to the operator `reduces`.
    """

    name: str
    versions: Mapping[int, tuple[str, ...]]
    make: Callable[[str, int, Data, int | None, list[str]], LayerOp] | None = None
    reduces: LayerOp | None = None


def _average(name: str, version: int, data: Data, axes: int | None, warnings: list[str]) -> LayerOp:
    given = _sliding(name, version, data, axes)
    if version >= 16:
        if not data.get("dilations", "").strip():
            raise InvalidError("AvgPool of opset16 without dilations; write 1 for each axis", "crashes on it")
        given["dilations"] = _numbers("dilations", data["dilations"], len(given["kernel"]))
    word = data.get("exclude-pad", "true").strip().lower()
    if word not in ("true", "false", "1", "0"):
        warnings.append(f"exclude-pad is {word[:40]!r}, which OpenVINO reads as true")
    return make_operator(AvgPool, **given, exclude_pad=word not in ("false", "0"))


def _maximum(name: str, version: int, data: Data, axes: int | None, warnings: list[str]) -> LayerOp:
    given = _sliding(name, version, data, axes)
    if version >= 8:
        rank = len(given["kernel"])
        if data.get("dilations", "").strip():
            given["dilations"] = _numbers("dilations", data["dilations"], rank)
        axis = _number("axis", data.get("axis", "0"))
        if not -rank - 2 <= axis < rank + 2:
            raise InvalidError(f"axis is {axis}; it must be from {-rank - 2} to {rank + 1}")
        given |= {"axis": axis, "index_element_type": _index_type(data, warnings)}
    return make_operator(MaxPool, **given)


def _index_type(data: Data, warnings: list[str]) -> str:
    word = data.get("index_element_type", "i64").strip().lower()
    if not re.fullmatch(ELEMENT_TYPES, word):
        raise InvalidError(f"index_element_type is {word[:40]!r}; it must be i32 or i64")
    if word not in INDEX_TYPES:
        warnings.append(f"index_element_type is {word[:40]!r}, with which OpenVINO gives no indices or wrong ones")
        return "i64"
    return word


def _sliding(name: str, version: int, data: Data, axes: int | None) -> dict[str, Any]:
    for needed in ("kernel", "strides"):
        if not data.get(needed, "").strip():
            raise InvalidError(f"{name} has no attribute {needed}")
    count = axes if axes is not None else len(data["kernel"].split(","))
    given: dict[str, Any] = {key: _numbers(key, data[key], count) for key in ("kernel", "strides")}
    for key in ("pads_begin", "pads_end"):
        given[key] = _numbers(key, data[key], count) if data.get(key, "").strip() else (0,) * count
    given["auto_pad"] = _word("auto_pad", data.get("auto_pad", "explicit"), AUTO_PADS)
    given["rounding_type"] = _word("rounding_type", data.get("rounding_type", "floor"), ROUNDING_TYPES)
    if given["rounding_type"] == "ceil_torch" and version < 14:
        raise InvalidError(f"{name} has rounding_type ceil_torch from opset14 on")
    return given


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


KEEP_DIMS: tuple[str, ...] = ("keep_dims",)
KINDS = {
    kind.name.lower(): kind
    for kind in (
        Kind("AvgPool", {1: AVERAGE, 14: AVERAGE, 16: (*AVERAGE, "dilations")}, _average),
        Kind("MaxPool", {1: SLIDING, 8: MAX_8, 14: MAX_8}, _maximum),
        Kind("AdaptiveAvgPool", {8: ()}),
        Kind("AdaptiveMaxPool", {8: ("index_element_type",)}),
        Kind("ReduceMean", {1: KEEP_DIMS}, reduces=AdaptiveAvgPool(1)),
        Kind("ReduceMax", {1: KEEP_DIMS}, reduces=AdaptiveMaxPool(1)),
        Kind("ReduceSum", {1: KEEP_DIMS}, reduces=GLOBAL_SUM),
        Kind("ReduceL1", {4: KEEP_DIMS}, reduces=GlobalWindow(LpPool, (("p", 1),))),
        Kind("ReduceL2", {4: KEEP_DIMS}, reduces=GlobalWindow(LpPool, (("p", 2),))),
    )
}


def layer_of(found: RawLayer, second: SecondInput) -> Layer | None:
    """Interpret a layer; None if it reduces other axes than the spatial ones. `second` reads its second input."""
    shape, declared = (ports[0] or None if ports else None for ports in (found.inputs, found.outputs))
    kind = KINDS.get(found.type.lower())
    op: LayerOp | None = None
    problem = invalid = layout = None
    warnings: list[str] = []
    keeps = True
    try:
        if kind is None:
            problem = f"{found.type} is not checked{OLD_POOLING if found.type.lower() == 'pooling' else ''}"
        else:
            version = _version(kind, found.version)
            if kind.reduces is not None:
                keeps = found.data.get("keep_dims", "false").strip().lower() in ("true", "1")
                layout = _reduced_layout(second, shape, declared, keeps)
                if layout is None:
                    return None
            warnings += _ignored(kind, version, found)
            op = kind.reduces or _operator_of(kind, version, found, shape, second, warnings)
    except InvalidError as error:
        invalid = error.sentence
    except RequestError as error:
        problem = for_python(error.message)
    return Layer(
        name=found.name,
        type=found.type,
        version=found.version,
        framework="OpenVINO",
        op=op,
        problem=problem,
        invalid=invalid,
        given=found.data,
        input_shape=shape,
        declared_shape=declared,
        layout=layout,
        keeps_axes=keeps,
        warnings=tuple(warnings),
    )


def _reduced_layout(second: SecondInput, shape: Shape | None, declared: Shape | None, keeps: bool) -> str | None:
    """The layout whose spatial axes a reduction pools; None if it reduces other axes.

    A RequestError if its axes are not known and, by the shapes, may be the spatial ones.
    """
    if shape is None or len(shape) not in RANKS:
        return None
    try:
        axes = _integers_of(second, "its list of axes")
    except InvalidError:
        raise
    except RequestError:
        if may_pool(None, shape, declared, keeps=keeps):
            raise
        return None
    return reduced_layout(axes, shape, keeps=keeps)


def _integers_of(second: SecondInput, what: str) -> tuple[int, ...]:
    """The integers of the second input; errors name them as `what`."""
    try:
        return second()
    except InvalidError as error:
        raise InvalidError(f"{what}: {error.message}") from None
    except RequestError as error:
        raise RequestError(f"{what} {error.message}") from None


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


def _operator_of(
    kind: Kind, version: int, found: RawLayer, shape: Shape | None, second: SecondInput, warnings: list[str]
) -> LayerOp:  # fmt: skip
    if shape is not None:
        check_rank(shape)
    axes = None if shape is None else len(shape) - 2
    if kind.make:
        return kind.make(kind.name, version, found.data, axes, warnings)
    sizes = _integers_of(second, "its output size")
    if axes is not None:
        check_count("its output size", len(sizes), axes)
    record = AdaptiveMaxPool if kind.name == "AdaptiveMaxPool" else AdaptiveAvgPool
    types = {"index_element_type": _index_type(found.data, warnings)} if record is AdaptiveMaxPool else {}
    return make_operator(record, output_size=sizes, **types)


def _ignored(kind: Kind, version: int, found: RawLayer) -> list[str]:
    """Warn about attributes that this version does not have, which OpenVINO ignores silently."""
    known, warnings = kind.versions[version], []
    for name in found.data:
        if name in known:
            continue
        later = [number for number, names in kind.versions.items() if name in names]
        why = f" before opset{min(later)}" if later else ""
        warnings.append(f"attribute {name} is not one of {kind.name}'s{why} and is ignored{did_you_mean(name, known)}")
    return warnings
