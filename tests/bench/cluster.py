"""What clusters cost: CPU of the scheduler for each task, time of two workers beside that of one, and memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from poolcli.batch.executors import flow
from poolcli.cli.app import run

TICKS = os.sysconf("SC_CLK_TCK")
FILES = 4000
MESSAGES = 1000
REGIONS = ("--layout", "DHW", "--max-memory", "150M")  # about 128^3 elements each

Figure = tuple[str, float, float | None]


class Used(NamedTuple):
    """CPU seconds and the most memory, in MB, of a process."""

    seconds: float
    peak: float


def cluster_figures(folder: Path, volume: Path, rounds: int) -> Iterator[Figure]:
    """Figures of clusters that are started for them, and what is meant."""
    with cluster(2) as (address, pids):
        yield from _of_the_scheduler(folder, address, pids[0])
    yield from _of_workers(folder, volume, rounds)


def _of_the_scheduler(folder: Path, address: str, pid: int) -> Iterator[Figure]:
    """Milliseconds of the scheduler, without what it takes when there is nothing to do."""
    import distributed

    files = folder / "files"
    files.mkdir(exist_ok=True)
    for number in range(FILES):
        np.save(files / f"{number}.npy", np.zeros((1, 1, 8, 8), np.uint8))
    idle = _seconds(pid, lambda: time.sleep(5))
    words = ("max", str(files), "-o", f"{folder}/small/", "-k", "2", "-s", "2", "-q", "--overwrite")

    def spent(what: Any, count: int) -> float:
        what()  # once before: connections and kernels
        start = time.perf_counter()
        seconds = _seconds(pid, what)
        return 1000 * (seconds - idle * (time.perf_counter() - start) / 5) / count

    yield "scheduler, ms a file", spent(lambda: run([*words, "--cluster", address]), FILES), 1
    with distributed.Client(address, set_as_default=False) as client:  # type: ignore[no-untyped-call]  # it has no types
        kept = flow.MOST
        flow.MOST = 1
        yield "scheduler, ms a message of one item", spent(lambda: _messages(client), MESSAGES), 1
        flow.MOST = kept
        yield "scheduler, ms a task of Dask alone", spent(lambda: _tasks(client), MESSAGES), None


def _messages(client: Any) -> None:
    for _ in flow.Flow(client, list, iter(range(MESSAGES)), MESSAGES, 2).results():
        pass


def _tasks(client: Any) -> None:
    client.gather(client.map(abs, range(MESSAGES), pure=False))


def _of_workers(folder: Path, volume: Path, rounds: int) -> Iterator[Figure]:
    """One worker and two in turn: what two take longer in all, how well they share, and the most memory of one."""
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    peak = 0.0
    for _ in range(rounds):
        for count in found:
            with cluster(count) as (address, (_, *pids)):
                words = ("avg", str(volume), "-o", f"{folder}/out.zarr", "-q", "--overwrite", "-k", "2", "-s", "2")
                assert run([*words, *REGIONS, "--cluster", address]) == 0  # once before: kernels
                before, start = [used(pid) for pid in pids], time.perf_counter()
                assert run([*words, *REGIONS, "--cluster", address]) == 0
                wall, after = time.perf_counter() - start, [used(pid) for pid in pids]
                seconds = sum(b.seconds - a.seconds for a, b in zip(before, after, strict=True))
                found[count].append((seconds, wall))
                peak = max(peak, *(each.peak for each in after))
    pairs = list(zip(found[1], found[2], strict=True))
    yield "2 workers / 1, CPU", statistics.median(two[0] / one[0] for one, two in pairs), 1.05
    shared = statistics.median(2 * two[1] / one[1] for one, two in pairs)
    yield "2 workers, their wall time twice / that of 1 (1 / 0.9)", shared, 1.11
    yield "worker at regions of 128^3, peak MB", peak, 350


@contextmanager
def cluster(workers: int) -> Iterator[tuple[str, Sequence[int]]]:
    """The address of a scheduler with some workers of one thread, and the ids of all their processes, the scheduler's
    first.
    """
    import distributed

    with ExitStack() as stack:
        file = f"scheduler-{os.getpid()}-{time.monotonic_ns()}.json"
        place = Path(os.environ.get("TMPDIR", "/tmp"), file)  # noqa: S108  # a name that nobody else has
        stack.callback(place.unlink, missing_ok=True)
        quiet = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")
        scheduler = _started(stack, "scheduler", *quiet, "--port", "0", "--scheduler-file", str(place))
        while not (place.exists() and place.stat().st_size):
            time.sleep(0.1)
        words = ("worker", "--scheduler-file", str(place), "--nthreads", "1", "--no-nanny", *quiet)
        pids = [scheduler, *(_started(stack, *words) for _ in range(workers))]
        with distributed.Client(scheduler_file=str(place)) as client:  # type: ignore[no-untyped-call]  # it has no types
            client.wait_for_workers(workers)
            address = client.scheduler.address
        yield address, pids


def _started(stack: ExitStack, name: str, *words: str) -> int:
    """The id of one of Dask's programs, which ends with the stack."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.dask_{name}", *words], stderr=subprocess.DEVNULL
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process.pid


def _seconds(pid: int, what: Any) -> float:
    """The CPU seconds of a process while something is done."""
    before = used(pid).seconds
    what()
    return used(pid).seconds - before


def used(pid: int) -> Used:
    """What a process has used up to now, on Linux."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    peak = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return Used((int(words[11]) + int(words[12])) / TICKS, int(peak.split()[1]) / 1024)
