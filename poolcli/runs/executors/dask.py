"""Jobs on a Dask cluster: processes of this machine, or of all that a scheduler knows. One array whose output is
written in regions is shared out region by region, and this process alone begins and ends that output.
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from poolcli.errors import FileError, RequestError, said_by
from poolcli.formats.table import FORMATS, with_suffix
from poolcli.message_fields import field
from poolcli.pooling.outcome import Outcome, failure, sendable
from poolcli.pooling.tiles import Parts, Progress, Spread
from poolcli.runs.executors import Outcomes, Runner, Task
from poolcli.runs.executors.flow import Flow, explained
from poolcli.system.lazy_imports import Lazy, need
from poolcli.system.limits import allowed_threads, memory_budget

dask = Lazy("dask")
distributed = Lazy("distributed")

COMPARED = ("poolcli", "numpy", "numba", "llvmlite", "zarr", "distributed")
LOGS = {"distributed.admin.low-level-log-length": 10}  # it keeps the last 1,000 messages whole, for its developers
LOGGERS = ("distributed", "distributed.client")  # of which each has a level of its own
PATIENCE_TO_CONNECT = 10  # seconds for a scheduler to answer, and to have a worker
FILE = ".json"  # how the names of scheduler files end
CONFIGURED = "dask"  # the word for the scheduler that Dask's own configuration names
_LOCAL = re.compile(r"local(?::([1-9]\d{0,3}))?", re.ASCII)
_ADDRESS = re.compile(r"(tcp|tls)://[^/\s@]+:\d+/?")


def check_cluster(word: str) -> None:
    """Refuses a word that names no cluster, and says what is missing to use one."""
    local = _LOCAL.fullmatch(word)
    if not local and not _ADDRESS.fullmatch(word) and not word.endswith(FILE) and word != CONFIGURED:
        raise RequestError(
            f"{field('cluster')} is {word[:60]!r}; write local, local:4, tcp://HOST:PORT, tls://HOST:PORT, a "
            f"scheduler file ({FILE}), or {CONFIGURED} (DASK_SCHEDULER_ADDRESS)"
        )
    modules = ("distributed", *(["cryptography"] if local else []))
    need(*modules, why=f"{field('cluster', word)} runs on Dask")


@contextmanager
def connected(word: str) -> Iterator[Any]:
    """A client of the cluster, whose workers have the versions of this process; a local one ends with it."""
    check_cluster(word)
    local = _LOCAL.fullmatch(word)
    with ExitStack() as stack:
        for name in LOGGERS:  # for good: a client that lost its scheduler speaks of it after it was closed
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what matters of its losses is in the outcomes
        stack.enter_context(dask.config.set(LOGS))
        if local:
            from poolcli.runs.executors.local_cluster import local_cluster

            address = stack.enter_context(local_cluster(int(local[1] or 0) or allowed_threads()))
        else:
            address = _address(word)
            _check_certificates(address)
        client = stack.enter_context(_client(address, word))
        _compare(client)
        yield client


def _address(word: str) -> str:
    """Where the scheduler is that a word names."""
    if word == CONFIGURED:
        found = dask.config.get("scheduler-address", None)
        if not found:
            raise RequestError(
                f"{field('cluster', word)}: Dask's configuration names no scheduler; set DASK_SCHEDULER_ADDRESS"
            )
        return str(found)
    if not word.endswith(FILE):
        return word
    try:
        return str(json.loads(Path(word).read_bytes())["address"])
    except OSError as error:
        raise FileError(f"{word}: {error.strerror}; dask scheduler --scheduler-file {word} writes it") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FileError(f"{word}: is not a scheduler file: it contains no scheduler address") from error


def _check_certificates(address: str) -> None:
    """Refuses an address that needs certificates without them: Dask's client would raise, and leave a thread behind."""
    try:
        security = distributed.Security()
        context = security.get_connection_args("client")["ssl_context"]
    except (OSError, ValueError) as error:
        raise RequestError(f"{address}: the certificates of Dask's configuration: {said_by(error)}") from error
    if address.startswith("tls:") and context is None:
        raise RequestError(
            f"{address}: needs certificates; set distributed.comm.tls in Dask's configuration: "
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE and ..__CLIENT__CERT and ..__CLIENT__KEY"
        )
    if not address.startswith("tls:") and security.require_encryption:
        raise RequestError(f"{address}: Dask's configuration requires encryption; name a tls:// address")


