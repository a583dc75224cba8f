"""Shows at the end of a run how many cases were compared with whom."""

from __future__ import annotations

import pytest

from tests.conformance.cases import COMPARED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if COMPARED:
        terminalreporter.section("cases compared, none in disagreement unless a test failed")
        for (peer, op), count in sorted(COMPARED.items()):
            terminalreporter.write_line(f"{peer:<13} {op:<13} {count:>6}")
