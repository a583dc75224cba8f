"""Operators' windows under any reducer: what engines must be able to do from the fields of the record alone; and the
slow loop over windows that their answers are held against.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from statistics import median, multimode
from typing import Any

import numpy as np

from poolcli.plan import Plan
from poolcli.plan.attributes import Reducer

MINIMUM = Reducer("min", "minimum", "element", better=operator.lt, nothing=1)


def power(p: float, signed: bool = False) -> Reducer:
    """The root of the sum of powers; `signed` as PyTorch has it."""
    return Reducer("lp", "root", "float", power=p, signed=signed, divides=signed, adds=True)


@dataclass(frozen=True)
class Under:
    """The windows of `op` under `reducer`."""

    op: Any
    reducer: Reducer

    def plan(self, shape: tuple[int, ...], dtype: Any = "float32", **more: Any) -> Plan:
        """The plan of the windows with the reducer put in."""
        plan: Plan = self.op.plan(shape, dtype, **more)
        return replace(plan, reducer=self.reducer)


def windows_of(plan: Plan, x: Any) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
    """Each output's place and the elements of its window in row-major order."""
    for place in product(*(range(size) for size in plan.output_shape)):
        spans = [w.span(o) for w, o in zip(plan.windows, place[2:], strict=True)]
        yield place, [x[(*place[:2], *cell)] for cell in product(*spans)]


def by_loop(plan: Plan, x: Any) -> tuple[list[Any], list[int]]:
    """Values (exact fractions of sums; of a norm its power) and plane positions, window by window.

    A string says what a window without elements gives: `input` where it has none, `missing` where none is left.
    """
    values, places, missing = list[Any](), list[int](), {str(float(number)) for number in plan.missing}
    for n, c in product(range(x.shape[0]), range(x.shape[1])):
        for o in product(*(range(w.output) for w in plan.windows)):
            cells = list(product(*(w.span(i) for w, i in zip(plan.windows, o, strict=True))))
            inside = [(x[(n, c, *cell)].item(), int(np.ravel_multi_index(cell, x.shape[2:]))) for cell in cells]
            kept = [(value, at) for value, at in inside if str(float(value)) not in missing]
            places.append(-1)
            if not kept:
                values.append("missing" if inside else "input")
            elif plan.reducer.better is not None:
                value, places[-1] = kept[0]
                for other, at in kept[1:]:
                    if plan.reducer.better(other, value):
                        value, places[-1] = other, at
                values.append(value)
            elif plan.reducer.votes:
                values.append(min(multimode(value for value, _ in kept)))
            elif plan.reducer.statistic == "median":
                values.append(median([Fraction(value) for value, _ in kept]))
            else:
                power = plan.reducer.power
                total = sum(Fraction(v) if power is None else Fraction(abs(v)) ** int(power) for v, _ in kept)
                divisor = plan.divisor_override or 1
                if plan.reducer.divides and plan.divisor_override is None:
                    divisor = math.prod(w.divisor(i) for w, i in zip(plan.windows, o, strict=True))
                    divisor -= len(inside) - len(kept)
                values.append(total / divisor)
    return values, places
