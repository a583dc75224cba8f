"""The `identify` command: which pooling turns one array into another."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer

from poolcli.cli.attributes import attributes_of
from poolcli.cli.completion import inputs
from poolcli.cli.operators import OPERATOR_WORDS
from poolcli.cli.options import AllowExternal, Layout, MaxMemory, MaxPixels, Pages, Reporting, Windows
from poolcli.cli.program import USUAL, Command, Typed, app, examples, takes
from poolcli.cli.reading import as_tensor, whole_options
from poolcli.errors import FileError, RequestError
from poolcli.explain.identify.search import Candidate, identify
from poolcli.formats import ReadOptions, Source, Tensor, parse_source, read
from poolcli.formats.recognise import in_subprocess_if_fragile

OPERATOR = Typed(words=tuple(OPERATOR_WORDS))


@dataclass(frozen=True, kw_only=True)
class IdentifyOptions(Windows, Reporting):
    """What `identify` takes: two arrays, and what is known of the pooling that made one of the other."""

    # fmt: off
    x: Annotated[
        str,
        typer.Argument(metavar="INPUT", help="The array before: .npy, .npz[:key], .h5[:/dataset], ..., an image.",
                       autocompletion=inputs),
        Typed(example="x.npy"),
    ]
    y: Annotated[
        str, typer.Argument(metavar="OUTPUT", help="The array after, read in the same way.", autocompletion=inputs),
        Typed(example="y.npy"),
    ]
    pooling: Annotated[
        str | None,
        typer.Option("--pooling", "--op", metavar="OP", rich_help_panel=USUAL, autocompletion=OPERATOR.complete,
                     help="The operator, where it is known."),
        OPERATOR,
    ] = None
    # fmt: on
    layout: Layout = None
    pages: Pages = None
    max_pixels: MaxPixels = None
    allow_external: AllowExternal = False
    max_memory: MaxMemory = None


@app.command(
    "identify",
    cls=Command,
    add_help_option=False,
    options_metavar="[OPTIONS]",
    epilog=examples(
        "poolcli max samples/features.npy -o pooled.npy -k 3 -s 2 -p 1",
        "poolcli identify samples/features.npy pooled.npy",
        "poolcli identify samples/features.npy pooled.npy --op max --like onnx --json",
        exit_codes="Exit codes: 0 found, 1 nothing fits (the nearest is shown), 2 the arrays are not of one pooling.",
    ),
)
@takes(IdentifyOptions)
def identify_command(request: IdentifyOptions) -> int:
    """Prints the poolings that turn `x` into `y`, best first; returns 1 where none fits and the nearest is shown."""
    sources = [parse_source(text) for text in (request.x, request.y)]
    options = whole_options(request, sources)
    x, y = (_array(source, options) for source in sources)
    if (x.header.mode is None) != (y.header.mode is None):  # a picture, and an array made of one
        x, y = as_tensor(x), as_tensor(y)
    layout = request.layout or (x.header.layout if x.header.layout == y.header.layout else None)
    given = attributes_of(request.pooling, request)

    def search(one: Any, two: Any) -> list[Candidate]:
        return identify(one, two, op=request.pooling, layout=layout, **given)

    found = _found_or_swapped(search, x, y, request)
    if request.json:
        from poolcli.report.as_json import to_json
        from poolcli.report.explain import candidates_document

        print(to_json(candidates_document(x, y, found)))
    elif not request.quiet:
        from poolcli.report.console import show
        from poolcli.report.explain import candidates_view

        show(candidates_view(found), sys.stdout)
    return 0 if found and found[0].fits else 1


def _found_or_swapped(
    search: Callable[[Any, Any], list[Candidate]], x: Tensor, y: Tensor, request: IdentifyOptions
) -> list[Candidate]:
    """What the search finds; where nothing turns the first array into a larger second one, and something turns the
    second into the first, a refusal with the command that says what.
    """
    refusal, found, swapped = None, list[Candidate](), list[Candidate]()
    try:
        found = search(x.array, y.array)
    except RequestError as error:
        refusal = error
    if y.array.size > x.array.size and not (found and found[0].fits):
        with suppress(RequestError):
            swapped = search(y.array, x.array)
    if swapped and swapped[0].fits:
        command = shlex.join(["poolcli", "identify", request.y, request.x])
        name = swapped[0].op.name
        raise RequestError(
            f"no pooling turns {request.x} into {request.y}, but {name} turns {request.y} into {request.x}: {command}"
        )
    if refusal is not None:
        raise refusal
    return found


def _array(source: Source, options: ReadOptions) -> Tensor:
    """The whole array of a file; one that cannot be read is nothing to compare (exit 2)."""
    try:
        return in_subprocess_if_fragile(source.path, partial(read, source, options))
    except FileError as error:
        raise RequestError(error.message) from error
