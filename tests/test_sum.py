"""Sums of windows. What holds of every operator is tested with the others."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from poolcli import AvgPool, RequestError, SumPool, sum_pool
from poolcli.arguments import DType, DTypeName, Engine
from poolcli.dtypes import numpy_dtype
from tests.profiles import by_engine
from tests.reducers import by_loop

DTYPES = [(name,) for name in get_args(DTypeName)]
OPS = (
    SumPool(2, strides=2),
    SumPool(3, strides=2, pads=1),
    SumPool((2, 3, 1), strides=1, dilations=2),
    SumPool(3, strides=4, rounding_type="ceil"),
)


@pytest.mark.parametrize("padded", [{}, {"exclude_pad": False}, {"divisor_override": 5}])
def test_sums_over_the_divisors_of_a_plan_are_means(padded: Any) -> None:
    x, words = np.arange(63.0).reshape(1, 1, 7, 9), dict[str, Any](strides=2, pads=1, rounding_type="ceil")
    op: Any = AvgPool(3, **words, **padded)
    np.testing.assert_allclose(sum_pool(x, 3, **words) / op.plan(x.shape).divisors, op(x), rtol=1e-12)
    assert (op.plan(x.shape).divisors.shape, SumPool(3).plan(x.shape).divisors) == ((1, 1, 4, 5), None)


def numbers(dtype: str, shape: tuple[int, ...] = (2, 2, 6, 7, 9)) -> Any:
    """Numbers of every size that a type has, of which sums stay within 64 bits."""
    rng = np.random.default_rng(5)
    if "float" in dtype:
        return (rng.standard_normal(shape) * 2.0 ** rng.integers(-8, 8, shape)).astype(numpy_dtype(dtype))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(dtype)
    low, high = np.iinfo(dtype).min // 32, np.iinfo(dtype).max // 32
    return rng.integers(low, high, shape, np.dtype(dtype))


@pytest.mark.parametrize(("dtype", "engine"), by_engine(*DTYPES, compiled=(("uint8",), ("float32",))))
def test_sums_are_those_of_exact_fractions(dtype: DTypeName, engine: Engine) -> None:
    x = numbers(dtype)
    for op in OPS:
        found, exact = op(x, engine=engine), np.array(by_loop(op.plan(x.shape, x.dtype), x)[0])
        wanted = exact.astype(np.float64).astype(x.dtype) if "float" in dtype else exact.astype(found.dtype)
        np.testing.assert_array_equal(found.ravel(), wanted, str(op))


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_a_sum_beyond_64_bits_is_refused_and_never_wrong(engine: Engine) -> None:
    end = np.iinfo(np.int64).max
    x = np.array([[[end, 1, -2, end, end]]])
    assert sum_pool(x, 3, strides=2, dtype="float64", engine=engine).tolist() == [[[2.0**63, 2.0**64]]]
    assert sum_pool(x[..., :4], 3, engine=engine).tolist() == [[[end - 1, end - 1]]]
    with pytest.raises(RequestError) as refused:
        sum_pool(x, 3, engine=engine)
    message = f"a sum is {2 * end - 2}, and int64 holds {-end - 1} to {end}; use dtype='float64'"
    assert str(refused.value) == message
    assert sum_pool(x, 3, missing=end, engine=engine).tolist() == [[[-1, -1, -2]]]  # none of them is ever added


@pytest.mark.parametrize(
    ("dtype", "wanted", "fits"),
    [("uint8", "uint16", True), ("uint8", "uint8", False), ("int32", "int32", False), ("int32", "int64", True),
     ("uint32", "int64", True), ("uint64", "int64", False), ("int64", "uint64", False), ("float32", "int64", False),
     ("uint8", "bool", False), ("bool", "uint8", True)],
)  # fmt: skip
def test_a_type_that_cannot_hold_every_sum_is_refused(dtype: DType, wanted: DType, fits: bool) -> None:
    if fits:
        assert SumPool(3).plan((1, 1, 9, 9), dtype, output_dtype=wanted).output_dtype == wanted
        return
    with pytest.raises(RequestError, match=str(wanted)):
        SumPool(3).plan((1, 1, 9, 9), dtype, output_dtype=wanted)


def test_sums_of_an_image_are_written_where_a_format_has_64_bits(cli: Any, tmp_path: Any) -> None:
    from PIL import Image

    source, written, image = (tmp_path / name for name in ("x.png", "y.npy", "y.png"))

    pixels = np.random.default_rng(0).integers(0, 256, (6, 6, 4)).astype(np.uint8)
    Image.fromarray(pixels, "RGBA").save(source)
    assert cli("sum", source, "-o", written, "-k", "3", "-s", "3").code == 0
    np.testing.assert_array_equal(np.load(written)[0], pixels.reshape(2, 3, 2, 3, 4).sum((1, 3)).transpose(2, 0, 1))
    refused = cli("sum", source, "-o", image, "-k", "3", "-s", "3")
    assert (refused.code, "uint64" in refused.err) == (2, True), refused.err
