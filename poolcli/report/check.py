"""The verdicts on a model's pooling layers, for a person and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from poolcli.models.check import Finding
from poolcli.models.compare_data import Comparison
from poolcli.models.layer import Dim
from poolcli.report.document import SCHEMA_VERSION
from poolcli.report.plan import plain_table
from poolcli.report.text import printable

STYLES = {"agrees": "green", "differs": "bold red", "refused": "bold red", "unknown": "yellow"}


def findings_view(path: str, findings: Sequence[Finding], comparison: Comparison | None) -> RenderableType:
    """One line for each layer, then what is to be said about some of them."""
    if not findings:
        return Text(f"{printable(path)}: no pooling layers")
    parts: list[RenderableType] = [_table(findings)]
    remarks = Table.grid(padding=(0, 2))
    remarks.add_column(no_wrap=True, overflow="ellipsis", max_width=24)
    remarks.add_column(overflow="fold")
    for finding in findings:
        name = Text(printable(finding.layer.name))
        if finding.reason:
            remarks.add_row(
                name, Text(printable(f"{finding.verdict}: {finding.reason}"), style=STYLES[finding.verdict])
            )
        for warning in finding.warnings:
            remarks.add_row(name, Text(printable(warning), style="yellow"))
    if remarks.row_count:
        parts += ["", remarks]
    counts = Counter(str(finding.verdict) for finding in findings)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in STYLES if counts[verdict])
    layers = f"{len(findings)} pooling layer{'' if len(findings) == 1 else 's'}"
    parts += ["", Text(f"{printable(path)}: {layers}: {told}")]
    if comparison:
        parts.append(Text(_told(comparison)))
    return Group(*parts)


def _table(findings: Sequence[Finding]) -> Table:
    table = plain_table()
    for heading in ("verdict", "type", "version"):
        table.add_column(heading, no_wrap=True)
    for heading in ("input", "declared", "computed"):
        table.add_column(heading, overflow="fold")
    table.add_column("layer", overflow="fold")
    for finding in findings:
        layer = finding.layer
        shapes = (layer.input_shape, layer.declared_shape, finding.computed)
        table.add_row(
            Text(finding.verdict, style=STYLES[finding.verdict]), layer.type, printable(layer.version),
            *(Text(_shape(s)) for s in shapes), Text(printable(layer.name)),
        )  # fmt: skip
    return table


def _shape(shape: tuple[Dim, ...] | None) -> str:
    if shape is None:
        return "-"
    return printable(",".join("?" if size is None else str(size) for size in shape))


def _told(comparison: Comparison) -> str:
    if comparison.at is None:
        return f"data: all {comparison.elements:,} elements agree exactly"
    place = ",".join(map(str, comparison.at))
    return (
        f"data: {comparison.off:,} of {comparison.elements:,} elements are off; the largest difference is "
        f"{comparison.largest:.6g} at [{place}]: recorded {comparison.recorded:.9g}, computed {comparison.computed:.9g}"
    )


def findings_document(path: str, findings: Sequence[Finding], comparison: Comparison | None) -> dict[str, Any]:
    """The same facts as JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "path": path,
        "layers": [
            {
                "name": finding.layer.name,
                "type": finding.layer.type,
                "version": finding.layer.version,
                "attributes": finding.layer.given,
                "input": finding.layer.input_shape,
                "declared": finding.layer.declared_shape,
                "computed": finding.computed,
                "verdict": finding.verdict,
                "reason": finding.reason,
                "warnings": list(finding.warnings),
            }
            for finding in findings
        ],
        "data": _finite(asdict(comparison)) if comparison else None,
    }


def _finite(facts: dict[str, Any]) -> dict[str, Any]:
    """JSON has no nan and no infinity: they become words."""
    return {k: str(v) if isinstance(v, float) and not isfinite(v) else v for k, v in facts.items()}
