"""Inputs that change or shrink while they are read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.cli.bad_files import POOL, X


def test_an_input_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from poolcli.cli import run
    from poolcli.formats import npy

    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    read = npy.UncompressedReader.read

    def changing(self: npy.UncompressedReader, region: object) -> object:
        found = read(self, region)  # type: ignore[arg-type]
        os.utime("x.npy", ns=(1, 1))
        return found

    monkeypatch.setattr(npy.UncompressedReader, "read", changing)
    assert run(["avg", "x.npy", *POOL, "-q"]) == 1
    assert os.listdir() == ["x.npy"]


def test_a_file_that_shrinks_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from poolcli.cli import run
    from poolcli.pooling import tiles

    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((1, 1, 64, 64)))
    bytes_of_block = tiles.bytes_of_block

    def shrinking(*arguments: object) -> int:
        os.truncate("x.npy", 500)
        return bytes_of_block(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(tiles, "bytes_of_block", shrinking)
    assert run(["avg", "x.npy", *POOL, "-q"]) == 1
    assert capsys.readouterr().err == "poolcli: x.npy: became shorter while it was being read\n"
    assert os.listdir() == ["x.npy"]
