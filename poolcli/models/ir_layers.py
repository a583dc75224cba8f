"""What each pooling layer of an IR says, held against the versions of its operator: as OpenVINO 2026.4 reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from poolcli.arguments import AUTO_PADS, INDEX_TYPES, ROUNDING_TYPES
from poolcli.errors import RequestError
from poolcli.message_fields import for_python
from poolcli.models.layer import InvalidError, Layer, Shape, Whole, counted, is_pooling, made, meant, spatial_layout
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, LpPool, MaxPool
from poolcli.plan.attributes import Attributes

NEWEST = 16  # the opset up to which versions are known
MOST_SPATIAL = 3
LARGEST = 2**63 - 1
SLIDING = ("kernel", "strides", "pads_begin", "pads_end", "rounding_type", "auto_pad")
AVERAGE = (*SLIDING, "exclude-pad")
PLACES = (*SLIDING, "dilations", "index_element_type", "axis")
ELEMENT_TYPES = "f16|f32|f64|bf16|[iu](4|8|16|32|64)|u[1236]|boolean|string|dynamic|nf4|f8e4m3|f8e5m2|f4e2m1|f8e8m0"
UNCHECKED = {  # by their names in lower case: what is to be done
    "roipooling": "", "psroipooling": "", "deformablepsroipooling": "", "roialign": "", "roialignrotated": "",
    "experimentaldetectronroifeatureextractor": "",
    "pooling": "; it is of an IR before version 10: convert the model again with ovc, which writes AvgPool and MaxPool",
}  # fmt: skip
Second = Callable[[], tuple[int, ...]]
Data = Mapping[str, str]
Made = Attributes | Whole


@dataclass(frozen=True, slots=True)
class Found:
    """A layer as it is gathered from the file; `ports` are the identities of its inputs."""

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
    """A type of layer: its name, the attributes of each version of its operator, and how that is made of them.

    `asks`: its second input says the lengths, or the axes where it `reduces`.
    """

    name: str
    versions: Mapping[int, tuple[str, ...]]
    make: Callable[[str, int, Data, int | None, list[str]], Made] | None = None
    reduces: Made | None = None

    @property
    def asks(self) -> bool:
        """Whether the second input is needed."""
        return self.make is None


def _average(name: str, version: int, data: Data, axes: int | None, warnings: list[str]) -> Made:
    given = _sliding(name, version, data, axes)
    if version >= 16:
        if not data.get("dilations", "").strip():
            raise InvalidError("AvgPool of opset16 without dilations; write 1 for each axis", "crashes on it")
        given["dilations"] = _numbers("dilations", data["dilations"], len(given["kernel"]))
    word = data.get("exclude-pad", "true").strip().lower()
    if word not in ("true", "false", "1", "0"):
        warnings.append(f"exclude-pad is {word[:40]!r}, which OpenVINO reads as true")
    return made(AvgPool, **given, exclude_pad=word not in ("false", "0"))


def _maximum(name: str, version: int, data: Data, axes: int | None, warnings: list[str]) -> Made:
    given = _sliding(name, version, data, axes)
    if version >= 8:
        rank = len(given["kernel"])
        if data.get("dilations", "").strip():
            given["dilations"] = _numbers("dilations", data["dilations"], rank)
        axis = _number("axis", data.get("axis", "0"))
        if not -rank - 2 <= axis < rank + 2:
            raise InvalidError(f"axis is {axis}; it must be from {-rank - 2} to {rank + 1}")
        given |= {"axis": axis, "index_element_type": _index_type(data, warnings)}
    return made(MaxPool, **given)


def _index_type(data: Data, warnings: list[str]) -> str:
    word = data.get("index_element_type", "i64").strip().lower()
    if not re.fullmatch(ELEMENT_TYPES, word):
        raise InvalidError(f"index_element_type is {word[:40]!r}; it must be i32 or i64")
    if word not in INDEX_TYPES:
        warnings.append(f"index_element_type is {word[:40]!r}, with which OpenVINO gives no indices or wrong ones")
        return "i64"
    return word


def _sliding(name: str, version: int, data: Data, axes: int | None) -> dict[str, Any]:
    """The attributes that averages and maxima share."""
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
    """The whole number that a text begins with, as OpenVINO reads it."""
    found = re.match(r"\s*([+-]?[0-9]{1,19})(?![0-9])", text)
    if not found or abs(int(found[1])) > LARGEST:
        raise InvalidError(f"{name} is {text[:40]!r}; whole numbers are needed")
    return int(found[1])


@lru_cache(maxsize=1024)  # layers of one model are often alike
def _numbers(name: str, text: str, count: int) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) != count:
        raise InvalidError(f"{name} has {counted(len(parts))}, but {count} spatial axes need {count}")
    return tuple(_number(name, part) for part in parts)


ONE: tuple[str, ...] = ("keep_dims",)
KINDS = {
    kind.name.lower(): kind
    for kind in (
        Kind("AvgPool", {1: AVERAGE, 14: AVERAGE, 16: (*AVERAGE, "dilations")}, _average),
        Kind("MaxPool", {1: SLIDING, 8: PLACES, 14: PLACES}, _maximum),
        Kind("AdaptiveAvgPool", {8: ()}),
        Kind("AdaptiveMaxPool", {8: ("index_element_type",)}),
        Kind("ReduceMean", {1: ONE}, reduces=AdaptiveAvgPool(1)),
        Kind("ReduceMax", {1: ONE}, reduces=AdaptiveMaxPool(1)),
        Kind("ReduceSum", {1: ONE}, reduces=Whole(AvgPool, (("divisor_override", 1),))),
        Kind("ReduceL1", {4: ONE}, reduces=Whole(LpPool, (("p", 1),))),
        Kind("ReduceL2", {4: ONE}, reduces=Whole(LpPool, (("p", 2),))),
    )
}


def layer_of(found: Found, second: Second) -> Layer | None:
    """The layer of what was gathered; None where it reduces other axes than the spatial ones.

    `second` gives the integers at the second input.
    """
    shape = found.inputs[0] or None if found.inputs else None
    kind = KINDS.get(found.type.lower())
    op: Made | None = None
    problem = invalid = layout = None
    warnings: list[str] = []
    keeps = True
    try:
        if kind is None:
            problem = f"{found.type} is not checked{UNCHECKED.get(found.type.lower(), '')}"
        else:
            version = _version(kind, found.version)
            if kind.reduces is not None:
                axes = _axes(second, shape)
                keeps = found.data.get("keep_dims", "false").strip().lower() in ("true", "1")
                if not is_pooling(axes, shape, keeps=keeps):
                    return None
                layout = spatial_layout(axes or (), shape)
            warnings += _ignored(kind, version, found)
            op = kind.reduces or _made_by(kind, version, found, shape, second, warnings)
    except InvalidError as error:
        invalid = error.told
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
        declared_shape=found.outputs[0] or None if found.outputs else None,
        layout=layout,
        keeps_axes=keeps,
        warnings=tuple(warnings),
    )


def _axes(second: Second, shape: Shape | None) -> tuple[int, ...] | None:
    """The axes of a reduction; None where they are not known, or where its input has no axes to pool over."""
    if shape is None or not 3 <= len(shape) <= 2 + MOST_SPATIAL:
        return None
    try:
        return _second(second, "its axes")
    except InvalidError:
        raise
    except RequestError:
        return None


def _second(second: Second, what: str) -> tuple[int, ...]:
    """The integers at the second input; the errors of that say `what` they are."""
    try:
        return second()
    except InvalidError as error:
        raise InvalidError(f"{what}: {error.message}") from None
    except RequestError as error:
        raise RequestError(f"{what} {error.message}") from None


def _version(kind: Kind, text: str) -> int:
    """The version of the operator that an opset has."""
    opset = re.fullmatch(r"opset([0-9]{1,3})", text)
    if not opset:
        raise InvalidError(f"it has no opset {text[:40]!r}")
    if int(opset[1]) > NEWEST:
        raise RequestError(f"{text} is newer than opset{NEWEST}, the newest that is known here")
    known = [version for version in kind.versions if version <= int(opset[1])]
    if not known:
        raise InvalidError(f"{text} has no {kind.name}")
    return max(known)


def _made_by(
    kind: Kind, version: int, found: Found, shape: Shape | None, second: Second, warnings: list[str]
) -> Made:  # fmt: skip
    if shape is not None and not 3 <= len(shape) <= 2 + MOST_SPATIAL:
        raise InvalidError(f"its input has {len(shape)} axes; 3 to {2 + MOST_SPATIAL} are needed")
    axes = None if shape is None else len(shape) - 2
    if kind.make:
        return kind.make(kind.name, version, found.data, axes, warnings)
    sizes = _second(second, "its output size")
    if axes is not None and len(sizes) != axes:
        raise InvalidError(f"its output size has {counted(len(sizes))}, but {axes} spatial axes need {axes}")
    record = AdaptiveMaxPool if kind.name == "AdaptiveMaxPool" else AdaptiveAvgPool
    types = {"index_element_type": _index_type(found.data, warnings)} if record is AdaptiveMaxPool else {}
    return made(record, output_size=sizes, **types)


def _ignored(kind: Kind, version: int, found: Found) -> list[str]:
    """What OpenVINO passes over in silence: attributes that this version has not."""
    known, told = kind.versions[version], []
    for name in found.data:
        if name in known:
            continue
        later = [number for number, names in kind.versions.items() if name in names]
        why = f" before opset{min(later)}" if later else ""
        told.append(f"attribute {name} is not one of {kind.name}'s{why} and is ignored{meant(name, known)}")
    return told
