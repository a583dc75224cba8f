"""The `shape` command: what comes out, from a typed shape or a file's header."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from poolcli.attributes import OPERATORS, one_of, option
from poolcli.cli.operators import SHAPE_ATTRIBUTES, attribute_options, operator_from
from poolcli.cli.values import is_number_list, parse_numbers
from poolcli.errors import RequestError
from poolcli.plan import Plan, make_plan


def shape(values: Mapping[str, Any]) -> int:
    """Prints the plan of an operator on a shape or a file's header; returns the exit code."""
    name = one_of("op", values["op"], tuple(OPERATORS))
    for given in SHAPE_ATTRIBUTES:
        if values[given] is not None and given not in attribute_options(name):
            raise RequestError(f"{name} has no {option(given)}")
    plan = _plan(name, values)
    if values["json"]:
        from poolcli.report.document import plan_document, to_json

        print(to_json(plan_document(plan)))
    elif values["quiet"]:
        print(",".join(str(size) for size in plan.output_shape))
    else:
        from poolcli.report.console import show
        from poolcli.report.plan import plan_view

        show(plan_view(plan, plan.notes), sys.stdout)
    return 0


def _plan(name: str, values: Mapping[str, Any]) -> Plan:
    op, target, layout = operator_from(name, values), values["shape"], values["layout"]
    if is_number_list(target) and not Path(target).exists():
        return make_plan(
            op, parse_numbers("SHAPE", target), values["input_dtype"], layout=layout, output_dtype=values["dtype"]
        )
    from poolcli.formats import parse_source, read_header

    header = read_header(parse_source(target, values["dataset"]))
    plan = make_plan(op, header.shape, header.dtype, layout=layout or header.layout, output_dtype=values["dtype"])
    return replace(plan, notes=(*header.notes, *plan.notes))
