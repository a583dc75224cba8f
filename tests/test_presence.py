"""A cluster that has lost all its workers: a run ends, and does not wait for others without end."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from poolcli import FileError
from poolcli.runs.executors import dask as flow
from poolcli.runs.executors.dask import Flow

pytestmark = pytest.mark.slow
TOO_LONG = 30  # seconds


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The client of one worker, which nothing starts again; whoever waits for too long is sent a Ctrl-C."""
    import distributed

    monkeypatch.setattr(flow, "CHECK_SECONDS", 0.1)
    end = threading.Timer(TOO_LONG, os.kill, (os.getpid(), signal.SIGINT))
    end.start()
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=100
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        monkeypatch.setattr(cluster.workers[0], "instantiate", lambda: asyncio.sleep(0))  # starts no other worker
        yield client
    end.cancel()


class Endless:
    """Does the first item at once; with the next it notes who works, and works for too long."""

    def __init__(self, folder: Path) -> None:
        self.note = folder / "worker"

    def __call__(self, numbers: Sequence[int]) -> list[int]:
        if numbers[0] > 0:
            self.note.write_text(str(os.getpid()))
            time.sleep(TOO_LONG)
        return list(numbers)


def test_a_run_ends_once_there_have_been_no_workers_for_some_time(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "SECONDS_WITHOUT_WORKERS", 0.5)
    work = Endless(tmp_path)
    work_flow = Flow(client, work, iter(range(9)), 9, 1)
    found = work_flow.results()
    assert next(found) == (0, 0)
    kill(work)
    with pytest.raises(FileError) as caught:
        list(found)
    assert str(caught.value) == "the cluster has had no workers for 0.5 s"
    assert list(work_flow.finished_results()) == []


def kill(work: Endless) -> None:
    """Kills the worker as soon as it is at work."""
    while not work.note.exists() or not re.fullmatch(r"\d+", work.note.read_text()):
        time.sleep(0.05)
    os.kill(int(work.note.read_text()), signal.SIGKILL)
