"""A layer written down for another framework, or why it has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from poolcli.errors import RequestError
from poolcli.explain.convert import convert
from poolcli.layouts import default_layout, spatial_axes
from poolcli.message_fields import field, marked_message
from poolcli.models.dims import pooled
from poolcli.models.layer import Layer, Shape, in_words_of, is_number
from poolcli.plan.attributes import BinAttributes, SlidingAttributes

MOST_LENGTHS = 24  # that are tried for dynamic axes


@dataclass(frozen=True, slots=True)
class Written:
    """The call or layer in the words of `like`; None where there is none, which `reason` explains.

    `note` says what the text holds for, where it does not follow from the layer alone.
    """

    like: str
    text: str | None
    reason: str | None
    note: str | None = None


def written(layer: Layer, like: str) -> Written:
    """`layer` for the framework `like`. Dynamic axes are tried at lengths that meet the strides in every way."""
    if layer.op is None or layer.invalid:
        return Written(like, None, in_words_of(layer.framework, layer.invalid) if layer.invalid else layer.problem)
    if layer.shape_only:
        return Written(like, None, layer.shape_only)
    if layer.input_shape is None:
        return Written(like, None, "the rank of its input is not known")
    shape, layout = layer.input_shape, layer.layout or default_layout(len(layer.input_shape))
    places = [place for place in spatial_axes(layout) if not is_number(shape[place])]
    if not places:
        return _at(layer, shape, layout, like)
    first: Written | None = None
    lengths = _lengths(layer)
    for length in lengths:
        one = _at(layer, tuple(length if i in places else dim for i, dim in enumerate(shape)), layout, like)
        first = first or one
        if one.text is None:
            return one
        if one.text != first.text:
            why = f"how it is written depends on dynamic lengths; {field('input_shape')} gives them"
            return Written(like, None, marked_message(why))
    any_length = isinstance(layer.op, BinAttributes) and layer.op.output_size in (1, (1,))
    note = None if any_length else f"the same for lengths from {lengths[0]} to {lengths[-1]} of the dynamic axes"
    told = "; ".join(each for each in (first.note if first else None, note) if each)
    return Written(like, first.text if first else None, None, told or None)


def _lengths(layer: Layer) -> range:
    """Lengths on which the windows fit, twice as many as the largest stride."""
    op = layer.op
    if not isinstance(op, SlidingAttributes):
        return range(7, 11)
    numbers = {name: max(value if isinstance(value := getattr(op, name), tuple) else (value,))
               for name in ("kernel", "dilations", "strides", "pads_begin", "pads_end")}  # fmt: skip
    least = (numbers["kernel"] - 1) * numbers["dilations"] + 1 + numbers["pads_begin"] + numbers["pads_end"]
    return range(least, least + min(2 * cast("int", numbers["strides"]) + 1, MOST_LENGTHS))


def _at(layer: Layer, shape: Shape, layout: str, like: str) -> Written:
    """The layer on a shape whose spatial lengths are known."""
    op = layer.op
    if op is None:
        return Written(like, None, layer.problem)
    try:
        made = pooled(op, shape, layout)
    except RequestError as error:
        return Written(like, None, in_words_of(layer.framework, error.message))
    if made.plan is None:
        return Written(like, None, "its windows are longer than its padded input")
    done = convert(made.plan, like)
    notes = []
    if layout.endswith("C") and like != "tensorflow":
        notes.append(f"for data in the order {default_layout(len(layout))}; the layer's are {layout}")
    if not layer.keeps_axes:
        notes.append("the pooled axes, 1 long, are dropped after it")
    return Written(like, done.text, None if done.text else done.reason, "; ".join(notes) or None if done.text else None)
