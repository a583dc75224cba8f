"""Checks of CONTRIBUTING.md: what it names is there."""

from __future__ import annotations

from tests.documents.checks import plain, table_of
from tests.documents.markdown import ROOT, Table


@table_of("CONTRIBUTING.md", "command")
def _runs(table: Table) -> None:
    commands = [plain(row[0]) for row in table.rows]
    assert len(set(commands)) == len(commands)
    for command in commands:
        *_, place = command.split()
        path = place if "/" in place else place.replace(".", "/")
        files = (path, f"{path}.py", f"{path}/__main__.py")
        assert place in ("pytest", "--full") or any((ROOT / file).is_file() for file in files), place


@table_of("CONTRIBUTING.md", "change")
def _places(table: Table) -> None:
    assert all(row[1] for row in table.rows)
