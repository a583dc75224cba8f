"""The `diff_arrays` command: how far two files are from each other, and where."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer

from poolcli.cli.completion import inputs
from poolcli.cli.options import AllowExternal, MaxMemory, MaxPixels, Pages, Reporting
from poolcli.cli.program import EXPLAIN, Command, Typed, app, examples, takes
from poolcli.cli.reading import as_tensor, whole_options
from poolcli.errors import FileError, RequestError
from poolcli.explain.diff_arrays import Difference, check_tolerances, diff_arrays
from poolcli.formats import ReadOptions, Source, parse_source, read
from poolcli.formats.recognise import in_subprocess_if_fragile
from poolcli.layouts import SPATIAL, default_layout


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Reporting):
    """What `compare` takes."""

    # fmt: off
    first: Annotated[
        str,
        typer.Argument(metavar="A", help="A file, or an array in one: a.npy, a.h5:/data, a.npz:key, an image.",
                       autocompletion=inputs),
        Typed(example="a.npy"),
    ]
    second: Annotated[
        str,
        typer.Argument(metavar="B", help="What it is compared with, of the same shape.", autocompletion=inputs),
        Typed(example="b.npy"),
    ]
    atol: Annotated[
        float,
        typer.Option("--atol", metavar="A", help="Absolute tolerance (as numpy.isclose).", rich_help_panel=EXPLAIN),
        Typed(example="1e-6"),
    ] = 0.0
    rtol: Annotated[
        float,
        typer.Option("--rtol", metavar="R", help="Relative tolerance (as numpy.isclose).", rich_help_panel=EXPLAIN),
        Typed(example="1e-5"),
    ] = 0.0
    # fmt: on
    pages: Pages = None
    max_pixels: MaxPixels = None
    allow_external: AllowExternal = False
    max_memory: MaxMemory = None


@app.command(
    "compare",
    cls=Command,
    add_help_option=False,
    options_metavar="[OPTIONS]",
    epilog=examples(
        "poolcli compare samples/features.npy samples/features.npy",
        "poolcli compare samples/features.npy samples/features.npy --atol 1e-6 --rtol 1e-5",
        "poolcli compare samples/volume.h5:/volume samples/volume.h5 --json",
        exit_codes="Exit codes: 0 equal within the tolerance, 1 different, 2 they cannot be compared.",
    ),
)
@takes(CompareOptions)
def compare_command(request: CompareOptions) -> int:
    """Prints what differs; returns 0 where nothing does within the tolerance, 1 where something does."""
    check_tolerances(request.atol, request.rtol)
    sources = [parse_source(text) for text in (request.first, request.second)]
    if all(source.path == "-" for source in sources):
        raise RequestError("stdin (-) can be read only once")
    options = whole_options(request, sources)
    look = partial(_compared, sources[0], sources[1], options, request.atol, request.rtol)
    for source in sources:
        look = partial(in_subprocess_if_fragile, source.path, look)
    try:
        layout, found = look()
    except FileError as error:  # 1 would say that they differ
        raise RequestError(error.message) from error
    if request.json:
        from poolcli.report.as_json import to_json
        from poolcli.report.differences import difference_document

        print(to_json(difference_document(request.first, request.second, layout, found)))
    elif not request.quiet:
        from poolcli.report.console import show
        from poolcli.report.differences import difference_view

        show(difference_view(request.first, request.second, layout, found), sys.stdout)
    return 0 if found.equal else 1


def _compared(a: Source, b: Source, options: ReadOptions, atol: float, rtol: float) -> tuple[str, Difference]:
    """The difference, and the layout that both are in: pictures are compared with tensors as N,C,H,W."""
    (x, _), (y, layout) = (_read(source, options) for source in (a, b))
    try:
        return layout, diff_arrays(x, y, atol=atol, rtol=rtol)
    except RequestError as error:
        raise error.at(f"{a.path} and {b.path}") from None


def _read(source: Source, options: ReadOptions) -> tuple[Any, str]:
    """An array and its layout; a picture as tensor files hold it."""
    found = as_tensor(read(source, options))
    return found.array, found.header.layout or _by_order(found.array.ndim)


def _by_order(rank: int) -> str:
    return default_layout(rank) if rank > 2 else SPATIAL[-rank:] if rank else "W"
