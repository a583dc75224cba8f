"""A framework as a record: its defaults, limits, and how calls are written. A new framework is a file with one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from poolcli.plan import Plan


IndexBase = Literal["axis", "channels_last"]


@dataclass(frozen=True, kw_only=True, slots=True)
class There:
    """An operator as a framework has it: its name there, and its limits.

    `variant` names the arithmetic where the framework has one of its own.
    """

    name: str
    dilations: bool = True
    pads: bool = True
    include_pad: bool = True
    divisor_override: bool = False
    variant: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """Sliding windows as they are about to be planned, pads resolved; numbers are per spatial axis."""

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


def nothing_more(call: object) -> None:
    """No further limits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """One framework's rules. Fields that are lists of words hold the words that are legal in it.

    `operators`: those that it has, by poolcli's names; one that is missing is refused. `refuses(call)` says why the
    framework takes no such windows, `cannot_write(plan)` why a plan that follows its rules is yet nothing that it
    computes; None where nothing stands against it. `write(plan)` is the call in its own words; `wholes` writes adaptive
    ones with one output, as operators over axes of any length. `compared` are the rounding words under which a
    comparison shows it. `retired` ones are shown last and proposed to nobody.
    """

    name: str
    title: str
    operators: Mapping[str, There]
    write: Callable[[Plan], str]
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
    wholes: Mapping[str, Callable[[Plan], str]] = field(default_factory=dict)
    refuses: Callable[[Call], str | None] = nothing_more
    cannot_write: Callable[[Plan], str | None] = nothing_more


MOST_AXES = 3  # spatial axes for which the frameworks have operators


def numbers(plan: Plan, name: str) -> list[int]:
    """The numbers of an attribute, one for each axis."""
    return cast("list[int]", plan.attributes[name])


def joined(plan: Plan, name: str) -> str:
    """The numbers of an attribute as `2,2`."""
    return ",".join(map(str, numbers(plan, name)))


def argument(plan: Plan, name: str) -> str:
    """The numbers of an attribute as an argument in Python: one where all are equal."""
    found = numbers(plan, name)
    return str(found[0]) if len(set(found)) == 1 else str(tuple(found))


def is_dilated(plan: Plan) -> bool:
    """Whether any axis is dilated."""
    return max(numbers(plan, "dilations")) > 1


def is_ceil(plan: Plan) -> bool:
    """Whether lengths are rounded up."""
    return plan.attributes["rounding_type"] == "ceil"


def counts_pads(plan: Plan) -> bool:
    """Whether padding is counted in the divisor."""
    return plan.attributes["exclude_pad"] is False


def too_many_axes(plan: Plan, title: str) -> str | None:
    """Why a plan of more axes than frameworks have operators for cannot be written."""
    return f"{title} has pooling for 1 to {MOST_AXES} spatial axes only" if len(plan.axes) > MOST_AXES else None
