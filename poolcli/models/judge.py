"""What `poolcli check` says of a pooling layer: the verdict on its shape, how another framework takes it (`--against`),
its call there (`--to`), and whether recorded data are its output (`--run`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from poolcli.dialects import DIALECTS
from poolcli.engine import run
from poolcli.errors import PoolError, RequestError
from poolcli.explain.compare_dialects import attributed, compare_dialects
from poolcli.explain.diff_arrays import compare
from poolcli.explain.export import WRITERS, convert
from poolcli.formats import ReadOptions, parse_source, read, recognise
from poolcli.layouts import default_layout
from poolcli.message_fields import field, for_python, marked, marked_message, option_value, without_hints
from poolcli.models import layer as shared
from poolcli.models.layer import Dim, InferredShape, Layer, Shape
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes, DividingAttributes, SlidingAttributes
from poolcli.system.lazy_imports import Array

FLOAT_TOLERANCE = 1e-5  # relative and absolute; integers and maxima must be equal
Verdict = Literal["agrees", "differs", "invalid", "computed", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one pooling layer.

    Attributes
    ----------
    layer : Layer
        What the file says: name, type, version, attributes, shapes.
    computed : tuple or None
        Output shape; dynamic dimensions are names, or "?".
    verdict : {"agrees", "differs", "invalid", "computed", "unknown"}
        `agrees`: every declared length equals the computed one. `differs`: one does not. `invalid`: the framework
        refuses the layer, or crashes on it. `computed`: nothing is declared. `unknown`: the shape cannot be computed.
    reason : str or None
        Why it is not `agrees`.
    warnings : tuple of str
        Attributes that the framework ignores, and other remarks.
    alike : bool or None
        Whether the framework of `against` computes the same from these attributes; None where that was not compared.
    """

    layer: Layer
    computed: Shape | None
    verdict: Verdict
    reason: str | None
    warnings: tuple[str, ...]
    alike: bool | None = None


def judge(layer: Layer, against: str | None, is_given: bool, wrong: str | None) -> Finding:
    """Plan the layer on its input shape, and compare the output shape with the declared one.

    `is_given` says that lengths of inputs were given, and `wrong` is the first layer above that differs.
    """
    if layer.op is None or layer.input_shape is None:
        return Finding(layer, None, "invalid" if layer.invalid else "unknown", _why_unknown(layer), layer.warnings)
    try:
        inferred = shared.infer_shape(layer.op, layer.input_shape, layer.layout)
    except RequestError as error:
        return Finding(layer, None, "invalid", _refusal(layer, error.message), layer.warnings)
    computed = shared.stored_shape(layer, inferred.shape)
    is_moved = shared.contradicts(layer.input_shape, layer.stated_input)
    verdict, reason = _verdict(layer, computed, inferred)
    if is_given and is_moved and layer.declared_shape is not None:
        verdict, reason = "computed", "the file states shapes for another input"
    elif verdict == "differs" and is_moved and wrong:
        reason = f"{reason}; its input is not the stated one, because {wrong} differs"
    others = [*_compared_with(layer, inferred, against)] if against and not inferred.short else []
    warnings = [*layer.warnings, *_warnings(layer, inferred), *others]
    if wrong and layer.framework != "ONNX Runtime" and not is_given:  # others' shapes are those that the file states
        warnings.insert(0, f"its input is as stated, although {wrong} differs")
    alike = not others if against and inferred.complete else None
    return Finding(layer, computed, verdict, reason, tuple(warnings), alike)


def _refusal(layer: Layer, message: str) -> str:
    return f"{layer.framework} refuses it: {for_python(without_hints(message))}"


def _why_unknown(layer: Layer) -> str:
    """Why the shape or the values of a layer are not known."""
    if layer.invalid:
        return _refusal(layer, layer.invalid)
    lost = f"the rank of its input is not known; {shared.how_to_fix_lengths(layer.framework)}"
    return layer.problem or layer.shape_only or marked_message(lost)


