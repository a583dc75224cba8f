"""Pyramids of images in larger stores, and what such images hold beside their levels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from ome_zarr_models import open_ome_zarr

from tests.conftest import Cli
from tests.pyramids import X, attributes, levels, places, pooled

pytestmark = pytest.mark.usefixtures("here")


def image(path: str, version: str, x: Any, own: dict[str, Any], beside: dict[str, Any]) -> None:
    """An image of one level; `own` are attributes of its group, `beside` what is written beside `multiscales`."""
    axes: list[dict[str, str]] = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    axes = [{"name": "c", "type": "channel"}, *axes][-x.ndim :]
    place = [{"type": "scale", "scale": [1, 4, 0.5, 0.5][-x.ndim :]}]
    scales = [{"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": place}], "name": "mine"}]
    if version == "0.5":
        attributes = {"ome": {"version": "0.5", "multiscales": scales, **beside}, **own}
    else:
        attributes = {"multiscales": [{"version": "0.4", **scales[0]}], **beside, **own}
    group = zarr.open_group(path, mode="w", zarr_format=3 if version == "0.5" else 2, attributes=attributes)
    named = {"dimension_names": [axis["name"] for axis in axes]}
    names = named if version == "0.5" else {"chunk_key_encoding": {"name": "v2", "separator": "/"}}
    group.create_array("0", shape=x.shape, dtype=x.dtype, chunks=(1, 4, 8, 8)[-x.ndim :], **names)[:] = x


@pytest.mark.parametrize("version", ["0.5", "0.4"])
def test_an_image_in_a_store_is_named_by_its_group(version: str, cli: Cli) -> None:
    zarr.open_group("x.zarr", mode="w", zarr_format=3 if version == "0.5" else 2)
    image("x.zarr/A/1/0", version, X, {}, {})
    for number, source in enumerate(("x.zarr:/A/1/0", "x.zarr/A/1/0", "x.zarr:/A/1/0/0")):
        assert cli("pyramid", source, "-o", f"{number}.zarr", "--levels", "2", "-q").err == ""
    first = levels("1.zarr")
    np.testing.assert_array_equal(first[0], X)
    np.testing.assert_array_equal(places("1.zarr")[1][0], [8, 1, 1])
    for number in (0, 2):
        np.testing.assert_array_equal(places(f"{number}.zarr"), places("1.zarr"))
        for found, expected in zip(levels(f"{number}.zarr"), first, strict=True):
            np.testing.assert_array_equal(found, expected)


OWN = {"microscope": {"lens": "63x"}, "taken": "2026-01-05"}
COLOURS = {"colors": [{"label-value": 1, "rgba": [255, 0, 0, 255]}], "source": {"image": "../../"}}


@pytest.mark.parametrize("version", ["0.5", "0.4"])
def test_own_attributes_are_carried_and_what_is_lost_is_named(version: str, cli: Cli) -> None:
    image("x.zarr", version, X, OWN, {"_creator": {"name": "me"}, "image-label": {**COLOURS, "version": version}})
    zarr.open_array("x.zarr/0").attrs["gain"] = 2.5
    run = ("pyramid", "x.zarr", "--levels", "2")
    said = cli(*run, "-o", "y.zarr", "--op", "mode").out
    kept = zarr.open_group("y.zarr", mode="r").attrs.asdict()
    assert {name: kept[name] for name in OWN} == OWN
    assert [zarr.open_array(f"y.zarr/{level}").attrs["gain"] for level in "01"] == [2.5, 2.5]
    assert ("_creator" in kept) == (version == "0.4")
    assert attributes("y.zarr")["image-label"] == {"colors": COLOURS["colors"]}
    assert ("not kept: _creator" in said) == (version == "0.5")
    assert "not kept: image-label, as means are not labels" in cli(*run, "-o", "z.zarr").out
    assert "image-label" not in attributes("z.zarr")
    open_ome_zarr(zarr.open_group("y.zarr", mode="r"))


def test_rendering_settings_have_no_version_of_their_own(cli: Cli) -> None:
    image("x.zarr", "0.4", X, {}, {"omero": {"channels": [], "version": "0.4"}})
    assert cli("pyramid", "x.zarr", "-o", "y.zarr", "--levels", "2", "-q").err == ""
    assert attributes("y.zarr")["omero"] == {"channels": []}


def with_labels(path: str, version: str, wrong: str = "absent") -> Any:
    """An image with labels of smaller chunks, and some that are listed only; returns the labels' elements."""
    cells = (X // 32).astype(np.uint32)
    image(path, version, X, {}, {})
    names: Any = {"labels": ["cells", wrong]}
    zarr.open_group(
        f"{path}/labels",
        mode="w",
        zarr_format=3 if version == "0.5" else 2,
        attributes=names if version == "0.4" else {"ome": {"version": version, **names}},
    )
    image(f"{path}/labels/cells", version, cells, OWN, {"image-label": {**COLOURS, "version": version}})
    return cells


@pytest.mark.parametrize("version", ["0.5", "0.4"])
def test_labels_are_pooled_with_mode_into_the_labels_of_the_output(version: str, cli: Cli) -> None:
    cells = with_labels("x.zarr/A", version)
    said = cli("pyramid", "x.zarr/A", "-o", "y.zarr", "--levels", "3", "--scale", "y=2").out
    for path, x, op in (("y.zarr", X, "avg"), ("y.zarr/labels/cells", cells, "mode")):
        first, second, third = levels(path)
        np.testing.assert_array_equal(first, x)
        np.testing.assert_array_equal(second, pooled(x, (2, 2, 2), op))
        np.testing.assert_array_equal(third, pooled(second, (2, 2, 2), op))
        np.testing.assert_array_equal(places(path)[1][0], [8, 4, 1])
    assert attributes("y.zarr/labels")["labels"] == ["cells"]
    assert attributes("y.zarr/labels/cells")["image-label"] == COLOURS
    kept = zarr.open_group("y.zarr/labels/cells", mode="r").attrs.asdict()
    assert {name: kept[name] for name in OWN} == OWN
    assert "pooled with mode: the labels cells" in said
    assert "left out: the labels absent" in said
    for path in ("y.zarr", "y.zarr/labels", "y.zarr/labels/cells"):
        assert open_ome_zarr(zarr.open_group(path, mode="r")) is not None


@pytest.mark.parametrize("wrong", ["../../out", "zarr.json", "cells/0", ""])
def test_labels_of_a_name_that_no_group_can_have_are_left_out(wrong: str, cli: Cli) -> None:
    cells = with_labels("x.zarr", "0.5", wrong)
    image("out", "0.5", cells, {}, {})
    said = cli("pyramid", "x.zarr", "-o", "deep/er/y.zarr", "--levels", "2").out
    assert "left out: the labels " + wrong in said
    assert attributes("deep/er/y.zarr/labels")["labels"] == ["cells"]
    assert sorted(path.name for path in Path().iterdir()) == ["deep", "out", "x.zarr"]


@pytest.mark.parametrize("base", ["previous", "source"])
def test_every_level_has_factors_of_its_own(base: str, cli: Cli) -> None:
    cells = with_labels("x.zarr", "0.5")
    factors, kernels = "y=2,x=3; z=3,x=2 ;z=1,y=5", [(1, 2, 3), (3, 1, 2), (1, 5, 1)]
    assert cli("pyramid", "x.zarr", "-o", "y.zarr", "--factors", factors, "--from", base, "-q").err == ""
    for path, x, op in (("y.zarr", X, "avg"), ("y.zarr/labels/cells", cells, "mode")):
        found, total = levels(path), np.ones(3, int)
        np.testing.assert_array_equal(found[0], x)
        assert len(found) == 4
        for number, kernel in enumerate(kernels, 1):
            total *= kernel
            before = (found[number - 1], kernel) if base == "previous" else (x, tuple(total))
            np.testing.assert_array_equal(found[number], pooled(*before, op))
            np.testing.assert_array_equal(places(path)[number], ([4, 0.5, 0.5] * total, [2, 0.25, 0.25] * (total - 1)))
