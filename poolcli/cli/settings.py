"""The options of commands as settings of jobs and of reading; refuses requests before data is read: options that
contradict each other or have no effect, and inputs that are values or operators in the wrong place.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from poolcli.cli.line import BOOLEANS
from poolcli.cli.operators import find_operator
from poolcli.cli.values import WidthByHeight, is_number_list
from poolcli.errors import RequestError
from poolcli.formats import ReadOptions, Tensor, parse_source
from poolcli.formats.checks import tensor_layout
from poolcli.formats.table import Format, format_by_suffix
from poolcli.layouts import convert_layout
from poolcli.message_fields import field
from poolcli.pooling.outcome import Job, Settings
from poolcli.system.limits import memory_budget

if TYPE_CHECKING:
    from poolcli.cli.options import ArrayOptions, PoolOptions

UNLIMITED = 2**63 - 1  # bytes; reading a header decompresses nothing
LOSSY_FORMATS = ("jpeg", "webp")
EXCLUSIVE = (
    ("overwrite", "resume"), ("quiet", "verbose"),
    ("all", "dataset"),
)  # fmt: skip
DATASET_UNUSED = "selects an array in a file that holds several, and no input is such a file"


def array_settings(request: ArrayOptions) -> Settings:
    """The settings that pooling and pyramids share; fields of Settings that are options are taken as they are."""
    same: dict[str, Any] = {
        own.name: getattr(request, own.name) for own in fields(Settings) if hasattr(request, own.name)
    }
    limits = {"max_memory": _limit(request.max_memory), "allowed": request.max_memory}
    return Settings(**same | limits | {"threads": request.jobs})


def header_options(pages: str | None, allow_external: bool, paths: Iterable[str]) -> ReadOptions:
    """How headers are read; refuses `--pages` without an image."""
    if pages and not any(row is None or row.is_image for row in formats_of(paths)):
        raise RequestError(f"{field('pages')} is for images, and no input is one; leave it out")
    return ReadOptions(pages, allow_external, allowed=UNLIMITED)


def array_options(
    allow_external: bool, max_memory: int | None, pages: str | None = None, paths: Iterable[str] = ()
) -> ReadOptions:
    """How whole arrays are read; refuses `--pages` without an image."""
    found = header_options(pages, allow_external, paths)
    return replace(found, limit=_limit(max_memory), allowed=max_memory)


def _limit(max_memory: int | None) -> int | None:
    return memory_budget(None) if max_memory is None else max_memory


def as_tensor(found: Tensor) -> Tensor:
    """An image with its axes in the order of tensors; any other array unchanged."""
    layout = found.header.layout
    if found.header.mode is None or layout is None:
        return found
    array = convert_layout(found.array, layout, tensor_layout(layout))
    return replace(found, array=array, header=replace(found.header, shape=array.shape, layout=tensor_layout(layout)))


def refuse_width_by_height(size: object, paths: Iterable[str]) -> None:
    """Refuses 200x150 as the output size of an image, because the order here is H,W."""
    if isinstance(size, WidthByHeight) and any(row and row.is_image for row in formats_of(paths)):
        width, height = size
        raise RequestError(
            f"{field('output_size', f'{width}x{height}')}: the order is H,W, and for an image {width}x{height} is "
            f"width by height; write {field('output_size', (height, width))}, or {field('fit', f'{width}x{height}')} "
            "to keep its aspect"
        )


def formats_of(paths: Iterable[str]) -> list[Format | None]:
    """The formats of files by their names, each once; None stands for files of no known format."""
    rows = (format_by_suffix(path) for path in paths)
    return list({row.name if row else "": row for row in rows}.values())


def refuse_contradictions(request: PoolOptions) -> None:
    """Refuses options that contradict each other, and a call without an output."""
    output, streams = field("output"), (request.output, request.indices)
    if request.output is None and not request.dry_run:
        raise RequestError(f"{output} is missing: name a file, a folder or - (or plan only, with {field('dry_run')})")
    for one, other in EXCLUSIVE:
        if getattr(request, one) and getattr(request, other):
            raise RequestError(f"{field(one)} and {field(other)} contradict each other; give one")
    if streams == ("-", "-"):
        raise RequestError(f"{output} and {field('indices')} cannot both be standard output; name a file for one")
    if request.resume and "-" in streams:
        raise RequestError(f"{field('resume')} continues files; standard output cannot be continued")
    for name, stream in zip(("output", "indices"), streams, strict=True):
        if (stream or "").lower() in BOOLEANS:
            raise RequestError(f"{field(name)} takes a path, such as {field(name, 'y.npy')}")
        if stream == "-" and not request.dry_run and sys.stdout.isatty():
            raise RequestError(
                f"{field(name, '-')} writes numbers as a .npy stream, and standard output is a terminal; "
                f"send it somewhere (| or >), or name a file: {field(name, 'y.npy')}"
            )


def refuse_unknown_inputs(op: str, request: PoolOptions) -> None:
    """Refuses inputs that are values, options or outputs in the wrong place, but not other files that are missing."""
    words = request.inputs or []
    for i, word in enumerate(words):
        if word == "-" or re.search(r"://|[*?[]", word) or os.path.lexists(parse_source(word).path):
            continue
        keyword, equals, value = word.partition("=")
        if is_number_list(word):
            own = field("output_size" if request.output_size else "kernel", word)
            remedy = f"a value follows its option, as in {own}; several are 2,3"
        elif find_operator(word):
            remedy = f"the operator is {op} already"
        elif equals and keyword.isidentifier():
            remedy = f"an option begins with dashes: --{keyword.replace('_', '-')} {value}"
        elif i == len(words) - 1 > 0 and request.output is None:
            output = word if os.path.splitext(word)[1] else f"{word.rstrip('/')}/"
            remedy = f"if it is the output, write {field('output', output)}"
        else:
            continue
        raise RequestError(f"{word} is not a file; {remedy}")


def refuse_without_effect(request: PoolOptions, jobs: Sequence[Job]) -> None:
    """Refuses options that have no effect on these jobs."""
    inputs = formats_of(job.source.path for job in jobs)
    outputs = formats_of(job.output for job in jobs if job.output)
    images = any(row is None or row.is_image for row in inputs)
    several = any(row is None or row.is_container for row in inputs)
    lossy = any(row is None or row.name in LOSSY_FORMATS for row in outputs)
    folders = any(os.path.isdir(text) or "**" in text for text in request.inputs or ())
    about_indices = f"applies to indices, which {field('indices', 'where.npy')} writes"
    effects = (  # the option, whether it has an effect, and its purpose
        ("pages", images, "is for images, and no input is one"),
        ("dataset", several, DATASET_UNUSED),
        ("all", several, "is for files that hold several arrays, and no input is one"),
        ("quality", lossy, "is for .jpg and .webp outputs, and there is none"),
        ("recursive", folders, "searches folders, and no input is one"),
        ("axis", request.indices, about_indices),
        ("index_element_type", request.indices, about_indices),
    )
    for name, has_effect, purpose in effects:
        if getattr(request, name) and jobs and not has_effect:
            raise RequestError(f"{field(name)} {purpose}; leave it out")
    if request.resume and any(target.key for job in jobs for target in job.targets):
        raise RequestError(f"{field('resume')} continues files; name the file alone, without an array in it")
