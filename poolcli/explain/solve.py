"""Solves for attributes (`poolcli shape --solve`, `poolcli.solve`): kernels, strides, pads and words that give a wanted
output length.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice, product
from typing import Any, NamedTuple

from poolcli.arguments import numbers_from, one_of, per_axis
from poolcli.dialects import dialect_of
from poolcli.errors import RequestError
from poolcli.layouts import check_layout, check_shape, default_layout, spatial_axes
from poolcli.message_fields import field
from poolcli.plan import Plan, plan_or_none
from poolcli.plan.attributes import OPERATORS, SlidingAttributes, expand_pads
from poolcli.plan.resolve import check_lengths
from poolcli.suggestions import did_you_mean, join_words
from poolcli.windows import ceil_div, extent, same_pads, sliding_output

COMMON_KERNELS = 11  # kernels and strides up to this are always tried
SEARCH_TEXTS = (  # what is searched, unless one of these attributes is given
    (("kernel",), f"kernels up to {COMMON_KERNELS} and those that cover the input with the wanted windows"),
    (("strides",), "every stride that fits"),
    (("pads_begin", "pads_end", "auto_pad"), "pads shorter than the window (equal, or one more at the end)"),
    (("pads_begin", "pads_end", "auto_pad"), "same_upper"),
    (("rounding_type",), "each rounding"),
)
MAX_ANSWERS = 12
OPTIONS_PER_AXIS = 12  # the simplest ones, which are combined with those of the other axes
NEAREST_RANGE = 100  # how far above and below the wanted length possible ones are searched


class AxisOption(NamedTuple):
    """One axis' numbers, named as attributes are."""

    kernel: int
    strides: int
    pads_begin: int
    pads_end: int


AXIS_ATTRIBUTES = {*AxisOption._fields, "dilations"}


@dataclass(frozen=True, slots=True)
class Answer:
    """One set of attributes that gives the wanted length on every axis, and its plan."""

    op: SlidingAttributes
    plan: Plan


@dataclass(frozen=True, slots=True)
class NearestLengths:
    """An axis whose wanted length is not possible, and the nearest possible ones below and above."""

    axis: str
    wanted: int
    lengths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """The operator with the given attributes, their names, the input, and the wanted spatial lengths."""

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
    def sizes(self) -> tuple[int, ...]:
        """The spatial lengths of the input."""
        return tuple(self.shape[i] for i in spatial_axes(self.layout))


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
    return find_answers(parse_question(op, expand_pads(given), shape, wanted, layout))


