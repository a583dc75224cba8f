"""Runs the commands that pool files: options to jobs, outcomes to reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache, partial

from poolcli.cli.messages import print_errors, print_notice, progress
from poolcli.cli.options import PoolOptions, array_settings
from poolcli.cli.program import find_operator
from poolcli.engine import choose
from poolcli.errors import FileError, RequestError
from poolcli.formats import Source, check_options, recognised
from poolcli.formats.atomic import is_device
from poolcli.formats.files import is_url
from poolcli.formats.table import format_by_suffix
from poolcli.message_fields import field, for_cli
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Job, Outcome, RunSummary, Settings, existing_outputs
from poolcli.pooling.tiles import no_progress
from poolcli.runs import Manifest, choose_executor, divide_cores, run_all
from poolcli.runs.files import find_inputs, plan_jobs

JUDGED_FIRST = 100  # jobs that are planned before existing outputs are refused


def run_pool(op: Attributes, request: PoolOptions) -> int:
    """Pools the inputs of a command; returns the exit code."""
    for text in request.inputs or ():
        if (other := find_operator(text)) and not os.path.lexists(text):
            raise RequestError(f"{text} is no file; leave it out: poolcli {other} says it (-r takes no value)")
    if not request.output and not request.dry_run:
        *inputs, last = request.inputs or [""]
        named = format_by_suffix(last) or any(map(os.path.isdir, inputs))
        is_output = inputs and named and not os.path.lexists(last)
        remedy = f"write {field('output', last)}" if is_output else "name a file, a folder, or - for .npy"
        raise RequestError(f"{field('output')} is missing: {remedy} (or plan only, with {field('dry_run')})")
    if request.output == request.indices == "-":
        raise RequestError(f"{field('output')} and {field('indices')} cannot both be standard output")
    if "-" in (request.output, request.indices) and not request.dry_run and sys.stdout.isatty():
        raise RequestError("standard output is a terminal; redirect it, as in > y.npy, or name a file")
    names = tuple(request.dataset or ())
    settings = array_settings(request, ("all", "dataset"))
    settings = replace(settings, arrays=() if request.all else names if len(names) > 1 else None)
    texts, dataset = request.inputs or [], names[0] if len(names) == 1 else None
    items, several, ignored = find_inputs(texts, dataset, request.recursive, request.files_from, request.output)
    jobs = plan_jobs(items, several, request.output, request.indices, request.format)
    if len(jobs) == 1:  # others are recognised where they are read
        with suppress(FileError):  # the job will say it
            jobs = [replace(jobs[0], source=recognised(jobs[0].source))]
    given = [name for name, value in vars(request).items() if value not in (None, False)]
    tried = [job for job in jobs if not job.refusal]
    check_options(given, [job.source for job in tried], [Source(job.output) for job in tried if job.output])
    _refuse_existing(jobs, op, settings, request.output if several else None)
    choose.announce = (lambda text: None) if request.quiet else cache(partial(print_notice, style="magenta"))  # once
    reporter = _Reporter(request, op, several, ignored)
    count, settings = divide_cores(settings, len(jobs))
    folder = _manifest_folder(request.output, several, settings)
    executor = choose_executor(jobs, request.debug, request.cluster)
    reports = len(jobs) > 1 and (request.verbose or request.json)
    with progress(len(jobs), request.quiet or reports) as draw, closing(run_all(
        jobs, op, settings, executor=executor, count=count, folder=folder,
        progress=draw if len(jobs) == 1 else no_progress, cluster=request.cluster,
    )) as outcomes:  # fmt: skip
        for done, outcome in enumerate(outcomes, 1):
            draw(done, len(jobs))
            if outcome.error and request.debug:
                raise outcome.error
            reporter.add(outcome)
    return reporter.finish()


def _refuse_existing(jobs: Sequence[Job], op: Attributes, settings: Settings, folder: str | None) -> None:
    """Refuses to replace existing outputs, unless an option allows it; says first what else is wrong. Standard input
    cannot be judged before it is read: `run_job` refuses.
    """
    if settings.overwrite or settings.resume or settings.dry_run or [job.source.path for job in jobs] == ["-"]:
        return
    existing = existing_outputs(jobs)
    first, others = next(existing, None), sum(1 for _ in existing)
    if first is None:
        return
    more = f" (and {others} more)" if others else ""
    can_resume = is_url(first) or not Manifest(folder or os.path.dirname(first)).unowned([first])
    resume = f" or {field('resume')}" if can_resume else ""
    exists = f"{first} exists{more}; use {field('overwrite')}{resume}, or another {field('output')}"
    planned = jobs[:JUDGED_FIRST]
    for outcome in run_all(
        planned, op, replace(settings, dry_run=True), executor=choose_executor(planned, False), count=1, folder=None,
        progress=no_progress,
    ):  # fmt: skip
        if outcome.error and len(jobs) == 1:
            raise outcome.error
        if isinstance(outcome.error, RequestError):
            raise RequestError(f"{outcome.error.message}; and {exists}")
    raise RequestError(exists)


def _manifest_folder(output: str | None, several: bool, settings: Settings) -> str | None:
    """The folder of the manifest: that of several outputs, or of a single one with --resume; else None."""
    if output is None or output == "-" or is_device(output) or is_url(output):
        return None
    if several:
        return output
    return (os.path.dirname(output) or ".") if settings.resume else None


class _Reporter:
    """Prints the outcomes of one run on stdout, or on stderr if the result itself goes to stdout."""

    def __init__(self, request: PoolOptions, op: Attributes, several: bool, ignored: Sequence[str]) -> None:
        self._request, self._op, self._several = request, op, several
        self._stdout_has_result = "-" in (request.output, request.indices) and not request.dry_run
        self._stream = sys.stderr if self._stdout_has_result else sys.stdout
        self._reports = not request.quiet and (request.verbose or not (several or self._stdout_has_result))
        self._planned, self._doubted = list[Outcome](), set[str]()
        self.summary = RunSummary(ignored)

    def add(self, outcome: Outcome) -> None:
        """Counts an outcome, and prints its report if one is wanted."""
        self.summary.add(outcome)
        if self._request.dry_run and not self._request.json:
            self._planned.append(outcome)
        if outcome.error and not self._several:
            print_notice(outcome.error.cli_message)
        if self._request.json:
            from poolcli.report.as_json import outcome_document, to_json

            for part in outcome.parts or (outcome,):
                print(to_json(outcome_document(part, self._op.name, self._op.like)), file=self._stream, flush=True)
                if not (outcome.error or self._request.quiet):
                    self._print_assumed_layout(part, doubts_only=True)
        elif not outcome.error and self._reports:
            from poolcli.report.outcome import outcome_view, show

            show(outcome_view(outcome), self._stream, end="\n" * self._several)
        elif not outcome.error and self._stdout_has_result and not self._request.quiet:
            self._print_assumed_layout(outcome)

    def finish(self) -> int:
        """Prints the summary of a run over several inputs; returns the exit code."""
        errors = self.summary.errors
        if not self._several:
            return next((error.exit_code for error in errors), 0)
        from poolcli.report.outcome import ignored_note, shapes_view, show, summary_view

        alike = len(errors) == self.summary.total and len({error.bare for error in errors}) == 1
        code = errors[0].exit_code if alike else int(bool(errors))
        if code == 2:
            pass  # the request is refused, and nothing was tried
        elif self._request.json and self.summary.ignored and not self._request.quiet:
            print_notice(for_cli(ignored_note(self.summary.ignored)), "magenta")
        elif not self._request.json and not self._request.quiet:
            if self._planned and not self._request.verbose:
                show(shapes_view(self._planned), sys.stdout)
            show(summary_view(self.summary, self._request.dry_run), sys.stdout)
        print_errors(errors)
        return code

    def _print_assumed_layout(self, outcome: Outcome, doubts_only: bool = False) -> None:
        """Prints the layout that was assumed, for a result without a report; a doubt about several inputs once."""
        plan = outcome.plan
        if plan is not None and plan.guessed:
            doubts = [fact.message for fact in plan.layout_warnings]
            assumed = doubts or [f"layout {plan.layout} (assumed; {field('layout')} to change)"][doubts_only:]
            text = "; ".join(map(for_cli, assumed))
            if text and text not in self._doubted:
                self._doubted.add(text)
                print_notice(f"{outcome.job.source}: {text}", "magenta")
