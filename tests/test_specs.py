"""The worked examples of the specification texts, with the outputs that OpenVINO really gives."""

from __future__ import annotations

import numpy as np
import pytest

from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, adaptive_avg_pool, adaptive_max_pool, avg_pool
from poolcli.arguments import Engine

ENGINES = ("numpy", "numba")

# kernel, strides, pads, auto_pad: true output, resolved pads at the beginning and the end
AVG_POOL_1 = {
    "example 1, printed as 32x32": ((2, 2, (0, 1), "same_upper"), (16, 16), (0, 0)),
    "example 2, printed as 32x32": ((5, 2, (0, 1), "same_upper"), (16, 16), (1, 2)),
    "example 3": ((5, 3, (1, 1), "explicit"), (10, 10), (1, 1)),
    "example 4": ((5, 2, (1, 1), "explicit"), (15, 15), (1, 1)),
    "example 5, whose pads are ignored": ((5, 2, (1, 1), "valid"), (14, 14), (0, 0)),
}


@pytest.mark.parametrize(("attributes", "output", "pads"), AVG_POOL_1.values(), ids=AVG_POOL_1)
def test_avgpool_1_examples_on_32_by_32(
    attributes: tuple[int, int, tuple[int, int], str], output: tuple[int, int], pads: tuple[int, int]
) -> None:
    kernel, strides, (begin, end), auto_pad = attributes
    plan = AvgPool(kernel, strides=strides, pads_begin=begin, pads_end=end, auto_pad=auto_pad).plan((1, 3, 32, 32))
    assert plan.output_shape == (1, 3, *output)
    assert (plan.attributes["pads_begin"], plan.attributes["pads_end"]) == ([pads[0]] * 2, [pads[1]] * 2)
    ignored = f"the given pads are ignored: auto_pad {auto_pad} sets them"
    assert (ignored in plan.notes) == (auto_pad != "explicit")


@pytest.mark.parametrize("record", [AdaptiveAvgPool, AdaptiveMaxPool])
def test_adaptive_8_examples_on_32_by_32_give_16_by_16(record: type[AdaptiveAvgPool | AdaptiveMaxPool]) -> None:
    assert record((16, 16)).plan((1, 3, 32, 32)).output_shape == (1, 3, 16, 16)


@pytest.mark.parametrize("engine", ENGINES)
def test_adaptive_8_formulas_on_5_elements_to_3(engine: Engine) -> None:
    x = np.array([[[1, 5, 2, 7, 3]]], np.float32)
    # windows [0,2) [1,4) [3,5)
    assert adaptive_avg_pool(x, 3, engine=engine).tolist() == [[[3.0, np.float32(14 / 3), 5.0]]]
    values, indices = adaptive_max_pool(x, 3, return_indices=True, engine=engine)
    assert (values.tolist(), indices.tolist()) == ([[[5, 7, 7]]], [[[1, 3, 3]]])


NGRAPH_INPUT = np.array([[1, 3, 5], [7, 11, 13], [17, 19, 23]], np.float32)[None, None]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("exclude", "expected"),
    [
        (True, [[1, 2, 4], [4, 5.5, 8], [12, 13.5, 16.5]]),
        (False, [[0.25, 1, 2], [2, 5.5, 8], [6, 13.5, 16.5]]),
    ],
    ids=["padding left out: corner 1", "padding counted: corner 0.25"],
)
def test_ngraph_avgpool_example_with_padding_below_only(
    engine: Engine, exclude: bool, expected: list[list[float]]
) -> None:
    y = avg_pool(NGRAPH_INPUT, 2, strides=1, pads_begin=1, exclude_pad=exclude, like="ngraph", engine=engine)
    assert y[0, 0].tolist() == expected


@pytest.mark.parametrize(
    ("n", "w", "s", "p", "q"), [(32, 5, 3, 1, 1), (7, 2, 2, 0, 0), (9, 4, 5, 2, 1), (1, 1, 1, 0, 0)]
)
def test_ngraph_output_shape_is_the_ceiling_of_its_text(n: int, w: int, s: int, p: int, q: int) -> None:
    output = AvgPool(w, strides=s, pads_begin=p, pads_end=q, like="ngraph").plan((1, 1, n)).output_shape[2]
    assert output == -(-(p + n + q - w + 1) // s)
