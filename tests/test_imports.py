"""No module needs itself, not even through a function. lint-imports does not see a package and one of its modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "poolcli"
FRONT = PACKAGE / "__init__.py"  # names everything that is public, for type checkers, and imports it on first use


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def imported(node: ast.AST) -> Iterator[str]:
    """What a module imports at any depth, for type checkers, too."""
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)


def circle(sources: dict[str, str]) -> list[str]:
    """The modules of one circle of imports, the first of them again at the end; empty where there is none."""
    graph: dict[str, set[str]] = {}
    for name, source in sources.items():
        found = (word if word in sources else word.rpartition(".")[0] for word in imported(ast.parse(source)))
        graph[name] = {word for word in found if word in sources and word != name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_import_leads_back_to_where_it_came_from() -> None:
    assert circle({name_of(file): file.read_text() for file in PACKAGE.rglob("*.py") if file != FRONT}) == []


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ("from a.b import c", ["a", "a.b", "a"]),
        ("import a.b", ["a", "a.b", "a"]),
        ("from a import b", ["a", "a.b", "a"]),
        ("def late():\n    from a import b", ["a", "a.b", "a"]),
        ("if TYPE_CHECKING:\n    from a import b", ["a", "a.b", "a"]),
        ("from c import b", []),
    ],
)
def test_a_circle_is_found_wherever_the_import_stands(first: str, found: list[str]) -> None:
    assert circle({"a": first, "a.b": "from a import x"}) == found
