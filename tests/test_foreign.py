"""Arrays of other libraries: taken without a copy where that can be, refused by name where not."""

from __future__ import annotations

import array
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

import poolcli
from poolcli import PoolError
from poolcli.array_interop import as_array

avg_pool: Any = poolcli.avg_pool
max_pool: Any = poolcli.max_pool  # its results are of the type of its input
X = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)


class Exported:
    """An array that knows DLPack alone."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        return X.__dlpack__(**options)


class Converted:
    """An array that gives itself as one of numpy's."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return X


class Masked:
    """An array that gives itself as a masked one, as variables of netCDF4 do; `first`: whether the first element is."""

    def __init__(self, first: bool) -> None:
        self.first = first

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.ma.masked_array(X, np.arange(16).reshape(X.shape) < self.first)


class Failing:
    """An array that cannot be had."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise RuntimeError("it is on the moon. Fetch it\nwith a rocket")


@pytest.mark.parametrize(
    "given", [X, X.data, Exported(), Converted(), Masked(False)], ids=["numpy", "buffer", "dlpack", "array", "masked"]
)
def test_memory_is_shared_and_the_result_is_numpys(given: Any) -> None:
    assert np.shares_memory(as_array(given), X)
    found = max_pool(given, 2, strides=2)
    assert type(found) is np.ndarray
    assert found.tolist() == [[[[5, 7], [13, 15]]]]


def test_lists_and_arrays_of_python_are_taken() -> None:
    assert max_pool([[[1.0, 3.0, 2.0]]], 2).tolist() == [[[3, 3]]]
    assert max_pool(array.array("h", [1, 3, 2]), 2, layout="W").tolist() == [3, 3]


class Hostile(np.ndarray):
    """A subclass that answers nothing that arrays do."""

    def _fail(self, *args: Any, **words: Any) -> Any:
        raise RuntimeError

    __getitem__ = __eq__ = __array_ufunc__ = __array_function__ = astype = reshape = copy = _fail


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_what_subclasses_redefine_is_not_used(engine: Any) -> None:
    given = X.view(Hostile)
    assert np.shares_memory(as_array(given), X)
    assert max_pool(given, 2, strides=2, engine=engine).tolist() == [[[[5, 7], [13, 15]]]]
    averages = poolcli.avg_pool(given, 2, strides=2, missing=3, engine=engine)
    assert averages.tolist() == [[[[2.5, 5], [10.5, 12.5]]]]
    assert poolcli.compare(given, X).equal
    assert poolcli.identify(given, max_pool(X, 2).view(Hostile), op="max")[0].fits


ONE: Any = "1"  # values of wrong types, as people write them
FIVE: Any = 5
MASKED = np.ma.masked_array([1.0], [True])
MASK_IGNORED = (
    "{0} is a masked array, whose mask would be ignored; give {0}.filled(value) with missing=value, or {0}.data for all"
)


@pytest.mark.parametrize("mask", [np.ma.nomask, False, np.zeros(X.shape, bool)], ids=["none", "False", "all False"])
def test_masked_arrays_without_a_masked_element_are_arrays(mask: Any) -> None:
    given = np.ma.masked_array(X, mask)
    assert type(as_array(given)) is np.ndarray
    assert np.shares_memory(as_array(given), X)
    found = max_pool(given, 2)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, max_pool(X, 2))
    assert poolcli.compare(given, X).equal


NO_NUMBERS = (
    "whose elements are not numbers of one type; give a numpy array of numbers, such as numpy.array(..., float), with "
    "missing=numpy.nan for None"
)
NOT_TAKEN: dict[str, tuple[Any, str]] = {
    "failing": (
        Failing(), "x is a tests Failing that cannot be converted (it is on the moon. Fetch it); give a numpy array",
    ),
    "masked": (
        Masked(True), "x is a tests Masked, whose mask would be ignored; give numpy.asanyarray(x).filled(value) with "
        "missing=value, or numpy.asanyarray(x).data for all",
    ),
    "nothing": (
        None,
        "x is a NoneType, whose elements are not numbers of one type; what should have read it may have failed",
    ),
    "texts": (["1", "2"], f"x is a list, {NO_NUMBERS}"),
    "an archive": ({"b": X, "a": X}, "x is a dict; give one of its arrays, as in x['b']"),
    "values with indices": (
        (X, X), "x is a tuple of arrays; give one of them, as x[0], or numpy.concatenate(x) along their first axis, or "
        "numpy.stack(x) along a new one",
    ),
    "lists of arrays": (
        [[X], [X]], "x is a list of arrays; give one of them, as x[0], or numpy.concatenate(x) along their first axis, "
        "or numpy.stack(x) along a new one",
    ),
    "a tracer of JAX": (
        type("DynamicTracer", (), {"shape": (1, 1, 4, 4)})(),
        "x is a tests DynamicTracer without values; give an array that has them; AvgPool(kernel).plan(x.shape), "
        "for example, gives the shape of a result",
    ),
    "times": (
        X.astype("M8[s]"), "dtype datetime64[s] is not supported; use one of bool, uint8, uint16, uint32, uint64, "
        "int8, int16, int32, int64, float16, float32, float64, bfloat16; in numpy, take x.astype('int64')",
    ),
    "a palette": (
        Image.fromarray(X[0, 0].astype("uint8")).convert("P"),
        "x is an image with a palette; give x.convert('RGB'), or numpy.asarray(x) for the indices",
    ),
    "a file": (
        "x.png", "x is a str, not an array; read the file first: x = numpy.asarray(PIL.Image.open('x.png'))",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "message"), NOT_TAKEN.values(), ids=NOT_TAKEN)
def test_what_cannot_be_taken_is_refused_by_name(given: Any, message: str) -> None:
    with pytest.raises(PoolError) as refused:
        max_pool(given, 2)
    assert str(refused.value) == message


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "atol": (lambda: poolcli.compare([1.0], [1.0], atol=-1), "atol is -1; it must be at least 0"),
    "nan": (lambda: poolcli.compare([1.0], [1.0], rtol=float("nan")), "rtol is nan; it must be at least 0"),
    "text": (lambda: poolcli.compare([1.0], [1.0], rtol=ONE), "rtol is '1'; it must be at least 0"),
    "beyond floats": (
        lambda: poolcli.compare([1.0], [1.0], atol=10**400), f"atol is 1{'0' * 59}; it must be at least 0",
    ),
    "a kernel": (
        lambda: poolcli.identify(X, X, kernel=10**12),
        "kernel is 1,000,000,000,000; here numbers up to 10,000 are searched",
    ),
    "ddof": (
        lambda: poolcli.std_pool(X, 2, ddof=10**400), f"ddof is 1{'0' * 59}; a finite number of at least 0 is needed",
    ),
    "a mask compared": (lambda: poolcli.compare(MASKED, [1.0]), MASK_IGNORED.format("a")),
    "a mask identified": (lambda: poolcli.identify(X, np.ma.masked_array(X, np.isfinite(X))), MASK_IGNORED.format("y")),
    "a number for a shape": (
        lambda: poolcli.AvgPool(2).plan(FIVE), "shape is 5; the lengths of all axes are needed, such as (1, 3, 32, 32)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_asks_about_arrays_refuses_alike(call: Callable[[], object], message: str) -> None:
    with pytest.raises(PoolError) as refused:
        call()
    assert str(refused.value) == message


@pytest.mark.parametrize("ddof", [2**63, 1e300])
@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_a_ddof_beyond_64_bits_leaves_no_elements(ddof: float, engine: Any) -> None:
    assert np.isnan(poolcli.std_pool(X, 2, ddof=ddof, engine=engine)).all()


def test_lists_of_unequal_lengths_are_refused_as_what_they_are() -> None:
    with pytest.raises(PoolError, match=r"^x is a list of rows that are not equally long; make them so"):
        max_pool([[[1], [2, 3]]], 2)


def test_dask_arrays_stay_dask_arrays() -> None:
    dask = pytest.importorskip("dask.array", reason="dask is not installed: pip install dask[array]")
    found, at = max_pool(dask.from_array(X), 2, return_indices=True)
    assert (type(found), type(at)) == (dask.Array, dask.Array)
    expected = max_pool(X, 2, return_indices=True)
    np.testing.assert_array_equal(found.compute(), expected[0])
    np.testing.assert_array_equal(at.compute(), expected[1])
    for name, value in (("out", np.empty((1, 1, 3, 3), np.float32)), ("threads", 2)):
        with pytest.raises(PoolError, match=f"^{name} is chosen by dask; leave it out$"):
            max_pool(dask.from_array(X), 2, **{name: value})


def test_datasets_of_hdf5_are_read_as_the_command_line_reads_them(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        x = file.create_dataset("t", data=np.array([[[1.0, -9], [3, 5]]] * 2))
        assert avg_pool(x, (2, 2)).tolist() == [[[0]], [[0]]]
        x.attrs["_FillValue"] = -9.0
        assert avg_pool(x, (2, 2)).tolist() == [[[3]], [[3]]]
        assert avg_pool(x, (2, 2), missing=()).tolist() == [[[0]], [[0]]]
        x.dims[0].label = "y"
        file["lon"] = np.arange(2.0)
        file["lon"].make_scale()
        x.dims[1].attach_scale(file["lon"])
        x.dims[2].label = "band"
        assert avg_pool(x, 2).tolist() == [[[2, 5]]]


def test_pictures_of_pillow_are_read_as_files_are() -> None:
    picture = Image.fromarray(np.arange(32, dtype=np.uint8).reshape(2, 16))
    assert avg_pool(picture, 2, strides=2).shape == (1, 8)
    assert avg_pool(picture.convert("RGB"), 2, strides=2).shape == (1, 8, 3)


@pytest.mark.heavy
def test_dataarrays_stay_dataarrays_with_coordinates_names_and_attributes() -> None:
    import xarray

    coords = {"lat": [0.0, 10, 20, 30], "lon": ("lon", [1.0, 2, 3, 4], {"units": "degrees_east"}), "run": 7}
    given = xarray.DataArray(X[0, 0], dims=("lat", "lon"), coords=coords, name="air", attrs={"units": "K"})
    assert np.shares_memory(as_array(given), X)
    found, at = max_pool(given, 2, strides=2, return_indices=True)
    expected = max_pool(X, 2, strides=2, return_indices=True)
    for made, values in ((found, expected[0]), (at, expected[1])):
        np.testing.assert_array_equal(made.values, values[0, 0])
        assert (made.dims, made.name, made.attrs) == (("lat", "lon"), "air", {"units": "K"})
        assert (made.lat.values.tolist(), made.lon.values.tolist(), int(made.run)) == ([5, 25], [1.5, 3.5], 7)
        assert made.lon.attrs == {"units": "degrees_east"}
    marked = given.assign_attrs(_FillValue=15.0)
    for each, last in ((given, 15), (marked, 14)):
        lazy = max_pool(each.chunk({"lat": 2}), 2, strides=2)
        assert lazy.chunks is not None
        xarray.testing.assert_identical(lazy.compute(), max_pool(each, 2, strides=2))
        assert lazy.values[1, 1] == last
    holed = given.where(given < 15)
    known = "missing=numpy.nan leaves NaN out, as coarsen().mean() does, and missing=() keeps it"
    with pytest.warns(UserWarning, match=re.escape(f"1 of 4 results are NaN: {known}")):
        assert np.isnan(avg_pool(holed, 2, strides=2)).sum() == 1
    expected = holed.coarsen(lat=2, lon=2).mean()
    xarray.testing.assert_allclose(avg_pool(holed, 2, strides=2, missing=np.nan), expected)
    assert np.isnan(avg_pool(holed, 2, strides=2, missing=())).sum() == 1
    with pytest.raises(PoolError, match=r"^x is an xarray Dataset; give one of its arrays, as in x\['air'\]$"):
        max_pool(given.to_dataset(), 2)


@pytest.mark.slow
def test_pytorchs_tensors_stay_tensors_that_share_memory() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    tensor = torch.from_numpy(X)
    assert np.shares_memory(as_array(tensor), X)
    found, at = max_pool(tensor, 2, strides=2, return_indices=True)
    expected = torch.nn.functional.max_pool2d(tensor, 2, return_indices=True)
    assert (torch.equal(found, expected[0]), torch.equal(at, expected[1])) == (True, True)
    deep = torch.arange(32.0).reshape(1, 2, 4, 4)
    with pytest.warns(UserWarning, match=r"^indices are the flat position over N,C,H,W; PyTorch's max_unpool needs "):
        assert max_pool(deep, 2, strides=2, return_indices=True)[1].max() == 31
    expected = torch.nn.functional.max_pool2d(deep, 2, return_indices=True)
    for how in ({"axis": 2}, {"like": "pytorch"}):
        assert torch.equal(max_pool(deep, 2, strides=2, return_indices=True, **how)[1], expected[1])
    out = np.empty((1, 1, 2, 2), np.float32)
    assert np.shares_memory(avg_pool(tensor, 2, strides=2, out=out).numpy(), out)
    half = max_pool(tensor.to(torch.bfloat16), 2, strides=2)
    assert (half.dtype, half.tolist()) == (torch.bfloat16, [[[[5, 7], [13, 15]]]])
    for name in ("uint8", "int16", "int32", "int64", "float16", "float64"):
        assert max_pool(tensor.to(getattr(torch, name)), 2).dtype == getattr(torch, name)
    with pytest.raises(PoolError) as refused:
        max_pool(tensor.clone().requires_grad_(), 2)
    assert str(refused.value) == (
        "x is a torch Tensor that requires a gradient, which is not computed here; give x.detach()"
    )
    with pytest.raises(PoolError, match=r"^x is a torch Tensor without values; give an array that has them; "):
        max_pool(torch.empty(1, 1, 4, 4, device="meta"), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyTorch deprecates quantised tensors
        quantized = torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8)
    with pytest.raises(PoolError, match=r"; give x.int_repr\(\) or x.dequantize\(\)$"):
        max_pool(quantized, 2)


def test_the_type_of_an_array_is_not_taken_for_a_misspelt_one() -> None:
    with pytest.raises(PoolError, match=r"^dtype int4 is not supported; .* float64, bfloat16$"):
        max_pool(np.zeros((1, 1, 4), pytest.importorskip("ml_dtypes").int4), 2)
