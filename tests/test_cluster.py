"""Runs on a Dask cluster of two processes on this machine: the same outputs, whatever happens to the workers."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolcli import AvgPool, FileError, MaxPool, PoolError
from poolcli.batch.executors import cluster as clusters
from poolcli.batch.executors import dask as executor
from poolcli.batch.manifest import NAME
from poolcli.batch.task import Runner, Task
from poolcli.formats import Source
from poolcli.formats.records import Metadata, ReadOptions, Spec, WriteOptions
from poolcli.formats.zarr.documents import made
from poolcli.formats.zarr.store import store_of
from poolcli.formats.zarr.write import writer_of
from poolcli.job.blocks import Blocks
from poolcli.job.job import Job
from poolcli.job.outcome import Outcome, Settings
from poolcli.job.spread import Parts

OP = AvgPool(2, 2)
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler and two workers, as `dask scheduler` and `dask worker` start them; a worker may die once."""
    import dask
    import distributed

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(  # type: ignore[no-untyped-call]  # it has no types
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=100
        ) as found,
    ):
        yield found.scheduler_address


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

    def __call__(self, task: Task, progress: Any) -> Outcome:
        time.sleep(0.5)
        return super().__call__(task, progress)


@dataclass(frozen=True)
class Deadly(Runner):
    """Dies of one job."""

    def __call__(self, task: Task, progress: Any) -> Outcome:
        if task.job.source.path == "in/7.npy":
            os._exit(9)
        return super().__call__(task, progress)


def ended(group: int) -> bool:
    """Whether all processes of a group end within some seconds."""
    for _ in range(50):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def nothing(done: int, total: int) -> None:
    """No progress is shown."""


@contextmanager
def client_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The clients that runs connect with meanwhile."""
    seen: list[Any] = []
    connected = clusters.connected

    @contextmanager
    def watched(word: str) -> Iterator[Any]:
        with connected(word) as client:
            seen.append(client)
            yield client

    monkeypatch.setattr("poolcli.batch.executors.dask.connected", watched)
    yield seen


@slow
def test_a_cluster_gives_the_files_and_the_manifest_of_one_machine(address: str, jobs: list[Job], cli: Any) -> None:
    for folder, more in ("here", []), ("there", ["--cluster", address]), ("local", ["--cluster", "local:2"]):
        result = cli("max", "in", "-o", f"{folder}/", "-k", "2", "-s", "2", *more)
        assert (result.code, result.out, result.err) == (0, "12 done, 0 skipped, 0 failed\n", "")
    for folder in "there", "local":
        for name in [*(f"{i}.npy" for i in range(12)), NAME]:
            assert Path(folder, name).read_bytes() == Path("here", name).read_bytes()
    Path("there/3.npy").unlink()
    result = cli("max", "in", "-o", "there/", "-k", "2", "-s", "2", "--resume", "--cluster", address)
    assert (result.code, result.out) == (0, "1 done, 11 skipped, 0 failed\n")
    assert Path("there/3.npy").read_bytes() == Path("here/3.npy").read_bytes()


@slow
def test_workers_that_are_killed_cost_a_second_try_and_nothing_else(
    address: str, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[int, Outcome] = {}
    with client_of(monkeypatch) as clients:
        for number, outcome in executor.run([Task(job) for job in jobs], Napping(OP, Settings()), 2, nothing, address):
            if not found:
                os.kill(next(iter(clients[0].run(os.getpid).values())), signal.SIGKILL)
            found[number] = outcome
    assert [found[i].error for i in range(12)] == [None] * 12
    assert [np.load(f"out/{i}.npy").tolist() for i in range(12)] == [[[[[i, i], [i, i]]]] for i in range(12)]


@slow
def test_only_the_job_that_workers_die_of_fails(address: str, jobs: list[Job]) -> None:
    found = dict(executor.run([Task(job) for job in jobs], Deadly(OP, Settings()), 2, nothing, address))
    assert [i for i in range(12) if found[i].error] == [7]
    assert str(found[7].error) == (
        "in/7.npy: the workers that worked on it died, one after the other; the file is damaged, or the memory too "
        "small for it"
    )


@slow
def test_what_was_done_when_a_run_is_stopped_is_told_and_the_rest_is_taken_back(address: str, jobs: list[Job]) -> None:
    outcomes = executor.run([Task(job) for job in jobs], Napping(OP, Settings()), 2, nothing, address)
    first = next(outcomes)
    for _ in range(300):
        if len(os.listdir("out")) > 1:
            break
        time.sleep(0.1)
    time.sleep(0.5)  # by now another one is done, and told
    heard = [first[0]]
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  # it is raised when the outcomes are through
        heard.append(outcomes.throw(KeyboardInterrupt)[0])
        for number, _ in outcomes:
            heard.append(number)
    assert len(heard) >= 2
    assert len(set(heard)) == len(heard) < 12
    time.sleep(1)
    assert len(os.listdir("out")) <= len(heard) + 2 * 2  # what was running has ended, no other message was begun


OPERATORS: dict[str, tuple[str, ...]] = {
    "avg": ("avg", "-k", "3", "-s", "2", "-p", "1"),
    "avg of rows in blocks": ("avg", "-k", "2,9,9"),
    "max": ("max", "-k", "2", "-s", "2"),
    "min": ("min", "-k", "3", "-s", "1", "--dilations", "2"),
    "mode": ("mode", "-k", "2", "-s", "2", "--rounding-type", "ceil"),
    "adaptive-avg": ("adaptive-avg", "--output-size", "9,40,40"),
}
LITTLE = ("--max-memory", "3M", "-q")  # so that parts are small, and many


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Zarr array of 61x67x71."""
    import zarr

    monkeypatch.chdir(tmp_path)
    array: Any = zarr.create_array("in.zarr", shape=(1, 2, 61, 67, 71), chunks=(1, 1, 16, 32, 20), dtype="uint16")
    array[:] = np.random.default_rng(0).integers(0, 999, array.shape, "uint16")
    return tmp_path


