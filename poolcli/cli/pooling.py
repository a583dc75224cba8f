"""Pooling files: from the options of a command to jobs, and their outcomes to the report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from poolcli.cli import checks
from poolcli.cli.messages import progress, say
from poolcli.cli.outcomes import PREVIEWED, Reporter, show_previews
from poolcli.cli.settings import settings_of
from poolcli.cli.values import attributes_of, operator_of
from poolcli.engine.compiled import load
from poolcli.errors import RequestError
from poolcli.formats.atomic import is_device
from poolcli.formats.files import is_url
from poolcli.formats.table import FORMATS, with_suffix
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes
from poolcli.pooling.outcome import Job, Outcome, Settings
from poolcli.runs.inputs import WHOLE, Shard, find_inputs, parse_shard
from poolcli.runs.outputs import WORD, plan_jobs
from poolcli.runs.run_all import choose_executor, run_all, shared_out
from poolcli.system.signals import Stopped

if TYPE_CHECKING:
    from poolcli.cli.pool import PoolOptions


def pool(name: str, request: PoolOptions) -> int:
    """Runs an operator over the inputs; returns the exit code."""
    op = operator_of(name, attributes_of(name, request))
    checks.refuse_unknown_inputs(name, request)
    checks.refuse_contradictions(request)
    settings = settings_of(request)
    shard = parse_shard(request.shard)
    dataset = request.dataset[0] if len(request.dataset) == 1 else None
    found = find_inputs(request.inputs, dataset, request.recursive, request.files_from, request.output, shard or WHOLE)
    settings = _as_part(settings, shard, found.several, request)
    checks.refuse_width_by_height(request.output_size, (item.source.path for item in found.items))
    checks.refuse_preview(request, found.several)
    jobs = plan_jobs(found.items, found.several, request.output, request.indices, request.format)
    if settings.resume and any(target.key for job in jobs for target in job.targets):
        raise RequestError(f"{field('resume')} continues files; what is added to a file cannot be continued")
    checks.refuse_without_effect(request, jobs)
    checks.refuse_existing(jobs, settings)
    if not request.quiet:
        load.announce = say
    reporter = Reporter(request, op, found.several, found.passed_over)
    try:
        seen = _run(jobs, op, settings, request, found.several, reporter)
    except Stopped as stop:
        if not found.several:
            raise
        done = reporter.tally.total
        raise Stopped(stop.exit_code, f"stopped: {done} done, {len(jobs) - done} left; --resume goes on") from None
    show_previews(request, settings, seen, len(jobs))
    return reporter.finish()


def _run(
    jobs: Sequence[Job], op: Attributes, settings: Settings, request: PoolOptions, several: bool, reporter: Reporter
) -> list[Outcome]:
    """Runs the jobs and reports them; returns the outcomes of the first few, in their order, for a preview."""
    previewed = jobs[:PREVIEWED] if request.preview else []
    seen: dict[Job, Outcome] = {}
    count, settings = shared_out(settings, len(jobs), request.jobs)
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
    written = with_suffix(request.output or "", FORMATS.values())
    if written is None or not written.spreads:
        kinds = " or ".join(row.suffixes[0] for row in FORMATS.values() if row.spreads)
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
