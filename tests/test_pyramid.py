"""The levels of pyramids, held against a slow definition, and those of stacks whose axes ImageJ or OME-XML name."""

from __future__ import annotations

from itertools import product
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile

from tests.conftest import Cli
from tests.profiles import sized, slow
from tests.pyramids import REFERENCE, X, attributes, levels, multiscale, places, pooled, stored, write_stack

pytestmark = pytest.mark.usefixtures("here")


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


STACK = np.random.default_rng(2).integers(0, 60_000, (2, 3, 4, 6, 8)).astype(np.uint16)  # t, c, z, y, x
UNITS: dict[str, Any] = {"t": {"unit": "second"}, "c": {}, **{name: {"unit": "micrometer"} for name in "zyx"}}
TYPES = {"t": "time", "c": "channel"}


def written(axes: str, program: str) -> Any:
    """`x.tif` with the axes of STACK that are named, in this order in an OME-TIFF; returns it in the order of STACK."""
    x = STACK[tuple(slice(None) if name in axes else 0 for name in "TCZYX")]
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
    x = STACK[0, 0]
    whole = 'SizeX="8" SizeY="6" SizeC="1" SizeT="1" SizeZ="5" DimensionOrder="XYZCT"><TiffData/>'
    for text in (
        f'<?xml version="1.0"?><OME><Image><Pixels {whole}</Pixels></Image></OME>',
        "<OME",
        "ImageJ=1\nslices=9",
    ):
        tifffile.imwrite("x.tif", x, photometric="minisblack", metadata=None, description=text)
        assert cli("pyramid", "x.tif", "-o", "y.ome.zarr", "--levels", "2", "-q", "--overwrite").code == 0
        assert [axis["name"] for axis in multiscale("y.ome.zarr")["axes"]] == ["t", "y", "x"]
