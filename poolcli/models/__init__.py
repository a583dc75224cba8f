"""Checks a model file (`poolcli check`, `poolcli.check`): recognises its format, and compares the declared shape of
each pooling layer with the computed one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import Literal, cast

from poolcli.arguments import MAX_INT, one_of, whole_number
from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.explain.compare_dialects import compare_dialects, deviations
from poolcli.explain.export import WRITERS, convert
from poolcli.formats.checks import memory_limit_of
from poolcli.layouts import default_layout
from poolcli.message_fields import field, marked, marked_message, option_value
from poolcli.models.layer import (
    EXPORT_FROZEN,
    EXPORT_KERAS,
    EXPORT_SAVED,
    EXPORT_TORCH,
    Dim,
    InferredShape,
    Layer,
    NotOnnxError,
    Shape,
    how_to_fix_lengths,
    in_framework_terms,
    infer_shape,
    is_number,
    stored_shape,
    without_indices,
)
from poolcli.plan import Plan
from poolcli.plan.attributes import Attributes, SlidingAttributes
from poolcli.suggestions import did_you_mean, did_you_mean_file
from poolcli.system.limits import parse_size

MAX_LISTED = 10  # layer names in a message
Verdict = Literal["agrees", "differs", "invalid", "computed", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one pooling layer.

    Attributes
    ----------
    layer : Layer
        What the file says: name, type, version, attributes, shapes.
    computed : tuple or None
        Output shape; dynamic dimensions are names, or formulas of them.
    verdict : {"agrees", "differs", "invalid", "computed", "unknown"}
        `agrees`: every declared length equals the computed one. `differs`: one does not. `invalid`: the framework
        refuses the layer, or crashes on it. `computed`: nothing is declared. `unknown`: the shape cannot be computed.
    reason : str or None
        Why it is not `agrees`.
    warnings : tuple of str
        Attributes that the framework ignores, and other remarks.
    """

    layer: Layer
    computed: Shape | None
    verdict: Verdict
    reason: str | None
    warnings: tuple[str, ...]


def check(
    model: str | os.PathLike[str],
    *,
    input_shape: Mapping[str, Sequence[int]] | None = None,
    against: str | None = None,
    layer: str | None = None,
    max_memory: int | str | None = None,
) -> list[Finding]:
    """Recompute the output shape of each pooling layer of a model and compare it with the declared one.

    Parameters
    ----------
    model : str or path
        OpenVINO IR (`.xml`), ONNX, TensorFlow Lite, or an archive of torch.export.
    input_shape : mapping of str to sequence of int, optional
        Shapes of the model's inputs, by name, in place of dynamic dimensions.
    against : {"openvino", "ngraph", "onnx", "pytorch", "tensorflow"}, optional
        Framework whose interpretation of the same attributes is added to the warnings.
    layer : str, optional
        Name of the only layer to check.
    max_memory : int or str, optional
        Memory that reading the model may take, in bytes or as "2G". Default: no limit, except that a file of less than
        1 MiB may take 768 MiB.

    Returns
    -------
    list of Finding
        One per layer, in the order of the file.

    Raises
    ------
    RequestError
        For another kind of file, and for a layer that is not in it.

    Examples
    --------
    >>> [(finding.layer.type, finding.verdict) for finding in check("samples/backbone.xml")]
    [('MaxPool', 'agrees'), ('AvgPool', 'agrees'), ('AvgPool', 'agrees')]
    """
    path, allowed = os.fspath(model), _byte_count(max_memory)
    against = None if against is None else one_of("against", against, tuple(DIALECTS))
    limit = memory_limit_of(path, allowed, allowed)
    found, names = list[Finding](), list[str]()
    for each in read_model(path, _checked_lengths(input_shape or {}), limit):
        if layer in (None, each.name):
            found.append(check_layer(each, against))
        elif len(names) < MAX_LISTED:
            names.append(each.name)
    if layer is not None and not found:
        raise RequestError(
            f"{path}: no pooling layer is called {layer}; there are: {', '.join(names) or 'none'}"
            + did_you_mean(layer, names)
        )
    return found


