"""Checks of docs/coming-from.md: both sides of each row are run and give the same, the other one where it is installed.

Programs are imported as the page says.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

import poolcli
from tests.documents.checks import plain, table_of
from tests.documents.console import typed
from tests.documents.markdown import ROOT, Table

PAGE = "docs/coming-from.md"
IMPORT = re.compile(r"`((?:from [\w.]+ )?import [^`]+)`")
EXACT = re.compile("max|dilate|median", re.IGNORECASE)
rng = np.random.default_rng(59)
FLOATS = rng.standard_normal((2, 3, 15, 17), np.float32)
OURS = {"np": np, "poolcli": poolcli, "x": FLOATS, "t": FLOATS, "gray": rng.random((15, 18), np.float32),
        "photo": rng.integers(0, 256, (15, 18, 3), np.uint8)}  # fmt: skip


def imported(program: str) -> dict[str, Any]:
    """The names that the page imports for this program; skips where it is not installed."""
    section = (ROOT / PAGE).read_text().split(f"\n## {program}\n")[1].split("\n## ")[0]
    names: dict[str, Any] = {}
    try:
        for line in IMPORT.findall(section):
            exec(line, names)  # noqa: S102  # the document's own text
    except ModuleNotFoundError as missing:
        pytest.skip(f"{program} is not installed: {missing}")
    return names


def run_alike(
    program: str, table: Table, ours: dict[str, Any], result: Callable[[Any], Any] = lambda found: found
) -> None:
    """Both sides of every row give the same; `result` is of what the other program's side gives."""
    mine = [eval(plain(row[1]), OURS | ours) for row in table.rows]  # noqa: S307  # the document's own text
    theirs = OURS | ours | imported(program)
    for row, found in zip(table.rows, mine, strict=True):
        expected = result(eval(plain(row[0]), theirs))  # noqa: S307  # as above
        pairs = zip(expected, found, strict=True) if isinstance(found, tuple) else [(expected, found)]
        for one, other in pairs:
            assert np.shape(one) == np.shape(other), row[0]
            error = 0 if EXACT.search(row[0]) else 2e-6
            np.testing.assert_allclose(np.asarray(other), np.asarray(one), error, error, err_msg=row[0])


@table_of(PAGE, "PyTorch")
def _pytorch(table: Table) -> None:
    try:
        import torch
    except ModuleNotFoundError:
        run_alike("PyTorch", table, {})
    else:
        run_alike("PyTorch", table, {"t": torch.from_numpy(FLOATS)})


@table_of(PAGE, "TensorFlow")
def _tensorflow(table: Table) -> None:
    run_alike("TensorFlow", table, {"x": FLOATS.transpose(0, 2, 3, 1).copy()})


@table_of(PAGE, "ONNX")
def _onnx(table: Table) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from onnx import TensorProto
    from onnx.helper import make_graph, make_model, make_opsetid, make_tensor_value_info

    def run(node: Any) -> Any:
        ends = [make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4) for name in "xy"]
        model = make_model(
            make_graph([node], "g", ends[:1], ends[1:]), opset_imports=[make_opsetid("", 22)], ir_version=10
        )
        return runtime.InferenceSession(model.SerializeToString()).run(None, {"x": FLOATS})[0]

    run_alike("ONNX", table, {}, run)


@table_of(PAGE, "scikit-image")
def _scikit_image(table: Table) -> None:
    run_alike("scikit-image", table, {})


@table_of(PAGE, "SciPy")
def _scipy(table: Table) -> None:
    run_alike("SciPy", table, {})


@table_of(PAGE, "OpenCV")
def _opencv(table: Table) -> None:
    run_alike("OpenCV", table, {})


@table_of(PAGE, "xarray")
def _xarray(table: Table) -> None:
    xarray = pytest.importorskip("xarray")
    values = rng.standard_normal((4, 15, 18))
    values[rng.random(values.shape) < 0.2] = np.nan
    coordinates = {"time": np.arange(4.0), "lat": np.arange(15.0), "lon": np.arange(18.0) ** 2}
    given = xarray.DataArray(values, coordinates, ("time", "lat", "lon"))
    run_alike("xarray", table, {"da": given})
    for row in table.rows[:3]:
        one, other = (eval(plain(cell), OURS | {"da": given}) for cell in row[:2])  # noqa: S307  # as above
        xarray.testing.assert_allclose(one, other)


@table_of(PAGE, "GDAL")
def _gdal(table: Table) -> None:
    """GDAL is run by rasterio, which has its library, but none of its programs."""
    values = rng.random((15, 21), np.float32)
    values[rng.random(values.shape) < 0.2] = -9
    place = [(33550, "d", 3, (10.0, 10.0, 0.0)), (33922, "d", 6, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)), (42113, "s", 0, "-9")]
    tifffile.imwrite("in.tif", values, extratags=[(*each, True) for each in place])
    found = []
    for row in table.rows:
        said, code = typed(f"$ {plain(row[1])}")
        assert code == 0, said
        found.append(tifffile.imread("out.tif"))
        Path("out.tif").unlink()
    pytest.importorskip("rasterio")
    for row, mine in zip(table.rows, found, strict=True):
        np.testing.assert_allclose(mine, by_gdal(shlex.split(plain(row[0])), mine.shape), 2e-6, err_msg=row[0])


def by_gdal(command: list[str], shape: tuple[int, ...]) -> Any:
    """What the command of GDAL makes of in.tif."""
    import rasterio
    from rasterio.warp import Resampling, reproject

    method = Resampling[command[command.index("-r") + 1]]
    if command[0] == "gdaladdo":
        with rasterio.open("in.tif", "r+") as file:
            file.build_overviews([int(command[-1])], method)
        with rasterio.open("in.tif", overview_level=0) as file:
            return file.read(1)
    with rasterio.open("in.tif") as file:
        if command[0] == "gdal_translate":
            size = command.index("-outsize")
            return file.read(1, out_shape=(int(command[size + 2]), int(command[size + 1])), resampling=method)
        made = np.zeros(shape, np.float32)
        cell = float(command[command.index("-tr") + 1])
        transform = file.transform @ rasterio.Affine.scale(cell / file.res[0])
        reproject(rasterio.band(file, 1), made, dst_transform=transform, src_crs="EPSG:32633", dst_crs="EPSG:32633",
                  dst_nodata=-9, resampling=method)  # fmt: skip
        return made
