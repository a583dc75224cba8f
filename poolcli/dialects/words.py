"""How attributes of a plan are written down: what the writers of all dialects share."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from poolcli.dialects.planned import Planned

MOST_AXES = 3  # spatial axes for which the frameworks have operators


def numbers(plan: Planned, name: str) -> list[int]:
    """The numbers of an attribute, one for each axis."""
    return cast("list[int]", plan.attributes[name])


def joined(plan: Planned, name: str) -> str:
    """The numbers of an attribute as `2,2`."""
    return ",".join(map(str, numbers(plan, name)))


def argument(plan: Planned, name: str) -> str:
    """The numbers of an attribute as an argument in Python: one where all are equal."""
    found = numbers(plan, name)
    return str(found[0]) if len(set(found)) == 1 else str(tuple(found))


def is_dilated(plan: Planned) -> bool:
    """Whether any axis is dilated."""
    return max(numbers(plan, "dilations")) > 1


def is_ceil(plan: Planned) -> bool:
    """Whether lengths are rounded up."""
    return plan.attributes["rounding_type"] == "ceil"


def counts_pads(plan: Planned) -> bool:
    """Whether padding is counted in the divisor."""
    return plan.attributes["exclude_pad"] is False


def too_many_axes(plan: Planned, title: str) -> str | None:
    """Why a plan of more axes than frameworks have operators for cannot be written."""
    return f"{title} has pooling for 1 to {MOST_AXES} spatial axes only" if len(plan.axes) > MOST_AXES else None
