"""Chooses the output of each input; refuses outputs that clash and outputs that are inputs."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from poolcli.errors import RequestError
from poolcli.formats import output_format, parse_source
from poolcli.formats.atomic import is_device
from poolcli.formats.checks import join_names
from poolcli.formats.files import check_output_url, is_url
from poolcli.formats.names import array_names, relative_path
from poolcli.formats.table import format_by_suffix, suffixes_of, without_suffix
from poolcli.message_fields import field
from poolcli.pooling.outcome import Job
from poolcli.runs.inputs import Item
from poolcli.suggestions import did_you_mean

TENSOR_SUFFIX = ".npy"
PLACEHOLDERS = ("stem", "suffix", "name", "folder")  # of the input's name, in an output such as {stem}_half.png
PLACEHOLDER_LIST = ", ".join(f"{{{word}}}" for word in PLACEHOLDERS)
PLACEHOLDER = re.compile(rf"\{{({'|'.join(PLACEHOLDERS)})\}}")
INPUTS_NAMED = 3  # in a message
ANY_BRACES = re.compile(r"\{(\w*)\}")


def plan_jobs(
    items: Sequence[Item], several: bool, output: str | None, indices: str | None, suffix: str | None
) -> list[Job]:
    """One job for each item; a job whose outputs clash with those of others has a `refusal`.

    Raises RequestError if all jobs clash, or if an output is an input.
    """
    _refuse_placeholders(output, several)
    _refuse_placeholders(indices, several)
    if suffix:
        _refuse_suffix(suffix.lstrip("."))
    (output, output_key), (indices, indices_key) = _split_array(output), _split_array(indices)
    in_folders = _is_folder(output, several), _is_folder(indices, several)
    if several and (output_key or indices_key):
        raise RequestError("an array in a file takes the result of one input, and there are several; name a folder")
    jobs = [
        Job(item.source, None, unreadable=item.unreadable)
        if item.unreadable
        else Job(
            item.source,
            _path_for(item, output, in_folders[0], several, suffix, "output"),
            _path_for(item, indices, in_folders[1], several, TENSOR_SUFFIX, "indices"),
            output_key,
            indices_key,
            note=_format_note(item, output, in_folders[0], suffix),
        )
        for item in items
    ]
    for target in (target for job in jobs for target in job.targets):
        check_output_url(target.path)
    _refuse_inputs(jobs)
    return _without_clashes(jobs, items, output, indices)


def _split_array(target: str | None) -> tuple[str | None, str | None]:
    """The path of an output, and the name of an array in it as in `file.h5:/name`, or None."""
    if target is None:
        return None, None
    source = parse_source(target)
    if source.key is None:
        return target, None
    if not source.key.strip("/"):
        raise RequestError(f"{target}: names no array in {source.path}")
    array_names(source.path, [source.key], RequestError)
    if os.path.lexists(source.path) and not output_format(source.path).appends:
        able = " ".join(suffixes_of(lambda row: row.appends))
        raise RequestError(f"{target}: {source.path} exists, and arrays can be added to {able} files only")
    return source.path, source.key


def _is_folder(target: str | None, several: bool) -> bool:
    """Whether an output is a folder: it exists, ends with /, or has no extension and there are several inputs."""
    row = format_by_suffix(target or "")
    if target is None or target == "-" or (row is not None and row.is_folder):
        return False
    if target.endswith(("/", os.sep)) or os.path.isdir(target):
        return True
    is_bare = not os.path.splitext(target)[1] and "{" not in target and "}" not in target
    return several and is_bare and not os.path.lexists(target) and not is_device(target)


def _path_for(
    item: Item, target: str | None, in_folder: bool, several: bool, suffix: str | None, name: str
) -> str | None:
    if target is None:
        return None
    if item.source.path != "-" and (in_folder or PLACEHOLDER.search(target)):
        _refuse_name(item.relative, item)
    if PLACEHOLDER.search(target):
        return _fill_template(target, item)
    if in_folder:
        if item.source.path == "-":
            raise RequestError(f"{field(name, target)} is a folder, and stdin has no name to keep; name the file")
        path = target.rstrip("/") + "/" + item.relative if is_url(target) else str(Path(target) / item.relative)
        return f"{without_suffix(path)}.{suffix.lstrip('.')}" if suffix else _with_written_suffix(path)
    if several:
        if "{" in target or "}" in target:
            raise RequestError(f"{target}: braces must enclose one of {PLACEHOLDER_LIST}")
        several_of = without_suffix(target) or target
        raise RequestError(
            f"{field(name, target)} is one file, but there are several inputs; name a folder: {several_of}/"
        )
    if suffix and name == "output":
        raise RequestError(
            f"{field('format', suffix)} names the format of outputs in a folder, and {target} is one file; "
            "leave it out: the extension of the file selects its format"
        )
    if target != "-":
        check_output_url(target)
        output_format(target)
    return target


def _with_written_suffix(path: str) -> str:
    """The path, with the extension of another format if its own format cannot be written."""
    row = format_by_suffix(path)
    return without_suffix(path) + row.written_as if row and row.written_as else path


def _format_note(item: Item, output: str | None, in_folder: bool, suffix: str | None) -> str | None:
    """The note on an image that is written in another format than its own, or None."""
    row = format_by_suffix(item.relative)
    takes_suffix = (in_folder and not suffix) or bool(output and _takes_suffix(output))
    if row is None or row.writes or not row.is_image or not takes_suffix:
        return None
    own = item.relative[len(without_suffix(item.relative)) :].lower()
    return f"written as {row.written_as}: poolcli does not write {own}"


def _takes_suffix(template: str) -> bool:
    """Whether the outputs of a template have the extensions of their inputs."""
    return template.endswith(("{suffix}", "{name}"))


def _refuse_suffix(suffix: str) -> None:
    known = [each.lstrip(".") for each in suffixes_of(lambda row: row.writes)]
    if suffix.lower() not in known:
        meant = did_you_mean(suffix, known)
        raise RequestError(f"{field('format')} is {suffix!r}; it must be one of {', '.join(known)}{meant}")


def _refuse_placeholders(target: str | None, several: bool) -> None:
    """Refuses a template with an unknown placeholder."""
    unknown = [found for found in ANY_BRACES.findall(target or "") if found not in PLACEHOLDERS]
    if unknown and (several or "" in unknown or PLACEHOLDER.search(str(target))):
        raise RequestError(f"{target}: {{{unknown[0]}}} is not a placeholder; use {PLACEHOLDER_LIST}")


def _fill_template(template: str, item: Item) -> str:
    """The output of an input by a template such as `{stem}_half{suffix}`."""
    if item.source.path == "-":
        raise RequestError(f"{template} needs the input's name, and stdin has none; name the file")
    folder, name = os.path.split(item.relative)
    stem = without_suffix(name)
    words = {"stem": stem, "suffix": name[len(stem) :], "name": name, "folder": folder or "."}
    steps = [PLACEHOLDER.sub(lambda found: words[found[1]], step) for step in template.split("/")]
    for step, made in zip(template.split("/"), steps, strict=True):
        if PLACEHOLDER.search(step) and not (made == "." and "{folder}" in step):
            _refuse_name(made, item)
    path = "/".join(steps)
    path = _with_written_suffix(path) if _takes_suffix(template) else path
    if not os.path.splitext(path)[1]:
        whole = "{stem}{suffix}" if "{suffix}" in template else f"{template}{{suffix}}"
        raise RequestError(f"{template}: names files without an extension, such as {path}; write {whole}")
    output_format(path)
    scheme, mark, place = path.rpartition("://")  # a URL keeps its two slashes
    return scheme + mark + os.path.normpath(place)


def _refuse_name(name: str, item: Item) -> None:
    """Refuses an output name that leads out of the folder of the outputs."""
    try:
        relative_path(name)
    except ValueError as reason:
        raise RequestError(
            f"{item.source.path}: would be called {name!r} among the outputs: {reason}; pool it by itself "
            f"into a file that you name with {field('output')}"
        ) from None


def _without_clashes(jobs: Sequence[Job], items: Sequence[Item], output: str | None, indices: str | None) -> list[Job]:
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
            option, target = ("output", output) if path == clashing[0].output else ("indices", indices)
            remedy = _clash_remedy(option, str(target), items, [items[number] for number in numbers], path)
            refusals |= dict.fromkeys(numbers, f"more than one input would be written to {path}; {remedy}")
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


def _clash_remedy(name: str, target: str, items: Sequence[Item], clashing: Sequence[Item], path: str) -> str:
    """The remedy for inputs with the same output: a template with their extensions, if these differ."""
    folder = (os.path.dirname(target.partition("{")[0]) if PLACEHOLDER.search(target) else target.rstrip("/")) or "."
    tree = "{folder}/" if any(os.path.dirname(item.relative) for item in items) else ""
    template = f"{folder}/{tree}{{stem}}_{{suffix}}{path[len(without_suffix(path)) :]}"
    with suppress(RequestError):
        if len({_comparable_path(_fill_template(template, item)) for item in clashing}) == len(clashing):
            return f"use {field(name, template)}"
    return "pool them into different folders or rename one"


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
