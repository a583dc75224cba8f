"""The report of `check`: verdicts on the pooling layers of a model, as a view and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from poolcli.dialects import DIALECTS
from poolcli.message_fields import field, for_cli, printable
from poolcli.models import Finding
from poolcli.models.judge import Comparison, LayerConversion
from poolcli.models.layer import Dim
from poolcli.report.outcome import Rows, grid

NAME_COLUMN: dict[str, Any] = {"overflow": "fold", "no_wrap": False, "max_width": 24}
LAYERS_SHOWN = 1000
STYLES = {"agrees": "green", "differs": "bold red", "invalid": "bold red", "computed": "bold", "unknown": "magenta"}
EXPLAINED = {"computed": " (nothing to compare with)"}  # verdicts in the last line
Answer = tuple[Finding, LayerConversion | None]  # a layer, and with --to its equivalent in another framework


def findings_view(
    path: str, answers: Sequence[Answer], comparison: Comparison | None, against: str | None
) -> RenderableType:
    """One line for each layer, reasons and warnings, and calls elsewhere; of very many layers, incorrect ones first."""
    count, path = len(answers), printable(path)
    if not count:
        return Text(f"{path}: no pooling layers")
    first = sorted(range(count), key=lambda place: answers[place][0].verdict in ("agrees", "computed"))[:LAYERS_SHOWN]
    shown = [answers[place] for place in sorted(first)]
    parts: list[RenderableType] = [_table([finding for finding, _ in shown])]
    if len(shown) < count:
        parts.append(Text(f"and {count - len(shown):,} more, which {for_cli(field('json'))} lists, too"))
    remarks, calls = grid(**NAME_COLUMN), list[RenderableType]()
    for finding, there in shown:
        name = Text(printable(finding.layer.name))
        if finding.reason:
            remarks.add_row(name, Text(f"{finding.verdict}: {for_cli(finding.reason)}", style=STYLES[finding.verdict]))
        for warning in finding.warnings:
            remarks.add_row(name, Text(for_cli(warning), style="magenta"))
        if there:
            none = Text(f"none: {for_cli(there.reason or '')}", style="magenta")
            call = Text(there.text, no_wrap=True, overflow="ignore") if there.text else none  # one line, to be pasted
            calls += [Text(name.plain, style="bold"), call, *([Text(there.note, style="dim")] if there.note else [])]
    parts += ["", remarks] if remarks.row_count else []
    parts += ["", *calls] if calls else []
    counts = Counter[str](finding.verdict for finding, _ in answers)
    verbs = {word: word if counts[word] == 1 else word.removesuffix("s") for word in STYLES if counts[word]}
    told = ", ".join(f"{counts[word]} {verb}{EXPLAINED.get(word, '')}" for word, verb in verbs.items())
    versions = {finding.layer.version for finding, _ in shown}
    of = f" of {printable(*versions)}" if len(versions) == 1 and any(versions) else ""
    if against:
        told += f"; the same in {DIALECTS[against].title}: {sum(bool(each.alike) for each, _ in answers)} of {count}"
    parts += ["", Text(f"{path}: {count} pooling layer{'' if count == 1 else 's'}{of}: {told}")]
    if comparison:
        parts.append(Text(_told(comparison)))
    return Group(*parts)


def _table(findings: Sequence[Finding]) -> Rows:
    """One row for each layer; columns without information of their own are left out."""
    shapes = [(each.layer.input_shape, each.layer.declared_shape, each.computed) for each in findings]
    inputs, declared, computed = ([*map(_shape, each)] for each in zip(*shapes, strict=True))
    columns: dict[str, list[Any]] = {
        "verdict": [Text(each.verdict, style=STYLES[each.verdict]) for each in findings],
        "type": [each.layer.type for each in findings],
        "version": [printable(each.layer.version) for each in findings],
        "input": inputs,
        "declared": declared,
        "computed": computed,
        "layer": [printable(each.layer.name) for each in findings],
    }
    if len({each.layer.version for each in findings}) == 1:  # the last line names it
        del columns["version"]
    if all(length in ("-", found) for length, found in zip(declared, computed, strict=True)):
        del columns["declared"]
    return Rows(columns)


def _shape(shape: tuple[Dim, ...] | None) -> str:
    return "-" if shape is None else printable(",".join("?" if length is None else str(length) for length in shape))


def _told(comparison: Comparison) -> str:
    if comparison.at is None:
        return f"data: all {comparison.elements:,} elements are identical"
    other = f"; it equals the result of {comparison.answer_of}" if comparison.answer_of else ""
    return (
        f"data: {comparison.off:,} of {comparison.elements:,} elements differ; the largest difference is "
        f"{comparison.largest:.6g} at [{','.join(map(str, comparison.at))}]: recorded {comparison.recorded:.9g}, "
        f"computed {comparison.computed:.9g}{other}"
    )


def findings_document(path: str, answers: Sequence[Answer], comparison: Comparison | None) -> dict[str, Any]:
    """The same facts as JSON."""
    layers = [
        {
            "name": finding.layer.name,
            "type": finding.layer.type,
            "version": finding.layer.version,
            "attributes": finding.layer.given,
            "input": finding.layer.input_shape,
            "declared": finding.layer.declared_shape,
            "computed": finding.computed,
            "verdict": finding.verdict,
            "reason": finding.reason and for_cli(finding.reason),
            "warnings": [for_cli(warning) for warning in finding.warnings],
            "alike": finding.alike,
            **({"to": asdict(there) | {"reason": there.reason and for_cli(there.reason)}} if there else {}),
        }
        for finding, there in answers
    ]
    facts = asdict(comparison) if comparison else {}
    finite = {k: str(v) if isinstance(v, float) and not isfinite(v) else v for k, v in facts.items()}  # JSON has no nan
    return {"path": path, "layers": layers, "data": finite or None}