def _byte_count(given: int | str | None) -> int | None:
    """Bytes from a number, or from a size such as "2G"."""
    if given is None or isinstance(given, str):
        return None if given is None else parse_size(given, field("max_memory"))
    count = whole_number("max_memory", given)
    if count < 1:
        raise RequestError(f"{field('max_memory')} is {count}; give bytes from 1 on, or a size such as '2G'")
    return count


def _checked_lengths(given: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """The given lengths of inputs, as positive integers."""
    try:
        lengths = {name: tuple(map(index, each)) for name, each in given.items()}
    except (AttributeError, TypeError):
        example = {"x": (1, 3, 640, 640)}
        raise RequestError(
            f"{field('input_shape')} is {given!r:.60}; give lengths by name, such as {example}"
        ) from None
    for name, each in lengths.items():
        if not all(0 < length <= MAX_INT for length in each):
            raise RequestError(f"{field('input_shape')} of {name} is {each}; lengths are from 1 to 2**63 - 1")
    return lengths


def check_layer(layer: Layer, against: str | None = None) -> Finding:
    """Plan the layer on its input shape, and compare the output shape with the declared one."""
    if layer.invalid:
        why = in_framework_terms(layer.framework, f"{layer.framework} {layer.invalid}")
        return Finding(layer, None, "invalid", why, layer.warnings)
    if layer.input_shape is None and not layer.problem:
        why = f"the rank of its input is not known; {_remedy(layer)}"
        return Finding(layer, None, "unknown", marked_message(why), layer.warnings)
    if layer.op is None or layer.input_shape is None:
        return Finding(layer, None, "unknown", layer.problem, layer.warnings)
    try:
        inferred = infer_shape(layer.op, layer.input_shape, layer.layout)
    except RequestError as error:
        why = in_framework_terms(layer.framework, f"{layer.framework} refuses it: {error.message}")
        return Finding(layer, None, "invalid", why, layer.warnings)
    computed = stored_shape(layer, inferred.shape)
    warnings = (*layer.warnings, *_warnings(layer, inferred, against))
    verdict, reason = _verdict(layer, computed, inferred)
    return Finding(layer, computed, verdict, reason, warnings)


def _verdict(layer: Layer, computed: Shape, inferred: InferredShape) -> tuple[Verdict, str | None]:
    declared = layer.declared_shape
    if declared is None:
        lost = layer.stopped and "?" in computed
        return "computed", marked_message(f"lengths are not known: {_remedy(layer)}") if lost else None
    if layer.moved:
        return "computed", "the file states shapes for another input"
    if len(declared) != len(computed):
        return "differs", f"declared {len(declared)} axes, its output has {len(computed)}"
    names = _axis_names(layer, len(computed))
    pairs = list(zip(names, declared, computed, strict=True))
    stated = [pair for pair in pairs if is_number(pair[1])]
    # On a short axis a computed 0 is a length, elsewhere a dynamic one.
    known = [pair for pair in stated if is_number(pair[2]) or pair[0] in inferred.short]
    if wrong := [pair for pair in known if pair[1] != pair[2]]:
        return "differs", _grouped_by_axes([(pair[0], _why(layer, inferred.plan, *pair)) for pair in wrong])
    if not any(map(is_number, declared)):
        return "computed", None
    if dynamic := [pair[0] for pair in stated if pair not in known]:
        why = f"{_axes(dynamic)}: declared, but dynamic in the input; {_remedy(layer)}"
        return "unknown", marked_message(why)
    return "agrees", None


def _remedy(layer: Layer) -> str:
    """What to do to make unknown lengths known."""
    if layer.stopped:
        return f"shape inference stops at {layer.stopped}; fold constants (onnxsim) or state it in value_info"
    return how_to_fix_lengths(layer.framework)


def _grouped_by_axes(sentences: Sequence[tuple[str, str]]) -> str:
    """The sentences, each once with all its axes."""
    axes: dict[str, list[str]] = {}
    for axis, sentence in sentences:
        axes.setdefault(sentence, []).append(axis)
    return "; ".join(f"{_axes(names)}: {sentence}" for sentence, names in axes.items())


def _axes(names: Sequence[str]) -> str:
    return f"{'axes' if len(names) > 1 else 'axis'} {', '.join(names)}"


def _axis_names(layer: Layer, rank: int) -> str:
    layout = layer.layout or default_layout(len(layer.input_shape or ()))
    return layout if layer.keeps_axes else "NC"[:rank]


def _why(layer: Layer, plan: Plan | None, name: str, declared: Dim, computed: Dim) -> str:
    """Explain an axis that differs: by attributes that give the declared length, or by the formula."""
    start = f"declared {declared}"
    if name in "NC" or layer.op is None:
        return f"{start}, the input has {computed}"
    if isinstance(layer.op, SlidingAttributes):
        for what, said, other in _misreadings(layer.op):
            try:
                shape = infer_shape(other, cast("Shape", layer.input_shape), layer.layout).shape
            except RequestError:
                continue
            if shape[_axis_names(layer, len(shape)).index(name)] == declared:
                return f"{start}, {what} gives {declared}, the file says {said}: {computed}"
    formula = next((axis.formula for axis in plan.axes if axis.name == name), None) if plan else None
    return f"{start}, computed {formula or computed}"


def _misreadings(op: SlidingAttributes) -> Iterator[tuple[str, str, Attributes]]:
    """Common mistakes of people and converters: what is used instead, what the file says, and the resulting
    operator.
    """
    for word in DIALECTS[op.like].rounding_types:
        if word != op.rounding_type:
            yield word, op.rounding_type, replace(op, rounding_type=word)
    for word in DIALECTS[op.like].auto_pads:
        if word != op.auto_pad:
            yield f"auto_pad {word}", op.auto_pad, replace(op, auto_pad=word)
    bare = replace(op, pads_begin=0, pads_end=0)
    if bare != op and op.auto_pad == "explicit":
        yield "no padding", f"pads {option_value(op.pads_begin)} and {option_value(op.pads_end)}", bare
    if op.strides != op.kernel:
        yield "the kernel as strides", f"strides {option_value(op.strides)}", replace(op, strides=op.kernel)
    if (op.dilations if isinstance(op.dilations, int) else max(op.dilations)) > 1:
        yield "no dilation", f"dilations {option_value(op.dilations)}", replace(op, dilations=1)


def _warnings(layer: Layer, inferred: InferredShape, against: str | None) -> Iterator[str]:
    """Warnings about a layer that the framework accepts."""
    plan = inferred.plan
    if inferred.short:
        names = _axis_names(layer, len(inferred.shape))
        is_empty = any(dim == 0 and name in inferred.short for name, dim in zip(names, inferred.shape, strict=True))
        yield (
            f"{_axes(inferred.short)}: the window is longer than the padded input; {layer.framework} "
            f"{'gives an empty output' if is_empty else 'pools over what there is'}, other frameworks refuse it"
        )
    if plan is None or inferred.op is None:
        if against and not inferred.short:
            why = f"not compared, because axes are dynamic; {how_to_fix_lengths(layer.framework)}"
            yield marked_message(f"{DIALECTS[against].title}: {why}")
        return
    yield from (str(fact) for fact in plan.facts if fact.kind in ("pads_ignored", "empty_windows"))
    deviates = WRITERS[plan.like].cannot_write(plan) if isinstance(layer.op, SlidingAttributes) else None
    if deviates:
        yield deviates
    if against:
        yield from _compared_with(inferred.op, plan, against, _opset(layer))


def _opset(layer: Layer) -> int | None:
    word, _, number = layer.version.partition(" ")
    return int(number) if word == "opset" and number.isdecimal() else None


def _compared_with(op: Attributes, plan: Plan, like: str, opset: int | None) -> list[str]:
    """How `like` interprets the same attributes, and which versions of its runtime deviate, as sentences."""
    rows = [row for row in compare_dialects(without_indices(op), plan) if row.like == like]
    row = next((row for row in rows if row.rounding == getattr(op, "rounding_type", None)), rows[0])
    causes = row.causes or _refusal_sentences(row.refusal, plan, like)
    sentences = [marked_message(f"{DIALECTS[like].title}: {text}") for text in causes]
    return sentences + (deviations(row.plan, opset) if row.plan else [])


def _refusal_sentences(refusal: str | None, plan: Plan, like: str) -> tuple[str, ...]:
    """What the framework refuses, and whether it can do the same with other attributes."""
    if refusal is None:
        return ()
    if convert(plan, like).text is None:
        return (f"refuses it: {marked(refusal)}",)
    return (f"not in the same attributes ({marked(refusal)}); {field('to', like)} writes it",)


Given = Mapping[str, tuple[int, ...]]
GGUF = "a GGUF file, which holds weights and no layers; export the model itself: " + EXPORT_TORCH
SUPPORTED = "check reads ONNX, OpenVINO IR (.xml), TensorFlow Lite and torch.export (.pt2)"
SIGNATURE_BYTES = 64  # by which a format is recognised
KINDS_BY_NAME = {  # protobuf, as ONNX is, or formats without a signature
    "saved_model.pb": f"a SavedModel of TensorFlow; {EXPORT_SAVED}",
    ".pb": f"a frozen graph of TensorFlow; {EXPORT_FROZEN}",
}
TEXT_BYTES = bytes({*range(32, 127), *b"\t\n\r"})


def read_model(path: str, given: Given | None = None, limit: int | None = None) -> Iterator[Layer]:
    """Yield the pooling layers of the model at `path`, while it is read; a RequestError if it cannot be read.

    `given` are the lengths of inputs by name, `limit` is the memory that reading may take, in bytes.
    """
    found = Path(path)
    try:
        if found.is_dir():
            raise RequestError(f"{path}: {_folder(found)}")
        if not found.is_file():
            missing = "no file" if found.exists() else f"no such file{did_you_mean_file(path)}"
            raise RequestError(f"{path}: {missing}")
        with open(path, "rb") as stream:
            head = stream.read(SIGNATURE_BYTES)
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror or error}") from None
    try:
        yield from _layers(path, head, given or {}, limit)
    except NotOnnxError:  # other protobuf files are recognised by their name, as protobuf has no signature
        kind = next((kind for ending, kind in KINDS_BY_NAME.items() if path.lower().endswith(ending)), None)
        if kind is None:
            raise
        raise RequestError(f"{path}: {kind}") from None


