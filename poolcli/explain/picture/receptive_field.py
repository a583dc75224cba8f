"""Draws the receptive field of a chain of layers over its input: two axes as a plane, any other number as strips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import TYPE_CHECKING

from poolcli.explain.picture.canvas import Box, Canvas, Label
from poolcli.layouts import spatial_axes

if TYPE_CHECKING:
    from poolcli.explain.chain import Chain, Span

LEFT, TOP, NAME_WIDTH = 26.0, 68.0, 62.0
LONGEST, SHORTEST = 440.0, 24.0  # lengths of axes
CELL, LEAST_CELL = 24.0, 8.0  # the largest length of an element, and the smallest of one that is drawn by itself
LEAST_FIELD = 4.0  # length of a field on a long axis
INSET = 5.0  # of the second field of a strip, whose border would cover that of the first
LINE_LENGTH = 84  # letters
PADDING = Box(0, 0, 14, 14, "padding", "faint", dashed=True)
FIELDS = (Box(0, 0, 14, 14, None, "first", 2.5), Box(0, 0, 14, 14, None, "last", 2.5))  # of output 0, of the centre


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of the input, and the first and last position of each field on it, also in the padding."""

    name: str
    size: int
    fields: tuple[Span, ...]

    @property
    def low(self) -> int:
        return min([0, *(field[0] for field in self.fields if field)])

    @property
    def shown(self) -> int:
        """The number of positions from the lowest to the highest."""
        return max([self.size, *(field[1] + 1 for field in self.fields if field)]) - self.low


_STRIP = _Axis("", 1, ((0, 0), (0, 0)))  # in place of a second axis


def draw_receptive_field(chain: Chain) -> Canvas:
    """The fields of output 0 and of the output in the centre after the last layer, over the input, with a legend."""
    axes, title = _axes(chain), field_title(chain)
    legend, layers = _legend(chain, axes), _layers(chain)
    canvas = Canvas(title, " ".join([*(text for _, text in legend), *layers]))
    canvas.add(Label(LEFT, 28, title, 15, bold=True))
    planes = [(axes[1], axes[0])] if len(axes) == 2 else [(axis, _STRIP) for axis in axes]
    for across, down in planes:
        _draw_plane(canvas, across, down, max(TOP, canvas.height + 34))
    y = canvas.height + 30
    for sample, text in legend:
        canvas.add(replace(sample, x=LEFT, y=y - 12))
        canvas.add(Label(LEFT + 24, y, text))
        y += 22
    for line in (line for text in layers for line in wrap(text, LINE_LENGTH)):
        canvas.add(Label(LEFT, y + 4, line, fill="soft"))
        y += 17
    return canvas


def field_title(chain: Chain) -> str:
    """The receptive field and the input lengths: `receptive field 11 x 11 of the input H=224 W=224`."""
    return f"receptive field {' x '.join(map(str, chain.layers[-1].field))} of the input {_sizes(_axes(chain))}"


def _axes(chain: Chain) -> list[_Axis]:
    last, found = chain.layers[-1], []
    for number, position in enumerate(spatial_axes(chain.layout)):
        fields = [last.span[number], last.centre[number]]
        start, stride = last.start[number], last.stride[number]
        if start is not None and stride is not None:
            firsts = (start, start + last.output[position] // 2 * stride)
            fields = [(first, first + last.field[number] - 1) for first in firsts]
        found.append(
            _Axis(chain.layout[position], chain.input_shape[position], tuple(fields[: 1 + _has_centre(chain)]))
        )
    return found


def _has_centre(chain: Chain) -> bool:
    """Whether the output in the centre is another than output 0."""
    return any(chain.layers[-1].output[i] > 1 for i in spatial_axes(chain.layout))


def _draw_plane(canvas: Canvas, across: _Axis, down: _Axis, top: float) -> None:
    """Draw the padding that fields reach, the input, its elements if they are few, and the fields."""
    scale = min(CELL, LONGEST / max(across.shown, down.shown))
    scales = [max(scale, SHORTEST / axis.shown) for axis in (across, down)]

    def box(first: tuple[int, int], lengths: tuple[int, int], like: Box) -> Box:
        (x, y), (i, j) = (LEFT + NAME_WIDTH, top), (first[0] - across.low, first[1] - down.low)
        width, height = (max(n * one, LEAST_FIELD) for n, one in zip(lengths, scales, strict=True))
        return replace(like, x=x + i * scales[0], y=y + j * scales[1], width=width, height=height)

    if (across.shown, down.shown) != (across.size, down.size):
        canvas.add(box((across.low, down.low), (across.shown, down.shown), PADDING))
    plane = box((0, 0), (across.size, down.size), Box(0, 0, 0, 0, "read1", "grid"))
    canvas.add(plane)
    if min(scales) >= LEAST_CELL:
        for i in range(across.size):
            canvas.add(box((i, 0), (1, down.size), Box(0, 0, 0, 0, None, "faint")))
        for j in range(down.size):
            canvas.add(box((0, j), (across.size, 1), Box(0, 0, 0, 0, None, "faint")))
        canvas.add(replace(plane, fill=None))
    canvas.add(Label(plane.x + plane.width / 2, top - 10, f"{across.name}={across.size}", 12, "middle", bold=True))
    if down.name:
        canvas.add(Label(LEFT + NAME_WIDTH - 10, plane.y + plane.height / 2 + 4, _sizes([down]), 12, "end", bold=True))
    for like, wide, high in zip(FIELDS, across.fields, down.fields, strict=False):
        if wide and high:
            field = box((wide[0], high[0]), (wide[1] - wide[0] + 1, high[1] - high[0] + 1), like)
            inset = INSET if down is _STRIP and like is FIELDS[1] else 0
            canvas.add(replace(field, y=field.y + inset, height=field.height - 2 * inset))


def _legend(chain: Chain, axes: list[_Axis]) -> list[tuple[Box, str]]:
    """Samples of what is drawn, with their meanings."""
    last = chain.layers[-1]
    centre = " ".join(f"{chain.layout[i]}={last.output[i] // 2}" for i in spatial_axes(chain.layout))
    texts = [f"output 0 depends on {_spans(axes, last.span)}"]
    if _has_centre(chain):
        texts.append(f"output {centre}, in the centre, depends on {_spans(axes, last.centre)}")
    found = [*zip(FIELDS, texts, strict=False)]
    return found + ([(PADDING, "padding")] if any(axis.shown > axis.size for axis in axes) else [])


def _spans(axes: list[_Axis], spans: tuple[Span, ...]) -> str:
    texts = (f"{axis.name} {span[0]}-{span[1]}" if span else "" for axis, span in zip(axes, spans, strict=True))
    return ", ".join(texts) if all(spans) else "padding alone"


def _layers(chain: Chain) -> list[str]:
    """A line for each layer."""
    found = []
    for layer in chain.layers:
        output = " ".join(f"{chain.layout[i]}={layer.output[i]}" for i in spatial_axes(chain.layout))
        strides = ["-" if stride is None else stride for stride in layer.stride]
        found.append(f"{layer.layer}: output {output}, stride {_times(strides)}, field {_times(layer.field)}")
    return found


def _times(values: Sequence[object]) -> str:
    """One value per axis, or one if all are the same."""
    return " x ".join(map(str, values if len({*values}) > 1 else values[:1]))


def _sizes(axes: list[_Axis]) -> str:
    return " ".join(f"{axis.name}={axis.size}" for axis in axes)
