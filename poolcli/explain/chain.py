"""Output shapes, strides and receptive fields along a sequence of layers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poolcli.arguments import AUTO_PADS, ROUNDING_TYPES, one_of
from poolcli.dialects import dialect_of
from poolcli.errors import RequestError
from poolcli.layouts import check_shape, named_shape, read_axes, spatial_axes
from poolcli.message_fields import brief, field, respelled, without_hints
from poolcli.plan import make_plan
from poolcli.plan.attributes import OPERATORS, Attributes, SlidingAttributes, values_of
from poolcli.suggestions import KEEPS_SHAPE, LAYERS
from poolcli.windows import AxisWindows, Bins

Span = tuple[int, int] | None
LETTERS = {"k": "kernel", "s": "strides", "p": "pads", "d": "dilations"}  # of settings, as in `max:k3,s2,p1`
GLOBAL_POOLS = {"global-avg": "adaptive-avg", "global-max": "adaptive-max"}
MAX_LENGTH, MAX_FOLLOWED = 1_000_000, 100_000  # elements of an axis: at all, and after unequal bins
_SETTING = re.compile(r"([kspdo]?)(\d+(?:x\d+)*)")
EXAMPLE = "conv:k7,s2,p3,o64 max:k3,s2,p1 avg:k2 adaptive-avg:1 global-avg"


@dataclass(frozen=True, slots=True)
class ChainLayer:
    """Shape, stride and receptive field after one layer. Tuples have one entry per spatial axis, in the order D, H, W.

    Attributes
    ----------
    layer : str
        The layer as it was given.
    output : tuple of int
        Shape of its output.
    stride : tuple of (int or None)
        Input elements between neighbouring outputs: the product of all strides so far; None after unequal bins.
    field : tuple of int
        Receptive field: input positions, padding included, from the first to the last one that an output depends on.
        After bins of unequal length that of the largest one, without padding.
    start : tuple of (int or None)
        Input position at which the receptive field of output 0 starts, negative in padding; None after unequal bins.
    span : tuple of ((int, int) or None)
        First and last input element that output 0 depends on; None where it depends on padding alone.
    centre : tuple of ((int, int) or None)
        The same of the output in the centre (index `length // 2`).
    """

    layer: str
    output: tuple[int, ...]
    stride: tuple[int | None, ...]
    field: tuple[int, ...]
    start: tuple[int | None, ...]
    span: tuple[Span, ...]
    centre: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """The input's shape and layout, and what is known after each layer; a note on other layouts."""

    input_shape: tuple[int, ...]
    layout: str
    layers: tuple[ChainLayer, ...]
    note: str | None = None

    def __str__(self) -> str:
        own = ((x.layer, named_shape(self.layout, x.output), x.stride, x.field) for x in self.layers)
        lines = ("{}: {}, stride {}, field {}".format(*words) for words in own)
        return "\n".join((f"input: {named_shape(self.layout, self.input_shape)}", *lines))


