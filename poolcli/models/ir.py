"""Reads the pooling layers of an OpenVINO IR (.xml) as a stream: only they and small constants stay in memory. They are
interpreted by the version of their operator, as OpenVINO 2026.4 does.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from poolcli.arguments import AUTO_PADS, INDEX_TYPES, ROUNDING_TYPES
from poolcli.errors import RequestError
from poolcli.formats.checks import human_bytes
from poolcli.message_fields import field as words_of
from poolcli.models.layer import (
    RANKS,
    REDUCTIONS,
    Dim,
    Given,
    InvalidError,
    Layer,
    Shape,
    check_count,
    check_rank,
    contradicts,
    interpreted,
    make_operator,
    may_pool,
    named_lengths,
    output_shape,
    pools_by_name,
    reduced_layout,
)
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from poolcli.suggestions import did_you_mean
from poolcli.system.lazy_imports import need

READ_SIZE = 2**20  # bytes; large, because the parser scans a long name again with every chunk
MAX_TEXT = 1 << 16  # characters of an element or attribute that are kept
MAX_OPEN = 300  # elements within each other
MAX_ELEMENTS = 2**16  # XML elements of one layer, without the layers in its bodies
LAYER_BYTES, DIM_BYTES = 1400, 20  # memory that each takes; a constant takes less than a layer
MAX_CONSTANT = 8  # elements: output sizes and axes are a few integers
STRUCT_CODES = {"i64": "q", "i32": "i", "u64": "Q", "u32": "I"}
NEWEST_OPSET = 16  # whose operators are known here
MAX_NUMBER = 2**63 - 1
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
    **{f"reduce{n}".lower(): ({4 if n in ("L1", "L2") else 1: ("keep_dims",)}, op) for n, op in REDUCTIONS.items()},
}
SecondInput = Callable[[str], tuple[int, ...]]  # the integers of a layer's second input, which errors name as the text
Data = Mapping[str, str]


def read_ir(path: str, given: Given, limit: int | None = None) -> list[Layer]:
    """Read the pooling layers, in the order of the file; a RequestError if it is invalid or takes more than `limit`."""
    reader = _Reader(path, limit)
    try:
        with open(path, "rb") as stream:
            source: Any = SimpleNamespace(read=lambda size: stream.read(READ_SIZE))
            # expat itself limits what entities expand to
            for event, element in ElementTree.iterparse(source, ("start", "end")):  # noqa: S314
                (reader.start if event == "start" else reader.end)(element)
    except RequestError:
        raise
    except ElementTree.ParseError as error:
        raise RequestError(f"{path}: not well-formed XML: {error}") from None
    except (LookupError, ValueError):
        raise RequestError(f"{path}: XML in an encoding that is not read; models are written in utf-8") from None
    if not reader.is_model:
        raise RequestError(f"{path}: not an OpenVINO IR: there is no <net> or <layer> in it")
    layers = [layer for layer in reader.layers if layer]
    if given:
        return _inferred(path, layers, given, f"{words_of('input_shape')} of an IR needs openvino")
    is_wrong = any(contradicts(output_shape(layer), layer.declared_shape) for layer in layers)
    if not is_wrong or any(layer.invalid for layer in layers):
        return layers
    try:  # what follows a layer that differs has other shapes than the file states
        return _inferred(path, layers, {}, "it infers what follows a layer that differs")
    except RequestError as error:
        return [replace(layer, not_inferred=f": {error.message.removeprefix(f'{path}: ')}") for layer in layers]


def _inferred(path: str, layers: list[Layer], given: Given, why: str) -> list[Layer]:
    """The layers with the input shapes that OpenVINO infers from `given` lengths of the model's inputs."""
    (frontend,) = need("openvino.frontend", why=f"{path}: {why}")
    # Only this frontend: the others would try to read the file too, and write warnings.
    reader = frontend.FrontEndManager().load_by_framework("ir")
    try:
        model = reader.convert(reader.load(path))
    except RuntimeError as error:
        raise RequestError(f"{path}: OpenVINO cannot read it: {_last_line(error)}") from None
    inputs = {name: port for port in model.inputs for name in (port.node.friendly_name, *port.names)}
    named = named_lengths(path, given, [port.node.friendly_name for port in model.inputs], inputs)
    try:
        if named:
            model.reshape({inputs[name]: list(lengths) for name, lengths in named.items()})
    except RuntimeError as error:
        raise RequestError(f"{path}: OpenVINO does not accept these lengths: {_last_line(error)}") from None
    shapes = dict(_shapes(model, ""))
    return [
        replace(layer, input_shape=shapes[layer.name]) if layer.input_shape and layer.name in shapes else layer
        for layer in layers
    ]


