"""Pooling of dask arrays: whatever the chunks, the bits that numpy arrays give, and no more work than that."""

from __future__ import annotations

from itertools import product
from typing import Any

import dask as dask_package
import dask.array as da
import numpy as np
import pytest
from dask._task_spec import Alias
from hypothesis import given, settings, strategies as st

import poolcli
import poolcli.dask
from poolcli import RequestError
from tests.profiles import sized

dask: Any = dask_package  # most of it has no types
from_array: Any = da.from_array
SHAPE = (2, 3, 23, 31)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "avg": ("avg_pool", {"kernel": 3, "strides": 2, "pads_begin": 1, "pads_end": 1}),
    "avg, blocks of rows": ("avg_pool", {"kernel": 9, "strides": 1, "pads_begin": 4, "pads_end": 4}),
    "avg, halves": ("avg_pool", {"kernel": 2, "strides": 2}),
    "avg, gaps": ("avg_pool", {"kernel": 2, "strides": 5}),
    "avg, missing": ("avg_pool", {"kernel": 3, "strides": 1, "missing": 3}),
    "avg, channels last": ("avg_pool", {"kernel": 3, "strides": 2, "layout": "NHWC"}),
    "max": ("max_pool", {"kernel": 3, "strides": 2, "pads_begin": 1, "pads_end": 1}),
    "max, dilated": ("max_pool", {"kernel": 3, "strides": 1, "dilations": 2, "rounding_type": "ceil"}),
    "max like TensorFlow": ("max_pool", {"kernel": 2, "strides": 2, "like": "tensorflow", "auto_pad": "same_upper"}),
    "min": ("min_pool", {"kernel": (2, 5), "strides": (1, 3)}),
    "mode": ("mode_pool", {"kernel": 2, "strides": 2}),
    "median": ("median_pool", {"kernel": 2, "strides": 2}),
    "std": ("std_pool", {"kernel": 5, "strides": 2, "pads_begin": 2}),
    "lp": ("lp_pool", {"kernel": 3, "strides": 2, "dtype": "float32"}),
    "adaptive-avg": ("adaptive_avg_pool", {"output_size": (7, 5)}),
    "adaptive-avg, up": ("adaptive_avg_pool", {"output_size": (50, 40)}),
    "adaptive-max": ("adaptive_max_pool", {"output_size": (5, 1)}),
}


@st.composite
def chunks(draw: st.DrawFn) -> tuple[tuple[int, ...], ...]:
    """Chunks of any lengths."""
    found = []
    for length in SHAPE:
        edges = sorted(draw(st.sets(st.integers(1, length - 1), max_size=4)))
        found.append(tuple(np.diff([0, *edges, length]).tolist()))
    return tuple(found)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=sized(1, 10), derandomize=True)
@given(chunked=chunks())
def test_any_chunks_give_the_bits_of_the_whole(name: str, chunked: Any) -> None:
    function, keywords = CASES[name]
    keywords = {**keywords, "engine": sized("numpy", "numba")}
    x = np.random.default_rng(0).integers(-9, 9, SHAPE, "int16")
    indexed = function in ("max_pool", "min_pool", "adaptive_max_pool")
    more: dict[str, Any] = {"return_indices": True} if indexed else {}
    expected = getattr(poolcli, function)(x, **keywords, **more)
    cut = from_array(x, chunks=chunked)
    lazy = getattr(poolcli.dask, function)(cut, **keywords, **more)
    alone = getattr(poolcli.dask, function)(cut, **keywords)
    expected, lazy = (expected, lazy) if indexed else ((expected,), (lazy,))
    for whole, parts in zip((*expected, expected[0]), (*lazy, alone), strict=True):
        assert (parts.shape, parts.dtype) == (whole.shape, whole.dtype)
        found = parts.compute(scheduler="sync")
        assert (found.dtype, found.tobytes()) == (whole.dtype, whole.tobytes())
        assert all(sum(lengths) == size for lengths, size in zip(parts.chunks, whole.shape, strict=True))
        blocks = dask.compute(*parts.to_delayed().ravel(), scheduler="sync")
        assert [block.shape for block in blocks] == list(product(*parts.chunks))


