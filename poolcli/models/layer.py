"""A pooling layer as its model file states it, the shape that comes out of it, and what all readers share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, BinaryIO, TypeVar, cast

from poolcli.arguments import per_axis
from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.layouts import default_layout, spatial_axes
from poolcli.message_fields import for_model_file, without_hints
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
    """The file is no ONNX model."""


class TruncatedError(RequestError):
    """The bytes are not what the format has there."""


def read_exactly(stream: BinaryIO, start: int, count: int) -> bytes:
    """The `count` bytes from `start` on; a TruncatedError where the file does not have them."""
    if start >= 0:
        stream.seek(start)
        data = stream.read(count)
        if len(data) == count:
            return data
    raise TruncatedError(f"nothing lies at byte {start + count:,}")


Dim = int | str | None  # a number, the name of a dynamic dimension, or nothing known
Shape = tuple[Dim, ...]
Length = TypeVar("Length", int, Dim)
LONGEST = 60  # characters of a length that is written as a formula


@dataclass(frozen=True, slots=True)
class Whole:
    """One window over all spatial axes, of an operator whose windows slide: its kernel is known with the input."""

    record: type[SlidingAttributes]
    options: tuple[tuple[str, Any], ...] = ()

    def over(self, sizes: Sequence[int]) -> Attributes:
        """The operator on spatial axes of these lengths."""
        return self.record(kernel=tuple(sizes), **dict(self.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer: `op` is None where the file does not say enough for one, which `problem` explains, or where the
    framework takes no such layer, which `invalid` explains.

    `given` are the attributes as the file spells them; shapes are None where the file states none. `layout` names the
    axes of the data, None for N, C and the spatial ones; `keeps_axes` is False where pooled axes are dropped.
    `framework` is whose model it is. `moved` says that the input is not the one that the file states shapes for,
    `stopped` names the node at which the inference of its input's lengths stopped, `shape_only` why
    the values of the layer are none that `op` computes, only its shape.
    """

    name: str
    type: str
    version: str
    framework: str
    op: Attributes | Whole | None = None
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


def is_number(dim: Dim) -> bool:
    """Whether the length is known; 0 stands for a dynamic one, as -1 does."""
    return isinstance(dim, int) and dim > 0


def contradict(one: Shape | None, other: Shape | None) -> bool:
    """Whether two shapes are known and cannot be of the same value."""
    if one is None or other is None:
        return False
    return len(one) != len(other) or any(
        is_number(a) and is_number(b) and a != b for a, b in zip(one, other, strict=True)
    )


def is_pooling(axes: Sequence[int] | None, shape: Shape | None, *, keeps: bool, last: bool = False) -> bool:
    """Whether these are the spatial axes of N, C and spatial ones, or of N, spatial ones and C.

    With one spatial axis both orders look alike, and what the format has by default decides: axis 1 where channels are
    `last`, else axis 2. Called -1, the last axis is that of a normalisation where the reduction `keeps` it, to be
    broadcast; where it is dropped, that of a pooling.
    """
    if axes is None or shape is None or not 3 <= len(shape) <= 5:
        return False
    rank = len(shape)
    if rank == 3:
        return tuple(axes) in (((1,), (-2,)) if last else ((2,),) if keeps else ((2,), (-1,)))
    found = sorted(axis % rank if -rank <= axis < rank else rank for axis in axes)
    return found == list(range(2, rank)) or found == list(range(1, rank - 1))


def channels_last(rank: int) -> str:
    """The layout of as many axes with the channels last: `NHWC`."""
    return "N" + "DHW"[5 - rank :] + "C"


def spatial_layout(axes: Sequence[int], shape: Shape | None) -> str | None:
    """The layout that such axes tell of; None for N, C and spatial axes."""
    rank = len(shape or ())
    return None if min(axis % rank for axis in axes) == 2 else channels_last(rank)


