"""A pooling layer as its model file states it."""

from __future__ import annotations

from dataclasses import dataclass

from poolcli.dialects import DIALECTS, There
from poolcli.ops import OPERATORS
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


def operators_of(like: str) -> dict[str, tuple[type[Attributes], There]]:
    """The operators that the models of a framework may hold, by their names there."""
    return {there.name: (OPERATORS[name], there) for name, there in DIALECTS[like].operators.items()}
