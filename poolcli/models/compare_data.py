"""A layer on its real input, against the output that was recorded with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from poolcli.core.errors import RequestError
from poolcli.formats import parse_source, read
from poolcli.models.check import plan_of
from poolcli.models.layer import Layer

CLOSE = 1e-5  # relative and absolute, for floats; integers and maxima must be equal


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far a recorded output is from the computed one: the largest difference, where, and how many elements are
    off by more than 1e-5 (relative or absolute; not at all for maxima and integers).
    """

    elements: int
    off: int
    largest: float
    at: tuple[int, ...] | None
    recorded: float | None
    computed: float | None


def compare_data(layer: Layer, path: str) -> Comparison:
    """Pools `input` of an .npz or .h5 as the layer does and compares with `output`."""
    import numpy as np

    from poolcli.engine import run

    x, recorded = (read(parse_source(path, key)).array for key in ("input", "output"))
    plan = plan_of(layer, x.shape, str(x.dtype.newbyteorder("=")))
    if recorded.shape != plan.output_shape:
        raise RequestError(
            f"{path}: output is {_listed(recorded.shape)}, layer {layer.name} makes {_listed(plan.output_shape)} "
            f"of input {_listed(x.shape)}"
        )
    computed, _ = run(plan, x)
    exact = plan.reducer.picks or computed.dtype.kind in "iub"
    a, b = recorded.astype(np.float64), computed.astype(np.float64)
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        distance = np.where(same, 0.0, np.nan_to_num(abs(a - b), nan=np.inf, posinf=np.inf))
        off = ~same if exact else ~same & ~(distance <= CLOSE + CLOSE * abs(b))
    if not distance.size:
        return Comparison(0, 0, 0.0, None, None, None)
    at: tuple[Any, ...] = np.unravel_index(int(distance.argmax()), distance.shape)
    where = tuple(int(i) for i in at)
    largest = float(distance[where])
    if largest == 0:
        return Comparison(a.size, 0, 0.0, None, None, None)
    return Comparison(a.size, int(off.sum()), largest, where, float(a[where]), float(b[where]))


def _listed(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))
