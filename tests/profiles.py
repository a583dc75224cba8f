"""The two profiles of a test run: quick, which is the default and what one waits for, and full, which misses nothing.

Quick draws fewer examples and leaves out the tests that are marked `compiles`, which build kernels, `slow`, whose point
is a process or a long search, and `heavy`, which need packages of the dependency group `heavy`. CI runs them:
`python -m pytest -m "slow or compiles or heavy"`. A run of everything is shared among the cores where pytest-xdist is
installed.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Generator, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from poolcli.cli import run_pool
from poolcli.formats import is_fragile
from poolcli.pooling.outcome import Job
from poolcli.runs import choose_executor
from poolcli.system.processes import allowed_threads

LEFT_OUT = ("compiles", "slow", "heavy")  # marks of tests that quick runs leave out
Size = TypeVar("Size")
IN_MEMORY = "/dev/shm"  # noqa: S108  # where pytest makes its folders: on a disk, tests wait for each file they sync
# Tests that import frameworks run last: forks of a process take longer, the more it has loaded.
LARGE = {"conformance", "documents", "explain", "models"}
_chosen = {"full": False, "left out": 0, "workers": True}


def sized(quick: Size, full: Size) -> Size:
    """`quick` or `full`, by the profile of this run."""
    return full if _chosen["full"] else quick


def slow(*values: Any) -> Any:
    """A row of a table that only full runs test: what it adds to the others is not worth the wait."""
    return pytest.param(*values, marks=pytest.mark.slow)


def by_engine(*cases: tuple[Any, ...], compiled: tuple[tuple[Any, ...], ...]) -> list[Any]:
    """Each case for both engines in full runs; in others, for the numpy engine those that are `compiled` and a third of
    the rest, and for the numba engine, where building kernels takes most of the time, those, or else the first.
    """
    numpy = [case for i, case in enumerate(cases) if case in compiled or i % sized(3, 1) == 0]
    numba = sized(compiled or cases[:1], cases)
    marked = [pytest.param(*case, "numba", marks=() if case in compiled else pytest.mark.slow) for case in numba]
    return [*(pytest.param(*case, "numpy") for case in numpy), *marked]


def _executor(jobs: Sequence[Job], debug: bool, cluster: str | None = None) -> str:
    """The executor of a run, but no workers in quick tests that are about something else: each is a fork of the test
    process, which costs more than all that such a test computes. A file that may crash its process keeps its worker.
    """
    chosen = choose_executor(jobs, debug, cluster)
    fragile = any(is_fragile(job.source, job.output) for job in jobs)
    return "here" if chosen == "workers" and not fragile and not _chosen["workers"] else chosen


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _chosen["workers"] = _chosen["full"] or any(item.get_closest_marker(mark) for mark in ("slow", "workers"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="every test with every example")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """One process for each core where everything is run; named files and `-n` are left as they are asked for."""
    # Without compiled modules each worker, and each process that a test starts, compiles all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if not config.pluginmanager.hasplugin("xdist") or "PYTEST_XDIST_WORKER" in os.environ:
        return
    if _free(IN_MEMORY) > 4 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", IN_MEMORY)
    everything = config.args_source == pytest.Config.ArgsSource.TESTPATHS
    watched = config.option.usepdb or config.option.collectonly
    if everything and not watched and config.option.numprocesses is None:
        config.option.numprocesses = allowed_threads()
    if config.option.numprocesses and config.option.dist == "no":
        # Whole files, mostly: what one process imports, compiles or sets up for a file, the others need not.
        config.option.dist = "worksteal"


def _free(folder: str) -> int:
    """The bytes that are free in a folder; 0 if there is no such folder."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def pytest_configure(config: pytest.Config) -> None:
    _chosen["full"] = config.option.full
    pytest.MonkeyPatch().setattr(run_pool, "choose_executor", _executor)
    shared: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}
    settings.register_profile("quick", max_examples=30, derandomize=True, database=None, **shared)
    settings.register_profile("full", max_examples=100, **shared)
    settings.load_profile("full" if config.option.full else "quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks tests of the numba engine, and leaves these and slow ones out of quick runs, unless they are asked for by
    name or mark.
    """
    for item in (item for item in items if hasattr(item, "callspec")):
        if any(isinstance(value, str) and value == "numba" for value in item.callspec.params.values()):
            item.add_marker("compiles")
    named = any("::" in argument for argument in config.args) or config.option.markexpr
    if config.option.full or named:
        return
    left_out = [item for item in items if _is_left_out(item)]
    items[:] = [item for item in items if not _is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)
    _chosen["left out"] = len(left_out)
    items.sort(key=lambda item: not LARGE.isdisjoint(item.path.parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect without looking for garbage, which takes half of the time of collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def _is_left_out(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(mark) for mark in LEFT_OUT)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = _chosen["left out"]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _chosen["left out"] = getattr(node, "workeroutput", _chosen).get("left out", 0)  # each worker collects everything


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _chosen["full"]:
        said = "profile full: every test with every example; without --full: the quick profile"
    else:
        count = _chosen["left out"]
        said = f"profile quick: {count} tests left out ({', '.join(LEFT_OUT)}); everything: python -m pytest --full"
    terminalreporter.write_line(said)
