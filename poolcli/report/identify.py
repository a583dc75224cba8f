"""What `identify` has found, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from poolcli.dialects import DIALECTS
from poolcli.explain.identify.deviation import Deviation
from poolcli.explain.identify.search import Candidate
from poolcli.formats import Tensor
from poolcli.ops import OPERATORS
from poolcli.report.as_json import SCHEMA_VERSION
from poolcli.report.plan import plain_table
from poolcli.report.text import options_of


def candidates_view(found: Sequence[Candidate]) -> RenderableType:
    """The poolings, best first, how far each is off, and what would tell them from the first."""
    if not found:
        return Text("nothing fits: no pooling gives an output of this shape")
    table = plain_table()
    for heading in ("", "as", "options", "off"):
        table.add_column(heading, overflow="fold")
    for number, candidate in enumerate(found, 1):
        title = DIALECTS[candidate.op.like].title if _is_framework(candidate) else "-"
        options = f"{candidate.op.name} {options_of(candidate.op)}"
        table.add_row(str(number), title, options, off(candidate.deviation))
    first = found[0]
    heading = f"layout {first.plan.layout}"
    if not first.fits:
        lines: list[RenderableType] = [
            Text(f"nothing fits ({heading}); the nearest differs {first.deviation.where}:"),
            "",
            table,
        ]
        return Group(*lines, Text(_share(first.deviation)))
    told = f"; it differs {first.deviation.where}" if first.deviation.where else ""
    return Group(Text(heading + told), "", table, *_told_apart(found))


def off(deviation: Deviation) -> str:
    """How far a pooling is off, in a few words."""
    if deviation.exact:
        return "exact"
    ulp = f", {deviation.max_ulp:,} ulp" if deviation.max_ulp is not None else ""
    return f"{deviation.max_abs:.3g}{ulp}"


def candidates_document(x: Tensor, y: Tensor, found: Sequence[Candidate]) -> dict[str, Any]:
    """All that is known of the candidates, best first."""
    return {
        "schema_version": SCHEMA_VERSION,
        "input": {"shape": list(x.array.shape), "dtype": x.array.dtype.name},
        "output": {"shape": list(y.array.shape), "dtype": y.array.dtype.name},
        "fits": bool(found) and found[0].fits,
        "candidates": [_document(candidate) for candidate in found],
    }


def _document(candidate: Candidate) -> dict[str, Any]:
    off = candidate.deviation
    return {
        "op": candidate.op.name,
        "like": candidate.op.like,
        "attributes": candidate.plan.attributes,
        "exact": off.exact,
        "max_abs": off.max_abs if isfinite(off.max_abs) else None,
        "max_ulp": off.max_ulp,
        "fits": candidate.fits,
        "layout": candidate.plan.layout,
        "options": options_of(candidate.op),
        "different": off.different,
        "elements": off.elements,
        "where": off.where,
        "apart": candidate.apart,
    }


def _share(deviation: Deviation) -> str:
    return f"{deviation.different:,} of {deviation.elements:,} outputs differ by more than roundings can"


def _is_framework(candidate: Candidate) -> bool:
    return OPERATORS[candidate.op.name].rules_of is None


def _told_apart(found: Sequence[Candidate]) -> list[RenderableType]:
    """Each thing that would tell candidates from the first, once, with their numbers."""
    numbers: dict[str, list[str]] = {}
    for number, candidate in enumerate(found[1:], 2):
        numbers.setdefault(candidate.apart or "", []).append(str(number))
    if not numbers:
        return []
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for apart, who in numbers.items():
        table.add_row(f"1 from {', '.join(who)}:", Text(apart))
    return ["", Text("what would tell them apart"), table]
