"""Reads the pooling layers of an OpenVINO IR (.xml): its XML, constants in its weights, and the shapes that OpenVINO
infers for given lengths.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from poolcli.errors import RequestError
from poolcli.formats.checks import human_bytes
from poolcli.message_fields import field
from poolcli.models import layer as shared
from poolcli.models.ir_layers import KINDS, interpret
from poolcli.models.layer import Dim, Given, InvalidError, Layer, Shape
from poolcli.system.lazy_imports import need

READ_SIZE = 2**20  # bytes; large, because the parser scans a long name again with every chunk
MAX_TEXT = 1 << 16  # characters of an attribute that are kept
MAX_BODIES = 100  # within each other
ITEM_BYTES, LAYER_ITEMS = 200, 10  # of an element or attribute, and their number in what a layer becomes
DEFAULT_MEMORY = 2**30  # bytes of the tree without a limit
MAX_CONSTANT = 8  # elements: output sizes and axes are a few integers
STRUCT_CODES = {"i64": "q", "i32": "i", "u64": "Q", "u32": "I"}


def read(path: str, given: Given, limit: int | None = None) -> list[Layer]:
    """Read the pooling layers, in the order of the file; a RequestError if it is invalid or takes more than `limit`."""
    try:
        root = _parse(path, DEFAULT_MEMORY if limit is None else limit)
    except RequestError:
        raise
    except ElementTree.ParseError as error:
        raise RequestError(f"{path}: not well-formed XML: {error}") from None
    except (LookupError, ValueError):
        raise RequestError(f"{path}: XML in an encoding that is not read; models are written in utf-8") from None
    if root.tag != "net":
        raise RequestError(f"{path}: not an OpenVINO IR: its root is not <net>")
    layers = list(_layers(path, root))
    return _inferred(path, layers, given) if given else layers


def _parse(path: str, limit: int) -> Element:
    """The XML of the model."""
    # Elements and attributes in the tree, at first as many as its text takes, and at last its root.
    kept, element = os.path.getsize(path) // ITEM_BYTES, Element("")
    with open(path, "rb") as stream:
        source: Any = SimpleNamespace(read=lambda size: stream.read(READ_SIZE))
        for _, element in ElementTree.iterparse(source):  # noqa: S314  # expat limits what entities expand to
            kept += 1 + len(element.keys()) + (LAYER_ITEMS if element.tag == "layer" else 0)
            if kept * ITEM_BYTES > limit:
                most = human_bytes(limit)
                raise RequestError(
                    f"{path}: its layers take more memory than the limit, {most}; raise {field('max_memory')}"
                )
    return element


def _layers(path: str, net: Element, scope: str = "", depth: int = 0) -> Iterator[Layer]:
    """The pooling layers of the model, or of the body of a layer; ids of layers are unique within it.

    `scope` is the prefix of their names.
    """
    if depth > MAX_BODIES:
        raise RequestError(f"{path}: more than {MAX_BODIES} bodies within each other")
    sources = {
        (edge.get("to-layer"), edge.get("to-port")): edge.get("from-layer") for edge in net.iterfind("edges/edge")
    }
    constants = {each.get("id"): each for each in net.iterfind("layers/layer[@type='Const']")}
    for element in net.iterfind("layers/layer"):
        name = scope + element.get("name", element.get("id", ""))[:MAX_TEXT]
        for body in element:
            if body.tag.endswith("body"):
                yield from _layers(path, body, f"{name}/{body.tag}/"[-shared.MAX_NAME :], depth + 1)
        kind = element.get("type", "")
        if not (kind.lower() in KINDS or shared.pools_by_name(kind)):
            continue
        ports = element.findall("input/port")
        second = ports[1].get("id") if len(ports) > 1 else None
        constant = constants.get(sources.get((element.get("id"), second)))
        stated = Layer(
            name=name,
            type=kind,
            version=element.get("version", ""),
            framework="OpenVINO",
            given={key: value[:MAX_TEXT] for key, value in _data(element).items()},
            input_shape=_shape(ports),
            stated_input=_shape(ports),
            declared_shape=_shape(element.findall("output/port")),
        )
        layer = shared.interpreted(stated, partial(interpret, second=partial(_integers, path, constant)))
        if layer:
            yield layer


def _data(layer: Element) -> dict[str, str]:
    """The attributes of a layer."""
    described = layer.find("data")
    return {} if described is None else described.attrib


def _shape(ports: list[Element]) -> Shape | None:
    dims = ports[0].iterfind("dim") if ports else ()
    return tuple(_dim((each.text or "")[:MAX_TEXT].strip()) for each in dims) or None


def _dim(text: str) -> Dim:
    """A length; one that is missing or not positive is dynamic."""
    found = _number(text)
    if found is not None:
        return found or "?"
    return "?" if not text or re.fullmatch(r"-[0-9]+", text) else text


def _number(text: str) -> int | None:
    """Parse an integer of up to 18 digits; None for any other text."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text.strip()) else None


