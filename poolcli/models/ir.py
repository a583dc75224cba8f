"""Pooling layers of an OpenVINO IR, read as a stream: nothing is kept but pooling layers and small constants."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.parsers import expat

from poolcli.core.errors import RequestError
from poolcli.core.fields import on_command_line
from poolcli.models.layer import Dim, Layer, operators_of
from poolcli.plan.attributes import Attributes, BinAttributes, DividingAttributes

LARGEST = 1 << 32  # bytes of XML
AT_ONCE = 2**20  # bytes; the parser looks through a name again with every piece of it that comes
LONGEST_TEXT = 1 << 16  # characters of one element or attribute that is kept
CONSTANT = 64  # bytes; output sizes are a few integers
OPERATORS_THERE = operators_of("openvino")
REQUIRED = ("kernel", "strides", "pads_begin", "pads_end")


def read_ir(path: str) -> list[Layer]:
    """The pooling layers of the model, in the order of the file; a RequestError where it cannot be read."""
    size = Path(path).stat().st_size
    if size > LARGEST:
        raise RequestError(f"{path}: {size:,} bytes of XML; models of up to {LARGEST:,} are read")
    reader = _Reader(path)
    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.text
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
    return reader.layers()


def _refuse(path: str) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise RequestError(f"{path}: holds a DOCTYPE or an entity, which a model never needs; remove it")

    return refuse


class _Reader:
    """Gathers layers while the parser goes through the file."""

    def __init__(self, path: str) -> None:
        self.path, self.is_model = path, False
        self.found: list[dict[str, Any]] = []
        self.constants: dict[str, dict[str, str]] = {}
        self.sources: dict[tuple[str, str], str] = {}
        self.adaptive: set[str] = set()
        self.layer: dict[str, Any] | None = None
        self.shapes: list[tuple[Dim, ...]] | None = None
        self.dims: list[Dim] | None = None
        self.words: list[str] | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in ("net", "layer"):
            self.is_model = True
        if tag == "layer":
            kind = attributes.get("type", "")
            pooling = kind in OPERATORS_THERE
            self.layer = {"attributes": attributes, "data": {}, "input": [], "output": []}
            self.layer["keep"] = pooling or kind == "Const"
            if pooling and issubclass(OPERATORS_THERE[kind][0], BinAttributes):
                self.adaptive.add(attributes.get("id", ""))
        elif self.layer is not None and self.layer["keep"]:
            if tag == "data":
                self.layer["data"] = {k: v[:LONGEST_TEXT] for k, v in attributes.items()}
            elif tag in ("input", "output"):
                self.shapes = self.layer[tag]
            elif tag == "port" and self.shapes is not None:
                self.dims = []
            elif tag == "dim" and self.dims is not None:
                self.words = []
        elif tag == "edge" and attributes.get("to-layer") in self.adaptive:
            self.sources[attributes["to-layer"], attributes.get("to-port", "")] = attributes.get("from-layer", "")

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
        elif tag == "layer" and self.layer is not None:
            attributes, data = self.layer["attributes"], self.layer["data"]
            if attributes.get("type") == "Const":
                if int(data.get("size", "0") or 0) <= CONSTANT:
                    self.constants[attributes.get("id", "")] = data
            elif self.layer["keep"]:
                self.found.append(self.layer)
            self.layer = None

    def layers(self) -> list[Layer]:
        """What was found; output sizes of adaptive layers come from the weights beside the model, where they lie."""
        return [self._layer(found) for found in self.found]

    def _layer(self, found: dict[str, Any]) -> Layer:
        attributes, data = found["attributes"], found["data"]
        kind = attributes["type"]
        op, problem = None, None
        try:
            op = _operator(kind, data, self._output_size(found))
        except RequestError as error:
            problem = on_command_line(error.message)
        unknown = [name for name in data if name not in OPERATORS_THERE[kind][1].takes]
        warnings = [f"attribute {name} is not one of {kind}'s and is ignored" for name in unknown]
        return Layer(
            name=attributes.get("name", attributes.get("id", "")),
            type=kind,
            version=attributes.get("version", ""),
            op=op,
            problem=problem,
            given=data,
            input_shape=found["input"][0] if found["input"] else None,
            declared_shape=found["output"][0] if found["output"] else None,
            warnings=tuple(warnings),
        )

    def _output_size(self, found: dict[str, Any]) -> tuple[int, ...] | None:
        """The constant at the second input, from the .bin beside the model."""
        source = self.constants.get(self.sources.get((found["attributes"].get("id", ""), "1"), ""))
        weights = Path(self.path).with_suffix(".bin")
        if source is None or not weights.is_file():
            return None
        kinds = {"i64": "q", "i32": "i", "u64": "Q", "u32": "I"}
        code = kinds.get(source.get("element_type", ""))
        offset, size = int(source.get("offset", "0")), int(source.get("size", "0"))
        if code is None or size % struct.calcsize(code):
            return None
        with open(weights, "rb") as stream:
            stream.seek(offset)
            content = stream.read(size)
        if len(content) != size:
            return None
        return struct.unpack(f"<{size // struct.calcsize(code)}{code}", content)


def _dim(text: str) -> Dim:
    text = text.strip()
    try:
        number = int(text)
    except ValueError:
        return text or None
    return number if number >= 0 else "?"


def _operator(kind: str, data: dict[str, str], output_size: tuple[int, ...] | None) -> Attributes:
    record = OPERATORS_THERE[kind][0]
    types: dict[str, Any] = {}
    if record.reducer.picks:
        types["index_element_type"] = data.get("index_element_type", "i64")
    if not issubclass(record, BinAttributes):
        return record(**_sliding(kind, data, issubclass(record, DividingAttributes)), **types)
    if output_size is None:
        raise RequestError("its output size is a second input that is no constant in a .bin beside the model")
    return record(output_size, **types)


def _sliding(kind: str, data: dict[str, str], divides: bool) -> dict[str, Any]:
    """The attributes of sliding windows."""
    for name in REQUIRED:
        if name not in data:
            raise RequestError(f"{kind} has no attribute {name}")
    given: dict[str, Any] = {name: _numbers(name, data[name]) for name in REQUIRED}
    given |= {
        "dilations": _numbers("dilations", data["dilations"]) if data.get("dilations") else 1,
        "auto_pad": data.get("auto_pad", "explicit").lower(),
        "rounding_type": data.get("rounding_type", "floor").lower(),
    }
    if divides:
        word = data.get("exclude-pad")
        if word is None:
            raise RequestError(f"{kind} has no attribute exclude-pad")
        return given | {"exclude_pad": word.lower() in ("true", "1")}
    axis = int(data["axis"]) if data.get("axis", "").lstrip("-").isdigit() else None
    return given | {"axis": axis}


def _numbers(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise RequestError(f"attribute {name} is {text[:40]!r}, whole numbers are needed") from None
