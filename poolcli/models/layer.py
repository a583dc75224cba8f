"""A pooling layer as its model file states it."""

from __future__ import annotations

from dataclasses import dataclass

from poolcli.plan.attributes import Attributes

Dim = int | str | None  # a number, the name of a dynamic dimension, or nothing known


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: `op` is None, and `problem` says why, where the attributes cannot be read as an operator.

    `given` are the attributes as the file spells them; shapes are None where the file states none.
    """

    name: str
    type: str
    version: str
    op: Attributes | None
    problem: str | None
    given: dict[str, str]
    input_shape: tuple[Dim, ...] | None
    declared_shape: tuple[Dim, ...] | None
    warnings: tuple[str, ...] = ()
