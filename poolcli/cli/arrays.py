"""The commands `compare`, `identify` and `info`: two arrays, the pooling between them, and the arrays in files."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from dataclasses import field as dataclass_field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from poolcli.cli.messages import print_error
from poolcli.cli.operators import OPERATOR_HELP
from poolcli.cli.options import Layout, ReadsArrays, ReadsHeaders, Windows, attributes_of, complete_inputs
from poolcli.cli.program import EXPLAIN, RESULT, USUAL, argument, command, option
from poolcli.cli.settings import array_options, as_tensor, header_options
from poolcli.errors import FileError, PoolError, RequestError
from poolcli.formats import (
    Header,
    ReadOptions,
    Source,
    Tensor,
    is_container,
    list_arrays,
    open_container,
    parse_source,
    read,
)
from poolcli.formats.checks import choose_array, why_left_out
from poolcli.formats.files import redacted
from poolcli.formats.recognise import in_subprocess_if_fragile
from poolcli.layouts import SPATIAL, default_layout, named_shape
from poolcli.message_fields import field, for_cli, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from poolcli.explain.diff_arrays import Difference
    from poolcli.explain.identify.candidates import Candidate


# fmt: off
@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """The tolerance of a comparison."""

    atol: Annotated[float, option(
        "--atol", metavar="A", panel=EXPLAIN, example="1e-6", help="Absolute tolerance (as numpy.isclose). Default: 0.",
    )] = 0.0
    rtol: Annotated[float, option(
        "--rtol", metavar="R", panel=EXPLAIN, example="1e-5", help="Relative tolerance (as numpy.isclose). Default: 0.",
    )] = 0.0


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Tolerance, ReadsArrays):
    """The arguments and options of `compare`."""

    first: Annotated[str, argument(
        "A", complete=complete_inputs, example="a.npy",
        help="A file, or an array in one: a.npy, a.h5:/data, a.npz:key, an image.",
    )]
    second: Annotated[str, argument(
        "B", complete=complete_inputs, example="b.npy", help="The file or array to compare it with, of the same shape.",
    )]


@dataclass(frozen=True, kw_only=True)
class IdentifyOptions(Windows, Tolerance, ReadsArrays):
    """The arguments and options of `identify`; attributes of the pooling are those that are known."""

    x: Annotated[str, argument(
        "INPUT", complete=complete_inputs, example="x.npy",
        help="Input of the pooling: .npy, .h5[:/dataset], an image.",
    )]
    y: Annotated[str, argument(
        "OUTPUT", complete=complete_inputs, example="y.npy", help="The output of the pooling, read in the same way.",
    )]
    pooling: Annotated[str | None, option(
        "--pooling", "--op", metavar="OP", panel=USUAL, choices=tuple(OPERATOR_HELP),
        help="The operator, if it is known.",
    )] = None
    also: Annotated[list[str], option(
        "--also", metavar="X Y", panel=USUAL, example="x2.npy y2.npy", nargs=2,
        help="Another pair of files, of any size; repeatable.",
    )] = dataclass_field(default_factory=list)
    layout: Layout = None
    output_layout: Annotated[str | None, option(
        "--output-layout", metavar="AXES", panel=RESULT, example="NHWC",
        help="Axes of the output. Default: as the input, or what lengths allow.",
    )] = None


@dataclass(frozen=True, kw_only=True)
class InfoOptions(ReadsHeaders):
    """The arguments and options of `info`."""

    files: Annotated[list[str], argument("FILE", complete=complete_inputs, example="x.npy", help="Files to list.")]
# fmt: on


@command(
    "compare",
    CompareOptions,
    "poolcli compare samples/features.npy samples/features.npy",
    "poolcli compare samples/features.npy samples/features.npy --atol 1e-6 --rtol 1e-5",
    "poolcli compare samples/volume.h5:/volume samples/volume.h5 --json",
    exit_codes="Exit codes: 0 equal within the tolerance, 1 different, 2 they cannot be compared.",
)
def compare(request: CompareOptions) -> int:
    """Prints the differences of two arrays; returns 0 if they are equal within the tolerance, else 1."""
    from poolcli.explain.diff_arrays import check_tolerances
    from poolcli.report.explain import difference_document, difference_view

    check_tolerances(request.atol, request.rtol)
    sources = [parse_source(text) for text in (request.first, request.second)]
    if all(source.path == "-" for source in sources):
        raise RequestError("stdin (-) can be read only once")
    look = partial(_difference, sources[0], sources[1], array_options(request, sources), request.atol, request.rtol)
    for source in sources:
        look = partial(in_subprocess_if_fragile, source.path, look)
    try:
        layout, found = look()
    except FileError as error:  # its exit code 1 would mean that they differ
        raise RequestError(error.message) from error
    result = (request.first, request.second, layout, found)
    request.answer(partial(difference_document, *result), partial(difference_view, *result))
    return 0 if found.equal else 1


def _difference(a: Source, b: Source, options: ReadOptions, atol: float, rtol: float) -> "tuple[str, Difference]":
    """The layout of both arrays, and their difference; images are compared as tensors, N,C,H,W."""
    from poolcli.explain.diff_arrays import diff_arrays

    x, y = (as_tensor(read(source, options)) for source in (a, b))
    try:
        difference = diff_arrays(x.array, y.array, atol=atol, rtol=rtol)
    except RequestError as error:
        raise error.at(f"{a.path} and {b.path}") from None
    rank = y.array.ndim
    return y.header.layout or (default_layout(rank) if rank > 2 else SPATIAL[-rank:] if rank else "W"), difference


@command(
    "identify",
    IdentifyOptions,
    "poolcli max samples/features.npy -o pooled.npy -k 3 -s 2 -p 1",
    "poolcli identify samples/features.npy pooled.npy",
    "poolcli identify samples/features.npy pooled.npy --op max --like onnx --json",
    exit_codes="Attributes that you give stay fixed; the others are searched. "
    "Exit codes: 0 found, 1 nothing fits (the nearest is shown), 2 no pooling can fit.",
)
def identify(request: IdentifyOptions) -> int:
    """Prints the poolings that turn `x` into `y`, best first; returns 1 if none fits."""
    from poolcli.report.explain import candidates_document, candidates_view

    texts = (request.x, request.y, *request.also)
    sources = [parse_source(text) for text in texts]
    options = array_options(request, sources)
    try:
        arrays = [in_subprocess_if_fragile(each.path, partial(read, each, options)) for each in sources]
    except FileError as error:  # its exit code 1 would mean that nothing fits
        raise RequestError(error.message) from error
    pairs = [_as_tensors(x, y) for x, y in zip(arrays[::2], arrays[1::2], strict=True)]
    found = _search_both_ways(pairs, request)
    request.answer(partial(candidates_document, pairs, found), partial(candidates_view, found))
    return 0 if found[0].fits else 1


Pair = tuple[Tensor, Tensor]


def _as_tensors(x: Tensor, y: Tensor) -> Pair:
    """The pair; an image beside an array becomes a tensor."""
    return (as_tensor(x), as_tensor(y)) if (x.header.mode is None) != (y.header.mode is None) else (x, y)


def _search_both_ways(pairs: Sequence[Pair], request: IdentifyOptions) -> "list[Candidate]":
    """The candidates; refuses swapped arguments, if nothing fits but a pooling turns the outputs into the inputs."""
    refusal, found, turned = None, list["Candidate"](), list["Candidate"]()
    try:
        found = _search(pairs, request)
    except RequestError as error:
        refusal = error
    larger = [y.array.size >= x.array.size for x, y in pairs]
    if any(larger) and not (found and (found[0].fits or found[0].noise)):
        with suppress(RequestError):
            turned = _search([pair[::-1] if swap else pair for pair, swap in zip(pairs, larger, strict=True)], request)
    if turned and turned[0].fits:
        raise _swapped_error(larger, turned[0].op.name, request)
    if refusal is not None:
        raise refusal
    return found


def _search(pairs: Sequence[Pair], request: IdentifyOptions) -> "list[Candidate]":
    from poolcli.explain.identify import identify as candidates

    stated = {(x.header.layout, y.header.layout) for x, y in pairs}
    layouts = stated.pop() if len(stated) == 1 and not any(None in each for each in stated) else (None, None)
    (x, y), *also = ((x.array, y.array) for x, y in pairs)
    return candidates(
        x,
        y,
        also=also,
        op=request.pooling,
        layout=request.layout or layouts[0],
        output_layout=request.output_layout or layouts[1],
        atol=request.atol,
        rtol=request.rtol,
        **attributes_of(request.pooling, request),
    )


def _swapped_error(which: Sequence[bool], name: str, request: IdentifyOptions) -> RequestError:
    """The refusal of swapped pairs, with the command that has them in the right order."""
    texts = [request.x, request.y, *request.also]
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    turned = [(y, x) if swap else (x, y) for (x, y), swap in zip(pairs, which, strict=True)]
    wrong, right = (
        " and ".join(f"{x} into {y}" for (x, y), swap in zip(each, which, strict=True) if swap)
        for each in (pairs, turned)
    )
    (x, y), *also = turned
    words = ["poolcli", "identify", x, y, *(word for pair in also for word in ("--also", *pair))]
    for own in fields(IdentifyOptions):
        value = getattr(request, own.name)
        if own.name not in ("x", "y", "also") and value not in (None, own.default):
            words += [for_cli(field(own.name, value if value is False else None))]
            words += [] if isinstance(value, bool) else [str(value)]
    return RequestError(f"no pooling turns {wrong}, but {name} turns {right}: {shlex.join(words)}")


@command(
    "info",
    InfoOptions,
    "poolcli info samples/volume.h5 samples/astronaut.png",
    "poolcli info samples/volume.h5:/volume",
    "poolcli info samples/features.npy --json",
    exit_codes="",
    without=("quiet",),
)
def info(request: InfoOptions) -> int:
    """Prints the arrays in each file; returns the exit code."""
    failed, options = False, header_options(request, [parse_source(path) for path in request.files])
    for path in request.files:
        try:
            headers, left_out = in_subprocess_if_fragile(path, partial(_contents, path, options))
        except PoolError as error:
            if request.debug:
                raise
            failed, error = True, error.for_fields([each.name for each in fields(InfoOptions)])
            if request.json:
                request.answer(partial(_info_document, redacted(path), [], [], error), str)
            print_error(error)
        else:
            found = (path, headers, left_out)
            request.answer(partial(_info_document, *found, None), partial(_info_view, *found))
    return 1 if failed else 0


def _contents(text: str, options: ReadOptions) -> tuple[list[Header], list[str]]:
    """The headers of all arrays in a file that can be pooled, and why others cannot; of a named array its header."""
    source = parse_source(text)
    if not is_container(source.path):
        headers = list_arrays(source.path, options)
        return [choose_array(source, headers)] if source.key else headers, []
    with open_container(source.path, options) as file:
        if source.key is None:
            return list(file.headers), why_left_out(file)
        if source.key.strip("/") in [name.strip("/") for name in file.left_out]:
            return [file.array(source.key).header], []  # raises a FileError, unless it is a link to an array
        return [choose_array(source, file.headers)], []


def _info_document(path: str, headers: list[Header], left_out: list[str], error: PoolError | None) -> dict[str, Any]:
    from poolcli.report.as_json import error_document

    arrays = [
        {
            "dataset": header.key,
            "shape": list(header.shape),
            "dtype": header.dtype,
            "layout": header.layout,
            "notes": list(map(for_cli, header.notes)),
        }
        for header in headers
    ]
    kind = headers[0].format if headers else None
    refused = list(map(for_cli, left_out))
    return {"path": path, "format": kind, "arrays": arrays, "left_out": refused, "error": error_document(error)}


def _info_view(path: str, headers: list[Header], left_out: list[str]) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    from poolcli.report.console import notes_view, plain_table

    kind = headers[0].format if headers else "holds no array that can be pooled"
    table = plain_table("array", "shape", "dtype")
    for header in headers:
        shape = named_shape(header.layout, header.shape) if header.layout else ",".join(map(str, header.shape))
        table.add_row(Text(printable(header.key or "-")), shape, header.dtype)
    notes = [*(note for header in headers for note in header.notes), *left_out]
    parts = [*([table] if headers else []), *([notes_view(notes)] if notes else [])]
    return Group(Text(f"{printable(path)}: {kind}", style="bold"), *parts)
