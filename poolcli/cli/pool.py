"""The four pooling commands: from option values to jobs, their outcomes and the report."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from poolcli.batch.inputs import find_inputs
from poolcli.batch.jobs import plan_jobs
from poolcli.batch.memory import memory_limit
from poolcli.batch.run_all import choose_executor, run_all, shared_out
from poolcli.cli.app import complain
from poolcli.cli.operators import operator_from
from poolcli.cli.progress import progress
from poolcli.cli.stop import Stopped
from poolcli.core.errors import RequestError
from poolcli.engine.compiled import cache as kernels
from poolcli.formats.atomic import is_device
from poolcli.job.job import Job, existing_outputs
from poolcli.job.outcome import Outcome, Settings, Tally
from poolcli.plan.attributes import Attributes


def pool(name: str, values: Mapping[str, Any]) -> int:
    """Runs operator `name` over the inputs; returns the exit code."""
    op = operator_from(name, values)
    _check_values(values)
    dataset, arrays = _arrays(values)
    found = find_inputs(values["inputs"], dataset, values["recursive"], values["files_from"], values["output"])
    jobs = plan_jobs(found.items, found.several, values["output"], values.get("indices"), values["format"])
    given = {key: values[key] for key in Settings.__dataclass_fields__ if key in values}
    limit = memory_limit(values["max_memory"])
    allowed = limit if values["max_memory"] else None
    settings = Settings(**given | {"max_memory": limit, "allowed": allowed, "arrays": arrays})
    _refuse_existing(jobs, settings)
    if not values["quiet"]:
        kernels.announce = _say
    return _run(jobs, found.several, op, settings, values)


def _say(text: str) -> None:
    print(f"poolcli: {text}", file=sys.stderr, flush=True)


def _check_values(values: Mapping[str, Any]) -> None:
    if values["output"] is None and not values["dry_run"]:
        raise RequestError("--output is missing: name a file, a folder or - (or plan only, with --dry-run)")
    chosen = [f"--{key.replace('_', '-')}" for key in ("overwrite", "skip_existing", "resume") if values[key]]
    if len(chosen) > 1:
        raise RequestError(f"{chosen[0]} and {chosen[1]} contradict each other; give one")
    if values["quality"] is not None and not 1 <= values["quality"] <= 100:
        raise RequestError(f"--quality is {values['quality']}, it must be from 1 to 100")
    if values["output"] == "-" and values.get("indices") == "-":
        raise RequestError("--output and --indices cannot both be standard output; name a file for one")
    if values["resume"] and "-" in (values["output"], values.get("indices")):
        raise RequestError("--resume continues files; standard output cannot be continued")


def _arrays(values: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...] | None]:
    """The one dataset that is named, or the several; () for all."""
    names = tuple(values["dataset"])
    if values["all"]:
        if names:
            raise RequestError("--all takes every array, --dataset names some; give one of them")
        return None, ()
    if len(names) > 1:
        return None, names
    return next(iter(names), None), None


def _refuse_existing(jobs: Sequence[Job], settings: Settings) -> None:
    if settings.overwrite or settings.skip_existing or settings.resume or settings.dry_run:
        return
    existing = existing_outputs(jobs)
    if existing:
        more = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
        raise RequestError(
            f"{existing[0]} exists{more}; use --overwrite, --skip-existing or --resume, or another --output"
        )


def _run(jobs: Sequence[Job], several: bool, op: Attributes, settings: Settings, values: Mapping[str, Any]) -> int:
    count, settings = shared_out(settings, len(jobs), values["jobs"])
    executor = choose_executor(jobs, values["debug"])
    tally, planned = Tally(), list[Outcome]()
    folder = _manifest_folder(values["output"], several, settings)
    try:
        with (
            progress(len(jobs), values) as (step, bytes_done),
            closing(
                run_all(jobs, op, settings, executor=executor, count=count, folder=folder, progress=bytes_done)
            ) as outcomes,
        ):
            for outcome in outcomes:
                step()
                tally.add(outcome)
                if outcome.error and values["debug"]:
                    raise outcome.error
                _report(outcome, several, op, values)
                if settings.dry_run:
                    planned.append(outcome)
                if outcome.error and values["fail_fast"]:
                    break
    except Stopped as stop:
        if not several:
            raise
        left = len(jobs) - tally.total
        raise Stopped(stop.exit_code, f"stopped: {tally.total} done, {left} left; --resume goes on") from None
    if not several:
        return tally.errors[0].exit_code if tally.errors else 0
    return _finish(tally, planned, values)


def _manifest_folder(output: str | None, several: bool, settings: Settings) -> str | None:
    """Where a manifest is kept: in the folder of several outputs, and beside a single one that is to be resumed."""
    if output is None or output == "-" or is_device(output):
        return None
    if several:
        return output
    return (os.path.dirname(output) or ".") if settings.resume else None


def _report(outcome: Outcome, several: bool, op: Attributes, values: Mapping[str, Any]) -> None:
    """The report of one job, on stdout; on stderr, and only when asked for, where stdout carries the result."""
    if outcome.error and not several:
        complain(outcome.error)
    taken = "-" in (values["output"], values.get("indices")) and not values["dry_run"]
    stream = sys.stderr if taken else sys.stdout
    if values["json"]:
        from poolcli.report.document import outcome_document, to_json

        for part in outcome.parts or (outcome,):
            print(to_json(outcome_document(part, op.name, op.like)), file=stream, flush=True)
        return
    wanted = values["verbose"] or (not several and not taken)
    if wanted and not values["quiet"] and not outcome.error:
        from poolcli.report.console import show
        from poolcli.report.outcome import outcome_view

        show(outcome_view(outcome), stream)


def _finish(tally: Tally, planned: Sequence[Outcome], values: Mapping[str, Any]) -> int:
    if not values["json"] and not values["quiet"]:
        from poolcli.report.console import show
        from poolcli.report.outcome import shapes_view, summary_view

        if planned and not values["verbose"]:
            show(shapes_view(planned), sys.stdout)
        show(summary_view(tally, values["dry_run"]), sys.stdout)
    for error in tally.errors:
        complain(error)
    return 1 if tally.errors else 0