def slots_of(client: Any) -> int:
    """How many tasks the workers can run at once."""
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))


@contextmanager
def _client(address: Any, word: str) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of versions, which are compared by name below
        try:
            client = distributed.Client(address, timeout=PATIENCE_TO_CONNECT, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise FileError(f"{word}: no scheduler answers there ({type(error).__name__})") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE_TO_CONNECT)
        except TimeoutError:
            raise FileError(f"{word}: has no workers; start some with: dask worker {word}") from None
        yield client


def _compare(client: Any) -> None:
    """Refuses workers that have other versions of what results and messages depend on."""
    for package in COMPARED:
        own = _version(package)
        for worker, found in client.run(version, package, on_error="return").items():
            if isinstance(found, Exception) and not isinstance(found, PackageNotFoundError):
                continue  # the worker has gone meanwhile
            other = found if isinstance(found, str) else None
            if other != own:
                raise RequestError(
                    f"the worker {worker} has {_named(package, other)}, but this process has {_named(package, own)}; "
                    "install the same everywhere"
                )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _named(package: str, found: str | None) -> str:
    return f"{package} {found}" if found else f"no {package}"


def run(tasks: Sequence[Task], runner: Runner, count: int, progress: Progress, cluster: str | None = None) -> Outcomes:
    """The outcomes as they come, of workers of `cluster`; without one, of `count` processes of this machine."""
    with connected(cluster or f"local:{count}") as client:
        if len(tasks) == 1 and all(map(_is_written_in_regions, tasks)):
            yield 0, replace(runner, spread=_Regions(client, runner.settings.resume))(next(iter(tasks)), progress)
            return
        listed = runner.folder is not None
        flow = Flow(client, _Jobs(runner), iter(enumerate(tasks)), len(tasks), slots_of(client), listed)
        try:
            yield from _outcomes(flow.results())
        except GeneratorExit:
            flow.cancel()
            raise
        except BaseException:  # stopped: what was done by now counts
            yield from _outcomes(flow.last_words())
            raise


@contextmanager
def spreading(cluster: str | None, resumable: bool) -> Iterator[Spread | None]:
    """What has parts computed by the workers of a cluster; None where there is none."""
    if cluster is None:
        yield None
        return
    with connected(cluster) as client:
        yield _Regions(client, resumable)


def _is_written_in_regions(task: Task) -> bool:
    written = with_suffix(task.job.output or "", FORMATS.values())
    return written is not None and written.spreads


def _outcomes(results: Iterator[tuple[tuple[int, Task], Any]]) -> Outcomes:
    for (number, task), found in results:
        if isinstance(found, BaseException):
            found = Outcome(task.job, error=failure(explained(found), task.job.source.path))
        yield number, found


@dataclass(frozen=True, slots=True)
class _Jobs:
    """On a worker: outcomes of tasks."""

    runner: Runner

    def __call__(self, items: Sequence[tuple[int, Task]]) -> list[Outcome]:
        asked = self.runner.settings
        runner = replace(self.runner, settings=replace(asked, max_memory=asked.allowed or _share()))
        return [sendable(runner(task, lambda done, total: None)) for _, task in items]


@dataclass(frozen=True, slots=True)
class _Regions:
    """Shares the parts of one array out to the workers."""

    client: Any
    resumable: bool

    def __call__(
        self, parts: Parts, numbers: Iterator[int], count: int, done: Callable[[int, str | None], None]
    ) -> None:
        flow = Flow(self.client, parts, numbers, count, slots_of(self.client), self.resumable)
        try:
            for number, found in flow.results():
                if isinstance(found, BaseException):
                    raise explained(found)
                done(number, found)
        except BaseException:
            flow.settle()
            raise


def _share() -> int | None:
    """The memory that a job may have: half of that of a thread of this worker; where the worker has no limit, of what
    the machine has free.
    """
    worker = distributed.get_worker()
    limit = worker.memory_manager.memory_limit
    half = limit // 2 if limit else memory_budget(None)
    return half // worker.state.nthreads if half else None
