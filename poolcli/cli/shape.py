"""The `shape` command: what comes out and why, from a typed shape or a file's header."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolcli.cli.operators import SHAPE_ATTRIBUTES, attribute_options, operator_from
from poolcli.cli.values import is_number_list, parse_numbers
from poolcli.core.errors import RequestError
from poolcli.core.values import one_of, option
from poolcli.dialects import DIALECTS
from poolcli.ops import OPERATORS
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes, SlidingAttributes
from poolcli.plan.facts import Told

if TYPE_CHECKING:
    from rich.console import RenderableType

    from poolcli.explain.solve import Answer


def shape(values: Mapping[str, Any]) -> int:
    """Prints the plan of an operator on a shape or a file's header, and what else is asked; returns the exit code."""
    name = one_of("op", values["op"], tuple(OPERATORS))
    for given in SHAPE_ATTRIBUTES:
        if values[given] is not None and given not in attribute_options(name):
            raise RequestError(f"{name} has no {option(given)}")
    if values["to"]:
        one_of("to", values["to"], tuple(DIALECTS))
    if values["solve"]:
        return _solve(name, values)
    op = operator_from(name, values)
    plan = _plan(op, values)
    if values["picture"]:
        from poolcli.explain.picture import write_picture

        write_picture(plan, values["picture"], values["overwrite"])
    if values["json"]:
        print(_document(op, plan, values))
    elif values["quiet"]:
        print(",".join(str(size) for size in plan.output_shape))
    else:
        from poolcli.report.console import show
        from poolcli.report.plan import plan_view

        show(plan_view(plan, plan.notes), sys.stdout)
        for view in _views(op, plan, values):
            print()
            show(view, sys.stdout)
    return 0


def _views(op: Attributes, plan: Plan, values: Mapping[str, Any]) -> list[RenderableType]:
    """What is asked beyond the plan, in the order of the options."""
    if not any(values[asked] for asked in ("explain", "windows", "compare", "to")):
        return []
    from poolcli.explain.compare import compare
    from poolcli.explain.convert import convert
    from poolcli.report import explain

    views = []
    if values["explain"]:
        views.append(explain.explanation_view(plan))
    if values["windows"]:
        views.append(explain.all_windows_view(plan))
    if values["compare"]:
        views.append(explain.comparison_view(compare(op, plan), plan))
    if values["to"]:
        views.append(explain.conversion_view(convert(plan, values["to"]), DIALECTS[values["to"]].title))
    return views


def _document(op: Attributes, plan: Plan, values: Mapping[str, Any]) -> str:
    from poolcli.report.document import plan_document, to_json

    document = plan_document(plan)
    if any(values[asked] for asked in ("explain", "windows", "compare", "to")):
        from poolcli.report import explained

        if values["explain"]:
            document["explain"] = explained.explanation_document(plan)
        if values["windows"]:
            document["windows"] = explained.windows_document(plan)
        if values["compare"]:
            document["compare"] = explained.comparison_document(op, plan)
        if values["to"]:
            document["to"] = explained.conversion_document(plan, values["to"])
    return to_json(document)


def _solve(name: str, values: Mapping[str, Any]) -> int:
    """Prints the attributes that give the wanted length; returns the exit code: 1 where there are none."""
    from poolcli.explain.solve import solve

    fixed = frozenset(given for given in SHAPE_ATTRIBUTES if values[given] is not None)
    op = operator_from(name, dict(values) | ({} if "kernel" in fixed else {"kernel": "1"}))
    if not isinstance(op, SlidingAttributes):
        raise RequestError(f"{name} has its output size given; --solve is for avg and max")
    if "auto_pad" in fixed and op.auto_pad != "explicit":
        raise RequestError(f"--solve looks for pads itself; leave out --auto-pad {op.auto_pad}")
    if "pads" in fixed:
        fixed |= {"pads_begin", "pads_end"}
    (shape, _, layout, _), wanted = _input_of(values), parse_numbers("--solve", values["solve"])
    answers = solve(op, fixed, shape, wanted, layout)
    if values["json"]:
        from poolcli.report.document import to_json
        from poolcli.report.explained import answers_document

        print(to_json(answers_document(name, op.like, shape, wanted, answers)))
    else:
        _print_answers(answers)
    return 0 if answers else 1


def _print_answers(answers: list[Answer]) -> None:
    from poolcli.report.console import show
    from poolcli.report.explain import answers_view

    show(answers_view(answers), sys.stdout)


def _input_of(values: Mapping[str, Any]) -> tuple[tuple[int, ...], str, str | None, tuple[str, ...]]:
    """Shape, dtype, layout and notes: as typed, or those of the file's header."""
    target, layout = values["shape"], values["layout"]
    if is_number_list(target) and not Path(target).exists():
        return parse_numbers("SHAPE", target), values["input_dtype"], layout, ()
    from poolcli.formats import parse_source, read_header
    from poolcli.formats.isolated import guarded

    source = parse_source(target, next(iter(values["dataset"]), None))
    header = guarded(source.path, partial(read_header, source))
    return header.shape, header.dtype, layout or header.layout, header.notes


def _plan(op: Attributes, values: Mapping[str, Any]) -> Plan:
    shape, dtype, layout, notes = _input_of(values)
    plan = make_plan(op, shape, dtype, layout=layout, output_dtype=values["dtype"])
    return replace(plan, facts=(*map(Told, notes), *plan.facts))
