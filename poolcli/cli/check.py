"""The `check` command: the pooling layers of a model file."""

from __future__ import annotations

import sys

from poolcli.cli.requests import CheckRequest
from poolcli.core.errors import RequestError
from poolcli.core.fields import field
from poolcli.core.values import one_of
from poolcli.dialects import DIALECTS
from poolcli.models.check import Finding, check, read_model
from poolcli.models.layer import Layer


def find(request: CheckRequest) -> list[Layer]:
    """The layers that are asked for; a model without any, or without the named one, is refused."""
    path, name = request.model, request.layer
    layers = read_model(path)
    if name is not None:
        chosen = [layer for layer in layers if layer.name == name]
        if not chosen:
            known = ", ".join(layer.name for layer in layers[:10]) or "none"
            raise RequestError(f"{path}: no pooling layer is called {name}; there are: {known}")
        return chosen
    return layers


def check_command(request: CheckRequest) -> int:
    """Prints a verdict for each layer; returns 1 where a declared shape, or the compared data, differs."""
    if request.against:
        one_of("against", request.against, tuple(DIALECTS))
    if request.run and request.layer is None:
        raise RequestError(f"{field('run')} compares the data of one layer; name it with {field('layer')}")
    layers = find(request)
    findings = [check(layer, request.against) for layer in layers]
    comparison = None
    if request.run:
        from poolcli.models.compare_data import compare_data

        comparison = compare_data(layers[0], request.run)
    if request.json:
        from poolcli.report.check import findings_document
        from poolcli.report.document import to_json

        print(to_json(findings_document(request.model, findings, comparison)))
    elif not request.quiet:
        from poolcli.report.check import findings_view
        from poolcli.report.console import show

        show(findings_view(request.model, findings, comparison), sys.stdout)
    return 1 if any(_is_wrong(finding) for finding in findings) or (comparison and comparison.off) else 0


def _is_wrong(finding: Finding) -> bool:
    return finding.verdict in ("differs", "refused")
