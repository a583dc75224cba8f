"""The numba engine: brings a slab into the canonical view and runs the kernel that was chosen over its tasks."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled.arithmetic import ByReciprocal, OddQuotient, Quotient
from poolcli.engine.compiled.choice import Choice
from poolcli.engine.compiled.choose import choose_kernel
from poolcli.engine.compiled.geometry import Wide
from poolcli.engine.compiled.load import load_kept
from poolcli.engine.compiled.running import run
from poolcli.engine.compiled.suited import suited
from poolcli.plan.region import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.table import Pool

Array = np.ndarray[Any, np.dtype[Any]]
SCALE = 2.0**-64  # brings sums of float64 back into range where they overflow


def prepare(region: Region, indices: bool) -> Pool:
    """What pools the region, of any array that it reads."""
    in_order = choose_kernel(region, indices)
    load_kept(in_order)
    plan = region.plan  # an int16 that wins is a number, also where float16 is wanted
    as_bits = plan.reducer.result != "element" or plan.dtype == plan.output_dtype
    can_overflow = _can_overflow(in_order)

    def pool(x: Array, out: Array, threads: int | None) -> NDArray[np.int64] | None:
        x = _as_numbers(x, in_order.source)
        choice = in_order if in_order.view.is_contiguous(x) else suited(region, indices, in_order, x)
        source, values = choice.view.of_input(x), choice.view.target(out, choice.made, as_bits)
        positions = np.empty(choice.view.output_shape, np.int64) if indices else None
        run(choice, source, values, positions, threads)
        if can_overflow and not np.isfinite(values).all():
            values = _rescued(choice, in_order, x, values, threads)
        if values is not out:
            choice.view.store(out, values, as_bits)
        return None if positions is None else _inside_plane(region, choice, positions)

    return pool


def _as_numbers(x: Array, dtype: np.dtype[Any]) -> Array:
    """`x` seen as numbers of that type, copied where its bytes are in another order."""
    return x if x.dtype == dtype else x.astype(x.dtype.newbyteorder("="), copy=False).view(dtype)


def _can_overflow(choice: Choice) -> bool:
    """Whether sums may leave the range that the means lie in."""
    return (
        choice.dtype == "float64"
        and not isinstance(choice.how, Wide)
        and isinstance(choice.how.result, Quotient | ByReciprocal | OddQuotient)
    )


def _rescued(choice: Choice, in_order: Choice, x: Array, values: Array, threads: int | None) -> Array:
    """The means, where they are not finite from sums of scaled numbers: a sum may leave the range, its mean cannot."""
    smaller, scaled = in_order.view.of_input(x * SCALE), np.empty(in_order.view.ordered_shape, values.dtype)
    run(in_order, smaller, scaled, None, threads)
    scaled = choice.view.of_input(in_order.view.to_layout(scaled))
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(values), values, scaled / SCALE)


def _inside_plane(region: Region, choice: Choice, positions: Array) -> NDArray[np.int64]:
    """Positions in the order of the layout; where several planes lie in one row, they count inside their own."""
    plane = prod(region.input_shape[axis.position] for axis in region.plan.axes)
    if choice.view.axes[2].size > plane:
        positions -= choice.view.axes[2].begin // plane * plane  # every window is a whole plane, so none is of nothing
    return choice.view.to_layout(positions)
