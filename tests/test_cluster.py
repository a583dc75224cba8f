"""Runs on a Dask cluster of two processes on this machine: the same outputs, whatever happens to the workers."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolcli import AvgPool, FileError, MaxPool, PoolError
from poolcli.formats import Source
from poolcli.pooling.outcome import Job, Outcome, Settings
from poolcli.runs import Runner, dask as executor
from tests.cli.folders import counts
from tests.clusters import client_of, nothing

pytestmark = pytest.mark.heavy

OP = AvgPool(2, strides=2)
slow = pytest.mark.slow


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Twelve arrays."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for i in range(12):
        np.save(f"in/{i}.npy", np.full((1, 1, 4, 4), i, np.float32))
    return [Job(Source(f"in/{i}.npy"), f"out/{i}.npy") for i in range(12)]


@dataclass(frozen=True)
class Napping(Runner):
    """Takes half a second for each job."""

    def __call__(self, job: Job, progress: Any) -> Outcome:
        time.sleep(0.5)
        return super().__call__(job, progress)


@dataclass(frozen=True)
class Deadly(Runner):
    """Dies of one job."""

    def __call__(self, job: Job, progress: Any) -> Outcome:
        if job.source.path == "in/7.npy":
            os._exit(9)
        return super().__call__(job, progress)


def wait_until(holds: Callable[[], object]) -> bool:
    """Whether something holds within a minute."""
    for _ in range(600):
        if holds():
            return True
        time.sleep(0.1)
    return False


def has_ended(group: int) -> bool:
    """Whether all processes of a group have ended."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@slow
def test_a_cluster_gives_the_files_and_the_manifest_of_one_machine(address: str, jobs: list[Job], cli: Any) -> None:
    for folder, more in ("here", []), ("there", ["--cluster", address]), ("local", ["--cluster", "local:2"]):
        result = cli("max", "in", "-o", f"{folder}/", "-k", "2", "-s", "2", *more)
        assert (result.code, counts(result), result.err) == (0, "12 done, 0 skipped, 0 failed", "")
    for folder in "there", "local":
        for name in (f"{i}.npy" for i in range(12)):
            assert Path(folder, name).read_bytes() == Path("here", name).read_bytes()
    Path("there/3.npy").unlink()
    result = cli("max", "in", "-o", "there/", "-k", "2", "-s", "2", "--resume", "--cluster", address)
    assert (result.code, counts(result)) == (0, "1 done, 11 skipped, 0 failed")
    assert Path("there/3.npy").read_bytes() == Path("here/3.npy").read_bytes()


