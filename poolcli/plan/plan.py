"""The plan: everything that is known about a pooling before a single element is read."""

from __future__ import annotations

from dataclasses import dataclass, field

from poolcli.core.layouts import other_layouts
from poolcli.core.windows import AxisWindows
from poolcli.dialects import IndexBase
from poolcli.plan.facts import AxesGuessed, Fact
from poolcli.plan.missing import Missing
from poolcli.plan.reducers import Reducer
from poolcli.plan.steps import Explanation, explain


@dataclass(frozen=True, slots=True)
class AxisPlan:
    """One spatial axis: its letter, its position in the array, its windows and the formula of its length."""

    name: str
    position: int
    windows: AxisWindows
    formula: str


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What max indices count: `modulus` elements under base `axis`; under `channels_last`, (y*W + x)*C + c."""

    dtype: str
    base: IndexBase
    modulus: int
    rule: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Windows, shapes, types and notes of one pooling.

    Shapes are in the order of `layout`; elements that are equal to one of the `missing` numbers leave their windows.
    The layout is `guessed` where nothing but the number of axes spoke for it.
    """

    op: str
    reducer: Reducer
    like: str
    attributes: dict[str, object] = field(hash=False)
    layout: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    dtype: str
    output_dtype: str
    axes: tuple[AxisPlan, ...]
    divisor_rule: str | None
    divisor_override: int | None
    index: IndexPlan | None
    empty_windows: int
    facts: tuple[Fact, ...]
    missing: Missing = ()
    guessed: bool = False

    @property
    def doubts(self) -> tuple[Fact, ...]:
        """Whether a guessed layout may well be another: for whoever did not choose it, as the header of a file."""
        others = other_layouts(self.layout, self.input_shape) if self.guessed else ()
        return (AxesGuessed(self.layout, others),) if others else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know about the plan, a sentence each."""
        return tuple(map(str, self.facts))

    def explain(self) -> Explanation:
        """Steps, windows and facts of every axis; as text, one sentence a line."""
        return explain(self)

    @property
    def windows(self) -> tuple[AxisWindows, ...]:
        """The windows of each spatial axis, in the order of attributes."""
        return tuple(axis.windows for axis in self.axes)
