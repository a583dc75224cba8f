"""The `shape` command: what comes out and why, from a typed shape or a file's header."""

from __future__ import annotations

import dataclasses
import os
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poolcli.cli.attributes import attributes_of, operator_of
from poolcli.cli.completion import inputs
from poolcli.cli.operators import operator_called
from poolcli.cli.options import (
    AllowExternal,
    Dataset,
    Dtype,
    InputDtype,
    Layout,
    MaxPixels,
    Op,
    Pages,
    Reporting,
    To,
    Windows,
)
from poolcli.cli.program import EXPLAIN, Command, Typed, app, examples, takes
from poolcli.cli.values import is_number_list, parse_numbers, refuse_shape
from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.ops import OPERATORS
from poolcli.plan import Fact, Plan, make_plan
from poolcli.plan.attributes import Attributes

if TYPE_CHECKING:
    from rich.console import RenderableType

OF_FILES = ("dataset", "pages", "max_pixels", "allow_external")  # what a typed shape has no use for
THEME = Typed(words=("auto", "light", "dark"))


@dataclass(frozen=True, kw_only=True)
class ShapeOptions(Windows, Reporting):
    """What `shape` takes."""

    # fmt: off
    op: Op
    shape: Annotated[
        str,
        typer.Argument(metavar="SHAPE|FILE", help="A shape such as 1,3,32,32, or a file.",
                       autocompletion=inputs),
        Typed(example="1,3,32,32"),
    ]
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show the formula of each axis step by step.", rich_help_panel=EXPLAIN),
    ] = False
    windows: Annotated[
        bool,
        typer.Option("--windows", help="List the windows (of many, the first and last): start, stop, divisor.",
                     rich_help_panel=EXPLAIN),
    ] = False
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Show what each framework would answer, and why.", rich_help_panel=EXPLAIN),
    ] = False
    picture: Annotated[
        str | None,
        typer.Option("--picture", metavar="FILE", rich_help_panel=EXPLAIN,
                     help="Draw input, windows and output as .svg, .png or interactive .html."),
        Typed(example="plan.svg"),
    ] = None
    theme: Annotated[
        str,
        typer.Option("--theme", metavar="NAME", rich_help_panel=EXPLAIN, autocompletion=THEME.complete, hidden=True,
                     help="Theme of the picture: auto (follows the viewer), light or dark."),
        THEME,
    ] = "auto"
    solve: Annotated[
        str | None,
        typer.Option("--solve", metavar="N", rich_help_panel=EXPLAIN,
                     help="Find the attributes that give this output length: 28 or 28,28; given options stay."),
        Typed(example="28", numbers=True),
    ] = None
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace a picture that exists.", rich_help_panel=EXPLAIN, hidden=True),
    ] = False
    # fmt: on
    to: To = None
    layout: Layout = None
    input_dtype: InputDtype = None
    dtype: Dtype = None
    dataset: Dataset = dataclasses.field(default_factory=list)
    pages: Pages = None
    max_pixels: MaxPixels = None
    allow_external: AllowExternal = False


@app.command(
    "shape",
    cls=Command,
    add_help_option=False,
    options_metavar="[OPTIONS]",
    epilog=examples(
        "poolcli shape avg 1,3,32,32 -k 5 -s 3 -p 1 --explain",
        "poolcli shape max samples/astronaut.png -k 3 -s 2 -p 1 --compare",
        "poolcli shape avg 1,3,56,56 --solve 28",
        "poolcli shape avg 1,3,56,56 -k 3 -s 2 --like pytorch --to openvino",
        exit_codes="",
    ),
)
@takes(ShapeOptions)
def shape(asked: ShapeOptions) -> int:
    """Prints the plan of an operator on a shape or a file's header, and what else is asked; returns the exit code."""
    request = replace(asked, op=operator_called(asked.op))
    _refuse_without_effect(request)
    if request.solve:
        return _solve(request, request.solve)
    op = operator_of(request.op, attributes_of(request.op, request))
    plan = _plan(op, request)
    if request.picture:
        plan.picture(request.picture, theme=request.theme, overwrite=request.overwrite)
    if request.json:
        print(_document(plan, request))
    elif request.quiet:
        print(",".join(str(size) for size in plan.output_shape))
    else:
        _show(plan, request)
    return 0


def _refuse_without_effect(request: ShapeOptions) -> None:
    """Refuses options that would change nothing."""
    for name, given in (("theme", request.theme != "auto"), ("overwrite", request.overwrite)):
        if given and not request.picture:
            named = field(name, request.theme) if name == "theme" else field(name)
            raise RequestError(f"{named} is for {field('picture')}; give both or none")
    typed = _is_typed(request.shape)
    if request.input_dtype and not typed:
        raise RequestError(f"{field('input_dtype')} is for a typed shape, and a file says its own; leave it out")
    for name in OF_FILES if typed else ():
        if getattr(request, name):
            raise RequestError(f"{field(name)} is about files, and {request.shape} is a shape; leave it out")
    if request.quiet and not request.json and _asks_more(request):
        raise RequestError(f"{field('quiet')} shows the output shape alone; leave it out to see more")


