"""Connects to a running Dask cluster, or starts one on this machine. Imports distributed, so import it lazily.

A process that reaches a port of Dask can run code as its owner. So connections within a local cluster use TLS with a
certificate that is created for the run and never leaves its processes, there is no HTTP server, and workers spill to a
private folder.
"""

from __future__ import annotations

import json
import logging
import signal
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import resource_tracker
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask
import distributed

from poolcli.errors import FileError, RequestError, error_text

# Results or messages depend on these.
COMPARED_PACKAGES = ("poolcli", "numpy", "numba", "llvmlite", "zarr", "distributed")
LOGGERS = ("distributed", "distributed.client")  # each has a level of its own
CONNECT_SECONDS = 10  # for a scheduler to answer, and to have a worker
NO_LOGS = logging.CRITICAL + 1


@contextmanager
def connected(word: str, local: int) -> Iterator[Any]:
    """A client of the cluster that a value of --cluster names, or of `local` processes, which end with it; its workers
    have the same versions as this process.
    """
    # Not reset at the end, because a client that lost its scheduler logs that after it was closed. Errors that matter
    # are in the outcomes.
    for name in LOGGERS:
        logging.getLogger(name).setLevel(NO_LOGS)
    with local_cluster(local) if local else nullcontext(_address(word)) as address:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about versions, which are compared below
                client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise FileError(f"{word}: no scheduler answers there ({type(error).__name__})") from error
        with client:
            try:
                client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            except TimeoutError:
                raise FileError(f"{word}: has no workers; start some with: dask worker {word}") from None
            own = _versions()
            for worker, found in client.run(_versions, on_error="ignore").items():
                if found != own:
                    theirs, ours = (", ".join(sorted(each - other)) for each, other in ((found, own), (own, found)))
                    raise RequestError(
                        f"the worker {worker} has {theirs}, but this process has {ours}; install the same everywhere"
                    )
            yield client


def _address(word: str) -> str:
    """The address of the scheduler that a value of --cluster names; refuses one that does not fit the configured
    certificates, after which Dask's client would wait and leave a thread behind.
    """
    address = word
    if "://" not in word:
        try:
            address = str(json.loads(Path(word).read_bytes())["address"])
        except OSError as error:
            raise FileError(f"{word}: {error.strerror}; dask scheduler --scheduler-file {word} writes it") from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise FileError(f"{word}: is not a scheduler file: it contains no scheduler address") from error
    try:
        security = distributed.Security()
        context = security.get_connection_args("client")["ssl_context"]
    except (OSError, ValueError) as error:
        raise RequestError(f"{address}: the certificates of Dask's configuration: {error_text(error)}") from error
    if address.startswith("tls:") and context is None:
        raise RequestError(
            f"{address}: needs certificates; set distributed.comm.tls in Dask's configuration: "
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE and ..__CLIENT__CERT and ..__CLIENT__KEY"
        )
    if not address.startswith("tls:") and security.require_encryption:
        raise RequestError(f"{address}: Dask's configuration requires encryption; name a tls:// address")
    return address


def _versions() -> set[str]:
    found = set[str]()
    for package in COMPARED_PACKAGES:
        try:
            found.add(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.add(f"no {package}")
    return found


class _WithoutHTTP:
    def start_http_server(self, *_: object, **__: object) -> None:
        """Does nothing: Dask's HTTP server answers every user of the machine, and no option turns it off."""


class Scheduler(_WithoutHTTP, distributed.Scheduler):
    """Dask's scheduler without HTTP."""


class Worker(_WithoutHTTP, distributed.Worker):
    """Dask's worker without HTTP."""


@contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """Starts a cluster of `workers` processes with one thread each, which end with the block."""
    security = distributed.Security.temporary()
    common = {"host": "127.0.0.1", "protocol": "tls://", "security": security, "dashboard": False}
    options = {
        "worker_class": Worker,
        "nthreads": 1,
        "memory_limit": 1 / workers,  # the share of the machine's memory
        "silence_logs": NO_LOGS,
        "preload": __name__,
    }
    scheduler = {"cls": Scheduler, "options": common}
    nannies = {number: {"cls": distributed.Nanny, "options": common | options} for number in range(workers)}
    with (
        TemporaryDirectory(prefix="poolcli-", ignore_cleanup_errors=True) as folder,  # only its owner may enter it
        dask.config.set({"temporary-directory": folder}),
    ):
        # Ctrl-C is delayed, also for the threads and processes that are started here: they never get it, and this
        # process, which handles it, ends them.
        resource_tracker.ensure_running()  # which would unblock it when the first process is started
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGHUP])
        with ExitStack() as stack:
            try:
                cluster = distributed.SpecCluster(
                    workers=nannies, scheduler=scheduler, security=security, silence_logs=NO_LOGS
                )
                stack.enter_context(cluster)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            yield cluster


def dask_setup(worker: object) -> None:
    """Called by Dask when a worker starts."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # connections to object stores end with the worker
