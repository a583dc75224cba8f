"""Which tests run each line of the mutated files, and for how long: no other test can notice a change of that line.

As a pytest plugin (`-p tests.mutate.reach`) it does one of two things, by the environment: POOLCLI_REACH names the file
to write what each test runs to; POOLCLI_CHOSEN names a file with the tests to run, in order, and their seconds.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from poolcli.engine.compiled import kernel_cache

AT_ONCE = 0.02  # seconds; all tests that take less take 12 s together


@dataclass(frozen=True)
class Reach:
    """`seconds` of each test, and for each line of each file the numbers of the tests that run it."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    @cached_property
    def names(self) -> list[str]:
        return list(self.seconds)

    def tests(self, path: str, line: int, nearest: tuple[str, ...], seconds: float) -> dict[str, float]:
        """Tests that may notice a change of a line, for so many seconds in all, and what each takes: those that run the
        line, then whatever runs another line of its file or is near to it; of each, those that take no time, then one
        case of each test function, then the others.
        """
        of_file = self.lines.get(path, {})
        exact = set(of_file.get(str(line), ()))
        loose = {number for numbers in of_file.values() for number in numbers} - exact
        near = {i for i, name in enumerate(self.names) if self._rank(name, nearest) < len(nearest)} - exact - loose
        found: dict[str, float] = {}
        for number in (number for group in (exact, loose, near) for number in self._spread(group, nearest)):
            name = self.names[number]
            if seconds <= 0:
                break
            seconds -= self.seconds[name]
            found[name] = self.seconds[name]
        return found

    def _spread(self, numbers: set[int], nearest: tuple[str, ...]) -> list[int]:
        seen: Counter[str] = Counter()
        order = []
        for number in sorted(numbers, key=lambda i: self.seconds[self.names[i]]):
            function = self.names[number].split("[")[0]
            takes_time = self.seconds[self.names[number]] >= AT_ONCE
            order.append((takes_time, seen[function], self._rank(function, nearest), number))
            seen[function] += 1
        return [number for *_, number in sorted(order, key=lambda row: row[:3])]

    def _rank(self, name: str, nearest: tuple[str, ...]) -> int:
        return next((i for i, test in enumerate(nearest) if name.startswith(f"tests/{test}")), len(nearest))


def read(path: Path) -> Reach:
    """What a measured run wrote."""
    return Reach(**json.loads(path.read_text()))


class Measuring:
    """Notes what each test runs."""

    def __init__(self, path: Path, include: list[str]) -> None:
        import coverage

        self.path = path
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.coverage = coverage.Coverage(data_file=None, include=include, config_file=False)
        self.coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        begin = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = round(time.process_time() - begin, 3)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= {report.nodeid} if report.failed else set()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.coverage.stop()
        for name in self.failed:  # it would kill every mutant
            self.seconds.pop(name, None)
        data, numbers = self.coverage.get_data(), {name: i for i, name in enumerate(self.seconds)}
        lines: dict[str, dict[str, list[int]]] = {}
        for file in data.measured_files():
            for line, contexts in data.contexts_by_lineno(file).items():
                lines.setdefault(str(Path(file).relative_to(session.config.rootpath)), {})[str(line)] = [
                    numbers[name] for name in contexts if name in numbers
                ]
        self.path.write_text(json.dumps(asdict(Reach(self.seconds, lines))))


class Choosing:
    """Runs the chosen tests alone, in the order in which they are listed, and stops one that computes without end."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self.order = {name: i for i, name in enumerate(seconds)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda item: self.order[item.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        end = int(time.process_time() + 10 * self.seconds[item.nodeid] + 60)  # kernels may have to be built
        resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if path := os.environ.get("POOLCLI_REACH"):
        config.pluginmanager.register(Measuring(Path(path), json.loads(os.environ["POOLCLI_MEASURED"])))
    if path := os.environ.get("POOLCLI_CHOSEN"):
        config.pluginmanager.register(Choosing(json.loads(Path(path).read_text())))
        phases = (Phase.explicit, Phase.generate)  # that a test fails is enough: no smaller example is searched for
        settings.register_profile("mutants", settings(), phases=phases)
        settings.load_profile("mutants")
    if key := os.environ.get("POOLCLI_KERNELS"):
        kernel_cache.key = lambda: key  # type: ignore[assignment]  # kernels that are built already are used
