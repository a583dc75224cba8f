"""Reads the pooling layers of an OpenVINO IR (.xml) as a stream: only they and small constants stay in memory."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from poolcli.errors import RequestError
from poolcli.formats.checks import human_bytes
from poolcli.message_fields import field as words_of
from poolcli.models.ir_layers import KINDS, interpret, reads_second_input
from poolcli.models.layer import (
    Dim,
    Given,
    InvalidError,
    Layer,
    Shape,
    first_contradiction,
    interpreted,
    named_lengths,
    pools_by_name,
    with_warnings_after_a_contradiction,
)
from poolcli.system.lazy_imports import need

READ_SIZE = 2**20  # bytes; large, because the parser scans a long name again with every chunk
MAX_TEXT = 1 << 16  # characters of an element or attribute that are kept
MAX_OPEN = 300  # elements within each other
MAX_ELEMENTS = 2**16  # XML elements of one layer, without the layers in its bodies
LAYER_BYTES, DIM_BYTES = 1400, 20  # memory that each takes; a constant takes less than a layer
MAX_CONSTANT = 8  # elements: output sizes and axes are a few integers
STRUCT_CODES = {"i64": "q", "i32": "i", "u64": "Q", "u32": "I"}
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
    layers = [layer for _, layer in sorted(reader.layers, key=lambda pair: pair[0])]
    if given:
        return _inferred(path, layers, given, f"{words_of('input_shape')} of an IR needs openvino")
    if any(layer.invalid for layer in layers) or first_contradiction(layers) is None:
        return layers
    try:  # what follows a layer that differs has other shapes than the file states
        return _inferred(path, layers, {}, "it infers what follows a layer that differs")
    except RequestError as error:
        return with_warnings_after_a_contradiction(layers, f": {error.message.removeprefix(f'{path}: ')}")


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
    pools: list[tuple[int, str, str, Layer]] = field(default_factory=list)  # number, id, port of the second input
    constants: dict[str, Data] = field(default_factory=dict)
    sources: dict[tuple[str, str], str] = field(default_factory=dict)
    asking: set[str] = field(default_factory=set)  # ids of layers whose second input is needed


class _Reader:
    """Collects layers while the file is parsed, and removes finished elements from the tree."""

    def __init__(self, path: str, limit: int | None) -> None:
        self.path, self.is_model = path, False
        self.limit, self.memory = limit, 0  # bytes: allowed, and used
        self.layers: list[tuple[int, Layer]] = []
        self.count = 0  # of layers that pool
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
            scope.pools.append((self.count, identity, ports[1].get("id", "") if len(ports) > 1 else "", layer))
            self.count += 1
            if reads_second_input(kind):
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
        for count, identity, port, stated in scope.pools:
            constant = scope.constants.get(scope.sources.get((identity, port), ""))
            layer = interpreted(stated, partial(interpret, second=partial(self._integers, constant)))
            if layer:
                self.layers.append((count, layer))
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
        code, begin, length = STRUCT_CODES.get(element), _number(offset), _number(size)
        if code is None:
            known = ", ".join(STRUCT_CODES)
            raise RequestError(f"{what} is a constant of {element[:20] or 'no type'}; {known} are read")
        needed = (_elements(source) or 0) * struct.calcsize(code)
        if begin is None or not length or length < needed or length % struct.calcsize(code):
            stated = (
                f"offset={offset[:20]!r}, size={size[:20]!r} for {element} of shape {source.get('shape', '')[:20]!r}"
            )
            raise InvalidError(f"{what}: the Const has {stated}")
        if begin + length > (total := weights.stat().st_size):
            end = f"byte {begin + length:,} of {weights.name}, which has {total:,}"
            raise InvalidError(f"{what}: the Const ends at {end}")
        try:
            with open(weights, "rb") as stream:
                stream.seek(begin)
                data = stream.read(needed or length)
        except OSError as error:
            raise RequestError(f"{weights}: {error.strerror or error}") from None
        return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


def _elements(constant: Data) -> int | None:
    """The number of elements of a constant; None without a valid shape."""
    text = constant.get("shape")
    lengths = [] if text is None else [_number(each) for each in text.split(",") if each.strip()]
    return None if text is None or None in lengths else prod(each for each in lengths if each is not None)


def _number(text: str) -> int | None:
    """Parse an integer of up to 18 digits; None for any other text."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text.strip()) else None


def _shape(ports: list[Element]) -> Shape | None:
    """The shape of the first port; None if there is none."""
    dims = ports[0].iterfind("dim") if ports else ()
    return tuple(_dim((each.text or "")[:MAX_TEXT].strip()) for each in dims) or None


def _dim(text: str) -> Dim:
    """A length; one that is missing or not positive is dynamic."""
    found = _number(text)
    if found is not None:
        return found or "?"
    return "?" if not text or re.fullmatch(r"-[0-9]+", text) else text
