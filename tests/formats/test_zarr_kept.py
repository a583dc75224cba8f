"""Interrupted runs that write Zarr stores at URLs: what a later run may continue, and what it must not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from poolcli.formats.zarr.write import ZarrWriter
from poolcli.system.signals import Stopped
from tests.conftest import Cli
from tests.formats.stores import HALVE, X, halved, made, whole

OUT = "memory://kept/y.zarr"
AVG = ("avg", "x.zarr", *HALVE, "-q", "-o", OUT)
MAX = ("max", "x.zarr", *HALVE, "-q", "-o", OUT)


@pytest.fixture(autouse=True)
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty object store in memory, to which even small arrays are written in many regions."""
    for name in ("TILE_BYTES", "BLOCK_BYTES"):
        monkeypatch.setattr(f"poolcli.pooling.tiles.{name}", 1)
    monkeypatch.chdir(tmp_path)
    made("x.zarr", chunks=(3, 3, 3), dimension_names=("z", "y", "x"))
    found = fsspec.filesystem("memory")
    yield found
    if found.exists("/kept"):
        found.rm("/kept", recursive=True)


def interrupted(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, *words: str, regions: int = 3, error: BaseException | None = None
) -> None:
    """Runs a command that ends when it has written some regions."""
    own, left = ZarrWriter.__call__, [regions]

    def stopping(self: ZarrWriter, region: Any, array: Any) -> None:
        if not left[0]:
            raise error or Stopped(130, "interrupted")
        left[0] -= 1
        own(self, region, array)

    with monkeypatch.context() as patch:
        patch.setattr(ZarrWriter, "__call__", stopping)
        if error is None:
            with pytest.raises(Stopped):
                cli(*words)
        else:
            assert cli(*words).code == 1


@pytest.mark.parametrize("output", [OUT, "y.zarr"])
def test_a_run_is_continued(output: str, cli: Cli, monkeypatch: pytest.MonkeyPatch, system: Any) -> None:
    run = (*AVG[:-1], output, "--resume")
    interrupted(cli, monkeypatch, *run)
    files = system if output == OUT else fsspec.filesystem("file")
    (first,) = files.glob("/kept/y.zarr/c/0/0/0" if output == OUT else f"{Path.cwd()}/.*.kept.part/c/0/0/0")
    before = files.modified(first)
    assert output == OUT or not Path(output).exists()
    assert cli(*run).err == ""
    after = first if output == OUT else "y.zarr/c/0/0/0"
    assert files.modified(after) == before
    np.testing.assert_array_equal(whole(output), halved())


