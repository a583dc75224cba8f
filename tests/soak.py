"""Soak test of object stores: runs of poolcli against a server on the loopback that fails now and then.

    python -m tests.soak --runs 200

Each run has a seed, which chooses the command, the stores and the faults. It must end with the arrays that a run
without faults writes; or, once the store fails for good, with exit code 1, one line, and nothing that readers take for
an output.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from tests.clusters import decoded

TOO_LONG = 300.0  # seconds of a run that count as a hang
FAULTS = ("busy", "error", "reset", "lost", "cut", "slow")
ANSWERS = {"busy": ("503 Slow Down", "SlowDown"), "error": ("500 Internal Error", "InternalError")}
BROKEN = ("busy", "reset")  # of a store that fails for good, each from the first request on
OPERATORS = {
    "avg": ("avg", "-k", "2", "-s", "2", "--layout", "DHW"),
    "avg3": ("avg", "-k", "3", "-s", "2", "-p", "1", "--layout", "DHW"),
    "max": ("max", "-k", "2", "-s", "2", "--layout", "DHW"),
    "pyramid": ("pyramid", "--levels", "3"),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "v2": {"zarr_format": 2, "chunks": (8, 8, 8), "dtype": "uint8"},
    "v3": {"chunks": (8, 8, 8), "dimension_names": ("z", "y", "x"), "dtype": "uint16"},
    "shards": {"chunks": (4, 8, 8), "shards": (8, 16, 16), "dimension_names": ("z", "y", "x"), "dtype": "float32"},
}
SHAPE = (40, 48, 56)
PLACES = (("s3", "s3"), ("s3", "s3"), ("s3", "file"), ("http", "s3"), ("http", "file"), ("file", "s3"))
MARKERS = ("zarr.json", ".zarray", ".zgroup", ".zmetadata")


class Faulty:
    """A WSGI application in front of a store. While `rng` is set, one request in about `every` begins a burst of up to
    `burst` faults, and all requests from number `broken_from` on fail.
    """

    def __init__(self, app: Any) -> None:
        self._app, self._lock = app, Lock()
        self.begin(None)

    def begin(self, rng: Random | None, every: int = 1, burst: int = 1, broken_from: int | None = None) -> None:
        """Sets the faults of the requests to come; none without `rng`."""
        with self._lock:
            self.rng, self.every, self.burst, self.broken_from = rng, every, burst, broken_from
            self.requests, self.left, self.counts = 0, 0, Counter[str]()

    def _fault(self) -> tuple[str | None, float]:
        """The fault of this request, and how many seconds a slow answer takes."""
        with self._lock:
            if self.rng is None:
                return None, 0
            self.requests += 1
            broken = self.broken_from is not None and self.requests >= self.broken_from
            if not (broken or self.left):
                self.left = self.rng.randint(1, self.burst) if self.rng.randrange(self.every) == 0 else 0
            if not (broken or self.left):
                return None, 0
            self.left = max(0, self.left - 1)
            kind = self.rng.choice(BROKEN if broken else FAULTS)
            self.counts[kind] += 1
            return kind, self.rng.uniform(0.2, 2)

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        kind, seconds = self._fault()
        connection = environ["werkzeug.socket"]
        if kind in ANSWERS:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            status, code = ANSWERS[kind]
            body = f"<Error><Code>{code}</Code><Message>Try later</Message></Error>".encode()
            start(status, [("Content-Length", str(len(body))), ("Content-Type", "application/xml")])
            return [body if environ["REQUEST_METHOD"] != "HEAD" else b""]
        if kind == "reset":
            return _reset(connection, b"")
        if kind == "slow":
            time.sleep(seconds)
        body = b"".join(self._app(environ, start))
        if kind in ("lost", "cut"):
            return _reset(connection, body[: len(body) // 2] if kind == "cut" else b"")
        return [body]


def _reset(connection: socket.socket, body: bytes) -> Iterator[bytes]:
    if body:
        yield body
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # no FIN, but a RST
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RD)  # or else the server waits for another request
    raise ConnectionResetError


@dataclass(frozen=True)
class Case:
    """One run: what `seed` has chosen."""

    seed: int
    operator: str
    layout: str
    source: str  # "s3", "http" or "file"
    target: str  # "s3" or "file"
    way: str
    memory: str | None
    every: int
    burst: int
    broken_from: int | None


def case_of(seed: int) -> Case:
    """The case of a seed."""
    rng = Random(seed)  # noqa: S311
    operator = rng.choice(list(OPERATORS))
    layout, way = rng.choice(list(LAYOUTS)), rng.choice(("plain", "plain", "resume", "cluster"))
    memory = rng.choice((None, "60M", "4M")) if operator != "pyramid" else None
    broken_from = int(10 ** rng.uniform(0.5, 2.8)) if rng.random() < 0.12 else None
    every, burst = rng.randint(9, 60), rng.choice((1, 1, 1, 3, 6))
    return Case(seed, operator, layout, *rng.choice(PLACES), way, memory, every, burst, broken_from)


class Soak:
    """The server, the folder and the environment of all runs."""

    def __init__(self, folder: Path) -> None:
        from moto.server import ThreadedMotoServer

        self.folder = folder
        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
        self.server: Any = ThreadedMotoServer("127.0.0.1", port=0)
        self.server.start()
        host, port = self.server.get_host_and_port()
        self.url = f"http://{host}:{port}"
        inner: Any = self.server._server
        self.faults = inner.app = Faulty(inner.app)
        keys = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nobody", "AWS_DEFAULT_REGION": "us-east-1"}
        os.environ.update(keys | {"AWS_ENDPOINT_URL": self.url})
        self.s3: Any = import_module("boto3").client("s3")
        self.s3.create_bucket(Bucket="bucket")
        self.seconds: dict[tuple[str, ...], float] = {}

    def outputs(self) -> dict[str, bytes]:
        """What is in the bucket as an output, by name."""
        found = {}
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix="out/"):
            for key in (entry["Key"] for entry in page.get("Contents", [])):
                found[key.removeprefix("out/")] = self.s3.get_object(Bucket="bucket", Key=key)["Body"].read()
        return found

    def clear(self) -> None:
        """Removes all outputs."""
        for name in self.outputs():
            self.s3.delete_object(Bucket="bucket", Key=f"out/{name}")
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        (self.folder / "out").mkdir()

    @cache  # noqa: B019  # one for the process
    def source(self, layout: str) -> str:
        """The name of a store, in the folder and in the bucket."""
        import numpy as np
        import zarr

        name = f"{layout}.zarr"
        array: Any = zarr.create_array(self.folder / name, **{"shape": SHAPE, **LAYOUTS[layout]})
        array[:] = (np.random.default_rng(0).random(array.shape) * 250).astype(array.dtype)
        for path, content in _tree(self.folder / name).items():
            self.s3.put_object(Bucket="bucket", Key=f"in/{name}/{path}", Body=content, ACL="public-read")
        return name

    @cache  # noqa: B019
    def expected(self, operator: str, layout: str) -> dict[str, bytes]:
        """What a run without faults writes into a folder."""
        begun = time.monotonic()
        code, err = self.end(
            self.start(*OPERATORS[operator], self.source(layout), "-o", "expected/y.zarr", "--overwrite")
        )
        self.seconds[operator, layout] = time.monotonic() - begun
        if code:
            raise SystemExit(err)
        return _tree(self.folder / "expected")

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Starts poolcli, in a group of its own; SIGABRT has it print where it is."""
        command = [sys.executable, "-X", "faulthandler", "-m", "poolcli", *words, "-q"]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=self.folder, start_new_session=True, **pipes)

    def end(self, run: subprocess.Popen[bytes]) -> tuple[int, str]:
        """The exit code of a run and what it said; one that hangs says where."""
        try:
            _, err = run.communicate(timeout=TOO_LONG)
            return run.returncode, err.decode(errors="replace")
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGABRT)
            time.sleep(10)
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            return 999, "HANG\n" + run.communicate()[1].decode(errors="replace")

    def run(self, case: Case) -> dict[str, Any]:
        """Runs a case and says what came of it; `wrong` is empty if all is right."""
        expected = self.expected(case.operator, case.layout)
        self.clear()
        name = self.source(case.layout)
        source = {"s3": f"s3://bucket/in/{name}", "http": f"{self.url}/bucket/in/{name}", "file": name}[case.source]
        target = "s3://bucket/out/y.zarr" if case.target == "s3" else "out/y.zarr"
        memory = ("--max-memory", case.memory) if case.memory else ()
        words = (*OPERATORS[case.operator], source, *memory, "-o", target)
        rng = Random(case.seed + 1)  # noqa: S311
        self.faults.begin(rng, case.every, case.burst, case.broken_from)
        begun, more = time.monotonic(), {"resume": ("--resume",), "cluster": ("--cluster", "local:2")}.get(case.way, ())
        for _ in range(rng.randint(1, 3) if case.way == "resume" else 0):  # runs that are killed, unless they end
            run = self.start(*words, *more)
            with suppress(subprocess.TimeoutExpired):
                run.wait(rng.uniform(0.3, 3) * self.seconds[case.operator, case.layout])
                break
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
        else:
            run = self.start(*words, *more)
        code, err = self.end(run)
        seconds, counts, requests = time.monotonic() - begun, dict(self.faults.counts), self.faults.requests
        self.faults.begin(None)
        time.sleep(0.1)
        wrong = self.judged(case, code, err, expected)
        if code == 1 and case.broken_from is not None and not wrong:
            again = self.end(self.start(*words, "--resume" if case.way == "resume" else "--overwrite"))
            wrong = [f"again: {each}" for each in ([again[1]] if again[0] else _difference(self.found(case), expected))]
        return asdict(case) | {
            "requests": requests, "faults": counts, "code": code, "seconds": round(seconds, 1), "wrong": wrong,
            "said": err,
        }  # fmt: skip

    def found(self, case: Case) -> dict[str, bytes]:
        """The output of a case, and what was left beside it but for a manifest."""
        found = self.outputs() if case.target == "s3" else _tree(self.folder / "out")
        return {name: content for name, content in found.items() if name != ".poolcli.jsonl"}

    def judged(self, case: Case, code: int, err: str, expected: dict[str, bytes]) -> list[str]:
        """What is wrong with how a case ended."""
        found = self.found(case)
        if code == 0:
            return ([f"said {err!r}"] if err else []) + _difference(found, expected)
        if code != 1 or case.broken_from is None:
            return [f"exit {code}: {err}"]
        wrong = [] if err.count("\n") == 1 and err.startswith("poolcli: ") else [f"not one line: {err}"]
        finals = [path for path in found if path.startswith("y.zarr/")]
        if case.target == "s3":
            finals = [path for path in finals if path.removeprefix("y.zarr/") in MARKERS]
        elif case.way == "plain":
            finals = list(found)
        return wrong + ([f"left {sorted(finals)[:3]}"] if finals else [])


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def _decoded(files: dict[str, bytes]) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, name).write_bytes(content)
        return decoded(Path(folder))


