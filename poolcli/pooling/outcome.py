"""The records of a run: jobs, settings and outcomes; and the errors of jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

from poolcli.arguments import MinCount, Missing
from poolcli.dtypes import lookup
from poolcli.errors import FileError, PoolError, unexpected
from poolcli.formats import Header, ReadOptions, Source
from poolcli.formats.atomic import is_device
from poolcli.formats.checks import byte_count
from poolcli.formats.files import exists
from poolcli.layouts import named_shape, rank_of
from poolcli.message_fields import one_line
from poolcli.plan import Plan
from poolcli.system.signals import check_stopped

NUMBERS = re.compile(r"\d+")
Record = dict[str, Any]  # of an output in the manifest
Limits = tuple[float, float] | tuple[()]  # what becomes 0 and 255; () for the lowest and the highest of each result


@dataclass(frozen=True)  # without slots, with which pickling takes several times as long
class Job:
    """One input and its outputs."""

    source: Source
    output: str | None  # None in a dry run without one
    indices: str | None = None
    output_key: str | None = None  # name of the array in this file
    indices_key: str | None = None
    refusal: PoolError | None = None  # why it fails without being tried
    note: str | None = None  # for its report
    known: Record | None = None  # of its output, by an earlier run
    retried: bool = False  # a process that ran it has died

    @property
    def outputs(self) -> tuple[str, ...]:
        """The files that the job writes."""
        return tuple(target.path for target in self.targets)

    @property
    def targets(self) -> tuple[Source, ...]:
        """The same files, each with the name of its array."""
        both = ((self.output, self.output_key), (self.indices, self.indices_key))
        return tuple(Source(path, key) for path, key in both if path and path != "-")


def existing_outputs(jobs: Iterable[Job]) -> Iterator[str]:
    """The outputs that exist already, without devices and pipes."""
    for target in (target for job in jobs if not job.refusal for target in job.targets):
        if exists(target.path) and not is_device(target.path):
            yield target.path


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of all jobs of a run; None is the default of each."""

    layout: str | None = None
    output_layout: str | None = None
    dtype: str | None = None
    engine: str = "auto"
    threads: int | None = None
    max_memory: int | None = None  # in bytes
    allowed: int | None = None  # the same, only if the user set it
    pages: str | None = None
    allow_external: bool = False
    quality: int | None = None
    linear_light: bool = False
    rescale: Limits | None = None  # values that become 0 and 255 in an image of a float result
    missing: Missing | None = None  # None for those of the file
    min_count: MinCount | None = None
    arrays: tuple[str, ...] | None = None  # in a file with several, () for all; None for the one that the source names
    dry_run: bool = False
    overwrite: bool = False
    resume: bool = False
    chunks: tuple[int, ...] | None = None
    shards: tuple[int, ...] | None = None

    @property
    def read_options(self) -> ReadOptions:
        """The settings for reading the input."""
        return ReadOptions(
            self.pages, self.allow_external, self.max_memory, self.allowed, rank_of(self.layout),
            apply_masks=self.missing != (),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stored:
    """An output array: its file, its shape in the order of `layout`, and its name in the file if it has one."""

    path: str | None
    shape: tuple[int, ...]
    dtype: str
    layout: str
    key: str | None = None

    @property
    def nbytes(self) -> int:
        """The size of its values."""
        return byte_count(self.shape, lookup(self.dtype).itemsize)


@dataclass(frozen=True, slots=True)
class Colour:
    """How the channels of an image are pooled together."""

    weighted: bool = False  # averages, with alpha, the last channel
    linear: bool = False  # averages, of linear light
    votes: bool = False  # modes, of whole pixels

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes for the report."""
        notes = ("colours are weighted with alpha", "averaged in linear light (sRGB curve)", "whole pixels vote")
        return tuple(compress(notes, (self.weighted, self.linear, self.votes)))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a job that ran, failed or was skipped."""

    job: Job
    header: Header | None = None
    plan: Plan | None = None
    output: Stored | None = None
    indices: Stored | None = None
    notes: tuple[str, ...] = ()
    colour: Colour | None = None
    engine: str | None = None
    threads: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    skipped: bool = False
    parts: tuple[Outcome, ...] = ()  # of several arrays of one file
    error: PoolError | None = None
    record: Record | None = None


@dataclass(slots=True)
class RunSummary:
    """The counts, notes and errors of a run, and the names in its folders that were ignored."""

    ignored: Sequence[str] = ()
    done: int = 0
    skipped: int = 0
    notes: dict[str, list[str]] = field(default_factory=dict)  # of all files, by their texts without numbers
    errors: list[PoolError] = field(default_factory=list)
    sizes: set[tuple[str, str]] = field(default_factory=set)  # of inputs and outputs, with the names of axes

    def add(self, outcome: Outcome) -> None:
        """Counts an outcome."""
        if outcome.error:
            self.errors.append(outcome.error)
        elif outcome.skipped:
            self.skipped += 1
        else:
            self.done += 1
        for plan, output in ((part.plan, part.output) for part in outcome.parts or (outcome,)):
            if plan and output and len(self.sizes) < 2:  # a report shows them if they are all the same
                self.sizes.add((named_shape(plan.layout, plan.input_shape), named_shape(output.layout, output.shape)))
        for text, note in {NUMBERS.sub("#", note): note for note in reversed(outcome.notes)}.items():
            self.notes.setdefault(text, []).append(note)

    @property
    def total(self) -> int:
        """How many outcomes were counted."""
        return self.done + self.skipped + len(self.errors)

    def note_lines(self) -> list[str]:
        """The notes with their numbers of files; those that differ in numbers only are one."""
        both = ((same, "similar in " if len({*same}) > 1 else "") for same in self.notes.values())
        return [f"{same[0]} ({words}{len(same)} of {self.total} files)" for same, words in both]


def failure(error: Exception, place: str) -> PoolError:
    """The PoolError for an exception, with the input's name before its message."""
    check_stopped()  # the exception may be a signal's that a library has replaced by its own
    if isinstance(error, PoolError):
        return located(error, place)
    if isinstance(error, OSError) and isinstance(error.strerror, str) and error.strerror:
        named = f"{error.filename}: " if error.filename and error.filename != place else ""
        return FileError(f"{place}: {named}{error.strerror}")
    return unexpected(error, place)


def located(error: PoolError, place: str) -> PoolError:
    """The error with the input's name before its message, if it is not there yet."""
    shown = one_line(place)
    is_named = error.message.startswith(shown) and not error.message[len(shown) :][:1].isalnum()
    return error if is_named else error.at(place)
