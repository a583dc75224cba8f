"""The commands `compare`, `identify` and `info`: what is in files of arrays, and what lies between two arrays."""

import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from poolcli.cli.messages import complain
from poolcli.cli.operators import OPERATOR_WORDS
from poolcli.cli.options import Layout, ReadsArrays, ReadsHeaders, Windows, complete_inputs
from poolcli.cli.program import EXPLAIN, USUAL, argument, command, option
from poolcli.cli.settings import array_options, as_tensor, header_options
from poolcli.cli.values import attributes_of
from poolcli.errors import FileError, PoolError, RequestError
from poolcli.formats import Header, ReadOptions, Source, Tensor, list_arrays, parse_source, read
from poolcli.formats.checks import choose
from poolcli.formats.files import shown
from poolcli.formats.recognise import in_subprocess_if_fragile
from poolcli.layouts import SPATIAL, default_layout, named_shape
from poolcli.message_fields import on_command_line, printable

if TYPE_CHECKING:
    from poolcli.explain.diff_arrays import Difference
    from poolcli.explain.identify import Candidate


# fmt: off
@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """By how much elements may differ."""

    atol: Annotated[float, option(
        "--atol", metavar="A", panel=EXPLAIN, example="1e-6", help="Absolute tolerance (as numpy.isclose). Default: 0.",
    )] = 0.0
    rtol: Annotated[float, option(
        "--rtol", metavar="R", panel=EXPLAIN, example="1e-5", help="Relative tolerance (as numpy.isclose). Default: 0.",
    )] = 0.0


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Tolerance, ReadsArrays):
    """What `compare` takes."""

    first: Annotated[str, argument(
        "A", complete=complete_inputs, example="a.npy",
        help="A file, or an array in one: a.npy, a.h5:/data, a.npz:key, an image.",
    )]
    second: Annotated[str, argument(
        "B", complete=complete_inputs, example="b.npy", help="The file or array to compare it with, of the same shape.",
    )]


@dataclass(frozen=True, kw_only=True)
class IdentifyOptions(Windows, Tolerance, ReadsArrays):
    """What `identify` takes: two arrays, and what is known of the pooling that made one of the other."""

    x: Annotated[str, argument(
        "INPUT", complete=complete_inputs, example="x.npy",
        help="The input of the pooling: .npy, .npz[:key], .h5[:/dataset], ..., an image.",
    )]
    y: Annotated[str, argument(
        "OUTPUT", complete=complete_inputs, example="y.npy", help="The output of the pooling, read in the same way.",
    )]
    pooling: Annotated[str | None, option(
        "--pooling", "--op", metavar="OP", panel=USUAL, words=tuple(OPERATOR_WORDS),
        help="The operator, if it is known.",
    )] = None
    layout: Layout = None


@dataclass(frozen=True, kw_only=True)
class InfoOptions(ReadsHeaders):
    """What `info` takes."""

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
    """Prints what differs; returns 0 where nothing does within the tolerance, 1 where something does."""
    from poolcli.explain.diff_arrays import check_tolerances
    from poolcli.report.differences import difference_document, difference_view

    check_tolerances(request.atol, request.rtol)
    sources = [parse_source(text) for text in (request.first, request.second)]
    if all(source.path == "-" for source in sources):
        raise RequestError("stdin (-) can be read only once")
    look = partial(_compared, sources[0], sources[1], array_options(request, sources), request.atol, request.rtol)
    for source in sources:
        look = partial(in_subprocess_if_fragile, source.path, look)
    try:
        layout, found = look()
    except FileError as error:  # 1 would say that they differ
        raise RequestError(error.message) from error
    told = (request.first, request.second, layout, found)
    request.answer(partial(difference_document, *told), partial(difference_view, *told))
    return 0 if found.equal else 1


