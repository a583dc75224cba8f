"""Keywords of the functions: what other libraries call them, padding at both ends, and layouts that are assumed."""

from __future__ import annotations

import re
import warnings
from dataclasses import fields
from inspect import cleandoc, signature
from typing import Any, get_args

import numpy as np
import pytest

import poolcli
import poolcli.dask
from poolcli.arguments import AUTO_PADS, INDEX_TYPES, ROUNDING_TYPES, AutoPad, Engine, IndexType, Like, RoundingType
from poolcli.dialects import DIALECTS
from poolcli.engine.choose import ENGINES
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import SlidingAttributes

X = np.arange(24, dtype="float32").reshape(1, 1, 4, 6)
PHOTO = np.zeros((6, 8, 3), "uint8")


MEANT: tuple[tuple[str, dict[str, Any], str], ...] = (
    # PyTorch
    ("avg_pool", {"kernel_size": 2}, "avg_pool() has no kernel_size; use avg_pool(x, 2, like='pytorch')"),
    ("max_pool", {"kernel": 2, "stride": 2}, "max_pool() has no stride; use max_pool(x, 2, strides=2)"),
    ("max_pool", {"kernel": 2, "stride": None}, "max_pool() has no stride; use max_pool(x, 2, like='pytorch')"),
    ("avg_pool", {"kernel": 2, "ceil_mode": True},
     "avg_pool() has no ceil_mode; use avg_pool(x, 2, rounding_type='ceil', like='pytorch')"),
    ("avg_pool", {"kernel": 2, "ceil_mode": False},
     "avg_pool() has no ceil_mode; use avg_pool(x, 2, rounding_type='floor', like='pytorch')"),
    ("avg_pool", {"count_include_pad": False},
     "avg_pool() has no count_include_pad; use avg_pool(x, kernel, exclude_pad=True, like='pytorch')"),
    ("lp_pool", {"kernel": 2, "norm_type": 3}, "lp_pool() has no norm_type; use lp_pool(x, 2, p=3, like='pytorch')"),
    ("avg_pool", {"kernel_size": (2, 2), "stride": 1, "padding": 1},
     "avg_pool() has no kernel_size, stride or padding; use avg_pool(x, (2, 2), strides=1, pads=1, like='pytorch')"),
    ("max_pool", {"kernel": 2, "count_include_pad": True},
     "max_pool() has no count_include_pad; leave it out: only averages have a divisor"),
    ("area_pool", {"scale_factor": 0.5}, "area_pool() has no scale_factor; use area_pool(x, (2, 3))"),
    # TensorFlow and Keras
    ("avg_pool", {"ksize": 2}, "avg_pool() has no ksize; use avg_pool(x, 2)"),
    ("avg_pool", {"pool_size": 2, "strides": None},
     "avg_pool() has no pool_size; use avg_pool(x, 2, strides=2, like='tensorflow')"),
    ("avg_pool", {"window_shape": 2, "pooling_type": "AVG", "name": "pool"},
     "avg_pool() has no window_shape, pooling_type or name; use avg_pool(x, 2); name: leave it out"),
    ("avg_pool", {"kernel": 2, "padding": "SAME"},
     "avg_pool() has no padding; use avg_pool(x, 2, auto_pad='same_upper')"),
    ("avg_pool", {"kernel": 2, "data_format": "NHWC"},
     "avg_pool() has no data_format; use avg_pool(x, 2, layout='NHWC')"),
    ("avg_pool", {"kernel": 2, "device": "cuda"},
     "avg_pool() has no device; use threads for more cores: poolcli runs on the CPU"),
    # ONNX, Paddle, MXNet
    ("max_pool", {"kernel_shape": [2, 2]}, "max_pool() has no kernel_shape; use max_pool(x, [2, 2], like='onnx')"),
    ("max_pool", {"kernel": 2, "return_mask": True},
     "max_pool() has no return_mask; use max_pool(x, 2, return_indices=True)"),
    ("avg_pool", {"kernel": 2, "exclusive": True}, "avg_pool() has no exclusive; use avg_pool(x, 2, exclude_pad=True)"),
    ("avg_pool", {"kernel": 2, "include_pad": True},
     "avg_pool() has no include_pad; use avg_pool(x, 2, exclude_pad=False)"),
    ("max_pool", {"kernel": 2, "argmax": True}, "max_pool() has no argmax; use max_pool(x, 2, return_indices=True)"),
    ("max_pool", {"kernel": 2, "storage_order": 1},
     "max_pool() has no storage_order; leave it out: along columns, indices i are "
     "i // (H * W) * H * W + i % W * H + i // W % H"),
    ("max_pool", {"kernel": 2, "pooling_convention": "full"},
     "max_pool() has no pooling_convention; use max_pool(x, 2, rounding_type='ceil')"),
    # scikit-image, SciPy, OpenCV, xarray
    ("avg_pool", {"block_size": (2, 2), "func": np.mean},
     "avg_pool() has no block_size or func; use avg_pool(x, (2, 2), strides=(2, 2))"),
    ("max_pool", {"footprint": np.ones((3, 3))}, "max_pool() has no footprint; use max_pool(x, (3, 3))"),
    ("max_pool", {"size": 3, "mode": "nearest"},
     "max_pool() has no size or mode; use max_pool(x, 3, auto_pad='same_lower'); mode: use numpy.pad(x, widths, "
     "'edge') first, or 'reflect', ...: padding has no values here"),
    ("area_pool", {"image": X, "dsize": (3, 2), "interpolation": 3},
     "area_pool() has no image, dsize or interpolation; use area_pool(x, (2, 3)); interpolation: leave it out"),
    ("avg_pool", {"lat": 2, "lon": 3, "boundary": "trim", "skipna": True},
     "avg_pool() has no lat, lon, boundary or skipna; use avg_pool(x, kernel, rounding_type='floor', "
     "missing=float('nan')); lat and lon: use kernel and strides, their numbers in the order D, H, W"),
    # misspelt, and of another function
    ("max_pool", {"kernal": 2}, "max_pool() has no kernal; did you mean kernel?"),
    ("adaptive_avg_pool", {"kernel_size": 2},
     "adaptive_avg_pool() has no kernel_size; use adaptive_avg_pool(x, output_size)"),
    ("area_pool", {"scale": 0.5}, "area_pool() has no scale; use area_pool(x, (2, 3))"),
    ("area_pool", {"fit": 3}, "area_pool() has no fit; use area_pool(x, (2, 3))"),
    ("area_pool", {"size": (3, 2)}, "area_pool() has no size; use area_pool(x, (3, 2)); sizes are height, width"),
    ("avg_pool", {"kernel": 2, "keepdims": 1},
     "avg_pool() has no keepdims; use y[..., 0, 0]: axes of length 1 are kept"),
    ("max_pool", {"kernel": 2, "padding_mode": "reflect"},
     "max_pool() has no padding_mode; "
     "use numpy.pad(x, widths, 'edge') first, or 'reflect', ...: padding has no values here"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "keywords", "message"), MEANT)
