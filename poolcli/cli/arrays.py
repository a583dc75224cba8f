"""The commands `compare`, `identify`, `info` and `cache`: arrays, what files hold, and the compiled kernels."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from poolcli import formats
from poolcli.arguments import tolerance
from poolcli.cli import options
from poolcli.cli.messages import answer, print_notice
from poolcli.cli.options import UNLIMITED, USUAL, Report, WindowOptions, argument, array_options, option
from poolcli.cli.pool import attributes_of
from poolcli.cli.program import OPERATOR_HELP, command, field_names, parse_operator
from poolcli.errors import FileError, PoolError, RequestError
from poolcli.formats.checks import tensor_layout, why_left_out
from poolcli.formats.files import redacted
from poolcli.formats.records import ArrayContainer, Header, ReadOptions, Source, Tensor
from poolcli.formats.table import format_by_suffix
from poolcli.layouts import convert_layout, default_layout, named_shape
from poolcli.message_fields import for_cli, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from poolcli.explain.diff_arrays import Difference

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class TwoArrays(Report):
    """The options about arrays that are read whole and compared."""

    atol: options.Atol = 0.0
    rtol: options.Rtol = 0.0
    pages: options.Pages = None
    allow_external: options.AllowExternal = False
    max_memory: options.MaxMemory = None


def _of_both(texts: Sequence[str], request: TwoArrays, look: Callable[[Tensor, Tensor], Result]) -> Result:
    """What `look` finds in two arrays, in the process that reads them; they are tensors unless both are images.

    Exit code 1 would not mean that a file cannot be read.
    """
    sources = [formats.parse_source(text) for text in texts]
    formats.check_options(["pages"] if request.pages else [], sources)
    rows = [format_by_suffix(source.path) for source in sources]
    read_options = array_options(request.allow_external, request.max_memory, request.pages)
    read_options = replace(read_options, as_stored=not all(row and row.is_image for row in rows))

    def found() -> Result:
        return look(*(formats.read(each, read_options) for each in sources))

    try:
        second = partial(formats.in_subprocess_if_fragile, sources[1].path, found)
        return formats.in_subprocess_if_fragile(sources[0].path, second)
    except FileError as error:
        raise RequestError(error.message) from error


@command(
    "poolcli compare samples/features.npy samples/features.npy",
    "poolcli compare samples/features.npy samples/features.npy --atol 1e-6 --rtol 1e-5",
    exit_codes="Exit codes: 0 equal within the tolerance, 1 different, 2 they cannot be read or compared.",
)
def compare(
    first: Annotated[str, argument("A", "A file, or an array in one: a.npy, a.h5:/data, a.npz:key, an image.")],
    second: Annotated[str, argument("B", "The file or array to compare it with, of the same shape.")],
    request: TwoArrays,
) -> int:
    """Prints the differences of two arrays; returns 0 if they are equal within the tolerance, else 1."""
    from poolcli.explain.diff_arrays import compare as difference_of
    from poolcli.report.explain import difference_document, difference_view

    tolerance("atol", request.atol), tolerance("rtol", request.rtol)  # before the arrays are read

    def look(*both: Tensor) -> "tuple[str, Difference]":
        x, y = map(as_tensor, both)
        try:
            found = difference_of(x.array, y.array, atol=request.atol, rtol=request.rtol)
        except RequestError as error:
            paths = [formats.parse_source(each).path for each in (first, second)]
            read = f"numpy.load({paths[1]!r}).t" if paths[1].endswith(".npy") else "b.t"
            raise RequestError(error.message.replace("b.t", read)).at(" and ".join(paths)) from None
        return y.header.layout or default_layout(max(y.array.ndim, 1)), found

    layout, found = _of_both((first, second), request, look)
    result = (first, second, layout, found)
    answer(partial(difference_document, *result), partial(difference_view, *result), request)
    return 0 if found.equal else 1


# fmt: off
@dataclass(frozen=True, kw_only=True)
class IdentifyOptions(TwoArrays, WindowOptions):
    """The arguments and options of `identify`."""

    x: Annotated[str, argument("INPUT", "Input of the pooling: .npy, .h5[:/dataset], an image.")]
    y: Annotated[str, argument("OUTPUT", "File to compare with: INPUT as it was pooled; for one file, poolcli info.")]
    pooling: Annotated[str | None, option(USUAL, "OP", "--pooling", "--op", words=OPERATOR_HELP, read=parse_operator,
        help="The operator, if it is known.")] = None
    layout: options.Layout = None
# fmt: on


@command(
    "poolcli max samples/features.npy -o pooled.npy -k 3 -s 2 -p 1",
    "poolcli identify samples/features.npy pooled.npy",
    "poolcli identify samples/features.npy pooled.npy --op max --like onnx --json",
    without=("fit", "ddof"),
    exit_codes="Attributes that you give stay fixed; the others are searched. "
    "Exit codes: 0 found, 1 nothing fits (the nearest is shown), 2 a file cannot be read, or no pooling can fit.",
)
def identify(request: IdentifyOptions) -> int:
    """Prints the poolings that turn `x` into `y`, best first; returns 1 if none fits."""
    from poolcli.explain.identify import identify as search
    from poolcli.report.explain import candidates_document, candidates_view

    given = attributes_of(request.pooling, request)
    x, y = _of_both((request.x, request.y), request, lambda *both: both)
    if (x.header.mode is None) != (y.header.mode is None):  # an image beside an array
        x, y = as_tensor(x), as_tensor(y)
    layout = request.layout or (x.header.layout if y.header.layout in (None, x.header.layout) else None)
    found = search(x.array, y.array, op=request.pooling, layout=layout, atol=request.atol, rtol=request.rtol, **given)
    answer(partial(candidates_document, x, y, found), partial(candidates_view, found), request)
    return 0 if found[0].fits else 1


def as_tensor(found: Tensor) -> Tensor:
    """An image with its axes in the order of tensors; any other array unchanged."""
    layout = found.header.layout
    if found.header.mode is None or layout is None:
        return found
    array = convert_layout(found.array, layout, tensor_layout(layout))
    return replace(found, array=array, header=replace(found.header, shape=array.shape, layout=tensor_layout(layout)))


@command(
    "poolcli info samples/volume.h5 samples/astronaut.png",
    "poolcli info samples/volume.h5:/volume --json",
    exit_codes="",
)
def info(
    files: Annotated[list[str], argument("FILE", "Files to list.")],
    report: Report,
    pages: options.Pages = None,
    allow_external: options.AllowExternal = False,
) -> int:
    """Prints the arrays in each file; returns the exit code."""
    read_options = ReadOptions(pages, allow_external, allowed=UNLIMITED)
    failed = shown = False
    formats.check_options(["pages"] if pages else [], [Source(path) for path in files])
    for path in files:
        try:
            headers, left_out = formats.in_subprocess_if_fragile(path, partial(_contents, path, read_options))
        except PoolError as error:
            if report.debug:
                raise
            failed, error = True, error.for_fields(field_names("info"))
            if report.json:
                answer(partial(_info_document, redacted(path), [], [], error), str, report)
            print_notice(error.cli_message)
        else:
            found = (path, headers, left_out)
            answer(partial(_info_document, *found, None), partial(_info_view, *found, shown), report)
            shown = True
    return 1 if failed else 0


def _contents(text: str, options: ReadOptions) -> tuple[list[Header], list[str]]:
    """The headers of all arrays in a file that can be pooled, and why others cannot; of a named array its header."""
    source = formats.parse_source(text)
    if source.key is None and formats.recognise(source.path).is_container:
        with formats.open_container(source.path, options) as file:
            headers = [_with_layout(file, header) for header in file.headers]
            for name in sorted(file.referenced):
                with suppress(PoolError):  # of text, or not in the file
                    headers.append(file.array(name).header)
            return headers, why_left_out(file)
    return [formats.read_header(source, options)], []


def _with_layout(file: ArrayContainer, header: Header) -> Header:
    """The header with the names of its axes, which some formats read when they open the array."""
    with suppress(PoolError):
        return replace(header, layout=file.array(str(header.key)).header.layout)
    return header


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


def _info_view(path: str, headers: list[Header], left_out: list[str], apart: bool) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    from poolcli.report.outcome import add_notes, grid, plain_table

    kind = headers[0].format if headers else "holds no array that can be pooled"
    table = plain_table("array", "shape", "dtype")
    for header in headers:
        shape = named_shape(header.layout, header.shape) if header.layout else ",".join(map(str, header.shape))
        table.add_row(Text(printable(header.key or "-")), shape, header.dtype)
    notes = add_notes(grid(), [*(note for header in headers for note in header.notes), *left_out])
    return Group(*[""] * apart, Text(f"{printable(path)}: {kind}", style="bold"), *[table] * bool(headers), notes)


ACTIONS = ("info", "warm", "clear")


@command("poolcli cache info", "poolcli cache warm", "poolcli cache clear", exit_codes="")
def cache(
    action: Annotated[str, argument("|".join(ACTIONS),
        "Show the cache, compile all kernels into it, or empty it.", words=ACTIONS)],
    report: Report,
) -> int:  # fmt: skip
    """Shows, fills or empties the cache; returns the exit code."""
    from poolcli.engine.compiled import kernel_cache as kernels

    if action == "clear":
        freed = kernels.clear()
        answer(lambda: {"freed": freed}, lambda: f"removed {freed:,} bytes", report)
        return 0
    if action == "warm":
        _warm()
    found = kernels.info()
    state = "" if found["usable"] else " (not writable, or open to others: kernels are compiled for each run)"
    text = f"{found['folder']}{state}: {len(found['kernels'])} kernels, {found['bytes']:,} bytes"
    answer(lambda: found, lambda: printable(text), report)
    return 0


def _warm() -> None:
    """Compiles the kernels of the usual types that are not in the cache yet."""
    import numpy as np

    from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool

    for dtype in ("uint8", "uint16", "float32", "float64"):
        x = np.ones((1, 1, 12, 12), dtype)
        sliding = [(AvgPool(k, strides=s), MaxPool(k, strides=s)) for k, s in ((3, 1), (2, 2), (7, 1))]
        bins = [(AdaptiveAvgPool(n), AdaptiveMaxPool(n)) for n in (1, 2, 5)]  # of whole planes, long ones, short ones
        for average, largest in (*sliding, *bins):
            average(x, engine="numba")
            largest(x, engine="numba")
            largest(x, engine="numba", return_indices=True)
