"""What is kept of the findings on a model's layers, of which there may be any number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from poolcli.models.check import Finding
from poolcli.models.rewrite import Written

Answer = tuple[Finding, Written | None]
MOST_LISTED = 1000  # layers that a person is shown
WRONG = ("differs", "invalid")
RIGHT = ("agrees", "computed")


@dataclass
class Tally:
    """How many layers have each verdict, and those that are listed: all, or of many those that are not as they should
    be, and the first ones.
    """

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[bool, list[tuple[int, Answer]]] = field(default_factory=lambda: {True: [], False: []})

    @classmethod
    def of(cls, answers: Iterable[Answer]) -> Tally:
        """The tally of these answers."""
        tally = cls()
        for place, answer in enumerate(tally.counted(answers)):
            kept = tally.first[answer[0].verdict in RIGHT]
            if len(kept) < MOST_LISTED:
                kept.append((place, answer))
        return tally

    def counted(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """The answers, counted while they pass."""
        for answer in answers:
            self.counts[answer[0].verdict] += 1
            yield answer

    @property
    def listed(self) -> list[Answer]:
        """The answers that are shown, in the order of the model."""
        chosen = [*self.first[False], *self.first[True]][:MOST_LISTED]
        return [answer for _, answer in sorted(chosen, key=lambda pair: pair[0])]

    @property
    def wrong(self) -> int:
        """How many layers differ or are invalid."""
        return sum(self.counts[verdict] for verdict in WRONG)
