"""The registry of checks: of a whole table by its heading, or of one row by its first cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

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


def results_of(document: str, found: dict[str, Callable[[], Iterable[tuple[Any, Any]]]]) -> None:
    """Checks the rows of `document` with these first cells: what is computed, flat, and what it must be."""
    for first, compute in found.items():

        def check(row: Row, compute: Callable[[], Iterable[tuple[Any, Any]]] = compute) -> None:
            for computed, expected in compute():
                np.testing.assert_array_equal(np.ravel(computed), np.ravel(expected), row[0])

        ROWS[document, first] = check


def plain(cell: str) -> str:
    """A cell without the marks of code."""
    return cell.replace("`", "")
