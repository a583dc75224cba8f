"""Checks of the table that holds pyramids beside other programs: of those that the tests bring, by running them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr

from tests.documents.checks import Row, row_of
from tests.documents.console import typed

PYRAMIDS = "docs/pyramids.md"
from_array: Any = da.from_array
ODD = np.array([0, 1, 2, 5, 3], "uint8")


def levels_of(array: Any, *options: str) -> list[float]:
    """The second level of a pyramid of one row, as numbers."""
    np.save("row.npy", np.stack([array, array]))
    words = ["poolcli", "pyramid", "row.npy", "-o", "row.ome.zarr", "--levels", "2", "--overwrite", *options]
    assert typed(f"$ {' '.join(words)}")[1] == 0
    level: list[float] = np.asarray(zarr.open_group("row.ome.zarr", mode="r")["1"]).reshape(-1).tolist()
    return level


@row_of(PYRAMIDS, "poolcli")
def _poolcli(row: Row) -> None:
    assert row[1:] == (
        "kept",
        "exact, half to even",
        "stays; `--missing nan` leaves it out",
        "2",
        "most frequent, of equal ones the smallest",
    )
    assert levels_of(ODD) == [0, 4, 3]
    assert levels_of(ODD, "--op", "mode") == [0, 2, 3]
    gap = np.array([np.nan, 1, 2, 5, 3], "float32")
    np.testing.assert_array_equal(levels_of(gap), [np.nan, 3.5, 3])
    assert levels_of(gap, "--missing", "nan") == [1, 3.5, 3]
    ome = json.loads(Path("row.ome.zarr", "zarr.json").read_text())["attributes"]["ome"]
    level = ome["multiscales"][0]["datasets"][1]
    assert level["coordinateTransformations"][0] == {"type": "scale", "scale": [2, 2]}


@row_of(PYRAMIDS, "dask 2026.8.0, coarsen")
def _dask(row: Row) -> None:
    assert row[1:4] == ("refused, or dropped", "float64; 0.44 too low where that is cast", "stays")
    with pytest.raises(ValueError, match="do not align"):
        da.coarsen(np.mean, from_array(ODD), {0: 2})
    found = da.coarsen(np.mean, from_array(ODD), {0: 2}, trim_excess=True).compute()
    assert (found.tolist(), found.dtype) == ([0.5, 3.5], np.float64)
    gap = from_array(np.array([np.nan, 1]))
    assert np.isnan(da.coarsen(np.mean, gap, {0: 2}).compute()).all()


@row_of(PYRAMIDS, "xarray 2026.9.0, coarsen")
def _xarray(row: Row) -> None:
    assert row[5] == "", "how its levels are named is not its matter; the rest is measured by hand"
    assert all(row[:5])


@row_of(
    PYRAMIDS,
    "tensorstore 0.1.86, downsample",
    "ngff-zarr 0.50.0, DASK_BIN_SHRINK",
    "ome-zarr-py 0.18.0, LOCAL_MEAN",
)
def _measured_by_hand(row: Row) -> None:
    assert all(row), "what these make is measured by hand, with the versions that stand there; no cell is left open"
