"""The record of a pooling layer in a model file, the inference of its output shape, and what all readers share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar, cast

from poolcli.arguments import PerAxis
from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.layouts import default_layout, spatial_axes
from poolcli.message_fields import field as field_name
from poolcli.message_fields import for_model_file, hints_for
from poolcli.ops import AvgPool
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes, BinAttributes, PickingAttributes, SlidingAttributes
from poolcli.windows import ceil_div, extent

EXPORT_TORCH = "write it in Python: torch.onnx.export(model, inputs, 'model.onnx')"
EXPORT_KERAS = "write it in Python: model.export('model.onnx', format='onnx')"
EXPORT_SAVED = "convert it: python -m tf2onnx.convert --saved-model FOLDER --output model.onnx"
EXPORT_FROZEN = (
    "convert it: python -m tf2onnx.convert --graphdef FILE --inputs NAME:0 --outputs NAME:0 --output model.onnx"
)
EXPORT_SCRIPT = "write it in Python: torch.onnx.export(torch.jit.load('model.pt'), inputs, 'model.onnx', dynamo=False)"


class NotOnnxError(RequestError):
    """The file is not an ONNX model."""


Dim = int | str | None  # a length, the name or formula of a dynamic one ("?": unknown), or None
Shape = tuple[Dim, ...]
Length = TypeVar("Length", int, Dim)
MAX_FORMULA = 60  # characters
MAX_NAME = 200  # characters of a name that becomes a prefix of others


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A pooling layer of a model file.

    Attributes
    ----------
    name, type, version, framework : str
    op : record, GlobalWindow or None
        The operator; None if it is not known (`problem`, or a reduction without `input_shape`), or if the framework
        refuses the layer (`invalid`).
    problem, invalid : str or None
        The reasons for that.
    given : mapping
        The attributes as the file spells them.
    input_shape, declared_shape : tuple or None
        Shapes that the file states or that are inferred; None if there are none.
    layout : str or None
        The axes of the data; None for N, C and the spatial ones.
    keeps_axes : bool
        False if the layer drops the pooled axes.
    moved : bool
        Whether the input has another shape than the file states.
    shape_only : str or None
        Why `op` computes the shape of the layer, but not its values.
    stopped : str or None
        The node at which inference of the input shape stopped.
    warnings : tuple of str
    """

    name: str
    type: str
    version: str
    framework: str
    op: LayerOp | None = None
    problem: str | None = None
    invalid: str | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    input_shape: Shape | None = None
    declared_shape: Shape | None = None
    layout: str | None = None
    keeps_axes: bool = True
    moved: bool = False
    shape_only: str | None = None
    stopped: str | None = None
    warnings: tuple[str, ...] = ()


MAX_SPATIAL_AXES = 3  # of poolings in OpenVINO and ONNX Runtime
RANKS = range(3, 3 + MAX_SPATIAL_AXES)


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


def pools_by_name(kind: str) -> bool:
    """Whether an operator that is not known here pools, by its name: it is listed, but not checked."""
    return re.search("pool|roi_?align|roifeatureextractor", kind, re.IGNORECASE) is not None


def may_pool(axes: Sequence[int] | None, shape: Shape | None, declared: Shape | None, *, keeps: bool) -> bool:
    """Whether a reduction to the shape `declared` may pool all spatial axes, though its axes or the shape of its input
    are not known.
    """
    if shape is not None:
        layouts = (
            (default_layout(len(shape)), channels_last(len(shape))) if axes is None and len(shape) in RANKS else ()
        )
        return any(not contradicts(_without_spatial(shape, layout, keeps), declared) for layout in layouts)
    if axes is None:
        return False
    ranks = RANKS if declared is None else (len(declared) + (0 if keeps else len(axes)),)
    return any(reduced_layout(axes, ("?",) * rank, keeps=keeps) for rank in ranks)


def _without_spatial(shape: Shape, layout: str, keeps: bool) -> Shape:
    """The shape after a global pooling."""
    pairs = zip(shape, layout, strict=True)
    return tuple(dim if name in "NC" else 1 for dim, name in pairs if keeps or name in "NC")


def channels_last(rank: int) -> str:
    """The layout with channels last, such as NHWC."""
    return "N" + "DHW"[5 - rank :] + "C"


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


class InvalidError(RequestError):
    """The framework itself refuses the layer, or crashes on it; `does` says which."""

    def __init__(self, message: str, does: str = "refuses it", **more: Any) -> None:
        super().__init__(message, **more)
        self.does = does

    @property
    def sentence(self) -> str:
        """The whole sentence, with its fields marked."""
        return f"{self.does}: {self.message}"


def check_rank(shape: Shape) -> None:
    """Refuse an input of another rank than that of one to three spatial axes."""
    if len(shape) not in RANKS:
        raise InvalidError(f"its input has {len(shape)} axes; 3 to {2 + MAX_SPATIAL_AXES} are needed")


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
    """An output shape, and the operator and its plan if every spatial length is known.

    `short` names axes that are shorter than the window, which this framework accepts and others refuse.
    """

    shape: Shape
    op: Attributes | None = None
    plan: Plan | None = None
    short: str = ""


