"""The record that describes a framework: its defaults, its limits, and how a call is written in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, cast

from poolcli.dialects.steps import Step, Writers, fold

if TYPE_CHECKING:
    from poolcli.plan import Plan


IndexBase = Literal["axis", "channels_last"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Support:
    """An operator in a framework: its name there, and which attributes it takes.

    `variant` names the framework's own arithmetic, if it has one.
    """

    name: str
    dilations: bool = True
    pads: bool = True
    include_pad: bool = True
    divisor_override: bool = False
    variant: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """Sliding windows with a number for each spatial axis; `auto_pad` has been applied to the pads."""

    operator: str
    axes: str
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    auto_pad: str
    options: Mapping[str, object]


def no_limits(call: object) -> None:
    """No further limits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """The rules of one framework; `rounding_types` and `auto_pads` are the words that it knows.

    `operators` are those that it has, by poolcli's names; others are refused. `refuses(call)` says why the framework
    takes no such windows, `cannot_write(plan)` why it cannot compute a plan that follows its rules; None means that it
    can. `writers` write the steps of conversions (`poolcli.dialects.steps`): each is given a step and what was made of
    its operands, `start` for the input; `text` is the whole. `exports(plan)` says whether the framework's exporters
    keep what its own operator computes. `compared` are the rounding types with which comparisons show it. `retired`
    frameworks are shown last and are never proposed.
    """

    name: str
    title: str
    operators: Mapping[str, Support]
    writers: Writers
    default_strides: Literal["one", "kernel", "required"]
    default_exclude_pad: bool
    ceil: Literal["ceil", "ceil_torch"]
    rounding_types: tuple[str, ...]
    auto_pads: tuple[str, ...]
    included: Literal["clipped", "kernel"]
    index_axis: int
    index_base: IndexBase = "axis"
    axis_option: bool = False
    pad_limit: Literal["half_kernel", "below_kernel"] | None = None
    symmetric_pads: bool = False
    compared: tuple[str | None, ...] = (None,)
    retired: bool = False
    start: Any = "x"
    text: Callable[[Any], str] = str
    refuses: Callable[[Call], str | None] = no_limits
    cannot_write: Callable[[Plan], str | None] = no_limits
    exports: Callable[[Plan], bool] = lambda plan: True

    def write(self, step: Step) -> str:
        """The step, and all that it takes, as text."""
        return self.text(fold(step, self.writers, self.start))


MOST_AXES = 3  # spatial axes for which the frameworks have operators


def numbers(plan: Plan, name: str) -> list[int]:
    """The numbers of an attribute, one for each axis."""
    return cast("list[int]", plan.attributes[name])


def joined(plan: Plan, name: str) -> str:
    """The numbers of an attribute as `2,2`."""
    return ",".join(map(str, numbers(plan, name)))


def argument(plan: Plan, name: str) -> str:
    """The numbers of an attribute as a Python argument: a single number if all are equal."""
    found = numbers(plan, name)
    return str(found[0]) if len(set(found)) == 1 else str(tuple(found))


def literal(value: float) -> str:
    """A number as Python reads it."""
    return repr(value) if isfinite(value) else f'float("{value}")'


def is_dilated(plan: Plan) -> bool:
    """Whether any axis is dilated."""
    return max(numbers(plan, "dilations")) > 1


def is_ceil(plan: Plan) -> bool:
    """Whether output lengths are rounded up."""
    return plan.attributes["rounding_type"] == "ceil"


def counts_pads(plan: Plan) -> bool:
    """Whether padding is counted in the divisor."""
    return plan.attributes["exclude_pad"] is False


def too_many_axes(plan: Plan, title: str) -> str | None:
    """Why a plan of more than three spatial axes cannot be written."""
    return f"{title} has pooling for 1 to {MOST_AXES} spatial axes only" if len(plan.axes) > MOST_AXES else None
