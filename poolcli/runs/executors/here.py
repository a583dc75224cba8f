"""Jobs in this process, one after the other."""

from __future__ import annotations

from collections.abc import Collection

from poolcli.pooling.pool_file import Progress
from poolcli.runs.executors.table import Outcomes
from poolcli.runs.task import Runner, Task
from poolcli.system.signals import check_stopped


def run(tasks: Collection[Task], runner: Runner, count: int, progress: Progress) -> Outcomes:
    """The outcomes in the order of the tasks."""
    for number, task in enumerate(tasks):
        yield number, runner(task, progress)
        check_stopped()
