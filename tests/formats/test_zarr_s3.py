"""Zarr stores in S3, of which one runs on the loopback: whole or not at all, and gone on with."""

from __future__ import annotations

import gc
import json
import signal
import socket
import struct
import subprocess
import sys
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import sleep
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest
import zarr

from poolcli import AvgPool
from tests.conftest import Cli
from tests.test_pyramid_stores import with_labels

pytestmark = [pytest.mark.slow, pytest.mark.heavy]
HALVE = ("-k", "2,2,2", "-s", "2")
X = np.random.default_rng(0).integers(0, 255, (20, 30, 40)).astype(np.uint8)
SECRET = "a secret that is nobody's"  # noqa: S105  # the server takes any


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """s3fs at an empty bucket of a server that ends with the test; the environment leads there."""
    import s3fs
    from moto.server import ThreadedMotoServer

    monkeypatch.chdir(tmp_path)
    s3fs.S3FileSystem.clear_instance_cache()  # of other tests, with settings of their own
    server = ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    settings = {"ENDPOINT_URL": f"http://{host}:{port}", "ACCESS_KEY_ID": "nobody", "SECRET_ACCESS_KEY": SECRET}
    for name, value in settings.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    try:
        urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()  # our own server
        system = s3fs.S3FileSystem(skip_instance_cache=True)
        system.mkdir("bucket")
        system.server = server._server
        yield system
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
        server.stop()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # s3fs leaves its connections to the collector
            del system
            gc.collect()


def stored(url: str, **how: Any) -> None:
    own = {"chunks": (10, 10, 10), "dimension_names": ("z", "y", "x")}
    array = zarr.create_array(url, shape=X.shape, dtype="u1", **{**own, **how})
    array[:] = X


def test_a_store_is_read_listed_and_written(cli: Cli, bucket: Any) -> None:
    stored("s3://bucket/x.zarr", name="a/b", shards=(20, 20, 20))
    assert cli("info", "s3://bucket/x.zarr").out.splitlines()[-1] == "/a/b   D=20 H=30 W=40  uint8"
    run = ("avg", "s3://bucket/x.zarr:/a/b", "-o", "s3://bucket/y.zarr", *HALVE, "-q")
    assert cli(*run).err == ""
    found = zarr.open_array("s3://bucket/y.zarr/a/b", mode="r")
    np.testing.assert_array_equal(found[:], AvgPool(2, strides=2)(X, layout="DHW"))
    assert found.shards == (10, 20, 20)  # no longer than the array
    again = cli(*run)
    assert (again.code, "exists" in again.err) == (2, True)
    assert cli("avg", "s3://bucket/nothing.zarr", "-o", "y.npy", *HALVE).err == (
        "poolcli: s3://bucket/nothing.zarr: holds no Zarr array or group\n"
    )
    assert cli("avg", "s3://other/x.zarr", "-o", "y.npy", *HALVE).code == 1


def written_from_now_on(bucket: Any) -> set[str]:
    """The objects below `y.zarr` that are written, added as they are."""
    written, own = set[str](), bucket.server.app

    def noting(environ: dict[str, Any], start: Any) -> Any:
        if environ["REQUEST_METHOD"] in ("PUT", "POST"):
            written.add(environ["PATH_INFO"].partition("/y.zarr/")[2])
        return own(environ, start)

    bucket.server.app = noting
    return written


RUN = """
import sys
from poolcli.__main__ import main
from poolcli.formats.zarr.write import ZarrWriter
from poolcli.pooling import tiles

tiles.TILE_BYTES = tiles.BLOCK_BYTES = 1  # so that small arrays are written in many regions
left, own = [int(sys.argv.pop(1))], ZarrWriter.__call__

def stopping(self, region, array):
    own(self, region, array)
    left[0] -= 1
    if not left[0]:
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)

ZarrWriter.__call__ = stopping
main()
"""


def killed_after(regions: int, *words: str) -> int:
    """The exit code of poolcli that is killed when it has written so many regions."""
    run = subprocess.run([sys.executable, "-c", RUN, str(regions), *words, "-q"], timeout=60, check=False)
    return run.returncode


@pytest.mark.parametrize(("regions", "words"), [(5, ("avg", *HALVE)), (6, ("pyramid", "--levels", "2"))])
def test_a_run_that_is_killed_is_resumed_with_the_same_bytes(
    words: tuple[str, ...], regions: int, cli: Cli, bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TILE_BYTES", "BLOCK_BYTES"):
        monkeypatch.setattr(f"poolcli.pooling.tiles.{name}", 1)
    if words[0] == "pyramid":
        with_labels("s3://bucket/x.zarr", "0.5")
    else:
        stored("s3://bucket/x.zarr", chunks=(8, 8, 8))

    def objects(folder: str) -> dict[str, str]:
        bucket.invalidate_cache()
        found = bucket.find(f"bucket/{folder}/y.zarr", detail=True)
        return {name.partition("/y.zarr/")[2]: about["ETag"] for name, about in found.items()}

    run = (words[0], "s3://bucket/x.zarr", *words[1:], "--max-memory", "30K", "--resume", "-o")
    assert cli(*run, "s3://bucket/whole/y.zarr", "-q").err == ""
    assert killed_after(regions, *run, "s3://bucket/cut/y.zarr") == -signal.SIGKILL
    before = set(objects("cut"))
    assert json.loads(bucket.cat_file("bucket/cut/y.zarr/zarr.json"))["node_type"] == "incomplete"  # it is no store yet
    assert before < set(objects("whole"))  # no object that the store will not have
    written = written_from_now_on(bucket)
    assert cli(*run, "s3://bucket/cut/y.zarr", "-q").err == ""
    assert objects("cut") == objects("whole")
    assert set(objects("cut")) - before <= written
    assert before - written


def test_faults_of_a_store_are_survived(cli: Cli, bucket: Any) -> None:
    """Every eleventh request is refused, reset, cut short or slow, in turn."""
    stored("s3://bucket/x.zarr", chunks=(8, 8, 8))
    server = bucket.server
    own, requests = server.app, count(1)

    def faulty(environ: dict[str, Any], start: Any) -> Any:
        number = next(requests)
        fault = number // 11 % 4 if number % 11 == 0 else None
        if fault == 0:
            start("503 Slow Down", [("Content-Length", "0")])
            return [b""]
        if fault == 1:
            sleep(1.0)
        if fault not in (2, 3):
            return own(environ, start)
        body = b"".join(own(environ, start)) if fault == 2 else b""
        return cut(environ["werkzeug.socket"], body[: len(body) // 2])

    def cut(connection: Any, body: bytes) -> Iterator[bytes]:
        if body:
            yield body
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # resets it
        connection.shutdown(socket.SHUT_RD)  # or else the server would wait for another request
        raise ConnectionResetError

    server.app = faulty
    assert cli("avg", "s3://bucket/x.zarr", "-o", "y.npy", *HALVE, "-q").err == ""
    np.testing.assert_array_equal(np.load("y.npy"), AvgPool(2, strides=2)(X, layout="DHW"))
    assert next(requests) > 60
