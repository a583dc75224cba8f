"""The command `pyramid`: its options, and their values as a request."""

from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Annotated, TypeVar

from poolcli import formats
from poolcli.arguments import Numbers
from poolcli.cli.messages import Draw, answer, progress
from poolcli.cli.options import RESULT, USUAL, WINDOWS, ArrayOptions, argument, array_settings, option
from poolcli.cli.program import command, field_names
from poolcli.cli.values import numbers, whole
from poolcli.errors import RequestError
from poolcli.formats.files import check_output_url, exists, is_url
from poolcli.formats.zarr.ome import list_images
from poolcli.message_fields import field
from poolcli.ops import OPERATORS, PYRAMID_OPERATORS
from poolcli.pooling.outcome import Settings, failure
from poolcli.pooling.pyramid import PyramidResult, is_up_to_date, write_pyramid
from poolcli.pooling.pyramid_plan import BASES, Pyramid, Request, plan_all_images, plan_with_labels
from poolcli.runs.dask import distributor

Number = TypeVar("Number", int, float)


# fmt: off
@dataclass(frozen=True, kw_only=True)
class PyramidOptions(ArrayOptions):
    """The arguments and options of `pyramid`."""

    source: Annotated[str, argument("INPUT", "A .npy, .npz[:key], .h5[:/dataset], .zarr[:/array] or an image.")]
    output: Annotated[str | None, option(USUAL, "PATH", "-o", "--output",
        help="Store to write, such as out.ome.zarr.")] = None
    all: Annotated[bool, option(USUAL, None, "--all", hidden=True,
        help="Make every image of the store, such as those of a plate.")] = False
    layout: Annotated[str | None, option(RESULT, "AXES", "--layout",
        help="Input axes. Default: TC(Z)YX; images YXC; 3 axes ZYX (-k 2,2: CYX or YXC).")] = None
    levels: Annotated[int | None, option(USUAL, "N", "--levels", read=whole(),
        help="Levels in all, including the full size. Default: until no axis is longer than 256.")] = None
    operator: Annotated[str, option(USUAL, "OP", "--operator", "--op", words=PYRAMID_OPERATORS,
        help="Operator: avg (default), max, min, median, or mode for labels.")] = "avg"
    kernel: Annotated[Numbers | None, option(USUAL, "K", "-k", "--kernel", read=numbers,
        help="Window size: 2 (default), or 1,2,2 (order D,H,W).")] = None
    factors: Annotated[str | None, option(USUAL, "F", "--factors",
        help="Window sizes of each level in turn, relative to the level before: 'z=1,y=2,x=2;z=2,y=2,x=2'.")] = None
    factors_from: Annotated[str, option(WINDOWS, "BASE", "--factors-from", words=BASES,
        help="Take factors as relative to the previous level (default), or to the source.")] = "previous"
    levels_from: Annotated[str, option(
        WINDOWS, "BASE", "--levels-from", "--from", words=BASES,
        help="Compute each level from the previous one (default), or from the source (slower, rounded once).",
    )] = "previous"
    scale: Annotated[str | None, option(RESULT, "A=S", "--scale",
        help="Element spacing: z=2,y=0.5,x=0.5. Default: the input's, or 1.")] = None
    unit: Annotated[str | None, option(RESULT, "UNIT", "--unit",
        help="Unit of that spacing, such as micrometer.")] = None
# fmt: on


