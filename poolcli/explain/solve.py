"""Solves for attributes that give a wanted output length (`poolcli shape --solve`, `poolcli.solve`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice, product
from typing import Any, NamedTuple

from poolcli.arguments import numbers_from, one_of, per_axis
from poolcli.dialects import dialect_of
from poolcli.errors import RequestError
from poolcli.layouts import check_shape, read_axes, spatial_axes
from poolcli.message_fields import field
from poolcli.plan import Plan, make_plan, plan_or_none
from poolcli.plan.attributes import OPERATORS, SlidingAttributes, expand_pads, values_of
from poolcli.plan.resolve import PER_AXIS, check_lengths
from poolcli.suggestions import did_you_mean, join_words
from poolcli.windows import ceil_div, extent, same_pads, sliding_output

COMMON_KERNELS = 11  # kernels and strides up to this are always tried
MAX_DILATION = 3  # largest dilation that is tried
MAX_WHOLE_OUTPUTS = 4  # outputs of windows as long as the input
END_STRIDES = 12  # of many strides, the shortest and longest that `solve` tries
SINGLE_ELEMENTS = 6
NUMBERS = ("kernel", "strides", "pads_begin", "pads_end")  # of an axis, by the names of attributes
SEARCHED = (
    f"searched, beside what is given: kernels up to {COMMON_KERNELS} and those that cover the input, the strides that "
    "fit, pads shorter than the kernel, equal or one more at the end, same_upper, each rounding; no window of pads only"
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

    The search covers kernels up to 11 and those that cover the input with the wanted number of windows, the strides
    that fit them, pads shorter than the kernel (of one above 22: 0, 1 or half of it; equal, or one more at the end),
    `same_upper`, and every rounding of the dialect. Every answer is verified by its plan, and has no windows that lie
    in the padding alone.

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


def obstacle(op: str, shape: Sequence[int], wanted: int | Sequence[int], given: Mapping[str, Any]) -> str:
    """Why there is no answer: what a framework refuses and OpenVINO gives, or the nearest lengths; "" without one."""
    for answer in solve(op, shape, wanted, **{**given, "like": "openvino"})[:1]:
        try:
            make_plan(replace(answer.op, like=given["like"]), shape)
        except RequestError as error:
            there = f"{field('like', 'openvino')} gives it, and {field('to', given['like'])} then writes the call"
            return f"{error.message.partition('; ')[0]}; {there}"
    lengths = [wanted] if isinstance(wanted, int) else wanted
    for size in ([length + off for length in lengths] for off in (1, -1, 2, -2)):
        if min(size) > 0 and solve(op, shape, size if len(size) > 1 else size[0], **given):
            return f"the nearest is {field('solve', size)}"
    return ""


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
    """The numbers that give a length on axis `i`, simplest first, that the dialect accepts on such axes."""
    sizes = (asked.sizes[i],) * len(asked.sizes)
    records = [(_record(asked, words, (numbers,)), numbers) for numbers in _grid(asked, i, wanted, words)]
    for op, numbers in sorted(records, key=lambda each: complexity(each[0], sizes)):
        alone = plan_or_none(op, (1, 1, *sizes), asked.op.reducer.example_dtype)
        if alone and not alone.empty_windows:
            yield numbers


def _grid(asked: Question, i: int, wanted: int, words: dict[str, str]) -> set[Numbers]:
    """Every combination of kernel, stride and pads that gives `wanted` outputs; given numbers are fixed."""
    names = asked.fixed & {*NUMBERS, "dilations"}
    given = {"dilations": 1} | {name: per_axis(name, getattr(asked.op, name), asked.axes)[i] for name in names}
    size, auto_pad = asked.sizes[i], words["auto_pad"]
    rounding = dialect_of(asked.op.like).rounding_rule(words["rounding_type"])
    found = set()
    for _, kernel, stride, dilation, begin, least in windows_of(size, wanted, given, END_STRIDES):
        window = extent(kernel, dilation)
        ends = {begin, begin + 1, least} if "pads_begin" in given else {begin, begin + 1}
        if auto_pad != "explicit":
            begin, ends = 0, {0}
        for end in {given["pads_end"]} if "pads_end" in given else ends:
            pads = (begin, end)
            if auto_pad.startswith("same"):
                pads = same_pads(size, kernel, stride, dilation, upper=auto_pad == "same_upper")
            fits = "kernel" in given or (size + sum(pads) >= window and (end < window or "pads_end" in given))
            if fits and sliding_output(size, window, stride, *pads, rounding) == wanted:
                found.add((kernel, stride, begin, end))
    return found


class Window(NamedTuple):
    """The numbers of one axis and how unusual they are; `end` is the padding at the end that the last window needs."""

    cost: float
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int


def windows_of(size: int, output: int, given: Mapping[str, int], end_strides: int | None = None) -> list[Window]:
    """List the windows that give the right output length, the most common first; `given` are numbers that are known."""
    found = []
    for kernel, dilation, begin in _geometries(size, output, given):
        window = extent(kernel, dilation)
        strides: Sequence[int] = [max(window, size + begin - window + 1)]
        if output > 1:
            least = max(1, ceil_div(size + begin - window + 1, output))
            strides = range(least, (size + begin - 1) // (output - 1) + 1)
            if end_strides and len(strides) > 2 * end_strides:
                usual = (stride for stride in (*range(1, COMMON_KERNELS + 1), kernel) if stride in strides)
                strides = [*{*strides[:end_strides], *strides[-end_strides:], *usual}]
        for stride in [given["strides"]] if "strides" in given else strides:
            reach = (output - 1) * stride + window - begin - size  # of the last window past the input
            end = max(0, reach)
            if -stride < reach < window <= size + begin + end:
                cost = axis_complexity(size, kernel, stride, begin, max(begin, reach), dilation) + 2 * (dilation - 1)
                cost -= SINGLE_ELEMENTS * (kernel == 1 < stride)  # less unusual than gaps between longer windows
                found.append(Window(cost, kernel, stride, dilation, begin, end))
    return sorted(found)


def _geometries(size: int, output: int, given: Mapping[str, int]) -> Iterator[tuple[int, int, int]]:
    share = max(1, size // output)
    kernels = {*range(1, COMMON_KERNELS + 1), 2 * share, 2 * share - 1}
    kernels |= {*range(max(1, share - 1), share + 3)} | ({size} if output <= MAX_WHOLE_OUTPUTS else set())
    reach = size + given.get("pads_begin", 0) + given.get("pads_end", 0)
    kernels |= {max(1, reach - (output - 1) * given.get("strides", 1))}
    for kernel in [given["kernel"]] if "kernel" in given else kernels:
        dilations = range(1, MAX_DILATION + 1) if 1 < kernel <= COMMON_KERNELS else (1,)
        for dilation in [given["dilations"]] if "dilations" in given else dilations:
            longest = max(kernel, extent(kernel, dilation) // 2 + 1)
            pads: Iterable[int] = range(longest) if kernel <= 2 * COMMON_KERNELS else (0, 1, kernel // 2)
            for pad in (given["pads_begin"],) if "pads_begin" in given else pads:
                yield kernel, dilation, pad


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
    axes = list(zip(sizes, *(per_axis(name, getattr(op, name), "?" * len(sizes)) for name in PER_AXIS), strict=True))
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
