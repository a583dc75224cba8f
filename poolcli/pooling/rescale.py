"""Numbers of any range as the 8 bits of a picture, where that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from poolcli.dtypes import lookup
from poolcli.errors import RequestError
from poolcli.formats import format_of
from poolcli.message_fields import field
from poolcli.plan import Plan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Limits = tuple[float, float] | tuple[()]  # what becomes 0 and 255; () for the lowest and the highest of each result
STORED = "uint8"


def check_rescale(plan: Plan, path: str | None) -> None:
    """Refuses what is no float result on its way into a picture."""
    if lookup(plan.output_dtype).kind != "float":
        raise RequestError(f"{field('rescale')} is for float results, this is {plan.output_dtype}; leave it out")
    if path and not format_of(path).picture:
        raise RequestError(
            f"{field('rescale')} makes images of floats, and {format_of(path).name} files hold floats; leave it out"
        )


def rescaled(array: NDArray[Any], limits: Limits) -> tuple[NDArray[np.uint8], str]:
    """The numbers from 0 to 255, halves to even, and a note on what became what. NaN becomes 0."""
    import numpy as np

    values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    low, high = limits or ((finite.min(), finite.max()) if finite.size else (0.0, 1.0))
    with np.errstate(over="ignore", invalid="ignore"):  # also 0 / 0, of a result that is one number
        scaled = (values - low) / (high - low) * 255
    cut = int(np.count_nonzero((values < low) | (values > high)))
    lost = int(np.count_nonzero(np.isnan(values)))
    note = f"rescaled: {low:.6g} to {high:.6g} became 0 to 255"
    note += f"; {cut} beyond were cut to the ends" if cut else ""
    note += f"; {lost} nan became 0" if lost else ""
    return np.rint(np.clip(np.nan_to_num(scaled, nan=0.0), 0, 255)).astype(np.uint8), note
