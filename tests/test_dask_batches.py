"""Batches of tasks for a cluster, held against one that does all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from poolcli import FileError
from poolcli.runs.executors import dask as module
from poolcli.runs.executors.dask import BatchedTasks


def tenfold(numbers: Sequence[int]) -> list[int]:
    """Work that can be pickled."""
    return [10 * number for number in numbers]


class KilledError(Exception):
    """What a batch ends with whose workers were killed."""


@dataclass(eq=False)
class Finished:
    """A future whose batch has run."""

    found: Any = None
    error: Exception | None = None
    status: str = "finished"

    def exception(self) -> Exception | None:
        return self.error

    def result(self) -> Any:
        return self.found


class Cluster:
    """A client, and the completed futures, of a cluster that does all at once, and dies of `deadly` items."""

    loop, deadly = None, frozenset[int]()

    def __init__(self) -> None:
        self.sizes: list[list[int]] = []
        self.completed: list[Any] = []

    def nthreads(self) -> dict[str, int]:
        return {"one": 1, "two": 1}

    def map(self, function: Any, messages: list[Any], **_: object) -> list[Any]:
        assert all(type(part) is bytes for message in messages for part in message)
        found = [function(message) for message in messages]
        self.sizes.append([len(each) for each in found])
        dead = [self.deadly.intersection(each) for each in found]
        return [Finished(each, KilledError() if gone else None) for each, gone in zip(found, dead, strict=True)]

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


def test_few_batches_are_in_flight_and_the_last_ones_are_small(cluster: Cluster) -> None:
    found = dict(BatchedTasks(cluster, tenfold, iter(range(300)), 300, 16).results())
    assert found == {number: 10 * number for number in range(300)}
    assert cluster.sizes[0] == [16, 16, 16, 15, 14, 13, 13, 12]
    assert {len(sizes) for sizes in cluster.sizes[1:]} == {1}
    assert cluster.sizes[-1] == [1]


def test_only_what_workers_die_of_alone_is_given_up(cluster: Cluster) -> None:
    cluster.deadly = frozenset({70})
    found = dict(BatchedTasks(cluster, tenfold, iter(range(64)), 64, 16).results())
    assert [number for number in range(64) if found[number] != 10 * number] == [7]
    assert isinstance(found[7], KilledError)


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
            dict(BatchedTasks(cluster, tenfold, iter(range(9)), 9, 2, resumable).results())
        assert str(caught.value) == f"the scheduler of the cluster is gone{more}"


def test_a_run_ends_once_there_have_been_no_workers_for_some_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ASK_SECONDS", 0)
    monkeypatch.setattr(module, "SECONDS_WITHOUT_WORKERS", 0.1)
    monkeypatch.setattr(cluster, "update", lambda futures: monkeypatch.setattr(cluster, "nthreads", dict))
    with pytest.raises(FileError, match=r"^the cluster has had no workers for 0\.1 s$"):
        dict(BatchedTasks(cluster, tenfold, iter(range(9)), 9, 2).results())
