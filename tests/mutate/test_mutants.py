"""The mutants of small functions, and what becomes of one that a test notices and of one that none does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutate.equivalent import EQUIVALENT
from tests.mutate.mutants import Mutant, mutants
from tests.mutate.reach import Reach
from tests.mutate.trials import TARGETS, run_trial

SOURCES = {
    "a comparison and its numbers": (
        "def f(a):\n    return a < 1",
        {"a <= 1", "a < 2", "a < 0", "None"},
    ),
    "two conditions": ("def f(a, b):\n    return a and (not b)", {"a or not b", "a and b", "None"}),
    "a sum and an exchange of arguments": ("x = f(a + b, c)", {"pass", "f(c, a + b)", "f(a - b, c)"}),
    "equal arguments, whose exchange changes nothing": ("x = f(a, a, b)", {"pass"}),
    "a choice": ("def f(a):\n    if a:\n        g(a)", {"if not a:", "if a: pass"}),
    "words, imports, types and documentation": (
        '"""A."""\nfrom b import c\n\ndef f(a: int=c) -> int:\n    """B."""\n    print(f\'{a + 1}\')',
        {"pass"},
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_has_these_mutants_and_no_others(name: str) -> None:
    source, expected = SOURCES[name]
    found = mutants("x.py", source)
    assert {_line_that_differs(source, mutant.text()) for mutant in found} == expected
    assert len(found) == len(expected)


def _line_that_differs(source: str, changed: str) -> str:
    before, after = ast.unparse(ast.parse(source)).split("\n"), changed.split("\n")
    lines = [line.strip() for line in after if line not in before]
    text = " ".join(lines).removeprefix("return ").removeprefix("x = ")
    return text if "if" not in changed or text.startswith("if") else "if a: " + text


@pytest.mark.slow
def test_a_mutant_is_killed_by_the_test_that_notices_it_and_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "x.py").write_text("def f():\n    return 3\n")
    (tmp_path / "tests" / "conftest.py").write_text("import sys; sys.dont_write_bytecode = False\n")
    (tmp_path / "tests" / "test_x.py").write_text("from x import f\n\ndef test_x():\n    assert f() > 1\n")
    outcomes = {}
    for value in (2, 1):
        mutant = Mutant("x.py", "f", 2, str(value), f"def f():\n    return {value}\n".format)
        trial = run_trial(mutant, {"tests/test_x.py::test_x": 0.0}, tmp_path)
        outcomes[value] = (trial.outcome, trial.by)
    assert outcomes == {2: ("survived", ""), 1: ("killed", "tests/test_x.py::test_x")}
    assert (tmp_path / "x.py").read_text() == "def f():\n    return 3\n"


def test_quick_tests_and_then_one_case_of_each_test_that_runs_the_line_are_tried_first() -> None:
    seconds = {
        "tests/test_a.py::a[1]": 1.0,
        "tests/test_a.py::a[2]": 0.5,
        "tests/b/test_b.py::b": 9.0,
        "tests/test_c.py::c": 0.1,
        "tests/test_d.py::d[1]": 0.01,
        "tests/test_d.py::d[2]": 0.01,
    }
    reach = Reach(seconds, {"x.py": {"7": [0, 1, 2, 4, 5], "8": [2]}})
    quick = ["tests/test_d.py::d[1]", "tests/test_d.py::d[2]"]
    assert list(reach.tests("x.py", 7, ("b", "test_c.py"), 99)) == [
        *quick, "tests/b/test_b.py::b", "tests/test_a.py::a[2]", "tests/test_a.py::a[1]", "tests/test_c.py::c",
    ]  # fmt: skip
    assert list(reach.tests("x.py", 8, (), 9.2)) == ["tests/b/test_b.py::b", *quick, "tests/test_a.py::a[2]"]
    assert list(reach.tests("y.py", 1, ("test_c.py",), 99)) == ["tests/test_c.py::c"]


def test_every_room_that_is_mutated_is_there_with_its_tests() -> None:
    root = Path(__file__).parents[2]
    assert [pattern for pattern in TARGETS if not list(root.glob(pattern))] == []
    nearest = {name for tests in TARGETS.values() for name in tests}
    assert [name for name in nearest if not (root / "tests" / name).exists()] == []


def test_every_equivalent_mutant_is_a_mutant_of_the_program() -> None:
    root = Path(__file__).parents[2]
    paths = {name.split("::")[0] for name in EQUIVALENT}
    names = {mutant.name for path in paths for mutant in mutants(path, (root / path).read_text())}
    assert set(EQUIVALENT) - names == set()
