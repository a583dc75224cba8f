"""Trying a mutant: its tests run in a copy of the tree, the most related first, until one of them fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from poolcli.engine.compiled import kernel_cache
from tests.mutate.mutants import Mutant
from tests.mutate.reach import Reach, read

ROOT = Path(__file__).parents[2]
COPIED = ("poolcli", "tests", "samples", "docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml")
SECONDS = 1800  # of a trial at most; a test that computes without end is stopped earlier, by its CPU time
_times = count()  # seconds; mutants of the same length with the same time would share a compiled module
FIRST = 40  # tests that are tried by themselves, which most mutants do not survive

# The files that are mutated, and the tests that stand nearest to them, in the order in which they are tried.
TARGETS: dict[str, tuple[str, ...]] = {
    "poolcli/windows.py": (
        "test_windows.py", "test_area.py", "plan", "explain/test_explanation.py", "test_specs.py", "test_traps.py",
    ),
    "poolcli/plan/*.py": (
        "plan", "test_windows.py", "test_specs.py", "test_fields.py", "test_attributes.py",
        "explain/test_explanation.py",
        "explain/test_screens.py", "test_traps.py", "conformance/test_refusals.py",
    ),
    "poolcli/engine/*.py": (
        "test_traps.py", "test_choice.py", "test_threads.py", "test_engines.py", "test_parts.py", "test_attributes.py",
        "conformance/test_differences.py",
    ),
    "poolcli/engine/numpy/*.py": (
        "test_traps.py", "test_engines.py", "engine/test_rounding.py", "test_numbers.py", "test_missing.py",
    ),
    "poolcli/engine/compiled/[!k]*.py": (
        "test_choice.py", "test_traps.py", "engine", "test_numbers.py", "test_engines.py",
    ),
    "poolcli/engine/compiled/kernel_choice.py": ("test_choice.py", "engine", "test_engines.py"),
    "poolcli/engine/compiled/kernel_cache.py": ("engine/test_store.py", "test_cache.py"),
    "poolcli/pooling/tiles.py": (
        "test_executors.py", "test_larger_than_memory.py", "cli/test_pooling.py", "cli/test_resume.py",
    ),
    "poolcli/runs/manifest.py": ("test_executors.py", "cli/test_manifest.py", "cli/test_resume.py"),
    "poolcli/runs/executors/__init__.py": ("test_executors.py", "cli/test_resume.py"),
    "poolcli/formats/atomic.py": ("test_executors.py", "formats/test_contract.py", "cli/test_many_files.py"),
}  # fmt: skip

COMPILED = "poolcli/engine/compiled"
IN_NO_KERNEL = tuple(  # a change of these builds no kernel anew
    f"{COMPILED}/{name}.py"
    for name in ("__init__", "kernel_choice", "canonical_view", "memory_order", "pool", "launch")
)


@dataclass(frozen=True)
class Trial:
    """What became of a mutant: `killed` by a test, by CPU `time` or by a crash, `survived`, or `undecided` where the
    tests took too long: a test may wait without end, or the machine was busy.
    """

    mutant: str
    line: int
    outcome: str
    by: str
    seconds: float


def copy_tree(tree: Path) -> Path:
    """A copy of the tree to change, with compiled modules."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, tree / name)
    _pytest(tree, "--collect-only")
    return tree


def measured(folder: Path, tree: Path) -> Reach:
    """What each test of the quick and the compile profile runs: measured once and kept in `folder`, as are the kernels
    that they build, of which `tree` gets a copy.
    """
    file = folder / "reach.json"
    if not file.exists():
        files = [str(path) for pattern in TARGETS for path in tree.glob(pattern)]
        _pytest(tree, POOLCLI_REACH=str(file), POOLCLI_MEASURED=json.dumps(files))
        shutil.copytree(tree / "cache", folder / "cache")
    shutil.copytree(folder / "cache", tree / "cache", dirs_exist_ok=True)
    return read(file)


def run_trial(mutant: Mutant, chosen: dict[str, float], tree: Path) -> Trial:
    """Tries the mutant in `tree`, which is left as it was, on the chosen tests, each with the seconds that it takes."""
    path, begin = tree / mutant.path, time.monotonic()
    before, status = path.read_text(), path.stat()
    path.write_text(mutant.text())
    os.utime(path, (next(_times),) * 2)  # no compiled module has this time, so this file alone is compiled anew
    try:
        outcome, by = _outcome(mutant.path, chosen, tree)
    finally:
        path.write_text(before)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return Trial(mutant.name, mutant.line, outcome, by, round(time.monotonic() - begin, 1))


def _outcome(path: str, chosen: dict[str, float], tree: Path) -> tuple[str, str]:
    kernels = kernel_cache.key() if path.startswith(IN_NO_KERNEL) else ""
    # Tests of the key itself fail on every mutant for which it is replaced.
    rows = [row for row in chosen.items() if not (kernels and row[0].startswith("tests/engine/test_store.py"))]
    for part in (rows[:FIRST], rows[FIRST:]):
        if not part:
            continue
        (tree / "chosen.json").write_text(json.dumps(dict(part)))
        files = sorted({name.split("::")[0] for name, _ in part})
        try:
            code, said = _pytest(
                tree, "-x", "--tb=no", "-rf", *files, timeout=SECONDS,
                POOLCLI_CHOSEN="chosen.json", POOLCLI_KERNELS=kernels, PYTHONDONTWRITEBYTECODE="1",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "undecided", ""
        if code == -signal.SIGXCPU:
            return "killed", "time"
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", said, re.MULTILINE)
            return "killed", failed[1] if failed else f"exit code {code}"
    return "survived", ""


def _pytest(tree: Path, *arguments: str, timeout: float | None = None, **environment: str) -> tuple[int, str]:
    """The exit code and the output of a run of the quick and the compile profile in `tree`."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.mutate.reach", "-p", "no:cacheprovider", "-n", "0"]
    kernels = tree / "cache" / "poolcli"
    known = set(kernels.glob("*"))
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        [*command, "-m", "not slow", *arguments], cwd=tree,
        env={**own, "PYTHONPATH": f"{tree}{os.pathsep}{ROOT}", "XDG_CACHE_HOME": str(kernels.parent), **environment},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate(timeout=timeout)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with whatever it has started
            if "POOLCLI_CHOSEN" in environment:
                for kernel in set(kernels.glob("*")) - known:
                    shutil.rmtree(kernel, ignore_errors=True)
    return process.returncode, said
