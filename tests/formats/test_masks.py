"""Mask pages of TIFFs: what they hide is missing, and the result has masks too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from tests.conftest import Cli

pytestmark = pytest.mark.usefixtures("here")
RNG = np.random.default_rng(4)
VALID = RNG.random((8, 12)) > 0.4
VALID[:2, :2] = False
GREY: dict[str, Any] = {"photometric": "minisblack"}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "RGB": (RNG.integers(0, 256, (8, 12, 3)).astype(np.uint8), {"photometric": "rgb"}),
    "RGBA": (RNG.integers(0, 256, (8, 12, 4)).astype(np.uint8), {"photometric": "rgb", "extrasamples": [2]}),
    "16 bits in tiles": (RNG.integers(-9, 9, (8, 12)).astype(np.int16), {**GREY, "tile": (16, 16)}),
    "floats, compressed": (RNG.random((8, 12)).astype(np.float32), {**GREY, "compression": "zlib"}),
}
OPERATORS: dict[str, Any] = {
    "max": np.ma.max,
    "min": np.ma.min,
    "sum": np.ma.sum,
    "avg": np.ma.mean,
    "median": np.ma.median,
}
HALVE = ("-k", "2", "-s", "2", "-q", "--overwrite")


def written(pages: Sequence[tuple[Any, Any]], options: dict[str, Any], more: dict[str, Any] | None = None) -> None:
    """`x.tif`, of pictures with the masks (None for none) of what is valid in them, as GDAL stores them."""
    with tifffile.TiffWriter("x.tif") as file:
        for picture, valid in pages:
            file.write(picture, metadata=None, **options, **(more or {}))
            if valid is not None:
                file.write(valid, photometric="mask", subfiletype=4, compression="zlib", metadata=None)


def expected(x: Any, valid: Any, op: str) -> Any:
    """The results of windows of 2 x 2, masked where nothing is valid in one."""
    shown = np.broadcast_to(valid[..., None] if x.ndim == 3 else valid, x.shape)
    windows = np.ma.array(x, dtype=np.float64, mask=~shown).reshape(4, 2, 6, 2, -1).swapaxes(1, 2)
    found = OPERATORS[op](windows.reshape(4, 6, 4, -1), axis=2)
    found = found if x.dtype.kind == "f" else np.ma.array(np.rint(found.data), mask=found.mask)
    return found.reshape(4, 6, *x.shape[2:])


def pooled() -> list[tuple[Any, Any]]:
    """The pictures of `y.tif`, each with what its mask says."""
    with tifffile.TiffFile("y.tif") as file:
        pages: list[Any] = list(file.pages)
        assert [int(page.subfiletype) for page in pages] == [0, 4] * (len(pages) // 2)
        return [(pages[i].asarray(), pages[i + 1].asarray()) for i in range(0, len(pages), 2)]


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_mask_hides_is_missing(kind: str, op: str, cli: Cli) -> None:
    x, options = KINDS[kind]
    if (kind, op) == ("RGBA", "avg"):
        x = x | np.array([0, 0, 0, 255], np.uint8)  # averages are weighted with alpha
    written([(x, VALID)], options)
    assert cli("info", "x.tif").out.splitlines()[-1] == "note  page 2 is a mask"
    result = cli(op, "x.tif", "-o", "y.tif", *HALVE)
    assert (result.code, result.err) == (0, "")
    ((found, valid),) = pooled()
    wanted = expected(x, VALID, op)
    np.testing.assert_array_equal(valid, VALID.reshape(4, 2, 6, 2).any((1, 3)))
    np.testing.assert_allclose(found[valid], wanted[valid].data, rtol=1e-6)
    assert (np.isnan(found[~valid]) if found.dtype.kind == "f" else found[~valid] == 0).all()
    notes = cli(op, "x.tif", "-o", "y.npy", *HALVE, "--json").json["notes"]
    left = "nan" if found.dtype.kind == "f" else "0"
    assert f"pixels that a mask hides are missing and excluded; windows without valid elements give {left}" in notes


def test_what_nodata_and_a_mask_leave_of_a_window_is_said_once(cli: Cli) -> None:
    written([(KINDS["16 bits in tiles"][0], VALID)], {**GREY, "extratags": [(42113, 2, None, "0", True)]})
    notes = cli("avg", "x.tif", "-o", "y.npy", *HALVE, "--json").json["notes"]
    assert [note for note in notes if "excluded" in note] == [
        "elements equal to 0 are missing and excluded; windows without valid elements give 0 again",
        "pixels that a mask hides are missing and excluded",
    ]


def test_each_picture_has_its_own_mask(cli: Cli) -> None:
    x = RNG.integers(1, 99, (3, 8, 12)).astype(np.uint8)
    masks = [VALID, None, ~VALID]
    written(list(zip(x, masks, strict=True)), GREY)
    tifffile.imwrite("x.tif", np.ones((4, 6), bool), append=True, photometric="mask", subfiletype=5, metadata=None)
    assert cli("max", "x.tif", "-o", "y.tif", *HALVE).code == 0
    for (found, valid), page, mask in zip(pooled(), x, masks, strict=True):
        shown = np.ones((8, 12), bool) if mask is None else mask
        wanted = expected(page, shown, "max")
        np.testing.assert_array_equal(valid, ~np.ma.getmaskarray(wanted))
        np.testing.assert_array_equal(found, wanted.filled(0))
    notes = cli("max", "x.tif", "-o", "y.npy", *HALVE, "--json").json["notes"]
    assert "pages 2, 5 are masks" in notes


def test_a_mask_counts_with_nodata_values_colours_indices_and_counts(cli: Cli) -> None:
    x = np.arange(96, dtype=np.int16).reshape(8, 12)
    written([(x, VALID)], GREY, {"extratags": [(42113, "s", 0, "1", True), (33550, "d", 3, (2.0, 2.0, 0.0), True)]})
    assert cli("max", "x.tif", "-o", "y.tif", "--indices", "i.npy", *HALVE).code == 0
    ((found, _),) = pooled()
    wanted = expected(x, VALID & (x != 1), "max")
    np.testing.assert_array_equal(found, wanted.filled(1))  # of which the tag says that it is none
    indices = np.load("i.npy")
    np.testing.assert_array_equal(indices.ravel(), np.where(wanted.mask, -1, wanted.data).ravel())
    with tifffile.TiffFile("y.tif") as file:
        pages: list[Any] = list(file.pages)
        assert [[tag in page.tags for tag in (42113, 33550)] for page in pages] == [[True] * 2, [False] * 2]
    cli("avg", "x.tif", "-o", "y.tif", *HALVE, "--min-count", "3")
    np.testing.assert_array_equal(pooled()[0][1], VALID.reshape(4, 2, 6, 2).sum((1, 3)) >= 3)
    colours = KINDS["RGB"][0] // 128 * 255
    written([(colours, VALID)], {"photometric": "rgb"})
    for arguments in (["mode"], ["avg", "--linear-light"]):
        assert cli(*arguments, "x.tif", "-o", "y.tif", *HALVE).code == 0
        ((found, _),) = pooled()
        alone = (VALID.reshape(4, 2, 6, 2).sum((1, 3)) == 1)[..., None]  # the only pixel of its window
        kept = (colours * VALID[..., None]).reshape(4, 2, 6, 2, 3).max((1, 3))
        np.testing.assert_array_equal(found * alone, kept * alone)


def test_a_mask_is_left_out_on_request_and_refused_where_it_is_damaged(cli: Cli) -> None:
    x = KINDS["RGB"][0]
    written([(x, VALID)], {"photometric": "rgb"})
    result = cli("max", "x.tif", "-o", "y.tif", *HALVE, "--missing", "none", "--json")
    assert "page 2 is a mask, and not applied: hidden pixels count" in result.json["notes"]
    np.testing.assert_array_equal(tifffile.imread("y.tif"), x.reshape(4, 2, 6, 2, 3).max((1, 3)))
    assert "not kept: mask of missing pixels" in cli("max", "x.tif", "-o", "y.png", *HALVE, "--json").out
    with tifffile.TiffFile("x.tif") as file:
        at, count = file.pages[1].dataoffsets[0], file.pages[1].databytecounts[0]
    whole = Path("x.tif").read_bytes()
    for damaged in (whole[:at] + bytes(count) + whole[at + count :], whole[: at + 1] + b"?" + whole[at + 2 :]):
        Path("x.tif").write_bytes(damaged)
        result = cli("max", "x.tif", "-o", "z.tif", *HALVE)
        assert result.code == 1
        assert result.err.startswith("poolcli: x.tif: ")
        assert result.err.count("\n") == 1