def _folder(path: Path) -> str:
    if (path / "saved_model.pb").is_file():
        return f"a SavedModel of TensorFlow; {EXPORT_SAVED}"
    return f"a folder, not a model file; {SUPPORTED}"


def _layers(path: str, head: bytes, given: Given, limit: int | None) -> Iterable[Layer]:
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") or head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        from poolcli.models.ir import read_ir

        return read_ir(path, given, limit)
    if head[4:8] == b"TFL3":
        from poolcli.models.tflite import read_tflite

        return read_tflite(path, given, limit)
    if head.startswith(b"PK"):
        from poolcli.models.pt2 import read_pt2

        return read_pt2(path, given, limit)
    other = _not_a_model(head)
    if other:
        raise RequestError(f"{path}: {other}")
    from poolcli.models.onnx_layers import read_onnx

    return read_onnx(path, given, limit)


def _not_a_model(head: bytes) -> str | None:
    """What a file with this beginning is, if it is no supported model; None if it may be ONNX."""
    if not head:
        return "not a model: the file is empty"
    if not head.translate(None, TEXT_BYTES):
        return f"a text file, not a model; {SUPPORTED}"
    if head[4:8] == b"ORTM":
        return "an ONNX Runtime model (.ort); check the ONNX model that it was made from"
    return next((kind for signatures, kind in KINDS_BY_SIGNATURE.items() if head.startswith(signatures)), None)


KINDS_BY_SIGNATURE = {
    (b"GGUF",): GGUF,
    (b"\x89HDF",): f"an HDF5 file; if it is a Keras model, {EXPORT_KERAS}",
    (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"): (
        f"a pickle, which is never opened; if it is a PyTorch model, {EXPORT_TORCH}"
    ),
    (b"\x89PNG", b"\xff\xd8\xff", b"\x93NUMPY"): f"an image or an array, not a model; {SUPPORTED}",
}
