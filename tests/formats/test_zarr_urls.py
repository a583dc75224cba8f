"""Zarr stores behind URLs: in memory, in a zip file; secrets are shown nowhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import fsspec
import numpy as np
import pytest
import zarr

from poolcli.formats.zarr.write import ZarrWriter
from tests.conftest import Cli
from tests.formats.stores import HALVE, group, halved, made

pytestmark = pytest.mark.usefixtures("here")


def test_a_store_in_memory_is_read_and_written_at_its_url(cli: Cli) -> None:
    made("memory://in/x.zarr", key="a", dimension_names=("z", "y", "x"))
    run = ("avg", "memory://in/x.zarr:/a", "-o", "memory://out/y.zarr", *HALVE, "-q")
    assert cli(*run).err == ""
    np.testing.assert_array_equal(group("memory://out/y.zarr")["a"][:], halved())
    assert cli(*run).err == ("poolcli: memory://out/y.zarr exists; use --overwrite or --resume, or another --output\n")
    assert cli(*run, "--overwrite").err == ""
    assert cli("info", "memory://out/y.zarr").out.splitlines()[-1] == "/a     D=4 H=5 W=5  uint8"
    assert cli("avg", "memory://in/x.zarr", "-o", "memory://in/x.zarr", *HALVE, "--overwrite").code == 2
    assert cli("info", "memory://nowhere.zarr").err == (
        "poolcli: memory://nowhere.zarr: holds no Zarr array or group\n"
    )


def test_no_more_of_a_document_is_read_than_the_limit(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    made("memory://large/x.zarr", key="a")
    system = fsspec.filesystem("memory")
    system.pipe_file("/large/x.zarr/zarr.json", system.cat_file("/large/x.zarr/zarr.json") + b" " * 2**23)
    get, lengths = zarr.storage.FsspecStore.get, list[int]()

    async def seen(*words: Any, **options: Any) -> Any:
        found = await get(*words, **options)
        lengths.append(len(found or b""))
        return found

    monkeypatch.setattr(zarr.storage.FsspecStore, "get", seen)
    run = ("avg", "memory://large/x.zarr:/a", "-o", "y.npy", *HALVE, "--max-memory")
    result = cli(*run, "2M")
    assert (result.code, result.err) == (
        1, "poolcli: memory://large/x.zarr: zarr.json: has more than 512 KiB, the limit; raise --max-memory\n"
    )  # fmt: skip
    assert max(lengths) == 2**19 + 1
    assert cli(*run, "200M").code == 0
    system.pipe_file("/large/x.zarr/zarr.json", b"[" + b"{}," * 2**17 + b"0]")
    assert "zarr.json: 384 KiB of JSON, which may take 17.4 MiB of memory, but " in cli(*run, "2M").err


def test_a_write_to_a_url_that_fails_leaves_nothing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    made("x.zarr", dimension_names=("z", "y", "x"))
    seen: list[bool] = []

    def fail(self: Any, region: Any, array: Any) -> None:
        self.array[:] = 5
        seen.append(system.exists("/failed/y.zarr/zarr.json"))
        raise OSError(28, "No space left on device")

    system = fsspec.filesystem("memory")
    monkeypatch.setattr(ZarrWriter, "__call__", fail)
    result = cli("avg", "x.zarr", "-o", "memory://failed/y.zarr", *HALVE)
    assert (result.code, "No space left" in result.err) == (1, True)
    assert (seen, system.find("/failed")) == ([False], [])
    monkeypatch.setattr(ZarrWriter, "__call__", lambda self, region, array: 1 / 0)  # no fault of the store
    failed = cli("avg", "x.zarr", "-o", "memory://failed/y.zarr", *HALVE).err
    assert (
        failed
        == "poolcli: x.zarr: failed (unexpected ZeroDivisionError: division by zero; --debug shows the traceback)\n"
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://AKID:SECRET@bucket/x.zarr", "s3://...bucket/x.zarr"),
        ("https://host/x.zarr?token=SECRET", "https://host/x.zarr..."),
        ("zip://::https://me:SECRET@host/x.zarr.zip", "zip://::https://...host/x.zarr.zip"),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        ("info", "URL"), ("info", "URL", "--json"), ("avg", "URL", "-o", "y.npy", "-k", "2"),
        ("avg", "URL:/0", "-o", "y.npy", "-k", "2"), ("avg", "x.npy", "-o", "URL", "-k", "2"),
        ("pyramid", "URL", "-o", "y.zarr"), ("pyramid", "x.npy", "-o", "URL"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_secret_in_a_url_is_refused_and_shown_nowhere(
    url: str, shown: str, words: tuple[str, ...], folder: Path, cli: Cli
) -> None:
    result = cli(*(word.replace("URL", url) for word in words))
    assert "SECRET" not in result.out + result.err
    said = (
        "a URL must not contain secrets, because reports and logs show it; "
        "put them where the store's own tools look for credentials"
    )
    assert shown in result.err
    assert said in result.err


@pytest.mark.skipif(
    tuple(map(int, fsspec.__version__.split(".")[:2])) < (2026, 9),
    reason="fsspec before 2026.9 raises KeyError for what a zip file does not hold, which Zarr does not expect",
)
def test_a_store_in_a_zip_file_is_read_by_its_url(folder: Path, cli: Cli) -> None:
    zarr.open_group("s.zarr", mode="w")["a/b"] = np.arange(16).reshape(4, 4)
    for name, top in (("x.zarr.zip", "s.zarr"), ("y.zip", ".")):
        shutil.make_archive(name.removesuffix(".zip"), "zip", top, "." if top == "s.zarr" else "s.zarr")
        url = f"zip://{'' if top == 's.zarr' else 's.zarr'}::{name}"
        result = cli("info", name)
        assert (result.code, f"a Zarr store in it is zip://FOLDER::{name}" in result.err) == (1, True)
        assert cli("max", f"{url}:/a/b", "-o", "y.npy", "--overwrite", "--layout", "HW", "-k", "2", "-s", "2").code == 0
        assert np.load("y.npy").tolist() == [[5, 7], [13, 15]]
        assert "/a/b " in cli("info", url).out


OUTPUTS = {
    "npy": ("avg", "x.zarr", "-o", "{at}/y.npy", *HALVE),
    "a folder": ("avg", "in", "-o", "{at}/out/", *HALVE),
    "indices": ("max", "x.zarr", "-o", "y.npy", "--indices", "{at}/i.npy", *HALVE),
    "a picture": ("shape", "max", "1,1,8,8", "-k", "2", "--picture", "{at}/p.svg"),
    "a model": ("shape", "max", "1,1,8,8", "-k", "2", "--to", "onnx", "-o", "{at}/m.onnx"),
}


@pytest.mark.parametrize("words", OUTPUTS.values(), ids=OUTPUTS)
def test_files_are_not_written_into_folders_that_are_called_as_a_url_begins(words: tuple[str, ...], cli: Cli) -> None:
    made("x.zarr", dimension_names=("z", "y", "x"))
    Path("in").mkdir()
    np.save("in/x.npy", np.zeros((1, 1, 8, 8)))
    before = sorted(Path().iterdir())
    result = cli(*(word.format(at="memory://files") for word in words))
    assert result.code == 2
    assert ": only Zarr stores are written at URLs; name one, or write" in result.err
    assert sorted(Path().iterdir()) == before


def test_stores_in_a_list_keep_their_names_and_not_their_urls(cli: Cli) -> None:
    for name in ("a/x", "b/y"):
        made(f"memory://listed/{name}.zarr", dimension_names=("z", "y", "x"))
    Path("list.txt").write_text("memory://listed/a/x.zarr\nmemory://listed/b/y.zarr/\n")
    assert cli("avg", "--files-from", "list.txt", "-o", "out/", *HALVE, "-q").err == ""
    assert sorted(path.name for path in Path("out").glob("[!.]*")) == ["x.zarr", "y.zarr"]


class _Quiet(SimpleHTTPRequestHandler):
    """Logs nothing."""

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def serving(handler: type[_Quiet]) -> Iterator[str]:
    """The URL of a server of the current folder."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.heavy
def test_a_web_server_is_read_and_cannot_be_written_to(cli: Cli) -> None:
    made("x.zarr", key="a", dimension_names=("z", "y", "x"))
    with serving(_Quiet) as url:
        assert cli("avg", f"{url}/x.zarr/a", "-o", "y.npy", *HALVE, "-q").err == ""
        result = cli("avg", "x.zarr", "-o", f"{url}/y.zarr", *HALVE)
        assert cli("avg", f"{url}/nothing.zarr", "-o", "z.npy", *HALVE).err.count("\n") == 1
    np.testing.assert_array_equal(np.load("y.npy"), halved())
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert f"{url}/y.zarr: cannot be reached" in result.err
