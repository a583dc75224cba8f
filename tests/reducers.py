"""Operators' windows under any reducer: what engines must be able to do from the fields of the record alone."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

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
