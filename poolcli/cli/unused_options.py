"""Options that would change nothing: refused, because whoever gives one means something by it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from poolcli.cli.reading import NONE_OF_SEVERAL
from poolcli.errors import RequestError
from poolcli.formats.table import FORMATS, Format, with_suffix
from poolcli.message_fields import field
from poolcli.pooling.outcome import Job

if TYPE_CHECKING:
    from poolcli.cli.pool import PoolOptions

WITH_QUALITY = ("jpeg", "webp")


@dataclass(frozen=True, slots=True)
class Work:
    """A request, and the formats that its inputs and outputs are of by their names; None among them for any other."""

    request: PoolOptions
    inputs: Collection[Format | None]
    outputs: Collection[Format | None]


@dataclass(frozen=True, slots=True)
class Effect:
    """A field that has an effect only in some work: when, and what it is for."""

    name: str
    has: Callable[[Work], bool]
    purpose: str


EFFECTS = (
    Effect(
        "pages", lambda work: any(f is None or f.picture for f in work.inputs), "is for images, and no input is one"
    ),
    Effect(
        "dataset",
        lambda work: any(f is None or f.several for f in work.inputs),
        NONE_OF_SEVERAL,
    ),
    Effect(
        "all",
        lambda work: any(f is None or f.several for f in work.inputs),
        "is for files that hold several arrays, and no input is one",
    ),
    Effect(
        "quality",
        lambda work: any(f is None or f.name in WITH_QUALITY for f in work.outputs),
        "is for .jpg and .webp outputs, and there is none",
    ),
    Effect(
        "recursive",
        lambda work: any(map(_is_folder, work.request.inputs)),
        "takes the subfolders of folders, and no input is one",
    ),
    Effect(
        "axis",
        lambda work: bool(work.request.indices),
        f"is about indices, which {field('indices', 'where.npy')} writes",
    ),
    Effect(
        "index_element_type",
        lambda work: bool(work.request.indices),
        f"is about indices, which {field('indices', 'where.npy')} writes",
    ),
)


def refuse_without_effect(request: PoolOptions, jobs: Collection[Job]) -> None:
    """Refuses the first option that was given and has no effect on these jobs."""
    work = Work(
        request,
        _formats(job.source.path for job in jobs),
        _formats(job.output for job in jobs if job.output),
    )
    for effect in EFFECTS:
        if getattr(request, effect.name) and jobs and not effect.has(work):
            raise RequestError(f"{field(effect.name)} {effect.purpose}; leave it out")


def _formats(paths: Iterable[str]) -> list[Format | None]:
    known = list(FORMATS.values())
    found = {row.name if row else "": row for row in (with_suffix(path, known) for path in paths)}
    return list(found.values())


def _is_folder(text: str) -> bool:
    return Path(text).is_dir() or "**" in text
