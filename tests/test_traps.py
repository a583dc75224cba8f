"""Where pooling code goes wrong, one test a trap; on both engines where something is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import poolcli
from poolcli import AdaptiveAvgPool, AvgPool, MaxPool, RequestError, adaptive_avg_pool, avg_pool, max_pool
from poolcli.arguments import DTypeName, Engine, Like
from tests.profiles import slow

nan, inf = np.nan, np.inf
LATER = ["numpy", slow("numba")]  # of types whose kernels only full runs compile


@pytest.fixture(params=["numpy", "numba"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def line(*values: float, dtype: str = "float32") -> Any:
    return np.array(values, dtype).reshape(1, 1, -1)


def flat(y: Any) -> list[Any]:
    return [None if v != v else v for v in y.ravel().tolist()]


@pytest.mark.parametrize(("like", "last"), [("openvino", 4 / 3), ("ngraph", 4 / 3), ("onnx", 2), ("pytorch", 2)])
def test_the_overhang_of_a_ceil_window_is_counted_by_dialect(engine: Engine, like: Like, last: float) -> None:
    y = avg_pool(
        line(1, 2, 3, 4), 3, strides=2, pads_begin=1, pads_end=1, rounding_type="ceil", exclude_pad=False,
        like=like, engine=engine,
    )  # fmt: skip
    assert flat(y) == [1, 3, np.float32(last)]


def test_without_any_pad_include_counts_no_overhang(engine: Engine) -> None:
    y = avg_pool(line(1, 2, 3, 4), 3, strides=2, rounding_type="ceil", exclude_pad=False, engine=engine)
    assert flat(y) == [2, 3.5]


def test_one_pad_on_one_axis_makes_the_overhang_of_the_other_count(engine: Engine) -> None:
    x = np.arange(1, 26, dtype=np.float32).reshape(1, 1, 5, 5)
    options: dict[str, Any] = {"strides": 2, "rounding_type": "ceil", "exclude_pad": False, "engine": engine}
    assert avg_pool(x, 2, **options)[0, 0, :, 2].tolist() == [7.5, 17.5, 25]
    assert avg_pool(x, 2, pads_begin=(1, 0), **options)[0, 0, :, 2].tolist() == [1.25, 6.25, 11.25]


def test_ceil_keeps_a_window_past_the_input_and_ceil_torch_drops_it(engine: Engine) -> None:
    x = line(1, 2, 3, 4, 5)
    options: dict[str, Any] = {"strides": 3, "pads_begin": 1, "engine": engine}
    assert flat(avg_pool(x, 2, rounding_type="ceil", **options)) == [1, 2.5 + 1, None]
    assert flat(avg_pool(x, 2, rounding_type="ceil_torch", **options)) == [1, 3.5]
    assert flat(avg_pool(x, 2, rounding_type="ceil", exclude_pad=False, **options)) == [0.5, 3.5, 0]


def test_ceil_torch_can_give_fewer_windows_than_floor() -> None:
    shapes = [
        AvgPool(2, strides=2, pads_begin=0, pads_end=4, rounding_type=word, exclude_pad=False)
        .plan((1, 1, 8))
        .output_shape[2]
        for word in ("floor", "ceil", "ceil_torch")
    ]
    assert shapes == [6, 6, 5]


def test_same_upper_with_ceil_can_add_an_empty_window(engine: Engine) -> None:
    y = avg_pool(line(*range(1, 9)), 1, strides=3, auto_pad="same_upper", rounding_type="ceil", engine=engine)
    assert flat(y) == [1, 4, 7, None]


@pytest.mark.parametrize("engine", LATER)
@pytest.mark.parametrize(
    ("dtype", "value"), [("uint8", 255), ("int8", -128), ("uint16", 65535), ("int32", 2**31 - 1), ("uint64", 2**64 - 1)]
)
def test_sums_of_integers_do_not_overflow(engine: Engine, dtype: DTypeName, value: int) -> None:
    x = np.full((1, 1, 64, 64), value, dtype)
    assert avg_pool(x, 64, engine=engine).tolist() == [[[[value]]]]
    assert adaptive_avg_pool(x, 1, engine=engine).tolist() == [[[[value]]]]


def test_integers_round_half_to_even_with_negatives(engine: Engine) -> None:
    halves = line(0, 1, 1, 2, 2, 3, 3, 4, 0, -1, -1, -2, -2, -3, dtype="int16")
    assert flat(avg_pool(halves, 2, strides=2, engine=engine)) == [0, 2, 2, 4, 0, -2, -2]


@pytest.mark.parametrize("engine", LATER)
def test_integers_beyond_2_to_the_53_keep_every_digit(engine: Engine) -> None:
    x = line(2**62 + 1, 2**62 + 3, -(2**63), 2**63 - 1, dtype="int64")
    assert flat(max_pool(x, 2, strides=2, engine=engine)) == [2**62 + 3, 2**63 - 1]
    assert flat(avg_pool(x, 2, strides=2, engine=engine)) == [2**62 + 2, 0]


def test_the_first_of_equal_maxima_in_row_major_order_wins(engine: Engine) -> None:
    x = np.array([[1, 7, 7], [7, 7, 7], [7, 0, 7]], np.int32)[None, None]
    _, indices = max_pool(x, 2, strides=1, return_indices=True, engine=engine)
    assert indices[0, 0].tolist() == [[1, 1], [3, 4]]


def test_nan_wins_and_the_first_nan_has_the_index(engine: Engine) -> None:
    values, indices = max_pool(line(1, nan, 9, nan, 3), 4, strides=1, return_indices=True, engine=engine)
    assert (flat(values), indices.ravel().tolist()) == ([None, None], [1, 1])


def test_minus_infinity_is_a_value_and_has_its_position(engine: Engine) -> None:
    values, indices = max_pool(line(-inf, -inf, -inf, 2), 2, strides=2, return_indices=True, engine=engine)
    assert (flat(values), indices.ravel().tolist()) == ([-inf, 2], [0, 3])


def test_a_maximum_of_nothing_is_the_lowest_value_at_minus_1(engine: Engine) -> None:
    options: dict[str, Any] = {"strides": 1, "pads_begin": 2, "return_indices": True, "engine": engine}
    for dtype, lowest in (("float32", -inf), ("int8", -128), ("uint8", 0)):
        values, indices = max_pool(line(5, dtype=dtype), 1, **options)
        assert (flat(values), indices.ravel().tolist()) == ([lowest, lowest, 5], [-1, -1, 0])


@pytest.mark.parametrize("engine", LATER)
def test_float16_is_summed_wider_than_it_is_stored(engine: Engine) -> None:
    x = np.full((1, 1, 100, 100), 60000, np.float16)
    assert avg_pool(x, 100, engine=engine).tolist() == [[[[60000]]]]
    ones = np.ones((1, 1, 4096), np.float16)
    ones[..., 0] = 2
    assert avg_pool(ones, 4096, dtype="float32", engine=engine).item() == np.float32(4097 / 4096)


@pytest.mark.parametrize("shape", [(0, 3, 8), (2, 0, 8)])
def test_a_batch_or_channel_of_0_gives_an_empty_result(engine: Engine, shape: tuple[int, ...]) -> None:
    y, at = max_pool(np.zeros(shape, np.float32), 2, strides=2, return_indices=True, engine=engine)
    assert y.shape == at.shape == (*shape[:2], 4)


@pytest.mark.parametrize("size", [2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1])
def test_sizes_near_2_to_the_31_and_63_are_answered_at_once(size: int) -> None:
    plan = AvgPool(3, strides=2, pads=1, rounding_type="ceil").plan((1, 1, size, 4))
    assert plan.output_shape == (1, 1, -(-(size - 1) // 2) + 1, 3)
    pads = MaxPool(2, strides=3, pads=size, dilations=5).plan((1, 1, 4))
    assert pads.output_shape == (1, 1, (4 + 2 * size - 6) // 3 + 1)
    assert pads.empty_windows > 0
    assert AdaptiveAvgPool(size).plan((1, 1, 7)).axes[0].windows.span(size - 1) == range(6, 7)


def test_a_result_that_cannot_be_allocated_is_refused_by_its_size() -> None:
    with pytest.raises(RequestError, match=r"^the output needs [\d,]+ bytes, more than can be allocated$"):
        max_pool(line(1), 1, strides=1, pads_begin=2**60)
    with pytest.raises(RequestError, match=r"^axis W with its pads is 2\*\*62 or longer; only `shape` answers"):
        max_pool(line(1), 1, strides=2**61, pads_begin=2**63 - 1)


def test_a_kernel_far_longer_than_the_input_costs_no_more_than_the_input(engine: Engine) -> None:
    x = line(1, 2, 3)
    y = avg_pool(x, 2**40, strides=1, pads_begin=2**40 - 1, pads_end=0, exclude_pad=False, engine=engine)
    assert flat(y) == [np.float32(v / 2**40) for v in (1, 3, 6)]


@pytest.mark.parametrize("like", ["openvino", "pytorch", "tensorflow"])
def test_indices_count_from_the_base_of_the_dialect(engine: Engine, like: Like) -> None:
    x = np.arange(2 * 3 * 2 * 2, dtype=np.float32).reshape(2, 3, 2, 2)
    _, at = max_pool(x, 2, strides=2, return_indices=True, like=like, engine=engine)
    expected = {
        "openvino": [3, 7, 11, 15, 19, 23],
        "pytorch": [3] * 6,
        "tensorflow": [9, 10, 11, 9, 10, 11],
    }[like]
    assert at.ravel().tolist() == expected


@pytest.mark.parametrize(("axis", "expected"), [(0, [3, 7, 11, 15]), (1, [3, 7, 3, 7]), (2, [3] * 4), (3, [1] * 4)])
def test_indices_follow_axis(engine: Engine, axis: int, expected: list[int]) -> None:
    x = np.arange(16, dtype=np.float32).reshape(2, 2, 2, 2)
    for word in (axis, axis - 4):
        _, at = max_pool(x, 2, strides=2, axis=word, return_indices=True, engine=engine)
        assert at.ravel().tolist() == expected


@pytest.mark.parametrize(
    ("layout", "arguments", "expected"),
    [("HW", {"like": "tensorflow"}, [5, 7, 13, 15]), ("NHW", {"axis": 0}, [3, 7])],
    ids=["channels last", "batch"],
)
def test_an_array_without_channels_has_indices_as_with_one_channel(
    engine: Engine, layout: str, arguments: dict[str, Any], expected: list[int]
) -> None:
    x = np.arange(16 if layout == "HW" else 8, dtype=np.float32).reshape((4, 4) if layout == "HW" else (2, 2, 2))
    _, at = max_pool(x, 2, strides=2, layout=layout, return_indices=True, engine=engine, **arguments)
    assert at.ravel().tolist() == expected


def test_four_spatial_axes_are_pooled_too(engine: Engine) -> None:
    x = np.random.default_rng(0).integers(0, 99, (1, 2, 4, 4, 4, 6)).astype(np.float64)
    y = poolcli.avg_pool(x, 2, strides=2, engine=engine)
    np.testing.assert_array_equal(y, x.reshape(1, 2, 2, 2, 2, 2, 2, 2, 3, 2).mean((3, 5, 7, 9)))


def test_arrays_are_not_changed_and_not_copied_when_they_lie_well(engine: Engine) -> None:
    x = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
    x.flags.writeable = False
    before = x.tobytes()
    avg_pool(x, 2, strides=2, engine=engine)
    assert x.tobytes() == before
