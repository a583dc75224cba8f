"""What a pooling command refuses before it reads any data: contradictions, words that are not files, and options that
would change nothing, because whoever gives one means something by it.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from poolcli.cli.operators import OPERATOR_WORDS, operator_named
from poolcli.cli.values import is_number_list
from poolcli.errors import RequestError
from poolcli.formats import parse_source
from poolcli.formats.atomic import is_device
from poolcli.formats.files import is_url
from poolcli.formats.table import FORMATS, Format, with_suffix
from poolcli.message_fields import field
from poolcli.pooling.outcome import Job, Settings, existing_outputs
from poolcli.suggestions import listed

if TYPE_CHECKING:
    from poolcli.cli.pool import PoolOptions

NONE_OF_SEVERAL = "selects an array in a file that holds several, and no input is such a file"
TERMINAL, TEXT = "terminal", "text"  # values of --preview that show it on standard output
WITH_QUALITY = ("jpeg", "webp")
EXCLUSIVE = (
    ("overwrite", "skip_existing"), ("overwrite", "resume"), ("skip_existing", "resume"), ("quiet", "verbose"),
    ("all", "dataset"), ("raw", "all"), ("raw", "dataset"), ("preview", "dry_run"), ("preview", "all"),
)  # fmt: skip


def refuse_contradictions(request: PoolOptions) -> None:
    """Refuses options that contradict each other, and an output that is missing."""
    output, streams = field("output"), (request.output, request.indices)
    _refuse(request.output == "", f"{output} is empty (an unset variable?); name a file, a folder or -")
    _refuse(
        request.output is None and not request.dry_run,
        f"{output} is missing: name a file, a folder or - (or plan only, with {field('dry_run')})",
    )
    for one, other in EXCLUSIVE:
        both = getattr(request, one) and getattr(request, other)
        _refuse(both, f"{field(one)} and {field(other)} contradict each other; give one")
    _refuse(
        streams == ("-", "-"), f"{output} and {field('indices')} cannot both be standard output; name a file for one"
    )
    _refuse(
        request.resume and "-" in streams, f"{field('resume')} continues files; standard output cannot be continued"
    )
    for name, stream in zip(("output", "indices"), streams, strict=True):
        _refuse(
            stream == "-" and not request.dry_run and sys.stdout.isatty(),
            f"{field(name, '-')} writes numbers as a .npy stream, and standard output is a terminal; "
            f"send it somewhere (| or >), or name a file: {field(name, 'y.npy')}",
        )


def refuse_unknown_inputs(op: str, request: PoolOptions) -> None:
    """Refuses words that belong elsewhere; names of files that do not exist are left to whoever opens them."""
    words = request.inputs
    for i, word in enumerate(words):
        _refuse(word == "", "an input is empty (an unset variable?); name a file")
        if word == "-" or re.search(r"://|[*?[]", word) or os.path.lexists(parse_source(word).path):
            continue
        parts = (words[i:end] for end in range(i + 2, len(words) + 1))
        name = next((each for each in parts if os.path.lexists(" ".join(each))), None)
        if name:
            raise RequestError(f"{listed(name, 'and')} are not files; write {shlex.quote(' '.join(name))} in quotes")
        both = f"adaptive-{operator_named(word)}"
        instead = f"write {both} in one word, or leave it out" if both in OPERATOR_WORDS else "leave it out"
        _refuse(operator_named(word), f"{word} is not a file, and the operator is {op} already; {instead}")
        own = field("output_size" if request.output_size else "kernel", word)
        _refuse(is_number_list(word), f"{word} is not a file; if it is a value, its option is missing, as in {own}")
        output = word if os.path.splitext(word)[1] else f"{word.rstrip('/')}/"
        _refuse(
            i == len(words) - 1 > 0 and request.output is None,
            f"{word} is not a file; if it is the output, write {field('output', output)}",
        )


def refuse_preview(request: PoolOptions, several: bool) -> None:
    """Refuses a preview of what cannot be shown, or that would stand between other output."""
    wanted, name = request.preview, field("preview")
    if wanted is None:
        return
    on_screen = wanted in (TERMINAL, TEXT)
    _refuse(
        several and not on_screen,
        f"{field('preview', wanted)} is for one input, and there are several; write {name} alone",
    )
    for path in (*request.inputs, request.output or ""):
        _refuse(
            path == "-" or (path and is_device(path)),
            f"{name} reads input and output again, and {path} cannot be read twice; name files",
        )
    _refuse(len(request.dataset) > 1, f"{name} shows one array; name it with one {field('dataset')}")
    _refuse(
        on_screen and request.json, f"{name} would print into the JSON; write it with {field('preview', 'seen.png')}"
    )
    _refuse(
        not on_screen and not wanted.lower().endswith(".png"),
        f"{field('preview', wanted)}: use a file that ends in .png, text, or {name} alone",
    )
    exists = not on_screen and os.path.lexists(wanted) and not request.overwrite
    _refuse(exists, f"{wanted} exists; use {field('overwrite')} to replace it")


def refuse_width_by_height(size: str | None, paths: Iterable[str]) -> None:
    """Refuses 200x150 as the output size of an image: people mean width by height, and options are in the order H,W."""
    found = re.fullmatch(r"\s*(\d+)\s*[xX×]\s*(\d+)\s*", size or "")
    if found is None or found[1] == found[2]:
        return
    _refuse(
        any(row and row.picture for row in formats_of(paths)),
        f"{field('output_size', size)}: the order is H,W, and for an image {found[0].strip()} is width by height; "
        f"write {field('output_size', f'{found[2]},{found[1]}')}, or {field('fit', f'{found[1]}x{found[2]}')} to keep "
        "its aspect",
    )


def refuse_without_effect(request: PoolOptions, jobs: Collection[Job]) -> None:
    """Refuses the first option that was given and has no effect on these jobs."""
    inputs = formats_of(job.source.path for job in jobs)
    outputs = formats_of(job.output for job in jobs if job.output)
    several = any(row is None or row.several for row in inputs)
    about_indices = f"applies to indices, which {field('indices', 'where.npy')} writes"
    effects = (  # each option, whether it has an effect, and what it is for
        ("pages", any(row is None or row.picture for row in inputs), "is for images, and no input is one"),
        ("dataset", several, NONE_OF_SEVERAL),
        ("all", several, "is for files that hold several arrays, and no input is one"),
        (
            "quality",
            any(row is None or row.name in WITH_QUALITY for row in outputs),
            "is for .jpg and .webp outputs, and there is none",
        ),
        (
            "recursive",
            any(Path(text).is_dir() or "**" in text for text in request.inputs),
            "searches folders, and no input is one",
        ),
        ("axis", request.indices, about_indices),
        ("index_element_type", request.indices, about_indices),
    )
    for name, has_effect, purpose in effects:
        _refuse(getattr(request, name) and jobs and not has_effect, f"{field(name)} {purpose}; leave it out")


def refuse_existing(jobs: Collection[Job], settings: Settings) -> None:
    """Refuses to write where something exists, unless an option says what becomes of that."""
    if settings.overwrite or settings.skip_existing or settings.resume or settings.dry_run:
        return
    if settings.part and any(is_url(job.output) for job in jobs):
        return  # where other shards may have begun: whether a store is there is looked at when the work begins
    existing = existing_outputs(jobs)
    first, others = next(existing, None), sum(1 for _ in existing)
    more = f" (and {others} more)" if others else ""
    _refuse(
        first is not None,
        f"{first} exists{more}; use {field('overwrite')}, {field('skip_existing')} or {field('resume')}, "
        f"or another {field('output')}",
    )


def _refuse(wrong: object, message: str) -> None:
    if wrong:
        raise RequestError(message)


def formats_of(paths: Iterable[str]) -> list[Format | None]:
    """The different formats of files, going by their names; None among them for any other."""
    rows = (with_suffix(path, FORMATS.values()) for path in paths)
    return list({row.name if row else "": row for row in rows}.values())
