"""Finds the inputs of a command (files, folders, globs, lists, stdin), and chooses the output of each; refuses outputs
that clash and outputs that are inputs.
"""

from __future__ import annotations

import glob
import os
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from poolcli.errors import FileError, RequestError
from poolcli.formats import Source, folder_format, output_format, parse_source, recognise
from poolcli.formats.atomic import is_device, is_internal_file
from poolcli.formats.checks import join_names
from poolcli.formats.files import array_names, check_output_url, is_url, relative_path
from poolcli.formats.table import format_by_magic, format_by_suffix, suffixes_of, without_suffix
from poolcli.message_fields import field
from poolcli.pooling.outcome import Job
from poolcli.suggestions import did_you_mean, not_found

TENSOR_SUFFIX = ".npy"
INPUTS_NAMED = 3  # in a message


class Item(NamedTuple):
    """One input."""

    source: Source
    relative: str  # path below the folder or glob that was named; of a single file, its name
    error: FileError | None = None  # why the folder `source` cannot be searched


def find_inputs(
    texts: Sequence[str], dataset: str | None, recursive: bool, files_from: str | None = None, output: str | None = None
) -> tuple[list[Item], bool, list[str]]:
    """The inputs in a fixed order, whether they count as several (a folder, glob or list does), and names in folders
    that are not inputs; the folder `output` is not searched if it lies in an input folder.
    """
    items, ignored = list[Item](), list[str]()
    several = len(texts) > 1 or files_from is not None
    if not texts and files_from is None:
        listed = f"or a list with {field('files_from')}"
        raise RequestError(f"there is no input: name files, a folder, a quoted glob, - for a .npy stream, {listed}")
    for text in texts:
        source = parse_source(text, dataset)
        path, key = source.path, source.key
        if path != "-" and os.path.isdir(path) and not folder_format(path):
            items.extend(_folder_items(path, key, recursive, output, ignored))
            several = True
        elif not is_url(path) and any(sign in path for sign in "*?[") and not os.path.lexists(path):
            items.extend(_glob_items(path, key))
            several = True
        else:
            items.append(Item(source, Path(path).name))
    if files_from is not None:
        items.extend(_listed_items(files_from, dataset))
    if sum(item.source.path == "-" for item in items) + (files_from == "-") > 1:
        raise RequestError("stdin (-) can be read only once")
    if len(texts) > 1 or files_from is not None:
        first: dict[tuple[str, str, str | None], Item] = {}
        for item in items:
            folder, name = os.path.split(item.source.path)
            if first.setdefault((os.path.realpath(folder), name, item.source.key), item) is not item:
                ignored.append(f"{item.source} (named twice)")
        items = list(first.values())
    return items, several, ignored


def _listed_items(path: str, dataset: str | None) -> Iterator[Item]:
    """The files in a list, one per line, or each ended by NUL as `find -print0` writes them."""
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise RequestError(f"{field('files_from', path)}: {error.strerror}") from error
    if b"\0" in content and (row := format_by_magic(content)):  # a list of names may begin with BM
        raise RequestError(f"{field('files_from')} takes a list of names, and this is {row.name}, an input itself")
    names = list(filter(None, content.split(b"\0") if b"\0" in content else content.splitlines()))
    if not names:
        raise RequestError(f"{field('files_from', path)}: names no file")
    for name in names:
        source = parse_source(os.fsdecode(name), dataset)
        plain = os.path.normpath(source.path)
        is_below = not (os.path.isabs(plain) or plain.startswith("..") or is_url(source.path))
        yield Item(source, plain if is_below else os.path.basename(plain))  # outputs keep the tree


