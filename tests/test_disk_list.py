"""Runs over more inputs than memory holds: lists on disk, sorted and joined without being held."""

from __future__ import annotations

import gc
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolcli import FileError
from poolcli.pooling.outcome import Job, Outcome, Record
from poolcli.runs import run_all
from poolcli.runs.task import Runner, Task, name_in
from poolcli.system import disk_list
from poolcli.system.disk_list import DiskList, externally_sorted


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that holds next to nothing."""
    for name, size in (("HELD", 8), ("RUN", 64), ("BATCH", 2)):
        monkeypatch.setattr(disk_list, name, size)
    monkeypatch.setattr("poolcli.runs.manifest.AT_ONCE", 10)


@given(st.lists(st.integers(0, 9), max_size=200))
def test_what_lies_on_disk_comes_back_and_is_sorted_as_in_memory(small: None, numbers: list[int]) -> None:
    items = list(enumerate(numbers))
    found = DiskList(items)
    assert (len(found), list(found), list(found)) == (len(items), items, items)
    assert list(externally_sorted(items, lambda item: item[1])) == sorted(items, key=lambda item: item[1])


def test_a_full_disk_of_temporary_files_is_named(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(FileError) as caught:
        DiskList(range(100))
    assert str(caught.value) == ("the folder of temporary files: No space left on device; name another one with TMPDIR")


@pytest.mark.parametrize("circle", [False, True], ids=["", "in a circle"])
def test_the_file_of_a_list_that_nobody_holds_is_closed_before_python_warns_of_it(small: None, circle: bool) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found: list[Any] = [DiskList(range(100))]
        if circle:
            found[0].circle = found
        del found
        gc.collect()
    assert [str(each.message) for each in said if each.category is ResourceWarning] == []


@pytest.fixture
def stubbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that do nothing but make an empty output, where all around them is as ever."""

    def run_job(job: Job, *_: object) -> Outcome:
        Path(str(job.output)).touch()
        return Outcome(job)

    def record_of(job: Job, options: str, folder: str) -> Record:
        return Record(str(name_in(folder, job.output)), None, job.source.path, 0, 0, options, "", None)

    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    monkeypatch.setattr("poolcli.runs.task.run_job", run_job)
    monkeypatch.setattr("poolcli.runs.task.record_of", record_of)
    monkeypatch.setattr("poolcli.runs.task.is_current", lambda *_: True)
    monkeypatch.setattr("poolcli.cli.pooling.choose_executor", lambda *_: "here")


def named(folder: str, count: int) -> str:
    os.mkdir(folder)
    for number in range(count):
        Path(folder, f"{number}.npy").touch()
    return folder


@pytest.mark.parametrize("more", [(), ("--resume",)], ids=["", "resume"])
def test_few_jobs_and_records_are_in_memory_at_once(
    small: None, stubbed: None, cli: Any, more: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    named("in", 500)
    words = "max", "in", "-o", "out/", "-k", "2", "-s", "2"
    assert not more or cli(*words).code == 0
    alive = list[int]()

    run = Runner.__call__

    def running(self: Runner, task: Task, progress: Any) -> Outcome:
        if len(alive) % 101 == 0:
            alive.append(sum(type(each) in (Job, Task, Record) for each in gc.get_objects()))
        alive.append(0)
        return run(self, task, progress)

    monkeypatch.setattr(Runner, "__call__", running)
    said = cli(*words, *more).out
    assert said == ("0 done, 500 skipped" if more else "500 done, 0 skipped") + ", 0 failed\n"
    assert 0 < max(alive) < 60


def test_no_more_than_some_outcomes_wait_for_one_that_takes_long(
    stubbed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_all, "MOST_READY", 2)
    jobs = [Outcome(Job(Task.__name__, str(i))) for i in range(6)]  # type: ignore[arg-type]  # no source is read
    order = [3, 1, 2, 5, 0, 4]
    found = run_all._in_order((number, jobs[number]) for number in order)
    assert [jobs.index(outcome) for outcome in found] == [1, 2, 3, 0, 4, 5]
