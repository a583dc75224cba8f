"""What becomes of the elements of a window: a record of facts, from which engines compute and of which reports speak.

Either elements are compared and one of them wins (`better` says which), or they vote and the value that occurs most
often is taken, or something of each is added up: the element itself, or a power of it. Nothing asks a reducer for its
name: what a new one does follows from its fields.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Reducer:
    """How the elements of a window become one number.

    `better(a, b)`: whether a wins over b; None where nothing is compared so. `votes`: whether the value that occurs
    most often is taken, of equally frequent ones the smallest; of whole numbers only, and of nothing there is none.
    `nothing`: of the limits of a type, the one that loses against every element, 0 the lowest, 1 the highest.
    `divides`: whether the sum is divided by what the plan counts. `power`: elements are added as abs(x)**power and the
    root is taken of the sum; None adds them as they are; `signed` adds x**power instead, and multiplies by the whole
    kernel before the root is taken. `result`: `element` is one of the window's, `number` lies between them (rounded
    half to even where the type is an integer's), `float` lies beyond them and needs a float type.
    """

    name: str
    noun: str
    result: Literal["element", "number", "float"]
    better: Callable[[Any, Any], Any] | None = None
    nothing: Literal[0, 1] = 0
    divides: bool = False
    power: float | None = None
    signed: bool = False
    votes: bool = False

    @property
    def picks(self) -> bool:
        """Whether one element of each window wins, so that it has a position."""
        return self.better is not None


MEAN = Reducer("mean", "average", "number", divides=True)
MAXIMUM = Reducer("max", "maximum", "element", better=operator.gt)
