"""Keeps the hypotheses consistent with each sampled output; groups those that read the same elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from poolcli.explain.identify.samples import Hypothesis, Plane, Rule, Seen, Window, agrees, divisors, seen, totals
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

np: Any = Lazy("numpy")

MADE = 2**18  # combinations that are looked at together, and that the plainest are parted into at one window
OPEN = 2**12  # combinations, the plainest, that are held against further windows
DECIDED = 4  # combinations that need no further windows
UNLIKE = 3  # what it costs that two axes have different numbers

Group = Sequence[Hypothesis]  # alike in all windows that were looked at, the plainest first
Combination = tuple[Hypothesis, ...]


@dataclass(frozen=True, slots=True)
class Sieve:
    """What is left: the groups of each axis, in each row one group of each axis by its number, and what totals are
    divided by in that row, where a window showed it.
    """

    groups: list[list[Group]]
    rows: Array
    divisors: Array


def sieved(
    plane: Plane,
    rule: Rule,
    axes: Sequence[Sequence[Hypothesis]],
    at: Iterable[tuple[int, ...]],
    further: Iterable[tuple[Plane, tuple[int, ...]]],
    few: int,
) -> list[tuple[Combination, int]]:
    """The plainest `few` combinations that give the outputs at all those places, or may where frameworks differ, and,
    where these are many, at further ones; and what totals are divided by, for a rule that leaves it open.
    """
    left = Sieve([[axis] for axis in axes], np.zeros((1, len(axes)), np.intp), np.zeros(1))
    for place in at:
        for loosely in (True, False) if rule.whole else (False,):
            left = _narrowed(plane, rule, place, left, loosely)
            if not len(left.rows):
                return []
    if len(left.rows) > DECIDED:
        left = _plainest(left, OPEN)
        for other, place in further:
            left = _narrowed(other, rule, place, left, False)
            if len(left.rows) <= DECIDED:
                break
    best = _plainest(_finer(left, [[[[guess] for guess in group] for group in groups] for groups in left.groups]), few)
    return [
        (tuple(groups[i][0] for groups, i in zip(best.groups, row, strict=True)), int(divisor))
        for row, divisor in zip(best.rows, best.divisors, strict=True)
    ]


def _narrowed(plane: Plane, rule: Rule, at: tuple[int, ...], left: Sieve, loosely: bool) -> Sieve:
    """The groups parted by what they read at a place, and the rows that give the output there. Loosely, groups that
    read the same are together whatever their kernels are.
    """
    is_whole = rule.whole is not None and not loosely
    parted = [_parted(groups, o, is_whole) for groups, o in zip(left.groups, at, strict=True)]
    finer = _joined_up(parted)
    windows = [[_widest(group, o) for group in groups] for groups, o in zip(finer, at, strict=True)]
    spans = [list(dict.fromkeys(w.span for w in each)) for each in windows]
    table = totals(plane, rule, at, spans)
    order = [{span: n for n, span in enumerate(each)} for each in spans]
    numbers = [np.array([ns[w.span] for w in each], np.intp) for ns, each in zip(order, windows, strict=True)]
    found = []
    for rows, known in _blocks(left, parted):
        shown = _shown(table[tuple(own[rows[:, i]] for i, own in enumerate(numbers))], windows, rows)
        if rule.open:
            known = divisors(plane, rule, at, shown, known)
            ok = ~np.isnan(known)
        else:
            ok = agrees(plane, rule, at, shown, loosely)
        found.append((rows[ok], known[ok]))
    return _renumbered(_of(finer, found))


def _widest(group: Group, o: int) -> Window:
    return max((seen(guess, o) for guess in group), key=lambda window: window.kernel)


def _shown(total: Array, windows: Sequence[Sequence[Window]], rows: Array) -> Seen:
    inside, whole = np.ones(len(rows)), np.ones(len(rows))
    is_past = np.zeros(len(rows), bool)
    for each, column in zip(windows, rows.T, strict=True):
        inside *= np.array([float(len(w.span)) for w in each])[column]
        whole *= np.array([float(w.kernel) for w in each])[column]
        is_past |= np.array([w.is_past for w in each])[column]
    return Seen(total, inside, whole, is_past)


def _finer(left: Sieve, parted: Sequence[Sequence[Sequence[Group]]]) -> Sieve:
    return _of(_joined_up(parted), list(_blocks(left, parted)))


def _of(groups: list[list[Group]], blocks: Sequence[tuple[Array, Array]]) -> Sieve:
    rows, known = zip(*blocks, strict=True)
    return Sieve(groups, np.concatenate(rows), np.concatenate(known))


def _parted(groups: Sequence[Group], o: int, is_whole: bool) -> list[list[Group]]:
    """Each group in those that read the same at output `o`, and count the same where that matters."""
    found: list[list[Group]] = []
    for group in groups:
        parts: dict[object, list[Hypothesis]] = {}
        for guess in group:
            window = seen(guess, o)
            parts.setdefault(window if is_whole else window.span, []).append(guess)
        found.append([*parts.values()])
    return found


def _joined_up(parted: Sequence[Sequence[Sequence[Group]]]) -> list[list[Group]]:
    return [[group for parts in each for group in parts] for each in parted]


def _blocks(left: Sieve, parted: Sequence[Sequence[Sequence[Group]]]) -> Iterator[tuple[Array, Array]]:
    """The rows with each group replaced by its parts, in all combinations, some at a time; the plainest rows alone
    where there would be too many.
    """
    counts = [np.array([len(parts) for parts in each], np.intp) for each in parted]
    firsts = [np.cumsum(each) - each for each in counts]
    if len(left.rows) > 1 and _many(left.rows, counts).sum() > MADE:
        left = _plainest(left, len(left.rows))
        most = max(1, int(np.searchsorted(np.cumsum(_many(left.rows, counts)), MADE, "right")))
        left = Sieve(left.groups, left.rows[:most], left.divisors[:most])
    rows, known = _spread(left.rows, left.divisors, 0, counts[0], firsts[0])
    block = (np.cumsum(_many(rows[:, 1:], counts[1:])) - 1) // MADE
    for own in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(block)) + 1):
        some, theirs = rows[own], known[own]
        for i in range(1, len(counts)):
            some, theirs = _spread(some, theirs, i, counts[i], firsts[i])
        yield some, theirs


def _many(rows: Array, counts: Sequence[Array]) -> Array:
    """Into how many each row is parted."""
    many: Array = np.ones(len(rows), np.intp)
    for i, own in enumerate(counts):
        many = many * own[rows[:, i]]
    return many


def _spread(rows: Array, known: Array, i: int, counts: Array, firsts: Array) -> tuple[Array, Array]:
    """Each row once for every part of its group on axis `i`."""
    groups = rows[:, i]
    many = counts[groups]
    found = np.repeat(rows, many, axis=0)
    within = np.arange(len(found)) - np.repeat(np.cumsum(many) - many, many)
    found[:, i] = np.repeat(firsts[groups], many) + within
    return found, np.repeat(known, many)


def _plainest(left: Sieve, most: int) -> Sieve:
    order = np.argsort(_costs(left), kind="stable")[:most]
    return Sieve(left.groups, left.rows[order], left.divisors[order])


def _costs(left: Sieve) -> Array:
    """How seldom the plainest combination of each row is used: the mean over its axes, more where these are unlike."""
    rank = left.rows.shape[1]
    total: Array = np.zeros(len(left.rows))
    keys = []
    for groups, column in zip(left.groups, left.rows.T, strict=True):
        total = total + np.array([group[0].cost for group in groups])[column] / rank
        keys.append(np.array([hash(group[0].numbers) for group in groups])[column])
    for one, two in pairwise(keys):
        total = total + UNLIKE * (one != two)
    return total


def _renumbered(left: Sieve) -> Sieve:
    """Without the groups that no row has."""
    groups, columns = [], []
    for own, column in zip(left.groups, left.rows.T, strict=True):
        used, numbers = np.unique(column, return_inverse=True)
        groups.append([own[n] for n in used])
        columns.append(numbers.reshape(-1))
    return Sieve(groups, np.stack(columns, axis=1), left.divisors)
