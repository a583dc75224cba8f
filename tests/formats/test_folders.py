"""A format that is a folder is one input and one output, for every command; it is added as one row of the table."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from poolcli.formats import FORMATS, Source, WriteOptions, read
from poolcli.formats.atomic import remove
from tests.cli.folders import counts
from tests.conftest import Cli
from tests.formats import toy
from tests.formats.arrays import write

HALVE = ("-k", "2", "-s", "2")
X = np.arange(2 * 3 * 8 * 10, dtype=np.float32).reshape(2, 3, 8, 10)
HALF = X.reshape(2, 3, 4, 2, 5, 2).mean((3, 5), dtype=np.float32)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(FORMATS, "toy", toy.ROW)
    write("x.toy", X, "NCHW")


def test_a_folder_is_pooled_into_a_folder(cli: Cli) -> None:
    assert cli("avg", "x.toy", "-o", "out.toy", *HALVE, "-q").code == 0
    np.testing.assert_array_equal(read(Source("out.toy")).array, HALF)
    assert sorted(os.listdir()) == ["out.toy", "x.toy"]
    assert cli("info", "x.toy").out == "x.toy: toy\narray  shape             dtype\n-      N=2 C=3 H=8 W=10  float32\n"


@pytest.mark.parametrize("slash", ["", "/"])
def test_an_output_that_exists_is_refused_or_replaced(slash: str, cli: Cli) -> None:
    write("out.toy", X[:1], "NCHW")
    result = cli("avg", "x.toy", "-o", "out.toy" + slash, *HALVE)
    assert (result.code, result.err.startswith("poolcli: out.toy")) == (2, True)
    assert "exists; use --overwrite, or another --output" in result.err
    assert cli("avg", "x.toy", "-o", "out.toy" + slash, *HALVE, "--overwrite", "-q").code == 0
    np.testing.assert_array_equal(read(Source("out.toy")).array, HALF)
    assert sorted(os.listdir()) == ["out.toy", "x.toy"]


@pytest.mark.parametrize("text", ["in", "in/**", "in/*.toy", "in/**/*.*"])
def test_among_several_inputs_it_is_one_and_nothing_in_it_is_another(text: str, cli: Cli) -> None:
    os.mkdir("in")
    os.rename("x.toy", "in/x.toy")
    result = cli("avg", text, "-o", "out/", *(["-r"] if text == "in" else []), *HALVE)
    assert (counts(result), result.err) == ("1 done, 0 skipped, 0 failed", "")
    np.testing.assert_array_equal(read(Source("out/x.toy")).array, HALF)


def test_a_folder_run_is_resumed_and_sees_what_changed(cli: Cli) -> None:
    os.mkdir("in")
    os.rename("x.toy", "in/x.toy")
    write("in/y.npy", X, "NCHW")
    run = ("avg", "in", "-o", "out/", *HALVE, "--resume")
    assert counts(cli(*run)) == "2 done, 0 skipped, 0 failed"
    assert counts(cli(*run)) == "0 done, 2 skipped, 0 failed"
    np.save("out/x.toy/0.0.0.0.npy", np.zeros((2, 3, 3, 3), np.float32))
    assert counts(cli(*run)) == "1 done, 1 skipped, 0 failed"
    np.testing.assert_array_equal(read(Source("out/x.toy")).array, HALF)
    np.save("in/x.toy/0.0.0.0.npy", np.full((2, 3, 3, 3), 7, np.float32))
    assert counts(cli(*run)) == "1 done, 1 skipped, 0 failed"
    assert read(Source("out/x.toy")).array[0, 0, 0, 0] == 7


def test_a_stopped_write_leaves_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(path: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("poolcli.formats.atomic.sync", stop)
    with pytest.raises(KeyboardInterrupt):
        write("x.toy", X[:1], "NCHW", options=WriteOptions(overwrite=True))
    np.testing.assert_array_equal(read(Source("x.toy")).array, X)
    assert os.listdir() == ["x.toy"]


def test_a_link_to_a_folder_is_removed_and_the_folder_stays(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.mkdir()
    (target / "precious").write_text("precious")
    link.symlink_to(target)
    remove(str(link))
    assert not link.is_symlink()
    assert (target / "precious").read_text() == "precious"
    remove(str(target))
    assert not target.exists()
