"""`python -m tests.near [FILE ...]`: the tests nearest to a change, in about ten seconds.

    python -m tests.near poolcli/windows.py
    python -m tests.near --seconds 30

Without a file it takes those that git reports as changed. The nearest tests run first: changed test files, then those
that import a changed module themselves, then those of the room of the same name. A run that reaches its time limit
stops after the test at hand and says how many were left.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import time
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAX_FILES = 12  # of tests: collecting more takes longer than running them


def nearest(changed: str) -> list[str]:
    """The test files nearest to `changed`, nearest first; paths are relative to the root of the checkout."""
    path = Path(changed)
    if path.parts[0] == "tests":
        if path.name.startswith("test_"):
            return [changed]
        return [test for test, imported in _imports().items() if _module(path) in imported]
    if path.parts[0] != "poolcli" or path.suffix != ".py":
        return ["tests/documents/test_commands.py"] if path.suffix == ".md" else []
    direct = [test for test, imported in _imports().items() if _module(path) in imported]
    direct.sort(key=lambda test: (path.stem not in Path(test).stem, len(_imports()[test])))
    return list(dict.fromkeys([*direct, *_of_room(path)]))


def _of_room(path: Path) -> list[str]:
    """Tests in the folder, or with the name, of the room that `path` is in: of the innermost part first."""
    words = [path.stem, *reversed(path.parts[1:-1])]
    tests = sorted(_imports())
    return [
        test for word in words for test in tests if word in Path(test).parts[1:-1] or Path(test).stem == f"test_{word}"
    ]


@cache
def _imports() -> dict[str, frozenset[str]]:
    """The modules that each test file imports, by name."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
        found[str(path.relative_to(ROOT))] = frozenset(names)
    return found


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def changed_files() -> list[str]:
    """The files that git reports as changed against HEAD, those that it does not know yet included."""
    said = subprocess.run(["git", "status", "--porcelain", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [entry[3:] for entry in said.stdout.split("\0") if entry[2:3] == " "]


class Budget:
    """A pytest plugin that ends the run after the test during which `seconds` have passed."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = float("inf")
        self.run = 0
        self.left = 0

    def pytest_collection_finish(self) -> None:
        self.end = time.monotonic() + self.seconds

    def pytest_runtest_logfinish(self) -> None:
        self.run += 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        result = yield
        self.left = len(item.session.items) - self.run
        if self.left and time.monotonic() > self.end and not item.session.shouldfail:
            count = len(item.session.items)
            item.session.shouldstop = f"time limit: {self.left} of {count} tests not run; --seconds N runs more"
        return result


def main() -> int:
    """Runs the nearest tests and returns pytest's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.near", description="The tests nearest to a change.")
    parser.add_argument("files", nargs="*", metavar="FILE", help="changed files (default: what git reports)")
    parser.add_argument("--seconds", type=float, default=10, help="time limit (default 10)")
    given = parser.parse_args()
    files = [str(Path(file).resolve().relative_to(ROOT)) for file in given.files] or changed_files()
    files.sort(key=lambda file: (not file.startswith("tests/"), not file.startswith("poolcli/")))
    in_turn = (test for tests in zip_longest(*map(nearest, files)) for test in tests if test and (ROOT / test).exists())
    tests = list(dict.fromkeys(in_turn))
    if not tests:
        print(f"no test is near {', '.join(files) or 'a change: git reports none'}")
        return 0
    budget = Budget(given.seconds)
    code = pytest.main(["-x", "-n", "0", *tests[:MAX_FILES]], plugins=[budget])
    if len(tests) > MAX_FILES:
        print(f"{len(tests) - MAX_FILES} more test files are near, but further away")
    return 0 if code == pytest.ExitCode.INTERRUPTED and budget.left else code


if __name__ == "__main__":
    sys.exit(main())
