"""The levels of pyramids, held against a slow definition, their places, and those of stacks whose axes are named."""

from __future__ import annotations

from itertools import product
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile
import zarr
from hypothesis import given, settings, strategies as st
from ome_zarr_models import open_ome_zarr

from poolcli.pooling.pyramid_plan import Request, levels_of
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


@pytest.mark.parametrize(
    ("axes", "program"),
    [("ZYX", "ImageJ"), ("TYX", "ImageJ"), ("CYX", "ImageJ"), ("TZCYX", "ImageJ"), ("YX", "ImageJ"),
     ("ZYX", "OME"), ("CZYX", "OME"), ("TZCYX", "OME"), ("CTZYX", "OME"), ("TYX", "OME")],
)  # fmt: skip
def test_a_stack_keeps_its_axes_distances_and_units(axes: str, program: str, cli: Cli) -> None:
    x, names = write_stack(STACK, axes, program)
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
    note = f"the file does not say what pages are; they become t; for slices, use --layout {slices}"
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


@settings(max_examples=sized(25, 100), deadline=None)
@given(data=st.data())
def test_what_is_bright_has_the_same_place_on_every_level(data: Any) -> None:
    kernel = tuple(data.draw(st.integers(1, 4)) for _ in range(3))
    if max(kernel) < 2:
        kernel = (2, *kernel[1:])
    base = data.draw(st.sampled_from(["previous", "source"]))
    count = data.draw(st.integers(2, 3))
    step, origin = [2.0, 0.5, 1.25], [10.0, -3.0, 0.0]
    factors = [k ** (count - 1) for k in kernel]
    shape = tuple(f * data.draw(st.integers(1, 3)) + data.draw(st.integers(0, f)) for f in factors)
    found = levels_of(Request("avg", kernel, base, levels=count), shape, "float64", "DHW")
    corner = [f * data.draw(st.integers(0, n // f - 1)) for f, n in zip(factors, shape, strict=True)]
    x = np.zeros(shape)
    x[tuple(slice(at, at + f) for at, f in zip(corner, factors, strict=True))] = 1.0
    values, centres = [x], []
    for number, level in enumerate(found):
        if number:
            values.append(pooled(values[level.base], kernels(level.plan), "avg"))
        assert values[number].shape == level.shape
        weights, bright = values[number], np.argwhere(values[number] > 0)
        centre = np.average(bright, axis=0, weights=weights[weights > 0])
        centres.append(centre * level.scale(step) + level.translation(step, origin))
    np.testing.assert_allclose(centres, [centres[0]] * count, rtol=1e-12)


def kernels(plan: Any) -> tuple[int, ...]:
    return tuple(axis.windows.kernel for axis in plan.axes)


def test_scale_translation_and_units_are_in_the_metadata(cli: Cli) -> None:
    stored("x.zarr", np.stack([X, X]))
    run = ("pyramid", "x.zarr", "-o", "y.ome.zarr", "--levels", "3", "-k", "1,2,3")
    assert cli(*run, "--scale", "z=2,y=0.5,x=0.25", "--unit", "um", "-q").err == ""
    axes = [{"name": "c", "type": "channel"}]
    axes += [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    assert multiscale("y.ome.zarr")["axes"] == axes
    expected = [([1, 2, 0.5, 0.25], [0, 0, 0, 0]), ([1, 2, 1, 0.75], [0, 0, 0.25, 0.25])]
    expected += [([1, 2, 2, 2.25], [0, 0, 0.75, 1.0])]
    for (scale, translation), (steps, starts) in zip(places("y.ome.zarr"), expected, strict=True):
        np.testing.assert_array_equal(scale, steps)
        np.testing.assert_array_equal(translation, starts)


def test_an_axis_shorter_than_the_kernel_stays_as_it_is() -> None:
    found = levels_of(Request("max", (2,)), (3, 40, 9), "uint8", "DHW", smallest=4)
    assert [level.shape for level in found] == [(3, 40, 9), (2, 20, 5), (1, 10, 3), (1, 5, 2), (1, 3, 1)]
    assert [level.factors for level in found][-2:] == [(4, 8, 8), (4, 16, 16)]


def test_a_pyramid_of_a_level_keeps_what_the_level_says_of_itself(cli: Cli) -> None:
    stored("x.zarr", X, chunks=(4, 8, 8))
    scale = ("--scale", "z=3,y=2", "--unit", "nanometer")
    assert cli("pyramid", "x.zarr", "-o", "a.ome.zarr", "--levels", "3", *scale, "-q").err == ""
    own = {"channels": [{"color": "FF0000", "label": "mine"}]}
    group = zarr.open_group("a.ome.zarr")
    found: Any = group.attrs.asdict()
    found["ome"]["omero"] = own
    group.attrs.put(found)
    run = ("pyramid", "--levels", "2", "-q", "-k", "3")
    assert cli(*run, "a.ome.zarr", "-o", "b.ome.zarr").err == ""
    assert cli(*run, "a.ome.zarr:/1", "-o", "c.ome.zarr").err == ""
    np.testing.assert_array_equal(levels("b.ome.zarr")[0], X)
    np.testing.assert_array_equal(levels("c.ome.zarr")[0], levels("a.ome.zarr")[1])
    assert multiscale("c.ome.zarr")["axes"] == multiscale("a.ome.zarr")["axes"]
    old, new = places("a.ome.zarr")[1], places("c.ome.zarr")
    np.testing.assert_array_equal(new[0], old)
    np.testing.assert_array_equal(new[1], (old[0] * 3, old[1] + old[0]))
    assert attributes("c.ome.zarr")["omero"] == own
    assert zarr.open_array("b.ome.zarr/0", mode="r").chunks == (4, 8, 8)


@pytest.mark.parametrize("shape", [(30, 40), (3, 30, 40), (2, 3, 30, 41), (2, 3, 5, 31, 40)])
def test_ome_zarr_models_calls_it_valid(shape: tuple[int, ...], cli: Cli) -> None:
    layout = {2: "HW", 3: "CHW", 4: "CDHW", 5: "NCDHW"}[len(shape)]
    np.save("x.npy", np.zeros(shape, np.uint16))
    run = ("pyramid", "x.npy", "-o", "y.ome.zarr", "--levels", "3", "--layout", layout, "-q")
    assert cli(*run, "--unit", "micrometer").err == ""
    group: Any = open_ome_zarr(zarr.open_group("y.ome.zarr", mode="r"))
    found = group.attributes.ome.multiscales[0]
    assert [data.path for data in found.datasets] == ["0", "1", "2"]
    assert "".join(axis.name for axis in found.axes) == {"HW": "yx", "CHW": "cyx", "CDHW": "czyx"}.get(layout, "tczyx")


def test_codecs_of_zarr_2_become_zstd(cli: Cli) -> None:
    stored("x.zarr", X, zarr_format=2)
    assert cli("pyramid", "x.zarr", "-o", "y.ome.zarr", "--levels", "2", "--layout", "DHW", "-q").err == ""
    array: Any = zarr.open_array("y.ome.zarr/0", mode="r")
    assert [type(codec).__name__ for codec in array.compressors] == ["ZstdCodec"]
    np.testing.assert_array_equal(levels("y.ome.zarr")[0], X)
