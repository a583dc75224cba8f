"""Executors: where jobs run. One table row and one module each."""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Protocol, cast

from poolcli.pooling.outcome import Outcome
from poolcli.pooling.pool_file import Progress
from poolcli.runs.task import Runner, Task
from poolcli.system.signals import check_stopped

Outcomes = Generator[tuple[int, Outcome], None, None]


class Run(Protocol):
    """Runs tasks, at most `count` at once, and yields the place of each among them with its outcome, as they come.

    Tasks may be more than memory holds: they are gone through once, and those that run or are about to are held.

    A task's failure is in its outcome and ends nothing. When it is stopped, it yields what was done until then, ends
    whatever it has started, and only then lets the exception go on.
    """

    def __call__(self, tasks: Collection[Task], runner: Runner, count: int, progress: Progress) -> Outcomes: ...


@dataclass(frozen=True, slots=True)
class Executor:
    """One way to run jobs, by name."""

    name: str
    module: str

    @property
    def run(self) -> Run:
        """What runs the tasks; its module is imported when it is first asked for."""
        return cast("Run", import_module(self.module).run)

    def run_on(self, cluster: str | None) -> Run:
        """The same on a cluster that is named, where the executor has one."""
        return self.run if cluster is None else partial(cast("Any", self.run), cluster=cluster)


EXECUTORS = {
    row.name: row
    for row in (
        Executor("here", "poolcli.runs.executors"),
        Executor("workers", "poolcli.runs.executors.workers"),
        Executor("dask", "poolcli.runs.executors.dask"),
    )
}


def run(tasks: Collection[Task], runner: Runner, count: int, progress: Progress) -> Outcomes:
    """The outcomes in the order of the tasks."""
    for number, task in enumerate(tasks):
        yield number, runner(task, progress)
        check_stopped()
