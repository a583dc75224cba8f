"""Judges a pooling layer: its computed shape against the declared one, and its rules against those of a framework."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.explain.compare_dialects import compare_dialects, deviations
from poolcli.explain.export import WRITERS, convert
from poolcli.layouts import default_layout
from poolcli.message_fields import field, marked, marked_message, option_value
from poolcli.models.layer import (
    Dim,
    InferredShape,
    Layer,
    Shape,
    contradicts,
    how_to_fix_lengths,
    in_framework_terms,
    infer_shape,
    is_number,
    stored_shape,
    without_indices,
)
from poolcli.plan.attributes import Attributes, DividingAttributes, SlidingAttributes

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


def judge(layer: Layer, against: str | None, is_given: bool, wrong: str | None) -> Finding:
    """Plan the layer on its input shape, and compare the output shape with the declared one.

    `is_given` says that lengths of inputs were given, and `wrong` is the first layer above that differs.
    """
    framework = layer.framework
    if layer.invalid:
        why = in_framework_terms(framework, f"{framework} refuses it: {layer.invalid}")
        return Finding(layer, None, "invalid", why, layer.warnings)
    if layer.op is None or layer.input_shape is None:
        why = layer.problem or marked_message(f"the rank of its input is not known; {_remedy(layer)}")
        return Finding(layer, None, "unknown", why, layer.warnings)
    try:
        inferred = infer_shape(layer.op, layer.input_shape, layer.layout)
    except RequestError as error:
        why = in_framework_terms(framework, f"{framework} refuses it: {error.message}")
        return Finding(layer, None, "invalid", why, layer.warnings)
    computed = stored_shape(layer, inferred.shape)
    is_moved = contradicts(layer.input_shape, layer.stated_input)
    if is_given and is_moved and layer.declared_shape is not None:
        verdict: Verdict = "computed"
        reason: str | None = "the file states shapes for another input"
    else:
        verdict, reason = _verdict(layer, computed, inferred)
    if verdict == "differs" and is_moved and wrong:
        reason = f"{reason}; its input is not the stated one, because {wrong} differs"
    return Finding(layer, computed, verdict, reason, (*layer.warnings, *_warnings(layer, inferred, against)))


def _verdict(layer: Layer, computed: Shape, inferred: InferredShape) -> tuple[Verdict, str | None]:
    declared = layer.declared_shape
    if declared is None:
        is_lost = layer.is_fixed and "?" in computed
        return "computed", marked_message(f"lengths are not known: {_remedy(layer)}") if is_lost else None
    if len(declared) != len(computed):
        return "differs", f"declared {len(declared)} axes, its output has {len(computed)}"
    wrong: dict[str, list[str]] = {}  # axes by sentence
    dynamic = []
    for name, length, found in zip(_axis_names(layer, len(computed)), declared, computed, strict=True):
        if not is_number(length) or (name in "NC" and found == "?"):  # N and C pass a pooling unchanged
            continue
        if not is_number(found) and name not in inferred.short:  # where 0 is a length
            dynamic.append(name)
        elif length != found:
            wrong.setdefault(_why(layer, inferred, name, length, found), []).append(name)
    if wrong:
        return "differs", "; ".join(f"{_axes(names)}: {sentence}" for sentence, names in wrong.items())
    if not any(map(is_number, declared)):
        return "computed", None
    if dynamic:
        why = f"{_axes(dynamic)}: declared, but dynamic in the input; {_remedy(layer)}"
        return "unknown", marked_message(why)
    return "agrees", None


def _remedy(layer: Layer) -> str:
    """What to do to make unknown lengths known."""
    if layer.is_fixed:
        return "shape inference by onnx does not find it; fold constants (onnxsim) or state it in value_info"
    return how_to_fix_lengths(layer.framework)


def _axes(names: list[str] | str) -> str:
    return f"{'axes' if len(names) > 1 else 'axis'} {', '.join(names)}"


def _axis_names(layer: Layer, rank: int) -> str:
    layout = layer.layout or default_layout(len(layer.input_shape or ()))
    return layout if layer.keeps_axes else "NC"[:rank]


def _why(layer: Layer, inferred: InferredShape, name: str, declared: Dim, computed: Dim) -> str:
    """Explain an axis that differs: by attributes that give the declared length, or by the formula."""
    if name in "NC":
        return f"declared {declared}, the input has {computed}"
    if isinstance(layer.op, SlidingAttributes) and layer.input_shape is not None:
        for what, said, other in _misreadings(layer.op):
            try:
                shape = infer_shape(other, layer.input_shape, layer.layout).shape
            except RequestError:
                continue
            if shape[_axis_names(layer, len(shape)).index(name)] == declared:
                return f"declared {declared}, {what} gives {declared}, the file says {said}: {computed}"
    formulas = {axis.name: axis.formula for axis in inferred.plan.axes} if inferred.complete else {}
    return f"declared {declared}, computed {formulas.get(name) or computed}"


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
    if inferred.complete:
        yield from (str(fact) for fact in plan.facts if fact.kind in ("pads_ignored", "empty_windows", "window_kept"))
        deviates = WRITERS[plan.like].cannot_write(plan) if isinstance(layer.op, SlidingAttributes) else None
        if deviates:
            yield deviates
    if against and not inferred.short:
        yield from _compared_with(layer, inferred, against)


def _compared_with(layer: Layer, inferred: InferredShape, like: str) -> Iterator[str]:
    """Whether the framework `like` takes the same attributes, how it interprets them, and which versions of its runtime
    deviate, as sentences.
    """
    plan, title = inferred.plan, DIALECTS[like].title
    word = getattr(inferred.op, "rounding_type", None)
    if layer.framework == "ONNX Runtime" and like == "openvino" and isinstance(inferred.op, DividingAttributes):
        word = "ceil_torch" if word == "ceil" else word  # as OpenVINO imports averages, but not maxima
    rows = [row for row in compare_dialects(without_indices(inferred.op), plan) if row.like == like]
    row = next((row for row in rows if row.title.endswith(f" {word}")), rows[0])
    if row.refusal is not None and convert(plan, like).text is None:
        yield marked_message(f"{title}: refuses it: {marked(row.refusal)}")
    elif row.refusal is not None:
        yield marked_message(
            f"{title}: not in the same attributes ({marked(row.refusal)}); {field('to', like)} writes it"
        )
    elif not inferred.complete:
        yield marked_message(f"{title}: not compared, because axes are dynamic; {how_to_fix_lengths(layer.framework)}")
    else:
        yield from (marked_message(f"{title}: {cause}") for cause in row.causes)
        opset, _, number = layer.version.partition(" ")
        is_known = opset == "opset" and number.isdecimal()
        yield from deviations(row.plan, int(number) if is_known else None) if row.plan else ()