def _compared(a: Source, b: Source, options: ReadOptions, atol: float, rtol: float) -> "tuple[str, Difference]":
    """The difference, and the layout that both are in: images are compared with tensors as N,C,H,W."""
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
    exit_codes="Exit codes: 0 found, 1 nothing fits (the nearest is shown), 2 the arrays are not of one pooling.",
)
def identify(request: IdentifyOptions) -> int:
    """Prints the poolings that turn `x` into `y`, best first; returns 1 where none fits and the nearest is shown."""
    from poolcli.report.explain import candidates_document, candidates_view

    sources = [parse_source(text) for text in (request.x, request.y)]
    options = array_options(request, sources)
    try:
        x, y = (in_subprocess_if_fragile(each.path, partial(read, each, options)) for each in sources)
    except FileError as error:  # 1 would say that nothing fits
        raise RequestError(error.message) from error
    if (x.header.mode is None) != (y.header.mode is None):  # an image, and an array made of one
        x, y = as_tensor(x), as_tensor(y)
    found = _found_or_swapped(x, y, request)
    request.answer(partial(candidates_document, x, y, found), partial(candidates_view, found))
    return 0 if found and found[0].fits else 1


def _found_or_swapped(x: Tensor, y: Tensor, request: IdentifyOptions) -> "list[Candidate]":
    """What the search finds; where nothing turns the first array into a larger second one, and something turns the
    second into the first, a refusal with the command that says what.
    """
    from poolcli.explain.identify import identify as candidates

    layout = request.layout or (x.header.layout if x.header.layout == y.header.layout else None)
    given = attributes_of(request.pooling, request)
    search: Any = partial(candidates, op=request.pooling, layout=layout, atol=request.atol, rtol=request.rtol, **given)
    refusal, found, swapped = None, list["Candidate"](), list["Candidate"]()
    try:
        found = search(x.array, y.array)
    except RequestError as error:
        refusal = error
    if y.array.size > x.array.size and not (found and found[0].fits):
        with suppress(RequestError):
            swapped = search(y.array, x.array)
    if swapped and swapped[0].fits:
        line = shlex.join(["poolcli", "identify", request.y, request.x])
        name = swapped[0].op.name
        raise RequestError(
            f"no pooling turns {request.x} into {request.y}, but {name} turns {request.y} into {request.x}: {line}"
        )
    if refusal is not None:
        raise refusal
    return found


@command(
    "info",
    InfoOptions,
    "poolcli info samples/volume.h5 samples/astronaut.png",
    "poolcli info samples/volume.h5:/volume",
    "poolcli info samples/features.npy --json",
    exit_codes="",
    without=["quiet"],
)
def info(request: InfoOptions) -> int:
    """Prints the arrays of every file; returns the exit code."""
    failed, options = False, header_options(request, [parse_source(path) for path in request.files])
    for path in request.files:
        try:
            headers = in_subprocess_if_fragile(path, partial(_headers, path, options))
        except PoolError as error:
            if request.debug:
                raise
            failed, error = True, error.to([each.name for each in fields(InfoOptions)])
            if request.json:
                _print_json(shown(path), [], error)
            complain(error)
            continue
        if request.json:
            _print_json(path, headers, None)
        else:
            _print_table(path, headers)
    return 1 if failed else 0


def _headers(text: str, options: ReadOptions) -> list[Header]:
    """The arrays of a file, or the one that is named."""
    source = parse_source(text)
    headers = list_arrays(source.path, options)
    return [choose(source, headers)] if source.key else headers


def _print_json(path: str, headers: list[Header], error: PoolError | None) -> None:
    from poolcli.report.as_json import SCHEMA_VERSION, error_document, to_json

    arrays = [
        {
            "dataset": header.key,
            "shape": list(header.shape),
            "dtype": header.dtype,
            "layout": header.layout,
            "notes": list(map(on_command_line, header.notes)),
        }
        for header in headers
    ]
    document = {"path": path, "format": headers[0].format if headers else None, "arrays": arrays}
    print(to_json({"schema_version": SCHEMA_VERSION, **document, "error": error_document(error)}))


def _print_table(path: str, headers: list[Header]) -> None:
    from rich.text import Text

    from poolcli.report.console import notes_view, plain_table, show

    kind = headers[0].format if headers else "no arrays"
    show(Text(f"{printable(path)}: {kind}", style="bold"), sys.stdout)
    table = plain_table("array", "shape", "dtype")
    for header in headers:
        shape = named_shape(header.layout, header.shape) if header.layout else ",".join(map(str, header.shape))
        table.add_row(Text(printable(header.key or "-")), shape, header.dtype)
    show(table, sys.stdout)
    notes = [note for header in headers for note in header.notes]
    if notes:
        show(notes_view(notes), sys.stdout)
