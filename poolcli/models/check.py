"""Reads a model file of any format that is known, and compares declared with computed shapes of its pooling layers."""

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
from poolcli.explain.convert import convert
from poolcli.formats.checks import memory_limit_of
from poolcli.layouts import default_layout
from poolcli.message_fields import field, marked, marked_message, option_value
from poolcli.models.layer import (
    EXPORT_FROZEN,
    EXPORT_KERAS,
    EXPORT_SAVED,
    EXPORT_TORCH,
    Dim,
    Layer,
    NotOnnxError,
    Pooled,
    Shape,
    in_words_of,
    is_number,
    pooled,
    stored_shape,
    without_indices,
)
from poolcli.plan import Plan
from poolcli.plan.attributes import Attributes, SlidingAttributes
from poolcli.suggestions import did_you_mean_file
from poolcli.system.limits import parse_size

LISTED = 10  # names of layers that a message has
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
        `agrees`: every declared number is the computed one. `differs`: one is not. `invalid`: the framework refuses the
        layer, or crashes on it. `computed`: nothing is declared. `unknown`: the shape depends on what cannot be known.
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
        Framework whose reading of the same attributes is added to the warnings.
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
    path, allowed = os.fspath(model), _size(max_memory)
    return list(findings(path, input_shape or {}, against, layer, memory_limit_of(path, allowed, allowed)))


def _size(given: int | str | None) -> int | None:
    """Bytes from a number of them, or from a text such as "2G"."""
    if given is None or isinstance(given, str):
        return None if given is None else parse_size(given, field("max_memory"))
    count = whole_number("max_memory", given)
    if count < 1:
        raise RequestError(f"{field('max_memory')} is {count}; give bytes from 1 on, or a size such as '2G'")
    return count


def findings(
    path: str,
    input_shape: Mapping[str, Sequence[int]],
    against: str | None = None,
    layer: str | None = None,
    limit: int | None = None,
) -> Iterator[Finding]:
    """What `check` returns, one after the other while the model is read."""
    if against is not None:
        against = one_of("against", against, tuple(DIALECTS))
    names: list[str] = []
    chosen = 0
    for each in read_model(path, _lengths(input_shape), limit):
        if layer in (None, each.name):
            chosen += 1
            yield check_layer(each, against)
        elif len(names) < LISTED:
            names.append(each.name)
    if layer is not None and not chosen:
        raise RequestError(f"{path}: no pooling layer is called {layer}; there are: {', '.join(names) or 'none'}")


