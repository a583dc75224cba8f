"""A cluster of local processes lets nobody else in, and clusters elsewhere are named as Dask names them."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolcli import PoolError
from poolcli.runs.dask import connected

pytestmark = [pytest.mark.slow, pytest.mark.heavy]
psutil = pytest.importorskip("psutil", reason="needs the dependency group heavy")

WORDS = ("max", "in.npy", "-o", "out.npy", "-k", "2", "-s", "2", "--cluster")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of a local cluster; temporary files lie in a folder of their own."""
    before = tempfile.tempdir
    tempfile.tempdir = str(tmp_path_factory.mktemp("temporary"))
    try:
        with connected("local:2") as client:
            yield client
    finally:
        tempfile.tempdir = before


@pytest.fixture
def array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one array."""
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4))
    return tmp_path


def processes() -> list[Any]:
    """This process and all that it has started."""
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def listening() -> list[tuple[str, int]]:
    """Where the processes can be connected to."""
    found = [each for process in processes() for each in process.net_connections(kind="inet")]
    return [tuple(each.laddr) for each in found if each.status == psutil.CONN_LISTEN]


def foreign_context() -> ssl.SSLContext:
    """What a client has that made certificates for itself, in the same way."""
    import distributed

    context: ssl.SSLContext = distributed.Security.temporary().get_connection_args("client")["ssl_context"]
    context.verify_mode = ssl.CERT_NONE
    return context


def answer(place: tuple[str, int], context: ssl.SSLContext | None, sent: bytes) -> bytes:
    """What is said to somebody who connects; nothing where the connection is ended or fails."""
    try:
        with ExitStack() as stack:
            stream = stack.enter_context(socket.create_connection(place, timeout=10))
            if context is not None:
                stream = stack.enter_context(context.wrap_socket(stream))
            stream.sendall(sent)
            return stream.recv(1000)
    except (ssl.SSLError, ConnectionError):
        return b""


def is_own_alert(said: bytes) -> bool:
    """Whether an answer is nothing, or the alert of TLS that ends a connection."""
    return not said or said[0] == 21


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.0\r\n\r\n", b"GET /json/counts.json HTTP/1.0\r\n\r\n", bytes(64)])
def test_whoever_shows_no_certificate_of_the_run_is_refused_everywhere(cluster: Any, sent: bytes) -> None:
    bare = ssl.create_default_context()
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    places = listening()
    assert len(places) == 1 + 2 + 2  # the scheduler, and for each worker itself and what watches it
    assert {host for host, _ in places} == {"127.0.0.1"}
    for place in places:
        assert is_own_alert(answer(place, None, sent))
        assert answer(place, bare, sent) == b""
        assert answer(place, foreign_context(), sent) == b""
    assert cluster.submit(abs, -3).result() == 3


def test_nothing_is_left_of_a_cluster(array: Path) -> None:
    Path("temporary").mkdir()
    words = [sys.executable, "-m", "poolcli", *WORDS, "local:2"]
    with_folder = os.environ | {"TMPDIR": str(Path("temporary").resolve())}
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120, env=with_folder)
    assert done.stderr == ""
    assert list(Path("temporary").iterdir()) == []


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Dask's settings, as its environment names them, for one certificate of all roles."""
    import distributed

    folder = tmp_path_factory.mktemp("certificates")
    made = distributed.Security.temporary()
    (folder / "cert.pem").write_text(made.tls_client_cert)
    (folder / "key.pem").write_text(made.tls_client_key)
    roles = {f"{role}__{name}": name for role in ("CLIENT", "SCHEDULER", "WORKER") for name in ("CERT", "KEY")}
    files = {"CA_FILE": "cert.pem"} | {role: f"{name.lower()}.pem" for role, name in roles.items()}
    return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(folder / file) for name, file in files.items()}


@pytest.fixture(scope="module")
def remote(certificates: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The scheduler file of a cluster with TLS, as Dask's own commands start it."""
    folder = tmp_path_factory.mktemp("remote")
    file = folder / "scheduler.json"
    environment = os.environ | certificates | {"DASK_TEMPORARY_DIRECTORY": str(folder)}
    common = ["--scheduler-file", str(file), "--protocol", "tls", "--no-dashboard", "--host", "127.0.0.1"]
    commands = (["scheduler", *common, "--port", "0"], ["worker", *common, "--nthreads", "1"])
    started = []
    try:
        for command in commands:
            dask = [sys.executable, "-m", "dask", *command]
            started.append(subprocess.Popen(dask, env=environment, cwd=folder, stderr=subprocess.DEVNULL))
        while not file.exists():
            assert started[0].poll() is None
            time.sleep(0.05)
        yield file
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)


@pytest.mark.parametrize("way", ["address", "file"])
def test_clusters_elsewhere_are_named_as_dask_names_them(
    array: Path, remote: Path, certificates: dict[str, str], way: str
) -> None:
    address = json.loads(remote.read_text())["address"]
    assert address.startswith("tls://127.0.0.1:")
    word = address if way == "address" else str(remote)
    command = [sys.executable, "-m", "poolcli", *WORDS, word]
    done = subprocess.run(
        command, env=os.environ | certificates, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert np.load("out.npy").tolist() == [[[[5, 7], [13, 15]]]]


@pytest.mark.parametrize(
    ("word", "setting", "said"),
    [
        (
            "tls://127.0.0.1:9", {}, "tls://127.0.0.1:9: needs certificates; set distributed.comm.tls in Dask's "
            "configuration: DASK_DISTRIBUTED__COMM__TLS__CA_FILE and ..__CLIENT__CERT and ..__CLIENT__KEY",
        ),
        (
            "tcp://127.0.0.1:9", {"distributed.comm.require-encryption": True},
            "tcp://127.0.0.1:9: Dask's configuration requires encryption; name a tls:// address",
        ),
        (
            "tls://127.0.0.1:9",
            {"distributed.comm.tls.ca-file": "no.pem", "distributed.comm.tls.client.cert": "no.pem"},
            "tls://127.0.0.1:9: the certificates of Dask's configuration: [Errno 2] No such file or directory",
        ),
        (
            "no.json", {}, "no.json: No such file or directory; dask scheduler --scheduler-file no.json writes it",
        ),
        ("list.json", {}, "list.json: is not a scheduler file: it contains no scheduler address"),
        ("torn.json", {}, "torn.json: is not a scheduler file: it contains no scheduler address"),
    ],
    ids=["no certificates", "unencrypted", "no such certificates", "no file", "a list", "torn"],
)  # fmt: skip
def test_what_is_missing_to_reach_a_cluster_is_said(array: Path, word: str, setting: dict[str, Any], said: str) -> None:
    import dask

    Path("list.json").write_text("[1]")
    Path("torn.json").write_text('{"address": "tcp')
    with dask.config.set(setting), pytest.raises(PoolError) as refused, connected(word):
        pass
    assert str(refused.value) == said
