"""Lists of any length in bounded memory: what is more than memory should hold waits in a temporary file."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import merge
from itertools import islice, pairwise
from typing import Any, TypeVar
from weakref import finalize

from poolcli.errors import FileError

HELD = 2**12  # items in memory, of a list that is shorter there is not a file
RUN = 2**14  # items that are sorted in memory
BATCH = 64  # items that are read as one, of each run when runs are merged
PREFIX = 8  # bytes of the length of a batch

Item = TypeVar("Item")
Result = TypeVar("Result")


class DiskList(Collection[Item]):
    """A list that only grows, and can be gone through any number of times; its items can be pickled.

    >>> spool = DiskList(range(10_000))
    >>> len(spool), sum(spool), 9_999 in spool
    (10000, 49995000, True)
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._file: Any = None  # has no name, so nobody else can open it
        self._held: list[Item] = []
        self._end = self._count = 0
        self.extend(items)

    def add(self, item: Item) -> None:
        """Adds one item."""
        self._held.append(item)
        self._count += 1
        if len(self._held) == HELD:
            self.flush()

    def extend(self, items: Iterable[Item]) -> None:
        """Adds items."""
        for item in items:
            self.add(item)

    def flush(self) -> int:
        """Brings all items to the file; returns where that ends now."""
        import pickle
        from tempfile import TemporaryFile  # as pickle, what a short list does not need

        try:
            if self._file is None:
                self._file = TemporaryFile(prefix="poolcli-")  # noqa: SIM115  # it is closed with the list
                finalize(self, self._file.close)
            for start in range(0, len(self._held), BATCH):
                batch = pickle.dumps(self._held[start : start + BATCH], pickle.HIGHEST_PROTOCOL)
                self._end += self._file.write(len(batch).to_bytes(PREFIX) + batch)
            self._file.flush()
        except OSError as error:
            raise FileError(f"the folder of temporary files: {error.strerror}; name another one with TMPDIR") from error
        self._held.clear()
        return self._end

    def between(self, start: int, stop: int) -> Iterator[Item]:
        """The items from one place of the file to another, both as `flush` gave them."""
        import pickle

        while start < stop:
            length = int.from_bytes(os.pread(self._file.fileno(), PREFIX, start))
            batch = os.pread(self._file.fileno(), length, start + PREFIX)
            start += PREFIX + length
            yield from pickle.loads(batch)  # noqa: S301  # this process wrote it, into a file without a name

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        yield from self.between(0, self._end)
        yield from self._held

    def __contains__(self, item: object) -> bool:
        return any(each == item for each in self)


class MappedView(Collection[Result]):
    """What a function makes of each of some items, made when it is asked for.

    >>> list(MappedView(str, [1, 2])), len(MappedView(str, [1, 2]))
    (['1', '2'], 2)
    """

    def __init__(self, function: Callable[[Item], Result], items: Collection[Item]) -> None:
        self._made: Callable[[], Iterator[Result]] = lambda: map(function, items)
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Result]:
        return self._made()

    def __contains__(self, item: object) -> bool:
        return any(each == item for each in self)


def _itself(item: Any) -> Any:
    return item


def externally_sorted(items: Iterable[Item], key: Callable[[Item], Any] = _itself) -> Iterator[Item]:
    """The items sorted by their key, those of one key in the order in which they came.

    >>> list(externally_sorted(["b", "a", "c"]))
    ['a', 'b', 'c']
    """
    waiting = iter(items)
    run = _sorted(waiting, key)
    if len(run) < RUN:
        yield from run
        return
    spool, places = DiskList[Item](), [0]
    while run:
        spool.extend(run)
        places.append(spool.flush())
        run = _sorted(waiting, key)
    yield from merge(*(spool.between(start, stop) for start, stop in pairwise(places)), key=key)


def _sorted(items: Iterator[Item], key: Callable[[Item], Any]) -> list[Item]:
    return sorted(islice(items, RUN), key=key)
