"""What a run says: a report of each job as it ends, and the sum of all."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from poolcli.cli.messages import complain, complain_of_all, say
from poolcli.message_fields import field, on_command_line
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Outcome, Tally

if TYPE_CHECKING:
    from poolcli.cli.pool import PoolOptions


class Reporter:
    """Reports the outcomes of one run, on stdout; on stderr, and only when asked for, where stdout has the result."""

    def __init__(self, request: PoolOptions, op: Attributes, several: bool, passed_over: Sequence[str] = ()) -> None:
        self._request, self._op, self._several = request, op, several
        self._taken = "-" in (request.output, request.indices) and not request.dry_run
        self._stream = sys.stderr if self._taken else sys.stdout
        self._planned = list[Outcome]()
        self._lists = request.dry_run and not (request.quiet or request.verbose or request.json)
        self.tally = Tally(passed_over)

    def add(self, outcome: Outcome) -> None:
        """Counts one more outcome, and reports it where that is wanted."""
        self.tally.add(outcome)
        if self._lists:
            self._planned.append(outcome)
        if outcome.error and not self._several:
            complain(outcome.error)
        if self._request.json:
            self._print_json(outcome)
        elif not outcome.error and self._wanted():
            from poolcli.report.console import show
            from poolcli.report.outcome import outcome_view

            show(outcome_view(outcome), self._stream)
        elif not outcome.error and self._taken and not self._request.quiet:
            self._tell_layout(outcome)

    def finish(self) -> int:
        """Sums up a run over several inputs; returns the exit code of the run."""
        errors = self.tally.errors
        if not self._several:
            return next((error.exit_code for error in errors), 0)
        if not self._request.quiet:
            self._name_passed_over() if self._request.json else self._sum_up()
        complain_of_all(errors)
        if not errors:
            return 0
        first = next(iter(errors))
        refused = len(errors) == self.tally.total and all(error.bare == first.bare for error in errors)
        return first.exit_code if refused else 1

    def _wanted(self) -> bool:
        return not self._request.quiet and (self._request.verbose or not (self._several or self._taken))

    def _tell_layout(self, outcome: Outcome) -> None:
        """Says which layout was assumed, where no report does."""
        plan = outcome.plan
        if plan is not None and plan.guessed:
            doubts = [fact.message for fact in plan.doubts]
            assumed = doubts or [f"layout {plan.layout} (assumed; {field('layout')} to change)"]
            say(f"{outcome.job.source}: {'; '.join(map(on_command_line, assumed))}")

    def _print_json(self, outcome: Outcome) -> None:
        from poolcli.report.as_json import outcome_document, to_json

        for part in outcome.parts or (outcome,):
            print(to_json(outcome_document(part, self._op.name, self._op.like)), file=self._stream, flush=True)

    def _name_passed_over(self) -> None:
        from poolcli.report.outcome import not_taken

        if self.tally.passed_over:
            say(not_taken(self.tally.passed_over))

    def _sum_up(self) -> None:
        from poolcli.report.console import show
        from poolcli.report.outcome import shapes_view, summary_view

        if self._planned:
            show(shapes_view(self._planned), sys.stdout)
        show(summary_view(self.tally, self._request.dry_run), sys.stdout)
