"""From options to what the rest of the program takes: the settings of jobs, and how files are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from math import inf
from typing import TYPE_CHECKING, Any

from poolcli.cli.checks import formats_of
from poolcli.cli.values import parse_numbers
from poolcli.errors import RequestError
from poolcli.formats import ReadOptions, Source, Tensor
from poolcli.formats.checks import tensor_layout
from poolcli.formats.npy import raw_from
from poolcli.layouts import convert_layout
from poolcli.message_fields import field
from poolcli.nodata import Missing, min_count_from
from poolcli.pooling.colour import Limits
from poolcli.pooling.outcome import Settings
from poolcli.system.limits import memory_budget

if TYPE_CHECKING:
    from poolcli.cli.options import MakesArrays, ReadsArrays, ReadsHeaders
    from poolcli.cli.pool import PoolOptions

OWN_LIMITS = "auto"  # what --rescale stands for alone
NO_NUMBER = "none"  # typed for: nothing is missing, whatever a file says
NO_LIMIT = 2**63 - 1  # bytes: a header alone does not expand


def settings_of(request: PoolOptions) -> Settings:
    """The settings of the jobs of a pooling command."""
    refuse_below_one("jobs", request.jobs)
    if request.quality is not None and not 1 <= request.quality <= 100:
        raise RequestError(f"{field('quality')} is {request.quality}; it must be from 1 to 100")
    several = tuple(request.dataset) if len(request.dataset) > 1 else None
    return replace(
        array_settings(request),
        rescale=_limits(request.rescale),
        raw=raw_from(request.raw) if request.raw else None,
        arrays=() if request.all else several,
    )


def array_settings(request: MakesArrays) -> Settings:
    """The settings that pooling and pyramids have in common, and those of pooling that are as they were typed."""
    refuse_below_one("threads", request.threads)
    refuse_below_one("max_pixels", request.max_pixels)
    limit = memory_budget(request.max_memory)
    if request.cluster is not None:
        from poolcli.runs.executors import check_cluster

        check_cluster(request.cluster)
    typed = vars(request).keys() & {own.name for own in fields(Settings)} - {"rescale", "raw"}
    read: dict[str, Any] = {name: getattr(request, name) for name in typed} | {
        "max_memory": limit,
        "allowed": limit if request.max_memory else None,
        "missing": _missing(request.missing),
        "min_count": min_count_from(request.min_count),
    }
    for name in ("chunks", "shards"):
        read[name] = parse_numbers(field(name), read[name]) if read[name] is not None else None
    return Settings(**read)


def header_options(request: ReadsHeaders, sources: Sequence[Source]) -> ReadOptions:
    """How headers are read; refuses what has no effect on these files."""
    refuse_below_one("max_pixels", request.max_pixels)
    if request.pages and not any(row is None or row.picture for row in formats_of(each.path for each in sources)):
        raise RequestError(f"{field('pages')} is for images, and no input is one; leave it out")
    return ReadOptions(request.pages, request.max_pixels, request.allow_external, allowed=NO_LIMIT)


def array_options(request: ReadsArrays, sources: Sequence[Source]) -> ReadOptions:
    """How whole arrays are read; refuses what has no effect on these files."""
    limits = data_options(request.allow_external, request.max_memory)
    return replace(header_options(request, sources), limit=limits.limit, allowed=limits.allowed)


def data_options(allow_external: bool, max_memory: str | None) -> ReadOptions:
    """How whole arrays are read that are no images."""
    limit = memory_budget(max_memory)
    return ReadOptions(allow_external=allow_external, limit=limit, allowed=limit if max_memory else None)


def as_tensor(found: Tensor) -> Tensor:
    """An image in the layout of tensor files; any other array as it is."""
    layout = found.header.layout
    if found.header.mode is None or layout is None:
        return found
    array = convert_layout(found.array, layout, tensor_layout(layout))
    return replace(found, array=array, header=replace(found.header, shape=array.shape, layout=tensor_layout(layout)))


def refuse_below_one(name: str, count: int | None) -> None:
    """Refuses a count of nothing."""
    if count is not None and count < 1:
        raise RequestError(f"{field(name)} is {count}; it must be at least 1")


def _missing(typed: Sequence[str]) -> Missing | None:
    """The nodata values: () where `none` says that there are none, None where the file decides."""
    if not typed:
        return None
    return () if tuple(typed) == (NO_NUMBER,) else tuple(map(_number, typed))


def _number(text: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise RequestError(f"{field('missing')} is {text[:40]!r}; write a number, nan, or {NO_NUMBER} (no nodata value)")


def _limits(typed: str | None) -> Limits | None:
    """What becomes 0 and 255 in an image; () for the lowest and the highest, None where nothing is rescaled."""
    if typed is None or typed == OWN_LIMITS:
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
