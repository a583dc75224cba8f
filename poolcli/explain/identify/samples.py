"""Hypotheses about the windows of each axis, and sampled outputs to check them against."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

from poolcli.dialects import DIALECTS
from poolcli.explain.lengths import USUAL, unusual
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import SlidingAttributes, is_known
from poolcli.system.lazy_imports import Lazy
from poolcli.windows import Sliding, ceil_div, extent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

DILATIONS = 3  # up to which dilations are tried


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Kernel, stride, dilation and padding at the beginning of one axis; what ends it follows from the lengths."""

    size: int
    output: int
    kernel: int
    stride: int
    dilation: int
    pad_begin: int

    @property
    def overhang(self) -> int:
        """How far the last window reaches past the input; below 0 where it ends before."""
        return (self.output - 1) * self.stride + extent(self.kernel, self.dilation) - self.size - self.pad_begin

    @property
    def windows(self) -> Sliding:
        """The windows, padded as far as the last one reaches."""
        end = max(0, self.overhang)
        return Sliding(self.size, self.output, self.kernel, self.stride, self.dilation, self.pad_begin, end)

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """What a person writes of it."""
        return self.kernel, self.stride, self.dilation, self.pad_begin

    @property
    def cost(self) -> float:
        """How seldom such windows are used."""
        end = self.pad_begin if self.overhang <= self.pad_begin else max(0, self.overhang)
        return (
            unusual(self.size, self.kernel, self.stride, self.pad_begin, end, self.dilation) + 2 * (self.dilation - 1)
        )  # fmt: skip


def hypotheses(size: int, output: int, given: Mapping[str, int]) -> list[Hypothesis]:
    """Kernels up to 11, those about as long as a window's share, and the whole input; dilations up to 3; pads shorter
    than the kernel or half of its extent; every stride that gives that many outputs. The plainest are first.
    """
    return sorted(_guesses(size, output, given), key=_cost)


@cache
def _cost(guess: Hypothesis) -> tuple[float, int, int]:
    return guess.cost, guess.kernel, guess.stride


