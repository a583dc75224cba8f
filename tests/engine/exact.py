"""What a pooling gives at some of its outputs, by the definition, in exact fractions: slow, and nobody's engine."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

from poolcli.plan import Plan

Place = tuple[int, ...]


@dataclass(frozen=True)
class Exact:
    """One output: its mean (None where there is nothing to divide by), or its maximum and where in its plane that lies
    (None and -1 where the window is empty); the mean of the elements' sizes, which is the scale of rounding errors.
    """

    value: Any
    position: int = -1
    scale: Fraction = Fraction(0)


def exact(plan: Plan, x: Any, place: Place) -> Exact:
    """The output of `plan` at `place`, one index for each axis of the layout; `x` holds finite numbers only."""
    spans = [axis.windows.span(place[axis.position]) for axis in plan.axes]
    sizes = [axis.windows.size for axis in plan.axes]
    found = []
    for cell in product(*spans):
        at = list(place)
        for axis, index in zip(plan.axes, cell, strict=True):
            at[axis.position] = index
        found.append((x[tuple(at)].item(), int(np.ravel_multi_index(cell, sizes))))
    if plan.reducer.picks:
        value, position = max(found, key=lambda pair: (pair[0], -pair[1]), default=(None, -1))
        return Exact(value, position)
    divisor = plan.divisor_override or 1
    if plan.divisor_override is None:
        for axis in plan.axes:
            divisor *= axis.windows.divisor(place[axis.position])
    if not divisor:
        return Exact(None)
    total, size = (sum((Fraction(change(value)) for value, _ in found), Fraction(0)) for change in (_same, abs))
    return Exact(total / divisor, scale=size / abs(divisor))


def _same(value: Any) -> Any:
    return value


def some_places(plan: Plan, rng: np.random.Generator, count: int) -> list[Place]:
    """The first output, the last, and others by chance; each once."""
    if not all(plan.output_shape):
        return []
    ends = [tuple(0 for _ in plan.output_shape), tuple(length - 1 for length in plan.output_shape)]
    others = [tuple(int(rng.integers(length)) for length in plan.output_shape) for _ in range(count)]
    return list(dict.fromkeys([*ends, *others]))


def unit(value: Fraction, dtype: np.dtype[Any]) -> Fraction:
    """The distance between two numbers of the float type beside `value`."""
    info = ml_dtypes.finfo(dtype)  # of bfloat16 too
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    least = int(info.minexp) - int(info.nmant)
    return Fraction(2) ** max(exponent - int(info.nmant), least) if size else Fraction(2) ** least


def nearest(value: Fraction, dtype: np.dtype[Any]) -> float:
    """The number of the float type that is nearest to `value`, of two the even one, as a Python float."""
    step = unit(value, dtype)
    found = round(value / step) * step  # halves to even
    largest = Fraction(float(ml_dtypes.finfo(dtype).max))
    return float(found) if abs(found) <= largest else float("inf") * (1 if value > 0 else -1)


def assert_exact(plan: Plan, x: Any, values: Any, positions: Any, places: list[Place]) -> None:
    """Integers and maxima are what the definition gives; means of floats are within a unit in the last place of the
    mean of the elements' sizes; indices (of a plan that counts them in the plane) are those of the first maximum.
    """
    for place in places:
        expected, got = exact(plan, x, place), values[place].item()
        where = f"{plan.op} {plan.attributes} on {x.shape} {x.dtype} at {place}: {got}, not {expected}"
        if expected.value is None:
            lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
            assert got == lowest if plan.reducer.picks else got != got, where
        elif plan.reducer.picks:
            assert got == expected.value, where
        elif values.dtype.kind in "iu":
            assert got == round(expected.value), where  # Fractions round halves to even
        else:
            assert abs(Fraction(got) - expected.value) <= unit(expected.scale, values.dtype), where
        if positions is not None:
            assert positions[place] == expected.position, where
