"""Trying a mutant: its tests run in a copy of the tree, the most related first, until one of them fails."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.mutate.mutants import Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("poolcli", "tests", "samples", "docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml")
SECONDS = 300  # what takes longer hangs: tests of a room take a tenth of this

# The files that are mutated, and the tests that stand nearest to them, in the order in which they are tried.
TARGETS: dict[str, tuple[str, ...]] = {
    "poolcli/windows.py": ("test_windows.py", "plan", "explain/test_steps.py", "test_specs.py", "test_traps.py"),
    "poolcli/plan/*.py": (
        "plan", "test_windows.py", "test_specs.py", "test_fields.py", "test_attributes.py", "explain/test_steps.py",
        "explain/test_screens.py", "test_traps.py", "conformance/test_refusals.py",
    ),
    "poolcli/engine/*.py": (
        "test_traps.py", "test_choice.py", "test_threads.py", "test_engines.py", "test_parts.py", "test_attributes.py",
        "conformance/test_differences.py",
    ),
    "poolcli/engine/numpy/*.py": (
        "test_traps.py", "test_engines.py", "engine/test_special_numbers.py", "test_numbers.py",
    ),
    "poolcli/engine/compiled/[!bfks]*.py": ("test_traps.py", "engine", "test_numbers.py", "test_engines.py"),
    "poolcli/engine/compiled/kernel_cache.py": ("engine/test_store.py", "test_cache.py"),
    "poolcli/pooling/tiles.py": (
        "test_executors.py", "test_larger_than_memory.py", "cli/test_pooling.py", "cli/test_resume.py",
    ),
    "poolcli/runs/manifest.py": ("test_executors.py", "cli/test_manifest.py", "cli/test_resume.py"),
    "poolcli/runs/executors/__init__.py": ("test_executors.py", "cli/test_resume.py"),
    "poolcli/formats/atomic.py": ("test_executors.py", "formats/test_contract.py", "cli/test_many_files.py"),
}  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """What became of a mutant: `killed` by a test, by `time` or by a crash, or `survived`."""

    mutant: str
    line: int
    outcome: str
    by: str
    seconds: float


def copy_tree(folder: Path) -> Path:
    """A copy of the tree to change."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, folder / name)
    return folder


def run_trial(mutant: Mutant, nearest: tuple[str, ...], tree: Path, everything: bool) -> Trial:
    """Tries the mutant in `tree`, which is left as it was; `everything`: on all tests of the quick profile."""
    path, begin = tree / mutant.path, time.monotonic()
    before = path.read_text()
    path.write_text(mutant.text())
    try:
        outcome, by = _outcome(tree, [f"tests/{name}" for name in nearest] + (["tests"] * everything))
    finally:
        path.write_text(before)
    return Trial(mutant.name, mutant.line, outcome, by, round(time.monotonic() - begin, 1))


def _outcome(tree: Path, tests: list[str]) -> tuple[str, str]:
    tests = [test for test in dict.fromkeys(tests) if (tree / test).exists()]
    command = [sys.executable, "-m", "pytest", "-x", "--tb=no", "-p", "no:cacheprovider", "-rf", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return "killed", "time"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with whatever it has started
    if process.returncode == 0:
        return "survived", ""
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", said, re.MULTILINE)
    return "killed", failed[1] if failed else f"exit code {process.returncode}"
