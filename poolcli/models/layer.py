"""The record of a pooling layer in a model file, the inference of its output shape, and what all readers share."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar, cast

from poolcli.arguments import PerAxis
from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.layouts import channels_last, default_layout, spatial_axes
from poolcli.message_fields import field as field_name
from poolcli.message_fields import for_model_file, for_python, hints_for
from poolcli.ops import AvgPool, LpPool
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes, PickingAttributes, SlidingAttributes
from poolcli.windows import Sliding, ceil_div, extent

EXPORT_TORCH = "write it in Python: torch.onnx.export(model, inputs, 'model.onnx')"
EXPORT_KERAS = "write it in Python: model.export('model.onnx', format='onnx')"
SAVED_MODEL = (
    "a SavedModel of TensorFlow; convert it: python -m tf2onnx.convert --saved-model FOLDER --output model.onnx"
)
Dim = int | str | None  # a length, the name or formula of a dynamic one ("?": unknown), or None
Shape = tuple[Dim, ...]
Given = Mapping[str, tuple[int, ...]]  # lengths of inputs by name; those of the only input may be under ""
Length = TypeVar("Length", int, Dim)
MAX_FORMULA = 60  # characters
MAX_NAME = 200  # characters of a name that becomes a prefix of others
RANKS = range(3, 6)  # poolings of OpenVINO and ONNX Runtime have up to three spatial axes


class InvalidError(RequestError):
    """The framework itself refuses the layer."""


@dataclass(frozen=True, slots=True)
class GlobalWindow:
    """An operator with one window over all spatial axes; the kernel follows from the input."""

    record: type[SlidingAttributes]
    options: tuple[tuple[str, Any], ...] = ()

    def over(self, sizes: Sequence[int]) -> Attributes:
        """The operator on spatial axes of these lengths."""
        return self.record(kernel=tuple(sizes), **dict(self.options))


LayerOp = Attributes | GlobalWindow
GLOBAL_SUM = GlobalWindow(AvgPool, (("divisor_override", 1),))


def global_norm(power: int) -> GlobalWindow:
    """The norm over all spatial axes."""
    return GlobalWindow(LpPool, (("p", power),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A pooling layer of a model file. Shapes are None where the file states none and none is inferred."""

    name: str
    type: str
    version: str
    framework: str
    op: LayerOp | None = None  # None with a `problem`, if it is `invalid`, and for a reduction without `input_shape`
    problem: str | None = None  # why it is not known
    invalid: str | None = None  # why the framework refuses it
    given: Mapping[str, str] = field(default_factory=dict)  # attributes as the file spells them
    input_shape: Shape | None = None  # inferred, or else stated
    stated_input: Shape | None = None
    declared_shape: Shape | None = None  # of the output
    layout: str | None = None  # None for N, C and the spatial axes
    keeps_axes: bool = True  # whether pooled axes stay, 1 long
    shape_only: str | None = None  # why `op` computes the shape of the layer, but not its values
    is_fixed: bool = False  # the lengths of the model's inputs are known: it is inference that does not find others
    warnings: tuple[str, ...] = ()


def interpreted(stated: Layer, interpret: Callable[[Layer], Layer | None]) -> Layer | None:
    """The layer with what `interpret` adds; an InvalidError becomes `invalid`, another RequestError `problem`.

    None if it pools nothing, such as a reduction over other axes than the spatial ones.
    """
    try:
        return interpret(stated)
    except InvalidError as error:
        return replace(stated, invalid=error.message)
    except RequestError as error:
        return replace(stated, problem=for_python(error.message))


def named_lengths(path: str, given: Given, inputs: Sequence[str], names: Collection[str]) -> Given:
    """The given lengths by name, where "" stands for the only one of the `inputs`; `names` are all that inputs have."""
    if "" in given and len(inputs) != 1:
        example = field_name("input_shape", f"{inputs[0]}=1,3,640,640") if inputs else "none"
        raise RequestError(f"{path}: it has {len(inputs)} inputs; name one, as in {example}")
    for name in given:
        if name and name not in names:
            raise RequestError(f"{path}: no input is called {name}; there are: {', '.join(names)[:200]}")
    return {name or inputs[0]: lengths for name, lengths in given.items()}


def is_number(dim: Dim) -> bool:
    """Whether the length is known; 0 and -1 are dynamic."""
    return isinstance(dim, int) and dim > 0


def contradicts(one: Shape | None, other: Shape | None) -> bool:
    """Whether two shapes are known and incompatible."""
    if one is None or other is None:
        return False
    return len(one) != len(other) or any(
        is_number(a) and is_number(b) and a != b for a, b in zip(one, other, strict=True)
    )