@lru_cache(maxsize=1024)  # layers of one model are often alike
def infer_shape(op: LayerOp, shape: Shape, layout: str | None = None) -> InferredShape:
    """Infer the output shape of `op`; a RequestError if it refuses `shape` whatever the dynamic lengths are."""
    layout = layout or default_layout(len(shape))
    places = spatial_axes(layout)
    sizes = [shape[place] for place in places]
    short = "".join(
        layout[place] for i, place in enumerate(places) if _output_of_short_axis(op, i, sizes[i]) is not None
    )
    if not short and all(map(is_number, sizes)):
        sized = op.over(cast("list[int]", sizes)) if isinstance(op, GlobalWindow) else op
        # N and C do not matter: unknown ones are replaced by 1.
        numbers = [cast("int", size) if is_number(size) else 1 for size in shape]
        plan = make_plan(without_indices(sized), numbers, layout=layout)
        return InferredShape(
            tuple(plan.output_shape[i] if i in places else dim for i, dim in enumerate(shape)), sized, plan
        )
    if isinstance(op, GlobalWindow):
        return InferredShape(tuple(1 if i in places else dim for i, dim in enumerate(shape)))
    # A plan of all axes, because limits depend on their number. Unknown lengths are replaced by those of one window:
    # what is refused there is refused at any length.
    fitted = [dim if is_number(dim) else 1 for dim in shape]
    for i, place in enumerate(places):
        if layout[place] in short or not is_number(shape[place]):
            fitted[place] = _window_length(op, i)
    plan = make_plan(without_indices(op), cast("list[int]", fitted), layout=layout)
    found = list(shape)
    for i, place in enumerate(places):
        outside = _output_of_short_axis(op, i, shape[place])
        if outside is not None:
            found[place] = outside
        elif is_number(shape[place]) or isinstance(op, BinAttributes):
            found[place] = plan.output_shape[place]
        else:
            found[place] = _formula(op, plan, i, shape[place])
    return InferredShape(tuple(found), short=short)


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


def stored_shape(layer: Layer, shape: tuple[Length, ...]) -> tuple[Length, ...]:
    """The output shape as the layer returns it: without spatial axes if the layer drops them."""
    spatial = () if layer.keeps_axes else spatial_axes(layer.layout or default_layout(len(shape)))
    return tuple(length for axis, length in enumerate(shape) if axis not in spatial)


def _output_of_short_axis(op: LayerOp, i: int, size: Dim) -> int | None:
    """The output length of an axis that is shorter than the window, which poolcli refuses, but some frameworks accept.

    ONNX Runtime rounds a negative quotient up whatever ceil_mode is, PyTorch only with ceil_mode. None if the windows
    fit, or the framework refuses them too.
    """
    if not isinstance(op, SlidingAttributes) or op.auto_pad not in ("explicit", "valid") or not is_number(size):
        return None
    if op.like != "onnx" and (op.like, op.rounding_type) != ("pytorch", "ceil"):
        return None
    stride, begin, end = (_along(value, i) for value in (op.strides or 1, op.pads_begin, op.pads_end))
    padded = cast("int", size) + (begin + end if op.auto_pad == "explicit" else 0)
    span = padded - _window_length(op, i)
    output = ceil_div(span, stride) + 1
    return output if span < 0 <= output - (op.like != "onnx") else None


def without_indices(op: Attributes) -> Attributes:
    """The operator with default attributes of indices, on which no shape depends."""
    return replace(op, axis=None, index_element_type="i64") if isinstance(op, PickingAttributes) else op


def _window_length(op: Attributes, i: int) -> int:
    """The length of a window along spatial axis `i`."""
    return extent(_along(op.kernel, i), _along(op.dilations, i)) if isinstance(op, SlidingAttributes) else 1


def _along(value: PerAxis, i: int) -> int:
    """The number for spatial axis `i`; a single one is for every axis."""
    return value if isinstance(value, int) else value[i if len(value) > 1 else 0]


def _formula(op: SlidingAttributes, plan: Plan, i: int, size: Dim) -> Dim:
    """The output length along spatial axis `i` as a formula of the input's name; `?` if that has no name."""
    n = _dim_term(size)
    if n is None:
        return "?"
    window = _window_length(op, i)
    stride, begin, end = (cast("list[int]", plan.attributes[name])[i] for name in ("strides", "pads_begin", "pads_end"))
    text = _quotient_of(op, n, window, stride, begin, end)
    return size if text == n else text


def _quotient_of(op: SlidingAttributes, n: str, window: int, stride: int, begin: int, end: int) -> str:
    """The formula of the output length by the rounding rule and `auto_pad`."""
    word = DIALECTS[op.like].rounding_rule(op.rounding_type)
    if op.auto_pad.startswith("same"):
        least = _quotient_term(n, stride - 1, stride)
        if word != "ceil" or window >= stride:
            return least
        return _min_or_max("max", least, _quotient_term(n, 2 * stride - 1 - window, stride))
    past = begin + end - window
    if word == "floor":
        return _quotient_term(n, past + stride, stride)
    kept = _quotient_term(n, past + 2 * stride - 1, stride)
    if word == "ceil" or end + stride <= window:
        return kept
    return _min_or_max("min", kept, _quotient_term(n, begin + stride - 1, stride))


def _min_or_max(word: str, one: str, other: str) -> str:
    text = f"{word}({one},{other})"
    return text if len(text) <= MAX_FORMULA else "?"


def _dim_term(size: Dim) -> str | None:
    if not isinstance(size, str) or size == "?" or len(size) > MAX_FORMULA:
        return None
    return size if re.fullmatch(r"\w+", size) else f"({size})"


def _quotient_term(n: str, add: int, stride: int) -> str:
    """The shortest text for (n + add) // stride."""
    top = n if add == 0 else f"{n}{add:+}"
    if stride == 1:
        return top
    text = f"{top}//{stride}" if add == 0 else f"({top})//{stride}"
    return text if len(text) <= MAX_FORMULA else "?"
