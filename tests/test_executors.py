"""What every executor promises: each outcome once, all that was done when it is stopped, and nothing left running."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from poolcli import AvgPool, FileError
from poolcli.formats import Source
from poolcli.pooling.outcome import Job, Outcome, Settings
from poolcli.pooling.tiles import Progress
from poolcli.runs import run_all
from poolcli.runs.executors import EXECUTORS, Runner, Task, load_executor
from poolcli.runs.manifest import Manifest
from tests.profiles import slow

OP = AvgPool(2, strides=2)
ROWS = [slow(name) if name == "dask" else name for name in EXECUTORS]


def nothing(done: int, total: int) -> None:
    """No progress is shown."""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Four arrays, of which the third is broken."""
    monkeypatch.chdir(tmp_path)
    for i in range(4):
        np.save(f"{i}.npy", np.full((1, 1, 4, 4), i, np.float32))
    Path("2.npy").write_bytes(b"nonsense")
    return [Job(Source(f"{i}.npy"), f"out/{i}.npy") for i in range(4)]


@pytest.mark.parametrize("name", ROWS)
def test_each_outcome_comes_once_with_the_place_of_its_task(name: str, jobs: list[Job]) -> None:
    found = dict(load_executor(name)([Task(job) for job in jobs], Runner(OP, Settings()), 2, nothing))
    assert [found[i].job for i in range(4)] == jobs
    assert [found[i].error is None for i in range(4)] == [True, True, False, True]
    assert sorted(os.listdir("out")) == ["0.npy", "1.npy", "3.npy"]
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("name", ROWS)
def test_what_is_left_early_leaves_nothing_running(name: str, jobs: list[Job]) -> None:
    with closing(load_executor(name)([Task(job) for job in jobs], Runner(OP, Settings()), 2, nothing)) as outcomes:
        next(outcomes)
    assert multiprocessing.active_children() == []
    assert not [name for name in os.listdir("out") if name.endswith(".part")]


def test_outcomes_come_in_the_order_of_the_jobs_and_are_recorded_as_they_come(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(tasks: Iterable[Task], runner: Runner, count: int, progress: object) -> Iterator[tuple[int, Outcome]]:
        given = list(tasks)
        for number in (3, 0, 1):
            yield number, runner(given[number], nothing)
        raise KeyboardInterrupt

    monkeypatch.setattr("poolcli.runs.executors.run", run)
    told = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  # it is raised when the outcomes are through
        for outcome in run_all(jobs, OP, Settings(), executor="here", count=1, folder="out", progress=nothing):
            told.append(outcome.job.output)
    assert told == ["out/0.npy", "out/1.npy"]
    assert sorted(Manifest("out").records()) == ["0.npy", "1.npy", "3.npy"]


def test_an_outcome_that_no_pipe_takes_is_the_failure_of_its_task(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(job: Job, *_: object) -> Outcome:
        return replace(Outcome(job), engine=lambda: None)  # type: ignore[arg-type]  # what cannot be sent

    monkeypatch.setattr("poolcli.runs.executors.run_job", run)
    ((_, outcome),) = load_executor("workers")([Task(jobs[0])], Runner(OP, Settings()), 2, nothing)
    assert str(outcome.error).startswith("0.npy: failed (unexpected ")


@dataclass(frozen=True)
class DiesOnce(Runner):
    """Ends its process when its first job is done and not yet reported, in whichever process that is."""

    def __call__(self, task: Task, progress: Progress) -> Outcome:
        outcome = super().__call__(task, progress)
        try:
            Path("died").touch(exist_ok=False)
        except FileExistsError:
            return outcome
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("was killed")


@pytest.mark.parametrize("output", ["npy", "zarr"])
@pytest.mark.parametrize("name", [name for name in ROWS if name != "here"])
def test_a_retried_task_recognises_the_output_of_its_predecessor(name: str, output: str, jobs: list[Job]) -> None:
    tasks = [Task(replace(job, output=f"out/{number}.{output}")) for number, job in enumerate(jobs) if number != 2]
    found = dict(load_executor(name)(tasks, DiesOnce(OP, Settings()), 2, nothing))
    assert Path("died").exists()
    assert [found[number].error for number in range(3)] == [None] * 3
    assert len(os.listdir("out")) == 3


@pytest.mark.parametrize(("deaths", "left"), [(1, ["0.npy"]), (2, [])])
def test_a_worker_that_is_killed_while_it_gives_an_output_its_name_leaves_no_temporary_file(
    deaths: int, left: list[str], jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.replace

    def rename_and_die(source: str, target: str) -> None:
        if len(list(Path().glob("died*"))) < deaths:
            Path(f"died{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target)

    monkeypatch.setattr(os, "replace", rename_and_die)
    found = dict(load_executor("workers")([Task(jobs[0])], Runner(OP, Settings()), 1, nothing))
    assert (found[0].error is None, os.listdir("out")) == (bool(left), left)


def test_a_folder_that_cannot_be_made_is_named_before_anything_runs(jobs: list[Job]) -> None:
    with pytest.raises(FileError, match=r"^/proc/nothing/\.poolcli\.jsonl: No such file or directory$"):
        list(run_all(jobs, OP, Settings(), executor="here", count=1, folder="/proc/nothing", progress=nothing))


@pytest.mark.slow
@pytest.mark.parametrize(("path", "loaded"), [("x.jpg", ["PIL.JpegImagePlugin"]), ("x.h5", [])])
def test_what_workers_need_is_loaded_before_they_are_forked_unless_it_may_crash(path: str, loaded: list[str]) -> None:
    code = (
        "import sys; from poolcli.runs.executors import Task, workers; from poolcli.formats import Source\n"
        f"from poolcli.pooling.outcome import Job; workers._import_before_fork(Task(Job(Source({path!r}), None)))\n"
        "print(sorted({'PIL.JpegImagePlugin', 'h5py'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{loaded}\n"
