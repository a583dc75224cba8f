"""Shows at the end of a run how many distinct cases were compared with whom, by all of its processes together."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.conformance.compare import COMPARED, REFUSALS_COMPARED, SWEPT

COUNTERS: tuple[Counter[Any], ...] = (COMPARED, SWEPT, REFUSALS_COMPARED)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands its counts to the process that reports."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["compared"] = [list(counter.items()) for counter in COUNTERS]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for counter, counts in zip(COUNTERS, getattr(node, "workeroutput", {}).get("compared", ()), strict=False):
        counter.update({key if isinstance(key, str) else tuple(key): count for key, count in counts})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if COMPARED:
        terminalreporter.section("distinct cases compared, none in disagreement unless a test failed")
        for (peer, op, engine), count in sorted(COMPARED.items()):
            terminalreporter.write_line(f"{peer:<21} {op:<13} {engine:<6} {count:>6}")
    if SWEPT:
        terminalreporter.section("small combinations whose output length was compared")
        for name, count in sorted(SWEPT.items()):
            terminalreporter.write_line(f"{name:<36} {count:>6}")
    if REFUSALS_COMPARED:
        terminalreporter.section("attribute sets held against the framework's refusals")
        for (peer, op, outcome), count in sorted(REFUSALS_COMPARED.items()):
            terminalreporter.write_line(f"{peer:<21} {op:<13} {outcome:<17} {count:>6}")