def chain(
    shape: Sequence[int], layers: Sequence[str | Attributes], *, like: str | None = None, layout: str | None = None
) -> Chain:
    """Follow a shape through a sequence of convolutions and poolings.

    Receptive fields are exact: what an output depends on is followed through the windows of every layer, padding,
    dilation and the last window of `ceil` included.

    Parameters
    ----------
    shape : sequence of int
        Shape of the input, such as (1, 3, 224, 224).
    layers : sequence of str or record
        Layers such as `conv:k7,s2,p3,o64`, `max:k3,s2,p1,ceil`, `avg:k2x3`, `adaptive-avg:7`, `global-avg`, or records
        such as `MaxPool(3, 2)`. `k` is the kernel size, `s` the stride, `p` the padding of both ends, `d` the dilation,
        `o` the output channels of a convolution; `ceil`, `ceil_torch`, `same_upper`, `same_lower` and `valid` are
        words. `2x3` gives one number per spatial axis.
    like : "openvino", "ngraph", "onnx", "pytorch" or "tensorflow", optional
        Framework whose rules the poolings follow. By default OpenVINO.
    layout : str, optional
        One letter per axis; by default N, C and the spatial axes.

    Returns
    -------
    Chain

    Raises
    ------
    RequestError
        For a layer that is not understood, or that its input does not allow.

    References
    ----------
    Araujo, Norris and Sim, Computing Receptive Fields of Convolutional Neural Networks, 2019.

    Examples
    --------
    >>> found = chain((1, 3, 224, 224), ["conv:k7,s2,p3,o64", "max:k3,s2,p1"])
    >>> [(layer.output, layer.stride, layer.field) for layer in found.layers]
    [((1, 64, 112, 112), (2, 2), (7, 7)), ((1, 64, 56, 56), (4, 4), (11, 11))]
    >>> found.layers[-1].span, found.layers[-1].centre
    (((0, 5), (0, 5)), ((107, 117), (107, 117)))
    """
    shape = check_shape(shape)
    if isinstance(layers, str) or not isinstance(layers, Sequence):
        example = brief((layers if isinstance(layers, str) else "max:k3,s2 avg:k2").split())
        raise RequestError(f"{field('layers')} is a {type(layers).__name__}; give a list of layers, such as {example}")
    if not layers:
        raise RequestError(f"{field('layers')} is empty; give one or more, such as {EXAMPLE}")
    for given in layers:
        if not isinstance(given, str | Attributes):
            raise RequestError(f"{field('layers')} has {brief(given)}; give text such as 'max:k3,s2', or records")
    kept = [each for each in layers if isinstance(each, str) and LAYERS.get(_called(each)) == KEEPS_SHAPE]
    layers = [each for each in layers if each not in kept] or layers  # none but these is refused
    parsed = [(each, *_parse(each, like)) if isinstance(each, str) else (each.name, each, None) for each in layers]
    values, last = max(values_of(op) for _, op, _ in parsed), dialect_of(parsed[0][1].like).channels_last
    reading = read_axes(shape, values, layout=layout, last=last)
    layout = reading.layout
    positions = spatial_axes(layout)
    longest = max((shape[i] for i in positions), default=0)
    if longest > MAX_LENGTH:
        raise RequestError(f"the longest spatial axis has {longest:,} elements; a chain takes at most {MAX_LENGTH:,}")
    axes = [_Axis() for _ in positions]
    found, current, unset = [], shape, list[str]()
    for number, (text, op, channels) in enumerate(parsed, 1):
        try:
            plan = make_plan(op, current, op.reducer.example_dtype, layout=layout)
        except RequestError as error:
            message = without_hints(error.message)
            message = respelled(message, _in_a_layer) if ":" in text else message
            if reading.assumed and layout == "HW":
                message += f"; layout HW was assumed: use {field('layout', 'CW')} to pool W"
            raise RequestError(f"layer {number}, {text}: {message}") from None
        current = plan.output_shape
        unset += [text for fact in plan.facts if fact.kind == "strides"]
        if channels is not None:
            if "C" not in layout:
                raise RequestError(f"layer {number}, {text}: layout {layout} has no channels; leave o out")
            current = tuple(channels if letter == "C" else n for letter, n in zip(layout, current, strict=True))
        for axis, own in zip(axes, plan.axes, strict=True):
            axis.follow(own.windows)
        strides, fields = tuple(axis.stride for axis in axes), tuple(axis.field for axis in axes)
        starts = tuple(None if axis.stride is None else axis.start for axis in axes)
        spans = tuple(axis.span(0) for axis in axes)
        centres = tuple(axis.span(w.output // 2) for axis, w in zip(axes, plan.windows, strict=True))
        found.append(ChainLayer(text, current, strides, fields, starts, spans, centres))
    stride = f"stride 1 in {', '.join(unset)}, where none is given; PyTorch takes the kernel, as in max:k2,s2"
    passed = f"left out as they keep the shape: {', '.join(kept)}" if kept else None
    notes = filter(None, (reading.note, stride if unset else None, passed))
    return Chain(shape, layout, tuple(found), "; ".join(notes) or None)


def _called(layer: str) -> str:
    """The word of a layer without its settings: maxpool of nn.MaxPool2d(2)."""
    return re.sub("[0-9,(:].*", "", layer.strip().lower()).rpartition(".")[2]


def _parse(text: str, like: str | None) -> tuple[Attributes, int | None]:
    """The operator of a layer, and the output channels of a convolution, for which a maximum stands in."""
    name, _, rest = (part.strip() for part in text.partition(":"))
    name = re.sub("(?i)^conv[1-3]d$", "conv", name)
    known = ("conv", *OPERATORS, *GLOBAL_POOLS)
    if name.lower() not in known and (meant := LAYERS.get(_called(name), LAYERS["k"] if "(" in name else "")):
        raise RequestError(f"layer {text}: {meant}")
    name = one_of("layers", name, known)
    op = GLOBAL_POOLS.get(name, name)
    record, channels = OPERATORS["max" if op == "conv" else op], None
    slides = issubclass(record, SlidingAttributes)
    values: dict[str, Any] = {} if like is None else {"like": like}
    if name in GLOBAL_POOLS or op == "conv":  # every framework has these, even one without adaptive pooling
        values["like"] = "openvino"
    values |= {"strides": 1} if op == "conv" else {} if slides else {"output_size": 1}
    for setting in filter(None, map(str.strip, rest.lower().split(","))):
        matched = _SETTING.fullmatch(setting)
        letter = matched[1] if matched else None
        numbers = tuple(map(int, matched[2].split("x"))) if matched else ()
        value = numbers[0] if len(numbers) == 1 else numbers
        if letter == "o" and op == "conv" and isinstance(value, int):
            channels = value
        elif letter == "" and not slides and name not in GLOBAL_POOLS:
            values["output_size"] = value
        elif letter in LETTERS and slides:
            values[LETTERS[letter]] = value
        elif slides and setting in AUTO_PADS:
            values["auto_pad"] = setting
        elif slides and setting in ROUNDING_TYPES and op != "conv":
            values["rounding_type"] = setting
        else:
            remedy = "use same_upper or same_lower" if setting == "same" else f"write layers as in {EXAMPLE}"
            raise RequestError(f"layer {text}: {setting!r} is not understood; {remedy}")
    if slides and "kernel" not in values:
        raise RequestError(f"layer {text}: has no kernel size; {LAYERS['k']}")
    try:
        return record(**values), channels
    except RequestError as error:
        raise RequestError(f"layer {text}: {respelled(without_hints(error.message), _in_a_layer)}") from None


def _in_a_layer(name: str, keyword: str, value: str) -> str | None:
    """A field of a message as it is written in a layer: `k3` for a kernel of 3; None for the options of a chain."""
    if name in ("like", "layout"):
        return None
    letters = {setting: letter for letter, setting in LETTERS.items()}
    is_setting = name in (*letters, "output_size", "auto_pad", "rounding_type")
    return letters.get(name, "") + value.replace(",", "x") if value and is_setting else keyword


class _Axis:
    """One axis so far: the stride, the field, what each element depends on after the latest unequal bins, and the
    windows of the layers since then.

    Only the ends of windows are followed, unless windows are empty, or dilated: these may skip the first elements.
    """

    def __init__(self) -> None:
        self.stride: int | None = 1
        self.field, self.start = 1, 0
        self.spans: list[Span] | None = None
        self.layers: list[AxisWindows] = []
        self.follows_all = False

    def follow(self, windows: AxisWindows) -> None:
        """Add the windows of one more layer."""
        self.layers.append(windows)
        self.follows_all |= bool(windows.empty_windows) or windows.dilation > 1
        regular = windows.equal_to if isinstance(windows, Bins) else (windows.extent, windows.stride)
        if self.stride is None or regular is None:
            if windows.output > MAX_FOLLOWED:
                found = f"an axis has {windows.output:,} elements after bins of unequal length"
                raise RequestError(f"{found}; at most {MAX_FOLLOWED:,} are followed")
            self.stride = None
            self.spans, self.layers = [*map(self.span, range(windows.output))], []
            self.field = max((last - first + 1 for first, last in filter(None, self.spans)), default=1)
            return
        extent, stride = regular
        self.field += (extent - 1) * self.stride
        self.start -= windows.pad_begin * self.stride
        self.stride *= stride

    def span(self, o: int) -> Span:
        """The first and last input element that element `o` depends on."""
        places = {o}
        for windows in reversed(self.layers):
            reads = [read for read in map(windows.span, places) if read]
            if not reads:
                return None
            ends = {min(read[0] for read in reads), max(read[-1] for read in reads)}
            places = {place for read in reads for place in read} if self.follows_all else ends
        if self.spans is None:
            return min(places), max(places)
        spans = [span for place in places if (span := self.spans[place])]
        return (min(spans)[0], max(span[1] for span in spans)) if spans else None
