"""Jobs on a Dask cluster: processes of this machine, or of all that a scheduler knows. One array whose output is
written in regions is shared out region by region, and this process alone begins and ends that output.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from poolcli.formats.table import FORMATS, with_suffix
from poolcli.pooling.failures import failure
from poolcli.pooling.outcome import Outcome, Settings
from poolcli.pooling.parts import Share, Spread
from poolcli.pooling.pool_file import Progress
from poolcli.runs.executors.cluster import connected, slots_of
from poolcli.runs.executors.flow import Flow, explained
from poolcli.runs.executors.table import Outcomes
from poolcli.runs.task import Runner, Task
from poolcli.system.lazy_imports import Lazy
from poolcli.system.limits import memory_budget

distributed = Lazy("distributed")


def run(
    tasks: Collection[Task], runner: Runner, count: int, progress: Progress, cluster: str | None = None
) -> Outcomes:
    """The outcomes as they come, of workers of `cluster`; without one, of `count` processes of this machine."""
    with connected(cluster or f"local:{count}") as client:
        if len(tasks) == 1 and all(map(_is_written_in_regions, tasks)):
            yield 0, replace(runner, spread=_Regions(client, runner.settings.resume))(next(iter(tasks)), progress)
            return
        listed = runner.folder is not None
        flow = Flow(client, _Jobs(runner), iter(enumerate(tasks)), len(tasks), slots_of(client), listed)
        try:
            yield from _outcomes(flow.results())
        except GeneratorExit:
            flow.cancel()
            raise
        except BaseException:  # stopped: what was done by now counts
            yield from _outcomes(flow.last_words())
            raise


@contextmanager
def spreading(cluster: str | None, resumable: bool) -> Iterator[Spread | None]:
    """What has parts computed by the workers of a cluster; None where there is none."""
    if cluster is None:
        yield None
        return
    with connected(cluster) as client:
        yield _Regions(client, resumable)


def _is_written_in_regions(task: Task) -> bool:
    written = with_suffix(task.job.output or "", FORMATS.values())
    return written is not None and written.spreads


def _outcomes(results: Iterator[tuple[tuple[int, Task], Any]]) -> Outcomes:
    for (number, task), found in results:
        if isinstance(found, BaseException):
            found = Outcome(task.job, error=failure(explained(found), task.job.source.path))
        yield number, found


@dataclass(frozen=True, slots=True)
class _Jobs:
    """On a worker: outcomes of tasks."""

    runner: Runner

    def __call__(self, items: Sequence[tuple[int, Task]]) -> list[Outcome]:
        runner = replace(self.runner, settings=_in_memory(self.runner.settings))
        return [runner(task, lambda done, total: None) for _, task in items]


@dataclass(frozen=True, slots=True)
class _Regions:
    """Shares the parts of one array out to the workers."""

    client: Any
    resumable: bool

    def __call__(self, share: Share) -> None:
        slots = slots_of(self.client)
        flow: Flow[int, None] = Flow(self.client, share.parts, share.numbers, share.count, slots, self.resumable)
        try:
            for number, found in flow.results():
                if isinstance(found, BaseException):
                    raise explained(found)
                share.done(number)
        except BaseException:
            flow.settle()
            raise


def _in_memory(settings: Settings) -> Settings:
    """The settings with the memory that a job may have on this worker."""
    return replace(settings, max_memory=settings.allowed or _share())


def _share() -> int | None:
    """Half of the memory of a thread of this worker; where the worker has no limit, of what the machine has free."""
    worker = distributed.get_worker()
    limit = worker.memory_manager.memory_limit
    half = limit // 2 if limit else memory_budget(None)
    return half // worker.state.nthreads if half else None