def parse_question(
    op: str, given: dict[str, Any], shape: Sequence[int], wanted: int | Sequence[int], layout: str | None = None
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
    layout = check_layout(layout, len(shape)) if layout else default_layout(len(shape))
    made = record(**({"kernel": 1} | given))
    axes = "".join(layout[i] for i in spatial_axes(layout))
    check_lengths(axes, [shape[i] for i in spatial_axes(layout)])
    targets = per_axis("solve", numbers_from(1)("solve", wanted), axes)
    return Question(made, frozenset(given), tuple(shape), layout, targets)


def find_answers(asked: Question) -> list[Answer]:
    """Up to a dozen answers, simplest first."""
    found: dict[SlidingAttributes, Answer] = {}
    for op in sorted(_candidates(asked), key=lambda op: complexity(op, asked.sizes)):
        answer = _verified(asked, op) if op not in found else None
        if answer:
            found[op] = answer
        if len(found) == MAX_ANSWERS:
            break
    return list(found.values())


def nearest_lengths(asked: Question) -> list[NearestLengths]:
    """The nearest possible lengths of each axis whose wanted length is not possible, whatever the other axes are."""
    found = []
    for i, (axis, wanted) in enumerate(zip(asked.axes, asked.wanted, strict=True)):
        if not _reachable(asked, i, wanted):
            ranges = (range(wanted - 1, max(0, wanted - NEAREST_RANGE), -1), range(wanted + 1, wanted + NEAREST_RANGE))
            nearest = (next((t for t in lengths if _reachable(asked, i, t)), None) for lengths in ranges)
            found.append(NearestLengths(axis, wanted, tuple(t for t in nearest if t is not None)))
    return found


def _words(asked: Question) -> Iterator[dict[str, str]]:
    """The combinations of auto_pad and rounding_type to try; given pads exclude other words than explicit."""
    op, dialect = asked.op, dialect_of(asked.op.like)
    pads_given = not asked.fixed.isdisjoint(("pads_begin", "pads_end"))
    auto_pads = ("explicit",) if pads_given else tuple(w for w in ("explicit", "same_upper") if w in dialect.auto_pads)
    roundings = (op.rounding_type,) if "rounding_type" in asked.fixed else dialect.rounding_types
    for auto_pad in (op.auto_pad,) if "auto_pad" in asked.fixed else auto_pads:
        for rounding in roundings:
            yield {"auto_pad": auto_pad, "rounding_type": rounding}


def _candidates(asked: Question) -> Iterator[SlidingAttributes]:
    """Operators that may be answers: the same numbers on every axis, and combinations of the simplest of each axis."""
    for words in _words(asked):
        per_axis_options = [_options(asked, i, wanted, words) for i, wanted in enumerate(asked.wanted)]
        shared = set(per_axis_options[0]).intersection(*per_axis_options[1:])
        yield from (_record(asked, words, (option,)) for option in shared)
        if shared and len({*zip(asked.sizes, asked.wanted, strict=True)}) == 1:
            continue  # all axes are alike
        accepted = (_accepted(asked, i, words, options) for i, options in enumerate(per_axis_options))
        simplest = [list(islice(each, OPTIONS_PER_AXIS)) for each in accepted]
        for axes in product(*simplest) if len(simplest) > 1 else ():
            yield _record(asked, words, axes)


def _options(asked: Question, i: int, wanted: int, words: dict[str, str]) -> list[AxisOption]:
    """The numbers that give the wanted length on axis `i`, simplest first."""
    size, rank = asked.sizes[i], len(asked.sizes)
    return sorted(
        _grid(asked, i, wanted, words),
        key=lambda option: complexity(_record(asked, words, (option,)), (size,) * rank),
    )


def _grid(asked: Question, i: int, wanted: int, words: dict[str, str]) -> set[AxisOption]:
    """Every combination of kernel, stride and pads that gives `wanted` outputs; given numbers are fixed."""
    given = {name: per_axis(name, getattr(asked.op, name), asked.axes)[i] for name in asked.fixed & AXIS_ATTRIBUTES}
    size, dilation, auto_pad = asked.sizes[i], given.get("dilations", 1), words["auto_pad"]
    rounding = dialect_of(asked.op.like).rounding_rule(words["rounding_type"])
    found = set()
    for kernel in _kernels(size, wanted, given):
        window = extent(kernel, dilation)
        for begin, end in _pads(window, given) if auto_pad == "explicit" else [(0, 0)]:
            span = size + begin + end - window
            for stride in _strides(size, span, wanted, kernel, given):
                pads = (begin, end)
                if auto_pad.startswith("same"):
                    pads = same_pads(size, kernel, stride, dilation, upper=auto_pad == "same_upper")
                fits = size + sum(pads) >= window
                if fits and sliding_output(size, window, stride, *pads, rounding) == wanted:
                    found.add(AxisOption(kernel, stride, begin, end))
    return found


def _kernels(size: int, wanted: int, given: Mapping[str, int]) -> list[int]:
    """Common kernels, those near size / wanted, and those with which the wanted windows cover the input."""
    if "kernel" in given:
        return [given["kernel"]]
    share, dilation = size // wanted, given.get("dilations", 1)
    padded = size + given.get("pads_begin", 0) + given.get("pads_end", 0)
    found = {*range(1, COMMON_KERNELS + 1), *range(share - 1, share + 3), size}
    for stride in [given["strides"]] if "strides" in given else [share, share + 1, *range(1, COMMON_KERNELS + 1)]:
        reach = (wanted - 1) * stride
        for window in (size - reach, padded - reach, *(reach - size + more for more in (1, 2, 3))):
            found |= {(window - 1) // dilation + 1, ceil_div(window - 1, dilation) + 1}
    longest = max(COMMON_KERNELS, size) if wanted <= size else COMMON_KERNELS  # only pads can enlarge an input
    return [kernel for kernel in found if 0 < kernel <= longest]


def _pads(window: int, given: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """Pads shorter than the window, equal or one more at the end; of a long one the smallest, middle and longest."""
    middle = {(window - 1) // 2, window // 2, window - 1}
    free = sorted(pad for pad in {*range(2 * COMMON_KERNELS), *middle} if pad < window)
    for begin in [given["pads_begin"]] if "pads_begin" in given else free:
        if "pads_end" in given:
            yield begin, given["pads_end"]
        else:
            ends = free if "pads_begin" in given else [end for end in (begin, begin + 1) if end < window]
            yield from ((begin, end) for end in ends)


def _strides(size: int, span: int, wanted: int, kernel: int, given: Mapping[str, int]) -> set[int]:
    """Common strides, and those near the ends of what gives `wanted` outputs if the last window starts by `span`."""
    if "strides" in given:
        return {given["strides"]}
    if wanted == 1:
        return {kernel, max(kernel, span + 1), max(kernel, size)}
    found = {*range(1, COMMON_KERNELS + 1), kernel}
    for length in (span, size):
        for count in (wanted - 2, wanted - 1, wanted):
            nearest = length // count if count > 0 else length
            found |= {*range(nearest - 2, nearest + 4)}
    return {stride for stride in found if stride > 0}


def _record(asked: Question, words: dict[str, str], axes: Sequence[AxisOption]) -> SlidingAttributes:
    """The operator with these numbers; one number each if all axes have the same."""
    axes = axes[:1] if len(set(axes)) == 1 else axes
    changed: dict[str, Any] = dict(zip(AxisOption._fields, zip(*axes, strict=True), strict=True)) | words
    return replace(asked.op, **changed)


def _accepted(asked: Question, i: int, words: dict[str, str], options: Sequence[AxisOption]) -> Iterator[AxisOption]:
    """The options that the dialect accepts on a shape whose spatial axes are all as this one."""
    shape, dtype = (1, 1, *(asked.sizes[i],) * len(asked.sizes)), asked.op.reducer.example_dtype
    for option in options:
        alone = plan_or_none(_record(asked, words, (option,)), shape, dtype)
        if alone and not alone.empty_windows:
            yield option


def _reachable(asked: Question, i: int, wanted: int) -> bool:
    return any(
        next(_accepted(asked, i, words, _options(asked, i, wanted, words)), None) is not None for words in _words(asked)
    )


def _verified(asked: Question, op: SlidingAttributes) -> Answer | None:
    """The answer, if its plan gives the wanted lengths without empty windows, and would not with floor."""
    dtype = asked.op.reducer.example_dtype
    plan = plan_or_none(op, asked.shape, dtype, layout=asked.layout)
    if plan is None or plan.empty_windows or tuple(w.output for w in plan.windows) != asked.wanted:
        return None
    if op.rounding_type != "floor" and "rounding_type" not in asked.fixed:
        down = plan_or_none(replace(op, rounding_type="floor"), asked.shape, dtype, layout=asked.layout)
        if down is None or down.output_shape == plan.output_shape:
            return None
    return Answer(op, plan)


def complexity(op: SlidingAttributes, sizes: Sequence[int]) -> tuple[object, ...]:
    """A sort key, simplest first, as an engineer would choose: common attributes, then small numbers."""
    names = ("kernel", "strides", "pads_begin", "pads_end", "dilations")
    axes = list(zip(sizes, *(per_axis(name, getattr(op, name), "?" * len(sizes)) for name in names), strict=True))
    words = {"floor": 0, "ceil": 2, "ceil_torch": 5}[op.rounding_type] + 3 * (op.auto_pad != "explicit")
    unlike = (3 if len(set(sizes)) == 1 else 1) * (len({axis[1:] for axis in axes}) - 1)
    total = words + unlike + sum(axis_complexity(*axis) for axis in axes) / len(sizes)
    return total, sum(k + s + b for _, k, s, b, _, _ in axes), axes, op.rounding_type


def search_sentence(given: Collection[str]) -> str:
    """Say in a sentence what is searched, apart from the given attributes."""
    free = [what for names, what in SEARCH_TEXTS if not any(name in given for name in names)]
    return f"searched: {', '.join(free) or 'nothing, as everything is given'}; no windows that lie in the padding alone"


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
