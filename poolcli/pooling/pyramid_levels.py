"""The levels of a pyramid: the shape and the plan of each one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poolcli.arguments import MinCount, Missing, per_axis
from poolcli.errors import RequestError
from poolcli.formats.zarr.ome import names_of_axes
from poolcli.layouts import spatial_axes
from poolcli.message_fields import field
from poolcli.ops import OPERATORS
from poolcli.plan import Plan, make_plan
from poolcli.windows import ceil_div

BASES = ("previous", "source")
EDGES = ("ceil", "floor")
MOST_LEVELS = 64  # each level is at most half as long as the one before, and lengths are below 2**63


@dataclass(frozen=True, slots=True)
class Level:
    """One level: its shape, its downsampling factor along each axis, and its plan, which reads level `base`.

    The first level is the source and has no plan.
    """

    shape: tuple[int, ...]
    factors: tuple[int, ...]
    plan: Plan | None = None
    base: int = 0

    def scale(self, first: Sequence[float]) -> list[float]:
        """The spacing of its elements along each axis, from the spacing `first` of the source."""
        return [step * factor for step, factor in zip(first, self.factors, strict=True)]

    def translation(self, first: Sequence[float], origin: Sequence[float]) -> list[float]:
        """The position of the centre of its first element along each axis, from spacing and origin of the source.

        That element covers `factor` elements of the source, so its centre is (factor - 1) / 2 spacings further.
        """
        places = zip(first, origin, self.factors, strict=True)
        return [start + step * (factor - 1) / 2 for step, start, factor in places]


@dataclass(frozen=True, slots=True)
class Reduction:
    """How levels are computed.

    op: the operator
    kernel: kernel and stride for each spatial axis, the same for every level
    factors: kernel and stride of each level in turn, by the names of axes, in place of `kernel`
    base: "previous" pools each level from the one before; "source" from the first level, so that it is rounded once
    edge: "ceil" keeps a partial window at the end of an axis, "floor" drops it
    """

    op: str
    kernel: tuple[int, ...]
    base: str = "previous"
    edge: str = "ceil"
    factors: tuple[Mapping[str, int], ...] = ()

    def __post_init__(self) -> None:
        for number, level in enumerate(self.factors, 1):
            if max(level.values()) < 2 or min(level.values()) < 1:
                raise RequestError(
                    f"{field('factors')} of level {number} must be at least 2 on one axis and at least 1 on the others"
                )
        if max(self.kernel) < 2 or min(self.kernel) < 1:
            raise RequestError(
                f"{field('kernel', self.kernel)}: must be at least 2 on one axis and at least 1 on the others"
            )


def levels_of(
    reduction: Reduction,
    shape: tuple[int, ...],
    dtype: str,
    layout: str,
    *,
    count: int | None,
    smallest: int,
    missing: Missing = (),
    min_count: MinCount | None = None,
) -> tuple[Level, ...]:
    """The source and the levels below it: `count` in all, as many as the reduction has factors for, or until no
    spatial axis is longer than `smallest`.

    An axis that is shorter than the kernel is not pooled. Raises RequestError if that many levels are not possible.
    """
    if count is not None and count < 1:
        raise RequestError(f"{field('levels')} is {count}; it must be at least 1")
    spatial = spatial_axes(layout)
    names = names_of_axes(layout)
    given = [tuple(level.get(name, 1) for name in names) for level in reduction.factors]
    count = len(given) + 1 if given else count
    kernels = given or [_by_axis(reduction.kernel, layout)] * MOST_LEVELS
    levels = [Level(shape, (1,) * len(shape))]
    while len(levels) < (count or MOST_LEVELS):
        last = levels[-1]
        if count is None and max(last.shape[i] for i in spatial) <= smallest:
            break
        steps = tuple(k if n >= k else 1 for n, k in zip(last.shape, kernels[len(levels) - 1], strict=True))
        if max(steps) == 1:
            if given:
                lengths = ",".join(f"{name}={n}" for name, n in zip(names, last.shape, strict=True))
                raise RequestError(
                    f"{field('factors')}: every axis of level {len(levels) - 1} ({lengths}) is shorter than its factor "
                    "in the next level"
                )
            if count is not None:
                raise RequestError(
                    f"{field('levels')} is {count}, but after {len(levels)} no axis is as long as the kernel; "
                    f"use at most {field('levels', len(levels))}"
                )
            break
        levels.append(_next(reduction, levels, steps, dtype, layout, (missing, min_count)))
    return tuple(levels)


def _by_axis(numbers: tuple[int, ...], layout: str) -> tuple[int, ...]:
    spatial = spatial_axes(layout)
    found = [1] * len(layout)
    for axis, number in zip(spatial, per_axis("kernel", numbers, [layout[i] for i in spatial]), strict=True):
        found[axis] = number
    return tuple(found)


def _next(
    reduction: Reduction,
    levels: list[Level],
    steps: tuple[int, ...],
    dtype: str,
    layout: str,
    gone: tuple[Missing, MinCount | None],
) -> Level:
    factors = tuple(factor * step for factor, step in zip(levels[-1].factors, steps, strict=True))
    base = len(levels) - 1 if reduction.base == "previous" else 0
    kernels = steps if base else factors
    lengths = levels[base].shape
    spatial = spatial_axes(layout)
    ceil = reduction.edge == "ceil"
    record: Any = OPERATORS[reduction.op]
    op = record(
        tuple(kernels[i] for i in spatial),
        tuple(kernels[i] for i in spatial),
        pads_end=tuple(-lengths[i] % kernels[i] if ceil else 0 for i in spatial),
    )
    # Each level has the nodata value of the first, so that the next one leaves it out too.
    missing, least = gone
    nodata = next(iter(missing), None)
    plan = make_plan(op, lengths, dtype, layout=layout, missing=missing, min_count=least, nodata=nodata)
    expected = (ceil_div(n, k) if ceil else n // k for n, k in zip(lengths, kernels, strict=True))
    assert plan.output_shape == tuple(expected)  # noqa: S101  # the padding makes it so
    return Level(plan.output_shape, factors, plan, base)
