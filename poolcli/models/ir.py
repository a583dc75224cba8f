"""Pooling layers of an OpenVINO IR, read as a stream: nothing is kept but those layers and small constants."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any
from xml.parsers import expat

from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.models.ir_layers import KINDS, UNCHECKED, Found, layer_of
from poolcli.models.layer import Dim, InvalidError, Layer, Shape
from poolcli.system.lazy_imports import need


def reshaped(path: str, layers: Sequence[Layer], given: Mapping[str, tuple[int, ...]]) -> list[Layer]:
    """The layers with the input shapes that follow from lengths of the model's inputs."""
    (frontend,) = need("openvino.frontend", why=f"{path}: {field('input_shape')} of an IR needs openvino")
    reader = frontend.FrontEndManager().load_by_framework("ir")  # others would try too, and write what they think of it
    try:
        model = reader.convert(reader.load(path))
    except RuntimeError as error:
        raise RequestError(f"{path}: OpenVINO cannot read it: {_last(error)}") from None
    inputs = {name: port for port in model.inputs for name in (port.node.friendly_name, *port.names)}
    unknown = [name for name in given if name not in inputs]
    if unknown:
        raise RequestError(f"{path}: no input is called {unknown[0]}; there are: {', '.join(inputs)[:200]}")
    try:
        model.reshape({inputs[name]: list(lengths) for name, lengths in given.items()})
    except RuntimeError as error:
        raise RequestError(f"{path}: OpenVINO takes no such lengths: {_last(error)}") from None
    shapes = dict(_shapes(model, ""))
    return [_moved(layer, shapes.get(layer.name)) for layer in layers]


def _shapes(model: Any, scope: str) -> Iterator[tuple[str, Shape]]:
    """The shape of the first input of every layer that has a rank, by name; of bodies after what they are in."""
    for node in model.get_ordered_ops():
        for name, body in _bodies(node):
            yield from _shapes(body, f"{scope}{node.friendly_name}/{name}/")
        if node.get_input_size():
            partial = node.input(0).get_partial_shape()
            if partial.rank.is_static:
                yield scope + node.friendly_name, tuple(dim.get_length() if dim.is_static else "?" for dim in partial)


def _bodies(node: Any) -> Iterator[tuple[str, Any]]:
    """The models that a node holds, each by its tag in an IR."""
    kind = node.get_type_name()
    if kind == "If":
        yield from (("then_body", node.get_function(0)), ("else_body", node.get_function(1)))
    elif kind in ("Loop", "TensorIterator"):
        yield "body", node.get_function()


def _moved(layer: Layer, shape: Shape | None) -> Layer:
    if shape is None or layer.input_shape is None:
        return layer
    other = any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(shape, layer.input_shape, strict=False)
    )
    return replace(layer, input_shape=shape, moved=other)