def _glob_items(pattern: str, dataset: str | None) -> list[Item]:
    # Outputs keep the tree below the folder before the first wildcard.
    root = Path(*takewhile(lambda part: not any(sign in part for sign in "*?["), Path(pattern).parts[:-1]))

    def is_input(path: str) -> bool:
        if folder_format(path):
            return True
        inside = (str(folder) for folder in Path(path).parents if root in folder.parents)  # another input, as a .zarr
        return os.path.isfile(path) and not any(map(folder_format, inside))

    paths = filter(is_input, sorted(glob.iglob(pattern, recursive=True)))
    found = [Item(Source(path, dataset), os.path.relpath(path, root)) for path in paths]
    if not found:
        path, _, key = pattern.rpartition(":")
        remedy = f"; name the array with {field('dataset', key)}" if glob.glob(path) else ""
        raise RequestError(f"{pattern} matches no file{remedy or not_found(pattern)}")
    return found


def _folder_items(
    folder: str, dataset: str | None, recursive: bool, output: str | None, ignored: list[str]
) -> Iterator[Item]:
    """The inputs in a folder in the order of their names, and folders that cannot be searched; adds other names to
    `ignored`.

    Hidden names, and folders that are not entered, such as links, are ignored. The output and temporary files are left
    out. A pipe or a broken link may be an input, so that it is refused with a message and not ignored.
    """
    own = os.path.realpath(output) if output and output != "-" else None
    waiting, above, any_input = [folder], len(os.path.join(folder, "")), False
    while waiting:
        current, entered = waiting.pop(), []
        try:
            with os.scandir(current) as found:
                entries = sorted(found, key=attrgetter("name"))
        except OSError as error:
            any_input = True
            yield Item(Source(current), current[above:], FileError(f"{current}: {error.strerror}"))
            continue
        for entry in entries:
            # Not entry.is_dir(), which raises an error for a circular link.
            path, hidden, is_folder = entry.path, entry.name[0] == ".", os.path.isdir(entry)
            if is_internal_file(entry.name) or (is_folder and os.path.realpath(path) == own):
                continue
            row = folder_format(path) if is_folder else format_by_suffix(path)
            if row is not None and not hidden:
                any_input = True
                yield Item(Source(path, dataset), path[above:])
            elif recursive and is_folder and not hidden and not entry.is_symlink():
                entered.append(path)
            else:
                ignored.append(f"{path}/" if is_folder and not recursive else path)
        waiting.extend(reversed(entered))
    if not any_input:
        deeper = "" if recursive else "; -r includes subfolders"
        raise RequestError(f"{folder} holds no file that poolcli reads{deeper}")


def plan_jobs(
    items: Sequence[Item], several: bool, output: str | None, indices: str | None, suffix: str | None
) -> list[Job]:
    """One job for each item; a job whose outputs clash with those of others has a `refusal`.

    Raises RequestError if all jobs clash, or if an output is an input.
    """
    known = [each.lstrip(".") for each in suffixes_of(lambda row: row.writes)] if suffix else []
    if suffix and (word := suffix.lstrip(".")).lower() not in known:
        meant = did_you_mean(word, known)
        raise RequestError(f"{field('format')} is {word!r}; it must be one of {', '.join(known)}{meant}")
    targets = _target("output", output, several, suffix), _target("indices", indices, several, TENSOR_SUFFIX)
    if several and any(target.text and not target.in_folder for target in targets):
        for path in (item.source.path for item in items):  # a word that is none makes several of one
            if path != "-" and not is_url(path) and not os.path.lexists(path):
                one = f"{field('output')} is one file; quote names with spaces (-n, -q, -r and -v take no value)"
                keyed = suffixes_of(lambda row: row.is_container)
                file = next((each.source.path for each in items if each.source.path.endswith(keyed)), "")
                meant = f"; an array in a file is written {file}:{path}" if file else not_found(path)
                raise RequestError(f"{path}: there is no such input, and {one}{meant}")
    jobs = [_job(item, *targets) for item in items]
    for target in (target for job in jobs for target in job.targets):
        check_output_url(target.path)
    _refuse_inputs(jobs)
    return _without_clashes(jobs)


