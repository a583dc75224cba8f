"""Solves for attributes (`poolcli shape --solve`, `poolcli.solve`): kernels, strides, pads and words that give a wanted
output length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice, product
from typing import Any

from poolcli.arguments import numbers_from, one_of, per_axis
from poolcli.dialects import dialect_of
from poolcli.errors import RequestError
from poolcli.layouts import check_shape, read_axes, spatial_axes
from poolcli.message_fields import field
from poolcli.plan import Plan, plan_or_none
from poolcli.plan.attributes import OPERATORS, SlidingAttributes, expand_pads, values_of
from poolcli.plan.resolve import check_lengths
from poolcli.suggestions import did_you_mean, join_words
from poolcli.windows import ceil_div, extent, same_pads, sliding_output

COMMON_KERNELS = 11  # kernels and strides up to this are always tried
COMMON = range(1, COMMON_KERNELS + 1)
NUMBERS = ("kernel", "strides", "pads_begin", "pads_end")  # of an axis, by the names of attributes
SEARCHED = (
    f"searched: kernels up to {COMMON_KERNELS} and those that cover the input with the wanted windows, every stride "
    "that fits, pads shorter than the window (equal, or one more at the end), same_upper, each rounding; no windows "
    "that lie in the padding alone"
)
MAX_ANSWERS = 12
OPTIONS_PER_AXIS = 12  # the simplest ones, which are combined with those of the other axes
Numbers = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """One set of attributes that gives the wanted length on every axis, and its plan."""

    op: SlidingAttributes
    plan: Plan


@dataclass(frozen=True, slots=True)
class Question:
    """The operator with the given attributes, their names, the input, and the spatial axes with the wanted lengths."""

    op: SlidingAttributes
    fixed: frozenset[str]
    shape: tuple[int, ...]
    layout: str
    axes: str
    sizes: tuple[int, ...]
    wanted: tuple[int, ...]


def solve(
    op: str, shape: Sequence[int], wanted: int | Sequence[int], *, layout: str | None = None, **given: Any
) -> list[Answer]:
    """Find attributes that give a wanted output size.

    The search covers kernels up to 11 and those that cover the input with the wanted number of windows, every stride
    that fits them, pads shorter than the window (equal, or one more at the end), `same_upper`, and every rounding of
    the dialect. Every answer is verified by its plan, and has no windows that lie in the padding alone.

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
    asked, found = _parse_question(op, expand_pads(given), shape, wanted, layout), dict[SlidingAttributes, Answer]()
    for each in sorted(_candidates(asked), key=lambda each: complexity(each, asked.sizes)):
        plan = _verified(asked, each) if each not in found and len(found) < MAX_ANSWERS else None
        if plan:
            found[each] = Answer(each, plan)
    return list(found.values())


def _parse_question(
    op: str, given: dict[str, Any], shape: Sequence[int], wanted: int | Sequence[int], layout: str | None
) -> Question:
    """Validate what is asked; refuses operators without a kernel and numbers that fit no axis."""
    record = OPERATORS[one_of("op", op, tuple(OPERATORS))]
    if not issubclass(record, SlidingAttributes):
        able = join_words((name for name, each in OPERATORS.items() if issubclass(each, SlidingAttributes)), "and")
        raise RequestError(f"{op} takes its output size as an option; {field('solve')} is for {able}")
    names = {own.name for own in fields(record)}
    for name in given:
        if name not in names:
            raise RequestError(f"{op} has no {field(name)}{did_you_mean(name, names)}", field=name)
    shape = check_shape(shape)
    made = record(**({"kernel": 1} | given))
    lengths = numbers_from(1)("solve", wanted)
    values = max(values_of(made), 1 if isinstance(lengths, int) else len(lengths))
    layout = read_axes(shape, values, layout=layout, last=dialect_of(made.like).channels_last).layout
    axes, sizes = "".join(layout[i] for i in spatial_axes(layout)), tuple(shape[i] for i in spatial_axes(layout))
    check_lengths(axes, sizes)
    return Question(made, frozenset(given), tuple(shape), layout, axes, sizes, per_axis("solve", lengths, axes))