def _verdict(layer: Layer, computed: Shape, inferred: InferredShape) -> tuple[Verdict, str | None]:
    declared = layer.declared_shape
    if declared is None:
        return "computed", None
    if len(declared) != len(computed):
        return "differs", f"declared {len(declared)} axes, its output has {len(computed)}"
    wrong: dict[str, list[str]] = {}  # axes by sentence
    dynamic = []
    for name, length, found in zip(_axis_names(layer, len(computed)), declared, computed, strict=True):
        if not shared.is_number(length) or (name in "NC" and found == "?"):  # N and C pass a pooling unchanged
            continue
        if not shared.is_number(found) and name not in inferred.short:  # where 0 is a length
            dynamic.append(name)
        elif length != found:
            wrong.setdefault(_why(layer, inferred, name, length, found), []).append(name)
    if wrong:
        return "differs", "; ".join(f"{_axes(names)}: {sentence}" for sentence, names in wrong.items())
    if not any(map(shared.is_number, declared)):
        return "computed", None
    if dynamic:
        remedy = shared.how_to_fix_lengths(layer.framework)
        return "unknown", marked_message(f"{_axes(dynamic)}: declared, but dynamic in the input; {remedy}")
    return "agrees", None


def _axes(names: Sequence[str]) -> str:
    return f"{'axes' if len(names) > 1 else 'axis'} {', '.join(names)}"


def _axis_names(layer: Layer, rank: int) -> str:
    layout = layer.layout or default_layout(len(layer.input_shape or ()))
    return layout if layer.keeps_axes else "NC"[:rank]


def _why(layer: Layer, inferred: InferredShape, name: str, declared: Dim, computed: Dim) -> str:
    """Explain an axis that differs: by another value of an attribute that is often misread, or by the formula."""
    if name in "NC":
        return f"declared {declared}, the input has {computed}"
    op = layer.op
    if isinstance(op, SlidingAttributes) and layer.input_shape is not None:
        dialect = DIALECTS[op.like]
        words: list[tuple[str, Any]] = [("rounding_type", dialect.rounding_types), ("auto_pad", dialect.auto_pads)]
        for attribute, values in (*words, ("strides", (op.kernel,)), ("dilations", (1,))):
            for value in values:
                try:
                    shape = shared.infer_shape(replace(op, **{attribute: value}), layer.input_shape, layer.layout).shape
                except RequestError:
                    continue
                if shape[_axis_names(layer, len(shape)).index(name)] == declared:
                    other, own = option_value(value), option_value(getattr(op, attribute))
                    return f"declared {declared}, as {attribute} {other} gives; the file says {own}: {computed}"
    formulas = {axis.name: axis.formula for axis in inferred.plan.axes} if inferred.complete else {}
    return f"declared {declared}, computed {formulas.get(name) or computed}"


def _warnings(layer: Layer, inferred: InferredShape) -> Iterator[str]:
    plan = inferred.plan
    if inferred.short:
        yield f"{_axes(inferred.short)}: the window is longer than the padded input, which other frameworks refuse"
    if inferred.complete:
        yield from (str(fact) for fact in plan.facts if fact.kind in ("pads_ignored", "empty_windows", "window_kept"))
        deviates = WRITERS[plan.like].cannot_write(plan) if isinstance(layer.op, SlidingAttributes) else None
        if deviates:
            yield deviates


def _compared_with(layer: Layer, inferred: InferredShape, like: str) -> Iterator[str]:
    """How the framework `like` takes the same attributes."""
    plan, title = inferred.plan, DIALECTS[like].title
    op, word = plan.given, plan.attributes.get("rounding_type")
    if layer.framework == "ONNX Runtime" and like == "openvino" and isinstance(op, DividingAttributes):
        word = "ceil_torch" if word == "ceil" else word  # as OpenVINO imports averages, but not maxima
    rows = [row for row in compare_dialects(op, plan) if row.like == like]
    row = next((row for row in rows if row.title.endswith(f" {word}")), rows[0])
    if row.refusal is not None:
        said = f"refuses it: {marked(row.refusal)}"
        if convert(plan, like).text is not None:
            said = f"not in the same attributes ({marked(row.refusal)}); {field('to', like)} writes it"
        yield marked_message(f"{title}: {said}")
    elif not inferred.complete:
        remedy = shared.how_to_fix_lengths(layer.framework)
        yield marked_message(f"{title}: not compared, because axes are dynamic; {remedy}")
    else:
        yield from (marked_message(attributed([title], cause)) for cause in row.causes)


@dataclass(frozen=True, slots=True)
class LayerConversion:
    """A layer as a call in the framework `like`; `text` is None if there is none, for the `reason`.

    `note` has conditions under which the text is equivalent; `only_this_size` says that it is so at this input size
    only.
    """

    like: str
    text: str | None
    reason: str | None
    note: str | None = None
    only_this_size: bool = False


