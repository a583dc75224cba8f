"""Shapes that flow where a file states others: after a pooling whose stated output is not the computed one.

PyTorch and TensorFlow Lite compute all shapes anew when they run a model. Elementwise nodes, concatenations and
convolutions are followed; after any other node lengths are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from poolcli.errors import RequestError
from poolcli.models.layer import Dim, Layer, Shape, contradict, is_number, output_shape, pooled
from poolcli.ops import MaxPool

Rule = Callable[[Sequence[Shape]], Shape | None]  # the output shape of a node, from its input shapes


class Flow:
    """The values of a graph whose shapes are not those that the file states, which `stated` gives."""

    def __init__(self, stated: Callable[[Any], Shape | None]) -> None:
        self._stated = stated
        self._flowing: dict[Hashable, tuple[Shape, str | None]] = {}  # and the node that stopped the inference

    def pool(self, layer: Layer, source: Hashable, result: Hashable) -> Layer:
        """The layer on the shape that flows into it."""
        if source in self._flowing:
            shape, stopped = self._flowing[source]
            layer = replace(layer, input_shape=shape, stopped=stopped)
        computed = output_shape(layer)
        if computed is not None:
            self._set(result, computed, layer.stopped)
        return layer

    def reaches(self, sources: Sequence[Hashable]) -> bool:
        """Whether one of these values has another shape than the file states."""
        return any(source in self._flowing for source in sources)

    def node(self, name: str, rule: Rule | None, sources: Sequence[Hashable], results: Sequence[Hashable]) -> None:
        """Follows another node; one without a rule stops the inference."""
        if not self.reaches(sources):
            return
        flowing = [self._flowing.get(source, (self._stated(source), None)) for source in sources]
        shapes = [shape for shape, _ in flowing if shape is not None]
        found = rule(shapes) if rule is not None and len(shapes) == len(sources) else None
        stopped = next((each for _, each in flowing if each is not None), None)
        for result in results:
            stated = self._stated(result)
            if found is not None:
                self._set(result, found, stopped)
            elif stated is not None:
                self._flowing[result] = ("?",) * len(stated), stopped or name

    def _set(self, result: Hashable, shape: Shape, stopped: str | None) -> None:
        if stopped is not None or contradict(self._stated(result), shape):
            self._flowing[result] = shape, stopped


def same(shapes: Sequence[Shape]) -> Shape:
    """The shape of the first input."""
    return shapes[0]


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape to which inputs are broadcast."""
    found: list[Dim] = []
    for place in range(-max(map(len, shapes)), 0):
        lengths = {shape[place] for shape in shapes if len(shape) >= -place} - {1}
        found.append(lengths.pop() if len(lengths) == 1 else "?" if lengths else 1)
    return tuple(found)


def concatenation(axis: int) -> Rule:
    """The rule of inputs that are joined along an axis."""

    def rule(shapes: Sequence[Shape]) -> Shape | None:
        rank = len(shapes[0])
        if not -rank <= axis < rank or any(len(shape) != rank for shape in shapes):
            return None
        lengths = [shape[axis] for shape in shapes]
        found = list(broadcast(shapes))
        found[axis] = sum(each for each in lengths if isinstance(each, int)) if all(map(is_number, lengths)) else "?"
        return tuple(found)

    return rule


def sliced(axis: int, places: slice) -> Rule:
    """The rule of a part along an axis."""

    def rule(shapes: Sequence[Shape]) -> Shape | None:
        if not -len(shapes[0]) <= axis < len(shapes[0]):
            return None
        found = list(shapes[0])
        length = found[axis]
        found[axis] = len(range(length)[places]) if isinstance(length, int) else "?"
        return tuple(found)

    return rule


def convolution(channels: Dim, layout: str | None = None, **windows: Any) -> Rule:
    """The rule of a convolution of these windows; its first input is the data."""

    def rule(shapes: Sequence[Shape]) -> Shape | None:
        with suppress(RequestError, IndexError):
            found = list(pooled(MaxPool(**windows), shapes[0], layout).shape)
            found[len(found) - 1 if layout else 1] = channels
            return tuple(found)
        return None

    return rule