def _lengths(given: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """The lengths that are given for inputs, as whole numbers from 1 on."""
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
    """Plans the layer on its input shape and compares."""
    if layer.invalid:
        why = in_words_of(layer.framework, f"{layer.framework} {layer.invalid}")
        return Finding(layer, None, "invalid", why, layer.warnings)
    if layer.op is None:
        return Finding(layer, None, "unknown", layer.problem, layer.warnings)
    if layer.input_shape is None:
        why = f"the rank of its input is not known; {_remedy(layer)}"
        return Finding(layer, None, "unknown", marked_message(why), layer.warnings)
    try:
        made = pooled(layer.op, layer.input_shape, layer.layout)
    except RequestError as error:
        why = in_words_of(layer.framework, f"{layer.framework} refuses it: {error.message}")
        return Finding(layer, None, "invalid", why, layer.warnings)
    computed = stored_shape(layer, made.shape)
    warnings = (*layer.warnings, *_warnings(layer, made, against))
    verdict, reason = _verdict(layer, computed, made.plan)
    return Finding(layer, computed, verdict, reason, warnings)


def _verdict(layer: Layer, computed: Shape, plan: Plan | None) -> tuple[Verdict, str | None]:
    declared = layer.declared_shape
    if declared is None:
        lost = layer.stopped and "?" in computed
        return "computed", marked_message(f"lengths are not known: {_remedy(layer)}") if lost else None
    if layer.moved:
        return "computed", "the file states shapes for another input"
    if len(declared) != len(computed):
        return "differs", f"declared {len(declared)} axes, its output has {len(computed)}"
    names = _names(layer, len(computed))
    pairs = list(zip(names, declared, computed, strict=True))
    wrong = [pair for pair in pairs if is_number(pair[1]) and is_number(pair[2]) and pair[1] != pair[2]]
    if wrong:
        return "differs", _grouped([(pair[0], _why(layer, plan, *pair)) for pair in wrong])
    if not any(map(is_number, declared)):
        return "computed", None
    open_ones = [name for name, stated, right in pairs if is_number(stated) and not is_number(right)]
    if open_ones:
        why = f"{_axes(open_ones)}: declared, but dynamic in the input; {_remedy(layer)}"
        return "unknown", marked_message(why)
    return "agrees", None


def _remedy(layer: Layer) -> str:
    """What tells the lengths that are not known."""
    if layer.stopped and layer.framework != "ONNX Runtime":
        return f"shapes after {layer.stopped} are not inferred; correct the layer before it that differs"
    if layer.stopped:
        return f"shape inference stops at {layer.stopped}; fold constants (onnxsim) or state it in value_info"
    if layer.framework in ("PyTorch", "TensorFlow Lite"):
        return "export the model with fixed lengths"
    return f"{field('input_shape')} gives its lengths"


def _grouped(sentences: Sequence[tuple[str, str]]) -> str:
    """The sentences, each once with all axes that it holds for."""
    axes: dict[str, list[str]] = {}
    for axis, sentence in sentences:
        axes.setdefault(sentence, []).append(axis)
    return "; ".join(f"{_axes(names)}: {sentence}" for sentence, names in axes.items())


def _axes(names: Sequence[str]) -> str:
    return f"{'axes' if len(names) > 1 else 'axis'} {', '.join(names)}"


def _names(layer: Layer, rank: int) -> str:
    """The names of the output's axes."""
    layout = layer.layout or default_layout(len(layer.input_shape or ()))
    return layout if layer.keeps_axes else "NC"[:rank]


def _why(layer: Layer, plan: Plan | None, name: str, declared: Dim, computed: Dim) -> str:
    """A sentence on an axis that differs: what would have given the declared length, or how it is computed."""
    told = f"declared {declared}"
    if name in "NC" or layer.op is None:
        return f"{told}, the input has {computed}"
    if isinstance(layer.op, SlidingAttributes):
        for what, said, other in _readings(layer.op):
            try:
                shape = pooled(other, cast("Shape", layer.input_shape), layer.layout).shape
            except RequestError:
                continue
            if shape[_names(layer, len(shape)).index(name)] == declared:
                return f"{told}, {what} gives {declared}, the file says {said}: {computed}"
    formula = next((axis.formula for axis in plan.axes if axis.name == name), None) if plan else None
    return f"{told}, computed {formula or computed}"


def _readings(op: SlidingAttributes) -> Iterator[tuple[str, str, Attributes]]:
    """What people and converters mistake attributes for: what it is, what the file says, and the operator of it."""
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


def _warnings(layer: Layer, made: Pooled, against: str | None) -> Iterator[str]:
    """What is to be said of a layer that can be planned."""
    plan = made.plan
    if made.short:
        yield (
            f"{_axes(made.short)}: the window is longer than the padded input; {layer.framework} pools over what there "
            "is, other frameworks refuse it"
        )
    if plan is None or made.op is None:
        if against and not made.short:
            why = f"not compared, because axes are dynamic; use {field('input_shape')}"
            yield marked_message(f"{DIALECTS[against].title}: {why}")
        return
    yield from (str(fact) for fact in plan.facts if fact.kind in ("pads_ignored", "empty_windows"))
    strange = DIALECTS[plan.like].cannot_write(plan) if isinstance(layer.op, SlidingAttributes) else None
    if strange:
        yield strange
    if against:
        yield from _read_by(made.op, plan, against, _opset(layer))


def _opset(layer: Layer) -> int | None:
    """The opset of an ONNX layer."""
    word, _, number = layer.version.partition(" ")
    return int(number) if word == "opset" and number.isdecimal() else None


def _read_by(op: Attributes, plan: Plan, like: str, opset: int | None) -> list[str]:
    """How `like` reads the same attributes, and which versions of its runtime deviate: each in a sentence."""
    title = DIALECTS[like].title
    rows = [row for row in compare_dialects(without_indices(op), plan) if row.like == like]
    same_word = [row for row in rows if row.rounding == getattr(op, "rounding_type", None)]
    told: list[str] = []
    for row in (same_word or rows)[:1]:
        causes = row.causes or _refusals(row.refusal, plan, like)
        told += [marked_message(f"{title}: {text}") for text in causes]
        told += deviations(row.plan, opset) if row.plan else ()
    return told


def _refusals(refusal: str | None, plan: Plan, like: str) -> tuple[str, ...]:
    """What the framework refuses, and whether it can do the same in other words."""
    if refusal is None:
        return ()
    if convert(plan, like).text is None:
        return (f"refuses it: {marked(refusal)}",)
    return (f"not in the same attributes ({marked(refusal)}); {field('to', like)} writes it",)


Given = Mapping[str, tuple[int, ...]]
GGUF = "a GGUF file, which holds weights and no layers; export the model itself: " + EXPORT_TORCH
READ = "check reads ONNX, OpenVINO IR (.xml), TensorFlow Lite and torch.export (.pt2)"
HEAD = 64  # bytes by which a format is told
CORE_ML = f"a Core ML model, which is not read; check what it was converted from; {EXPORT_TORCH}"
TENSORRT = "a TensorRT engine, which has no layers left to check; check the ONNX model that it was built from"
NAMED = {  # files that are protobuf as ONNX is, or that have no mark
    ".mlmodel": CORE_ML,
    ".engine": TENSORRT,
    ".plan": TENSORRT,
    ".trt": TENSORRT,
    "saved_model.pb": f"a SavedModel of TensorFlow; {EXPORT_SAVED}",
    ".pb": f"a frozen graph of TensorFlow; {EXPORT_FROZEN}",
    ".pdmodel": "a PaddlePaddle model, which is not read; convert it: paddle2onnx --model_dir FOLDER",
    ".gguf": GGUF,
}
TEXT = bytes({*range(32, 127), *b"\t\n\r"})  # of which no model consists


def read_model(path: str, given: Given | None = None, limit: int | None = None) -> Iterator[Layer]:
    """The pooling layers of the model at `path`, its inputs as long as `given` says, while it is read; `limit` is the
    memory that reading may take, in bytes.

    A RequestError of one line for what is no model that can be read.
    """
    found = Path(path)
    try:
        if found.is_dir():
            raise RequestError(f"{path}: {_folder(found)}")
        if not found.is_file():
            missing = "no file" if found.exists() else f"no such file{did_you_mean_file(path)}"
            raise RequestError(f"{path}: {missing}")
        with open(path, "rb") as stream:
            head = stream.read(HEAD)
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror or error}") from None
    yield from _layers(path, head, given or {}, limit)


