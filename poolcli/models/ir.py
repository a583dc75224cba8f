"""Reads the pooling layers of an OpenVINO IR (.xml) as a stream: only they and small constants stay in memory."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from poolcli.errors import RequestError
from poolcli.formats.checks import human_bytes
from poolcli.message_fields import field
from poolcli.models.ir_layers import KINDS, RawLayer, layer_of
from poolcli.models.layer import (
    Dim,
    InvalidError,
    Layer,
    Shape,
    contradicts,
    first_contradiction,
    pools_by_name,
    with_warnings_after_a_contradiction,
)
from poolcli.system.lazy_imports import need


def reshape_layers(path: str, layers: Sequence[Layer], given: Mapping[str, tuple[int, ...]]) -> list[Layer]:
    """The layers with the input shapes that OpenVINO infers from `given` lengths of the model's inputs."""
    model = _read_by_openvino(path, f"{field('input_shape')} of an IR needs openvino")
    inputs = {name: port for port in model.inputs for name in (port.node.friendly_name, *port.names)}
    unknown = [name for name in given if name not in inputs]
    if unknown:
        raise RequestError(f"{path}: no input is called {unknown[0]}; there are: {', '.join(inputs)[:200]}")
    try:
        model.reshape({inputs[name]: list(lengths) for name, lengths in given.items()})
    except RuntimeError as error:
        raise RequestError(f"{path}: OpenVINO does not accept these lengths: {_last_line(error)}") from None
    shapes = dict(_shapes(model, ""))
    return [_with_shape(layer, shapes.get(layer.name)) for layer in layers]


def _with_inferred_shapes(path: str, layers: list[Layer]) -> list[Layer]:
    """The layers on the shapes that OpenVINO infers, if a layer contradicts the shape that the file states.

    If OpenVINO is missing or cannot read the model, the layers after that one get a warning.
    """
    if any(layer.invalid for layer in layers) or first_contradiction(layers) is None:
        return layers
    try:
        shapes = dict(_shapes(_read_by_openvino(path, "it infers what follows a layer that differs"), ""))
    except RequestError as error:
        return with_warnings_after_a_contradiction(layers, f": {error.message.removeprefix(f'{path}: ')}")
    return [replace(layer, input_shape=shapes.get(layer.name, layer.input_shape)) for layer in layers]


def _read_by_openvino(path: str, why: str) -> Any:
    (frontend,) = need("openvino.frontend", why=f"{path}: {why}")
    # Only this frontend: the others would try to read the file too, and write warnings.
    reader = frontend.FrontEndManager().load_by_framework("ir")
    try:
        return reader.convert(reader.load(path))
    except RuntimeError as error:
        raise RequestError(f"{path}: OpenVINO cannot read it: {_last_line(error)}") from None


def _shapes(model: Any, scope: str) -> Iterator[tuple[str, Shape]]:
    """(name, shape of the first input) of every layer with a known rank, those in bodies with their path."""
    for node in model.get_ordered_ops():
        for name, body in _bodies(node):
            yield from _shapes(body, f"{scope}{node.friendly_name}/{name}/")
        if node.get_input_size():
            partial = node.input(0).get_partial_shape()
            if partial.rank.is_static:
                yield scope + node.friendly_name, tuple(dim.get_length() if dim.is_static else "?" for dim in partial)


def _bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """The bodies of a node, each with its tag in an IR."""
    kind = node.get_type_name()
    if kind == "If":
        yield from (("then_body", node.get_function(0)), ("else_body", node.get_function(1)))
    elif kind in ("Loop", "TensorIterator"):
        yield "body", node.get_function()


def _with_shape(layer: Layer, shape: Shape | None) -> Layer:
    if shape is None or layer.input_shape is None:
        return layer
    return replace(layer, input_shape=shape, moved=contradicts(shape, layer.input_shape))


