"""Pyramids of stacks whose axes ImageJ or OME-XML name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Cli
from tests.pyramids import levels, multiscale, places, pooled, write_stack

tifffile = pytest.importorskip("tifffile", reason="the extra images is not installed: pip install tifffile")
X = np.random.default_rng(2).integers(0, 60_000, (2, 3, 4, 6, 8)).astype(np.uint16)  # t, c, z, y, x
UNITS: dict[str, Any] = {"t": {"unit": "second"}, "c": {}, **{name: {"unit": "micrometer"} for name in "zyx"}}
TYPES = {"t": "time", "c": "channel"}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(axes: str, program: str) -> Any:
    """`x.tif` with the axes of X that are named, in this order in an OME-TIFF; returns it in the order of X."""
    x = X[tuple(slice(None) if name in axes else 0 for name in "TCZYX")]
    own = "".join(name for name in "TCZYX" if name in axes)
    x = x.transpose([own.index(name) for name in axes])
    write_stack(x, axes, program)
    return x.transpose([axes.index(name) for name in own]), own.lower()


@pytest.mark.parametrize(
    ("axes", "program"),
    [("ZYX", "ImageJ"), ("TYX", "ImageJ"), ("CYX", "ImageJ"), ("TZCYX", "ImageJ"), ("YX", "ImageJ"),
     ("ZYX", "OME"), ("CZYX", "OME"), ("TZCYX", "OME"), ("CTZYX", "OME"), ("TYX", "OME")],
)  # fmt: skip
def test_a_stack_keeps_its_axes_distances_and_units(axes: str, program: str, cli: Cli) -> None:
    x, names = written(axes, program)
    result = cli("pyramid", "x.tif", "-o", "y.ome.zarr", "--levels", "2", "-q")
    assert (result.code, result.err) == (0, "")
    first, second = levels("y.ome.zarr")
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(second, pooled(x, tuple(1 if name in "tc" else 2 for name in names), "avg"))
    assert multiscale("y.ome.zarr")["axes"] == [
        {"name": name, "type": TYPES.get(name, "space"), **UNITS[name]} for name in names
    ]
    scale = [{"t": 3.0, "c": 1.0, "z": 2.5, "y": 0.2, "x": 0.1}[name] for name in names]
    assert list(places("y.ome.zarr")[0][0]) == pytest.approx(scale)


@pytest.mark.parametrize(("shape", "slices"), [((5, 6, 8), "ZYX"), ((5, 6, 8, 3), "ZYXC")])
def test_pages_of_which_nothing_is_said_become_t_with_a_note(cli: Cli, shape: tuple[int, ...], slices: str) -> None:
    tifffile.imwrite(
        "x.tif", np.zeros(shape, np.uint8), photometric="minisblack" if len(shape) < 4 else "rgb", metadata=None
    )
    command = ("pyramid", "x.tif", "-o", "y.zarr", "--levels", "2", "-n", "--json")
    found, named = cli(*command).json, cli(*command, "--layout", slices).json
    note = f"the file does not say what its pages are; they become t; for slices, use --layout {slices}"
    assert (found["output"]["axes"][0], found["notes"]) == ("t", [note])
    assert ("z" in named["output"]["axes"], named["notes"]) == (True, [])


def test_a_description_that_does_not_fit_the_pages_is_ignored(cli: Cli) -> None:
    x = X[0, 0]
    whole = 'SizeX="8" SizeY="6" SizeC="1" SizeT="1" SizeZ="5" DimensionOrder="XYZCT"><TiffData/>'
    for text in (
        f'<?xml version="1.0"?><OME><Image><Pixels {whole}</Pixels></Image></OME>',
        "<OME",
        "ImageJ=1\nslices=9",
    ):
        tifffile.imwrite("x.tif", x, photometric="minisblack", metadata=None, description=text)
        assert cli("pyramid", "x.tif", "-o", "y.ome.zarr", "--levels", "2", "-q", "--overwrite").code == 0
        assert [axis["name"] for axis in multiscale("y.ome.zarr")["axes"]] == ["t", "y", "x"]