def tree(folder: str) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


@slow
@pytest.mark.parametrize(
    "more", [("--chunks", "1,1,16,16,16"), ("--chunks", "8", "--shards", "16")], ids=["", "shards"]
)
def test_one_array_is_shared_out_and_comes_out_the_same(address: str, volume: Path, cli: Any, more: Any) -> None:
    for name, words in OPERATORS.items():
        for output, where in ("here.zarr", []), ("there.zarr", ["--cluster", address]):
            result = cli(*words, "in.zarr", "-o", output, *LITTLE, *more, *where, "--overwrite")
            assert result.code == 0, (name, result.err)
        assert tree("there.zarr") == tree("here.zarr"), name


@slow
@pytest.mark.parametrize("base", ["previous", "source"])
@pytest.mark.parametrize("more", [("--chunks", "8"), ("--chunks", "8", "--shards", "16")], ids=["", "shards"])
def test_the_levels_of_a_pyramid_are_shared_out_and_come_out_the_same(
    address: str, volume: Path, cli: Any, base: str, more: Any
) -> None:
    words = ("pyramid", "in.zarr", "--levels", "4", "--from", base, "--op", "mode", *LITTLE, *more)
    for folder, where in ("here", []), ("there", ["--cluster", address]):
        result = cli(*words, "-o", f"{folder}/y.ome.zarr", *where)
        assert (result.code, result.err) == (0, "")
    assert len(tree("here")) > 50
    assert tree("there") == tree("here")


