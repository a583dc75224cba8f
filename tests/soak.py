"""Soak test of object stores: runs of poolcli against a server on the loopback that fails now and then.

    python -m tests.soak --runs 200

Each run has a seed, which chooses the command, the stores and the faults. It must end with the bytes that a run without
faults writes; or, once the store fails for good, with exit code 1, one line, and nothing that readers take for an
output.
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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

TOO_LONG = 300.0  # seconds of a run that count as a hang
FAULTS = ("busy", "error", "reset", "lost", "cut", "slow")
BROKEN = ("busy", "reset")  # of a store that fails for good, each from the first request on
OPERATORS = {
    "avg": ("avg", "-k", "2", "-s", "2"),
    "avg3": ("avg", "-k", "3", "-s", "2", "-p", "1"),
    "max": ("max", "-k", "2", "-s", "2"),
    "pyramid": ("pyramid", "--levels", "3"),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "v2": {"zarr_format": 2, "chunks": (8, 8, 8), "dtype": "uint8"},
    "v3": {"chunks": (8, 8, 8), "dimension_names": ("z", "y", "x"), "dtype": "uint16"},
    "shards": {"chunks": (4, 8, 8), "shards": (8, 16, 16), "dimension_names": ("z", "y", "x"), "dtype": "float32"},
}
SHAPE = (40, 48, 56)
WAYS = ("plain", "plain", "resume", "cluster")
NOTES = (".poolcli.jsonl", ".y.zarr.kept.at")  # of --resume
MARKERS = ("zarr.json", ".zarray", ".zgroup", ".zmetadata")


class Faulty:
    """A WSGI application in front of a store. While `rng` is set, one request in about `every` begins a burst of up to
    `burst` faults, and all requests from number `broken_from` on fail.
    """

    def __init__(self, app: Any) -> None:
        self._app, self._lock = app, Lock()
        self.rng: Random | None = None
        self.begin(None, 1, 1, None)

    def begin(self, rng: Random | None, every: int, burst: int, broken_from: int | None) -> None:
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
            if self.broken_from is not None and self.requests >= self.broken_from:
                kind = self.rng.choice(BROKEN)
            elif self.left:
                self.left, kind = self.left - 1, self.rng.choice(FAULTS)
            elif self.rng.randrange(self.every) == 0:
                self.left, kind = self.rng.randint(1, self.burst) - 1, self.rng.choice(FAULTS)
            else:
                return None, 0
            self.counts[kind] += 1
            return kind, self.rng.uniform(0.2, 2)

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        kind, seconds = self._fault()
        connection = environ["werkzeug.socket"]
        if kind in ("busy", "error"):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            status, code = ("503 Slow Down", "SlowDown") if kind == "busy" else ("500 Internal Error", "InternalError")
            body = f"<Error><Code>{code}</Code><Message>Try later</Message></Error>".encode()
            start(status, [("Content-Length", str(len(body))), ("Content-Type", "application/xml")])
            return [body if environ["REQUEST_METHOD"] != "HEAD" else b""]
        if kind == "reset":
            return _reset(connection, b"")
        if kind == "slow":
            time.sleep(seconds)
        body = b"".join(self._app(environ, start))
        if kind == "lost":
            return _reset(connection, b"")
        if kind == "cut":
            return _reset(connection, body[: len(body) // 2])
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
    source, target = rng.choice(
        (("s3", "s3"), ("s3", "s3"), ("s3", "file"), ("http", "s3"), ("http", "file"), ("file", "s3"))
    )
    operator = rng.choice(list(OPERATORS))
    return Case(
        seed=seed,
        operator=operator,
        layout=rng.choice(list(LAYOUTS)),
        source=source,
        target=target,
        way=rng.choice(WAYS),
        memory=rng.choice((None, "60M", "4M")) if operator != "pyramid" else None,
        every=rng.randint(9, 60),
        burst=rng.choice((1, 1, 1, 3, 6)),
        broken_from=int(10 ** rng.uniform(0.5, 2.8)) if rng.random() < 0.12 else None,
    )


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
        self.environment = {**os.environ, **keys, "AWS_ENDPOINT_URL": self.url}
        self.s3: Any = import_module("boto3").client(
            "s3", endpoint_url=self.url, aws_access_key_id="nobody", aws_secret_access_key="nobody",  # noqa: S106
            region_name="us-east-1",
        )  # fmt: skip
        self.s3.create_bucket(Bucket="bucket")
        self.seconds: dict[tuple[str, ...], float] = {}

    def objects(self, prefix: str) -> dict[str, bytes]:
        """The objects whose names begin so, by the rest of their names."""
        found = {}
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=prefix):
            for entry in page.get("Contents", []):
                found[entry["Key"].removeprefix(prefix)] = entry["Key"]
        return {name: self.s3.get_object(Bucket="bucket", Key=key)["Body"].read() for name, key in found.items()}

    def clear(self) -> None:
        """Removes all outputs."""
        for name in self.objects("out/"):
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
        words, begun = self.words(operator, self.source(layout), None), time.monotonic()
        run = self.start((*words, "-o", "expected/y.zarr", "--overwrite"))
        _, err = run.communicate()
        self.seconds[operator, layout] = time.monotonic() - begun
        if run.returncode:
            raise SystemExit(f"{words}: {err.decode()}")
        return _tree(self.folder / "expected")

    def words(self, operator: str, source: str, memory: str | None) -> tuple[str, ...]:
        """A command without its output."""
        name, *options = OPERATORS[operator]
        more = ("--layout", "DHW") if operator != "pyramid" else ()
        return (name, source, *options, *more, *(("--max-memory", memory) if memory else ()), "-q")

    def start(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """Starts poolcli, in a group of its own; SIGABRT has it print where it is."""
        return subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "poolcli", *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, case: Case) -> dict[str, Any]:
        """Runs a case and says what came of it; `wrong` is empty if all is right."""
        expected = self.expected(case.operator, case.layout)
        self.clear()
        name = self.source(case.layout)
        source = {"s3": f"s3://bucket/in/{name}", "http": f"{self.url}/bucket/in/{name}", "file": name}[case.source]
        target = "s3://bucket/out/y.zarr" if case.target == "s3" else "out/y.zarr"
        words = (*self.words(case.operator, source, case.memory), "-o", target)
        rng = Random(case.seed + 1)  # noqa: S311
        self.faults.begin(rng, case.every, case.burst, case.broken_from)
        begun, wrong, ends = time.monotonic(), list[str](), list[tuple[int, str]]()
        quiet_seconds = self.seconds[case.operator, case.layout]
        if case.way == "resume":
            for _ in range(rng.randint(1, 3)):
                run = self.start((*words, "--resume"))
                try:
                    run.wait(rng.uniform(0.3, 3) * quiet_seconds)
                except subprocess.TimeoutExpired:
                    os.killpg(run.pid, signal.SIGKILL)
                end = self.end(run)
                if end[0] != -signal.SIGKILL:
                    ends.append(end)
                    break
            else:
                ends.append(self.end(self.start((*words, "--resume"))))
        else:
            more: tuple[str, ...] = ("--cluster", "local:2") if case.way == "cluster" else ()
            ends.append(self.end(self.start((*words, *more))))
        seconds, counts, requests = time.monotonic() - begun, dict(self.faults.counts), self.faults.requests
        self.faults.begin(None, 1, 1, None)
        time.sleep(0.1)
        wrong += self.judged(case, ends, expected)
        if any(code == 1 for code, _ in ends) and case.broken_from is not None and not wrong:
            more = ("--resume",) if case.way == "resume" else ("--overwrite",)
            again = [self.end(self.start((*words, *more)))]
            wrong += [f"again: {each}" for each in self.judged(replace(case, broken_from=None), again, expected)]
        return {
            "seed": case.seed,
            "case": [case.operator, case.layout, f"{case.source}>{case.target}", case.way, case.memory],
            "every": case.every, "burst": case.burst, "broken_from": case.broken_from, "requests": requests,
            "faults": counts, "codes": [code for code, _ in ends], "seconds": round(seconds, 1), "wrong": wrong,
            "said": sorted({err for _, err in ends if err}),
        }  # fmt: skip

    def end(self, run: subprocess.Popen[bytes]) -> tuple[int, str]:
        """The exit code of a run and what it said; one that hangs says where."""
        try:
            _, err = run.communicate(timeout=TOO_LONG)
            return run.returncode, err.decode(errors="replace")
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGABRT)
            with suppress(subprocess.TimeoutExpired):
                run.communicate(timeout=10)
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            _, err = run.communicate()
            return 999, "HANG\n" + err.decode(errors="replace")

    def judged(self, case: Case, ends: Sequence[tuple[int, str]], expected: dict[str, bytes]) -> list[str]:
        """What is wrong with how a case ended."""
        found = self.objects("out/") if case.target == "s3" else _tree(self.folder / "out")
        for name in NOTES:
            found.pop(name, None)
        codes = [code for code, _ in ends]
        if not any(codes):
            said = "".join(err for _, err in ends)
            return ([f"said {said!r}"] if said else []) + _difference(found, expected)
        wrong = [f"exit {code}: {err}" for code, err in ends if code not in (0, 1)]
        if case.broken_from is None:
            wrong += [f"failed: {err}" for code, err in ends if code == 1]
        for code, err in ends:
            if code == 1 and (err.count("\n") != 1 or not err.startswith("poolcli: ")):
                wrong.append(f"not one line: {err}")
        finals = [path for path in found if path.startswith("y.zarr/")]
        if case.target == "file":
            wrong += [f"left {finals[:3]}"] if finals else []
            if case.way == "plain":
                wrong += [f"left {sorted(found)[:3]}"] if found else []
        else:
            half = [path for path in finals if path.rpartition("/")[2] in MARKERS and "/" not in path[len("y.zarr/") :]]
            wrong += [f"a store without its chunks: {half}"] if half else []
        return wrong


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def _difference(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
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
            totals["wrong" if found["wrong"] else "failed as told" if any(found["codes"]) else "right"] += 1
            faults.update(found["faults"])
        soak.server.stop()
    print(f"{sum(totals.values())} runs: {dict(totals)}; {sum(faults.values())} faults: {dict(faults)}")
    sys.exit(bool(totals["wrong"]))


if __name__ == "__main__":
    main()
