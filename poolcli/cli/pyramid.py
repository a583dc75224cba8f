"""The `pyramid` command: an array to an OME-Zarr store of levels."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

from poolcli.arguments import one_of
from poolcli.cli.progress import Bytes, progress
from poolcli.cli.requests.pyramid import PyramidRequest
from poolcli.cli.settings import array_settings
from poolcli.cli.values import parse_numbers
from poolcli.errors import RequestError
from poolcli.formats import ReadOptions, Source, open_array, parse_source
from poolcli.formats.isolated import in_subprocess_if_fragile
from poolcli.formats.paths import check_url, exists
from poolcli.message_fields import field
from poolcli.ops import LEVELLING
from poolcli.pooling.failures import failure
from poolcli.pooling.outcome import Settings
from poolcli.pooling.pyramid.levels import BASES, EDGES, Reduction
from poolcli.pooling.pyramid.prepare import Pyramid, Request, prepare
from poolcli.pooling.pyramid.run import Made, is_made, make
from poolcli.runs.executors.dask import spreading

_STEP = re.compile(r"\s*([A-Za-z]+)\s*=\s*([0-9.eE+-]+)\s*")


def pyramid(request: PyramidRequest) -> int:
    """Makes a pyramid; returns the exit code."""
    settings = array_settings(request)
    asked = _asked(request)
    output = _output(request)
    source = parse_source(request.source, next(iter(request.dataset), None))
    with progress(source.path, 1, request.quiet) as (_, bytes_done):
        try:
            look = partial(_made, asked, source, output, settings, bytes_done, request.cluster)
            # A cluster has processes, which one that may crash cannot have.
            found, made = look() if request.cluster else in_subprocess_if_fragile(source.path, look)
        except Exception as error:
            raise failure(error, source.path) from error
    _report(request, found, made)
    return 0


def _made(
    asked: Request, source: Source, output: str, settings: Settings, bytes_done: Bytes, cluster: str | None
) -> tuple[Pyramid, Made | None]:
    """What was planned, and how it was made: None where nothing had to be."""
    options = settings.read_options
    with open_array(source, _of_levels(options)) as file:
        metadata = file.metadata if file.streams else None
        found = prepare(asked, source, file.header, metadata, output, settings)
        if settings.dry_run or (settings.resume and is_made(found)):
            return found, None
        _refuse_existing(found, settings)
        with spreading(cluster, settings.resume) as spread:
            return found, make(found, file, settings, bytes_done, spread)


def _of_levels(options: ReadOptions) -> ReadOptions:
    return replace(options, first_level=True)


def _asked(request: PyramidRequest) -> Request:
    reduction = Reduction(
        one_of("op", request.operator, LEVELLING),
        parse_numbers(field("kernel"), request.kernel),
        one_of("from", request.levels_from, BASES),
        one_of("edge", request.edge, EDGES),
    )
    return Request(reduction, request.levels, _scale(request.scale), request.unit, request.ngff)


def _scale(text: str | None) -> dict[str, float]:
    """`z=2,y=0.5` by the names of axes."""
    found: dict[str, float] = {}
    for part in text.split(",") if text else ():
        match = _STEP.fullmatch(part)
        try:
            step = float(match[2]) if match else 0.0
        except ValueError:
            step = 0.0
        if match is None or not 0 < step < float("inf"):
            raise RequestError(f"{field('scale')} has {part.strip()[:30]!r}; write it as z=2,y=0.5,x=0.5")
        found[match[1].lower()] = step
    return found


def _output(request: PyramidRequest) -> str:
    """The store that is asked for; refuses options that contradict each other."""
    if request.output is None:
        raise RequestError(f"{field('output')} is missing: name a store, such as out.ome.zarr")
    check_url(request.output)
    if not request.output.rstrip("/").lower().endswith(".zarr"):
        raise RequestError(
            f"{field('output', request.output)}: a pyramid is an OME-Zarr store; name one such as out.ome.zarr"
        )
    if request.overwrite and request.resume:
        raise RequestError(f"{field('overwrite')} and {field('resume')} contradict each other; give one")
    return request.output


def _refuse_existing(found: Pyramid, settings: Settings) -> None:
    if not settings.overwrite and exists(found.output):
        raise RequestError(f"{found.output} exists; use {field('overwrite')}, or another {field('output')}")


def _report(request: PyramidRequest, found: Pyramid, made: Made | None) -> None:
    if request.json:
        from poolcli.report.as_json import to_json
        from poolcli.report.outcome import pyramid_document

        print(to_json(pyramid_document(found, made)))
    elif not request.quiet:
        import sys

        from poolcli.report.console import show
        from poolcli.report.outcome import pyramid_view

        show(pyramid_view(found, made, request.dry_run), sys.stdout)
