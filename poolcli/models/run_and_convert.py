"""What `poolcli check` does with a single layer: compares it with recorded data (`--run`), or converts it (`--to`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from poolcli.engine import run
from poolcli.errors import RequestError
from poolcli.explain.compare_dialects import compare_dialects
from poolcli.explain.diff_arrays import diff_arrays
from poolcli.explain.export import ONLY_THIS_SIZE, convert
from poolcli.formats import ReadOptions, is_container, parse_source, read
from poolcli.layouts import default_layout, spatial_axes
from poolcli.message_fields import field, marked_message, option_value
from poolcli.models.layer import (
    GlobalWindow,
    Layer,
    contradicts,
    how_to_fix_lengths,
    in_framework_terms,
    infer_shape,
    stored_shape,
    without_indices,
)
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes, DividingAttributes
from poolcli.system.lazy_imports import Array

FLOAT_TOLERANCE = 1e-5  # relative and absolute; integers and maxima must be equal


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
    if not is_container(path):
        raise RequestError(
            f"{path}: holds one array; {field('run')} takes an .npz or .h5 that holds `input` and `output`"
        )
    x, recorded = (read(parse_source(path, key), options).array for key in ("input", "output"))
    if layer.op is None or layer.shape_only:
        raise RequestError(f"layer {layer.name}: {_why_unknown(layer)}")
    if contradicts(layer.input_shape, x.shape):
        shapes = option_value(x.shape), option_value(layer.input_shape)
        raise RequestError(f"{path}: input is {shapes[0]}, but layer {layer.name} takes {shapes[1]}")
    layout = layer.layout or default_layout(x.ndim)
    sizes = [x.shape[place] for place in spatial_axes(layout)]
    op = layer.op.over(sizes) if isinstance(layer.op, GlobalWindow) else layer.op
    plan = make_plan(op, x.shape, str(x.dtype.newbyteorder("=")), layout=layout)
    shape = stored_shape(layer, plan.output_shape)
    if recorded.shape != shape:
        other = _equal_rules(layer, op, plan, x, recorded)
        raise RequestError(
            f"{path}: output is {option_value(recorded.shape)}, but layer {layer.name} makes {option_value(shape)} "
            f"of input {option_value(x.shape)}" + (f"; it equals the result of {other}" if other else "")
        )
    found = _difference(layer, plan, x, recorded)
    return replace(found, answer_of=_equal_rules(layer, op, plan, x, recorded)) if found.off else found


def _why_unknown(layer: Layer) -> str:
    """Why the values of a layer are not known."""
    refused = in_framework_terms(layer.framework, f"refuses it: {layer.invalid}") if layer.invalid else None
    return refused or layer.problem or layer.shape_only or "the rank of its input is not known"


def _difference(layer: Layer, plan: Plan, x: Array, recorded: Array) -> Comparison:
    computed = run(plan, x)[0].reshape(stored_shape(layer, plan.output_shape))
    tolerance = 0 if plan.reducer.picks or computed.dtype.kind in "iub" else FLOAT_TOLERANCE
    found = diff_arrays(recorded, computed, atol=tolerance, rtol=tolerance)
    if found.where is None:
        return Comparison(found.elements, 0, 0.0, None, None, None)
    a, b = (float(each[found.where]) for each in (recorded, computed))
    return Comparison(found.elements, found.different, found.max_abs, found.where, a, b)


def _equal_rules(layer: Layer, op: Attributes, plan: Plan, x: Array, recorded: Array) -> str | None:
    """The other rules under which the same attributes give the recorded output; None if there are none."""
    variants = {"": without_indices(op)}
    if isinstance(op, DividingAttributes):
        exclude = not plan.attributes["exclude_pad"]
        variants[f" with padding {'not ' if exclude else ''}counted"] = replace(op, exclude_pad=exclude)
    for suffix, variant in variants.items():
        for row in compare_dialects(variant, plan):
            if row.plan is None or (row.chosen and not suffix):
                continue
            is_alike = stored_shape(layer, row.plan.output_shape) == recorded.shape
            if is_alike and not _difference(layer, row.plan, x, recorded).off:
                return row.title + suffix
    return None


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
    op, shape = layer.op, layer.input_shape
    if op is None or shape is None or layer.invalid or layer.shape_only:
        return LayerConversion(like, None, _why_unknown(layer))
    try:
        inferred = infer_shape(op, shape, layer.layout)
    except RequestError as error:
        return LayerConversion(like, None, in_framework_terms(layer.framework, error.message))
    if inferred.short:
        return LayerConversion(like, None, "its windows are longer than its padded input")
    conversion = convert(inferred.plan, like)
    if conversion.text is None:
        return LayerConversion(like, None, conversion.reason)
    # The kernel of a global window is the length of its input.
    only_this_size = conversion.only_this_size or isinstance(op, GlobalWindow)
    if only_this_size and not inferred.complete:
        why = f"the call depends on dynamic lengths; {how_to_fix_lengths(layer.framework)}"
        return LayerConversion(like, None, marked_message(why))
    layout, notes = inferred.plan.layout, list[str]()
    if layout.endswith("C") and like != "tensorflow":
        notes.append(f"for data in the order {default_layout(len(layout))}; the layer's are {layout}")
    if not layer.keeps_axes:
        notes.append("the pooled axes, 1 long, are dropped after it")
    if only_this_size:
        notes.append(ONLY_THIS_SIZE)
    return LayerConversion(like, conversion.text, None, "; ".join(notes) or None, only_this_size)
