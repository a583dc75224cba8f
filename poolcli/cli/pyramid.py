"""The `pyramid` command: an array to an OME-Zarr store of levels."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import typer

from poolcli.cli.completion import inputs
from poolcli.cli.options import Arrays
from poolcli.cli.program import RESULT, USUAL, WINDOWS, Command, Typed, app, examples, takes
from poolcli.cli.progress import Bytes, progress
from poolcli.cli.settings import array_settings
from poolcli.cli.values import parse_numbers
from poolcli.errors import RequestError
from poolcli.formats import ReadOptions, Source, open_array, parse_source
from poolcli.formats.files import check_url, exists
from poolcli.formats.recognise import in_subprocess_if_fragile
from poolcli.message_fields import field
from poolcli.ops import LEVELLING
from poolcli.pooling.outcome import Settings, failure
from poolcli.pooling.pyramid import Made, is_made, make
from poolcli.pooling.pyramid_plan import BASES, EDGES, Pyramid, Reduction, Request, prepare
from poolcli.runs.executors.dask import spreading

_STEP = re.compile(r"\s*([A-Za-z]+)\s*=\s*([0-9.eE+-]+)\s*")


OPERATOR, FROM, EDGE = Typed(words=LEVELLING), Typed(words=BASES), Typed(words=EDGES)
NGFF = Typed(words=("0.5", "0.4"))


@dataclass(frozen=True, kw_only=True)
class PyramidOptions(Arrays):
    """What `pyramid` takes."""

    # fmt: off
    source: Annotated[
        str,
        typer.Argument(metavar="INPUT", help="A .npy, .npz[:key], .h5[:/dataset], .zarr[:/array] or an image.",
                       autocompletion=inputs),
        Typed(example="x.zarr"),
    ]
    levels: Annotated[
        int | None,
        typer.Option("--levels", metavar="N", rich_help_panel=USUAL,
                     help="Levels in all, with full size. Default: until no axis is longer than 256."),
        Typed(example="5"),
    ] = None
    operator: Annotated[
        str,
        typer.Option("--operator", "--op", metavar="OP", rich_help_panel=USUAL, autocompletion=OPERATOR.complete,
                     help="Operator: avg, max, min, or mode for labels."),
        OPERATOR,
    ] = "avg"
    kernel: Annotated[
        str,
        typer.Option("-k", "--kernel", metavar="K", help="Window size: 2, or 1,2,2 (order D,H,W).",
                     rich_help_panel=USUAL),
        Typed("kernel-size kernel-shape ksize pool-size window-size", example="2", numbers=True),
    ] = "2"
    levels_from: Annotated[
        str,
        typer.Option("--levels-from", "--from", metavar="BASE", rich_help_panel=WINDOWS, autocompletion=FROM.complete,
                     help="Compute each level from the previous one, or from the source (slower, rounded once)."),
        FROM,
    ] = "previous"
    edge: Annotated[
        str,
        typer.Option("--edge", metavar="W", rich_help_panel=WINDOWS, autocompletion=EDGE.complete,
                     help="Partial windows at the ends: ceil keeps them, floor drops them."),
        EDGE,
    ] = "ceil"
    scale: Annotated[
        str | None,
        typer.Option("--scale", metavar="A=S", rich_help_panel=RESULT,
                     help="Element spacing: z=2,y=0.5,x=0.5. Default: the input's, or 1."),
        Typed(example="z=2,y=1,x=1"),
    ] = None
    unit: Annotated[
        str | None,
        typer.Option("--unit", metavar="UNIT", help="Unit of that spacing, such as micrometer.",
                     rich_help_panel=RESULT),
        Typed(example="micrometer"),
    ] = None
    ngff: Annotated[
        str,
        typer.Option("--ngff", metavar="V", help="Version of OME-Zarr: 0.5 (Zarr 3) or 0.4 (Zarr 2).",
                     rich_help_panel=RESULT, autocompletion=NGFF.complete, hidden=True),
        NGFF,
    ] = "0.5"
    # fmt: on


@app.command(
    "pyramid",
    cls=Command,
    add_help_option=False,
    options_metavar="-o PATH [OPTIONS]",
    epilog=examples(
        "poolcli pyramid samples/volume.h5 -o v.ome.zarr --levels 3 --scale z=2",
        "poolcli pyramid samples/volume.h5 -o labels.ome.zarr --op mode --from source",
        "poolcli pyramid samples/astronaut.png -o photo.ome.zarr --levels 3",
    ),
)
@takes(PyramidOptions)
def pyramid(request: PyramidOptions) -> int:
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


def _asked(request: PyramidOptions) -> Request:
    reduction = Reduction(
        request.operator,
        parse_numbers(field("kernel"), request.kernel),
        request.levels_from,
        request.edge,
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


def _output(request: PyramidOptions) -> str:
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


def _report(request: PyramidOptions, found: Pyramid, made: Made | None) -> None:
    if request.json:
        from poolcli.report.as_json import to_json
        from poolcli.report.outcome import pyramid_document

        print(to_json(pyramid_document(found, made)))
    elif not request.quiet:
        import sys

        from poolcli.report.console import show
        from poolcli.report.outcome import pyramid_view

        show(pyramid_view(found, made, request.dry_run), sys.stdout)