def reduced_layout(axes: Sequence[int] | None, shape: Shape | None, *, keeps: bool, last: bool = False) -> str | None:
    """The layout, channels first or last, whose spatial axes a reduction pools; None if it reduces other axes.

    With one spatial axis both layouts look alike, and the default of the format decides: axis 1 if channels are `last`,
    else axis 2. A reduction of axis -1 that `keeps` it belongs to a normalisation, one that drops it is a pooling.
    """
    if axes is None or shape is None or len(shape) not in RANKS:
        return None
    rank = len(shape)
    if rank == 3:
        pooled = ((1,), (-2,)) if last else ((2,),) if keeps else ((2,), (-1,))
        return ("NWC" if last else "NCW") if tuple(axes) in pooled else None
    found = tuple(sorted(axis % rank if -rank <= axis < rank else rank for axis in axes))
    layouts = {tuple(range(2, rank)): default_layout(rank), tuple(range(1, rank - 1)): channels_last(rank)}
    return layouts.get(found)


def may_pool(shape: Shape | None, declared: Shape | None, *, keeps: bool) -> bool:
    """Whether a reduction of unknown axes from one shape to the other may pool all spatial axes."""
    if shape is None or len(shape) not in RANKS:
        return False
    pooled = [
        tuple(dim if name in "NC" else 1 for dim, name in zip(shape, layout, strict=True) if keeps or name in "NC")
        for layout in (default_layout(len(shape)), channels_last(len(shape)))
    ]
    return not all(contradicts(each, declared) for each in pooled)


def pools_by_name(kind: str) -> bool:
    """Whether an operator that is not known here pools, by its name: it is listed, but not checked."""
    return re.search("pool|roi_?align|roifeatureextractor", kind, re.IGNORECASE) is not None


# How each framework spells the fields, and their values, that messages name.
FIELD_NAMES = {
    "ONNX Runtime": {
        "kernel": "kernel_shape", "pads": "pads", "pads_begin": "pads", "pads_end": "pads",
        "exclude_pad": "count_include_pad",
        "exclude_pad=True": "count_include_pad=0", "exclude_pad=False": "count_include_pad=1",
    },
    "OpenVINO": {
        "exclude_pad": "exclude-pad", "exclude_pad=True": "exclude-pad=true", "exclude_pad=False": "exclude-pad=false",
    },
    "PyTorch": {
        "kernel": "kernel_size", "strides": "stride", "pads": "padding", "pads_begin": "padding",
        "pads_end": "padding", "dilations": "dilation", "exclude_pad": "count_include_pad",
        "exclude_pad=True": "count_include_pad=False", "exclude_pad=False": "count_include_pad=True",
    },
    "TensorFlow Lite": {"kernel": "filter", "strides": "stride", "auto_pad": "padding"},
}  # fmt: skip


def how_to_fix_lengths(framework: str) -> str:
    """What to do to make dynamic lengths known; `check` takes shapes for IR and ONNX models."""
    if framework in ("PyTorch", "TensorFlow Lite"):
        return "export the model with fixed lengths"
    return f"{field_name('input_shape')} gives its lengths"


def in_framework_terms(framework: str, message: str) -> str:
    """The message in the terms of the model's framework."""
    return for_model_file(hints_for(FIELD_NAMES[framework], message), FIELD_NAMES[framework])


def check_rank(shape: Shape) -> None:
    """Refuse an input of another rank than that of one to three spatial axes."""
    if len(shape) not in RANKS:
        raise InvalidError(f"its input has {len(shape)} axes; {RANKS[0]} to {RANKS[-1]} are needed")


def check_count(name: str, found: int, axes: int, for_each: int = 1) -> None:
    """Refuse another count of numbers than `for_each` for each of the spatial axes."""
    if found != for_each * axes:
        numbers = f"{found} number{'' if found == 1 else 's'}"
        raise InvalidError(f"{name} has {numbers}, but {axes} spatial axes need {for_each * axes}")


@lru_cache(maxsize=1024)  # layers of one model are often alike
def make_operator(record: Any, **given: Any) -> Attributes:
    """Create an operator; invalid attributes are an InvalidError."""
    try:
        return cast("Attributes", record(**given))
    except RequestError as error:
        raise InvalidError(error.message) from None


@dataclass(frozen=True, slots=True)
class InferredShape:
    """An output shape, and the plan of the operator `op` that gives it.

    Where a length is not known (not `complete`), the plan is of one window. `short` names axes that are shorter than
    the window, which this framework accepts and others refuse.
    """

    shape: Shape
    op: Attributes
    plan: Plan
    complete: bool
    short: str


