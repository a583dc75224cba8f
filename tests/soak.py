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
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
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
    "avg3": ("avg", "-k", "3", "-s", "2", "-p", "1", "--layout", "DHW", "--max-memory", "4M"),
    "max": ("max", "-k", "2", "-s", "2", "--layout", "DHW"),
    "pyramid": ("pyramid", "--levels", "3"),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "v2": {"zarr_format": 2, "chunks": (8, 8, 8), "dtype": "uint8"},
    "v3": {"chunks": (8, 8, 8), "dimension_names": ("z", "y", "x"), "dtype": "uint16"},
    "shards": {"chunks": (4, 8, 8), "shards": (8, 16, 16), "dimension_names": ("z", "y", "x"), "dtype": "float32"},
}
WAYS = {"plain": (), "resume": ("--resume",), "cluster": ("--cluster", "local:2")}
S3, FILE = "s3://bucket/out/y.zarr", "out/y.zarr"
ROOTS = ("y.zarr/zarr.json", "y.zarr/.zarray", "y.zarr/.zgroup")


class Faulty:
    """A WSGI application in front of a store. While `rng` is set, one request in about `every` begins a burst of up to
    `burst` faults, and all requests from number `broken_from` on fail.
    """

    def __init__(self, app: Any) -> None:
        self._app, self._lock = app, Lock()
        self.begin(None)

    def begin(self, rng: Random | None, every: int = 1, burst: int = 1, broken_from: float = 0) -> None:
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
            broken = self.requests >= self.broken_from
            if not self.left and self.rng.randrange(self.every) == 0:
                self.left = self.rng.randint(1, self.burst)
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


class Soak:
    """The server, with a store of each layout, and the folder of all runs."""

    def __init__(self, folder: Path) -> None:
        import numpy as np
        import zarr
        from moto.server import ThreadedMotoServer

        self.folder = folder
        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
        self.server: Any = ThreadedMotoServer("127.0.0.1", port=0)
        self.server.start()
        inner: Any = self.server._server
        host, port = self.server.get_host_and_port()
        self.faults = inner.app = Faulty(inner.app)
        keys = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nobody", "AWS_DEFAULT_REGION": "us-east-1"}
        os.environ.update(keys | {"AWS_ENDPOINT_URL": f"http://{host}:{port}"})
        self.s3: Any = import_module("boto3").client("s3")
        self.s3.create_bucket(Bucket="bucket")
        for name, how in LAYOUTS.items():
            array: Any = zarr.create_array(f"s3://bucket/{name}.zarr", shape=(40, 48, 56), **how)
            array[:] = (np.random.default_rng(0).random(array.shape) * 250).astype(array.dtype)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Starts poolcli, in a group of its own; SIGABRT has it print where it is."""
        command = [sys.executable, "-X", "faulthandler", "-m", "poolcli", *words, "-q"]
        return subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def end(self, run: subprocess.Popen[str]) -> tuple[int, str]:
        """The exit code of a run and what it said; one that hangs says where."""
        try:
            said = run.communicate(timeout=TOO_LONG)[1]
            return run.returncode, said
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGABRT)
            time.sleep(10)
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            return 999, "HANG\n" + run.communicate()[1]

    def output(self, target: str) -> dict[str, Any]:
        """What is at the output, fetched from S3 into a folder, and decoded; empties the place."""
        with TemporaryDirectory(dir=self.folder) as place:
            folder = Path(place)
            if target != S3 and (self.folder / "out").exists():
                folder = (self.folder / "out").rename(folder / "out")
            for entry in self.s3.list_objects_v2(Bucket="bucket", Prefix="out/").get("Contents", ()):
                path = folder / entry["Key"].removeprefix("out/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.s3.get_object(Bucket="bucket", Key=entry["Key"])["Body"].read())
                self.s3.delete_object(Bucket="bucket", Key=entry["Key"])
            return decoded(folder)

    def run(self, seed: int) -> dict[str, Any]:
        """Runs the case that a seed chooses, and says what came of it; `wrong` is empty if all is right."""
        rng = Random(seed)  # noqa: S311
        operator, layout, way = rng.choice(list(OPERATORS)), rng.choice(list(LAYOUTS)), rng.choice(list(WAYS))
        source, target = f"s3://bucket/{layout}.zarr", rng.choice((S3, FILE))
        words = (*OPERATORS[operator], source, "-o")
        begun = time.monotonic()
        if self.end(self.start(*words, FILE, "--overwrite"))[0]:
            raise SystemExit(f"{words}: fails without any fault")
        seconds, expected = time.monotonic() - begun, self.output(FILE)
        broken_from = 10 ** rng.uniform(0.5, 2.8) if rng.random() < 0.12 else float("inf")
        self.faults.begin(rng, rng.randint(9, 60), rng.choice((1, 1, 1, 3, 6)), broken_from)
        for _ in range(rng.randint(1, 3) if way == "resume" else 0):  # runs that are killed
            run = self.start(*words, target, *WAYS[way])
            with suppress(subprocess.TimeoutExpired):
                run.wait(rng.uniform(0.3, 3) * seconds)
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
        code, said = self.end(self.start(*words, target, *WAYS[way]))
        counts = dict(self.faults.counts)
        self.faults.begin(None)
        found = self.output(target)
        if code == 1 and broken_from < float("inf"):
            is_right = said.startswith("poolcli: ") and said.count("\n") == 1 and found.keys().isdisjoint(ROOTS)
        else:
            is_right = (code, said, found) == (0, "", expected)
        return {"seed": seed, "words": [*words, target, *WAYS[way]], "code": code, "said": said, "faults": counts} | (
            {} if is_right else {"wrong": [name for name in expected if found.get(name) != expected[name]] or "more"}
        )


def main() -> None:
    """Runs the seeds, prints a line for each, and ends with exit code 1 if any run was wrong."""
    parser = argparse.ArgumentParser(description="runs of poolcli against an object store that fails now and then")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        soak, wrong = Soak(Path(folder)), 0
        for seed in range(asked.seed, asked.seed + asked.runs):
            found = soak.run(seed)
            print(json.dumps(found), flush=True)
            wrong += "wrong" in found
        soak.server.stop()
    print(f"{asked.runs} runs, {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
