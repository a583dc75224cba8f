"""Pyramids of every image of a plate, and of the series that bioformats2raw writes."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pytest
import zarr
from ome_zarr_models import open_ome_zarr

from tests.conftest import Cli
from tests.pyramids import X, attributes, levels, multiscale, places, pooled
from tests.test_pyramid_stores import OWN, image, with_labels

pytestmark = pytest.mark.usefixtures("here")
PLATE: dict[str, Any] = {
    "rows": [{"name": "A"}], "columns": [{"name": "1"}, {"name": "2"}], "name": "mine", "field_count": 2,
    "wells": [{"path": f"A/{n}", "rowIndex": 0, "columnIndex": n - 1} for n in (1, 2)],
}  # fmt: skip


def group(path: str, version: str, known: dict[str, Any], own: dict[str, Any]) -> None:
    """A group of no image; `known` are attributes of OME-Zarr."""
    if version == "0.5":
        attributes = {"ome": {"version": version, **known}, **own} if known else own
        zarr.open_group(path, mode="w", zarr_format=3, attributes=attributes)
        return
    known = {word: {**value, "version": version} if isinstance(value, dict) else value for word, value in known.items()}
    zarr.open_group(path, mode="w", zarr_format=2, attributes={**known, **own})


def plate(path: str, version: str) -> None:
    """Two wells of two fields each; the last field has labels."""
    group(path, version, {"plate": PLATE}, OWN)
    group(f"{path}/A", version, {}, {"row": "first"})
    for well in "12":
        group(f"{path}/A/{well}", version, {"well": {"images": [{"path": "0"}, {"path": "x"}]}}, {})
        image(f"{path}/A/{well}/0", version, X + int(well), OWN, {})
    image(f"{path}/A/1/x", version, X // 2, {}, {})
    with_labels(f"{path}/A/2/x", version)


@pytest.mark.parametrize("version", ["0.5", "0.4"])
def test_every_field_of_a_plate_gets_a_pyramid(version: str, cli: Cli) -> None:
    plate("x.zarr", version)
    found = cli("pyramid", "x.zarr", "-o", "y.zarr", "--all", "--levels", "2", "--json").json
    assert found["images"] == ["A/1/0", "A/1/x", "A/2/0", "A/2/x"]
    expected = {"A/1/0": X + 1, "A/1/x": X // 2, "A/2/0": X + 2, "A/2/x": X}
    for name, x in expected.items():
        first, second = levels(f"y.zarr/{name}")
        np.testing.assert_array_equal(first, x)
        np.testing.assert_array_equal(second, pooled(x, (2, 2, 2), "avg"))
        np.testing.assert_array_equal(places(f"y.zarr/{name}")[1][0], [8, 1, 1])
        assert multiscale(f"y.zarr/{name}")["name"] == "mine"
    first, second = levels("y.zarr/A/2/x/labels/cells")
    np.testing.assert_array_equal(second, pooled(first, (2, 2, 2), "mode"))
    assert [note[:15] for note in found["notes"] if "labels" in note] == ["left out: the l", "pooled with mod"]
    kept: Any = zarr.open_group("y.zarr", mode="r").attrs.asdict()
    assert kept["microscope"] == OWN["microscope"]
    assert attributes("y.zarr")["plate"] == {**PLATE, "version": "0.5"}
    assert attributes("y.zarr/A") == {"row": "first"}
    for place in ("", "/A/1", "/A/2", *(f"/{name}" for name in expected)):
        assert open_ome_zarr(zarr.open_group(f"y.zarr{place}", mode="r")) is not None


def test_a_plate_in_a_larger_store_is_named_by_its_group(cli: Cli) -> None:
    zarr.open_group("x.zarr", mode="w", zarr_format=3)
    plate("x.zarr/deep/er", "0.5")
    assert cli("pyramid", "x.zarr:/deep/er", "-o", "y.zarr", "--all", "--levels", "1", "-q").err == ""
    np.testing.assert_array_equal(levels("y.zarr/A/2/0")[0], X + 2)
    assert attributes("y.zarr")["plate"]["name"] == "mine"


@pytest.mark.parametrize("version", ["0.5", "0.4"])
def test_every_series_of_bioformats2raw_gets_a_pyramid(version: str, cli: Cli) -> None:
    group("x.zarr", version, {"bioformats2raw.layout": 3}, OWN)
    for name, x in (("1", X), ("0", X // 2)):
        image(f"x.zarr/{name}", version, x, {}, {})
    group("x.zarr/OME", version, {"series": ["1", "0"]}, {})
    run = ("pyramid", "x.zarr", "--all", "--levels", "2", "-o", "y.zarr", "--resume")
    assert cli(*run).code == 0
    assert not Path("y.zarr/OME").exists()
    assert cli(*run).out.endswith("made from this input\n")
    for name, x in (("1", X), ("0", X // 2)):
        np.testing.assert_array_equal(levels(f"y.zarr/{name}")[0], x)
    assert "bioformats2raw.layout" not in attributes("y.zarr")  # which says that images are named 0, 1, ...
    assert open_ome_zarr(zarr.open_group("y.zarr/1", mode="r")) is not None


@pytest.mark.parametrize("version", ["0.5", "0.4"])
def test_one_array_of_several_images_does_not_claim_to_be_all(version: str, cli: Cli) -> None:
    group("x.zarr", version, {"bioformats2raw.layout": 3}, {})
    image("x.zarr/0", version, X, {}, {})
    group("x.zarr/OME", version, {"series": ["0"]}, {})
    for command in (("avg", "x.zarr:/0/0", "-k", "2"), ("pyramid", "x.zarr:/0", "--levels", "2")):
        assert cli(*command, "-o", "y.zarr", "--overwrite", "-q").err == ""
        assert "bioformats2raw.layout" not in attributes("y.zarr")
    plate("p.zarr", version)
    said = cli("avg", "p.zarr:/A/1/0/0", "-k", "2", "-o", "z.zarr").out
    word = "ome" if version == "0.5" else "plate"
    assert f"left out, because it describes several arrays: {word} of /, " in said
    assert attributes("z.zarr") == OWN
    assert attributes("z.zarr/A/1") == {}


@pytest.mark.parametrize(
    "make",
    [lambda: image("x.zarr", "0.5", X, {}, {}), lambda: group("x.zarr", "0.5", {"bioformats2raw.layout": 3}, {})],
    ids=["an image", "no series"],
)
def test_what_has_no_images_to_take_is_refused(make: Any, cli: Cli) -> None:
    make()
    found = cli("pyramid", "x.zarr", "-o", "y.zarr", "--all")
    assert (found.code, found.err) == (2, "poolcli: x.zarr: holds one image or none; leave --all out\n")
    assert not Path("y.zarr").exists()


def test_an_image_that_cannot_be_pooled_is_named(cli: Cli) -> None:
    plate("x.zarr", "0.5")
    several = "holds a plate or series of images; --all takes all of them, x.zarr:/A/1/0 one of them"
    assert cli("pyramid", "x.zarr", "-o", "y.zarr").err == f"poolcli: x.zarr: {several}\n"
    Path("x.zarr/A/2/0/0/zarr.json").write_text("{")
    found = cli("pyramid", "x.zarr", "-o", "y.zarr", "--all")
    assert found.code != 0
    assert found.err.startswith("poolcli: x.zarr:/A/2/0")
    assert len(found.err.splitlines()) == 1
    np.save("x.npy", X)
    message = "--all is for Zarr stores with several images; leave it out"
    assert cli("pyramid", "x.npy", "-o", "y.zarr", "--all").err == f"poolcli: x.npy: {message}\n"
    np.savez("x.npz", a=X, b=X)
    assert cli("pyramid", "x.npz", "-o", "y.zarr").err.endswith("choose one: x.npz:a or --dataset a\n")


def test_wells_are_found_by_the_plate_though_rows_have_no_metadata(cli: Cli) -> None:
    plate("x.zarr", "0.5")
    Path("x.zarr/A/zarr.json").unlink()
    found = cli("pyramid", "x.zarr", "-o", "y.zarr", "--all", "--levels", "2", "--json").json
    assert found["images"] == ["A/1/0", "A/1/x", "A/2/0", "A/2/x"]
    rmtree("x.zarr/A/2")
    found = cli("pyramid", "x.zarr", "-o", "z.zarr", "--all", "--levels", "2", "--json").json
    assert found["images"] == ["A/1/0", "A/1/x"]
    assert found["notes"][0] == "left out, because the store lacks them: the wells A/2"
