"""The inverse question: which kernel, strides, pads and rounding give this output length?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from poolcli.core.errors import RequestError
from poolcli.core.layouts import check_layout, default_layout, spatial_axes
from poolcli.core.values import PerAxis, numbers_from, per_axis
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import SlidingAttributes

LARGEST_KERNEL = 11
SHOWN = 12


@dataclass(frozen=True, slots=True)
class Answer:
    """One set of attributes that gives the wanted length on every axis, and its plan."""

    op: SlidingAttributes
    plan: Plan


def solve(
    op: SlidingAttributes,
    fixed: frozenset[str],
    shape: Sequence[int],
    wanted: Sequence[int],
    layout: str | None = None,
) -> list[Answer]:
    """Up to a dozen answers, simplest first, for the wanted spatial sizes; attributes named in `fixed` stay as in `op`.

    Searched are kernels up to 11 and what fits them, equal on all axes where that is possible; every answer is
    verified by the plan that it leads to.
    """
    layout = check_layout(layout, len(shape)) if layout else default_layout(len(shape))
    positions = spatial_axes(layout)
    names = "".join(layout[i] for i in positions)
    sizes = [shape[i] for i in positions]
    targets = per_axis("solve", numbers_from(1)("solve", wanted), names)
    found = []
    for candidate in sorted(set(_candidates(op, fixed, sizes, targets)), key=_cost):
        answer = _verified(op, candidate, shape, layout, targets)
        if answer:
            found.append(answer)
        if len(found) == SHOWN:
            break
    return found


_Candidate = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], str]


def _candidates(
    op: SlidingAttributes, fixed: frozenset[str], sizes: Sequence[int], targets: Sequence[int]
) -> Iterator[_Candidate]:
    """(kernel, strides, pads_begin, pads_end, rounding); one number serves every axis where it can."""
    per = [
        list(_of_axis(op, fixed, size, target, i)) for i, (size, target) in enumerate(zip(sizes, targets, strict=True))
    ]
    shared = set(per[0]).intersection(*per[1:])
    for kernel, stride, begin, end, rounding in shared:
        yield (kernel,), (stride,), (begin,), (end,), rounding
    if shared:
        return
    simplest = [sorted(options, key=_axis_cost)[:20] for options in per]
    for combination in product(*simplest):
        if len({option[4] for option in combination}) == 1:
            kernels, strides = tuple(o[0] for o in combination), tuple(o[1] for o in combination)
            begins, ends = tuple(o[2] for o in combination), tuple(o[3] for o in combination)
            yield kernels, strides, begins, ends, combination[0][4]


def _of_axis(
    op: SlidingAttributes, fixed: frozenset[str], size: int, target: int, i: int
) -> Iterator[tuple[int, int, int, int, str]]:
    """What gives the wanted length on one axis; ceil only where it gives another length than floor."""

    def given(name: str, value: PerAxis | None, others: Iterable[int]) -> list[int]:
        if name not in fixed or value is None:
            return list(others)
        numbers = [value] if isinstance(value, int) else list(value)
        return [numbers[i] if len(numbers) > 1 else numbers[0]]

    (dilation,) = given("dilations", op.dilations, [1])
    strides = given("strides", op.strides, sorted({*range(1, LARGEST_KERNEL + 1), *_near(size // target)}))
    kernels = given("kernel", op.kernel, sorted({*range(1, LARGEST_KERNEL + 1), *_near(size // target), size}))
    roundings = [op.rounding_type] if "rounding_type" in fixed else ["floor", "ceil"]
    for kernel, stride in product(kernels, strides):
        for pad in given("pads_begin", op.pads_begin, range(min(kernel // 2, LARGEST_KERNEL) + 1)):
            for end, rounding in product(given("pads_end", op.pads_end, [pad]), roundings):
                room = size + pad + end - (kernel - 1) * dilation - 1
                moves = room // stride
                lengths = (moves + 1,) if rounding == "floor" else (moves + 1, moves + 2) if room % stride else ()
                if room >= 0 and target in lengths:
                    yield kernel, stride, pad, end, rounding


def _near(number: int) -> Iterator[int]:
    """Numbers about as large, at least 1."""
    return (n for n in range(number - 1, number + 3) if n >= 1)


def _axis_cost(candidate: tuple[int, int, int, int, str]) -> tuple[object, ...]:
    kernel, stride, begin, end, rounding = candidate
    return _cost(((kernel,), (stride,), (begin,), (end,), rounding))


def _cost(candidate: _Candidate) -> tuple[object, ...]:
    """Simplest first: floor, windows that leave no gaps, usual kernels, no pads, tiling, "same" pads, small numbers."""
    kernels, strides, begins, ends, rounding = candidate
    pairs = list(zip(kernels, strides, begins, ends, strict=True))
    return (
        sum(k < s for k, s, _, _ in pairs),
        rounding != "floor",
        sum((b + e > 0) + (b != e) for _, _, b, e in pairs),
        sum(k > 7 for k, _, _, _ in pairs),
        sum(k != s for k, s, _, _ in pairs),
        sum((b, e) != ((k - 1) // 2, (k - 1) // 2) for k, _, b, e in pairs if b + e),
        sum(k + s + b for k, s, b, _ in pairs),
        candidate,
    )


def _verified(
    op: SlidingAttributes, candidate: _Candidate, shape: Sequence[int], layout: str, targets: Sequence[int]
) -> Answer | None:
    kernel, strides, begin, end, rounding = candidate
    answer = replace(
        op, kernel=kernel, strides=strides, pads_begin=begin, pads_end=end, rounding_type=rounding, auto_pad="explicit"
    )
    try:
        plan = make_plan(answer, shape, "float32", layout=layout)
    except RequestError:
        return None
    return Answer(answer, plan) if tuple(w.output for w in plan.windows) == tuple(targets) else None