def _show(plan: Plan, request: ShapeOptions) -> None:
    from poolcli.report.console import show
    from poolcli.report.plan import plan_view

    show(plan_view(plan, [fact.message for fact in plan.facts]), sys.stdout)
    for view in _views(plan, request):
        print()
        show(view, sys.stdout)


def _asks_more(request: ShapeOptions) -> bool:
    return bool(request.explain or request.windows or request.compare or request.to)


def _views(plan: Plan, request: ShapeOptions) -> list[RenderableType]:
    """What is asked beyond the plan, in the order of the options."""
    if not _asks_more(request):
        return []
    from poolcli.report import explain

    views = []
    if request.explain:
        views.append(explain.explanation_view(plan))
    if request.windows:
        views.append(explain.all_windows_view(plan))
    if request.compare:
        views.append(explain.comparison_view(plan.compare()))
    if request.to:
        views.append(explain.conversion_view(plan.to(request.to), DIALECTS[request.to].title))
    return views


def _document(plan: Plan, request: ShapeOptions) -> str:
    from poolcli.report.as_json import plan_document, to_json

    return to_json(_asked_for(plan_document(plan), plan, request))


def _asked_for(document: dict[str, Any], plan: Plan, request: ShapeOptions) -> dict[str, Any]:
    """The document with what is asked beyond the plan."""
    if _asks_more(request):
        from poolcli.report import as_json

        if request.explain:
            document["explain"] = as_json.explanation_document(plan)
        if request.windows:
            document["windows"] = as_json.windows_document(plan)
        if request.compare:
            document["compare"] = as_json.comparison_document(plan)
        if request.to:
            document["to"] = as_json.conversion_document(plan, request.to)
    return document


def _solve(request: ShapeOptions, wanted: str) -> int:
    """Prints the attributes that give the wanted length, and what else is asked of the first of them; returns the exit
    code: 1 where there are none.
    """
    from poolcli.explain.solve import answers, nearest, question

    (shape, _, layout, _), lengths = _input_of(request), parse_numbers(field("solve"), wanted)
    given = attributes_of(request.op, request)
    asked = question(request.op, given, shape, lengths, layout)
    found = answers(asked)
    near = [] if found else nearest(asked)
    if found and request.picture:
        found[0].plan.picture(request.picture, theme=request.theme, overwrite=request.overwrite)
    if request.json:
        from poolcli.report.as_json import answers_document, to_json

        document = answers_document(request.op, asked.op.like, shape, lengths, given, found, near)
        print(to_json(_asked_for(document, found[0].plan, request) if found else document))
    else:
        from poolcli.report.console import show
        from poolcli.report.explain import answers_view, no_answers_view

        show(answers_view(found) if found else no_answers_view(near, given), sys.stdout)
        for view in _views(found[0].plan, request) if found else ():
            print()
            show(view, sys.stdout)
    return 0 if found else 1


def _input_of(request: ShapeOptions) -> tuple[tuple[int, ...], str, str | None, tuple[str, ...]]:
    """Shape, dtype, layout and notes: as typed, or those of the file's header."""
    target, layout = request.shape, request.layout
    if _is_typed(target):
        return parse_numbers("SHAPE", target), request.input_dtype or _usual_dtype(request.op), layout, ()
    from poolcli.cli.reading import NONE_OF_SEVERAL, header_options, holds_several_named, refuse_width_by_height
    from poolcli.formats import parse_source, read_header
    from poolcli.formats.recognise import in_subprocess_if_fragile

    source = parse_source(target, next(iter(request.dataset), None))
    if source.path != "-" and "://" not in source.path and not os.path.lexists(source.path):
        refuse_shape(target)
    refuse_width_by_height(request.output_size, [source.path])
    if request.dataset and not holds_several_named(source.path):
        raise RequestError(f"{field('dataset')} {NONE_OF_SEVERAL}; leave it out")
    header = in_subprocess_if_fragile(source.path, partial(read_header, source, header_options(request, [source])))
    return header.shape, header.dtype, layout or header.layout, header.notes


def _is_typed(target: str) -> bool:
    """Whether it is a shape, and no file's name."""
    return is_number_list(target) and not Path(target).exists()


def _usual_dtype(op: str) -> str:
    return "uint8" if OPERATORS[op].reducer.votes else "float32"


def _plan(op: Attributes, request: ShapeOptions) -> Plan:
    shape, dtype, layout, notes = _input_of(request)
    try:
        plan = make_plan(op, shape, dtype, layout=layout, output_dtype=request.dtype)
    except RequestError as error:
        raise (error if _is_typed(request.shape) else error.at(request.shape)) from None
    return replace(plan, facts=(*(Fact("file", note) for note in notes), *plan.doubts, *plan.facts))
