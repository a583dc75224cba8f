"""The record of a pooling layer in a model file, the inference of its output shape, and what all readers share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

from poolcli.arguments import PerAxis
from poolcli.errors import RequestError
from poolcli.layouts import CHANNELS, channels_last, default_layout, spatial_axes
from poolcli.message_fields import field as field_name, for_python
from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes, SlidingAttributes, short_repr
from poolcli.windows import ceil_div, extent

Dim = int | str | None  # a length, the name of a dynamic one ("?": none), or None
Shape = tuple[Dim, ...]
Given = Mapping[str, tuple[int, ...]]  # lengths of inputs by name; those of the only input may be under ""
MAX_NAME = 200  # characters of a name that becomes a prefix of others
RANKS = range(3, 6)  # poolings of OpenVINO and ONNX Runtime have up to three spatial axes


def no_model(path: str, kind: str) -> RequestError:
    """The error for a file of a kind that is not read; unless it is `not a model` at all, with how to export one."""
    exports = (
        "; to export: torch.onnx.export(model, inputs, 'model.onnx'), model.export('model.onnx', format='onnx') of "
        "Keras, tf2onnx of TensorFlow"
    )
    read = "check reads ONNX, OpenVINO IR (.xml), TensorFlow Lite and torch.export (.pt2)"
    return RequestError(f"{path}: {kind}; {read}{'' if 'not a model' in kind else exports}")


class InvalidError(RequestError):
    """The framework itself refuses the layer."""


@lru_cache(maxsize=1024)  # layers of one model are often alike
def make_operator(record: Any, **given: Any) -> Any:
    """Create an operator; invalid attributes are an InvalidError."""
    try:
        return record(**given)
    except RequestError as error:
        raise InvalidError(error.message) from None


REDUCTIONS = {"Mean": AdaptiveAvgPool(1), "Max": AdaptiveMaxPool(1)}  # over all spatial axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A pooling layer of a model file. Shapes are None where the file states none and none is inferred."""

    name: str
    type: str
    version: str
    framework: str
    op: Attributes | None = None  # None with a `problem`, if it is `invalid`, and for a reduction without `input_shape`
    problem: str | None = None  # why it is not known
    invalid: str | None = None  # why the framework refuses it
    given: Mapping[str, str] = field(default_factory=dict, repr=False)  # attributes as the file spells them
    input_shape: Shape | None = None  # inferred, or else stated
    stated_input: Shape | None = None
    declared_shape: Shape | None = None  # of the output
    layout: str | None = None  # None for N, C and the spatial axes
    keeps_axes: bool = True  # whether pooled axes stay, 1 long
    shape_only: str | None = None  # why `op` computes the shape of the layer, but not its values
    warnings: tuple[str, ...] = ()
    __repr__ = short_repr


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


def named_lengths(path: str, given: Given, inputs: Sequence[str], declared: Mapping[str, Sequence[Dim]]) -> Given:
    """The given lengths by name, where "" stands for the only one of the `inputs`; `declared` are those of all names.

    Other lengths than the declared ones are refused for channels of images, which layers cannot take.
    """
    if "" in given and len(inputs) != 1:
        example = field_name("input_shape", f"{inputs[0]}=1,3,640,640") if inputs else "none"
        raise RequestError(f"{path}: it has {len(inputs)} inputs; name one, as in {example}")
    for name, lengths in given.items():
        if name and name not in declared:
            raise RequestError(f"{path}: no input is called {name}; there are: {', '.join(declared)[:200]}")
        known = declared[name or inputs[0]]
        if len(lengths) == len(known) > 3 and known[1] in CHANNELS and lengths[1] != known[1]:
            found = f"input {name or inputs[0]} has {known[1]} channels, but {lengths[1]} are given"
            raise RequestError(f"{path}: {found} in {field_name('input_shape', ','.join(map(str, lengths)))}")
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


def how_to_fix_lengths(framework: str) -> str:
    """What to do to make dynamic lengths known; `check` takes shapes for IR and ONNX models."""
    if framework in ("PyTorch", "TensorFlow Lite"):
        return "export the model with fixed lengths"
    return f"{field_name('input_shape')}{' or value_info' if framework == 'ONNX Runtime' else ''} gives its lengths"


def check_rank(shape: Shape | None) -> None:
    """Refuse an input of a known rank other than that of one to three spatial axes."""
    if shape is not None and len(shape) not in RANKS:
        raise InvalidError(f"its input has {len(shape)} axes; {RANKS[0]} to {RANKS[-1]} are needed")


def check_count(name: str, found: int, axes: int, for_each: int = 1) -> None:
    """Refuse another count of numbers than `for_each` for each of the spatial axes."""
    if found != for_each * axes:
        numbers = f"{found} number{'' if found == 1 else 's'}"
        raise InvalidError(f"{name} has {numbers}, but {axes} spatial axes need {for_each * axes}")


@dataclass(frozen=True, slots=True)
class InferredShape:
    """An output shape, and the plan that gives it.

    Where a length is not known (not `complete`), the plan is of one window. `short` names axes that are shorter than
    the window, which this framework accepts and others refuse.
    """

    shape: Shape
    plan: Plan
    complete: bool
    short: str


@lru_cache(maxsize=1024)
def infer_shape(op: Attributes, shape: Shape, layout: str | None = None) -> InferredShape:
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
    plan = make_plan(op, lengths, layout=layout)
    found = list(shape)
    for place in places:
        found[place] = plan.output_shape[place] if outputs[place] is None else outputs[place]
        if isinstance(op, SlidingAttributes) and not is_number(shape[place]):
            found[place] = "?"
    complete = not short and all(is_number(shape[place]) for place in places)
    return InferredShape(tuple(found), plan, complete, short)


def stored_shape(layer: Layer, shape: Sequence[Any]) -> tuple[Any, ...]:
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


def _output_of_short_axis(op: Attributes, i: int, size: Dim) -> int | None:
    """The output length of an axis that is shorter than the window, if ONNX Runtime accepts it; None for others.

    It rounds a negative quotient up whatever ceil_mode is, and an output may be empty.
    """
    if not isinstance(op, SlidingAttributes) or op.like != "onnx" or op.auto_pad.startswith("same"):
        return None
    if not is_number(size):
        return None
    pads = _along(op.pads_begin, i) + _along(op.pads_end, i) if op.auto_pad == "explicit" else 0
    span = cast("int", size) + pads - _window_length(op, i)
    output = ceil_div(span, _along(op.strides or 1, i)) + 1
    return output if span < 0 <= output <= (op.rounding_type == "floor") else None


def _window_length(op: Attributes, i: int) -> int:
    return extent(_along(op.kernel, i), _along(op.dilations, i)) if isinstance(op, SlidingAttributes) else 1


def _along(value: PerAxis, i: int) -> int:
    """The number for spatial axis `i`; a single one is for every axis."""
    return value if isinstance(value, int) else value[i if len(value) > 1 else 0]