def _shapes(model: Any, scope: str) -> Iterator[tuple[str, Shape]]:
    """(name, shape of the first input) of every layer with a known rank, those in bodies with their path."""
    for node in model.get_ordered_ops():
        kind, bodies = node.get_type_name(), dict[str, Any]()
        if kind == "If":
            bodies = {"then_body": node.get_function(0), "else_body": node.get_function(1)}
        elif kind in ("Loop", "TensorIterator"):
            bodies = {"body": node.get_function()}
        for name, body in bodies.items():
            yield from _shapes(body, f"{scope}{node.friendly_name}/{name}/")
        if node.get_input_size():
            shape = node.input(0).get_partial_shape()
            if shape.rank.is_static:
                yield scope + node.friendly_name, tuple(dim.get_length() if dim.is_static else "?" for dim in shape)


def _last_line(error: RuntimeError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no reason given"


@dataclass
class _Scope:
    """The graph of the model, or the body of a layer. Layer ids are unique within it."""

    prefix: str
    pools: list[tuple[int, str, str, Layer]] = field(default_factory=list)  # place, id, port of the second input
    constants: dict[str, Data] = field(default_factory=dict)
    sources: dict[tuple[str, str], str] = field(default_factory=dict)
    asking: set[str] = field(default_factory=set)  # ids of layers whose second input is needed


class _Reader:
    """Collects layers while the file is parsed, and removes finished elements from the tree."""

    def __init__(self, path: str, limit: int | None) -> None:
        self.path, self.is_model = path, False
        self.limit, self.memory = limit, 0  # bytes: allowed, and used
        self.layers: list[Layer | None] = []  # None for those of open scopes, and for other reductions
        self.scopes = [_Scope("")]
        self.open: list[tuple[Element, int]] = []  # each with the number of elements before it
        self.kept = 0  # elements in the tree
        self.names: list[str] = []  # of open layers

    def start(self, element: Element) -> None:
        """Note an open element; a body opens a scope."""
        tag = element.tag
        self.open.append((element, self.kept))
        self.kept += 1
        if len(self.open) > MAX_OPEN or self.kept > MAX_ELEMENTS:
            most = f"{MAX_OPEN} elements deep" if len(self.open) > MAX_OPEN else f"{MAX_ELEMENTS:,} elements within one"
            raise RequestError(f"{self.path}: more than {most}")
        self.is_model |= tag in ("net", "layer")
        if tag == "layer":
            self.names.append(self.scopes[-1].prefix + element.get("name", element.get("id", ""))[:MAX_TEXT])
        elif tag.endswith("body"):
            self.scopes.append(_Scope(f"{self.names[-1] if self.names else ''}/{tag}/"))

    def end(self, element: Element) -> None:
        """Collect a finished element, and remove it from the tree."""
        tag, scope = element.tag, self.scopes[-1]
        _, before = self.open.pop()
        if tag == "layer":
            self._end_layer(element, self.names.pop(), scope)
        elif tag == "edge" and element.get("to-layer") in scope.asking:
            scope.sources[element.get("to-layer", ""), element.get("to-port", "")] = element.get("from-layer", "")
        elif tag == "net" or (tag.endswith("body") and len(self.scopes) > 1):
            self._end_scope(scope)
        if self.open and (tag in ("layer", "edge") or not self.names):
            self.open[-1][0].remove(element)
            self.kept = before

    def _end_layer(self, element: Element, name: str, scope: _Scope) -> None:
        identity, kind = element.get("id", ""), element.get("type", "")
        described = element.find("data")
        data = {} if described is None else {key: value[:MAX_TEXT] for key, value in described.items()}
        if kind == "Const" and (_elements(data) or 0) <= MAX_CONSTANT:
            scope.constants[identity] = data
        elif kind.lower() in KINDS or pools_by_name(kind):
            ports, outputs = element.findall("input/port"), element.findall("output/port")
            shape = _shape(ports)
            layer = Layer(
                name=name,
                type=kind,
                version=element.get("version", ""),
                framework="OpenVINO",
                given=data,
                input_shape=shape,
                stated_input=shape,
                declared_shape=_shape(outputs),
            )
            second = ports[1].get("id", "") if len(ports) > 1 else ""
            scope.pools.append((len(self.layers), identity, second, layer))
            self.layers.append(None)
            if second:
                scope.asking.add(identity)
        else:
            return
        dims = len(element.findall("*/port/dim"))
        self.memory += LAYER_BYTES + DIM_BYTES * dims + sum(map(len, data.values()))
        if self.limit is not None and self.memory > self.limit:
            raise RequestError(
                f"{self.path}: its layers take more memory than the limit, {human_bytes(self.limit)}; "
                f"raise {words_of('max_memory')}"
            )

    def _end_scope(self, scope: _Scope) -> None:
        for place, identity, port, stated in scope.pools:
            constant = scope.constants.get(scope.sources.get((identity, port), ""))
            self.layers[place] = interpreted(stated, partial(_interpret, second=partial(self._integers, constant)))
        scope.pools = []
        if len(self.scopes) > 1:
            self.scopes.pop()

    def _integers(self, source: Data | None, what: str) -> tuple[int, ...]:
        """The integers of a constant, from the .bin file of the model.

        Like OpenVINO, it reads as many elements as the shape has, even if there are more bytes. An InvalidError if
        OpenVINO refuses the constant, a RequestError if the integers are not known.
        """
        weights = Path(self.path).with_suffix(".bin")
        if source is None:
            raise RequestError(f"{what} is computed by other layers; only constants are read")
        if not weights.is_file():
            raise RequestError(f"{what} is a constant in {weights.name}, which is not beside the model; put it there")
        element, offset, size = (source.get(name, "") for name in ("element_type", "offset", "size"))
        code, begin, length = STRUCT_CODES.get(element), _number(offset), _number(size) or 0
        if code is None:
            raise RequestError(f"{what} is a constant of {element[:20] or 'no type'}, not of {', '.join(STRUCT_CODES)}")
        width, total = struct.calcsize(code), weights.stat().st_size
        needed = (_elements(source) or 0) * width
        if begin is None or not length or length < needed or length % width or begin + length > total:
            stated = f"offset={offset[:20]!r}, size={size[:20]!r}, shape={source.get('shape', '')[:20]!r} of {element}"
            raise InvalidError(f"{what}: the Const has {stated}, and {weights.name} {total:,} bytes")
        try:
            with open(weights, "rb") as stream:
                stream.seek(begin)
                data = stream.read(needed or length)
        except OSError as error:
            raise RequestError(f"{weights}: {error.strerror or error}") from None
        return struct.unpack(f"<{len(data) // width}{code}", data)


def _elements(constant: Data) -> int | None:
    """The number of elements of a constant; None without a valid shape."""
    text = constant.get("shape")
    lengths = [] if text is None else [_number(each) for each in text.split(",") if each.strip()]
    return None if text is None or None in lengths else prod(each for each in lengths if each is not None)


def _number(text: str) -> int | None:
    """Parse an integer of up to 18 digits; None for any other text."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text.strip()) else None


def _shape(ports: list[Element]) -> Shape | None:
    dims = ports[0].iterfind("dim") if ports else ()
    return tuple(_dim((each.text or "")[:MAX_TEXT].strip()) for each in dims) or None


def _dim(text: str) -> Dim:
    """A length; one that is missing or not positive is dynamic."""
    found = _number(text)
    if found is not None:
        return found or "?"
    return "?" if not text or re.fullmatch(r"-[0-9]+", text) else text


def _interpret(layer: Layer, second: SecondInput) -> Layer | None:
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
    check_rank(shape)
    if op in (AvgPool, MaxPool):
        given = _sliding(layer, version, known, warnings)
    else:
        sizes = second("its output size")
        check_count("its output size", len(sizes), len(sizes) if shape is None else len(shape) - 2)
        given = {"output_size": sizes}
    word = data.get("index_element_type", "i64").strip().lower() if "index_element_type" in known else "i64"
    if word not in INDEX_TYPES:
        warnings.append(f"index_element_type is {word[:40]!r}; OpenVINO gives indices of i32 or i64")
    return replace(layer, op=make_operator(op, **given), warnings=tuple(warnings))


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
    if shape is None or len(shape) not in RANKS:
        return None
    try:
        layout = reduced_layout(second("its list of axes"), shape, keeps=keeps)
    except RequestError as error:
        if isinstance(error, InvalidError) or may_pool(shape, layer.declared_shape, keeps=keeps):
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
    if not found or abs(int(found[1])) > MAX_NUMBER:
        raise InvalidError(f"{name} is {text[:40]!r}; whole numbers are needed")
    return int(found[1])


@lru_cache(maxsize=1024)  # layers of one model are often alike
def _integers(name: str, text: str, count: int) -> tuple[int, ...]:
    parts = text.split(",")
    check_count(name, len(parts), count)
    return tuple(_integer(name, part) for part in parts)
