"""A Dask cluster of processes on this machine that no other user of it can reach.

Whoever reaches a port of Dask's can run code as its owner. So every connection demands a certificate that is made for
the run and never leaves its processes, there is no HTTP server, and what workers spill lies in a folder of the user's
own. Imports distributed; import it only when a cluster is wanted.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import dask
import distributed

SILENT = logging.CRITICAL + 1


class _WithoutHTTP:
    def start_http_server(self, *_: object, **__: object) -> None:
        """Starts none: Dask's answers everybody, and no option leaves it out."""


class Scheduler(_WithoutHTTP, distributed.Scheduler):
    """Dask's scheduler without HTTP."""


class Worker(_WithoutHTTP, distributed.Worker):
    """Dask's worker without HTTP."""


@contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """A cluster of so many processes with one thread each, which end with it."""
    common = {
        "host": "127.0.0.1",
        "protocol": "tls://",
        "security": distributed.Security.temporary(),  # type: ignore[no-untyped-call]  # it has no types
    }
    with (
        TemporaryDirectory(prefix="poolcli-", ignore_cleanup_errors=True) as folder,  # only its owner may enter it
        dask.config.set({"temporary-directory": folder}),
    ):
        options = {
            **common,
            "worker_class": Worker,
            "nthreads": 1,
            "memory_limit": 1 / workers,  # of what the machine has
            "dashboard": False,
            "silence_logs": SILENT,
            "preload": __name__,
        }
        scheduler = {"cls": Scheduler, "options": {**common, "dashboard": False}}
        nannies = {number: {"cls": distributed.Nanny, "options": options} for number in range(workers)}
        with distributed.SpecCluster(  # type: ignore[no-untyped-call]  # likewise
            workers=nannies, scheduler=scheduler, security=common["security"], silence_logs=SILENT
        ) as cluster:
            yield cluster


def dask_setup(worker: object) -> None:
    """What Dask calls when a worker starts: a Ctrl-C is for the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # of connections to object stores, which end with it