@pytest.mark.compiles
def test_windows_that_do_not_overlap_are_fused_with_what_surrounds_them() -> None:
    x = da.ones((1, 1, 256, 256), chunks=(1, 1, 64, 64), dtype="float32")
    y = poolcli.dask.avg_pool(x + 1, 2, strides=2) * 3
    (optimised,) = dask.optimize(y)
    tasks = [task for task in dict(optimised.__dask_graph__()).values() if not isinstance(task, Alias)]
    assert len(tasks) == y.npartitions == 16
    assert y.chunks == ((1,), (1,), (32,) * 4, (32,) * 4)
    assert (y.compute(scheduler="sync") == 6).all()


def test_windows_that_overlap_take_margins_of_neighbours_and_nothing_else() -> None:
    x = da.ones((1, 1, 4096), chunks=1024, dtype="uint8")
    y = poolcli.dask.max_pool(x, 3, strides=1, pads_begin=1, pads_end=1)
    tasks = {key: task for key, task in y.__dask_graph__().layers[y.name].items() if key[0] != y.name}
    # of blocks 1, 2 and 3 the beginning, and of 2 the end: windows are cut apart at multiples of 3
    taken = [(key[-1], [spans[-1] for spans in task[0].args[0]]) for key, task in tasks.items()]
    assert sorted(taken) == [(1, [(0, 3)]), (2, [(0, 2), (1023, 1024)]), (3, [(0, 1)])]
    assert y.chunks == ((1,), (1,), (1026, 1023, 1023, 1024))


def test_a_graph_has_at_most_three_keys_a_chunk() -> None:
    x = da.ones((120, 120, 120), chunks=10, dtype="uint8")
    y = poolcli.dask.max_pool(x, 3, strides=1, pads_begin=1, pads_end=1, layout="DHW")
    assert len(dict(y.__dask_graph__())) <= 3 * 12**3


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    def never(block: Any) -> Any:
        raise AssertionError("was computed")

    x = da.ones((1, 1, 64, 64), chunks=16).map_blocks(never, dtype="float64", meta=np.empty((0,) * 4))
    y = poolcli.dask.avg_pool(x, 3)
    assert (y.shape, y.dtype, type(y._meta)) == ((1, 1, 62, 62), np.float64, np.ndarray)
    with pytest.raises(AssertionError, match="was computed"):
        y.compute(scheduler="sync")


def test_equal_calls_are_one_and_other_calls_are_others() -> None:
    x = da.ones((1, 1, 64, 64), chunks=16)
    name = poolcli.dask.avg_pool(x, 3).name
    assert poolcli.dask.avg_pool(x, 3).name == name
    others = [
        poolcli.dask.avg_pool(x, 2), poolcli.dask.max_pool(x, 3), poolcli.dask.avg_pool(x, 3, strides=2),
        poolcli.dask.avg_pool(x, 3, dtype="float32"), poolcli.dask.avg_pool(x + 1, 3),
        poolcli.dask.avg_pool(x, 3, engine="numpy"),
    ]  # fmt: skip
    assert len({name, *(other.name for other in others)}) == 1 + len(others)


def test_an_empty_batch_stays_empty() -> None:
    x = da.ones((0, 2, 8, 8), chunks=(1, 2, 4, 4))
    assert poolcli.dask.avg_pool(x, 2).compute(scheduler="sync").shape == (0, 2, 7, 7)


def unknown() -> Any:
    x = da.ones((4, 1, 8), chunks=2)
    return x[x[:, 0, 0] > 0]


def masked() -> Any:
    return da.ma.masked_equal(da.ones((1, 1, 8), chunks=4), 1)