def test_a_run_is_not_continued_after_another_has_cleared_the_store(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(cli, monkeypatch, *AVG, "--resume")
    interrupted(cli, monkeypatch, *MAX, "--overwrite", regions=0)
    assert cli(*AVG, "--resume").err == ""
    np.testing.assert_array_equal(whole(OUT), halved())


def test_a_run_is_not_continued_in_the_store_that_another_has_made(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(cli, monkeypatch, *AVG, "--resume")
    assert cli(*MAX, "--overwrite").err == ""
    expected = whole(OUT)
    assert "memory://kept/y.zarr: exists; use --overwrite" in cli(*AVG, "--resume").err
    np.testing.assert_array_equal(whole(OUT), expected)


def test_nothing_is_continued_after_a_failure_that_could_not_be_cleaned_up(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, system: Any
) -> None:
    own = type(system).rm

    def half(self: Any, path: Any, recursive: bool = False, **how: Any) -> None:
        own(self, path, recursive=recursive, **how)
        raise OSError(5, "the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(type(system), "rm", half)
        interrupted(cli, monkeypatch, *AVG, "--resume", error=OSError(28, "No space left on device"))
    assert cli(*AVG, "--resume").err == ""
    np.testing.assert_array_equal(whole(OUT), halved())


def test_a_failure_that_cannot_be_cleaned_up_is_the_one_that_is_told(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, system: Any
) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise OSError(5, "no answer")

    with monkeypatch.context() as patch:

        def full(*_: Any) -> None:
            patch.setattr(type(system), "exists", gone)
            raise OSError(28, "No space left on device")

        patch.setattr(ZarrWriter, "__call__", full)
        result = cli(*AVG)
    assert result.err == "poolcli: x.zarr: No space left on device\n"


def test_a_store_whose_root_cannot_be_read_is_left_as_it_is(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, system: Any
) -> None:
    interrupted(cli, monkeypatch, *AVG, "--resume")
    before = system.find("/kept/y.zarr")

    def busy(*_: Any, **__: Any) -> None:
        raise OSError(16, "Please reduce your request rate.")

    with monkeypatch.context() as patch:
        patch.setattr(type(system), "cat_file", busy)
        result = cli(*AVG, "--resume")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "Please reduce your request rate" in result.err
    assert system.find("/kept/y.zarr") == before
    assert cli(*AVG, "--resume").err == ""
    np.testing.assert_array_equal(whole(OUT), halved())


def test_an_object_that_survives_a_deletion_ends_the_run(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, system: Any
) -> None:
    """S3 may refuse some objects of a bulk deletion, of which s3fs says nothing."""
    assert cli(*MAX).err == ""
    with monkeypatch.context() as patch:
        patch.setattr(type(system), "rm", lambda *_, **__: None)
        result = cli(*MAX, "--overwrite")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "objects in it cannot be removed" in result.err


def test_nothing_but_the_store_is_ever_in_its_place(cli: Cli, monkeypatch: pytest.MonkeyPatch, system: Any) -> None:
    interrupted(cli, monkeypatch, *AVG, "--resume")
    before = system.find("/kept/y.zarr")
    assert "poolcli_run" in json.loads(system.cat_file("/kept/y.zarr/zarr.json"))
    said = cli("info", OUT).err.rstrip()  # by the version of zarr
    assert said.endswith(("holds no Zarr array or group", "assert 'incomplete' in ('group', None)"))
    assert "exists; use --overwrite" in cli(*AVG).err
    assert cli(*AVG, "--resume").err == ""
    assert {*before} < {*system.find("/kept/y.zarr")}
    np.testing.assert_array_equal(whole(OUT), halved())


PYRAMID = ("pyramid", "x.zarr", "--levels", "2", "-o", OUT)


@pytest.mark.parametrize("words", [tuple(word for word in AVG if word != "-q"), PYRAMID], ids=["avg", "pyramid"])
def test_a_finished_store_is_left_as_it_is(words: tuple[str, ...], cli: Cli, system: Any) -> None:
    """As one on disk is."""
    assert cli(*words, "--resume").err == ""
    before = {name: (system.cat_file(name), system.modified(name)) for name in system.find("/kept")}
    again = cli(*words, "--resume")
    assert (again.code, again.err) == (0, "")
    local = [word.replace(OUT, "y.zarr") for word in words]
    assert cli(*local, "--resume").err == ""
    assert again.out.replace(OUT, "y.zarr") == cli(*local, "--resume").out
    assert {name: (system.cat_file(name), system.modified(name)) for name in system.find("/kept")} == before


@pytest.mark.parametrize("words", [AVG, PYRAMID], ids=["avg", "pyramid"])
@pytest.mark.parametrize("change", ["input", "options", "store"])
def test_a_finished_store_of_something_else_is_refused(words: tuple[str, ...], change: str, cli: Cli) -> None:
    assert cli(*words, "--resume").err == ""
    if change == "input":
        made("x.zarr", X + 1, chunks=(2, 2, 2), dimension_names=("z", "y", "x"), overwrite=True)
    elif change == "store":
        made(OUT, overwrite=True)
    elif words is AVG:
        words = MAX
    else:
        words = tuple(word.replace("2", "3") for word in words)
    again = cli(*words, "--resume")
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert f"{OUT}: exists; use --overwrite, or another --output" in again.err


def test_a_finished_store_that_was_removed_is_written_again(cli: Cli, system: Any) -> None:
    assert cli(*AVG, "--resume").err == ""
    system.rm("/kept/y.zarr", recursive=True)
    assert cli(*AVG, "--resume").err == ""
    np.testing.assert_array_equal(whole(OUT), halved())


@pytest.mark.parametrize("output", [OUT, "y.zarr"])
def test_a_run_is_not_continued_with_chunks_of_another_length(
    output: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less memory makes chunks shorter."""
    x = np.random.default_rng(0).integers(0, 255, (64, 32, 32)).astype(np.uint8)
    made("long.zarr", x, chunks=(32, 32, 32), dimension_names=("z", "y", "x"))
    run = ("avg", "long.zarr", *HALVE, "-q", "-o", output, "--engine", "numpy", "--resume", "--max-memory")
    interrupted(cli, monkeypatch, *run, "128K", regions=2)
    assert cli(*run, "64M").err == ""
    np.testing.assert_array_equal(whole(output), halved(x))
