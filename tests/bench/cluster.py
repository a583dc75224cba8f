"""What clusters cost: CPU of the scheduler for each task, time of two workers beside that of one, and memory."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from poolcli.cli import run
from poolcli.runs.executors import dask as executor

TICKS = os.sysconf("SC_CLK_TCK")
FILES, FEW = 4000, 200
MESSAGES = 1000
REGIONS = ("--layout", "DHW", "--max-memory", "150M")  # about 128^3 elements each


class Figure(NamedTuple):
    """What was measured, its unit, and the most that it is meant to be, None where nothing is promised."""

    name: str
    value: float
    unit: str
    goal: float | None

    @property
    def text(self) -> str:
        """The value and its unit."""
        return f"{self.value:.{0 if self.value >= 100 else 2}f} {self.unit:<5}"


class Used(NamedTuple):
    """CPU seconds and the most memory, in MB, of a process."""

    seconds: float
    peak: float


def of_the_scheduler(folder: Path) -> Iterator[Figure]:
    """Milliseconds of the scheduler, without what it takes when there is nothing to do."""
    import distributed

    shutil.rmtree(folder / "files", ignore_errors=True)
    for number in range(FILES):
        file = folder / "files" / ("few" if number < FEW else "most") / f"{number}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, np.zeros((1, 1, 8, 8), np.uint8))

    def pooled(name: str) -> None:
        words = ("max", f"{folder}/files/{name}", "-o", f"{folder}/small/", "-k", "2", "-s", "2", "-q", "--overwrite")
        assert run([*words, "--cluster", address]) == 0

    with cluster(2) as (address, (pid, *_)):
        idle = _seconds(pid, lambda: time.sleep(5)) / 5

        def spent(what: Any, count: int) -> float:
            start = time.perf_counter()
            seconds = _seconds(pid, what)
            return 1000 * (seconds - idle * (time.perf_counter() - start)) / count

        pooled("few")  # once before: connections and kernels
        yield Figure("scheduler, CPU of a file", spent(lambda: pooled("most"), FILES - FEW), "ms", 1)
        with distributed.Client(address, set_as_default=False) as client:
            yield Figure("scheduler, CPU of a message of one item", spent(lambda: _messages(client), MESSAGES), "ms", 1)
            alone = spent(lambda: _tasks(client), MESSAGES)
            yield Figure("scheduler, CPU of a task of Dask alone that does nothing", alone, "ms", None)


def _messages(client: Any) -> None:
    for _ in executor.BatchedTasks(client, list, iter(range(MESSAGES)), MESSAGES, 1).results():
        pass


def _tasks(client: Any) -> None:
    client.gather(client.map(abs, range(MESSAGES), pure=False))


def of_workers(volume: Path, rounds: int) -> Iterator[Figure]:
    """One worker and two in turn: what two take longer in all, how well they share, and the most memory of one."""
    words = ["avg", str(volume), "-o", str(volume.with_name("out.zarr")), "-q", "--overwrite", "-k", "2", "-s", "2"]
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    peak = 0.0
    for _ in range(rounds):
        for count, runs in found.items():
            with cluster(count) as (address, pids):
                assert run([*words, *REGIONS, "--cluster", address]) == 0  # once before: kernels
                before, start = [used(pid) for pid in pids], time.perf_counter()
                assert run([*words, *REGIONS, "--cluster", address]) == 0
                wall, after = time.perf_counter() - start, [used(pid) for pid in pids]
                runs.append((sum(b.seconds - a.seconds for a, b in zip(before, after, strict=True)), wall))
                peak = max(peak, *(each.peak for each in after[1:]))
    pairs = list(zip(found[1], found[2], strict=True))
    for count, runs in found.items():
        seconds, wall = (statistics.median(each) for each in zip(*runs, strict=True))
        yield Figure(f"avg k2s2, workers: {count}, with the scheduler", seconds, "CPU s", None)
        yield Figure(f"avg k2s2, workers: {count}, wall", wall, "s", None)
    yield Figure("2 workers / 1, CPU", statistics.median(two[0] / one[0] for one, two in pairs), "", 1.05)
    shared = statistics.median(2 * two[1] / one[1] for one, two in pairs)
    yield Figure("2 workers / 1, wall, twice: 1 / 0.9 on a quiet machine", shared, "", 1.11)
    yield Figure("worker at regions of 128^3, most memory", peak, "MB", 350)


@contextmanager
def cluster(workers: int) -> Iterator[tuple[str, Sequence[int]]]:
    """The address of a scheduler with some workers of one thread, and the ids of all their processes, the scheduler's
    first.
    """
    import distributed

    with ExitStack() as stack:
        scratch = stack.enter_context(TemporaryDirectory())
        place = Path(scratch, "scheduler.json")
        quiet = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")
        scheduler = _started(stack, "scheduler", *quiet, "--port", "0", "--scheduler-file", str(place))
        while not (place.exists() and place.stat().st_size):
            time.sleep(0.1)
        words = (
            "worker",
            "--scheduler-file",
            str(place),
            "--local-directory",
            scratch,
            "--nthreads",
            "1",
            "--no-nanny",
        )
        pids = [scheduler, *(_started(stack, *words, "--no-nanny", *quiet) for _ in range(workers))]
        with distributed.Client(scheduler_file=str(place)) as client:
            client.wait_for_workers(workers)
            address = client.scheduler.address
        yield address, pids


def _started(stack: ExitStack, name: str, *words: str) -> int:
    """The id of one of Dask's programs, which ends with the stack."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.dask_{name}", *words], stderr=subprocess.DEVNULL
    )
    stack.callback(process.wait)
    stack.callback(process.kill)  # a worker that is asked to end waits for its scheduler for long
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
