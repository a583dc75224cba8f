"""One array that is shared out to the workers of a Dask cluster: the same bits, whatever happens to them."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolcli import AvgPool
from poolcli.formats import Source
from poolcli.formats.records import Metadata, ReadOptions, Spec, WriteOptions
from poolcli.formats.zarr.library import array_at, open_store
from poolcli.formats.zarr.write import NewStore, ZarrWriter
from poolcli.plan.plan import Region, whole
from poolcli.pooling.outcome import Job, Settings
from poolcli.pooling.tiles import RemoteBlocks, Work, reading
from poolcli.runs import Runner, dask as executor, run_job
from poolcli.windows import Ranges
from tests.cli.folders import tree
from tests.clusters import client_of, decoded

pytestmark = pytest.mark.heavy

OP = AvgPool(2, strides=2)
slow = pytest.mark.slow

OPERATORS: dict[str, tuple[str, ...]] = {
    "avg, of which results move": ("avg", "-k", "3", "-s", "2", "-p", "1", "--missing", "500"),
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


@slow
def test_one_array_is_shared_out_and_comes_out_the_same(address: str, volume: Path, cli: Any) -> None:
    forms = cycle([("--chunks", "1,1,16,16,16"), ("--chunks", "8", "--shards", "16")])
    for (name, words), more in zip(OPERATORS.items(), forms, strict=False):
        for output, where in ("here.zarr", []), ("there.zarr", ["--cluster", address]):
            result = cli(*words, "in.zarr", "-o", output, *LITTLE, *more, *where, "--overwrite")
            assert result.code == 0, (name, result.err)
        assert decoded(Path("there.zarr")) == decoded(Path("here.zarr")), name


@slow
@pytest.mark.parametrize(
    ("base", "more"), [("source", ("--chunks", "8")), ("previous", ("--chunks", "8", "--shards", "16"))]
)
def test_the_levels_of_a_pyramid_are_shared_out_and_come_out_the_same(
    address: str, volume: Path, cli: Any, base: str, more: Any
) -> None:
    words = ("pyramid", "in.zarr", "--levels", "4", "--from", base, "--op", "mode", *LITTLE, *more)
    for folder, where in ("here", []), ("there", ["--cluster", address]):
        result = cli(*words, "-o", f"{folder}/y.ome.zarr", *where)
        assert (result.code, result.err) == (0, "")
    assert len(tree("here")) > 50
    assert decoded(Path("there")) == decoded(Path("here"))


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
        ((_, outcome),) = executor.run([job], runner, 2, progress, address)
    assert (outcome.error, workers) == (None, [])
    assert tree("there.zarr") == tree("here.zarr")


@slow
def test_regions_of_a_run_that_was_stopped_are_not_made_again(
    address: str, volume: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("avg", "-k", "9", "in.zarr")
    assert cli(*words, "-o", "here.zarr", *LITTLE).code == 0
    monkeypatch.setattr("poolcli.pooling.tiles.TILE_BYTES", 0)
    runner = Runner(AvgPool(9), Settings(max_memory=3 * 2**20, resume=True))

    def parts(output: str, most: int) -> int:
        """How many parts are made, at most so many."""
        done = list[int]()

        def stop(now: int, total: int) -> None:
            done.append(now)
            if len(done) == most:
                raise KeyboardInterrupt

        ((_, outcome),) = executor.run([Job(Source("in.zarr"), output)], runner, 2, stop, address)
        assert outcome.error is None
        return len(done)

    every = parts("whole.zarr", 10**6)
    with pytest.raises(KeyboardInterrupt):
        parts("there.zarr", 6)
    assert not Path("there.zarr").exists()
    assert parts("there.zarr", 10**6) <= every - 6  # regions that were begun have been finished
    assert tree("there.zarr") == tree("whole.zarr") == tree("here.zarr")


def test_progress_counts_what_other_processes_have_written_up_to_the_whole(volume: Path) -> None:
    told, wrote = list[tuple[int, int]](), list[int]()

    def distribute(parts: RemoteBlocks, blocks: Iterator[Ranges], done: Callable[..., None]) -> None:
        for outputs in blocks:
            found = parts(outputs)
            wrote.append(Region(parts.work.plan, outputs).nbytes)
            done(outputs, found)

    settings = Settings(max_memory=3 * 2**20, engine="numpy")
    op, job = AvgPool(9), Job(Source("in.zarr"), "out.zarr")
    outcome = run_job(job, op, settings, lambda *now: told.append(now), distribute)
    total = whole(op.plan((1, 2, 61, 67, 71), "uint16")).nbytes
    assert (outcome.error, sum(wrote) > total) == (None, True)
    assert told == [(min(sum(wrote[: i + 1]), total), total) for i in range(len(wrote))]


@slow
def test_no_message_holds_the_credentials_of_an_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDSECRET")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "TOPSECRET")
    plan, spec = OP.plan((1, 1, 64, 64), "uint8"), Spec((1, 1, 32, 32), "uint8", "NCHW", None, Metadata())
    url = "s3://bucket/y.zarr"
    ((key, metadata, unit, _),) = NewStore(url, [spec], WriteOptions()).arrays
    writer = ZarrWriter(url, array_at(open_store(url), key, metadata), unit)
    opener = partial(reading, Source("s3://bucket/x.zarr"), ReadOptions())
    parts = RemoteBlocks(opener, Work(plan, False, "numba", 1), (writer,))
    sent = pickle.dumps(parts)
    assert b"bucket" in sent
    assert b"SECRET" not in sent
    assert len(sent) < 6000


@slow
def test_no_worker_writes_any_more_when_a_run_has_failed(address: str, volume: Path) -> None:
    import distributed

    def full(done: int, total: int) -> None:
        raise OSError(28, "No space left on device")

    runner = Runner(AvgPool(9), Settings(max_memory=3 * 2**20, engine="numpy"))
    ((_, outcome),) = executor.run([Job(Source("in.zarr"), "out.zarr")], runner, 2, full, address)
    assert str(outcome.error) == "in.zarr: out.zarr: No space left on device"
    with distributed.Client(address, set_as_default=False) as client:
        assert not any(client.run(lambda dask_worker: len(dask_worker.state.executing)).values())
    assert os.listdir() == ["in.zarr"]