# How the files of each framework spell the fields, and the settings, that messages name.
WORDS = {
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


def in_words_of(framework: str, message: str) -> str:
    """The message as whoever changes the model's file reads it."""
    return for_model_file(without_hints(message), WORDS[framework])


class InvalidError(RequestError):
    """The framework itself refuses the layer, or crashes on it; `does` is which of the two."""

    def __init__(self, message: str, does: str = "refuses it", **more: Any) -> None:
        super().__init__(message, **more)
        self.does = does

    @property
    def told(self) -> str:
        """What the framework does, and why; fields are marked."""
        return f"{self.does}: {self.message}"


def counted(count: int) -> str:
    """So many numbers."""
    return f"{count} number{'' if count == 1 else 's'}"


@lru_cache(maxsize=1024)  # layers of one model are often alike
def made(record: Any, **given: Any) -> Attributes:
    """The operator with these attributes; an InvalidError where it takes none such."""
    try:
        operator: Attributes = record(**given)
    except RequestError as error:
        raise InvalidError(error.message) from None
    return operator


def meant(name: str, known: tuple[str, ...]) -> str:
    """The known attribute that a misspelt one looks like, as the end of a sentence; empty where none does."""
    found = get_close_matches(name.replace("-", "_"), [each.replace("-", "_") for each in known], 1)
    near = [each for each in known if found and each.replace("-", "_") == found[0]]
    return f"; {near[0]} is one" if near else ""


@dataclass(frozen=True, slots=True)
class Pooled:
    """The shape that comes out, and the operator and its plan where every spatial length is known.

    `short` names the axes on which windows are longer than what there is, of which the framework makes something.
    """

    shape: Shape
    op: Attributes | None = None
    plan: Plan | None = None
    short: str = ""


@lru_cache(maxsize=1024)  # layers of one model are often alike
def pooled(op: Attributes | Whole, shape: Shape, layout: str | None = None) -> Pooled:
    """What `op` makes of `shape`; a RequestError where it takes no such shape, whatever the dynamic lengths are."""
    layout = layout or default_layout(len(shape))
    places = spatial_axes(layout)
    sizes = [shape[place] for place in places]
    short = "".join(layout[place] for i, place in enumerate(places) if _short(op, i, sizes[i]) is not None)
    if not short and all(map(is_number, sizes)):
        sized = op.over(cast("list[int]", sizes)) if isinstance(op, Whole) else op
        # No window reads N and C: where they are not known, any number does.
        numbers = [cast("int", size) if is_number(size) else 1 for size in shape]
        plan = make_plan(without_indices(sized), numbers, layout=layout)
        return Pooled(tuple(plan.output_shape[i] if i in places else dim for i, dim in enumerate(shape)), sized, plan)
    found = list(shape)
    for i, place in enumerate(places):
        found[place] = _length(op, layout, places, shape, i)
    return Pooled(tuple(found), short=short)


def output_shape(layer: Layer) -> Shape | None:
    """The shape that comes out of the layer; None where it cannot be known, or the framework refuses the layer."""
    if layer.op is None or layer.input_shape is None:
        return None
    try:
        return stored_shape(layer, pooled(layer.op, layer.input_shape, layer.layout).shape)
    except RequestError:
        return None


def stored_shape(layer: Layer, shape: tuple[Length, ...]) -> tuple[Length, ...]:
    """The shape in which the layer gives what it pools to this one: where it drops them, without spatial axes."""
    return shape if layer.keeps_axes else without_axes(shape, layer.layout)


def without_axes(shape: tuple[Length, ...], layout: str | None) -> tuple[Length, ...]:
    """The shape without its spatial axes."""
    places = spatial_axes(layout or default_layout(len(shape)))
    return tuple(length for place, length in enumerate(shape) if place not in places)


def _length(op: Attributes | Whole, layout: str, places: Sequence[int], shape: Shape, i: int) -> Dim:
    """The length of the spatial axis `i` of the output."""
    if isinstance(op, Whole):
        return 1
    letters = "".join(layout[place] for place in places)
    one, size = _cut(op, letters, i), shape[places[i]]
    short = _short(op, i, size)
    if short is not None:
        return short
    numbers = [1, 1, cast("int", size) if is_number(size) else _shortest(one)]
    plan = make_plan(one, numbers, layout="NC" + letters[i])
    if is_number(size) or isinstance(one, BinAttributes):
        return plan.output_shape[2]
    text = _formula(one, plan, size)
    return size if text == _name(size) else text


def _short(op: Attributes | Whole, i: int, size: Dim) -> int | None:
    """What a framework makes of windows that are longer than the padded input, which poolcli refuses.

    ONNX Runtime rounds what is negative up, however it is told to round, PyTorch where it rounds up. None where the
    windows fit, or where the framework refuses them too.
    """
    if not isinstance(op, SlidingAttributes) or op.auto_pad != "explicit" or not is_number(size):
        return None
    if op.like != "onnx" and (op.like, op.rounding_type) != ("pytorch", "ceil"):
        return None
    kernel, stride, dilation, begin, end = (
        value if isinstance(value, int) else value[i if len(value) > 1 else 0]
        for value in (op.kernel, op.strides or 1, op.dilations, op.pads_begin, op.pads_end)
    )
    span = cast("int", size) + begin + end - extent(kernel, dilation)
    output = ceil_div(span, stride) + 1
    return output if span < 0 <= output - (op.like != "onnx") else None


def _cut(op: Attributes, letters: str, i: int) -> Attributes:
    """The operator on its spatial axis `i` alone."""
    cut: dict[str, Any] = {}
    for own in fields(op):
        value = getattr(op, own.name)
        if isinstance(value, tuple):
            cut[own.name] = per_axis(own.name, value, letters)[i]
    return without_indices(replace(op, **cut))


def without_indices(op: Attributes) -> Attributes:
    """The operator without what its indices count from and fit into, which lengths do not depend on."""
    return replace(op, axis=None, index_element_type="i64") if isinstance(op, PickingAttributes) else op


def _shortest(op: Attributes) -> int:
    """A length on which the windows fit: what is refused there is refused on any."""
    return extent(cast("int", op.kernel), cast("int", op.dilations)) if isinstance(op, SlidingAttributes) else 1


def _formula(op: SlidingAttributes, plan: Plan, size: Dim) -> Dim:
    """The output length in terms of the input's; `?` where that has no name."""
    n = _name(size)
    if n is None:
        return "?"
    stride, a = cast("list[int]", plan.attributes["strides"])[0], plan.attributes
    window = _shortest(op)
    word = DIALECTS[op.like].ceil if op.rounding_type == "ceil" else op.rounding_type
    begin, end = (cast("list[int]", a[name])[0] for name in ("pads_begin", "pads_end"))
    if op.auto_pad.startswith("same"):
        least = _quotient(n, stride - 1, stride)
        if word != "ceil" or window >= stride:
            return least
        return _either("max", least, _quotient(n, 2 * stride - 1 - window, stride))
    past = begin + end - window
    if word == "floor" or stride == 1:
        return _quotient(n, past + stride, stride)
    kept = _quotient(n, past + 2 * stride - 1, stride)
    if word == "ceil" or end + stride <= window:
        return kept
    return _either("min", kept, _quotient(n, begin + stride - 1, stride))


def _either(word: str, one: str, other: str) -> str:
    text = f"{word}({one},{other})"
    return text if len(text) <= LONGEST else "?"


def _name(size: Dim) -> str | None:
    if not isinstance(size, str) or size == "?" or len(size) > LONGEST:
        return None
    return size if re.fullmatch(r"\w+", size) else f"({size})"


def _quotient(n: str, add: int, stride: int) -> str:
    """(n + add) // stride, as short as it can be written."""
    top = n if add == 0 else f"{n}{add:+}"
    if stride == 1:
        return top
    text = f"{top}//{stride}" if add == 0 else f"({top})//{stride}"
    return text if len(text) <= LONGEST else "?"