def convert_layer(layer: Layer, like: str) -> LayerConversion:
    """Convert a layer to the framework `like`; with dynamic axes, only to a call that holds at every length."""
    if layer.op is None or layer.input_shape is None or layer.shape_only:
        return LayerConversion(like, None, _why_unknown(layer))
    try:
        inferred = shared.infer_shape(layer.op, layer.input_shape, layer.layout)
    except RequestError as error:
        return LayerConversion(like, None, _refusal(layer, error.message))
    if inferred.short:
        return LayerConversion(like, None, "its windows are longer than its padded input")
    conversion = convert(inferred.plan, like)
    if conversion.text is None:
        return LayerConversion(like, None, conversion.reason)
    if conversion.only_this_size and not inferred.complete:
        why = f"the call depends on dynamic lengths; {shared.how_to_fix_lengths(layer.framework)}"
        return LayerConversion(like, None, marked_message(why))
    notes = ([] if layer.keeps_axes else ["the pooled axes, 1 long, are dropped after it"]) + conversion.conditions
    return LayerConversion(like, conversion.text, None, "; ".join(notes) or None, conversion.only_this_size)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a recorded output differs from the computed one: the largest difference, its index, and how many elements
    exceed the tolerance.

    `answer_of` names other rules of which the recorded output is the result.
    """

    elements: int
    off: int
    largest: float
    at: tuple[int, ...] | None
    recorded: float | None
    computed: float | None
    answer_of: str | None = None


def compare_data(layer: Layer, path: str, options: ReadOptions) -> Comparison:
    """Pool `input` of an .npz or .h5 file as the layer does, and compare the result with its `output`.

    A RequestError if the shapes do not fit the layer.
    """
    try:
        if not recognise(path).is_container:
            raise RequestError(f"{path}: holds one array")
        x, recorded = (read(parse_source(path, key), options).array for key in ("input", "output"))
    except PoolError as error:  # the exit code of a FileError would mean that they differ
        raise RequestError(f"{error.message}; {field('run')} needs arrays called input and output") from None
    if layer.op is None or layer.shape_only:
        raise RequestError(f"layer {layer.name}: {_why_unknown(layer)}")
    if shared.contradicts(layer.input_shape, x.shape):
        shapes = option_value(x.shape), option_value(layer.input_shape)
        raise RequestError(f"{path}: input is {shapes[0]}, but layer {layer.name} takes {shapes[1]}")
    layout = layer.layout or default_layout(x.ndim)
    plan = make_plan(layer.op, x.shape, str(x.dtype.newbyteorder("=")), layout=layout)
    shape = shared.stored_shape(layer, plan.output_shape)
    if recorded.shape != shape:
        raise RequestError(
            f"{path}: output is {option_value(recorded.shape)}, but layer {layer.name} makes {option_value(shape)} "
            f"of input {option_value(x.shape)}"
        )
    found = _difference(layer, plan, x, recorded)
    return replace(found, answer_of=_equal_rules(layer, plan, x, recorded)) if found.off else found


def _difference(layer: Layer, plan: Plan, x: Array, recorded: Array) -> Comparison:
    computed = run(plan, x)[0].reshape(shared.stored_shape(layer, plan.output_shape))
    tolerance = 0 if plan.reducer.picks or computed.dtype.kind in "iub" else FLOAT_TOLERANCE
    found = compare(recorded, computed, atol=tolerance, rtol=tolerance)
    if found.where is None:
        return Comparison(found.elements, 0, 0.0, None, None, None)
    a, b = (float(each[found.where]) for each in (recorded, computed))
    return Comparison(found.elements, found.different, found.max_abs, found.where, a, b)


def _equal_rules(layer: Layer, plan: Plan, x: Array, recorded: Array) -> str | None:
    """The other rules under which the same attributes give the recorded output; None if there are none."""
    op = cast("Attributes", layer.op)
    variants = {"": op}
    if isinstance(op, DividingAttributes):
        exclude = not plan.attributes["exclude_pad"]
        variants[f" with padding {'not ' if exclude else ''}counted"] = replace(op, exclude_pad=exclude)
    for suffix, variant in variants.items():
        for row in compare_dialects(variant, plan):
            if row.plan is None or (row.chosen and not suffix):
                continue
            is_alike = shared.stored_shape(layer, row.plan.output_shape) == recorded.shape
            if is_alike and not _difference(layer, row.plan, x, recorded).off:
                return row.title + suffix
    return None