def _words(asked: Question) -> Iterator[dict[str, str]]:
    """The combinations of auto_pad and rounding_type to try; given pads exclude other words than explicit."""
    op, dialect = asked.op, dialect_of(asked.op.like)
    pads_given = not asked.fixed.isdisjoint(("pads_begin", "pads_end"))
    auto_pads = ("explicit",) if pads_given else tuple(w for w in ("explicit", "same_upper") if w in dialect.auto_pads)
    roundings = (op.rounding_type,) if "rounding_type" in asked.fixed else dialect.rounding_types
    for auto_pad, rounding in product((op.auto_pad,) if "auto_pad" in asked.fixed else auto_pads, roundings):
        yield {"auto_pad": auto_pad, "rounding_type": rounding}


def _candidates(asked: Question) -> Iterator[SlidingAttributes]:
    """Operators that may be answers: the same numbers on every axis, and combinations of the simplest of each axis."""
    are_alike = len({*zip(asked.sizes, asked.wanted, strict=True)}) == 1
    for words in _words(asked):
        grids = [_grid(asked, i, wanted, words) for i, wanted in enumerate(asked.wanted)]
        shared = grids[0].intersection(*grids[1:])
        yield from (_record(asked, words, (numbers,)) for numbers in shared)
        if len(grids) > 1 and not (shared and are_alike):
            accepted = (_accepted(asked, i, words, wanted) for i, wanted in enumerate(asked.wanted))
            simplest = [list(islice(each, OPTIONS_PER_AXIS)) for each in accepted]
            yield from (_record(asked, words, axes) for axes in product(*simplest))


def _accepted(asked: Question, i: int, words: dict[str, str], wanted: int) -> Iterator[Numbers]:
    """The numbers that give a length on axis `i`, simplest first, of those that the dialect accepts on a shape whose
    spatial axes are all as this one.
    """
    sizes = (asked.sizes[i],) * len(asked.sizes)
    records = [(_record(asked, words, (numbers,)), numbers) for numbers in _grid(asked, i, wanted, words)]
    for op, numbers in sorted(records, key=lambda each: complexity(each[0], sizes)):
        alone = plan_or_none(op, (1, 1, *sizes), asked.op.reducer.example_dtype)
        if alone and not alone.empty_windows:
            yield numbers


def _grid(asked: Question, i: int, wanted: int, words: dict[str, str]) -> set[Numbers]:
    """Every combination of kernel, stride and pads that gives `wanted` outputs; given numbers are fixed."""
    per_axis_names = asked.fixed & {*NUMBERS, "dilations"}
    given = {name: per_axis(name, getattr(asked.op, name), asked.axes)[i] for name in per_axis_names}
    size, dilation, auto_pad = asked.sizes[i], given.get("dilations", 1), words["auto_pad"]
    rounding = dialect_of(asked.op.like).rounding_rule(words["rounding_type"])
    found = set()
    for kernel in [given["kernel"]] if "kernel" in given else _kernels(size, wanted, given):
        window = extent(kernel, dilation)
        for begin, end in _pads(window, given) if auto_pad == "explicit" else [(0, 0)]:
            span = size + begin + end - window
            strides = {each for each in _strides(size, span, wanted, kernel) if each > 0}
            for stride in [given["strides"]] if "strides" in given else strides:
                pads = (begin, end)
                if auto_pad.startswith("same"):
                    pads = same_pads(size, kernel, stride, dilation, upper=auto_pad == "same_upper")
                fits = "kernel" in given or size + sum(pads) >= window
                if fits and sliding_output(size, window, stride, *pads, rounding) == wanted:
                    found.add((kernel, stride, begin, end))
    return found