def _integers(path: str, constant: Element | None, what: str) -> tuple[int, ...]:
    """The integers of a constant, from the .bin file of the model; messages name them as `what`.

    Like OpenVINO, it reads as many elements as the shape has, even if there are more bytes. An InvalidError if OpenVINO
    refuses the constant, a RequestError if the integers are not known.
    """
    if constant is None:
        raise RequestError(f"{what} is computed by other layers; only constants are read")
    data = _data(constant)
    element, offset, size = (data.get(name, "") for name in ("element_type", "offset", "size"))
    code, begin, length = STRUCT_CODES.get(element), _number(offset), _number(size) or 0
    if code is None:
        raise RequestError(f"{what} is a constant of {element[:20] or 'no type'}, not of {', '.join(STRUCT_CODES)}")
    width, weights = struct.calcsize(code), Path(path).with_suffix(".bin")
    lengths = [each for each in data.get("shape", "0").split(",") if each.strip()]  # of a number: none
    needed = prod(_number(each) or 0 for each in lengths) * width  # 0 without a valid shape
    if (needed or length) > MAX_CONSTANT * width:
        raise RequestError(f"{what} is a constant of {(needed or length) // width} numbers, too many to be read")
    if not weights.is_file():
        raise RequestError(f"{what} is a constant in {weights.name}, which is not beside the model; put it there")
    total = weights.stat().st_size
    if begin is None or not length or length < needed or length % width or begin + length > total:
        stated = f"offset={offset[:20]!r}, size={size[:20]!r}, shape={data.get('shape', '')[:20]!r} of {element}"
        raise InvalidError(f"{what}: the Const has {stated}, and {weights.name} {total:,} bytes")
    try:
        with open(weights, "rb") as stream:
            stream.seek(begin)
            found = stream.read(needed or length)
    except OSError as error:
        raise RequestError(f"{weights}: {error.strerror or error}") from None
    return struct.unpack(f"<{len(found) // width}{code}", found)


def _inferred(path: str, layers: list[Layer], given: Given) -> list[Layer]:
    """The layers with the input shapes that OpenVINO infers from `given` lengths of the model's inputs."""
    (frontend,) = need("openvino.frontend", why=f"{path}: {field('input_shape')} of an IR needs openvino")
    # Only this frontend: the others would try to read the file too, and write warnings.
    reader = frontend.FrontEndManager().load_by_framework("ir")
    try:
        model = reader.convert(reader.load(path))
    except RuntimeError as error:
        raise RequestError(f"{path}: OpenVINO cannot read it: {_last_line(error)}") from None
    inputs = {name: port for port in model.inputs for name in (port.node.friendly_name, *port.names)}
    declared = {name: _lengths(port.get_partial_shape()) for name, port in inputs.items()}
    named = shared.named_lengths(path, given, [port.node.friendly_name for port in model.inputs], declared)
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
        if node.get_input_size() and (shape := _lengths(node.input(0).get_partial_shape())):
            yield scope + node.friendly_name, shape


def _lengths(shape: Any) -> Shape:
    """The lengths of a shape of OpenVINO; none of one without a known rank."""
    return tuple(dim.get_length() if dim.is_static else "?" for dim in shape) if shape.rank.is_static else ()


def _last_line(error: RuntimeError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no reason given"
