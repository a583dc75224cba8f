"""What holds for every job of a request; contradictions are refused before any file is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from poolcli.cli.values import parse_numbers
from poolcli.errors import RequestError
from poolcli.formats.npy import raw_from
from poolcli.message_fields import field
from poolcli.nodata import Missing
from poolcli.pooling.colour import Limits
from poolcli.pooling.outcome import Settings
from poolcli.system.limits import memory_budget

if TYPE_CHECKING:
    from poolcli.cli.options import Arrays
    from poolcli.cli.pool import PoolOptions

OWN_LIMITS = "auto"  # what --rescale stands for alone
NO_NUMBER = "none"  # typed for: nothing is missing, whatever a file says


def settings_of(request: PoolOptions) -> Settings:
    """The settings of the request's jobs; refuses what contradicts itself and numbers that can mean nothing."""
    refuse_below_one("jobs", request.jobs)
    if request.quality is not None and not 1 <= request.quality <= 100:
        raise RequestError(f"{field('quality')} is {request.quality}, it must be from 1 to 100")
    _refuse_contradictions(request)
    return replace(
        array_settings(request),
        output_layout=request.output_layout,
        dtype=request.dtype,
        quality=request.quality,
        linear_light=request.linear_light,
        rescale=_limits(request.rescale),
        raw=raw_from(request.raw) if request.raw else None,
        arrays=_arrays(request),
        skip_existing=request.skip_existing,
    )


def array_settings(request: Arrays) -> Settings:
    """The settings that pooling and pyramids have in common; refuses numbers that can mean nothing."""
    refuse_below_one("threads", request.threads)
    refuse_below_one("max_pixels", request.max_pixels)
    limit = memory_budget(request.max_memory)
    if request.cluster is not None:
        from poolcli.runs.executors.dask import check_cluster

        check_cluster(request.cluster)
    return Settings(
        layout=request.layout,
        engine=request.engine,
        threads=request.threads,
        max_memory=limit,
        allowed=limit if request.max_memory else None,
        pages=request.pages,
        max_pixels=request.max_pixels,
        allow_external=request.allow_external,
        missing=_missing(request.missing),
        dry_run=request.dry_run,
        overwrite=request.overwrite,
        resume=request.resume,
        chunks=_numbers("chunks", request.chunks),
        shards=_numbers("shards", request.shards),
    )


def dataset_of(request: PoolOptions) -> str | None:
    """The one dataset that is named, for every input that has any; None where it is none or several."""
    return request.dataset[0] if len(request.dataset) == 1 else None


def _arrays(request: PoolOptions) -> tuple[str, ...] | None:
    """The several arrays of a file that are named, () for all; None for the one that is meant."""
    if request.all:
        return ()
    return tuple(request.dataset) if len(request.dataset) > 1 else None


def _missing(typed: Sequence[str]) -> Missing | None:
    """The numbers that stand for no value: () where `none` says that there are none, None where nothing is said."""
    if not typed:
        return None
    return () if tuple(typed) == (NO_NUMBER,) else tuple(map(_number, typed))


def _limits(typed: str | None) -> Limits | None:
    """What becomes 0 and 255 in a picture; () for the lowest and the highest, None where nothing is rescaled."""
    if typed is None or typed == OWN_LIMITS:
        return None if typed is None else ()
    try:
        low, high = map(float, typed.split(","))
    except ValueError:
        raise _no_limits(typed) from None
    if not -inf < low < high < inf:
        raise _no_limits(typed)
    return low, high


def _no_limits(typed: str) -> RequestError:
    return RequestError(
        f"{field('rescale')} is {typed[:40]!r}; write a lower and a higher number, {field('rescale', '0,1')}, "
        f"or {field('rescale')} alone for those of each result"
    )


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise RequestError(
            f"{field('missing')} is {text[:40]!r}; write a number, nan, or {NO_NUMBER} alone (all count)"
        ) from None


def _numbers(name: str, text: str | None) -> tuple[int, ...] | None:
    """The numbers that were typed for a field, None for none."""
    return None if text is None else parse_numbers(field(name), text)


def refuse_below_one(name: str, count: int | None) -> None:
    """Refuses a count of nothing."""
    if count is not None and count < 1:
        raise RequestError(f"{field(name)} is {count}, it must be at least 1")


def _refuse_contradictions(request: PoolOptions) -> None:
    if request.output is None and not request.dry_run:
        raise RequestError(
            f"{field('output')} is missing: name a file, a folder or - (or plan only, with {field('dry_run')})"
        )
    standing = {"overwrite": request.overwrite, "skip_existing": request.skip_existing, "resume": request.resume}
    chosen = [field(name) for name, given in standing.items() if given]
    if len(chosen) > 1:
        raise RequestError(f"{chosen[0]} and {chosen[1]} contradict each other; give one")
    if request.quiet and request.verbose:
        raise RequestError(f"{field('quiet')} and {field('verbose')} contradict each other; give one")
    if request.output == "-" and request.indices == "-":
        both = f"{field('output')} and {field('indices')}"
        raise RequestError(f"{both} cannot both be standard output; name a file for one")
    if request.resume and "-" in (request.output, request.indices):
        raise RequestError(f"{field('resume')} continues files; standard output cannot be continued")
    if request.raw and (request.all or request.dataset):
        raise RequestError(f"{field('raw')} is one array; leave out {field('all' if request.all else 'dataset')}")
    if request.all and request.dataset:
        raise RequestError(f"{field('all')} takes every array, {field('dataset')} names some; give one of them")
