"""A few windows of an output, held against what every guess would make of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

from poolcli.core.lazy import Lazy
from poolcli.explain.guesses import Guess

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

np: Any = Lazy("numpy")

MANY_PLACES = 16
SPANS = 2**16  # that are kept: of a guess at an output
Held = dict[tuple[int, ...], Any]
LARGEST_DIVISOR = 10_000
MOST_DIVISORS = 20  # that some windows allow


@dataclass(frozen=True, slots=True)
class Rule:
    """A way from a window's elements to its number: what is taken of each, how they join, what becomes of the whole.

    `finish(total, inside, whole)` has the number of elements inside the input and the size of the kernel. `at_end` says
    whether it holds for windows that reach past the end, where frameworks differ in what they count.
    """

    op: str
    given: dict[str, Any]
    take: Callable[[Array], Array]
    join: str
    finish: Callable[[Any, Any, Any], Any]
    at_end: bool = True

    @property
    def adds(self) -> bool:
        """Whether elements are added up, so that roundings differ from framework to framework."""
        return self.join == "add"


def _total(total: Any, inside: Any, whole: Any) -> Any:
    return total


def _inside(total: Any, inside: Any, whole: Any) -> Any:
    return inside + 0 * total


def _whole(total: Any, inside: Any, whole: Any) -> Any:
    return whole + 0 * total


def _root_of_mean(p: int) -> Callable[[Any, Any, Any], Any]:
    return lambda total, inside, whole: np.sign(total) * np.abs(total / inside * whole) ** (1 / p)


def _root(p: int) -> Callable[[Any, Any, Any], Any]:
    return lambda total, inside, whole: np.sign(total) * np.abs(total) ** (1 / p)


def _power(p: int) -> Callable[[Array], Array]:
    return lambda x: np.abs(x) ** p


def rules() -> list[Rule]:
    """Every rule: which operator, and with which attributes beyond those of its windows."""
    found = [
        Rule("max", {}, lambda x: x, "maximum", _total),
        Rule("min", {}, lambda x: x, "minimum", _total),
        Rule("avg", {"exclude_pad": True}, lambda x: x, "add", lambda total, inside, whole: total / inside),
        Rule(
            "avg", {"exclude_pad": False}, lambda x: x, "add", lambda total, inside, whole: total / whole, at_end=False
        ),
    ]
    for p in (2, 1, 3, 4):
        found.append(Rule("lp", {"p": p}, _power(p), "add", _root(p)))
    found.append(Rule("lp", {"p": 3, "like": "pytorch"}, lambda x: x**3, "add", _root_of_mean(3)))
    found.append(Rule("lp", {"p": 1, "like": "pytorch"}, lambda x: x, "add", _root_of_mean(1)))
    return found


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

    def near(self, found: Array, wanted: float, rule: Rule) -> Array:
        """Which of the numbers may be the wanted one."""
        if np.isnan(wanted):
            near: Array = np.isnan(found)
            return near
        room = self.step * abs(wanted) + (self.slack if rule.adds else 0.0)
        close: Array = (found == wanted) | (np.abs(found - wanted) <= room)
        return close


def places(plane: Plane) -> list[tuple[int, ...]]:
    """The outputs that are looked at: the middle, the corners, and some between; those that say nothing left out."""
    lengths = plane.y.shape
    marks = [list(dict.fromkeys((n // 2, 0, min(1, n - 1), n // 3, n - 1))) for n in lengths]
    middle = tuple(n // 2 for n in lengths)
    corners = [tuple(at) for at in product(*[(0, n - 1) for n in lengths])]
    spread = [tuple(m[i % len(m)] for m in marks) for i in range(5)]
    return list(dict.fromkeys([middle, *corners, *spread]))


@lru_cache(SPANS)
def _span(guess: Guess, o: int) -> range:
    """What the window of output `o` reads; asked for again by every place of that row or column."""
    return guess.windows.span(o)


def made(
    plane: Plane, rule: Rule, at: tuple[int, ...], axes: Sequence[Sequence[Guess]], held: Held | None = None
) -> Array:
    """For each combination of guesses, one of each axis, what the rule makes of the window of the output at `at`.

    `held` keeps, for further places under the same rule, what is joined along the last axes.
    """
    held = {} if held is None else held
    boxes = [[_span(guess, o) for guess in axis] for axis, o in zip(axes, at, strict=True)]
    taken = rule.take(plane.x)
    for i in reversed(range(1, len(axes))):
        if at[i:] not in held:
            held[at[i:]] = _joined(taken, boxes[i], i, rule.join)
        taken = held[at[i:]]
    taken = _joined(taken, boxes[0], 0, rule.join)
    inside = _product([[len(span) for span in spans] for spans in boxes])
    whole = _product([[guess.kernel for guess in axis] for axis in axes])
    with np.errstate(all="ignore"):
        finished: Array = rule.finish(taken, inside, whole)
    return finished


def spread_places(plane: Plane) -> list[tuple[int, ...]]:
    """Outputs all over the plane, where one that is wrong at a border or here and there is still recognised."""
    each = MANY_PLACES ** (1 / plane.y.ndim)
    lines = [sorted({int((i + 0.5) * n / each) for i in range(int(each))} & {*range(n)}) for n in plane.y.shape]
    return list(product(*lines))


def hits(plane: Plane, rule: Rule, axes: Sequence[Sequence[Guess]]) -> Array:
    """For each combination of guesses how many of the outputs all over the plane it gives."""
    held: Held = {}
    near = [plane.near(made(plane, rule, at, axes, held), float(plane.y[at]), rule) for at in spread_places(plane)]
    found: Array = np.sum(near, axis=0)
    return found


def matches(plane: Plane, rule: Rule, at: tuple[int, ...], axes: Sequence[Sequence[Guess]]) -> Array:
    """For each combination of guesses whether it gives the output at `at`, or may where frameworks differ."""
    ok = plane.near(made(plane, rule, at, axes), float(plane.y[at]), rule)
    if not rule.at_end:
        past = [[guess.windows.start(o) + guess.windows.extent > guess.size for guess in axis]
                for axis, o in zip(axes, at, strict=True)]  # fmt: skip
        over = ~_product([[not each for each in axis] for axis in past]).astype(bool)
        ok = ok | (over & _counted_between(plane, rule, at, axes))
    return ok


def _counted_between(plane: Plane, rule: Rule, at: tuple[int, ...], axes: Sequence[Sequence[Guess]]) -> Array:
    """Which totals are divided by a whole number from the elements inside the input up to those of the kernel."""
    totals = made(plane, replace(rule, finish=_total), at, axes)
    inside, whole = (made(plane, replace(rule, finish=part), at, axes) for part in (_inside, _whole))
    with np.errstate(all="ignore"):
        divisors = np.rint(totals / plane.y[at])
        near = plane.near(totals / divisors, float(plane.y[at]), rule)
    between: Array = near & (inside <= divisors) & (divisors <= whole)
    return between


def override_rules(plane: Plane, axes: Sequence[Sequence[Guess]]) -> list[Rule]:
    """Averages under a divisor_override: the numbers that some windows in the middle show alike."""
    if not all(axes):
        return []
    whole = Rule("avg", {}, lambda x: x, "add", _total)
    middle = tuple(n // 2 for n in plane.y.shape)
    found, able = None, None
    for by in (0, 1, -1):
        at = tuple(min(max(0, o + by), n - 1) for o, n in zip(middle, plane.y.shape, strict=True))
        totals = made(plane, whole, at, axes)
        with np.errstate(all="ignore"):
            divisors = np.rint(totals / plane.y[at])
            near = plane.near(totals / divisors, float(plane.y[at]), whole) & (np.abs(divisors) <= LARGEST_DIVISOR)
        able = near if able is None else able & near & (divisors == found)
        found = divisors
    numbers: list[int] = [] if found is None else [int(n) for n in np.unique(found[able]) if n]
    return [_divided(n) for n in sorted(numbers, key=abs)[:MOST_DIVISORS]]


def _divided(n: int) -> Rule:
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
