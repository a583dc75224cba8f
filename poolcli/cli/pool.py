"""The four pooling commands: from option values to jobs, their outcomes and the report."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from poolcli.attributes import Attributes
from poolcli.batch.inputs import find_inputs
from poolcli.batch.jobs import Job, existing_outputs, plan_jobs
from poolcli.batch.memory import memory_limit
from poolcli.batch.outcome import Outcome, Settings
from poolcli.batch.run import run_job
from poolcli.cli.app import complain
from poolcli.cli.operators import operator_from
from poolcli.cli.stop import Stopped
from poolcli.engine import cache as kernels
from poolcli.errors import RequestError
from poolcli.report.console import console, show


def pool(name: str, values: Mapping[str, Any]) -> int:
    """Runs operator `name` over the inputs; returns the exit code."""
    op = operator_from(name, values)
    given = {key: values[key] for key in Settings.__dataclass_fields__}
    settings = Settings(**given | {"max_memory": memory_limit(values["max_memory"])})
    _check_values(values)
    items, several = find_inputs(values["inputs"], values["dataset"], values["recursive"])
    jobs = plan_jobs(items, several, values["output"], values.get("indices"), values["format"])
    _refuse_existing(jobs, settings)
    if not values["quiet"]:
        kernels.announce = _say
    if several:
        return _run_several(jobs, op, settings, values)
    return _run_one(jobs[0], op, settings, values)


def _say(text: str) -> None:
    print(f"poolcli: {text}", file=sys.stderr, flush=True)


def _check_values(values: Mapping[str, Any]) -> None:
    if values["output"] is None and not values["dry_run"]:
        raise RequestError("--output is missing: name a file, a folder or - (or plan only, with --dry-run)")
    if values["overwrite"] and values["skip_existing"]:
        raise RequestError("--overwrite and --skip-existing contradict each other; give one")
    if values["output"] == "-" and values.get("indices") == "-":
        raise RequestError("--output and --indices cannot both be standard output; name a file for one")


def _refuse_existing(jobs: Sequence[Job], settings: Settings) -> None:
    if settings.overwrite or settings.skip_existing or settings.dry_run:
        return
    existing = existing_outputs(jobs)
    if existing:
        more = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
        raise RequestError(f"{existing[0]} exists{more}; use --overwrite or --skip-existing, or another --output")


def _run_one(job: Job, op: Attributes, settings: Settings, values: Mapping[str, Any]) -> int:
    outcome = run_job(job, op, settings)
    if outcome.error and values["debug"]:
        raise outcome.error
    if outcome.error:
        complain(outcome.error)
    _report(outcome, op, values)
    return outcome.error.exit_code if outcome.error else 0


def _report(outcome: Outcome, op: Attributes, values: Mapping[str, Any]) -> None:
    """The report of one job, on stdout; on stderr, and only when asked for, where stdout carries the result."""
    taken = "-" in (values["output"], values.get("indices")) and not values["dry_run"]
    stream = sys.stderr if taken else sys.stdout
    if values["json"]:
        from poolcli.report.document import outcome_document, to_json

        print(to_json(outcome_document(outcome, op.name, op.like)), file=stream, flush=True)
    elif not values["quiet"] and not outcome.error and (values["verbose"] or not taken):
        from poolcli.report.outcome import outcome_view

        show(outcome_view(outcome), stream)


def _run_several(jobs: Sequence[Job], op: Attributes, settings: Settings, values: Mapping[str, Any]) -> int:
    outcomes: list[Outcome] = []
    try:
        for job in _with_progress(jobs, values):
            outcome = run_job(job, op, settings)
            outcomes.append(outcome)
            if outcome.error and values["debug"]:
                raise outcome.error
            if values["json"] or (values["verbose"] and not outcome.error):
                _report(outcome, op, values)
    except Stopped as stop:
        left = len(jobs) - len(outcomes)
        raise Stopped(stop.exit_code, f"stopped: {len(outcomes)} done, {left} left") from None
    return _finish(outcomes, settings, values)


def _finish(outcomes: Sequence[Outcome], settings: Settings, values: Mapping[str, Any]) -> int:
    if not values["json"] and not values["quiet"]:
        from poolcli.report.outcome import shapes_view, summary_view

        if settings.dry_run and not values["verbose"]:
            show(shapes_view(outcomes), sys.stdout)
        show(summary_view(outcomes, settings.dry_run), sys.stdout)
    failures = [outcome.error for outcome in outcomes if outcome.error]
    for error in failures:
        complain(error)
    return 1 if failures else 0


def _with_progress(jobs: Sequence[Job], values: Mapping[str, Any]) -> Iterator[Job]:
    """The jobs one by one, with a bar on stderr where that is a terminal."""
    if values["quiet"] or not sys.stderr.isatty():
        yield from jobs
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("pooling"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True) as progress:
        yield from progress.track(jobs)