@lru_cache(maxsize=1024)
def infer_shape(op: LayerOp, shape: Shape, layout: str | None = None) -> InferredShape:
    """Infer the output shape of `op`; a RequestError if it refuses `shape` whatever the dynamic lengths are."""
    layout = layout or default_layout(len(shape))
    places = spatial_axes(layout)
    outputs = {place: _output_of_short_axis(op, i, shape[place]) for i, place in enumerate(places)}
    short = "".join(layout[place] for place in places if outputs[place] is not None)
    # A plan of all axes, because limits depend on their number. Unknown lengths are replaced by those of one window:
    # what is refused there is refused at any length. N and C do not matter.
    lengths = [cast("int", dim) if is_number(dim) else 1 for dim in shape]
    for i, place in enumerate(places):
        if layout[place] in short or not is_number(shape[place]):
            lengths[place] = _window_length(op, i)
    sized = op.over([lengths[place] for place in places]) if isinstance(op, GlobalWindow) else op
    plan = make_plan(without_indices(sized), lengths, layout=layout)
    found = list(shape)
    for i, place in enumerate(places):
        found[place] = plan.output_shape[place] if outputs[place] is None else outputs[place]
        if isinstance(op, SlidingAttributes) and not is_number(shape[place]):
            found[place] = _formula(op, cast("Sliding", plan.windows[i]), shape[place])
    complete = not short and all(is_number(shape[place]) for place in places)
    return InferredShape(tuple(found), sized, plan, complete, short)


def stored_shape(layer: Layer, shape: tuple[Length, ...]) -> tuple[Length, ...]:
    """The output shape as the layer returns it: without spatial axes if the layer drops them."""
    spatial = () if layer.keeps_axes else spatial_axes(layer.layout or default_layout(len(shape)))
    return tuple(length for axis, length in enumerate(shape) if axis not in spatial)


def output_shape(layer: Layer) -> Shape | None:
    """The output shape of the layer; None if it is unknown, or the framework refuses the layer."""
    if layer.op is None or layer.input_shape is None:
        return None
    try:
        return stored_shape(layer, infer_shape(layer.op, layer.input_shape, layer.layout).shape)
    except RequestError:
        return None


def first_contradiction(layers: Sequence[Layer]) -> Layer | None:
    """The first layer whose output shape contradicts the shape that the file states."""
    return next((layer for layer in layers if contradicts(output_shape(layer), layer.declared_shape)), None)


def with_warnings_after_a_contradiction(layers: list[Layer], why: str = "") -> list[Layer]:
    """The layers, with a warning on those after one that contradicts the file: their input is only stated."""
    wrong = first_contradiction(layers)
    if wrong is None:
        return layers
    warning = f"its input is as stated, although {wrong.name} differs{why}"
    after = layers.index(wrong) + 1
    return layers[:after] + [replace(layer, warnings=(*layer.warnings, warning)) for layer in layers[after:]]


def without_indices(op: Attributes) -> Attributes:
    """The operator with default attributes of indices, on which no shape depends."""
    return replace(op, axis=None, index_element_type="i64") if isinstance(op, PickingAttributes) else op


def _output_of_short_axis(op: LayerOp, i: int, size: Dim) -> int | None:
    """The output length of an axis that is shorter than the window, which poolcli refuses, but ONNX Runtime accepts.

    It rounds a negative quotient up whatever ceil_mode is, and an output may be empty. None if the windows fit, or it
    refuses them too.
    """
    if not isinstance(op, SlidingAttributes) or op.like != "onnx" or not is_number(size):
        return None
    if op.auto_pad not in ("explicit", "valid"):
        return None
    pads = _along(op.pads_begin, i) + _along(op.pads_end, i) if op.auto_pad == "explicit" else 0
    span = cast("int", size) + pads - _window_length(op, i)
    output = ceil_div(span, _along(op.strides or 1, i)) + 1
    return output if span < 0 <= output <= (op.rounding_type == "floor") else None


def _window_length(op: LayerOp, i: int) -> int:
    """The length of a window along spatial axis `i`."""
    return extent(_along(op.kernel, i), _along(op.dilations, i)) if isinstance(op, SlidingAttributes) else 1


def _along(value: PerAxis, i: int) -> int:
    """The number for spatial axis `i`; a single one is for every axis."""
    return value if isinstance(value, int) else value[i if len(value) > 1 else 0]


def _formula(op: SlidingAttributes, w: Sliding, size: Dim) -> Dim:
    """The output length of an axis as a formula of the input's name; `?` if that has no name, or for one with a
    minimum or maximum.
    """
    if not isinstance(size, str) or size == "?" or len(size) > MAX_FORMULA:
        return "?"
    rule = DIALECTS[op.like].rounding_rule(op.rounding_type)
    if op.auto_pad.startswith("same"):
        add = w.stride - 1
        exact = rule != "ceil" or w.extent >= w.stride
    else:
        add = w.pad_begin + w.pad_end - w.extent + (w.stride if rule == "floor" else 2 * w.stride - 1)
        exact = rule != "ceil_torch" or w.pad_end + w.stride <= w.extent
    if not exact:
        return "?"
    name = size if re.fullmatch(r"\w+", size) else f"({size})"
    text = name if add == 0 else f"{name}{add:+}"
    if w.stride > 1:
        text = f"{text}//{w.stride}" if add == 0 else f"({text})//{w.stride}"
    if text == name:
        return size
    return text if len(text) <= MAX_FORMULA else "?"
