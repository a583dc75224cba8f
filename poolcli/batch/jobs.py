"""Which output each input goes to. Everything that can clash is refused here, before any work."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from poolcli.batch.inputs import Item
from poolcli.core.errors import RequestError
from poolcli.core.fields import field
from poolcli.formats import format_of
from poolcli.formats.atomic import is_device
from poolcli.formats.recognise import names_folder_output
from poolcli.formats.table import without_suffix
from poolcli.job.job import Job

TENSOR_SUFFIX = ".npy"


def plan_jobs(
    items: Sequence[Item], several: bool, output: str | None, indices: str | None, suffix: str | None
) -> tuple[Job, ...]:
    """One job for each item; refuses clashes among outputs and outputs that are inputs."""
    jobs = tuple(
        Job(
            item.source,
            _path_for(item, output, several, suffix, "output"),
            _path_for(item, indices, several, TENSOR_SUFFIX, "indices"),
        )
        for item in items
    )
    _refuse_clashes(jobs)
    _refuse_inputs(jobs)
    return jobs


def _path_for(item: Item, target: str | None, several: bool, suffix: str | None, name: str) -> str | None:
    if target is None:
        return None
    folder = (target.endswith(("/", os.sep)) or Path(target).is_dir()) and not names_folder_output(target)
    if target != "-" and folder:
        if item.source.path == "-":
            raise RequestError(f"{field(name, target)} is a folder, and stdin has no name to keep; name the file")
        path = str(Path(target) / item.relative)
        return without_suffix(path) + "." + suffix.lstrip(".") if suffix else path
    if several:
        raise RequestError(f"{field(name, target)} is one file, but the inputs are several; name a folder: {target}/")
    if target != "-":
        format_of(target)
    return target


def _refuse_clashes(jobs: Sequence[Job]) -> None:
    """Compares names as the least careful file system does: without case and in one Unicode form."""
    taken: dict[str, str] = {}
    for job in jobs:
        for path in job.outputs:
            name = unicodedata.normalize("NFC", os.path.abspath(path)).casefold()
            if name in taken:
                raise RequestError(
                    f"{taken[name]} and {job.source.path} would both be written to {path}; "
                    "pool them into different folders or rename one"
                )
            taken[name] = job.source.path


def _refuse_inputs(jobs: Sequence[Job]) -> None:
    inputs = {identity: job.source.path for job in jobs for identity in _identity(job.source.path)}
    for job in jobs:
        for path in job.outputs:
            for identity in _identity(path):
                if identity in inputs and not is_device(path):
                    raise RequestError(f"output {path} is the input {inputs[identity]}; name another file or folder")


def _identity(path: str) -> Iterator[tuple[int, int]]:
    """Device and inode of the file behind `path`, links followed; nothing where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return
    yield status.st_dev, status.st_ino
