"""What every executor promises: each outcome once, all that was done when it is stopped, and nothing left running."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from poolcli import AvgPool, FileError
from poolcli.engine import choose
from poolcli.formats import Source
from poolcli.pooling.outcome import Job, Outcome, Settings
from poolcli.pooling.tiles import Progress
from poolcli.runs import EXECUTORS, Manifest, Runner, load_executor, run_all
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
    found = dict(load_executor(name)(jobs, Runner(OP, Settings()), 2, nothing))
    assert [found[i].job for i in range(4)] == jobs
    assert [found[i].error is None for i in range(4)] == [True, True, False, True]
    assert sorted(os.listdir("out")) == ["0.npy", "1.npy", "3.npy"]
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("name", ROWS)
def test_what_is_left_early_leaves_nothing_running(name: str, jobs: list[Job]) -> None:
    with closing(load_executor(name)(jobs, Runner(OP, Settings()), 2, nothing)) as outcomes:
        next(outcomes)
    assert multiprocessing.active_children() == []
    assert not [name for name in os.listdir("out") if name.endswith(".part")]


def test_outcomes_come_in_the_order_of_the_jobs_and_are_recorded_as_they_come(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(jobs: Iterable[Job], runner: Runner, count: int, progress: object) -> Iterator[tuple[int, Outcome]]:
        given = list(jobs)
        for number in (3, 0, 1):
            yield number, runner(given[number], nothing)
        raise KeyboardInterrupt

    monkeypatch.setattr("poolcli.runs.run_here", run)
    told = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  # it is raised when the outcomes are through
        for outcome in run_all(jobs, OP, Settings(), executor="here", count=1, folder="out", progress=nothing):
            told.append(outcome.job.output)
    assert told == ["out/0.npy", "out/1.npy"]
    assert sorted(Manifest("out").records()) == ["0.npy", "1.npy", "3.npy"]


@dataclass(frozen=True)
class DiesOnce(Runner):
    """Ends its process when its first job is done and not yet reported, in whichever process that is."""

    def __call__(self, job: Job, progress: Progress) -> Outcome:
        outcome = super().__call__(job, progress)
        try:
            Path("died").touch(exist_ok=False)
        except FileExistsError:
            return outcome
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("was killed")


@pytest.mark.parametrize("output", ["npy", "zarr"])
@pytest.mark.parametrize("name", [name for name in ROWS if name != "here"])
def test_a_retried_task_recognises_the_output_of_its_predecessor(name: str, output: str, jobs: list[Job]) -> None:
    given = [replace(job, output=f"out/{number}.{output}") for number, job in enumerate(jobs) if number != 2]
    found = dict(load_executor(name)(given, DiesOnce(OP, Settings()), 2, nothing))
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
    found = dict(load_executor("workers")(jobs[:1], Runner(OP, Settings()), 1, nothing))
    assert (found[0].error is None, os.listdir("out")) == (bool(left), left)


def test_what_workers_announce_is_said_by_their_parent(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    def pool(job: Job, progress: Progress) -> Outcome:
        choose.announce(job.source.path)
        return Outcome(job)

    told = list[str]()
    monkeypatch.setattr(choose, "announce", told.append)
    assert len([*load_executor("workers")(jobs, pool, 2, nothing)]) == 4
    assert sorted(told) == sorted(os.listdir())


def test_a_folder_that_cannot_be_made_is_named_before_anything_runs(jobs: list[Job]) -> None:
    with pytest.raises(FileError, match=r"^/proc/nothing/\.poolcli\.jsonl: No such file or directory$"):
        list(run_all(jobs, OP, Settings(), executor="here", count=1, folder="/proc/nothing", progress=nothing))
