"""What goes to the scheduler of a cluster, and how often it is asked: held against one that does all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from poolcli import FileError
from poolcli.runs.executors import dask as module
from poolcli.runs.executors.dask import Flow


def tenfold(numbers: Sequence[int]) -> list[int]:
    """Work that can be pickled."""
    return [10 * number for number in numbers]


@dataclass(eq=False)
class Landed:
    """A message that was dealt with."""

    result: Any
    status: str = "finished"


class Cluster:
    """Does what it is sent at once, and notes every question."""

    loop = None

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.landed: list[Any] = []
        self.sent: list[Any] = []

    def map(self, function: Any, messages: list[Any], **_: object) -> list[Any]:
        self.asked.append(("send", len(messages)))
        self.sent += messages
        return [Landed(function(message)) for message in messages]

    def gather(self, futures: list[Any]) -> list[Any]:
        self.asked.append(("fetch", len(futures)))
        return [future.result for future in futures]

    def update(self, futures: list[Any]) -> None:
        self.landed += futures

    def next_batch(self, block: bool = True) -> list[Any]:
        """One message at first, all that have landed by then a moment later."""
        taken = self.landed[: 1 if block else None]
        del self.landed[: len(taken)]
        return taken


class Present(nullcontext[None]):
    """That there are workers, always."""

    missed = None

    def __init__(self, *_: object) -> None:
        super().__init__()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster on which every message takes a second."""
    found = Cluster()
    monkeypatch.setattr(module, "BATCH_SECONDS", 0)
    monkeypatch.setattr(module, "MESSAGE_SECONDS", 0)
    monkeypatch.setattr(module, "WorkerWatch", Present)
    monkeypatch.setattr(module, "distributed", SimpleNamespace(as_completed=lambda loop: found, KilledWorker=KeyError))
    return found


def test_the_scheduler_is_asked_for_many_messages_at_once(cluster: Cluster) -> None:
    found = dict(Flow(cluster, tenfold, iter(range(150)), 150, 2).results())
    assert found == {number: 10 * number for number in range(150)}
    assert cluster.asked == [("send", 64), ("fetch", 64), ("send", 64), ("fetch", 64), ("send", 22), ("fetch", 22)]


def test_four_messages_are_in_flight_for_each_of_many_workers(cluster: Cluster) -> None:
    assert len(dict(Flow(cluster, tenfold, iter(range(200)), 200, 25).results())) == 200
    assert cluster.asked == [("send", 100), ("fetch", 100)] * 2


@pytest.mark.parametrize("question", ["map", "gather", "next_batch"])
@pytest.mark.parametrize("error", [CancelledError, asyncio.CancelledError, ConnectionRefusedError])
def test_a_scheduler_that_has_gone_is_one_line(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, question: str, error: type[BaseException]
) -> None:
    def gone(*_: object, **__: object) -> None:
        raise error("lost")

    monkeypatch.setattr(cluster, question, gone)
    monkeypatch.setattr(cluster, "cancel", gone, raising=False)
    for resumable, more in (True, "; resume continues the run"), (False, ""):
        flow = Flow(cluster, tenfold, iter(range(9)), 9, 2, resumable)
        with pytest.raises(FileError) as caught:
            dict(flow.results())
        assert str(caught.value) == f"the scheduler of the cluster is gone{more}"
        flow.cancel()


def test_the_scheduler_sees_nothing_of_a_message_but_its_bytes(cluster: Cluster) -> None:
    assert dict(Flow(cluster, tenfold, iter([7]), 1, 2).results()) == {7: 70}
    assert [type(message) for message in cluster.sent] == [bytes]
