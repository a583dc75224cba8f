"""What scale and offset say of results: a number that a file stores stands for `stored * scale + offset`.

Means, medians, modes and extremes of stored numbers stand for those of what the numbers stand for. Standard deviations
know no offset, and no two numbers are right for all sums and norms of numbers that have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite, nan
from typing import Any

from poolcli.formats.checks import LIMITS, named
from poolcli.formats.records import Metadata
from poolcli.plan import Plan

SCALE, OFFSET = "scale_factor", "add_offset"  # of CF conventions
ACTUAL = "actual_range"  # of the numbers that there are


def repacked(metadata: Metadata, plan: Plan) -> Metadata:
    """The metadata with scales, offsets and limits as they hold for the results, and notes on what is left out."""
    attributes, left = _fitting(metadata.attributes, SCALE, OFFSET, plan)
    left += [name for name in (*_limits(plan), ACTUAL) if attributes.pop(name, None) is not None]
    image, notes = _of_bands(metadata.image, plan), list[str]()
    if "pages" in image:
        image["pages"] = {number: _of_bands(page, plan) for number, page in image["pages"].items()}
    if left:
        notes.append(f"left out, because they do not hold for {plan.op} pooling: the attributes {named(left)}")
    if plan.reducer.picks and SCALE in attributes and _number(attributes[SCALE]) < 0:
        notes.append(
            f"{SCALE} is negative: {plan.op} of the stored numbers is the other extreme of what they stand for"
        )
    return replace(metadata, image=image, attributes=attributes, notes=(*metadata.notes, *notes))


def _of_bands(found: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """What an image or a page says, with GDAL's scales and offsets as they hold for the results."""
    kept, lost = dict(found), dict[tuple[str, str], None]()
    bands = dict[str, dict[str, str]]()
    for band, roles in kept.pop("gdal", {}).items():
        bands[band], gone = _fitting(roles, "scale", "offset", plan)
        lost |= {(f"GDAL's {role}", f"it does not hold for {plan.op} pooling"): None for role in gone}
    bands = {band: roles for band, roles in bands.items() if roles}
    kept |= {"gdal": bands} if bands else {}
    return kept | ({"lost": (*kept.get("lost", ()), *lost)} if lost else {})


def _limits(plan: Plan) -> tuple[str, ...]:
    """The limits that results do not keep, beyond which readers take numbers for missing."""
    return LIMITS if plan.reducer.result in ("total", "float", "deviation") else ()


def _fitting(found: Mapping[str, Any], scale: str, offset: str, plan: Plan) -> tuple[dict[str, Any], list[str]]:
    """What is found, with this scale and offset as they hold for the results, and which of them is left out."""
    kept, reducer = dict(found), plan.reducer
    if not {scale, offset} & kept.keys() or reducer.picks or reducer.votes or reducer.statistic == "median":
        return kept, []
    if reducer.divides and plan.divisor_override is None:
        return kept, []
    factor, begin = _number(kept.get(scale, 1)), _number(kept.get(offset, 0))
    gone = [name for name in (scale, offset) if name in kept] if begin or not isfinite(factor) else []
    if reducer.statistic == "deviation" and isfinite(factor):
        gone = [offset] if begin else []
    if factor < 0 and (reducer.statistic or reducer.power) and scale not in gone:
        kept[scale] = kept[scale].lstrip(" -") if isinstance(kept[scale], str) else abs(kept[scale])
    return {name: value for name, value in kept.items() if name not in gone}, gone


def _number(value: Any) -> float:
    """The single number that an attribute holds; NaN where it holds something else."""
    import numpy as np

    try:
        return float(np.asarray(value, np.float64).item())
    except (TypeError, ValueError, ArithmeticError):
        return nan
