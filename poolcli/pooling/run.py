"""One job and what came of it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from poolcli.errors import FileError
from poolcli.formats import holds_several, open_array
from poolcli.formats.checks import memory_limit_of
from poolcli.plan.attributes import Attributes
from poolcli.pooling.containers import run_bundle
from poolcli.pooling.failures import failure
from poolcli.pooling.job import Job, existing_outputs
from poolcli.pooling.outcome import Outcome, Settings
from poolcli.pooling.parts import Spread
from poolcli.pooling.pool_file import Progress, pool_file
from poolcli.pooling.prepare import prepare_job
from poolcli.pooling.timing import Clock


def run_job(
    job: Job,
    op: Attributes,
    settings: Settings,
    progress: Progress = lambda done, total: None,
    spread: Spread | None = None,
) -> Outcome:
    """Runs `job`; what goes wrong is in the outcome's `error`, with the place in its message. With `spread` the parts
    of an output that several processes can write are computed elsewhere.
    """
    clock = Clock()
    outcome = Outcome(job, seconds=clock.seconds)
    try:
        limit = memory_limit_of(job.source.path, settings.max_memory, settings.allowed)
        settings = replace(settings, max_memory=limit)
        if settings.skip_existing and any(existing_outputs((job,))):
            return Outcome(job, skipped=True)
        if settings.arrays is not None and holds_several(job.source.path):
            return run_bundle(job, op, settings)
        with ExitStack() as stack:
            with clock.phase("read"):
                file = stack.enter_context(open_array(job.source, settings.read_options))
            outcome = prepare_job(outcome, op, settings, file.header)
            return outcome if settings.dry_run else pool_file(outcome, settings, file, clock, progress, spread)
    except Exception as error:  # of any kind: what goes wrong with one input must not end the others
        if "-" in (job.output, job.indices) and isinstance(error, OSError) and not isinstance(error, FileError):
            raise  # standard output itself, which is no fault of the input
        return replace(outcome, error=failure(error, job.source.path))
