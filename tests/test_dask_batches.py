"""Tasks for a cluster, held against one that does all at once."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from poolcli import FileError
from poolcli.runs import dask as module
from poolcli.runs.dask import compute


def tenfold(number: int) -> int:
    """Work that can be pickled."""
    return 10 * number


class KilledError(Exception):
    """What a task ends with whose workers were killed."""


@dataclass(eq=False)
class Finished:
    """A future whose task has run."""

    found: Any = None
    error: Exception | None = None
    status: str = "finished"

    def exception(self) -> Exception | None:
        return self.error

    def result(self) -> Any:
        return self.found


class Cluster:
    """A client, and the completed futures, of a cluster that does all at once, and dies of `deadly` items."""

    loop, status, deadly = None, "running", frozenset[int]()

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.completed: list[Any] = []

    def nthreads(self) -> dict[str, int]:
        return {"one": 1, "two": 1}

    def map(self, function: Any, messages: list[Any], **_: object) -> list[Any]:
        assert all(type(part) is bytes for message in messages for part in message)
        found = [function(message) for message in messages]
        self.sizes.append(len(found))
        return [Finished(each, KilledError() if each in self.deadly else None) for each in found]

    def cancel(self, futures: list[Any], force: bool) -> None:
        self.completed.clear()

    def update(self, futures: list[Any]) -> None:
        self.completed += futures

    def next_batch(self, block: bool) -> list[Any]:
        return [self.completed.pop(0)] if self.completed else []


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr(
        module, "distributed", SimpleNamespace(as_completed=lambda loop: found, KilledWorker=KilledError)
    )
    return found


def test_few_tasks_are_in_flight(cluster: Cluster) -> None:
    assert dict(compute(cluster, tenfold, iter(range(300)))) == {number: 10 * number for number in range(300)}
    assert cluster.sizes == [16, *[1] * 284]


def test_only_what_workers_die_of_alone_is_given_up(cluster: Cluster) -> None:
    cluster.deadly = frozenset({70})
    found = dict(compute(cluster, tenfold, iter(range(64))))
    assert [number for number in range(64) if found[number] != 10 * number] == [7]
    assert isinstance(found[7], KilledError)


def test_a_cluster_without_workers_ends_the_run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "nthreads", lambda self: {})
    monkeypatch.setattr(Cluster, "next_batch", lambda self, block: [])
    monkeypatch.setattr(module, "ASK_SECONDS", 0)
    monkeypatch.setattr(module, "SECONDS_WITHOUT_WORKERS", 0.1)
    with pytest.raises(FileError, match="the cluster has had no workers for"):
        dict(compute(cluster, tenfold, iter(range(9))))


@pytest.mark.parametrize("question", ["nthreads", "map", "next_batch"])
@pytest.mark.parametrize("error", [CancelledError, asyncio.CancelledError, ConnectionRefusedError])
def test_a_scheduler_that_has_gone_is_one_line(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, question: str, error: type[BaseException]
) -> None:
    def gone(*_: object, **__: object) -> None:
        raise error("lost")

    monkeypatch.setattr(cluster, question, gone)
    for resumable, more in (True, "; resume continues the run"), (False, ""):
        with pytest.raises(FileError) as caught:
            dict(compute(cluster, tenfold, iter(range(9)), resumable=resumable))
        assert str(caught.value) == f"the scheduler of the cluster is gone{more}"
