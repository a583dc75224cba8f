"""Pooling files: from the options of a command to jobs, and from their outcomes to reports and previews."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from poolcli.cli.messages import print_error, print_errors, print_notice, progress
from poolcli.cli.settings import (
    TERMINAL,
    TEXT,
    formats_of,
    refuse_contradictions,
    refuse_existing,
    refuse_preview,
    refuse_unknown_inputs,
    refuse_width_by_height,
    refuse_without_effect,
    settings_of,
)
from poolcli.cli.values import attributes_of, operator_of
from poolcli.engine import compiled
from poolcli.errors import RequestError
from poolcli.formats.atomic import is_device
from poolcli.formats.files import is_url
from poolcli.formats.table import FORMATS
from poolcli.message_fields import field, for_cli, printable
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Job, Outcome, Settings, Tally
from poolcli.runs import choose_executor, divide_cores, run_all
from poolcli.runs.inputs import WHOLE, Shard, find_inputs, parse_shard
from poolcli.runs.outputs import WORD, plan_jobs
from poolcli.system.signals import Stopped

if TYPE_CHECKING:
    from rich.console import Console

    from poolcli.cli.pool import PoolOptions

PREVIEWED = 4  # of several inputs
TALLEST = 24  # lines, of a terminal that is not known to be taller
SMALLEST, FOUR, NINE = 20, 24, 60  # columns: of a preview at all, and of that with four and with nine channels


def pool(name: str, request: PoolOptions) -> int:
    """Runs an operator over the inputs; returns the exit code."""
    op = operator_of(name, attributes_of(name, request))
    refuse_unknown_inputs(name, request)
    refuse_contradictions(request)
    settings = settings_of(request)
    shard = parse_shard(request.shard)
    dataset = request.dataset[0] if len(request.dataset) == 1 else None
    found = find_inputs(request.inputs, dataset, request.recursive, request.files_from, request.output, shard or WHOLE)
    settings = _as_part(settings, shard, found.several, request)
    refuse_width_by_height(request.output_size, (item.source.path for item in found.items))
    refuse_preview(request, found.several)
    jobs = plan_jobs(found.items, found.several, request.output, request.indices, request.format)
    if settings.resume and any(target.key for job in jobs for target in job.targets):
        raise RequestError(f"{field('resume')} continues files; what is added to a file cannot be continued")
    refuse_without_effect(request, jobs)
    refuse_existing(jobs, settings)
    if not request.quiet:
        compiled.announce = print_notice
    reporter = _Reporter(request, op, found.several, found.ignored)
    try:
        seen = _run(jobs, op, settings, request, found.several, reporter)
    except Stopped as stop:
        if not found.several:
            raise
        done = reporter.tally.total
        raise Stopped(stop.exit_code, f"stopped: {done} done, {len(jobs) - done} left; --resume continues") from None
    _show_previews(request, settings, seen, len(jobs))
    return reporter.finish()


def _run(
    jobs: Sequence[Job], op: Attributes, settings: Settings, request: PoolOptions, several: bool, reporter: _Reporter
) -> list[Outcome]:
    """Runs the jobs and reports them; returns the outcomes of the first few, in their order, for a preview."""
    previewed = jobs[:PREVIEWED] if request.preview else []
    seen: dict[Job, Outcome] = {}
    count, settings = divide_cores(settings, len(jobs), request.jobs)
    executor = choose_executor(jobs, request.debug, request.cluster)
    folder = _manifest_folder(request.output, several, settings)
    with (
        progress(jobs[0].source.path if jobs else "", len(jobs), request.quiet) as (step, bytes_done),
        closing(
            run_all(
                jobs,
                op,
                settings,
                executor=executor,
                count=count,
                folder=folder,
                progress=bytes_done,
                cluster=request.cluster,
                shard=parse_shard(request.shard) if several else None,
            )
        ) as outcomes,
    ):
        for outcome in outcomes:
            step(outcome)
            if outcome.error and request.debug:
                raise outcome.error
            reporter.add(outcome)
            if outcome.job in previewed:
                seen[outcome.job] = outcome
            if outcome.error and request.fail_fast:
                break
    return [seen[job] for job in previewed if job in seen]


def _as_part(settings: Settings, shard: Shard | None, several: bool, request: PoolOptions) -> Settings:
    """The settings of one of several processes that make one array; what else a shard is shares out whole inputs."""
    if shard is None or several:
        return settings
    (written,) = formats_of([request.output or ""])
    if written is None or not written.parallel_writes:
        kinds = " or ".join(row.suffixes[0] for row in FORMATS.values() if row.parallel_writes)
        raise RequestError(
            f"{field('shard')} shares out several inputs (a folder, a quoted glob or a list), or one array that goes "
            f"to {kinds}"
        )
    if request.cluster:
        raise RequestError(f"{field('shard')} and {field('cluster')} both share out one array; give one")
    # What a host has free must not decide where the array is cut: all must cut alike.
    return replace(settings, part=(shard.number, shard.count), max_memory=settings.allowed)


def _manifest_folder(output: str | None, several: bool, settings: Settings) -> str | None:
    """Where a manifest is kept: in the folder of several outputs, and beside a single one that is to be resumed."""
    if output is None or output == "-" or is_device(output) or is_url(output):
        return None
    if settings.part:
        return None
    if several:
        return os.path.dirname(output.partition("{")[0]) or "." if WORD.search(output) else output
    return (os.path.dirname(output) or ".") if settings.resume else None


class _Reporter:
    """Reports the outcomes of one run, on stdout; on stderr, and only when asked for, where stdout has the result."""

    def __init__(self, request: PoolOptions, op: Attributes, several: bool, ignored: Sequence[str] = ()) -> None:
        self._request, self._op, self._several = request, op, several
        self._taken = "-" in (request.output, request.indices) and not request.dry_run
        self._stream = sys.stderr if self._taken else sys.stdout
        self._planned = list[Outcome]()
        self._lists = request.dry_run and not (request.quiet or request.verbose or request.json)
        self.tally = Tally(ignored)

    def add(self, outcome: Outcome) -> None:
        """Counts one more outcome, and reports it where that is wanted."""
        self.tally.add(outcome)
        if self._lists:
            self._planned.append(outcome)
        if outcome.error and not self._several:
            print_error(outcome.error)
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
        print_errors(errors)
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
            print_notice(f"{outcome.job.source}: {'; '.join(map(for_cli, assumed))}")

    def _print_json(self, outcome: Outcome) -> None:
        from poolcli.report.as_json import outcome_document, to_json

        for part in outcome.parts or (outcome,):
            print(to_json(outcome_document(part, self._op.name, self._op.like)), file=self._stream, flush=True)

    def _name_passed_over(self) -> None:
        from poolcli.report.outcome import ignored_note

        if self.tally.ignored:
            print_notice(ignored_note(self.tally.ignored))

    def _sum_up(self) -> None:
        from poolcli.report.console import show
        from poolcli.report.outcome import shapes_view, summary_view

        if self._planned:
            show(shapes_view(self._planned), sys.stdout)
        show(summary_view(self.tally, self._request.dry_run), sys.stdout)


def _show_previews(request: PoolOptions, settings: Settings, outcomes: Sequence[Outcome], count: int) -> None:
    """Prints what jobs have read and written where it will be seen, or writes it; `count` jobs there were in all.

    Of several each stands under its name.
    """
    wanted = request.preview
    ran = [outcome for outcome in outcomes if outcome.error is None and outcome.engine]
    if wanted is None or not ran:
        return
    if wanted not in (TERMINAL, TEXT):
        _write(wanted, ran[0], settings, request.overwrite)
        return
    from poolcli.report.console import console

    screen = console(sys.stdout)
    if wanted == TERMINAL and not screen.is_terminal:
        return
    for i, outcome in enumerate(ran):
        if i or (count == 1 and not request.quiet):
            print()
        if count > 1:
            print(printable(str(outcome.job.source)))
        _show(screen, outcome, settings)
    if count > len(outcomes):
        print(f"\nthe first {len(outcomes)} of {count} are shown")


def _write(path: str, outcome: Outcome, settings: Settings, overwrite: bool) -> None:
    from poolcli.explain.preview import as_png, preview_of

    preview = preview_of(outcome, settings.read_options, 9)
    if preview:
        from poolcli.formats.atomic import byte_stream

        with byte_stream(path, overwrite) as stream:
            stream.write(as_png(preview))


def _show(screen: Console, outcome: Outcome, settings: Settings) -> None:
    from poolcli.explain.preview import preview_of
    from poolcli.report.console import preview_view, show

    tiles = 9 if screen.width >= NINE else 4 if screen.width >= FOUR else 1
    preview = preview_of(outcome, settings.read_options, tiles)
    if preview:
        lines = max(4, (screen.height if screen.is_terminal else TALLEST) - 4)
        colour = screen.color_system is not None and not screen.no_color
        blocks = "utf" in (sys.stdout.encoding or "").lower()
        show(preview_view(preview, max(SMALLEST, screen.width), lines, colour, blocks), sys.stdout)
