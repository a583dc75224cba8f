"""The inverse question: which kernel, strides, pads and words give this output length?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice, product
from typing import Any

from poolcli.arguments import numbers_from, one_of, per_axis
from poolcli.dialects import dialect_of
from poolcli.errors import RequestError
from poolcli.explain.lengths import AxisOption, axis_options, unusual
from poolcli.layouts import check_layout, check_shape, default_layout, spatial_axes
from poolcli.message_fields import field
from poolcli.ops import OPERATORS
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import SlidingAttributes, with_both_ends
from poolcli.plan.resolve import check_lengths
from poolcli.suggestions import did_you_mean

SHOWN = 12
EACH = 12  # of one axis, the plainest, that are combined with those of others
NEAREST = 100  # lengths up and down that are looked at for one that can be reached


@dataclass(frozen=True, slots=True)
class Answer:
    """One set of attributes that gives the wanted length on every axis, and its plan."""

    op: SlidingAttributes
    plan: Plan


@dataclass(frozen=True, slots=True)
class Near:
    """An axis whose wanted length cannot be had, and the nearest ones below and above it that can."""

    axis: str
    wanted: int
    lengths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """The operator with what is given, the names of what is given, the input and the wanted spatial lengths."""

    op: SlidingAttributes
    fixed: frozenset[str]
    shape: tuple[int, ...]
    layout: str
    wanted: tuple[int, ...]

    @property
    def axes(self) -> str:
        """The letters of the spatial axes."""
        return "".join(self.layout[i] for i in spatial_axes(self.layout))

    @property
    def dtype(self) -> str:
        """A type that the operator takes; none of the answers depends on it."""
        return "uint8" if self.op.reducer.votes else "float32"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The spatial lengths of the input."""
        return tuple(self.shape[i] for i in spatial_axes(self.layout))


def solve(
    op: str, shape: Sequence[int], wanted: int | Sequence[int], *, layout: str | None = None, **given: Any
) -> list[Answer]:
    """Find attributes that give a wanted output size.

    The search covers kernels up to 11 and those that cover the input with the wanted number of windows, every stride
    that fits them, pads shorter than the window (equal, or one more at the end), `same_upper`, and every rounding of
    the dialect. Every answer is verified by its plan.

    Parameters
    ----------
    op : str
        Operator with a kernel, such as "max".
    shape : sequence of int
        Shape of the input.
    wanted : int or sequence of int
        Output length of every spatial axis, or of each.
    layout : str, optional
        One letter per axis, such as "NHWC"; default N, C and spatial axes.
    **given
        Attributes that keep these values, such as `kernel=3`.

    Returns
    -------
    list of Answer
        Up to a dozen, simplest first, each with its record `op` and its `plan`; empty if there is none.

    Raises
    ------
    RequestError
        For an operator without a kernel, and for invalid attributes.

    Examples
    --------
    >>> [answer.op.kernel for answer in solve("max", (1, 64, 112, 112), 56, strides=2)][:2]
    [(2,), (3,)]
    """
    return answers(question(op, with_both_ends(given), shape, wanted, layout))


def question(
    op: str, given: dict[str, Any], shape: Sequence[int], wanted: int | Sequence[int], layout: str | None = None
) -> Question:
    """What is asked; refuses operators without a kernel and numbers that fit no axis."""
    record = OPERATORS[one_of("op", op, tuple(OPERATORS))]
    if not issubclass(record, SlidingAttributes):
        raise RequestError(f"{op} has its output size given; {field('solve')} is for {_with_kernel()}")
    names = {own.name for own in fields(record)}
    for name in given:
        if name not in names:
            raise RequestError(f"{op} has no {field(name)}{did_you_mean(name, names)}", field=name)
    shape = check_shape(shape)
    layout = check_layout(layout, len(shape)) if layout else default_layout(len(shape))
    made = record(**({"kernel": 1} | given))
    axes = "".join(layout[i] for i in spatial_axes(layout))
    check_lengths(axes, [shape[i] for i in spatial_axes(layout)])
    targets = per_axis("solve", numbers_from(1)("solve", wanted), axes)
    return Question(made, frozenset(given), tuple(shape), layout, targets)


def answers(asked: Question) -> list[Answer]:
    """Up to a dozen answers, plainest first."""
    found: dict[SlidingAttributes, Answer] = {}
    for op in sorted(_combined(asked), key=lambda op: plainness(op, asked.sizes)):
        answer = _verified(asked, op) if op not in found else None
        if answer:
            found[op] = answer
        if len(found) == SHOWN:
            break
    return list(found.values())


def nearest(asked: Question) -> list[Near]:
    """For each axis whose length cannot be had, whatever the others are: the nearest lengths that can."""
    found = []
    for i, (axis, wanted) in enumerate(zip(asked.axes, asked.wanted, strict=True)):
        if not _reachable(asked, i, wanted):
            below = next((t for t in range(wanted - 1, max(0, wanted - NEAREST), -1) if _reachable(asked, i, t)), None)
            above = next((t for t in range(wanted + 1, wanted + NEAREST) if _reachable(asked, i, t)), None)
            found.append(Near(axis, wanted, tuple(t for t in (below, above) if t is not None)))
    return found