@pytest.mark.parametrize(
    ("make", "keywords", "message"),
    [
        (unknown, {}, "x has chunks of unknown lengths; call x.compute_chunk_sizes() first"),
        (masked, {}, "x has masked chunks, whose masks would be ignored; give dask.array.ma.filled(x, value) with "
         "missing=value, or dask.array.ma.getdata(x) for all"),
        (lambda: da.ones((1, 1, 8)), {"threads": 1}, "threads is chosen by dask; leave it out"),
        (lambda: da.ones((1, 1, 8)), {"kernel": 9}, "axis W is 8 long, kernel 9 without padding leaves no window; "
         "use kernel=8 or pads=1"),
        (lambda: da.ones((1, 1, 8)), {"engine": "gpu"}, "engine is 'gpu'; it must be one of auto, numba, numpy"),
    ],
    ids=["of unknown lengths", "masked", "threads", "too short", "engine"],
)  # fmt: skip
def test_what_cannot_be_pooled_is_refused_at_once(make: Any, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as refused:
        poolcli.dask.avg_pool(make(), **{"kernel": 2, **keywords})
    assert str(refused.value) == message


def test_whether_indices_are_wanted_is_true_or_false() -> None:
    pool: Any = poolcli.dask.max_pool
    with pytest.raises(RequestError, match=r"^return_indices is 'no'; it must be True or False$"):
        pool(da.ones((1, 1, 8)), 2, return_indices="no")


@pytest.mark.parametrize(("name", "missing"), [("filled", -9.0), ("getdata", None)])
def test_the_remedies_for_masked_chunks_are_accepted(name: str, missing: float | None) -> None:
    given = da.ma.masked_greater(da.arange(8.0, chunks=4).reshape(1, 1, 8), 3)
    x = getattr(da.ma, name)(given, *([missing] if missing else []))
    found = poolcli.dask.avg_pool(x, 2, missing=missing).compute(scheduler="sync")
    expected = {"filled": [0.5, 1.5, 2.5, 3, *[np.nan] * 3], "getdata": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]}
    np.testing.assert_array_equal(found, [[expected[name]]])


def labelled(values: Any) -> Any:
    """A DataArray of 5 x 4 with a coordinate of every kind."""
    import xarray

    times = np.array(["2020-01-01", "2020-01-03", "2020-01-05", "2020-01-07", "2020-01-09"], "datetime64[ns]")
    return xarray.DataArray(
        values,
        dims=("time", "x"),
        coords={
            "time": times, "x": ("x", [0.5, 1.5, 2.5, 3.5], {"units": "m"}), "word": ("x", list("abcd")), "place": 7,
            "both": (("time", "x"), np.ones((5, 4))),
        },
        attrs={"units": "K"}, name="t",
    )  # fmt: skip


@pytest.mark.heavy
@pytest.mark.parametrize("lazy", [True, False], ids=["of dask", "of numpy"])
def test_arrays_of_xarray_keep_what_they_say(lazy: bool) -> None:
    values = np.arange(20.0).reshape(5, 4)
    x = labelled(from_array(values, chunks=2) if lazy else values)
    with pytest.warns(UserWarning, match="left out: the coordinates word, both: only 1-D numbers"):
        y = poolcli.dask.avg_pool(x, 2, strides=2, pads_begin=(1, 0), rounding_type="ceil", layout="HW")
    with pytest.warns(UserWarning, match="^left out: ") as warned:
        _, at = poolcli.max_pool(x, 2, layout="HW", return_indices=True)
    assert (len(warned), at.name, sorted(at.coords)) == (1, "t", ["place", "time", "x"])
    assert (type(y), y.dims, y.attrs, y.name) == (type(x), ("time", "x"), {"units": "K"}, "t")
    assert isinstance(y.data, da.Array) is lazy
    expected = poolcli.avg_pool(values, 2, strides=2, pads_begin=(1, 0), rounding_type="ceil", layout="HW")
    np.testing.assert_array_equal(y.values, expected)
    days = np.array(["2020-01-01", "2020-01-04", "2020-01-08"], "datetime64[ns]")
    np.testing.assert_array_equal(y.coords["time"].values, days)
    assert (y.coords["x"].values.tolist(), y.coords["x"].attrs) == ([1, 3], {"units": "m"})
    assert sorted(y.coords) == ["place", "time", "x"]
    assert y.coords["place"].item() == 7
    _, places = poolcli.dask.max_pool(x.drop_vars(["word", "both"]), 2, return_indices=True, axis=0, layout="HW")
    assert places.values.tolist() == [[5, 6, 7], [9, 10, 11], [13, 14, 15], [17, 18, 19]]
    assert places.coords["x"].values.tolist() == [1, 2, 3]