def _kernels(size: int, wanted: int, given: Mapping[str, int]) -> list[int]:
    """Common kernels, those near size / wanted, and those with which the wanted windows cover the input."""
    share, dilation = size // wanted, given.get("dilations", 1)
    padded = size + given.get("pads_begin", 0) + given.get("pads_end", 0)
    found = {*COMMON, *range(share - 1, share + 3), size}
    for stride in [given["strides"]] if "strides" in given else [share, share + 1, *COMMON]:
        reach = (wanted - 1) * stride
        for window in (size - reach, padded - reach, *(reach - size + more for more in (1, 2, 3))):
            found |= {(window - 1) // dilation + 1, ceil_div(window - 1, dilation) + 1}
    longest = max(COMMON_KERNELS, size) if wanted <= size else COMMON_KERNELS  # only pads can enlarge an input
    return [kernel for kernel in found if 0 < kernel <= longest]


def _pads(window: int, given: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """Pads shorter than the window, equal or one more at the end; of a long one the smallest, middle and longest."""
    free = {*range(2 * COMMON_KERNELS), (window - 1) // 2, window // 2, window - 1}
    for begin in [given["pads_begin"]] if "pads_begin" in given else free:
        ends = free if "pads_begin" in given else {begin, begin + 1}
        for end in [given["pads_end"]] if "pads_end" in given else ends:
            if ("pads_begin" in given or begin < window) and ("pads_end" in given or end < window):
                yield begin, end


def _strides(size: int, span: int, wanted: int, kernel: int) -> set[int]:
    """Common strides, and those near the ends of what gives `wanted` outputs if the last window starts by `span`."""
    if wanted == 1:
        return {kernel, max(kernel, span + 1), max(kernel, size)}
    found = {*COMMON, kernel}
    for length, count in product((span, size), (wanted - 2, wanted - 1, wanted)):
        nearest = length // max(count, 1)
        found |= {*range(nearest - 2, nearest + 4)}
    return found


def _record(asked: Question, words: dict[str, str], axes: Sequence[Numbers]) -> SlidingAttributes:
    """The operator with these numbers; one number each if all axes have the same."""
    axes = axes[:1] if len(set(axes)) == 1 else axes
    changed: dict[str, Any] = dict(zip(NUMBERS, zip(*axes, strict=True), strict=True)) | words
    return replace(asked.op, **changed)


def _verified(asked: Question, op: SlidingAttributes) -> Plan | None:
    """The plan, if it gives the wanted lengths without empty windows, and would not with floor."""
    dtype = asked.op.reducer.example_dtype
    plan = plan_or_none(op, asked.shape, dtype, layout=asked.layout)
    if plan is None or plan.empty_windows or tuple(w.output for w in plan.windows) != asked.wanted:
        return None
    if op.rounding_type != "floor" and "rounding_type" not in asked.fixed:
        down = plan_or_none(replace(op, rounding_type="floor"), asked.shape, dtype, layout=asked.layout)
        return None if down and down.output_shape == plan.output_shape else plan
    return plan


def complexity(op: SlidingAttributes, sizes: Sequence[int]) -> tuple[object, ...]:
    """A sort key, simplest first, as an engineer would choose: common attributes, then small numbers."""
    names = ("kernel", "strides", "pads_begin", "pads_end", "dilations")
    axes = list(zip(sizes, *(per_axis(name, getattr(op, name), "?" * len(sizes)) for name in names), strict=True))
    words = {"floor": 0, "ceil": 2, "ceil_torch": 5}[op.rounding_type] + 3 * (op.auto_pad != "explicit")
    unlike = (3 if len(set(sizes)) == 1 else 1) * (len({axis[1:] for axis in axes}) - 1)
    total = words + unlike + sum(axis_complexity(*axis) for axis in axes) / len(sizes)
    return total, sum(k + s + b for _, k, s, b, _, _ in axes), axes, op.rounding_type


def axis_complexity(size: int, kernel: int, stride: int, begin: int, end: int, dilation: int) -> float:
    """How unusual an axis is: gaps between windows, unused elements, rare kernels, pads other than those of "same"."""
    window = extent(kernel, dilation)
    is_whole = kernel == size and begin == end == 0
    rarity = {1: 1, 2: 0, 3: 0, 4: 1, 5: 1, 7: 1}.get(kernel, 1 if is_whole else 2 if kernel <= COMMON_KERNELS else 4)
    pads = 0 if begin == end == 0 else 1 if begin == end == (window - 1) // 2 else 3
    unused = max(0, size + begin + end - window) % stride / size
    return (
        10 * (window < stride) + 4 * unused + rarity + (kernel != stride) + 2 * (kernel > 2 * stride)
        + pads + 3 * (begin != end) + 4 * (window > size)
    )  # fmt: skip