def _with_kernel() -> str:
    *most, last = [name for name, record in OPERATORS.items() if issubclass(record, SlidingAttributes)]
    return f"{', '.join(most)} and {last}"


def _words(asked: Question) -> Iterator[dict[str, str]]:
    """The words that all axes share; explicit pads are none where another word is given, and the other way round."""
    op, dialect = asked.op, dialect_of(asked.op.like)
    pads_given = not asked.fixed.isdisjoint(("pads_begin", "pads_end"))
    auto_pads = ("explicit",) if pads_given else tuple(w for w in ("explicit", "same_upper") if w in dialect.auto_pads)
    roundings = (op.rounding_type,) if "rounding_type" in asked.fixed else dialect.rounding_types
    for auto_pad in (op.auto_pad,) if "auto_pad" in asked.fixed else auto_pads:
        for rounding in roundings:
            yield {"auto_pad": auto_pad, "rounding_type": rounding}


def _combined(asked: Question) -> Iterator[SlidingAttributes]:
    """What may answer: one number for every axis where it can be, and combinations of the plainest of each axis."""
    for words in _words(asked):
        per = [_options(asked, i, wanted, words) for i, wanted in enumerate(asked.wanted)]
        shared = set(per[0]).intersection(*per[1:])
        yield from (_made(asked, words, (option,)) for option in shared)
        if shared and len({*zip(asked.sizes, asked.wanted, strict=True)}) == 1:
            continue  # what serves one axis serves all
        plain = [list(islice(_fitting(asked, i, words, options), EACH)) for i, options in enumerate(per)]
        for axes in product(*plain) if len(per) > 1 else ():
            yield _made(asked, words, axes)


def _options(asked: Question, i: int, wanted: int, words: dict[str, str]) -> list[AxisOption]:
    """What gives the wanted length on axis `i`, plainest first."""
    given = {name: per_axis(name, getattr(asked.op, name), asked.axes)[i] for name in asked.fixed & NUMBERS}
    rounding = words["rounding_type"]
    meaning = dialect_of(asked.op.like).ceil if rounding == "ceil" else rounding
    found = axis_options(asked.sizes[i], wanted, given, words["auto_pad"], meaning)
    return sorted(
        set(found),
        key=lambda option: plainness(_made(asked, words, (option,)), asked.sizes[i : i + 1] * len(asked.sizes)),
    )


NUMBERS = frozenset(own.name for own in fields(AxisOption)) | {"dilations"}


def _made(asked: Question, words: dict[str, str], axes: Sequence[AxisOption]) -> SlidingAttributes:
    """The record of these numbers; one of each where all axes have the same."""
    axes = axes[:1] if len(set(axes)) == 1 else axes
    numbers = {own.name: tuple(getattr(axis, own.name) for axis in axes) for own in fields(AxisOption)}
    changed: dict[str, Any] = numbers | words
    return replace(asked.op, **changed)


def _fitting(asked: Question, i: int, words: dict[str, str], options: Sequence[AxisOption]) -> Iterator[AxisOption]:
    """Those that the dialect takes: planned on a shape that is this axis in every direction."""
    rank = len(asked.sizes)
    for option in options:
        try:
            alone = make_plan(_made(asked, words, (option,)), (1, 1, *(asked.sizes[i],) * rank), asked.dtype)
        except RequestError:
            continue
        if alone.empty_windows == 0:
            yield option


def _reachable(asked: Question, i: int, wanted: int) -> bool:
    return any(
        next(_fitting(asked, i, words, _options(asked, i, wanted, words)), None) is not None for words in _words(asked)
    )


def _verified(asked: Question, op: SlidingAttributes) -> Answer | None:
    """The answer, where its plan gives the wanted lengths without windows of nothing, and needs its rounding."""
    try:
        plan = make_plan(op, asked.shape, asked.dtype, layout=asked.layout)
        if op.rounding_type != "floor" and "rounding_type" not in asked.fixed:
            down = make_plan(replace(op, rounding_type="floor"), asked.shape, asked.dtype, layout=asked.layout)
            if down.output_shape == plan.output_shape:
                return None
    except RequestError:
        return None
    right = tuple(w.output for w in plan.windows) == asked.wanted and plan.empty_windows == 0
    return Answer(op, plan) if right else None


def plainness(op: SlidingAttributes, sizes: Sequence[int]) -> tuple[object, ...]:
    """Plainest first, as an engineer would choose: a sum of what makes attributes unusual, then small numbers."""
    rank = len(sizes)
    numbers = [_spread(n, rank) for n in (op.kernel, op.strides, op.pads_begin, op.pads_end, op.dilations)]
    axes = list(zip(sizes, *numbers, strict=True))
    words = {"floor": 0, "ceil": 2, "ceil_torch": 5}[op.rounding_type] + 3 * (op.auto_pad != "explicit")
    unlike = (3 if len(set(sizes)) == 1 else 1) * (len({axis[1:] for axis in axes}) - 1)
    total = words + unlike + sum(unusual(*axis) for axis in axes) / rank
    return total, sum(k + s + b for _, k, s, b, _, _ in axes), axes, op.rounding_type


def _spread(numbers: Any, rank: int) -> tuple[int, ...]:
    found = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    return found * rank if len(found) == 1 else found
