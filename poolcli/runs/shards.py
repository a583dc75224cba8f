"""One run as several processes that know nothing of each other: which inputs are whose.

An input belongs to a shard by its relative name alone, so that nobody has to look at the others. What stands behind the
last dot does not count, nor do case and the form of letters: names whose outputs could clash are of one shard.
"""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass
from hashlib import sha256

from poolcli.errors import RequestError
from poolcli.message_fields import field

LARGEST = 10**6  # shards
_WORD = re.compile(r"\s*(\d{1,7})\s*/\s*(\d{1,7})\s*", re.ASCII)
_PART = re.compile(r"\.poolcli-(\d+)-of-(\d+)\.jsonl", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` shards, the first of which is number 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def manifest(self) -> str:
        """The name of its part of the manifest."""
        return f".poolcli-{self.number}-of-{self.count}.jsonl"

    def takes(self, relative: str) -> bool:
        """Whether an input of this relative name is one of its own."""
        stem, _ = os.path.splitext(unicodedata.normalize("NFC", os.path.normpath(relative)).casefold())
        place = int.from_bytes(sha256(stem.encode("utf-8", "surrogateescape")).digest()[:8])
        return place % self.count == self.number - 1


WHOLE = Shard(1, 1)


def parse_shard(text: str | None) -> Shard | None:
    """A shard from `2/5`; None where none is asked for.

    >>> parse_shard("2/5")
    Shard(number=2, count=5)
    """
    if text is None:
        return None
    match = _WORD.fullmatch(text)
    if not match or not 1 <= int(match[1]) <= int(match[2]) <= LARGEST:
        raise RequestError(f"{field('shard')} is {text[:40]!r}; write I/N, such as 1/8 for the first of eight")
    return Shard(int(match[1]), int(match[2]))


def shard_of(name: str) -> Shard | None:
    """The shard whose part of the manifest has this name; None for any other name."""
    match = _PART.fullmatch(name)
    return Shard(int(match[1]), int(match[2])) if match else None
