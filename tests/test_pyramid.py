"""The levels of pyramids, held against a slow definition."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.conftest import Cli
from tests.profiles import sized, slow
from tests.pyramids import REFERENCE, X, attributes, levels, multiscale, pooled, stored


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("op", "base"), [*product(REFERENCE, ("previous", "source"))][:: sized(3, 1)])
def test_every_level_is_what_the_definition_says(op: str, base: str, cli: Cli) -> None:
    x = X // 32 if op == "mode" else X
    stored("x.zarr", x, chunks=(4, 4, 4))
    run = ("pyramid", "x.zarr", "-o", "y.ome.zarr", "--levels", "4", "--op", op, "--from", base)
    assert cli(*run, "-q", "--max-memory", "100K").err == ""
    found = levels("y.ome.zarr")
    assert len(found) == 4
    np.testing.assert_array_equal(found[0], x)
    for number in (1, 2, 3):
        before, kernel = (found[number - 1], 2) if base == "previous" else (x, 2**number)
        np.testing.assert_array_equal(found[number], pooled(before, (kernel,) * 3, op))


@pytest.mark.parametrize("shards", [slow(None), (4, 16, 16)])
@pytest.mark.parametrize("base", ["previous", "source"])
def test_blocks_that_do_not_fit_into_memory_change_no_bit(base: str, shards: Any, cli: Cli) -> None:
    x = np.random.default_rng(1).normal(size=(9, 30, 33)).astype(np.float32)
    stored("x.zarr", x, chunks=(4, 8, 8), shards=shards)
    run = ("pyramid", "x.zarr", "--levels", "5", "-k", "1,2,3", "--from", base, "-q")
    assert cli(*run, "-o", "whole.ome.zarr").err == ""
    assert cli(*run, "-o", "parts.ome.zarr", "--max-memory", "60K").err == ""
    for whole, parts in zip(levels("whole.ome.zarr"), levels("parts.ome.zarr"), strict=True):
        np.testing.assert_array_equal(whole, parts)
    assert [found.shape for found in levels("whole.ome.zarr")][-1] == (9, 2, 2)


def test_every_input_gives_the_same_levels(cli: Cli) -> None:
    tifffile = pytest.importorskip("tifffile", reason="the extra images is not installed: pip install tifffile")
    stored("x.zarr", X)
    np.save("x.npy", X)
    tifffile.imwrite("x.tif", X)
    with h5py.File("x.h5", "w") as file:
        file["g/x"] = X
    for name in ("x.zarr", "x.npy", "x.h5:/g/x", "x.tif"):
        run = ("pyramid", name, "-o", "y.ome.zarr", "--levels", "3", "--overwrite", "-q", "--layout", "DHW")
        assert cli(*run).err == "", name
        found = levels("y.ome.zarr")
        np.testing.assert_array_equal(found[0], X)
        np.testing.assert_array_equal(found[1], pooled(X, (2, 2, 2), "avg"))
        np.testing.assert_array_equal(found[2], pooled(found[1], (2, 2, 2), "avg"))


def test_channels_come_before_space_and_colours_are_named(cli: Cli) -> None:
    from PIL import Image

    Image.fromarray(X[:, :, :3].copy()).save("x.png")
    assert cli("pyramid", "x.png", "-o", "y.ome.zarr", "--levels", "2", "-q").err == ""
    found = multiscale("y.ome.zarr")
    assert [(axis["name"], axis["type"]) for axis in found["axes"]] == [
        ("c", "channel"),
        ("y", "space"),
        ("x", "space"),
    ]
    first, second = levels("y.ome.zarr")
    np.testing.assert_array_equal(first, X[:, :, :3].transpose(2, 0, 1))
    assert second.shape == (3, 5, 6)
    channels = attributes("y.ome.zarr")["omero"]["channels"]
    assert [channel["color"] for channel in channels] == ["FF0000", "00FF00", "0000FF"]


def test_the_source_is_read_once(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from poolcli.formats.npy import UncompressedReader

    np.save("x.npy", X)
    seen = np.zeros(X.shape, int)
    read = UncompressedReader.read

    def counted(self: Any, region: Any) -> Any:
        seen[tuple(slice(span.start, span.stop) for span in region)] += 1
        return read(self, region)

    monkeypatch.setattr(UncompressedReader, "read", counted)
    assert cli("pyramid", "x.npy", "-o", "y.ome.zarr", "--levels", "4", "--chunks", "4", "-q").err == ""
    assert (seen == 1).all()
