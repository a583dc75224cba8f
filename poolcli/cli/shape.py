"""The `shape` command: what comes out and why, from a typed shape or a file's header."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from poolcli.cli.attributes import attribute_options, operator_of
from poolcli.cli.requests import ShapeRequest
from poolcli.cli.values import is_number_list, parse_numbers
from poolcli.core.errors import RequestError
from poolcli.core.fields import field
from poolcli.core.nearest import listed
from poolcli.core.values import one_of
from poolcli.dialects import DIALECTS
from poolcli.ops import OPERATORS
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes, SlidingAttributes
from poolcli.plan.facts import Told

if TYPE_CHECKING:
    from rich.console import RenderableType

    from poolcli.explain.solve import Answer


def shape(request: ShapeRequest) -> int:
    """Prints the plan of an operator on a shape or a file's header, and what else is asked; returns the exit code."""
    if request.to:
        one_of("to", request.to, tuple(DIALECTS))
    if request.solve:
        return _solve(request, request.solve)
    op = operator_of(request.op, request.attributes)
    plan = _plan(op, request)
    if request.theme != "auto" and not request.picture:
        raise RequestError(f"{field('theme', request.theme)} is for {field('picture')}; give both or none")
    if request.picture:
        from poolcli.explain.write_picture import write_picture

        write_picture(plan, request.picture, op=op, overwrite=request.overwrite, theme=request.theme)
    if request.json:
        print(_document(op, plan, request))
    elif request.quiet:
        print(",".join(str(size) for size in plan.output_shape))
    else:
        _show(op, plan, request)
    return 0


def _show(op: Attributes, plan: Plan, request: ShapeRequest) -> None:
    from poolcli.report.console import show
    from poolcli.report.plan import plan_view

    show(plan_view(plan, [fact.message for fact in plan.facts]), sys.stdout)
    for view in _views(op, plan, request):
        print()
        show(view, sys.stdout)


def _asks_more(request: ShapeRequest) -> bool:
    return bool(request.explain or request.windows or request.compare or request.to)


def _views(op: Attributes, plan: Plan, request: ShapeRequest) -> list[RenderableType]:
    """What is asked beyond the plan, in the order of the options."""
    if not _asks_more(request):
        return []
    from poolcli.explain.compare import compare
    from poolcli.explain.convert import convert
    from poolcli.report import explain

    views = []
    if request.explain:
        views.append(explain.explanation_view(plan))
    if request.windows:
        views.append(explain.all_windows_view(plan))
    if request.compare:
        views.append(explain.comparison_view(compare(op, plan), plan))
    if request.to:
        views.append(explain.conversion_view(convert(plan, request.to), DIALECTS[request.to].title))
    return views


def _document(op: Attributes, plan: Plan, request: ShapeRequest) -> str:
    from poolcli.report.document import plan_document, to_json

    document = plan_document(plan)
    if _asks_more(request):
        from poolcli.report import explained

        if request.explain:
            document["explain"] = explained.explanation_document(plan)
        if request.windows:
            document["windows"] = explained.windows_document(plan)
        if request.compare:
            document["compare"] = explained.comparison_document(op, plan)
        if request.to:
            document["to"] = explained.conversion_document(plan, request.to)
    return to_json(document)


def _solve(request: ShapeRequest, wanted: str) -> int:
    """Prints the attributes that give the wanted length; returns the exit code: 1 where there are none."""
    from poolcli.explain.solve import solve

    op = _partial(request)
    (shape, _, layout, _), lengths = _input_of(request), parse_numbers(field("solve"), wanted)
    answers = solve(op, frozenset(request.attributes), shape, lengths, layout)
    if request.json:
        from poolcli.report.document import to_json
        from poolcli.report.explained import answers_document

        print(to_json(answers_document(request.op, op.like, shape, lengths, answers)))
    else:
        _print_answers(answers)
    return 0 if answers else 1


def _partial(request: ShapeRequest) -> SlidingAttributes:
    """The operator whose other attributes are looked for; refuses one without a kernel, and pads that follow a rule."""
    unknown = {"kernel": 1} if "kernel" in attribute_options(request.op) else {}
    op = operator_of(request.op, unknown | dict(request.attributes))
    if not isinstance(op, SlidingAttributes):
        raise RequestError(f"{request.op} has its output size given; {field('solve')} is for {_with_kernel()}")
    if "auto_pad" in request.attributes and op.auto_pad != "explicit":
        raise RequestError(f"{field('solve')} looks for pads itself; leave out {field('auto_pad', op.auto_pad)}")
    return op


def _with_kernel() -> str:
    return listed([name for name, record in OPERATORS.items() if issubclass(record, SlidingAttributes)], "and")


def _print_answers(answers: list[Answer]) -> None:
    from poolcli.report.console import show
    from poolcli.report.explain import answers_view

    show(answers_view(answers), sys.stdout)


def _input_of(request: ShapeRequest) -> tuple[tuple[int, ...], str, str | None, tuple[str, ...]]:
    """Shape, dtype, layout and notes: as typed, or those of the file's header."""
    target, layout = request.shape, request.layout
    if is_number_list(target) and not Path(target).exists():
        return parse_numbers("SHAPE", target), request.input_dtype or _usual_dtype(request.op), layout, ()
    from poolcli.formats import parse_source, read_header
    from poolcli.formats.isolated import guarded

    source = parse_source(target, next(iter(request.dataset), None))
    header = guarded(source.path, partial(read_header, source))
    return header.shape, header.dtype, layout or header.layout, header.notes


def _usual_dtype(op: str) -> str:
    return "uint8" if OPERATORS[op].reducer.votes else "float32"


def _plan(op: Attributes, request: ShapeRequest) -> Plan:
    shape, dtype, layout, notes = _input_of(request)
    plan = make_plan(op, shape, dtype, layout=layout, output_dtype=request.dtype)
    return replace(plan, facts=(*map(Told, notes), *plan.doubts, *plan.facts))
