"""TIFF stacks with three spatial axes, described by OME-XML, which tifffile and the reader understand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile

from tests.conftest import Cli
from tests.pyramids import MICROMETRES, multiscale, places, pooled, write_stack

pytestmark = pytest.mark.usefixtures("here")

X = np.random.default_rng(4).integers(0, 60_000, (2, 3, 8, 6, 10)).astype(np.uint16)  # t, c, z, y, x
POOL = ("avg", "-k", "2", "-s", "2,3,1", "--overwrite", "-q")


def read() -> tuple[str, Any, dict[str, Any]]:
    """The axes and pixels of `y.tif` as tifffile sees them, and what the OME-XML says of the pixels."""
    with tifffile.TiffFile("y.tif") as file:
        assert file.is_ome
        return file.series[0].axes, file.asarray(), tifffile.xml2dict(file.ome_metadata or "")["OME"]["Image"]["Pixels"]


@pytest.mark.parametrize(
    ("axes", "program", "layout"),
    [
        ("ZYX", "OME", "DHW"),
        ("CZYX", "OME", "CDHW"),
        ("TZCYX", "ImageJ", "NDCHW"),
        ("ZYX", "ImageJ", "dhw"),
        ("ZYX", "ImageJ", None),
        ("TZCYX", "ImageJ", None),
        ("CZYX", "OME", None),
    ],
)
def test_a_stack_is_pooled_in_three_axes_and_keeps_scaled_distances(
    axes: str, program: str, layout: str | None, cli: Cli
) -> None:
    x, own = write_stack(X, axes, program)
    named = ("--layout", layout) if layout else ()  # three strides are enough
    result = cli(*POOL, "-o", "y.tif", "x.tif", *named)
    assert (result.code, result.err) == (0, "")
    np.save("x.npy", x)
    names = "".join({"t": "N", "c": "C", "z": "D", "y": "H", "x": "W"}[name] for name in own)
    assert cli(*POOL, "-o", "y.npy", "x.npy", "--layout", names).code == 0
    found, pixels, said = read()
    assert found.lower() == own
    np.testing.assert_array_equal(pixels, np.load("y.npy"))
    steps = {"z": 5.0, "y": 0.6, "x": 0.1}
    assert {name: said[f"PhysicalSize{name.upper()}"] for name in steps} == pytest.approx(steps)
    assert {said[f"PhysicalSize{name.upper()}Unit"] for name in steps} == {"µm"}
    assert said.get("TimeIncrement") == (3.0 if "t" in own else None)
    before = Path("y.tif").read_bytes()
    assert cli(*POOL, "-o", "y.tif", "x.tif", *named).code == 0
    plan = json.loads(cli("shape", "avg", "x.tif", "-k", "2", "-s", "2,3,1", "--json").out)
    assert sorted(plan["output"]["shape"]) == sorted(pixels.shape)
    assert Path("y.tif").read_bytes() == before
    assert cli("pyramid", "y.tif", "-o", "y.ome.zarr", "--levels", "1", "-q").code == 0
    assert [axis["name"] for axis in multiscale("y.ome.zarr")["axes"]] == [*own]
    assert list(places("y.ome.zarr")[0][0]) == pytest.approx([{"t": 3.0, "c": 1.0, **steps}[name] for name in own])


@pytest.mark.parametrize(("axes", "program"), [("TZCYX", "ImageJ"), ("ZYX", "ImageJ"), ("CTZYX", "OME")])
def test_a_stack_that_is_pooled_page_by_page_keeps_its_axes(axes: str, program: str, cli: Cli) -> None:
    write_stack(X, axes, program)
    result = cli("avg", "x.tif", "-o", "y.tif", "-k", "2", "-s", "3,2", "--json")
    assert (result.code, "description" in result.out) == (0, False)
    found, pixels, said = read()
    assert found == axes
    whole = tifffile.imread("x.tif")
    wanted = np.stack([whole[..., 3 * i : 3 * i + 2, :].mean(-2) for i in range(2)], -2)
    np.testing.assert_array_equal(pixels, np.rint(wanted.reshape(*wanted.shape[:-1], 5, 2).mean(-1)))
    steps = {"Z": 2.5, "Y": 0.6, "X": 0.2}
    assert {name: said[f"PhysicalSize{name}"] for name in steps} == pytest.approx(steps)
    assert said.get("TimeIncrement") == (3.0 if "T" in axes else None)
    assert cli("avg", "x.tif", "-o", "z.tif", "-k", "2", "--pages", "1-2", "-q").code == 0
    with tifffile.TiffFile("z.tif") as file:
        assert (file.is_ome, len(file.pages)) == (False, 2)


def test_a_stack_in_a_format_without_axes_is_said(cli: Cli) -> None:
    tifffile.imwrite("x.tif", X[0, 0].astype(np.uint8), imagej=True, metadata={"axes": "ZYX"})
    assert "not kept: axes and distances of the stack\n" in cli("avg", "x.tif", "-o", "y.png", "-k", "2").out


@pytest.mark.parametrize(("unit", "name"), [("s", "second"), ("ms", "millisecond"), ("min", "minute"), ("d", "day")])
def test_units_of_time_are_kept(unit: str, name: str, cli: Cli) -> None:
    about = {"axes": "TZYX", **MICROMETRES, "TimeIncrement": 3.0, "TimeIncrementUnit": unit}
    tifffile.imwrite("x.tif", X[:, 0], ome=True, photometric="minisblack", metadata=about)
    for how in (("-k", "2", "--layout", "NDHW"), ("-k", "2")):
        assert cli("avg", "x.tif", "-o", "y.tif", *how, "--overwrite", "-q").code == 0
        said = read()[2]
        assert (said["TimeIncrement"], said.get("TimeIncrementUnit", "s")) == (3.0, unit)
    pytest.importorskip("zarr", reason="the extra zarr is not installed: pip install zarr")
    assert cli("pyramid", "x.tif", "-o", "x.ome.zarr", "--levels", "1", "-q").code == 0
    assert multiscale("x.ome.zarr")["axes"][0] == {"name": "t", "type": "time", "unit": name}
    assert places("x.ome.zarr")[0][0][0] == 3.0


def test_arrays_of_other_files_become_stacks(cli: Cli) -> None:
    with h5py.File("x.h5", "w") as file:
        file["x"] = X[0, 0].astype(np.float32)
    assert cli(*POOL, "-o", "y.tif", "x.h5", "--layout", "DHW").code == 0
    assert read()[0] == "ZYX"
    np.save("x.npy", X)
    assert cli(*POOL, "-o", "y.tif", "x.npy").code == 0
    assert read()[0] == "TCZYX"
    rgb = (X[0].transpose(1, 2, 3, 0) >> 8).astype(np.uint8)
    tifffile.imwrite("x.tif", rgb, photometric="rgb", description="cells <3> & {more}", metadata=None)
    assert cli("avg", "x.tif", "-k", "2", "-s", "2", "--layout", "DHWC", "-o", "y.tif", "--overwrite", "-q").code == 0
    axes, pixels, _ = read()
    assert axes == "ZYXS"
    with tifffile.TiffFile("y.tif") as file:
        assert tifffile.xml2dict(file.ome_metadata or "")["OME"]["Image"]["Description"] == "cells <3> & {more}"
    np.testing.assert_array_equal(pixels, pooled(rgb, (2, 2, 2, 1), "avg"))
    colours = np.stack([rgb[..., 0]] * 3, -1)
    np.save("x.npy", colours)
    frames = ("avg", "x.npy", "-k", "2", "-s", "2", "--layout", "DHWC")
    assert cli(*frames, "-o", "y.tif", "--overwrite", "-q").code == 0
    assert read()[0] == "ZYXS"
    np.testing.assert_array_equal(read()[1], pooled(colours, (2, 2, 2, 1), "avg"))
    assert "the result has DHWC; use .tif, .npy, .npz or .h5\n" in cli(*frames, "-o", "y.png").err


def test_scales_of_ome_zarr_become_physical_sizes(cli: Cli) -> None:
    pytest.importorskip("zarr", reason="the extra zarr is not installed: pip install zarr")
    np.save("x.npy", X[0, 0])
    scale = ("--layout", "DHW", "--scale", "z=2.5,y=0.2,x=0.1", "--unit", "nm")
    assert cli("pyramid", "x.npy", "-o", "x.ome.zarr", "--levels", "1", *scale).code == 0
    assert cli(*POOL, "-o", "y.tif", "x.ome.zarr:/0").code == 0
    said = read()[2]
    assert [said[f"PhysicalSize{name}"] for name in "ZYX"] == pytest.approx([5.0, 0.6, 0.1])
    assert said["PhysicalSizeZUnit"] == "nm"


def test_what_a_stack_cannot_hold_gets_one_line(cli: Cli) -> None:
    np.save("x.npy", np.zeros((1, 2, 3, 4, 5, 6), np.float32))
    np.save("half.npy", X[0, 0].astype(np.float16))
    write_stack(X, "TZCYX", "ImageJ")
    for name, layout, said in (
        (
            "x.npy",
            "NCEDHW",
            "tiff images have the axes N, C, D, H and W, but the result has NCEDHW; use .npy, .npz or .h5",
        ),
        ("half.npy", "DHW", "a stack in an OME-TIFF cannot have numbers of the type float16; use .npy, .npz or .h5"),
        ("x.tif", "NCDHW", "--layout NCDHW: the axes of the file are NDCHW; use --layout NDCHW"),
        ("x.tif", "DHW", "--layout DHW: the axes of the file are NDCHW; use --layout NDCHW"),
    ):
        result = cli("avg", name, "-k", "2", "--layout", layout, "-o", "y.tif")
        assert (result.code != 0, result.err.splitlines()) == (True, [f"poolcli: {name}: {said}"])
    tifffile.imwrite("x.tif", X[0, 0], imagej=True, resolution=(10, 5), metadata={"axes": "ZYX", "unit": "furlong"})
    result = cli("avg", "x.tif", "-k", "2", "--layout", "DHW", "-o", "y.tif", columns=200)
    assert "not kept: distances in furlong (OME-XML has no such unit)" in result.out + result.err
    assert "PhysicalSizeX" not in read()[2]