@slow
def test_workers_that_are_killed_cost_a_second_try_and_nothing_else(
    address: str, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[int, Outcome] = {}
    with client_of(monkeypatch) as clients:
        for number, outcome in executor.run(jobs, Napping(OP, Settings()), 2, nothing, address):
            if not found:
                os.kill(next(iter(clients[0].run(os.getpid).values())), signal.SIGKILL)
            found[number] = outcome
    assert [found[i].error for i in range(12)] == [None] * 12
    assert [np.load(f"out/{i}.npy").tolist() for i in range(12)] == [[[[[i, i], [i, i]]]] for i in range(12)]


@slow
def test_only_the_job_that_workers_die_of_fails(address: str, jobs: list[Job]) -> None:
    found = dict(executor.run(jobs, Deadly(OP, Settings()), 2, nothing, address))
    assert [i for i in range(12) if found[i].error] == [7]
    assert str(found[7].error) == (
        "in/7.npy: every worker that processed it died; the file is damaged, or there is too little memory for it"
    )


@slow
def test_what_is_left_when_a_run_is_stopped_is_taken_back(address: str, jobs: list[Job]) -> None:
    outcomes = executor.run(jobs, Napping(OP, Settings()), 2, nothing, address)
    next(outcomes)
    with pytest.raises(KeyboardInterrupt):
        outcomes.throw(KeyboardInterrupt)
    time.sleep(1)
    assert len(os.listdir("out")) < 12  # what was running has ended, no other task was begun


@slow
def test_an_interrupted_run_ends_its_workers_and_can_be_continued(jobs: list[Job], tmp_path: Path) -> None:
    for i in range(12):
        np.save(f"in/{i}.npy", np.random.default_rng(i).random((1, 4, 256, 256)))
    words = [sys.executable, "-m", "poolcli", "avg", "in", "-o", "out/", "-k", "31", "--engine", "numpy"]
    run = subprocess.Popen([*words, "--cluster", "local:2"], stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert wait_until(Path("out/0.npy").exists)
    os.killpg(run.pid, signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert said == "poolcli: interrupted\n"
    assert wait_until(lambda: has_ended(run.pid))
    assert subprocess.run([*words, "--resume", "-q"]).returncode == 0
    assert len(os.listdir("out")) == 12 + 1


@slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")
def test_an_interrupted_start_leaves_no_process_no_folder_and_one_line(
    jobs: list[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a terminal is sent to the workers, too, which may be importing their packages."""
    Path("tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    words = [sys.executable, "-m", "poolcli", "avg", "in", "-o", "out/", "-k", "2", "--cluster", "local:2"]
    run = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert wait_until(lambda: workers_in(run.pid))
    time.sleep(0.3)  # a worker installs its own handlers last
    os.killpg(run.pid, signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert (run.returncode, said) == (130, "poolcli: interrupted\n")
    assert wait_until(lambda: has_ended(run.pid))
    assert os.listdir("tmp") == []


def workers_in(session: int) -> list[str]:
    """The processes of a session that multiprocessing has started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            own = int((process / "stat").read_text().rpartition(")")[2].split()[3])
            words = (process / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        if own == session and "spawn_main" in words:
            found.append(words)
    return found


@slow
def test_workers_with_other_versions_are_refused_by_name(address: str, jobs: list[Job], monkeypatch: Any) -> None:
    monkeypatch.setattr("poolcli.runs.cluster.version", lambda name: "0.0.1" if name == "numpy" else version(name))
    with pytest.raises(PoolError) as refused:
        list(executor.run(jobs[:1], Runner(OP, Settings()), 2, nothing, address))
    worker = str(refused.value).split()[2]
    assert str(refused.value) == (
        f"the worker {worker} has numpy {np.__version__}, but this process has numpy 0.0.1; install the same everywhere"
    )
    assert worker.startswith("tcp://127.0.0.1:")


@slow
def test_folders_that_workers_do_not_see_are_named(address: str, jobs: list[Job], monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "getcwdb", lambda: b"/nowhere")
    ((_, outcome),) = executor.run(jobs[:1], Runner(OP, Settings()), 2, nothing, address)
    assert str(outcome.error) == (
        "in/0.npy: /nowhere: a worker cannot use this folder (No such file or directory); all must see the same"
    )


def test_a_message_to_a_worker_is_small_and_knows_no_other_job() -> None:
    runner = Runner(MaxPool(3, strides=2), Settings(), "options", "out")
    sent = pickle.dumps((runner, [Job(Source("in/1.npy"), "out/1.npy")]))
    assert len(sent) < 1500


def test_a_cluster_that_nobody_answers_at_is_named(jobs: list[Job], monkeypatch: Any) -> None:
    monkeypatch.setattr("poolcli.runs.cluster.CONNECT_SECONDS", 0.2)
    with pytest.raises(FileError, match=r"^tcp://127\.0\.0\.1:9: no scheduler answers there \(OSError\)$"):
        list(executor.run(jobs[:1], Runner(OP, Settings()), 1, nothing, "tcp://127.0.0.1:9"))


@pytest.mark.parametrize(("word", "packages"), [("local:2", "distributed cryptography"), ("tcp://x:1", "distributed")])
def test_packages_that_a_cluster_needs_are_named(
    word: str, packages: str, folder: Path, cli: Any, monkeypatch: Any
) -> None:
    for name in ("distributed", "cryptography"):
        monkeypatch.setitem(sys.modules, name, None)
    result = cli("avg", "x.npy", "-o", "y.npy", "-k", "2", "--cluster", word)
    said = f"poolcli: --cluster {word} runs on Dask: pip install {packages}\n"
    assert (result.code, result.out, result.err) == (2, "", said)
