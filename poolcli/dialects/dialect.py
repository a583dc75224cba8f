"""The record of a framework's rules (`Dialect`), and helpers that dialects share when they write calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, cast

from poolcli.dialects.expressions import Expression, Writers, translate

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
class SlidingCall:
    """A call of a sliding-window operator with one number per spatial axis; the pads are those that `auto_pad` sets."""

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


def no_limits(_: object) -> None:
    """No further limits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """The rules of one framework.

    Attributes
    ----------
    operators : mapping
        The operators that it has, by poolcli's names; others are refused.
    writers : mapping
        How each kind of expression (`poolcli.dialects.expressions`) is written: takes the expression and its written
        operands. `start` is the input, written, and `text` makes the final text.
    default_strides, default_exclude_pad, ceil
        Defaults, and the rounding rule that its word `ceil` means.
    rounding_types, auto_pads : tuple of str
        The words that it knows.
    included : {"clipped", "kernel"}
        What the divisor counts where padding is included: the part of the window in the padded input, or the kernel.
    index_axis, index_base, axis_option
        What max indices count, and whether `axis` can change it.
    pad_limit, symmetric_pads
        Limits of explicit pads.
    compared : tuple
        The rounding types with which comparisons show it.
    retired : bool
        Shown last and never proposed.
    refuses(call), cannot_write(plan)
        Why the framework takes no such windows, or cannot compute a plan that follows its rules; None: it can.
    exports(plan)
        Whether the framework's exporters keep what its own operator computes.
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
    refuses: Callable[[SlidingCall], str | None] = no_limits
    cannot_write: Callable[[Plan], str | None] = no_limits
    exports: Callable[[Plan], bool] = lambda plan: True

    def write(self, expr: Expression) -> str:
        """Return an expression as text."""
        return self.text(translate(expr, self.writers, self.start))


MOST_AXES = 3  # spatial axes for which the frameworks have operators


def numbers(plan: Plan, name: str) -> list[int]:
    """The numbers of an attribute, one for each axis."""
    return cast("list[int]", plan.attributes[name])


def comma_separated(plan: Plan, name: str) -> str:
    """The numbers of an attribute as in `2,2`."""
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
