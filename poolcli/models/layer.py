"""A pooling layer as its model file states it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from poolcli.plan.attributes import Attributes, SlidingAttributes

Dim = int | str | None  # a number, the name of a dynamic dimension, or nothing known
Shape = tuple[Dim, ...]


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
    `shape_only` why the values of the layer are none that `op` computes, only its shape.
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
    warnings: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def alike(shape: Shape | None) -> Shape | None:
    """The shape, of equal ones the first: layers of one model often have the same."""
    return shape


@lru_cache(maxsize=4096)
def attributes(names: tuple[str, ...], values: tuple[str, ...]) -> Mapping[str, str]:
    """Attributes as a file spells them, of equal ones the first."""
    return dict(zip(names, values, strict=True))


def is_number(dim: Dim) -> bool:
    """Whether the length is known; 0 stands for a dynamic one, as -1 does."""
    return isinstance(dim, int) and dim > 0
