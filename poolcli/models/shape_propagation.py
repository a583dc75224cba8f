"""Shape propagation after a pooling whose declared output shape is wrong, in files of PyTorch and TensorFlow Lite.

Both frameworks recompute all shapes when they run a model. Elementwise nodes, concatenations, slices and convolutions
are followed; after any other node, lengths are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from poolcli.errors import RequestError
from poolcli.models.layer import Dim, Layer, Shape, contradicts, infer_shape, is_number, output_shape
from poolcli.ops import MaxPool

Rule = Callable[[Sequence[Shape]], Shape | None]  # the output shape of a node, from its input shapes


class ShapePropagation:
    """The values of a graph whose shapes differ from those that the file states; `stated(value)` returns these."""

    def __init__(self, stated: Callable[[Any], Shape | None]) -> None:
        self._stated = stated
        self._changed: dict[Hashable, tuple[Shape, str | None]] = {}  # (shape, node at which inference stopped)

    def pool(self, layer: Layer, source: Hashable, result: Hashable) -> Layer:
        """The layer on the propagated shape of its input."""
        if source in self._changed:
            shape, stopped = self._changed[source]
            layer = replace(layer, input_shape=shape, stopped=stopped)
        computed = output_shape(layer)
        if computed is not None:
            self._set(result, computed, layer.stopped)
        return layer

    def reaches(self, sources: Sequence[Hashable]) -> bool:
        """Whether one of these values has a propagated shape."""
        return any(source in self._changed for source in sources)

    def node(self, name: str, rule: Rule | None, sources: Sequence[Hashable], results: Sequence[Hashable]) -> None:
        """Propagate shapes through another node; a node without a rule stops the inference."""
        if not self.reaches(sources):
            return
        propagated = [self._changed.get(source, (self._stated(source), None)) for source in sources]
        shapes = [shape for shape, _ in propagated if shape is not None]
        found = rule(shapes) if rule is not None and len(shapes) == len(sources) else None
        stopped = next((each for _, each in propagated if each is not None), None)
        for result in results:
            stated = self._stated(result)
            if found is not None:
                self._set(result, found, stopped)
            elif stated is not None:
                self._changed[result] = ("?",) * len(stated), stopped or name

    def _set(self, result: Hashable, shape: Shape, stopped: str | None) -> None:
        if stopped is not None or contradicts(self._stated(result), shape):
            self._changed[result] = shape, stopped


def same(shapes: Sequence[Shape]) -> Shape:
    """The shape of the first input."""
    return shapes[0]


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape to which the inputs are broadcast."""
    found: list[Dim] = []
    for place in range(-max(map(len, shapes)), 0):
        lengths = {shape[place] for shape in shapes if len(shape) >= -place} - {1}
        found.append(lengths.pop() if len(lengths) == 1 else "?" if lengths else 1)
    return tuple(found)


def concatenation(axis: int) -> Rule:
    """The rule of a concatenation along an axis."""

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
    """The rule of a slice along an axis."""

    def rule(shapes: Sequence[Shape]) -> Shape | None:
        if not -len(shapes[0]) <= axis < len(shapes[0]):
            return None
        found = list(shapes[0])
        length = found[axis]
        found[axis] = len(range(length)[places]) if isinstance(length, int) else "?"
        return tuple(found)

    return rule


def convolution(channels: Dim, layout: str | None = None, **windows: Any) -> Rule:
    """The rule of a convolution with these windows; its first input is the data."""

    def rule(shapes: Sequence[Shape]) -> Shape | None:
        with suppress(RequestError, IndexError):
            found = list(infer_shape(MaxPool(**windows), shapes[0], layout).shape)
            found[len(found) - 1 if layout else 1] = channels
            return tuple(found)
        return None

    return rule
