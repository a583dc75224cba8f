"""Inputs that change or shrink while they are read."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.cli.bad_files import POOL, X
from tests.conftest import Cli


def test_an_input_that_changes_while_it_is_read_is_refused(
    cli: Cli, here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from poolcli.formats import npy

    np.save("x.npy", X)
    read = npy.UncompressedReader.read

    def changing(self: npy.UncompressedReader, region: object) -> object:
        found = read(self, region)  # type: ignore[arg-type]
        os.utime("x.npy", ns=(1, 1))
        return found

    monkeypatch.setattr(npy.UncompressedReader, "read", changing)
    assert cli("avg", "x.npy", *POOL, "-q").code == 1
    assert os.listdir() == ["x.npy"]


def test_a_file_that_shrinks_while_it_is_read_is_refused(cli: Cli, here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from poolcli.pooling import tiles

    np.save("x.npy", np.zeros((1, 1, 64, 64)))
    bytes_of_block = tiles.bytes_of_block

    def shrinking(*arguments: object) -> int:
        os.truncate("x.npy", 500)
        return bytes_of_block(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(tiles, "bytes_of_block", shrinking)
    result = cli("avg", "x.npy", *POOL, "-q")
    assert (result.code, result.err) == (1, "poolcli: x.npy: became shorter while it was being read\n")
    assert os.listdir() == ["x.npy"]
