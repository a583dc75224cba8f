"""Jobs in this process, one after the other."""

from __future__ import annotations

from collections.abc import Collection

from poolcli.batch.executors.table import Outcomes
from poolcli.batch.task import Runner, Task
from poolcli.core.stop import check_stopped
from poolcli.job.pool_file import Progress


def run(tasks: Collection[Task], runner: Runner, count: int, progress: Progress) -> Outcomes:
    """The outcomes in the order of the tasks."""
    for number, task in enumerate(tasks):
        yield number, runner(task, progress)
        check_stopped()
