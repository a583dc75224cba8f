"""A Dask cluster for tests, and what runs connect to it with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolcli.formats.zarr.library import RUN
from poolcli.runs import dask as clusters


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler and two workers, as `dask scheduler` and `dask worker` start them; a worker may die once."""
    import dask
    import distributed

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=100
        ) as found,
    ):
        yield found.scheduler_address


def decoded(folder: Path) -> dict[str, Any]:
    """The documents of a store but for what --resume notes, and the elements of its arrays in place of their chunks:
    zarrs writes those of a shard in any order, and what lies beyond the edge of an array may be anything.
    """
    import zarr

    found = dict[str, Any]()
    for path in folder.rglob("*"):
        if path.name.startswith((".z", "zarr.")):
            document = json.loads(path.read_bytes())
            document.get("attributes", document).pop(RUN, None)
            found |= {str(path.relative_to(folder)): document} if document else {}
        if path.name in ("zarr.json", ".zarray"):
            node: Any = zarr.open(path.parent, mode="r")
            if isinstance(node, zarr.Array):
                found[str(path.parent.relative_to(folder))] = np.asarray(node[...]).tobytes()
    return found


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

    monkeypatch.setattr("poolcli.runs.dask.connected", watched)
    yield seen
