"""Axis breaks for pictures: at most 28 positions of an axis are drawn, those around whole windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from poolcli.explain.explanation import window
from poolcli.plan import AxisPlan
from poolcli.windows import Sliding

CELL = 22.0
GAP = 16.0  # stands for positions that are left out
MOST = 28  # positions of an axis that is drawn whole
FEW = 24  # positions that are drawn of a longer one, where its windows' edges are no more than that
SHORT = 2  # positions that are not left out alone
SEEN_TAPS = 5  # elements of a dilated window up to which each of them is drawn


@dataclass(frozen=True, slots=True)
class Line:
    """Runs of positions along an axis, a gap between any two of them."""

    runs: tuple[range, ...]
    origin: float

    @property
    def shown(self) -> list[int]:
        """Every position that is drawn."""
        return [position for run in self.runs for position in run]

    @property
    def end(self) -> float:
        """The far edge of the last position."""
        return self.origin + sum(map(len, self.runs)) * CELL + (len(self.runs) - 1) * GAP

    @property
    def gaps(self) -> list[float]:
        """The middles of the gaps."""
        return [self.at(run.start) - GAP / 2 for run in self.runs[1:]]

    @property
    def middles(self) -> list[float]:
        """The middles of the runs."""
        return [self.at(run.start) + len(run) * CELL / 2 for run in self.runs]

    def at(self, position: int) -> float:
        """The near edge of a position that is drawn."""
        edge = self.origin
        for run in self.runs:
            if position in run:
                return edge + (position - run.start) * CELL
            edge += len(run) * CELL + GAP
        raise ValueError(f"position {position} is left out")

    def stop(self, position: int) -> float:
        """The far edge of a position that is drawn."""
        return self.at(position) + CELL


def line_of_input(axis: AxisPlan, outputs: Iterable[int], origin: float) -> Line:
    """The positions of an axis with its pads and what the last window reaches past them; `outputs` are whole."""
    w = axis.windows
    begin, end = (w.pad_begin, w.pad_end) if isinstance(w, Sliding) else (0, 0)
    low, high = -begin, max(w.size + end, window(axis.windows, w.output - 1).stop)
    wanted = {low, -1, 0, w.size - 1, w.size, high - 1}
    for o in outputs:
        wanted |= set(_edges(axis, o))
    return Line(folded(range(low, high), range(w.size), wanted), origin)


def line_of_output(axis: AxisPlan, origin: float) -> Line:
    """The outputs of an axis."""
    count = axis.windows.output
    return Line(folded(range(count), range(count), {0, 1, count - 1}, FEW // 2), origin)


def marked(axis: AxisPlan) -> tuple[int, ...]:
    """The first, the second and the last output of an axis."""
    last = axis.windows.output - 1
    return tuple(sorted({0, min(1, last), last}))


def _edges(axis: AxisPlan, output: int) -> Iterator[int]:
    """The ends of a window, what lies beside them, and the elements of a dilated one that has few."""
    w, reach = axis.windows, window(axis.windows, output)
    yield from (reach.start - 1, reach.start, reach.stop - 1, reach.stop)
    if isinstance(w, Sliding) and w.dilation > 1 and w.kernel <= SEEN_TAPS:
        yield from range(reach.start, reach.stop, w.dilation)


def folded(whole: range, own: range, wanted: set[int], few: int = FEW) -> tuple[range, ...]:
    """The runs of `whole` that are drawn: all that is wanted, and what fills short gaps; of those outside of
    `own` (padding) the shortest alone.

    >>> folded(range(-1, 100), range(100), {-1, 0, 2, 99})
    (range(-1, 8), range(94, 100))
    >>> folded(range(20), range(20), {0, 19})
    (range(0, 20),)
    """
    if len(whole) <= few + MOST - FEW:
        return (whole,)
    kept = {position for position in wanted if position in whole}
    for gap in sorted(_gaps(kept), key=lambda gap: (gap.start in own, len(gap))):
        if len(gap) <= SHORT or (gap.start in own and len(kept) + len(gap) <= few):
            kept |= set(gap)
    left = max(_gaps(kept), key=len, default=None)
    if left and len(kept) < few:
        more = min((few - len(kept)) // 2, 5)
        kept |= {*range(left.start, left.start + more), *range(left.stop - more, left.stop)}
    return tuple(_runs(sorted(kept)))


def _gaps(kept: set[int]) -> list[range]:
    places = sorted(kept)
    return [range(a + 1, b) for a, b in pairwise(places) if b > a + 1]


def _runs(places: list[int]) -> Iterator[range]:
    start = last = places[0]
    for position in places[1:]:
        if position != last + 1:
            yield range(start, last + 1)
            start = position
        last = position
    yield range(start, last + 1)
