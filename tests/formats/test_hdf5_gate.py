"""Every way by which an HDF5 file can reach outside: no other file is so much as opened, whatever is asked."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import poolcli
from tests.conftest import Cli
from tests.profiles import slow

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs inotify")

X = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
IN_OPEN = 0x20


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that nobody names, with an array and a scale in them."""
    monkeypatch.chdir(tmp_path)
    Path("outside").mkdir()
    with h5py.File("outside/other.h5", "w") as file:
        file.create_dataset("g/x", data=X, maxshape=(None, 1, 8, 8))
        file["scale"] = np.arange(8.0)
    Path("outside/raw").write_bytes(X.tobytes())


@contextmanager
def opened_files(folder: str) -> Iterator[list[str]]:
    """A list that holds, at the end, which files of a folder were opened meanwhile, by whatever process."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(handle, os.fsencode(folder), IN_OPEN) > 0
    found: list[str] = []
    try:
        yield found
        data = b""
        try:
            data = os.read(handle, 65_536)
        except BlockingIOError:
            return
        while data:
            length = int.from_bytes(data[12:16], sys.byteorder)
            found.append(data[16 : 16 + length].rstrip(b"\0").decode())
            data = data[16 + length :]
    finally:
        os.close(handle)


def test_the_check_sees_a_file_that_is_opened() -> None:
    with opened_files("outside") as found:
        Path("outside/raw").read_bytes()
    assert found == ["raw"]


def virtual(file: Any, name: str, source: str, shape: tuple[int, ...], kind: str) -> None:
    layout = h5py.VirtualLayout(shape, kind)
    layout[...] = h5py.VirtualSource("outside/other.h5", source, shape)
    file.create_virtual_dataset(name, layout)


def unlimited_virtual(file: Any) -> None:
    """Its source is opened by HDF5 as soon as its shape is asked for."""
    space = h5py.h5s.create_simple(X.shape, (h5py.h5s.UNLIMITED, 1, 8, 8))
    space.select_hyperslab((0, 0, 0, 0), (1, 1, 1, 1), (1, 1, 8, 8), (h5py.h5s.UNLIMITED, 1, 8, 8))
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_virtual(space, b"outside/other.h5", b"/g/x", space)
    h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, properties)


def links(file: Any, *hops: tuple[str, Any]) -> None:
    for name, link in hops:
        file[name] = link


def with_scale(file: Any, make: Callable[[Any, str], object]) -> None:
    """An array whose last axis has a scale that `make` makes."""
    file["x"] = X
    make(file, "scale")
    h5py.h5ds.set_scale(file["scale"].id)
    h5py.h5ds.attach_scale(file["x"].id, file["scale"].id, 3)


OTHER, GROUP = h5py.ExternalLink("outside/other.h5", "/g/x"), h5py.ExternalLink("outside/other.h5", "/g")
FILES: dict[str, tuple[Callable[[Any], object], str, str]] = {
    "external link": (lambda file: links(file, ("x", OTHER)), "/x", "is a link to the file"),
    "soft links in three hops": (
        lambda file: links(
            file, ("a/far", OTHER), ("b", h5py.SoftLink("a/far")), ("c", h5py.SoftLink("/b")), ("x", h5py.SoftLink("c"))
        ),
        "/x",
        "is a link to the file",
    ),
    "group elsewhere": (lambda file: links(file, ("far", GROUP)), "/far/x", "is a link to the file"),
    "soft link to a group elsewhere": (lambda file: links(file, ("far", GROUP), ("near", h5py.SoftLink("far"))),
        "/near/./x", "is a link to the file"),
    "virtual dataset": (lambda file: virtual(file, "x", "/g/x", X.shape, "f4"), "/x", "is a virtual dataset"),
    "unlimited virtual dataset": (unlimited_virtual, "/x", "is a virtual dataset"),
    "external storage": (lambda file: file.create_dataset("x", X.shape, "f4", external=[("outside/raw", 0, X.nbytes)]),
        "/x", "keeps its data in other files (outside/raw)"),
    "scale in external storage": (
        lambda file: with_scale(
            file, lambda f, name: f.create_dataset(name, (8,), "f8", external=[("outside/raw", 0, 64)])
        ),
        "/x",
        "keeps its data in other files (outside/raw)",
    ),
    "virtual scale": (lambda file: with_scale(file, lambda f, name: virtual(f, name, "/scale", (8,), "f8")), "/x",
        "is a virtual dataset"),
}  # fmt: skip


@pytest.mark.parametrize("name", [name if number % 3 == 0 else slow(name) for number, name in enumerate(FILES)])
def test_no_file_is_opened_that_was_not_named(name: str, cli: Cli) -> None:
    make, key, message = FILES[name]
    with h5py.File("x.h5", "w") as file:
        make(file)
    halve = ("-k", "2", "-s", "2")
    with opened_files("outside") as found:
        cli("info", "x.h5")
        cli("shape", "avg", f"x.h5:{key}", *halve)
        refused = [cli("avg", f"x.h5:{key}", "-o", output, *halve) for output in ("y.npy", "y.h5")]
        cli("avg", "x.h5", "-o", "y.h5", *halve)
        cli("avg", "x.h5", "-o", "y.h5", *halve, "--all")
    assert found == []
    assert sorted(os.listdir()) == ["outside", "x.h5"]
    for result in refused:
        assert result.code == 1
        assert message in result.err
        assert "; --allow-external " in result.err
    assert cli("avg", f"x.h5:{key}", "-o", "y.npy", *halve, "--allow-external", "-q").code == 0
    np.testing.assert_array_equal(np.load("y.npy")[0, 0], X[0, 0].reshape(4, 2, 4, 2).mean((1, 3)))


def test_files_are_opened_by_the_gate_and_what_writes_alone() -> None:
    package = Path(poolcli.__file__).parent
    calls = re.compile(r'[^"]h5py\.File\(')  # in a string it is what a message says
    found = {str(path.relative_to(package)) for path in package.rglob("*.py") if calls.search(path.read_text())}
    assert found == {"formats/hdf5/gate.py", "formats/hdf5/write.py"}


def test_a_link_that_leads_in_circles_is_refused(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        links(file, ("a", h5py.SoftLink("/b")), ("b", h5py.SoftLink("a")))
    result = cli("avg", "x.h5:/a", "-o", "y.npy", "-k", "2")
    assert (result.code, result.err) == (1, "poolcli: x.h5:/a: is a circular link\n")
