"""Turns options into the settings of jobs and of reading, and refuses combinations of options before data is read.

Refused are options that contradict each other, inputs that are not files, and options that have no effect.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields, replace
from math import inf
from typing import TYPE_CHECKING, Any

from poolcli.arguments import Missing, min_count_from
from poolcli.cli.line import BOOLEANS
from poolcli.cli.operators import find_operator
from poolcli.cli.values import is_number_list, parse_numbers
from poolcli.errors import RequestError
from poolcli.formats import ReadOptions, Source, Tensor, parse_source
from poolcli.formats.checks import tensor_layout
from poolcli.formats.npy import parse_raw
from poolcli.formats.table import Format, format_by_suffix
from poolcli.layouts import convert_layout
from poolcli.message_fields import field
from poolcli.pooling.outcome import Job, Settings
from poolcli.system.limits import memory_budget

if TYPE_CHECKING:
    from poolcli.cli.options import ArrayOptions, PoolOptions
    from poolcli.pooling.colour import Limits

AUTO_RANGE = "auto"  # --rescale without a value: the range of each result
NO_NODATA = "none"  # --missing none: no element is missing, whatever the file says
UNLIMITED = 2**63 - 1  # bytes; reading a header decompresses nothing


def pool_settings(request: PoolOptions) -> Settings:
    """The settings of jobs that pool files."""
    if request.quality is not None and not 1 <= request.quality <= 100:
        raise RequestError(f"{field('quality')} is {request.quality}; it must be from 1 to 100")
    several = tuple(request.dataset) if len(request.dataset) > 1 else None
    return replace(
        array_settings(request),
        rescale=_rescale_range(request.rescale),
        raw=parse_raw(request.raw) if request.raw else None,
        arrays=() if request.all else several,
    )


def array_settings(request: ArrayOptions) -> Settings:
    """The settings that pooling and pyramids share; fields of Settings that are options are taken as they are."""
    refuse_below_one("jobs", request.jobs)
    limit = memory_budget(request.max_memory)
    if request.cluster is not None:
        from poolcli.runs.executors import check_cluster

        check_cluster(request.cluster)
    same = vars(request).keys() & {own.name for own in fields(Settings)} - {"rescale", "raw"}
    values: dict[str, Any] = {name: getattr(request, name) for name in same} | {
        "threads": request.jobs,
        "max_memory": limit,
        "allowed": limit if request.max_memory else None,
        "missing": _nodata_values(request.missing),
        "min_count": min_count_from(request.min_count),
    }
    for name in ("chunks", "shards"):
        values[name] = parse_numbers(field(name), values[name]) if values[name] is not None else None
    return Settings(**values)


def header_options(pages: str | None, allow_external: bool, sources: Sequence[Source]) -> ReadOptions:
    """How headers are read; refuses options that have no effect on these files."""
    if pages and not any(row is None or row.is_image for row in formats_of(each.path for each in sources)):
        raise RequestError(f"{field('pages')} is for images, and no input is one; leave it out")
    return ReadOptions(pages, allow_external, allowed=UNLIMITED)


def array_options(
    pages: str | None, allow_external: bool, max_memory: str | None, sources: Sequence[Source]
) -> ReadOptions:
    """How whole arrays are read; refuses options that have no effect on these files."""
    limits = data_options(allow_external, max_memory)
    return replace(header_options(pages, allow_external, sources), limit=limits.limit, allowed=limits.allowed)


def data_options(allow_external: bool, max_memory: str | None) -> ReadOptions:
    """How whole arrays of other files than images are read."""
    limit = memory_budget(max_memory)
    return ReadOptions(allow_external=allow_external, limit=limit, allowed=limit if max_memory else None)


def as_tensor(found: Tensor) -> Tensor:
    """An image with its axes in the order of tensors; any other array unchanged."""
    layout = found.header.layout
    if found.header.mode is None or layout is None:
        return found
    array = convert_layout(found.array, layout, tensor_layout(layout))
    return replace(found, array=array, header=replace(found.header, shape=array.shape, layout=tensor_layout(layout)))


def refuse_below_one(name: str, count: int | None) -> None:
    """Refuses a count of 0 or less."""
    if count is not None and count < 1:
        raise RequestError(f"{field(name)} is {count}; it must be at least 1")


def _nodata_values(typed: Sequence[str]) -> Missing | None:
    """The nodata values; () for `none`, None if the file decides."""
    if not typed:
        return None
    return () if tuple(typed) == (NO_NODATA,) else tuple(map(_nodata_number, typed))


def _nodata_number(text: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise RequestError(f"{field('missing')} is {text[:40]!r}; write a number, nan, or {NO_NODATA} (no nodata value)")


def _rescale_range(typed: str | None) -> Limits | None:
    """The values that become 0 and 255; () for the range of each result, None without rescaling."""
    if typed is None or typed == AUTO_RANGE:
        return None if typed is None else ()
    try:
        low, high = map(float, typed.split(","))
    except ValueError:
        low = high = 0
    if not -inf < low < high < inf:
        raise RequestError(
            f"{field('rescale')} is {typed[:40]!r}; write LOW,HIGH, such as {field('rescale', '0,1')}, "
            f"or {field('rescale')} alone for the range of each result"
        )
    return low, high


DATASET_UNUSED = "selects an array in a file that holds several, and no input is such a file"
LOSSY_FORMATS = ("jpeg", "webp")
EXCLUSIVE = (
    ("overwrite", "resume"), ("quiet", "verbose"),
    ("all", "dataset"), ("raw", "all"), ("raw", "dataset"),
)  # fmt: skip


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
    """Refuses inputs that are values, operators or outputs in the wrong place, but not other files that are missing."""
    words = request.inputs
    for i, word in enumerate(words):
        if word == "-" or re.search(r"://|[*?[]", word) or os.path.lexists(parse_source(word).path):
            continue
        if find_operator(word):
            raise RequestError(f"{word} is not a file, and the operator is {op} already; leave it out")
        if is_number_list(word):
            own = field("output_size" if request.output_size else "kernel", word)
            raise RequestError(f"{word} is not a file; a value follows its option, as in {own}; several are 2,3")
        keyword, equals, value = word.partition("=")
        if equals and keyword.isidentifier():
            flag = f"--{keyword.replace('_', '-')}"
            raise RequestError(f"{word} is not a file; an option begins with dashes: {flag} {value}")
        if word.lower() in BOOLEANS:
            raise RequestError(f"{word} is not a file; a flag takes a value only behind =, as in --include-pad={word}")
        if i == len(words) - 1 > 0 and request.output is None:
            output = word if os.path.splitext(word)[1] else f"{word.rstrip('/')}/"
            raise RequestError(f"{word} is not a file; if it is the output, write {field('output', output)}")


def refuse_width_by_height(size: str | None, paths: Iterable[str]) -> None:
    """Refuses 200x150 as the output size of an image: it usually means width by height, but the order here is H,W."""
    found = re.fullmatch(r"\s*(\d+)\s*[xX×]\s*(\d+)\s*", size or "")
    if found is None or found[1] == found[2]:
        return
    if any(row and row.is_image for row in formats_of(paths)):
        raise RequestError(
            f"{field('output_size', size)}: the order is H,W, and for an image {found[0].strip()} is width by height; "
            f"write {field('output_size', f'{found[2]},{found[1]}')}, or {field('fit', f'{found[1]}x{found[2]}')} to "
            "keep its aspect"
        )


def refuse_without_effect(request: PoolOptions, jobs: Collection[Job]) -> None:
    """Refuses options that have no effect on these jobs."""
    inputs = formats_of(job.source.path for job in jobs)
    outputs = formats_of(job.output for job in jobs if job.output)
    several = any(row is None or row.is_container for row in inputs)
    about_indices = f"applies to indices, which {field('indices', 'where.npy')} writes"
    effects = (  # the option, whether it has an effect, and its purpose
        ("pages", any(row is None or row.is_image for row in inputs), "is for images, and no input is one"),
        ("dataset", several, DATASET_UNUSED),
        ("all", several, "is for files that hold several arrays, and no input is one"),
        (
            "quality",
            any(row is None or row.name in LOSSY_FORMATS for row in outputs),
            "is for .jpg and .webp outputs, and there is none",
        ),
        (
            "recursive",
            any(os.path.isdir(text) or "**" in text for text in request.inputs),
            "searches folders, and no input is one",
        ),
        ("axis", request.indices, about_indices),
        ("index_element_type", request.indices, about_indices),
    )
    for name, has_effect, purpose in effects:
        if getattr(request, name) and jobs and not has_effect:
            raise RequestError(f"{field(name)} {purpose}; leave it out")


def formats_of(paths: Iterable[str]) -> list[Format | None]:
    """The formats of files by their names, each once; None stands for files of no known format."""
    rows = (format_by_suffix(path) for path in paths)
    return list({row.name if row else "": row for row in rows}.values())