def test_an_unknown_keyword_is_answered_with_the_one_that_is_meant(
    name: str, keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError) as error:
        getattr(poolcli, name)(X, **keywords)
    assert str(error.value) == message


@pytest.mark.parametrize("record", OPERATORS.values(), ids=OPERATORS)
def test_every_parameter_is_documented_once_and_in_order(record: Any) -> None:
    function = getattr(poolcli, record.name.replace("-", "_") + "_pool")
    parameters = re.search(
        r"^Parameters\n-+\n(.*?)\n\n(?=Returns\n---)", cleandoc(function.__doc__), re.DOTALL | re.MULTILINE
    )
    assert parameters
    entries = re.findall(r"^(\w.*) : ", parameters[1], re.MULTILINE)
    assert [name for entry in entries for name in entry.split(", ")] == [*signature(function).parameters]


def test_records_answer_unknown_keywords_too() -> None:
    record: Any = poolcli.AvgPool
    with pytest.raises(TypeError, match=r"^AvgPool\(\) has no kernel_size; use AvgPool\(2, like='pytorch'\)$"):
        record(kernel_size=2)


def test_other_mistakes_in_calls_are_those_of_python() -> None:
    call: Any = poolcli.avg_pool
    with pytest.raises(TypeError, match=r"^avg_pool\(\) missing 1 required positional argument: 'kernel'$"):
        call(X)


@pytest.mark.parametrize("op", [op for op in OPERATORS.values() if issubclass(op, SlidingAttributes)])
@pytest.mark.parametrize("pads", [1, (0, 1), [1, 0], np.array([1, 1])], ids=str)
def test_pads_set_both_ends(op: Any, pads: Any) -> None:
    function = getattr(poolcli, op.name + "_pool")
    more: dict[str, Any] = {"dtype": "float32"} if op.name == "lp" else {}
    x = X.astype("uint8")
    expected = function(x, 2, pads_begin=pads, pads_end=pads, **more)
    np.testing.assert_array_equal(function(x, 2, pads=pads, **more), expected)
    assert op(2, pads=pads) == op(2, pads_begin=pads, pads_end=pads)
    assert "pads" not in {own.name for own in fields(op)}


@pytest.mark.parametrize("ends", [{"pads_begin": 1}, {"pads_end": (0, 1)}, {"pads_begin": 1, "pads_end": 1}], ids=str)
def test_pads_beside_one_of_their_ends_are_refused(ends: dict[str, Any]) -> None:
    message = "^pads sets both ends; give either pads or pads_begin and pads_end$"
    with pytest.raises(poolcli.RequestError, match=message):
        poolcli.avg_pool(X, 3, pads=1, **ends)
    with pytest.raises(poolcli.RequestError, match=message):
        poolcli.AvgPool(3, pads=1, **ends)


