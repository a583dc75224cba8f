"""Work on its way to the workers of a cluster and back: items in, results out, in whatever order they come.

Few messages are in flight at once, because a worker that dies makes all that it holds suspect. Small items go together,
so that each message is worth a second of work; and messages are sent and fetched several together, which spares the
scheduler half of what each costs it. A message is sent anew where its worker dies; items that several workers died of
are tried once more, one at a time and nothing beside, so that only those that are to blame are lost. What an item
itself raises is final: file systems have tried again by then, for as long as they think it worth it.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Generic, TypeVar

from poolcli.errors import FileError
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Lazy
from poolcli.system.signals import check_stopped

distributed = Lazy("distributed")

IN_FLIGHT = 4  # messages for each worker
AT_LEAST = 64  # items in flight, however few workers there are; the scheduler holds back what none has begun
PATIENCE = 5.0  # seconds in which workers may end what they have begun
MOMENT = 0.05  # seconds in which others may land beside the first
LONG_ENOUGH = 1.0  # seconds of work in a message
MOST = 1000  # items in a message
GONE = (asyncio.CancelledError, futures.CancelledError, OSError)  # what comes of asking a scheduler that has gone

Item = TypeVar("Item")
Result = TypeVar("Result")


class Flow(Generic[Item, Result]):
    """What becomes of `count` items by `work`, which can be pickled and takes several; by `slots` at once.

    `resumable` says whether another run can go on with what this one has done.
    """

    def __init__(
        self,
        client: Any,
        work: Callable[[Sequence[Item]], Sequence[Result]],
        items: Iterator[Item],
        count: int,
        slots: int,
        resumable: bool = False,
    ) -> None:
        self._client, self._slots, self._resumable = client, slots, resumable
        self._work = pickle.dumps(work, pickle.HIGHEST_PROTOCOL)
        self._waiting, self._left, self._size = items, count, 1
        self._flying: dict[Any, list[Item]] = {}
        self._suspects: list[Item] = []
        self._trial: Any = None  # the message in flight alone
        self._landing = distributed.as_completed(loop=client.loop)
        self._presence = Presence(client, self._flying)

    def results(self) -> Iterator[tuple[Item, Result | BaseException]]:
        """Each item with its result, or with the error that it is lost by."""
        with self._presence:
            self._send()
            while self._flying:
                check_stopped()
                yield from self._taken(self._landed())
                self._send()

    def _landed(self) -> list[Any]:
        """The messages that have landed, once there is one, and those that land a moment later."""
        with self._reached():
            landed = list(self._landing.next_batch())
            if len(self._flying) > len(landed):
                time.sleep(MOMENT)
            return landed + list(self._landing.next_batch(block=False))

    def last_words(self) -> Iterator[tuple[Item, Result | BaseException]]:
        """What was done by now; the rest is taken back."""
        yield from self._taken([future for future in self._flying if future.status == "finished"])
        self.cancel()

    def cancel(self) -> None:
        """Takes back what no worker has begun."""
        with suppress(*GONE):
            self._client.cancel(list(self._flying), force=True)

    def settle(self) -> None:
        """As `cancel`, and waits for a while until no worker is at it: what they write can be removed then."""
        self.cancel()
        if self._flying and self._client.status == "running":
            with suppress(*GONE):
                self._client.run(_at_rest, on_error="ignore")

    def _send(self) -> None:
        """Fills up what is in flight whenever half of it has landed; suspects go alone, when nothing else is left."""
        most = max(IN_FLIGHT * self._slots, AT_LEAST // self._size)
        if 2 * len(self._flying) <= most:
            self._submit(list(islice(iter(self._following, []), most - len(self._flying))))
        if self._suspects and not self._flying:
            (self._trial,) = self._submit([[self._suspects.pop()]])

    def _following(self) -> list[Item]:
        """The items of the next message; none when there are no more."""
        fair = max(1, self._left // (IN_FLIGHT * self._slots))
        items = list(islice(self._waiting, min(self._size, fair)))
        self._left -= len(items)
        return items

    def _submit(self, several: list[list[Item]]) -> list[Any]:
        """The futures of some messages, which go to the scheduler together: most of what each costs it alone."""
        messages = [self._message(items) for items in several]
        with self._reached():
            futures: list[Any] = self._client.map(_timed, messages, pure=False) if messages else []
        self._flying.update(zip(futures, several, strict=True))
        self._landing.update(futures)
        return futures

    def _message(self, items: list[Item]) -> bytes:
        """What a worker is to do, and the folder that names are meant in: bytes, which the scheduler passes on without
        making anything of them.
        """
        return pickle.dumps((self._work, os.getcwd(), items), pickle.HIGHEST_PROTOCOL)

    def _taken(self, landed: Sequence[Any]) -> Iterator[tuple[Item, Result | BaseException]]:
        """The results of messages that have landed, which are fetched together."""
        good = [future for future in landed if future.status != "error"]
        with self._reached():
            gathered = self._client.gather(good)
        for future, (seconds, results) in zip(good, gathered, strict=True):
            items = self._flying.pop(future)
            self._weigh(seconds, len(items))
            yield from zip(items, results, strict=True)
        for future in landed:
            if future in self._flying:
                yield from self._lost(future)

    def _lost(self, future: Any) -> Iterator[tuple[Item, BaseException]]:
        """The items of a message that has failed; none yet of one whose workers died beside others."""
        items, error = self._flying.pop(future), future.exception()
        if isinstance(error, distributed.KilledWorker) and future is not self._trial:
            self._suspects += items
        else:
            yield from ((item, error) for item in items)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """What comes of asking a cluster that has gone as one line."""
        try:
            yield
        except GONE as error:
            missed = self._presence.missed
            gone = f"cluster has had no workers for {missed:g} s" if missed else "scheduler of the cluster has gone"
            more = f"; {field('resume')} goes on with what was done" if self._resumable else ""
            raise FileError(f"the {gone}{more}") from error

    def _weigh(self, seconds: float, items: int) -> None:
        """Makes messages larger or smaller by how long one took."""
        if seconds < LONG_ENOUGH and items >= self._size:
            self._size = min(2 * self._size, MOST)
        elif seconds > 2 * LONG_ENOUGH:
            self._size = max(1, self._size // 2)


_at_work: list[object] = []  # on a worker: one for each message that it is at


async def _at_rest() -> None:
    """On a worker: ends when it is at no message, or patience does."""
    end = time.monotonic() + PATIENCE
    while _at_work and time.monotonic() < end:
        await asyncio.sleep(MOMENT)


def _timed(message: bytes) -> tuple[float, Any]:
    """On a worker: the results of some items, and the seconds that they took."""
    _at_work.append(None)
    try:
        return _worked(message)
    finally:
        _at_work.pop()


def _worked(message: bytes) -> tuple[float, Any]:
    start = time.perf_counter()
    packed, folder, items = pickle.loads(message)  # noqa: S301  # a worker does whatever its scheduler says
    try:
        os.chdir(folder)
    except OSError as error:
        raise FileError(
            f"{folder}: a worker cannot use this folder ({error.strerror}); all must see the same"
        ) from None
    results = pickle.loads(packed)(items)  # noqa: S301
    return time.perf_counter() - start, results


def explained(error: BaseException) -> Exception:
    """What an item was lost by, as an error for a person."""
    if isinstance(error, distributed.KilledWorker):
        return FileError(
            "the workers that worked on it died, one after the other; the file is damaged, or the memory too small "
            "for it"
        )
    return error if isinstance(error, Exception) else RuntimeError(str(error))


dask = Lazy("dask")

PATIENCE_WITHOUT_WORKERS = 60.0  # seconds without a worker, unless Dask's own settings say how many
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
        patience = dask.utils.parse_timedelta(dask.config.get(SETTING, None) or PATIENCE_WITHOUT_WORKERS)
        seen = time.monotonic()
        while True:
            await asyncio.sleep(EVERY)
            if await self._client.nthreads():
                seen = time.monotonic()
            elif time.monotonic() - seen >= patience:
                self.missed = patience
                await self._client.cancel(list(self._flying), force=True)