def _folder(path: Path) -> str:
    """What a folder is."""
    if (path / "saved_model.pb").is_file():
        return f"a SavedModel of TensorFlow; {EXPORT_SAVED}"
    if path.suffix == ".mlpackage" or (path / "Data" / "com.apple.CoreML").is_dir():
        return CORE_ML
    return f"a folder, not a model file; {READ}"


def _layers(path: str, head: bytes, given: Given, limit: int | None) -> Iterable[Layer]:
    """The layers of what begins with `head`."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") or head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        from poolcli.models.ir import read_ir

        return read_ir(path, given, limit)
    if head[4:8] == b"TFL3":
        from poolcli.models.tflite import read_tflite

        return read_tflite(path, given, limit)
    if head.startswith(b"PK"):
        from poolcli.models.pt2 import read_pt2

        return read_pt2(path, given, limit)
    other = _other(head)
    if other:
        raise RequestError(f"{path}: {other}")
    return _read_onnx(path, given, limit)


def _read_onnx(path: str, given: Given, limit: int | None) -> Iterator[Layer]:
    """The layers of an ONNX file. What it is instead is told by its name: protobuf has no mark of its own."""
    from poolcli.models.onnx_layers import read_onnx

    try:
        yield from read_onnx(path, given, limit)
    except NotOnnxError:
        what = next((why for ends, why in NAMED.items() if path.lower().endswith(ends)), None)
        if what is None:
            raise
        raise RequestError(f"{path}: {what}") from None


def _other(head: bytes) -> str | None:
    """What a file is that begins so and is no model that is read; None where it may be ONNX."""
    if not head:
        return "not a model: the file is empty"
    if not head.strip(b"\0"):
        return f"not a model: only zeros; {READ}"
    if not head.translate(None, TEXT):
        return f"a text file, not a model; {READ}"
    if head[4:8] == b"ORTM":
        return "an ONNX Runtime model (.ort); check the ONNX model that it was made from"
    return next((why for starts, why in STARTS.items() if head.startswith(starts)), None)


STARTS = {
    (b"GGUF",): GGUF,
    (b"ptrt", b"ftrt"): TENSORRT,
    (b"\x89HDF",): f"an HDF5 file; if it is a Keras model, {EXPORT_KERAS}",
    (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"): (
        f"a pickle, which is never opened; if it is a PyTorch model, {EXPORT_TORCH}"
    ),
    (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"RIFF"): f"an image, not a model; {READ}",
    (b"\x93NUMPY",): f"an array, not a model; {READ}",
    (b"\x7fELF", b"%PDF", b"\x1f\x8b"): f"not a model; {READ}",
}
