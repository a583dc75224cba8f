"""Every row of every table of the manuals is held against what poolcli does: none is without its check.

Tables of measurements are records of what was, and have none.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.documents.checks import ROWS, WHOLE, Row
from tests.documents.console import workplace
from tests.documents.markdown import DOCUMENTS, Table, name_of, tables

for _path in Path(__file__).parent.glob("rows_of_*.py"):
    import_module(f"tests.documents.{_path.stem}")  # which fills the registry
RECORDS = ("docs/measurements.md",)
TABLES = [(name_of(path), table) for path in DOCUMENTS if name_of(path) not in RECORDS
          for table in tables(path.read_text())]  # fmt: skip


def heading(table: Table) -> str:
    """The first heading, or the second where the first is blank."""
    return table.head[0] or table.head[1]


WHOLES = [(document, table) for document, table in TABLES if (document, heading(table)) in WHOLE]
SINGLES = [(document, row) for document, table in TABLES if (document, table) not in WHOLES for row in table.rows]


@pytest.mark.parametrize(("document", "table"), WHOLES, ids=[f"{name}: {heading(table)}" for name, table in WHOLES])
def test_the_table_is_true(document: str, table: Table, tmp_path: Path) -> None:
    with workplace(tmp_path):
        assert_true = WHOLE[document, heading(table)]
        assert_true(table)


@pytest.mark.parametrize(("document", "row"), SINGLES, ids=[f"{name}: {row[0]}" for name, row in SINGLES])
def test_the_row_is_true(document: str, row: Row, tmp_path: Path) -> None:
    with workplace(tmp_path):
        assert_true = ROWS[document, row[0]]
        assert_true(row)


def test_no_check_is_left_over() -> None:
    assert ROWS.keys() == {(document, row[0]) for document, row in SINGLES}
    assert WHOLE.keys() == {(document, heading(table)) for document, table in WHOLES}