def _last(error: RuntimeError) -> str:
    """The last line of a message that has many."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no reason given"


LARGEST = 1 << 32  # bytes of XML
AT_ONCE = 2**20  # bytes; the parser looks through a name again with every piece of it that comes
LONGEST_TEXT = 1 << 16  # characters of one element or attribute that is kept
DEEPEST = 100  # bodies within bodies
CONSTANT = 8  # elements; output sizes and axes are a few integers
CODES = {"i64": "q", "i32": "i", "u64": "Q", "u32": "I"}
ENCODINGS = ("utf-8", "utf-16", "iso-8859-1", "us-ascii", "ascii", "latin-1")


def read_ir(path: str, given: Mapping[str, tuple[int, ...]]) -> list[Layer]:
    """The pooling layers of the model, in the order of the file; a RequestError where it cannot be read."""
    size = Path(path).stat().st_size
    if size > LARGEST:
        raise RequestError(f"{path}: {size:,} bytes of XML; models of up to {LARGEST:,} are read")
    reader = _Reader(path)
    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.text
    parser.XmlDeclHandler = _check_encoding(path)
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _refuse(path)
    parser.buffer_text = True
    try:
        with open(path, "rb") as stream:
            while data := stream.read(AT_ONCE):
                parser.Parse(data, False)
            parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise RequestError(f"{path}: not well-formed XML: {error}") from None
    if not reader.is_model:
        raise RequestError(f"{path}: no OpenVINO IR: there is no <net> or <layer> in it")
    layers = [layer for _, layer in sorted(reader.layers, key=lambda pair: pair[0])]
    if not given:
        return layers
    return reshaped(path, layers, given)


def _refuse(path: str) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise RequestError(f"{path}: holds a DOCTYPE or an entity, which a model never needs; remove it")

    return refuse


def _check_encoding(path: str) -> Callable[[str, str | None, int], None]:
    """Refuses encodings that Python would have to be asked for, which it knows strange ones of."""

    def check(version: str, encoding: str | None, standalone: int) -> None:
        if encoding is not None and encoding.lower() not in ENCODINGS:
            raise RequestError(f"{path}: not well-formed XML: encoding {encoding[:40]!r}; models are written in utf-8")

    return check


@dataclass
class _Scope:
    """The graph of the model, or the body of a layer: identities of layers hold within it."""

    prefix: str
    outer: Found | None
    layer: Found | None = None
    found: list[tuple[int, Found]] = dataclass_field(default_factory=list)
    constants: dict[str, Mapping[str, str]] = dataclass_field(default_factory=dict)
    sources: dict[tuple[str, str], str] = dataclass_field(default_factory=dict)
    asking: set[str] = dataclass_field(default_factory=set)  # the layers whose second input is looked for


class _Reader:
    """Gathers layers while the parser goes through the file."""

    def __init__(self, path: str) -> None:
        self.path, self.is_model = path, False
        self.layers: list[tuple[int, Layer]] = []
        self.scopes = [_Scope("", None)]
        self.count = 0
        self.shapes: list[Shape] | None = None
        self.dims: list[Dim] | None = None
        self.words: list[str] | None = None

    @property
    def scope(self) -> _Scope:
        return self.scopes[-1]

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        layer = self.scope.layer
        if tag in ("net", "layer"):
            self.is_model = True
        if tag == "layer":
            self._start_layer(attributes)
        elif tag.endswith("body"):
            self._start_body(tag)
        elif tag == "edge" and attributes.get("to-layer") in self.scope.asking:
            key = attributes["to-layer"], attributes.get("to-port", "")
            self.scope.sources[key] = attributes.get("from-layer", "")
        elif layer is not None and layer.kept:
            if tag == "data":
                layer.data = {name: value[:LONGEST_TEXT] for name, value in attributes.items()}
            elif tag in ("input", "output"):
                self.shapes = layer.inputs if tag == "input" else layer.outputs
            elif tag == "port" and self.shapes is not None:
                self.dims = []
                if self.shapes is layer.inputs:
                    layer.ports.append(attributes.get("id", ""))
            elif tag == "dim" and self.dims is not None:
                self.words = []

    def _start_layer(self, attributes: Mapping[str, str]) -> None:
        name, kind = attributes.get("name", attributes.get("id", "")), attributes.get("type", "")
        layer = Found(attributes.get("id", ""), self.scope.prefix + name, kind, attributes.get("version", ""))
        rules = KINDS.get(kind.lower())
        layer.kept = kind == "Const" or rules is not None or kind.lower() in UNCHECKED
        if rules and rules.asks:
            self.scope.asking.add(layer.id)
        self.scope.layer = layer

    def _start_body(self, tag: str) -> None:
        if len(self.scopes) > DEEPEST:
            raise RequestError(f"{self.path}: more than {DEEPEST} bodies within each other")
        outer = self.scope.layer
        name = outer.name[:LONGEST_TEXT] if outer else ""
        self.scopes.append(_Scope(f"{name}/{tag}/", outer))
        self.shapes = self.dims = self.words = None

    def text(self, words: str) -> None:
        if self.words is not None and len(self.words) < LONGEST_TEXT:
            self.words.append(words)

    def end(self, tag: str) -> None:
        if tag == "dim" and self.words is not None and self.dims is not None:
            self.dims.append(_dim("".join(self.words)))
            self.words = None
        elif tag == "port" and self.dims is not None and self.shapes is not None:
            self.shapes.append(tuple(self.dims))
            self.dims = None
        elif tag in ("input", "output"):
            self.shapes = None
        elif tag == "layer" and self.scope.layer is not None:
            self._end_layer(self.scope.layer)
        elif tag == "net" or (tag.endswith("body") and len(self.scopes) > 1):
            self._end_scope()

    def _end_layer(self, layer: Found) -> None:
        if layer.type == "Const":
            if (_elements(layer.data) or 0) <= CONSTANT:
                self.scope.constants[layer.id] = layer.data
        elif layer.kept:
            self.scope.found.append((self.count, layer))
            self.count += 1
        self.scope.layer = None

    def _end_scope(self) -> None:
        scope = self.scope
        for count, found in scope.found:
            second = scope.sources.get((found.id, found.ports[1] if len(found.ports) > 1 else ""))
            layer = layer_of(found, partial(self._integers, scope.constants.get(second or "")))
            if layer:
                self.layers.append((count, layer))
        scope.found = []
        if len(self.scopes) > 1:
            self.scopes.pop()

    def _integers(self, source: Mapping[str, str] | None) -> tuple[int, ...]:
        """The integers of a constant, from the .bin beside the model.

        As OpenVINO, it reads as many elements as the shape of the constant has, which may be fewer than its bytes hold.
        An InvalidError where OpenVINO refuses the model for it, a RequestError where the integers cannot be known.
        """
        weights = Path(self.path).with_suffix(".bin")
        if source is None:
            raise RequestError("is computed by other layers; only constants are read")
        if not weights.is_file():
            raise RequestError(f"is a constant in {weights.name}, which is not beside the model; put it there")
        element, offset, size = (source.get(name, "") for name in ("element_type", "offset", "size"))
        code, begin, length = CODES.get(element), number(offset), number(size)
        if code is None:
            raise RequestError(f"is a constant of {element[:20] or 'no type'}; {', '.join(CODES)} are read")
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
    """How many elements the shape of a constant has; None where it has none that is written in numbers."""
    text = constant.get("shape")
    if text is None:
        return None
    lengths = [number(each) for each in text.split(",") if each.strip()]
    return None if None in lengths else prod(each for each in lengths if each is not None)


def number(text: str) -> int | None:
    """The number that a text of digits is; None for any other, and for one that no file is as long as."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text.strip()) else None


@lru_cache(maxsize=1024)
def _dim(text: str) -> Dim:
    """A length; what is not positive or not there is dynamic."""
    text = text.strip()
    found = number(text)
    if found is not None:
        return found or "?"
    return "?" if not text or re.fullmatch(r"-[0-9]+", text) else text