def _last_line(error: RuntimeError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no reason given"


READ_SIZE = 2**20  # bytes; large, because the parser scans a long name again with every chunk
MAX_TEXT = 1 << 16  # characters of an element or attribute that are kept
MAX_OPEN = 300  # elements within each other
MAX_ELEMENTS = 2**16  # XML elements of one layer, without the layers in its bodies
LAYER_BYTES, CONSTANT_BYTES, DIM_BYTES = 1400, 500, 20  # memory that each takes
MAX_CONSTANT = 8  # elements: output sizes and axes are a few integers
STRUCT_CODES = {"i64": "q", "i32": "i", "u64": "Q", "u32": "I"}


def read_ir(path: str, given: Mapping[str, tuple[int, ...]], limit: int | None = None) -> list[Layer]:
    """Read the pooling layers, in the order of the file; a RequestError if it is invalid or takes more than `limit`."""
    reader = _Reader(path, limit)
    parser: Any = ElementTree.XMLPullParser(("start", "end"))  # expat itself limits what entities expand to
    try:
        with open(path, "rb") as stream:
            while data := stream.read(READ_SIZE):
                parser.feed(data)
                reader.take(parser.read_events())
        parser.close()
        reader.take(parser.read_events())
    except RequestError:
        raise
    except ElementTree.ParseError as error:
        raise RequestError(f"{path}: not well-formed XML: {error}") from None
    except (LookupError, ValueError):
        raise RequestError(f"{path}: XML in an encoding that is not read; models are written in utf-8") from None
    if not reader.is_model:
        raise RequestError(f"{path}: not an OpenVINO IR: there is no <net> or <layer> in it")
    layers = [layer for _, layer in sorted(reader.layers, key=lambda pair: pair[0])]
    return reshape_layers(path, layers, given) if given else _with_inferred_shapes(path, layers)


@dataclass
class _Scope:
    """The graph of the model, or the body of a layer. Layer ids are unique within it."""

    prefix: str
    pools: list[tuple[int, RawLayer]] = dataclass_field(default_factory=list)
    constants: dict[str, Mapping[str, str]] = dataclass_field(default_factory=dict)
    sources: dict[tuple[str, str], str] = dataclass_field(default_factory=dict)
    asking: set[str] = dataclass_field(default_factory=set)  # ids of layers whose second input is needed


class _Reader:
    """Collects layers while the file is parsed, and removes finished elements from the tree."""

    def __init__(self, path: str, limit: int | None) -> None:
        self.path, self.is_model = path, False
        self.limit, self.memory = limit, 0  # bytes: allowed, and used
        self.layers: list[tuple[int, Layer]] = []
        self.scopes = [_Scope("")]
        self.open: list[tuple[Element, int]] = []  # each with the number of elements before it
        self.kept = 0  # elements in the tree
        self.names: list[str] = []  # of open layers
        self.count = 0

    def take(self, events: Iterable[tuple[str, Element]]) -> None:
        """Follow the events of the parser."""
        for event, element in events:
            if event == "start":
                self._start(element)
            else:
                self._end(element)

    def _start(self, element: Element) -> None:
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

    def _end(self, element: Element) -> None:
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
        rules = KINDS.get(kind.lower())
        if kind == "Const":
            if (_elements(data) or 0) <= MAX_CONSTANT:
                scope.constants[identity] = data
                self._count(CONSTANT_BYTES, data)
        elif rules or pools_by_name(kind):
            ports, outputs = element.findall("input/port"), element.findall("output/port")
            found = RawLayer(
                identity, name, kind, element.get("version", ""), data,
                [port.get("id", "") for port in ports], list(map(_shape, ports)), list(map(_shape, outputs)),
            )  # fmt: skip
            scope.pools.append((self.count, found))
            self._count(LAYER_BYTES + DIM_BYTES * len(element.findall("*/port/dim")), data)
            self.count += 1
            if rules and rules.make is None:
                scope.asking.add(identity)

    def _count(self, size: int, data: Mapping[str, str]) -> None:
        """Count memory; refuse more than the limit."""
        self.memory += size + sum(map(len, data.values()))
        if self.limit is not None and self.memory > self.limit:
            raise RequestError(
                f"{self.path}: its layers take more memory than the limit, {human_bytes(self.limit)}; "
                f"raise {field('max_memory')}"
            )

    def _end_scope(self, scope: _Scope) -> None:
        for count, found in scope.pools:
            second = scope.sources.get((found.id, found.ports[1] if len(found.ports) > 1 else ""))
            layer = layer_of(found, partial(self._integers, scope.constants.get(second or "")))
            if layer:
                self.layers.append((count, layer))
        scope.pools = []
        if len(self.scopes) > 1:
            self.scopes.pop()

    def _integers(self, source: Mapping[str, str] | None) -> tuple[int, ...]:
        """The integers of a constant, from the .bin file of the model.

        Like OpenVINO, it reads as many elements as the shape has, even if there are more bytes. An InvalidError if
        OpenVINO refuses the constant, a RequestError if the integers are not known.
        """
        weights = Path(self.path).with_suffix(".bin")
        if source is None:
            raise RequestError("is computed by other layers; only constants are read")
        if not weights.is_file():
            raise RequestError(f"is a constant in {weights.name}, which is not beside the model; put it there")
        element, offset, size = (source.get(name, "") for name in ("element_type", "offset", "size"))
        code, begin, length = STRUCT_CODES.get(element), number(offset), number(size)
        if code is None:
            raise RequestError(f"is a constant of {element[:20] or 'no type'}; {', '.join(STRUCT_CODES)} are read")
        needed = (_elements(source) or 0) * struct.calcsize(code)
        if begin is None or not length or length < needed or length % struct.calcsize(code):
            shape = source.get("shape", "")[:20]
            raise InvalidError(
                f"the Const has offset={offset[:20]!r}, size={size[:20]!r} for {element} of shape {shape!r}"
            )
        if begin + length > (total := weights.stat().st_size):
            raise InvalidError(f"the Const ends at byte {begin + length:,} of {weights.name}, which has {total:,}")
        try:
            with open(weights, "rb") as stream:
                stream.seek(begin)
                data = stream.read(needed or length)
        except OSError as error:
            raise RequestError(f"{weights}: {error.strerror or error}") from None
        return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


def _elements(constant: Mapping[str, str]) -> int | None:
    """The number of elements of a constant; None without a valid shape."""
    text = constant.get("shape")
    if text is None:
        return None
    lengths = [number(each) for each in text.split(",") if each.strip()]
    return None if None in lengths else prod(each for each in lengths if each is not None)


def number(text: str) -> int | None:
    """Parse an integer of up to 18 digits; None for any other text."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text.strip()) else None


def _shape(port: Element) -> Shape:
    return tuple(_dim((each.text or "")[:MAX_TEXT]) for each in port.iterfind("dim"))


@lru_cache(maxsize=1024)
def _dim(text: str) -> Dim:
    """A length; one that is missing or not positive is dynamic."""
    text = text.strip()
    found = number(text)
    if found is not None:
        return found or "?"
    return "?" if not text or re.fullmatch(r"-[0-9]+", text) else text
