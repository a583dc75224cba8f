"""Runs that make pyramids: stopped ones go on, what cannot be is refused, and a dry run reads headers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolcli.formats.zarr.write import ZarrWriter
from poolcli.system.signals import Stopped
from tests.conftest import Cli
from tests.pyramids import X, levels, places, pooled, stored

pytestmark = pytest.mark.usefixtures("here")


def test_a_run_that_was_stopped_goes_on(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    stored("x.zarr", X, chunks=(4, 4, 4))
    run = ("pyramid", "x.zarr", "--levels", "3", "--max-memory", "2K")
    assert cli(*run, "-o", "whole.ome.zarr", "-q").err == ""
    written: list[Any] = []
    own = ZarrWriter.__call__

    def stopping(limit: int) -> Callable[..., None]:
        def call(self: ZarrWriter, region: Any, array: Any) -> None:
            if len(written) >= limit:  # two threads write
                raise Stopped(130, "interrupted")
            own(self, region, array)
            written.append((self.array.path, region))

        return call

    for limit in (3, 7):
        monkeypatch.setattr(ZarrWriter, "__call__", stopping(limit))
        with pytest.raises(Stopped):
            cli(*run, "-o", "y.ome.zarr", "--resume", "-q")
        assert not Path("y.ome.zarr").exists()
    monkeypatch.setattr(ZarrWriter, "__call__", stopping(math.inf))  # type: ignore[arg-type]
    assert cli(*run, "-o", "y.ome.zarr", "--resume", "-q").err == ""
    assert len(written) == len(set(written))
    for whole, parts in zip(levels("whole.ome.zarr"), levels("y.ome.zarr"), strict=True):
        np.testing.assert_array_equal(whole, parts)
    before = Path("y.ome.zarr/zarr.json").stat().st_mtime_ns
    assert cli(*run, "-o", "y.ome.zarr", "--resume").out.endswith("made from this input\n")
    assert Path("y.ome.zarr/zarr.json").stat().st_mtime_ns == before
    assert sorted(path.name for path in Path().iterdir()) == ["whole.ome.zarr", "x.zarr", "y.ome.zarr"]


@pytest.mark.parametrize(
    ("shape", "names", "other"),
    [
        ((8, 9), "y,x", "XY"),
        ((3, 8, 9), "z,y,x", "YXC"),
        ((3, 4, 8, 9), "t,c,y,x", "CZYX"),
        ((1, 3, 4, 8, 9), "t,c,z,y,x", "TZYXC"),
    ],
)
def test_a_layout_is_proposed_that_the_input_can_have(cli: Cli, shape: tuple[int, ...], names: str, other: str) -> None:
    np.save("x.npy", np.zeros(shape, np.uint8))
    command = ("pyramid", "x.npy", "-o", "y.ome.zarr", "--levels", "1", "--json")
    (note,) = cli(*command).json["notes"]
    use = f"use --layout, such as --layout {other}"
    assert note == f"assuming axes {names}; if they are others, {use}"
    assert cli(*command, "--overwrite", "--layout", other).json["notes"] == []


@pytest.mark.parametrize(
    ("layout", "names"),
    [("YX", "yx"), ("ZYX", "zyx"), ("CYX", "cyx"), ("TYX", "tyx"), ("ZYXC", "czyx"), ("TCZYX", "tczyx")],
)
def test_axes_are_named_by_the_letters_of_ome_zarr(cli: Cli, layout: str, names: str) -> None:
    np.save("x.npy", np.zeros((2, 3, 4, 5, 6)[-len(layout) :], np.uint8))
    scale = ",".join(f"{name}={number}" for number, name in enumerate(names, 2) if name in "zyx")
    document = cli(
        "pyramid", "x.npy", "-o", "y.zarr", "--layout", layout, "--scale", scale, "--levels", "1", "-n", "--json"
    )
    assert document.json["output"]["axes"] == list(names)
    assert document.json["levels"][0]["scale"] == [n if name in "zyx" else 1 for n, name in enumerate(names, 2)]


def test_a_pyramid_of_one_level_that_nobody_asked_for_is_a_note(cli: Cli) -> None:
    np.save("x.npy", np.zeros((256, 2), np.uint8))
    np.save("large.npy", np.zeros((257, 2), np.uint8))
    note = "one level: no pooled axis exceeds 256; for two, use --levels 2"
    for name, more, expected in (
        ("x.npy", (), [note]), ("x.npy", ("--chunks", "64"), [note]), ("x.npy", ("--levels", "1"), []),
        ("x.npy", ("--factors", "y=2"), []), ("large.npy", (), []),
    ):  # fmt: skip
        assert cli("pyramid", name, "-o", "y.zarr", "--layout", "YX", "-n", "--json", *more).json["notes"] == expected


def test_factors_from_the_source_count_from_there(cli: Cli) -> None:
    x = np.random.default_rng(0).integers(0, 60_000, (120, 50)).astype(np.uint16)
    np.save("x.npy", x)
    asked = ("--factors", "y=2,x=2;y=3,x=3;y=4,x=60", "--factors-from", "source")
    assert cli("pyramid", "x.npy", "-o", "y.zarr", "--layout", "YX", *asked, "-q").err == ""
    found = levels("y.zarr")
    assert [len(level) for level in found] == [120, 60, 40, 30]
    for level, kernel in zip(found[1:], ((2, 2), (3, 3), (4, 3)), strict=True):  # 60 is longer than the axis
        np.testing.assert_array_equal(level, pooled(x, kernel, "avg"))
    assert [tuple(scale) for scale, _ in places("y.zarr")] == [(1, 1), (2, 2), (3, 3), (4, 3)]


def test_a_dry_run_reads_headers_and_the_report_is_json(cli: Cli) -> None:
    stored("x.zarr", X, chunks=(4, 4, 4))
    for chunk in Path("x.zarr/c").rglob("?"):
        if chunk.is_file():
            chunk.write_bytes(b"no chunk at all")
    result = cli("pyramid", "x.zarr", "-o", "y.ome.zarr", "--levels", "2", "--json", "--dry-run")
    assert result.json == {
        "schema_version": 1,
        "input": {"path": "x.zarr", "dataset": None, "shape": [9, 11, 14], "dtype": "uint8", "layout": "DHW"},
        "output": {"path": "y.ome.zarr", "layout": "DHW", "axes": ["z", "y", "x"]},
        "levels": [
            {"path": "0", "shape": [9, 11, 14], "scale": [1, 1, 1], "translation": [0, 0, 0]},
            {"path": "1", "shape": [5, 6, 7], "scale": [2, 2, 2], "translation": [0.5, 0.5, 0.5]},
        ],
        "units": {},
        "chunks": [4, 4, 4],
        "shards": None,
        "notes": [],
        "images": None,
        "engine": None,
        "seconds": None,
        "error": None,
    }
    assert not Path("y.ome.zarr").exists()
    assert json.loads(Path("x.zarr/zarr.json").read_text())["shape"] == [9, 11, 14]
