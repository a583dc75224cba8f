"""Judges a pooling layer: its computed shape against the declared one, and its rules against those of a framework."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.explain.compare_dialects import compare_dialects, deviations
from poolcli.explain.export import WRITERS, convert
from poolcli.layouts import default_layout
from poolcli.message_fields import field, marked, marked_message
from poolcli.models.layer import (
    Dim,
    InferredShape,
    Layer,
    Shape,
    contradicts,
    how_to_fix_lengths,
    infer_shape,
    is_number,
    refusal,
    stored_shape,
    without_indices,
)
from poolcli.plan.attributes import Attributes, DividingAttributes, SlidingAttributes

NO_WINDOW, TOO_LONG = "leaves no window", "its windows are longer than the padded input, which is not checked"
Verdict = Literal["agrees", "differs", "invalid", "computed", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one pooling layer.

    Attributes
    ----------
    layer : Layer
        What the file says: name, type, version, attributes, shapes.
    computed : tuple or None
        Output shape; lengths that are not known are names, or `?`.
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


def judge(layer: Layer, against: str | None, is_given: bool) -> Finding:
    """Plan the layer on its input shape, and compare the output shape with the declared one.

    `is_given` says that lengths of inputs were given.
    """
    if layer.invalid:
        return Finding(layer, None, "invalid", refusal(layer, layer.invalid), layer.warnings)
    if layer.op is None or layer.input_shape is None:
        why = layer.problem or "the rank of its input is not known"
        return Finding(layer, None, "unknown", why, layer.warnings)
    try:
        inferred = infer_shape(layer.op, layer.input_shape, layer.layout)
    except RequestError as error:
        if layer.framework == "ONNX Runtime" and NO_WINDOW in error.message:  # it may give an empty output, or a part
            return Finding(layer, None, "unknown", TOO_LONG, layer.warnings)
        return Finding(layer, None, "invalid", refusal(layer, error.message), layer.warnings)
    computed = stored_shape(layer, inferred.shape)
    is_moved = is_given and contradicts(layer.input_shape, layer.stated_input)
    if is_moved and layer.declared_shape is not None:
        verdict: Verdict = "computed"
        reason: str | None = "the file states shapes for another input"
    else:
        verdict, reason = _verdict(layer, computed, inferred)
    return Finding(layer, computed, verdict, reason, (*layer.warnings, *_warnings(layer, inferred, against)))


def _verdict(layer: Layer, computed: Shape, inferred: InferredShape) -> tuple[Verdict, str | None]:
    declared = layer.declared_shape
    if declared is None:
        return "computed", None
    if len(declared) != len(computed):
        return "differs", f"declared {len(declared)} axes, its output has {len(computed)}"
    wrong: dict[str, list[str]] = {}  # axes by sentence
    dynamic = []
    for name, length, found in zip(_axis_names(layer, len(computed)), declared, computed, strict=True):
        if not is_number(length) or (name in "NC" and found == "?"):  # N and C pass a pooling unchanged
            continue
        if not is_number(found):
            dynamic.append(name)
        elif length != found:
            wrong.setdefault(_why(layer, inferred, name, length, found), []).append(name)
    if wrong:
        return "differs", "; ".join(f"{_axes(names)}: {sentence}" for sentence, names in wrong.items())
    if not any(map(is_number, declared)):
        return "computed", None
    if dynamic:
        why = f"{_axes(dynamic)}: declared, but dynamic in the input; {how_to_fix_lengths(layer.framework)}"
        return "unknown", marked_message(why)
    return "agrees", None


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
        for what, other in _misreadings(layer.op):
            try:
                shape = infer_shape(other, layer.input_shape, layer.layout).shape
            except RequestError:
                continue
            if shape[_axis_names(layer, len(shape)).index(name)] == declared:
                return f"declared {declared}, computed {computed}; {what} gives {declared}"
    formulas = {axis.name: axis.formula for axis in inferred.plan.axes} if inferred.complete else {}
    return f"declared {declared}, computed {formulas.get(name) or computed}"


def _misreadings(op: SlidingAttributes) -> Iterator[tuple[str, Attributes]]:
    """Common mistakes of converters: what is used instead, and the resulting operator."""
    for name in ("rounding_type", "auto_pad"):
        for word in getattr(DIALECTS[op.like], f"{name}s"):
            given: dict[str, Any] = {name: word}
            if word != getattr(op, name):
                yield f"{name} {word}", replace(op, **given)


def _warnings(layer: Layer, inferred: InferredShape, against: str | None) -> Iterator[str]:
    """Warnings about a layer that the framework accepts."""
    plan = inferred.plan
    if inferred.complete:
        yield from (str(fact) for fact in plan.facts if fact.kind in ("pads_ignored", "empty_windows", "window_kept"))
        deviates = WRITERS[plan.like].cannot_write(plan) if isinstance(layer.op, SlidingAttributes) else None
        if deviates:
            yield deviates
    if against:
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