@dataclass(frozen=True, slots=True)
class Target:
    """What --output or --indices names: a file, an array `key` in one, or a folder."""

    option: str
    text: str | None
    key: str | None
    in_folder: bool
    several: bool
    suffix: str | None  # replaces the extension of names in a folder

    def path_for(self, item: Item) -> str | None:
        """The output of an input."""
        target = self.text
        if target is None:
            return None
        if self.in_folder:
            return self._path_in_folder(target, item)
        if self.several:
            parent = os.path.dirname(target) or "out"  # for a template of names, which are kept
            folder = parent if any(sign in target for sign in "{*%") else without_suffix(target) or target
            raise RequestError(
                f"{field(self.option, target)} is one file, but there are several inputs, each pooled by itself; "
                f"name a folder: {folder}/ (to pool across files, stack them: numpy.stack)"
            )
        if self.suffix and self.option == "output":
            raise RequestError(
                f"{field('format', self.suffix)} names the format of outputs in a folder, and {target} is one file; "
                "leave it out: the extension of the file selects its format"
            )
        if target != "-":
            check_output_url(target)
            output_format(target, item.source.path if self.option == "output" else "")
        return target

    def _path_in_folder(self, folder: str, item: Item) -> str:
        if item.source.path == "-":
            raise RequestError(f"{field(self.option, folder)} is a folder, and stdin has no name to keep; name a file")
        try:
            relative_path(item.relative)
        except ValueError as reason:
            raise RequestError(
                f"{item.source.path}: would be called {item.relative!r} among the outputs: {reason}; pool it by itself "
                f"into a file that you name with {field('output')}"
            ) from None
        path = f"{folder.rstrip('/')}/{item.relative}" if is_url(folder) else os.path.join(folder, item.relative)
        if self.suffix:
            return f"{without_suffix(path)}.{self.suffix.lstrip('.')}"
        row = format_by_suffix(path)
        if row is None:  # of another name than those of its format, whose errors the job says
            with suppress(FileError):
                row = recognise(item.source.path)
                return without_suffix(path) + (row.written_as or row.suffixes[0])
        return without_suffix(path) + row.written_as if row and row.written_as else path


def _target(option: str, text: str | None, several: bool, suffix: str | None) -> Target:
    source = parse_source(text) if text else None
    if source is None or source.key is None or (os.path.isdir(source.path) and not folder_format(source.path)):
        return Target(option, text, None, bool(text) and _is_folder(str(text), several), several, suffix)
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
    if item.error:
        return Job(item.source, None, refusal=item.error)
    note, row = None, format_by_suffix(item.relative)
    if row is not None and row.is_image and not row.writes and output.in_folder and not output.suffix:
        own = item.relative[len(without_suffix(item.relative)) :].lower()
        note = f"written as {row.written_as}: poolcli does not write {own}"
    return Job(item.source, output.path_for(item), indices.path_for(item), output.key, indices.key, note=note)


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
    found = list(jobs)
    for name, numbers in by_name.items():
        if len(numbers) > 1:
            path = next(path for path in jobs[numbers[0]].outputs if _comparable_path(path) == name)
            reason = f"more than one input would be written to {path}; pool them into different folders or rename one"
            refusal = RequestError(reason)
            for number in numbers:
                found[number] = replace(found[number], refusal=refusal)
    first = found[0].refusal
    if first and all(isinstance(job.refusal, RequestError) for job in found):
        alike = [job.source.path for job in found if job.refusal is first]
        raise RequestError(f"{join_names(alike, INPUTS_NAMED)}: {first.message}")
    return found


def _comparable_path(path: str) -> str:
    return unicodedata.normalize("NFC", path if is_url(path) else os.path.abspath(path)).casefold()


def _refuse_inputs(jobs: Sequence[Job]) -> None:
    """Refuses outputs that are inputs, of whichever job; if no output exists, no input is looked up."""
    targets = [target for job in jobs for target in job.targets if target.key is None and not is_device(target.path)]
    outputs = {os.path.realpath(target.path): target.path for target in targets if os.path.exists(target.path)}
    for path in (job.source.path for job in jobs if outputs):
        if (place := os.path.realpath(path)) in outputs:
            raise RequestError(f"output {outputs[place]} is the input {path}; name another file or folder")