def _difference(files: dict[str, bytes], expected_files: dict[str, bytes]) -> list[str]:
    found, expected = _decoded(files), _decoded(expected_files)
    missing, more = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    other = sorted(name for name in found.keys() & expected.keys() if found[name] != expected[name])
    listed = {"missing": missing, "too many": more, "different": other}
    return [f"{len(names)} {what}: {names[:3]}" for what, names in listed.items() if names]


def main() -> None:
    """Runs the seeds, prints a line for each, and ends with exit code 1 if any run was wrong."""
    parser = argparse.ArgumentParser(description="runs of poolcli against an object store that fails now and then")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    asked = parser.parse_args()
    totals, faults = Counter[str](), Counter[str]()
    with TemporaryDirectory() as folder:
        soak = Soak(Path(folder))
        for seed in range(asked.seed, asked.seed + asked.runs):
            found = soak.run(case_of(seed))
            print(json.dumps(found), flush=True)
            totals["wrong" if found["wrong"] else "failed as told" if found["code"] else "right"] += 1
            faults.update(found["faults"])
        soak.server.stop()
    print(f"{sum(totals.values())} runs: {dict(totals)}; {sum(faults.values())} faults: {dict(faults)}")
    sys.exit(bool(totals["wrong"]))


if __name__ == "__main__":
    main()
