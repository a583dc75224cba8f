"""Chooses the output of each input; refuses outputs that clash and outputs that are inputs."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from poolcli.errors import RequestError
from poolcli.formats import output_format, parse_source
from poolcli.formats.atomic import is_device
from poolcli.formats.checks import join_names
from poolcli.formats.files import array_names, check_output_url, is_url, relative_path
from poolcli.formats.table import format_by_suffix, suffixes_of, without_suffix
from poolcli.message_fields import field
from poolcli.pooling.outcome import Job
from poolcli.runs.inputs import Item
from poolcli.suggestions import did_you_mean

TENSOR_SUFFIX = ".npy"
INPUTS_NAMED = 3  # in a message


def plan_jobs(
    items: Sequence[Item], several: bool, output: str | None, indices: str | None, suffix: str | None
) -> list[Job]:
    """One job for each item; a job whose outputs clash with those of others has a `refusal`.

    Raises RequestError if all jobs clash, or if an output is an input.
    """
    if suffix:
        _refuse_suffix(suffix.lstrip("."))
    targets = _target("output", output, several, suffix), _target("indices", indices, several, TENSOR_SUFFIX)
    if several and any(target.text and not target.in_folder for target in targets):
        for path in (item.source.path for item in items):  # a word that is no input makes several of one
            if path != "-" and not is_url(path) and not os.path.lexists(path):
                end = "; numbers of one option are joined by commas, as in 3,3" * path.isdigit()
                raise RequestError(f"{path}: there is no such input, and {field('output')} is one file{end}")
    jobs = [_job(item, *targets) for item in items]
    for target in (target for job in jobs for target in job.targets):
        check_output_url(target.path)
    _refuse_inputs(jobs)
    return _without_clashes(jobs)


@dataclass(frozen=True, slots=True)
class Target:
    """What --output or --indices names: a file, an array `key` in one, or a folder.

    `suffix` replaces the extension of names in a folder.
    """

    option: str
    text: str | None
    key: str | None
    in_folder: bool
    several: bool
    suffix: str | None

    def path_for(self, item: Item) -> str | None:
        """The output of an input."""
        target, stdin = self.text, item.source.path == "-"
        if target is None:
            return None
        if self.in_folder:
            if stdin:
                raise RequestError(
                    f"{field(self.option, target)} is a folder, and stdin has no name to keep; name the file"
                )
            _refuse_name(item.relative, item)
            path = f"{target.rstrip('/')}/{item.relative}" if is_url(target) else os.path.join(target, item.relative)
            return f"{without_suffix(path)}.{self.suffix.lstrip('.')}" if self.suffix else _with_written_suffix(path)
        if self.several:
            raise RequestError(
                f"{field(self.option, target)} is one file, but there are several inputs; "
                f"name a folder: {without_suffix(target) or target}/"
            )
        if self.suffix and self.option == "output":
            raise RequestError(
                f"{field('format', self.suffix)} names the format of outputs in a folder, and {target} is one file; "
                "leave it out: the extension of the file selects its format"
            )
        if target != "-":
            check_output_url(target)
            output_format(target)
        return target

    @property
    def keeps_suffix(self) -> bool:
        """Whether outputs have the extensions of their inputs."""
        return self.in_folder and not self.suffix


def _target(option: str, text: str | None, several: bool, suffix: str | None) -> Target:
    if text is None:
        return Target(option, None, None, False, several, suffix)
    source = parse_source(text)
    if source.key is None:
        return Target(option, text, None, _is_folder(text, several), several, suffix)
    if not source.key.strip("/"):
        raise RequestError(f"{text}: names no array in {source.path}")
    array_names(source.path, [source.key], RequestError)
    if os.path.lexists(source.path):
        raise RequestError(f"{text}: {source.path} exists, and arrays are not added to files; name a new file")
    if several:
        raise RequestError("an array in a file takes the result of one input, and there are several; name a folder")
    return Target(option, source.path, source.key, False, several, suffix)


def _is_folder(target: str, several: bool) -> bool:
    """Whether an output is a folder: it exists, ends with /, or has no extension and there are several inputs."""
    row = format_by_suffix(target)
    if target == "-" or (row is not None and row.is_folder):
        return False
    if target.endswith("/") or os.path.isdir(target):
        return True
    is_bare = not os.path.splitext(target)[1] and "{" not in target  # braces would be meant as a template
    return several and is_bare and not os.path.lexists(target) and not is_device(target)


def _job(item: Item, output: Target, indices: Target) -> Job:
    if item.unreadable:
        return Job(item.source, None, unreadable=item.unreadable)
    note, row = None, format_by_suffix(item.relative)
    if row is not None and row.is_image and not row.writes and output.keeps_suffix:
        own = item.relative[len(without_suffix(item.relative)) :].lower()
        note = f"written as {row.written_as}: poolcli does not write {own}"
    return Job(item.source, output.path_for(item), indices.path_for(item), output.key, indices.key, note=note)


def _with_written_suffix(path: str) -> str:
    """The path, with the extension of another format if its own format cannot be written."""
    row = format_by_suffix(path)
    return without_suffix(path) + row.written_as if row and row.written_as else path


def _refuse_suffix(suffix: str) -> None:
    known = [each.lstrip(".") for each in suffixes_of(lambda row: row.writes)]
    if suffix.lower() not in known:
        meant = did_you_mean(suffix, known)
        raise RequestError(f"{field('format')} is {suffix!r}; it must be one of {', '.join(known)}{meant}")


def _refuse_name(name: str, item: Item) -> None:
    """Refuses an output name that leads out of the folder of the outputs."""
    try:
        relative_path(name)
    except ValueError as reason:
        raise RequestError(
            f"{item.source.path}: would be called {name!r} among the outputs: {reason}; pool it by itself "
            f"into a file that you name with {field('output')}"
        ) from None


def _without_clashes(jobs: Sequence[Job]) -> list[Job]:
    """The jobs, with a `refusal` for each whose output has the same name as another's.

    Names that differ only by case or Unicode form count as the same, because some file systems do not distinguish them.
    """
    by_name: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        names = {_comparable_path(path) for path in job.outputs}
        if len(names) < len(job.outputs):
            both = f"{field('output')} and {field('indices')}"
            raise RequestError(f"{both} are both {job.output}; name another file for one")
        for name in names:
            by_name.setdefault(name, []).append(number)
    refusals: dict[int, str] = {}
    for name, numbers in by_name.items():
        if len(numbers) > 1:
            clashing = [jobs[number] for number in numbers]
            _refuse_twice(clashing)
            path = next(path for path in clashing[0].outputs if _comparable_path(path) == name)
            reason = f"more than one input would be written to {path}; pool them into different folders or rename one"
            refusals |= dict.fromkeys(numbers, reason)
    if refusals and len(refusals) == len(jobs):
        number, reason = next(iter(refusals.items()))
        alike = [job.source.path for place, job in enumerate(jobs) if refusals[place] == reason]
        raise RequestError(f"{join_names(alike, INPUTS_NAMED)}: {reason}")
    return [replace(job, refusal=refusals[number]) if number in refusals else job for number, job in enumerate(jobs)]


def _refuse_twice(jobs: Sequence[Job]) -> None:
    """Refuses an input that is given twice, also under different names."""
    found: dict[tuple[str, str | None], str] = {}
    for job in jobs:
        path, place = job.source.path, (os.path.realpath(job.source.path), job.source.key)
        if place in found:
            also = "" if found[place] == path else f", as {found[place]} too"
            raise RequestError(f"{path} is given twice{also}; give it once")
        found[place] = path


def _comparable_path(path: str) -> str:
    return unicodedata.normalize("NFC", path if is_url(path) else os.path.abspath(path)).casefold()


def _refuse_inputs(jobs: Sequence[Job]) -> None:
    """Refuses outputs that are inputs; if no output exists, no input is looked up."""
    targets = (target for job in jobs for target in job.targets if target.key is None and not is_device(target.path))
    outputs = {place: str(target) for target in targets if (place := _file_id(target.path))}
    if not outputs:
        return
    for job in jobs:
        place = _file_id(job.source.path)
        if place in outputs:
            raise RequestError(f"output {outputs[place]} is the input {job.source.path}; name another file or folder")


def _file_id(path: str) -> tuple[int, int] | str | None:
    """Device and inode of the file at `path` with links followed, a URL itself, or None if there is no file."""
    if is_url(path):
        return path.rstrip("/")
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