def test_pads_are_taken_where_attributes_are_held_fixed() -> None:
    answers = poolcli.solve("max", (1, 1, 8), 4, pads=1)
    assert answers == poolcli.solve("max", (1, 1, 8), 4, pads_begin=1, pads_end=1) != []
    y = poolcli.max_pool(X, 3, pads=1)
    held: tuple[dict[str, Any], ...] = ({"pads": 1}, {"pads_begin": 1, "pads_end": 1})
    found, same = (poolcli.identify(X, y, op="max", **given)[0] for given in held)
    assert found.op == same.op
    for ask in (poolcli.solve, lambda *_, **given: poolcli.identify(X, y, **given)):
        with pytest.raises(poolcli.RequestError, match=r"^pads sets both ends"):
            ask("max", (1, 1, 8), 4, pads=1, pads_end=1)


def test_words_that_types_name_are_those_that_are_taken() -> None:
    assert get_args(Like) == tuple(DIALECTS)
    assert get_args(AutoPad) == AUTO_PADS
    assert get_args(RoundingType) == ROUNDING_TYPES
    assert get_args(IndexType) == tuple(INDEX_TYPES)
    assert set(get_args(Engine)) == {"auto", *ENGINES}


@pytest.mark.parametrize("shape", [(8, 8, 3), (9, 8, 1), (8, 9, 4), (2, 8, 8, 3)], ids=str)
def test_an_assumed_layout_is_warned_about_where_channels_look_last(shape: tuple[int, ...]) -> None:
    last, first = ("HWC", "NCW") if len(shape) == 3 else ("NHWC", "NCHW")
    known = f"layout={last!r} if the last axis holds channels, else layout={first!r}"
    message = f"shape {shape} was read as {first}; give {known}"
    calls: list[Any] = [
        lambda: poolcli.avg_pool(np.zeros(shape), 1),
        lambda: poolcli.AdaptiveMaxPool(1)(np.zeros(shape)),
        lambda: poolcli.max_pool(np.zeros(shape).tolist(), 1, return_indices=True),
    ]
    for call in calls * 2:  # whether or not the call has been planned before
        with pytest.warns(poolcli.LayoutWarning) as found:
            call()
        assert [(str(each.message), each.filename) for each in found] == [(message, __file__)]


@pytest.mark.parametrize(
    "shape",
    [(2, 3, 8), (7, 8, 3), (1, 1, 4), (1, 3, 6, 8), (8, 64, 3, 3), (2, 64, 9, 1), (2, 3, 8, 1), (2, 2, 4, 3, 1)],
    ids=str,
)
def test_tensors_with_channels_first_are_not_warned_about(shape: tuple[int, ...]) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        poolcli.avg_pool(np.zeros(shape), 1)
        poolcli.avg_pool(PHOTO, 2, layout="HWC")
        poolcli.avg_pool(PHOTO, 2, layout="NCW")
    assert [str(each.message) for each in found] == []


@pytest.mark.heavy
def test_dataarrays_and_zarr_arrays_are_read_by_the_names_of_their_dimensions() -> None:
    import xarray
    import zarr

    store = zarr.create_array({}, shape=PHOTO.shape, dtype="uint8", dimension_names=["y", "x", "c"])
    second = zarr.create_array({}, shape=PHOTO.shape, dtype="uint8", zarr_format=2)
    second.attrs["_ARRAY_DIMENSIONS"] = ["lat", "lon", "channel"]
    expected = poolcli.avg_pool(PHOTO, 2, strides=2, layout="HWC")
    arrays: list[Any] = [xarray.DataArray(PHOTO, dims=("y", "x", "c")), store, second]
    for x in arrays:
        np.testing.assert_array_equal(poolcli.avg_pool(x, 2, strides=2), expected)
    marked: Any = zarr.create_array({}, data=np.array([[1.0, -9], [3, 5]]), dimension_names=["lat", "lon"])
    assert poolcli.avg_pool(marked, 2).tolist() == [[0]]
    marked.attrs["_FillValue"] = "AAAAAAAAIsA="  # -9 as xarray writes it
    assert poolcli.avg_pool(marked, 2).tolist() == [[3]]
    labelled = poolcli.dask.avg_pool(xarray.DataArray(PHOTO, dims=("y", "x", "c")), 2, strides=2)
    assert (labelled.shape, labelled.dims) == ((3, 4, 3), ("y", "x", "c"))
    with pytest.warns(poolcli.LayoutWarning):
        poolcli.avg_pool(xarray.DataArray(np.zeros((8, 8, 3)), dims=("a1", "a2", "bands")), 2)
