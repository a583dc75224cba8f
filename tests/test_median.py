"""Medians of windows. What holds of every operator is tested with the others."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from poolcli import MedianPool, RequestError, median_pool
from poolcli.arguments import DType, DTypeName
from poolcli.engine import run
from poolcli.engine.numpy import statistics
from tests.engine.test_kernels import name_of, watched
from tests.reducers import by_loop
from tests.test_std import of_all_kinds
from tests.test_sum import numbers

DTYPES = [name for name in get_args(DTypeName) if name != "bool"]
OPS = (
    MedianPool(2, strides=2),
    MedianPool(3, strides=2, pads=1),
    MedianPool((2, 3, 1), strides=1, pads_begin=(1, 2, 0), pads_end=0, dilations=2),
    MedianPool(4, strides=3, pads_begin=1, pads_end=2),
)


@pytest.mark.parametrize("dtype", DTYPES)
def test_medians_are_those_of_exact_fractions(dtype: DTypeName) -> None:
    x = numbers(dtype, (1, 2, 5, 6, 7))
    for op in OPS:
        exact, _ = by_loop(op.plan(x.shape, x.dtype), x)
        wanted = np.array([round(middle) if x.dtype.kind in "iu" else float(middle) for middle in exact], x.dtype)
        np.testing.assert_array_equal(op(x).ravel(), wanted, str(op))
        np.testing.assert_array_equal(np.moveaxis(op(np.moveaxis(x, 1, -1), layout="NDHWC"), -1, 1), op(x))


@pytest.mark.parametrize(
    ("x", "dtype", "expected"),
    [
        (np.array([2**63 - 1, 2**63 - 2]), None, 2**63 - 2),
        (np.array([2**64 - 1, 2**64 - 2], "uint64"), "float64", 2.0**64),
        (np.array([2**53 + 1, 2**53 + 2]), "float64", 2.0**53 + 2),
        (np.array([-3, -2], "int8"), None, -2),
        (np.array([-1, 0], "int8"), "float16", -0.5),
        (np.array([0, 1], bool), "float32", 0.5),
        (np.array([1.5e308, 1.7e308]), None, 1.6e308),
        (np.array([5e-324, 1e-323]), None, 1e-323),
        (np.array([1, 1 + 2**-23 + 2**-52]), "float32", 1 + 2**-23),
        (np.array([-np.inf, 1, np.inf]), None, 1),
        (np.array([np.nan, 1, 2]), None, np.nan),
        (np.array([-0.0, -0.0]), None, 0.0),
    ],
)
def test_the_middle_two_are_averaged_exactly_and_rounded_once(x: Any, dtype: DType | None, expected: float) -> None:
    found = median_pool(x[None, None], x.size, dtype=dtype)
    np.testing.assert_array_equal(found, np.array([[[expected]]], found.dtype))
    assert not np.signbit(found[found == 0]).any()


@pytest.mark.compiles
def test_kernels_average_float64_whose_sum_overflows() -> None:
    x = np.array([[1.5e308, 1.7e308], [-1.7e308, -1.2e308], [1.7e308, -1.7e308], [np.inf, 1], [5e-324, 1e-323]])
    found = median_pool(x[:, None], 2, engine="numba")
    assert found.ravel().tolist() == [1.6e308, -1.45e308, 0, np.inf, 1e-323]


def test_missing_elements_and_padding_have_no_part_in_a_median() -> None:
    x = np.array([[[9, -9, 4, 1, -9, -9, -9, -9]]], "int16")
    assert median_pool(x, 3, strides=3, pads_begin=1, missing=-9).tolist() == [[[9, 2, -9]]]
    assert median_pool(x.astype("float32"), 2, strides=2, missing=-9).tolist()[0][0][:2] == [9, 2.5]


def test_windows_are_taken_in_blocks_of_so_many_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def seen(elements: Any, *rest: Any) -> Any:
        sizes.append(elements.size)
        return statistics.median(elements, *rest)

    monkeypatch.setattr(statistics, "BLOCK_ELEMENTS", 1000)
    monkeypatch.setitem(statistics.STATISTICS, "median", seen)
    x = np.random.default_rng(0).random((1, 1, 30, 30))
    expected = np.median(np.lib.stride_tricks.sliding_window_view(x[0, 0], (3, 3)), axis=(2, 3))
    np.testing.assert_array_equal(median_pool(x, 3, engine="numpy")[0, 0], expected)
    assert sizes == [999] * 7 + [9 * (28 * 28 - 7 * 111)]


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32", "float64"])
def test_both_engines_give_the_same_bits(dtype: DTypeName) -> None:
    made = None if "float" in dtype else "float32"  # windows of nothing have no integer
    for op, layout, shape, output in (
        (MedianPool(3, strides=1, pads=1), "HW", (9, 3000), None),
        (MedianPool(2, strides=3, pads=1, dilations=2, rounding_type="ceil"), "HWC", (31, 47, 3), made),
        (MedianPool((2, 4, 6), strides=(1, 2, 1), pads=1), "NCDHW", (1, 2, 5, 6, 41), None),
        (MedianPool((7, 7)), "NCHW", (2, 3, 7, 7), None),
        (MedianPool(3, strides=1, pads=3), "NCW", (2, 3, 7), made),
        (MedianPool(2, strides=1, pads=1, dilations=2), "NCW", (2, 3, 1), made),
        (MedianPool(4, strides=1, pads=3, dilations=2), "NCW", (2, 3, 6), None),
    ):
        plan = op.plan(shape, dtype, layout=layout, output_dtype=output)
        for x in of_all_kinds(dtype, shape):
            with watched() as taken:
                found = run(plan, x, engine="numba", threads=2)[0]
            assert {name_of(one) for one in taken} == {"median"}
            assert found.tobytes() == run(plan, x, engine="numpy")[0].tobytes(), op


def test_an_engine_that_has_no_medians_gives_way(cli: Any, tmp_path: Any) -> None:
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, np.random.default_rng(2).standard_normal((1, 2, 30, 30)).astype(np.float32))
    shown = cli("median", x, "-o", y, "-k", "8", "-s", "2", "-p", "1", "--engine", "numba")
    reason = "computed by numpy: numba computes medians of up to 49 elements, the windows have 64"
    assert (shown.code, reason in " ".join(shown.out.split())) == (0, True), shown
    assert cli("shape", "median", "1,1,9,9", "-k", "2", "--to", "pytorch").out.splitlines()[-1] == (
        "none: PyTorch has no median pooling"
    )


def test_what_has_no_median_is_refused() -> None:
    with pytest.raises(RequestError) as refused:
        MedianPool(2, strides=4, rounding_type="ceil").plan((1, 1, 7), "uint8")
    assert str(refused.value) == (
        "1 window holds no input element, and uint8 has no value for the median of an empty window; "
        "use rounding_type='floor' or ceil_torch, smaller pads, or dtype='float32'"
    )
    with pytest.raises(RequestError, match=r"^a median of bool needs a number type"):
        MedianPool(2).plan((1, 1, 7), "bool")