def _guesses(size: int, output: int, given: Mapping[str, int]) -> Iterator[Hypothesis]:
    share = max(1, size // output)
    kernels = {
        *range(1, min(USUAL, 2 * size) + 1),
        *range(max(1, share - 1), share + 3),
        2 * share,
        2 * share - 1,
        size,
    }
    for kernel in [given["kernel"]] if "kernel" in given else sorted(kernels):
        dilations = range(1, DILATIONS + 1) if kernel > 1 and kernel <= USUAL else [1]
        for dilation in [given["dilations"]] if "dilations" in given else dilations:
            window = extent(kernel, dilation)
            pads = range(max(kernel, window // 2 + 1)) if kernel <= 2 * USUAL else (0, kernel // 2)
            for begin in [given["pads_begin"]] if "pads_begin" in given else pads:
                for stride in _strides(size, output, kernel, window, begin, given):
                    guess = Hypothesis(size, output, kernel, stride, dilation, begin)
                    if -stride < guess.overhang < window and window <= size + begin + max(0, guess.overhang):
                        yield guess


def _strides(
    size: int, output: int, kernel: int, window: int, begin: int, given: Mapping[str, int]
) -> range | list[int]:
    if "strides" in given:
        return [given["strides"]]
    if output == 1:
        return [max(kernel, size + begin - window + 1)]
    low = max(1, ceil_div(size + begin - window + 1, output))
    return range(low, (size + begin - 1) // (output - 1) + 1)


np: Any = Lazy("numpy")

MANY_PLACES = 16
COMMON = 8  # a number that more than one in so many outputs have
FURTHER = 24
RARE = 6  # outputs with the rarest number
SPANS = 2**16  # that are kept: of a guess at an output
Held = dict[tuple[int, ...], Any]
LARGEST_DIVISOR = 10_000


@dataclass(frozen=True, slots=True)
class Rule:
    """A way from a window's elements to its number: what is taken of each, how they join, what becomes of the whole.

    `finish(total, inside, whole)` has the number of elements inside the input and the size of the kernel. Where that
    size matters, `whole(total, inside, y)` is what it has to be. `at_end` says whether the rule holds for windows that
    reach past the end, where frameworks differ in what they count; `open` that totals are divided by a number that
    windows have to show.
    """

    op: str
    given: dict[str, Any]
    take: Callable[[Array], Array]
    join: str
    finish: Callable[[Any, Any, Any], Any]
    whole: Callable[[Any, Any, Any], Any] | None = None
    at_end: bool = True
    open: bool = False

    @property
    def adds(self) -> bool:
        """Whether elements are added up, so that roundings differ from framework to framework."""
        return self.join == "add"


READ = frozenset({"name", "noun", "result", "better", "nothing", "divides", "power", "votes", "adds"})

JOINS: dict[Any, str] = {operator.gt: "maximum", operator.lt: "minimum"}  # numpy's functions of what wins


def _unchanged(x: Array) -> Array:
    return x


def _total(total: Any, inside: Any, whole: Any) -> Any:
    return total


def _root_of_mean(p: int) -> Callable[[Any, Any, Any], Any]:
    return lambda total, inside, whole: np.sign(total) * np.abs(total / inside * whole) ** (1 / p)


def _whole_of_mean(p: int) -> Callable[[Any, Any, Any], Any]:
    return lambda total, inside, y: np.abs(y) ** p * inside / np.abs(total)


def _by_whole(total: Any, inside: Any, whole: Any) -> Any:
    return total / whole


def _root(p: int) -> Callable[[Any, Any, Any], Any]:
    return lambda total, inside, whole: np.sign(total) * np.abs(total) ** (1 / p)


def _raised(p: int) -> Callable[[Array], Array]:
    return lambda x: x**p


def _power(p: int) -> Callable[[Array], Array]:
    return lambda x: np.abs(x) ** p


def rules() -> list[Rule]:
    """The rules of every operator with sliding windows, those that pick an element first.

    Operators that vote have none: `candidates` counts their votes.
    """
    records = [record for record in OPERATORS.values() if issubclass(record, SlidingAttributes)]
    return [rule for record in sorted(records, key=lambda r: not r.reducer.picks) for rule in _rules_of(record)]


def _rules_of(record: type[SlidingAttributes]) -> Iterator[Rule]:
    """What follows from the fields of an operator's reducer; nothing where there are others than those read here."""
    name, reducer = record.name, record.reducer
    if reducer.votes or not is_known(reducer, READ):
        return
    if reducer.picks:
        if reducer.better in JOINS:
            yield Rule(name, {}, _unchanged, JOINS[reducer.better], _total)
    elif reducer.power is not None:
        for p in (2, 1, 3, 4):
            yield Rule(name, {"p": p}, _power(p), "add", _root(p))
        for like in (each.name for each in DIALECTS.values() if name in each.operators):
            if record(1).reduction(DIALECTS[like]).signed:
                for p in (2, 3, 1, 4):
                    own = {"p": p, "like": like}
                    yield Rule(name, own, _raised(p), "add", _root_of_mean(p), _whole_of_mean(p))
    elif reducer.divides:
        yield Rule(name, {"exclude_pad": True}, _unchanged, "add", lambda total, inside, whole: total / inside)
        included = {"exclude_pad": False}
        yield Rule(name, included, _unchanged, "add", _by_whole, lambda total, inside, y: total / y, at_end=False)
    else:
        yield Rule(name, {}, _unchanged, "add", _total)


@dataclass(frozen=True, slots=True)
class Plane:
    """One plane of input and output: spatial axes in the order of attributes, as float64 and as they are; and how far
    sums may be off.
    """

    x: Array
    y: Array
    stored: tuple[Array, Array]
    slack: float
    step: float  # of the output's type, relative
    others: tuple[Plane, ...] = ()  # some other planes of the same arrays

    def near(self, found: Array, wanted: float, rule: Rule) -> Array:
        """Which of the numbers may be the wanted one."""
        if np.isnan(wanted):
            near: Array = np.isnan(found)
            return near
        room = self.step * abs(wanted) + (self.slack if rule.adds else 0.0)
        close: Array = (found == wanted) | (np.abs(found - wanted) <= room)
        return close


def places(plane: Plane) -> list[tuple[int, ...]]:
    """The outputs that are looked at: the corners, where guesses read least unlike, the middle, and some between. Those
    whose number is common say little and are last; where there are such, some with rare numbers come first.
    """
    lengths = plane.y.shape
    marks = [list(dict.fromkeys((n // 2, 0, min(1, n - 1), n // 3, n - 1))) for n in lengths]
    corners = [tuple(at) for at in product(*[(0, n - 1) for n in lengths])]
    spread = [tuple(m[i % len(m)] for m in marks) for i in range(5)]
    usual = list(dict.fromkeys([*corners, *spread]))
    _, back, counts = np.unique(plane.y, return_inverse=True, return_counts=True)
    many = counts[back.reshape(lengths)]
    common = [at for at in usual if many[at] * COMMON > many.size]
    if not common:
        return usual
    rare = [tuple(int(i) for i in at) for at in np.argwhere(many == many.min())]
    picked = rare[:: -(-len(rare) // RARE)]
    return list(dict.fromkeys([*picked, *(at for at in usual if at not in common), *common]))


def totals(
    plane: Plane, rule: Rule, at: tuple[int, ...], spans: Sequence[Sequence[range]], held: Held | None = None
) -> Array:
    """For each combination of spans, one of each axis, what the rule joins of the elements in it.

    `held` keeps, for further places under the same rule, what is joined along the last axes.
    """
    held = {} if held is None else held
    taken = rule.take(plane.x)
    for i in reversed(range(1, len(spans))):
        if at[i:] not in held:
            held[at[i:]] = _joined(taken, spans[i], i, rule.join)
        taken = held[at[i:]]
    return _joined(taken, spans[0], 0, rule.join)


def _made(plane: Plane, rule: Rule, at: tuple[int, ...], axes: Sequence[Sequence[Hypothesis]], held: Held) -> Array:
    """For each combination of guesses, one of each axis, what the rule makes of the window of the output at `at`."""
    boxes = [[seen(guess, o).span for guess in axis] for axis, o in zip(axes, at, strict=True)]
    inside = _product([[len(span) for span in spans] for spans in boxes])
    whole = _product([[guess.kernel for guess in axis] for axis in axes])
    with np.errstate(all="ignore"):
        finished: Array = rule.finish(totals(plane, rule, at, boxes, held), inside, whole)
    return finished


def further_places(plane: Plane) -> list[tuple[Plane, tuple[int, ...]]]:
    """More outputs, evenly over this and other planes, for where those leave much open."""
    numbers = np.unique(np.linspace(0, plane.y.size - 1, FURTHER).astype(int))
    at = [tuple(int(i) for i in np.unravel_index(n, plane.y.shape)) for n in numbers]
    return [(each, place) for each in (plane, *plane.others) for place in at]


def spread_places(plane: Plane) -> list[tuple[int, ...]]:
    """Outputs all over the plane, where one that is wrong at a border or here and there is still recognised."""
    each = MANY_PLACES ** (1 / plane.y.ndim)
    lines = [sorted({int((i + 0.5) * n / each) for i in range(int(each))} & {*range(n)}) for n in plane.y.shape]
    return list(product(*lines))


def hits(plane: Plane, rule: Rule, axes: Sequence[Sequence[Hypothesis]]) -> Array:
    """For each combination of guesses how many of the outputs all over the plane it gives."""
    held: Held = {}
    near = [plane.near(_made(plane, rule, at, axes, held), float(plane.y[at]), rule) for at in spread_places(plane)]
    found: Array = np.sum(near, axis=0)
    return found


OVERRIDDEN = Rule("avg", {}, lambda x: x, "add", _total, open=True)  # the divisor is what all windows show alike


@dataclass(frozen=True, slots=True)
class Window:
    """What matters of a guess at one output."""

    span: range
    kernel: int
    is_past: bool  # whether it reaches past the end


@lru_cache(SPANS)
def seen(guess: Hypothesis, o: int) -> Window:
    """The window of output `o`; asked for again by every place of that row or column."""
    windows = guess.windows
    return Window(windows.span(o), guess.kernel, windows.start(o) + windows.extent > guess.size)


@dataclass(frozen=True, slots=True)
class Seen:
    """Of combinations of windows, one of each axis: what is joined, how many elements are inside the input and in the
    kernel, at most, and whether one overhangs.
    """

    total: Array
    inside: Array
    whole: Array
    is_past: Array


def agrees(plane: Plane, rule: Rule, at: tuple[int, ...], shown: Seen, loosely: bool) -> Array:
    """Which combinations give the output at `at`, or may where frameworks differ; loosely, with a smaller kernel."""
    wanted = float(plane.y[at])
    between: Any = loosely or (not rule.at_end and shown.is_past)
    with np.errstate(all="ignore"):
        ok = plane.near(rule.finish(shown.total, shown.inside, shown.whole), wanted, rule)
        if rule.whole and np.any(between):
            whole = rule.whole(shown.total, shown.inside, wanted)
            for rounded in (np.floor(whole), np.ceil(whole)):
                able = np.clip(np.nan_to_num(rounded, nan=1.0), shown.inside, shown.whole)
                ok = ok | (between & plane.near(rule.finish(shown.total, shown.inside, able), wanted, rule))
    return ok


def divisors(plane: Plane, rule: Rule, at: tuple[int, ...], shown: Seen, known: Array) -> Array:
    """What totals are divided by, going by the output at `at`: 0 where nothing shows it yet, NaN where it cannot be."""
    wanted = float(plane.y[at])
    with np.errstate(all="ignore"):
        by = np.where(known == 0, np.nan_to_num(np.rint(shown.total / wanted)), known)
        is_number = (by != 0) & (np.abs(by) <= LARGEST_DIVISOR)
        ok = np.where(is_number, plane.near(shown.total / by, wanted, rule), (shown.total == 0) & (wanted == 0))
    found: Array = np.where(ok, by, np.nan)
    return found


def divided(n: int) -> Rule:
    """Averages under a divisor_override."""
    return Rule("avg", {"divisor_override": n}, lambda x: x, "add", lambda total, inside, whole: total / n)


def _product(factors: Sequence[Sequence[float]]) -> Array:
    """The outer product of one list for each axis."""
    grid: Array = np.ones(())
    for i, each in enumerate(factors):
        shape = [1] * len(factors)
        shape[i] = len(each)
        grid = grid * np.array(each, float).reshape(shape)
    return grid


def _joined(x: Array, spans: Sequence[range], axis: int, join: str) -> Array:
    """Along one axis, what the elements of each span make together; each different span once."""
    each = list(dict.fromkeys(spans))
    joined = {}
    for span in each:
        part = x[(slice(None),) * axis + (slice(span.start, span.stop, span.step),)]
        empty = {"maximum": -np.inf, "minimum": np.inf, "add": 0.0}[join]
        joined[span] = getattr(np, join).reduce(part, axis=axis, initial=empty)
    order = {span: i for i, span in enumerate(each)}
    stacked = np.stack([joined[span] for span in each], axis=axis)
    taken: Array = np.take(stacked, [order[span] for span in spans], axis=axis)
    return taken
