"""Whether a cluster has workers at all: without any, Dask waits for new ones, without end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from poolcli.system.lazy_imports import Lazy

dask = Lazy("dask")

PATIENCE = 60.0  # seconds without a worker, unless Dask's own settings say how many
EVERY = 5.0  # seconds from one look to the next
SETTING = "distributed.scheduler.no-workers-timeout"


class Presence:
    """While it is entered: takes back what is `flying` once there have been no workers for some time.

    Whoever waits for that is woken by its being cancelled; `missed` are the seconds that there was no worker then.
    """

    def __init__(self, client: Any, flying: Iterable[Any]) -> None:
        self._client, self._flying = client, flying
        self.missed: float | None = None

    def __enter__(self) -> None:
        self._look = asyncio.run_coroutine_threadsafe(self._watch(), self._client.loop.asyncio_loop)

    def __exit__(self, *_: object) -> None:
        self._look.cancel()

    async def _watch(self) -> None:
        patience = dask.utils.parse_timedelta(dask.config.get(SETTING, None) or PATIENCE)
        seen = time.monotonic()
        while True:
            await asyncio.sleep(EVERY)
            if await self._client.nthreads():
                seen = time.monotonic()
            elif time.monotonic() - seen >= patience:
                self.missed = patience
                await self._client.cancel(list(self._flying), force=True)