@command(
    "poolcli pyramid samples/volume.h5 -o v.ome.zarr --levels 3 --scale z=2",
    "poolcli pyramid samples/volume.h5 -o labels.ome.zarr --op mode --from source",
    usage="-o PATH [OPTIONS]",
)
def pyramid(request: PyramidOptions) -> int:
    """Writes a pyramid; returns the exit code."""
    settings = array_settings(request, ("factors", "kernel"), ("factors", "levels"))
    asked = _pyramid_request(request)
    source = formats.parse_source(request.source, next(iter(request.dataset or ()), None))
    with progress(1, request.quiet) as draw:
        try:
            look = partial(_plan_and_write, request, asked, source, settings, draw)
            # A subprocess cannot start those of a local cluster.
            found, made = look() if request.cluster else formats.in_subprocess_if_fragile(source.path, look)
        except Exception as error:
            # Hints at --all mean the arrays of a file; here it means the images of a plate or series.
            others = field_names("pyramid") - {"all"}
            raise failure(error, source.path).for_fields(others) from error
    from poolcli.report.outcome import pyramid_document, pyramid_view

    view = partial(pyramid_view, found, made, request.dry_run)
    answer(partial(pyramid_document, found, made), view, request)
    return 0


def _plan_and_write(
    request: PyramidOptions, asked: Request, source: formats.Source, settings: Settings, draw: Draw
) -> tuple[Pyramid, PyramidResult | None]:
    """Plans and writes the pyramid; the result is None for a dry run, and if the output is up to date."""
    formats.check_options([name for name in ("dataset", "pages") if getattr(request, name)], [source])
    votes, images = OPERATORS[asked.op].reducer.votes, None
    options = replace(settings.read_options, as_pyramid=True, apply_masks=False, as_stored=True, indexed=votes)
    if request.all:
        if not formats.recognise(source.path).chunked:
            raise RequestError(f"{field('all')} is for Zarr stores with several images; leave it out")
        with formats.open_container(source.path, options) as store:
            images = list_images(source.path, getattr(store, "root", None), source.key, options.allow_external)
        source = replace(source, key=next(iter(images.keys.values())))
    with formats.open_array(source, options) as file:
        if images:
            found = plan_all_images(asked, source, images, settings)
        else:
            metadata = file.metadata if file.streams else formats.Metadata()
            found = plan_with_labels(asked, source, file.header, metadata, settings)
        formats.check_space([(found.output, found.nbytes, file.header)])
        if settings.dry_run or (settings.resume and is_up_to_date(found)):
            return found, None
        continued = settings.resume and is_url(found.output)  # the writer checks what it finds
        if not settings.overwrite and not continued and exists(found.output):
            raise RequestError(f"{found.output} exists; use {field('overwrite')}, or another {field('output')}")
        with distributor(request.cluster, settings.resume) as distribute:
            return found, write_pyramid(found, file, settings, draw, distribute)


def _pyramid_request(request: PyramidOptions) -> Request:
    path = request.output or ""
    check_output_url(path)
    if not path.rstrip("/").lower().endswith(".zarr"):
        raise RequestError(f"{field('output', request.output)} must name an OME-Zarr store, such as out.ome.zarr")
    groups = "write one group per level, such as 'z=1,y=2,x=2;z=2,y=2,x=2'"
    levels = () if request.factors is None else request.factors.split(";")
    return Request(
        op=request.operator,
        kernel=request.kernel or (2,),
        base="source" if request.factors_from == "source" else request.levels_from,
        factors=tuple(_parse_axes("factors", level, int, groups) for level in levels),
        factors_from=request.factors_from,
        levels=request.levels,
        scale=_parse_axes("scale", request.scale, float, "write it as z=2,y=0.5,x=0.5") if request.scale else {},
        unit=request.unit,
        output=path,
    )


def _parse_axes(name: str, text: str, number: type[Number], remedy: str) -> dict[str, Number]:
    """Numbers by the names of axes, from `z=2,y=1`."""
    found: dict[str, Number] = {}
    for part in text.split(","):
        axis, _, digits = (word.strip().lower() for word in part.partition("="))
        try:
            value = number(digits)
        except ValueError:
            value = number(-1)
        if axis in found or not axis.isalpha() or not 0 <= value < inf or (number is float and value == 0):
            twice = " twice" if axis in found else ""
            raise RequestError(f"{field(name)} has {part.strip()[:30]!r}{twice}; {remedy}")
        found[axis] = value
    return found
