"""What comes out of pooling a shape of which some lengths are names: axis by axis, because no axis knows of another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, TypeVar, cast

from poolcli.arguments import per_axis
from poolcli.dialects import DIALECTS
from poolcli.layouts import default_layout, spatial_axes
from poolcli.models.layer import Dim, Shape, Whole, is_number
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes, BinAttributes, PickingAttributes, SlidingAttributes
from poolcli.windows import ceil_div, extent

Length = TypeVar("Length", int, Dim)
LONGEST = 60  # characters of a length that is written as a formula


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
    short = "".join(layout[place] for i, place in enumerate(places) if _short(op, i, shape[place]) is not None)
    sized = None if short else sized_for(op, shape, layout)
    if sized is not None:
        plan = _plan(sized, shape, layout)
        return Pooled(tuple(plan.output_shape[i] if i in places else dim for i, dim in enumerate(shape)), sized, plan)
    found = list(shape)
    for i, place in enumerate(places):
        found[place] = _length(op, layout, places, shape, i)
    return Pooled(tuple(found), short=short)


def without_axes(shape: tuple[Length, ...], layout: str | None) -> tuple[Length, ...]:
    """The shape without its spatial axes."""
    places = spatial_axes(layout or default_layout(len(shape)))
    return tuple(length for place, length in enumerate(shape) if place not in places)


def sized_for(op: Attributes | Whole, shape: Shape, layout: str) -> Attributes | None:
    """The operator where every spatial length is known, None where one is not."""
    sizes = [shape[place] for place in spatial_axes(layout)]
    if not all(map(is_number, sizes)):
        return None
    return op.over(cast("list[int]", sizes)) if isinstance(op, Whole) else op


def _plan(op: Attributes, shape: Shape, layout: str) -> Plan:
    """The plan on such a shape; N and C, which no window reads, are 1 where they are not known."""
    sizes = [cast("int", size) if is_number(size) else 1 for size in shape]
    return make_plan(without_indices(op), sizes, layout=layout)


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
