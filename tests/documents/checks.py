"""The registry of checks: of a whole table by its heading, or of one row by its first cell."""

from __future__ import annotations

from collections.abc import Callable

from tests.documents.markdown import Table

Row = tuple[str, ...]
WHOLE: dict[tuple[str, str], Callable[[Table], None]] = {}
ROWS: dict[tuple[str, str], Callable[[Row], None]] = {}


def table_of(document: str, heading: str) -> Callable[[Callable[[Table], None]], Callable[[Table], None]]:
    """The function checks the table of `document` with this heading."""

    def register(check: Callable[[Table], None]) -> Callable[[Table], None]:
        WHOLE[document, heading] = check
        return check

    return register


def row_of(document: str, *first: str) -> Callable[[Callable[[Row], None]], Callable[[Row], None]]:
    """The function checks the rows of `document` with these first cells."""

    def register(check: Callable[[Row], None]) -> Callable[[Row], None]:
        ROWS.update({(document, cell): check for cell in first})
        return check

    return register


def plain(cell: str) -> str:
    """A cell without the marks of code."""
    return cell.replace("`", "")
