"""Where the elements of pyramids lie and how they are stored, by readers that nobody here wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from ome_zarr_models import open_ome_zarr

from poolcli.pooling.pyramid_plan import Request, levels_of
from tests.conftest import Cli
from tests.profiles import sized
from tests.pyramids import X, attributes, levels, multiscale, places, pooled, stored

pytestmark = pytest.mark.usefixtures("here")


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
