"""Shows at the end of a run how many distinct cases were compared with whom."""

from __future__ import annotations

import pytest

from tests.conformance.compare import COMPARED, REFUSALS_COMPARED, SWEPT


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
