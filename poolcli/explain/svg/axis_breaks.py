"""Axis breaks for pictures: which positions of a long axis are drawn, at most 28 of them, and where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from poolcli.explain import window
from poolcli.plan import AxisPlan
from poolcli.windows import Sliding

CELL = 22.0  # width of a position
GAP = 16.0  # width of a break
MAX_UNBROKEN = 28  # positions of an axis without breaks
MAX_SHOWN = 24  # positions of a longer one, unless more belong to the edges of windows
MIN_GAP = 2  # a break leaves out more positions than this
MAX_DOTTED_TAPS = 5  # of a dilated window, all of which are drawn


@dataclass(frozen=True, slots=True)
class BrokenAxis:
    """An axis as it is drawn from `origin` on: runs of positions, with a break between any two."""

    runs: tuple[range, ...]
    origin: float

    @property
    def shown(self) -> list[int]:
        """All positions that are drawn."""
        return [position for run in self.runs for position in run]

    @property
    def end(self) -> float:
        """The far edge of the last position."""
        return self.stop(self.runs[-1][-1])

    @property
    def gaps(self) -> list[float]:
        """The centres of the breaks."""
        return [self.at(run.start) - GAP / 2 for run in self.runs[1:]]

    @property
    def middles(self) -> list[float]:
        """The centres of the runs."""
        return [self.at(run.start) + len(run) * CELL / 2 for run in self.runs]

    def at(self, position: int) -> float:
        """The near edge of a position; the middle of the break if it is left out."""
        edge = self.origin
        for run in self.runs:
            if position < run.stop:
                return edge + (position - run.start) * CELL if position in run else edge - GAP / 2
            edge += len(run) * CELL + GAP
        return edge - GAP

    def stop(self, position: int) -> float:
        """The far edge of a position; the middle of the break if it is left out."""
        return self.at(position) + CELL * any(position in run for run in self.runs)


def input_axis(axis: AxisPlan, outputs: Iterable[int], origin: float) -> BrokenAxis:
    """The input positions of an axis, padding and overhang included, with the edges of the windows of `outputs` and
    the taps of small dilated ones.
    """
    w = axis.windows
    begin, end = (w.pad_begin, w.pad_end) if isinstance(w, Sliding) else (0, 0)
    low, high = -begin, max(w.size + end, window(w, w.output - 1).stop)
    wanted = {low, -1, 0, w.size - 1, w.size, high - 1}
    for found in (window(w, o) for o in outputs):
        wanted |= {found.start - 1, found.start, found.stop - 1, found.stop}
        if isinstance(w, Sliding) and w.dilation > 1 and w.kernel <= MAX_DOTTED_TAPS:
            wanted |= {*range(found.start, found.stop, w.dilation)}
    return BrokenAxis(visible_runs(range(low, high), range(w.size), wanted), origin)


def output_axis(axis: AxisPlan, origin: float) -> BrokenAxis:
    """The output positions of an axis."""
    count = axis.windows.output
    return BrokenAxis(visible_runs(range(count), range(count), {0, 1, count - 1}, MAX_SHOWN // 2), origin)


def visible_runs(whole: range, own: range, wanted: set[int], few: int = MAX_SHOWN) -> tuple[range, ...]:
    """The runs of `whole` that are drawn: all `wanted` positions, and short gaps between them as long as at most `few`
    positions are drawn; of gaps outside of `own` (in the padding) only the shortest.

    >>> visible_runs(range(-1, 100), range(100), {-1, 0, 2, 99})
    (range(-1, 8), range(94, 100))
    >>> visible_runs(range(20), range(20), {0, 19})
    (range(0, 20),)
    """
    if len(whole) <= few + MAX_UNBROKEN - MAX_SHOWN:
        return (whole,)
    kept = {position for position in wanted if position in whole}
    for gap in sorted(_gaps(kept), key=lambda gap: (gap.start in own, len(gap))):
        if len(gap) <= MIN_GAP or (gap.start in own and len(kept) + len(gap) <= few):
            kept |= set(gap)
    left = max(_gaps(kept), key=len, default=None)
    if left and len(kept) < few:
        more = min((few - len(kept)) // 2, 5)
        kept |= {*range(left.start, left.start + more), *range(left.stop - more, left.stop)}
    ends = [min(kept), *(end for gap in _gaps(kept) for end in (gap.start, gap.stop)), max(kept) + 1]
    return tuple(map(range, ends[::2], ends[1::2]))


def _gaps(kept: set[int]) -> list[range]:
    return [range(a + 1, b) for a, b in pairwise(sorted(kept)) if b > a + 1]