@slow
def test_regions_survive_workers_that_are_killed(
    address: str, volume: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("avg", "-k", "9", "in.zarr", "-o", "here.zarr", *LITTLE).code == 0
    workers, finished = list[int](), list[int]()

    def progress(done: int, total: int) -> None:
        finished.append(done)
        if len(finished) == 1:
            clients[0].wait_for_workers(2, timeout=300)  # one that was killed before may still be on its way
            workers.extend(clients[0].run(os.getpid).values())
        if len(finished) in (1, 4):
            os.kill(workers.pop(), signal.SIGKILL)

    job = Job(Source("in.zarr"), "there.zarr")
    runner = Runner(AvgPool(9), Settings(max_memory=3 * 2**20))
    with client_of(monkeypatch) as clients:
        ((_, outcome),) = executor.run([Task(job)], runner, 2, progress, address)
    assert (outcome.error, workers) == (None, [])
    assert tree("there.zarr") == tree("here.zarr")


@slow
def test_regions_of_a_run_that_was_stopped_are_not_made_again(
    address: str, volume: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("avg", "-k", "9", "in.zarr")
    assert cli(*words, "-o", "here.zarr", *LITTLE).code == 0
    monkeypatch.setattr("poolcli.formats.continued.NOTE_EVERY", 0)
    monkeypatch.setattr("poolcli.job.write.TILE", 0)
    runner = Runner(AvgPool(9), Settings(max_memory=3 * 2**20, resume=True))

    def parts(output: str, most: int) -> int:
        """How many parts are made, at most so many."""
        done = list[int]()

        def stop(now: int, total: int) -> None:
            done.append(now)
            if len(done) == most:
                raise KeyboardInterrupt

        ((_, outcome),) = executor.run([Task(Job(Source("in.zarr"), output))], runner, 2, stop, address)
        assert outcome.error is None
        return len(done)

    every = parts("whole.zarr", 10**6)
    with pytest.raises(KeyboardInterrupt):
        parts("there.zarr", 6)
    assert not Path("there.zarr").exists()
    assert parts("there.zarr", 10**6) == every - 6
    assert tree("there.zarr") == tree("whole.zarr") == tree("here.zarr")


@slow
def test_an_interrupted_run_ends_its_workers_and_can_be_continued(jobs: list[Job], tmp_path: Path) -> None:
    for i in range(12):
        np.save(f"in/{i}.npy", np.random.default_rng(i).random((1, 4, 256, 256)))
    words = [sys.executable, "-m", "poolcli", "avg", "in", "-o", "out/", "-k", "31", "--engine", "numpy"]
    run = subprocess.Popen([*words, "--cluster", "local:2"], stderr=subprocess.PIPE, text=True, start_new_session=True)
    for _ in range(600):
        if Path("out/0.npy").exists():
            break
        time.sleep(0.1)
    os.killpg(run.pid, signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert said.startswith("poolcli: stopped: ")
    assert said.endswith(" left; --resume goes on\n")
    assert said.count("\n") == 1
    assert ended(run.pid)
    assert subprocess.run([*words, "--resume", "-q"]).returncode == 0
    assert len(os.listdir("out")) == 12 + 1


@slow
def test_workers_with_other_versions_are_refused_by_name(address: str, jobs: list[Job], monkeypatch: Any) -> None:
    monkeypatch.setattr(clusters, "_version", lambda name: "0.0.1" if name == "numpy" else version(name))
    with pytest.raises(PoolError) as refused:
        list(executor.run([Task(jobs[0])], Runner(OP, Settings()), 2, nothing, address))
    worker = str(refused.value).split()[2]
    assert str(refused.value) == (
        f"the worker {worker} has numpy {np.__version__}, this process numpy 0.0.1; install the same everywhere"
    )
    assert worker.startswith("tcp://127.0.0.1:")


@slow
def test_folders_that_workers_do_not_see_are_named(address: str, jobs: list[Job], monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/nowhere")
    ((_, outcome),) = executor.run([Task(jobs[0])], Runner(OP, Settings()), 2, nothing, address)
    assert str(outcome.error) == (
        "in/0.npy: /nowhere: a worker cannot use this folder (No such file or directory); all must see the same"
    )


def test_a_message_to_a_worker_is_small_and_knows_no_other_job() -> None:
    runner = Runner(MaxPool(3, 2), Settings(), "options", "out")
    sent = pickle.dumps((runner, [Task(Job(Source("in/1.npy"), "out/1.npy"))]))
    assert len(sent) < 1500


@slow
def test_no_message_holds_the_credentials_of_an_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDSECRET")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "TOPSECRET")
    plan, spec = OP.plan((1, 1, 64, 64), "uint8"), Spec((1, 1, 32, 32), "uint8", "NCHW", None, Metadata())
    writer = writer_of(
        "s3://bucket/y.zarr", store_of("s3://bucket/y.zarr", read_only=False), made(spec, WriteOptions())
    )
    parts = Parts(
        Source("s3://bucket/x.zarr"), ReadOptions(), plan, False, "numba", Blocks(plan, (1, 1, 8, 8)), (writer,)
    )
    sent = pickle.dumps(parts)
    assert b"bucket" in sent
    assert b"SECRET" not in sent
    assert len(sent) < 6000


def test_a_cluster_that_nobody_answers_at_is_named(jobs: list[Job], monkeypatch: Any) -> None:
    monkeypatch.setattr(clusters, "PATIENCE", 0.2)
    with pytest.raises(FileError, match=r"^tcp://127\.0\.0\.1:9: no scheduler answers there \(OSError\)$"):
        list(executor.run([Task(jobs[0])], Runner(OP, Settings()), 1, nothing, "tcp://127.0.0.1:9"))


@pytest.mark.parametrize(
    "word", ["nowhere", "local:0", "local:", "tcp://host", "tcp://user:secret@host:1", "http://host:1"]
)
def test_a_word_that_names_no_cluster_is_refused(word: str, folder: Path, cli: Any) -> None:
    result = cli("avg", "x.npy", "-o", "y.npy", "-k", "2", "--cluster", word)
    said = f"poolcli: --cluster is '{word}'; write local, local:4 or tcp://HOST:PORT\n"
    assert (result.code, result.out, result.err) == (2, "", said)
