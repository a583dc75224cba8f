"""The plan: everything that is known about a pooling before a single element is read."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from poolcli.dialects import IndexBase
from poolcli.layouts import named_shape, other_layouts
from poolcli.nodata import Missing
from poolcli.plan.attributes import Attributes
from poolcli.plan.facts import AxesGuessed, Fact
from poolcli.plan.reducers import Reducer
from poolcli.plan.steps import Explanation, explain
from poolcli.windows import AxisWindows

if TYPE_CHECKING:
    from poolcli.explain.compare_dialects import Row
    from poolcli.explain.convert import Conversion
    from poolcli.explain.notebook import Picture


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


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """Windows, shapes, types and notes of one pooling.

    Shapes are in the order of `layout`; elements that are equal to one of the `missing` numbers leave their windows.
    The layout is `guessed` where nothing but the number of axes spoke for it. `given` are the attributes as they were
    given, before a shape and a dialect made numbers of them.
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
    given: Attributes | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        before = f"{named_shape(self.layout, self.input_shape)} {self.dtype}"
        after = f"{named_shape(self.layout, self.output_shape)} {self.output_dtype}"
        return f"<Plan of {self.op} pooling, like {self.like}: {before} to {after}>"

    def _repr_html_(self) -> str:
        return str(_explained("notebook").plan_html(self))

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

    def picture(
        self, path: str | os.PathLike[str] | None = None, *, theme: str = "auto", overwrite: bool = False
    ) -> Picture:
        """The picture of the plan, which a notebook shows, and which is written to `path` (.svg, .png or .html) where
        one is given.

        Raises RequestError for other kinds of file, other words than light, dark and auto, and a file that exists
        unless it may be replaced.
        """
        drawn: Picture = _explained("notebook").Picture(self, theme)
        if path is not None:
            drawn.save(path, overwrite)
        return drawn

    def compare(self) -> tuple[Row, ...]:
        """The same attributes under the rules of each framework, a row each, those that have the operator first.

        A row has the framework's `title`, its `plan` or the `refusal`, whether it `differs`, and the `causes`, a
        sentence each. What was not given takes each framework's own default.

        >>> from poolcli import AvgPool
        >>> rows = AvgPool(3, 2, 1, 1, rounding_type="ceil").plan((1, 1, 6, 6)).compare()
        >>> [(row.title, row.plan.output_shape) for row in rows if row.plan][2:4]
        [('OpenVINO ceil_torch', (1, 1, 4, 4)), ('ONNX', (1, 1, 4, 4))]
        """
        rows: tuple[Row, ...] = _explained("compare_dialects").compare_dialects(self.given, self) if self.given else ()
        return rows

    def to(self, dialect: str) -> Conversion:
        """The same pooling in another framework: its record `op` and how it is written there, `text`; both None where
        there is none, which `reason` explains. As text, the one or the other.

        Raises RequestError for a framework that is not known.

        >>> from poolcli import MaxPool
        >>> print(MaxPool(3, 2, 1, 1).plan((1, 3, 32, 32)).to("pytorch"))
        torch.nn.functional.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=False)
        """
        conversion: Conversion = _explained("convert").convert(self, dialect)
        return conversion

    @property
    def windows(self) -> tuple[AxisWindows, ...]:
        """The windows of each spatial axis, in the order of attributes."""
        return tuple(axis.windows for axis in self.axes)


def _explained(module: str) -> Any:
    """A module of the room that explains plans. It stands on this one, and is asked where a person asks a plan to show
    itself: nothing that plans or computes needs it.
    """
    return import_module(f"poolcli.explain.{module}")
