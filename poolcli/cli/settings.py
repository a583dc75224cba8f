"""The options of commands as settings of jobs and of reading; refuses options that contradict each other."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from poolcli.errors import RequestError
from poolcli.formats import ReadOptions
from poolcli.message_fields import field
from poolcli.pooling.outcome import Settings
from poolcli.system.processes import memory_budget

if TYPE_CHECKING:
    from poolcli.cli.options import ArrayOptions

UNLIMITED = 2**63 - 1  # bytes; reading a header decompresses nothing


def array_settings(request: ArrayOptions, *exclusive: tuple[str, str]) -> Settings:
    """The settings that pooling and pyramids share; fields of Settings that are options are taken as they are.

    Refuses two options of an `exclusive` pair.
    """
    for one, other in (("overwrite", "resume"), *exclusive):
        if getattr(request, one) not in (None, False) and getattr(request, other) not in (None, False):
            raise RequestError(f"{field(one)} and {field(other)} contradict each other; give one")
    same: dict[str, Any] = {
        own.name: getattr(request, own.name) for own in fields(Settings) if hasattr(request, own.name)
    }
    limits = {"max_memory": _limit(request.max_memory), "allowed": request.max_memory}
    return Settings(**same | limits | {"threads": request.jobs})


def array_options(allow_external: bool, max_memory: int | None, pages: str | None = None) -> ReadOptions:
    """How whole arrays are read."""
    return ReadOptions(pages, allow_external, limit=_limit(max_memory), allowed=max_memory)


def _limit(max_memory: int | None) -> int | None:
    return memory_budget(None) if max_memory is None else max_memory
