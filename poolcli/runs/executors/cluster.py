"""A Dask cluster by its word on the command line, and whether its workers are what this process is."""

from __future__ import annotations

import logging
import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from poolcli.engine.threads import allowed_threads
from poolcli.errors import FileError, RequestError
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Lazy, need

dask = Lazy("dask")
distributed = Lazy("distributed")

COMPARED = ("poolcli", "numpy", "numba", "llvmlite", "zarr", "distributed")
LOGS = {"distributed.admin.low-level-log-length": 10}  # it keeps the last 1,000 messages whole, for its developers
LOGGERS = ("distributed", "distributed.client")  # of which each has a level of its own
PATIENCE = 10  # seconds for a scheduler to answer, and to have a worker
_LOCAL = re.compile(r"local(?::([1-9]\d{0,3}))?", re.ASCII)
_ADDRESS = re.compile(r"(tcp|tls)://[^/\s@]+:\d+/?")


def check_cluster(word: str) -> None:
    """Refuses a word that names no cluster, and says what is missing to use one."""
    if not _LOCAL.fullmatch(word) and not _ADDRESS.fullmatch(word):
        raise RequestError(f"{field('cluster')} is {word[:60]!r}; write local, local:4 or tcp://HOST:PORT")
    need("distributed", why=f"{field('cluster')} runs on Dask")


@contextmanager
def connected(word: str) -> Iterator[Any]:
    """A client of the cluster, whose workers have the versions of this process; a local one ends with it."""
    check_cluster(word)
    local = _LOCAL.fullmatch(word)
    with ExitStack() as stack:
        for name in LOGGERS:  # for good: a client that lost its scheduler speaks of it after it was closed
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what matters of its losses is in the outcomes
        stack.enter_context(dask.config.set(LOGS))
        address = stack.enter_context(_local(int(local[1] or 0) or allowed_threads())) if local else word
        client = stack.enter_context(_client(address, word))
        _compare(client)
        yield client


def slots_of(client: Any) -> int:
    """How many tasks the workers can run at once."""
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))


def _local(workers: int) -> Any:
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL + 1,
        preload=__name__,
    )


def dask_setup(worker: object) -> None:
    """What Dask calls when a worker of a local cluster starts: a Ctrl-C is for the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("asyncio").setLevel(
        logging.CRITICAL
    )  # of connections to object stores, which end with the process


@contextmanager
def _client(address: Any, word: str) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of versions, which are compared by name below
        try:
            client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise FileError(f"{word}: no scheduler answers there ({type(error).__name__})") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
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
                    f"the worker {worker} has {_named(package, other)}, this process {_named(package, own)}; "
                    "install the same everywhere"
                )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _named(package: str, found: str | None) -> str:
    return f"{package} {found}" if found else f"no {package}"
