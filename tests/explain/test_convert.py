"""Conversions, held against the planner and against the frameworks that they are for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AreaPool, AvgPool, LpPool, MaxPool, MinPool, RequestError, SumPool
from poolcli.dialects import DIALECTS
from poolcli.engine import run
from poolcli.explain.export import WRITERS, convert, one_operator
from poolcli.plan import Plan, make_plan
from tests.conftest import Cli
from tests.explain import pasted
from tests.explain.drawn import plans
from tests.profiles import sized


def _answer(plan: Plan, x: Any) -> Any:
    return run(plan, x, engine="numpy")[0]


@pytest.mark.slow
@settings(max_examples=sized(15, 150), derandomize=True)
@given(plans())
def test_what_is_pasted_into_a_framework_gives_the_same_numbers_there(plan: Plan | None) -> None:
    if plan is None or plan.empty_windows:
        return  # windows of nothing are rows of the table of differences
    x = np.random.default_rng(0).standard_normal(plan.input_shape).astype(np.float32)
    expected = _answer(plan, x)
    frameworks: dict[str, Any] = {"onnx": pasted.onnx_runtime, "openvino": pasted.openvino}
    if find_spec("torch"):
        frameworks["pytorch"] = pasted.pytorch
    if find_spec("tensorflow"):
        frameworks["tensorflow"] = pasted.tensorflow
    for like, ask in frameworks.items():
        found = convert(plan, like)
        assert found.text, (plan.attributes, found)
        np.testing.assert_allclose(ask(found.text, x), expected, 1e-5, 1e-6, err_msg=f"{plan.attributes}: {found.text}")


def _behaviour(plan: Plan) -> tuple[object, ...]:
    """What each window reads, and what it is divided by, counted one by one."""
    reads = tuple(tuple(tuple(w.span(o)) for o in range(w.output)) for w in plan.windows)
    if not plan.reducer.divides:
        return plan.reducer.name, reads
    every = product(*(range(w.output) for w in plan.windows))
    divisors = (prod(w.divisor(o) for w, o in zip(plan.windows, at, strict=True)) for at in every)
    return plan.reducer.name, reads, tuple(plan.divisor_override or divisor for divisor in divisors)


def _every_plan(like: str, shape: tuple[int, ...]) -> Iterator[Plan]:
    """What a dialect can write with small numbers, equal on all axes: in quick runs every fifth."""
    dialect, size = DIALECTS[like], shape[2]
    numbers = product(range(1, size + 3), range(1, size + 2), (1, 2), range(3), range(3), dialect.rounding_types)
    for kernel, stride, dilation, begin, end, rounding in list(numbers)[:: sized(5, 1)]:
        shared: dict[str, Any] = {"dilations": dilation, "rounding_type": rounding, "like": like}
        made: list[Any] = [MaxPool(kernel, strides=stride, pads_begin=begin, pads_end=end, **shared)]
        made += [
            AvgPool(kernel, strides=stride, pads_begin=begin, pads_end=end, exclude_pad=exclude, **shared)
            for exclude in (True, False)
        ]
        for op in made:
            with suppress(RequestError):
                yield op.plan(shape)
    for adaptive, output in product((AdaptiveAvgPool, AdaptiveMaxPool), range(1, size + 2)):
        with suppress(RequestError):
            yield adaptive(output, like=like).plan(shape)


@pytest.mark.parametrize("shape", [(1, 1, 3), pytest.param((1, 1, 2, 2), marks=pytest.mark.slow)])
def test_what_a_framework_can_compute_is_converted_to_it(shape: tuple[int, ...]) -> None:
    have: dict[str, dict[object, Plan]] = {}
    for like in DIALECTS:
        found = (plan for plan in _every_plan(like, shape) if not plan.empty_windows)
        have[like] = {_behaviour(plan): plan for plan in found if WRITERS[like].cannot_write(plan) is None}
    every = {key: plan for plans in have.values() for key, plan in plans.items()}
    for behaviour, plan in list(every.items())[:: sized(24, 10)]:
        for like in sorted(DIALECTS.keys() - {"ngraph"}):  # which has no padding by itself
            made: Any = convert(plan, like)
            assert made.text or behaviour not in have[like], (plan.attributes, have[like][behaviour].attributes)
            assert made.op is None or _behaviour(made.op.plan(shape)) == behaviour, (plan.attributes, made.op)


def test_poolings_over_more_than_three_axes_have_no_call() -> None:
    found = convert(MaxPool(2).plan((1, 1, 4, 4, 4, 4)), "onnx")
    assert (found.text, found.reason) == (None, "ONNX Runtime has pooling for 1 to 3 spatial axes only")


@pytest.mark.parametrize("like", ["onnx", "openvino", "pytorch", "tensorflow"])
@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (AdaptiveAvgPool((4, 4)), (1, 1, 10, 11)),
        (AvgPool(3, strides=2, pads_begin=1, pads_end=0, rounding_type="ceil"), (1, 1, 9, 8)),
        (AvgPool(2, strides=2, divisor_override=3), (1, 1, 8)),
    ],
    ids=["matrices", "quotient", "factor"],
)
def test_averages_of_integers_are_not_composed_with_weights_that_would_be_truncated(
    op: Any, shape: tuple[int, ...], like: str
) -> None:
    """x.new_full((1, 1, 2), 0.5) of an integer tensor x is 0."""
    found = convert(op.plan(shape, "int64"), like)
    assert found.text is None or found.op is not None


def test_averages_of_integers_are_composed_with_padding() -> None:
    found = convert(
        AvgPool(2, strides=2, pads_begin=3, pads_end=2, exclude_pad=False).plan((1, 1, 9), "int64"), "pytorch"
    )
    assert found.text == (
        "torch.nn.functional.avg_pool1d(torch.nn.functional.pad(x, (3, 2), value=0), 2, stride=2, padding=0, "
        "ceil_mode=False, count_include_pad=False)"
    )


@pytest.mark.parametrize(
    ("op", "shape", "like", "expected"),
    [
        (AdaptiveAvgPool(3), (1, 1, 5, 5), "onnx", {"kernel": (3, 3), "strides": (2, 2), "pads_begin": (1, 1)}),
        (AdaptiveAvgPool(2**61 + 1), (1, 1, 2**61), "onnx", {"kernel": (2,), "strides": (1,), "pads_begin": (1,)}),
        (MaxPool(1, strides=2, dilations=3), (1, 1, 9), "ngraph", {"kernel": (1,), "dilations": (1,)}),
        (MaxPool(3, strides=2, pads_begin=0, pads_end=1), (1, 1, 8, 8, 8), "pytorch", {"pads_end": (0, 0, 0),
            "rounding_type": "ceil"}),
        (AvgPool(2, strides=2, divisor_override=4, like="pytorch"), (1, 1, 9, 9), "onnx", {"kernel": (2, 2)}),
    ],
    ids=["bins-padded", "bins-huge", "dilated-1", "overhang", "no-override"],
)  # fmt: skip
def test_equivalents_are_other_numbers_and_other_operators(
    op: Any, shape: tuple[int, ...], like: str, expected: dict[str, object]
) -> None:
    found = one_operator(op.plan(shape), DIALECTS[like], [])
    assert found
    assert {name: getattr(found.op, name, None) for name in expected} == expected


def test_one_output_of_adaptive_windows_is_written_for_axes_of_any_length() -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 6)).astype(np.float32)
    for op, there, name in (
        (AdaptiveAvgPool(1), "GlobalAveragePool", "reduce_mean"), (AdaptiveMaxPool(1), "GlobalMaxPool", "reduce_max")
    ):  # fmt: skip
        plan = op.plan(x.shape)
        text = convert(plan, "onnx").text
        assert text == f'onnx.helper.make_node("{there}", ["x"], ["y"])'
        np.testing.assert_allclose(pasted.onnx_runtime(text, x), _answer(plan, x), 1e-5, 1e-6)
        assert convert(plan, "tensorflow").text == f"tf.{name}(x, [1, 2], keepdims=True)"


def test_same_upper_becomes_explicit_pads_where_the_framework_has_no_other_form() -> None:
    plan = AvgPool(3, strides=2, auto_pad="same_upper").plan((1, 1, 10, 10))
    assert convert(plan, "tensorflow").text == 'tf.nn.avg_pool2d(x, [3, 3], [2, 2], "SAME", data_format="NHWC")'
    text = convert(plan, "onnx").text
    assert text is not None
    assert 'auto_pad="SAME_UPPER"' in text
    explicit = convert(MaxPool(3, strides=2, auto_pad="same_upper").plan((1, 1, 9, 9)), "pytorch")
    assert (explicit.op, explicit.only_this_size) == (
        MaxPool((3, 3), strides=(2, 2), pads=(1, 1), dilations=(1, 1), like="pytorch"), True
    )  # fmt: skip


@pytest.mark.parametrize(
    ("op", "like", "expected", "only_this_size"),
    [
        (MaxPool(3, strides=2, rounding_type="ceil"), "pytorch", "3, stride=2, padding=0, ceil_mode=True", False),
        (MaxPool(3, strides=2, rounding_type="ceil"), "onnx", "ceil_mode=1", False),
        (MaxPool(3, strides=2, rounding_type="ceil"), "tensorflow", "[[0, 0], [0, 1], [0, 0]]", False),
        (MaxPool(3, strides=2, pads_begin=0, pads_end=1), "pytorch", "padding=0, ceil_mode=True", False),
        (MaxPool(2, strides=3, rounding_type="ceil"), "onnx", "Pad", False),
        (AvgPool(3, strides=1, pads=1), "tensorflow", '"SAME"', False),
        (AvgPool(3, strides=2, pads=1), "tensorflow", "tf.ones_like(x)", False),
        (AvgPool(2, strides=2, divisor_override=3), "tensorflow", "* 0.6666", False),
        (AdaptiveMaxPool(11), "onnx", "kernel_shape=[5]", True),
        (AdaptiveMaxPool(11), "pytorch", "adaptive_max_pool1d(x, 11)", False),
    ],
    ids=[
        "ceil",
        "ceil-onnx",
        "ceil-as-pads",
        "pads-as-ceil",
        "dropped",
        "same",
        "ratio",
        "override",
        "bins",
        "bins-kept",
    ],
)
def test_a_call_that_holds_for_every_size_is_preferred(op: Any, like: str, expected: str, only_this_size: bool) -> None:
    found = convert(op.plan((1, 1, 55)), like)
    assert found.text is not None
    assert expected in found.text
    assert found.only_this_size is only_this_size
    assert str(found).removeprefix(found.text) == "\nfor this input size only" * only_this_size + (
        "\nwith x in N,W,C" * (like == "tensorflow")
    )


@pytest.mark.parametrize(
    ("layout", "like", "needed"),
    [
        ("NHWC", "pytorch", "NCHW"), ("NHWC", "openvino", "NCHW"), ("NHWC", "tensorflow", None),
        ("NCHW", "tensorflow", "NHWC"), ("NCHW", "onnx", None), ("HWC", "pytorch", "CHW"),
    ],
)  # fmt: skip
def test_a_call_names_the_order_of_axes_that_it_needs(layout: str, like: str, needed: str | None) -> None:
    found = convert(MaxPool(2, strides=2).plan((2, 8, 8, 8)[-len(layout) :], layout=layout), like)
    assert found.layout == needed
    assert (f"with x in {','.join(needed or '')}" in str(found)) == (needed is not None)


@pytest.mark.slow
@settings(max_examples=sized(10, 400), derandomize=True)
@given(plans(), st.lists(st.lists(st.integers(1, 30), min_size=3, max_size=3), min_size=10, max_size=10))
def test_a_conversion_without_a_mark_holds_for_other_sizes(plan: Plan | None, others: list[list[int]]) -> None:
    if plan is None or plan.given is None:
        return
    for like in DIALECTS:
        found = convert(plan, like)
        if found.op is None or found.only_this_size or "Global" in str(found.text) or "reduce_" in str(found.text):
            continue
        for sizes in others:
            shape = (1, 2, *sizes[: len(plan.axes)])
            with suppress(RequestError):
                one, two = (make_plan(op, shape, "float32", layout=plan.layout) for op in (plan.given, found.op))
                assert one.output_shape == two.output_shape, (plan.given, found.op, shape)
                x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
                np.testing.assert_allclose(
                    _answer(two, x), _answer(one, x), 1e-5, 1e-6, err_msg=f"{plan.given} {found}"
                )


COMPOSED: dict[str, tuple[Any, tuple[int, ...], str]] = {  # with words of the text
    "bins": (AdaptiveAvgPool((4, 5)), (9, 7), "MatMul"),
    "bins, three axes": (AdaptiveAvgPool((4, 2, 3)), (9, 7, 5), "Transpose"),
    "maxima of bins": (AdaptiveMaxPool((4, 5, 2)), (9, 7, 5), "Gather gather"),
    "excluded pads": (AvgPool(3, strides=2, pads_begin=1, pads_end=0, rounding_type="ceil"), (9, 8), "ones_like"),
    "counted overhang": (AvgPool(3, strides=2, pads=1, exclude_pad=False, rounding_type="ceil"), (9, 8), "Pad pad"),
    "counted pads": (AvgPool(3, strides=2, pads=1, exclude_pad=False, rounding_type="ceil", like="pytorch"), (8,),
        "Pad pad"),
    "long pads": (AvgPool(2, strides=2, pads_begin=3, pads_end=2, exclude_pad=False), (9, 8), "Pad pad"),
    "maxima, long pads": (MaxPool(3, strides=2, pads=2, dilations=2), (9, 8, 7), "Pad pad gather"),
    "dilated": (AvgPool(2, strides=2, pads=1, dilations=3), (9, 8), "einsum"),
    "dilated maxima": (MaxPool(2, strides=3, dilations=2), (9, 8), "tf.gather"),
    "divisor": (AvgPool(2, strides=2, divisor_override=3), (8,), "Mul *"),
    "minima": (MinPool(3, strides=2, pads=1), (9, 8), "Neg -"),
    "norm": (LpPool(2, strides=2, pads_begin=1, pads_end=0, p=3), (9, 8), "Pow pow"),
    "sums": (SumPool(3, strides=2, pads=1), (9, 8), "Mul *"),
    "sums, rounded up": (SumPool(3, strides=2, pads_begin=0, pads_end=1, rounding_type="ceil"), (8,), "Mul *"),
    "longer than the input": (AvgPool((9, 5), strides=(9, 2), rounding_type="ceil", like="pytorch"), (8, 4), "Pad pad"),
    "maxima, longer than the input": (MaxPool(3, strides=2, dilations=2, rounding_type="ceil", like="onnx"), (4, 9),
        "tf.gather"),
    "areas": (AreaPool((4, 2)), (9, 8), "MatMul einsum"),
    "areas, enlarged": (AreaPool((7, 4, 3)), (5, 4, 7), "Transpose einsum"),
}  # fmt: skip


@pytest.mark.parametrize("like", ["onnx", "openvino", "pytorch", "tensorflow"])
@pytest.mark.parametrize("case", COMPOSED)
def test_compositions_compute_what_no_operator_does_alone(case: str, like: str) -> None:
    module = {"onnx": "onnxruntime", "pytorch": "torch"}.get(like, like)
    pytest.importorskip(module)
    ask = {"onnx": pasted.onnx_runtime, "openvino": pasted.openvino, "pytorch": pasted.pytorch}.get(
        like, pasted.tensorflow
    )
    op, sizes, words = COMPOSED[case]
    found = convert(op.plan((2, 3, *sizes)), like)
    if like == "openvino" and case.startswith("areas"):
        assert found.reason == "OpenVINO has no attributes that give these windows and divisors"
        return
    assert found.text is not None
    if found.op is None:
        assert any(word in found.text for word in words.split()), found.text
    for more in (0,) if found.only_this_size else (0, 1, 4):
        x = np.random.default_rng(0).standard_normal((2, 3, *(size + more for size in sizes))).astype(np.float32)
        expected = _answer(op.plan(x.shape), x)
        np.testing.assert_allclose(ask(found.text, x), expected, 1e-5, 2e-6, err_msg=found.text)


def test_the_call_is_a_result_that_quiet_leaves(cli: Cli) -> None:
    call = convert(AvgPool(2, strides=2).plan((1, 3, 8, 8)), "pytorch").text
    asked = ("shape", "avg", "1,3,8,8", "-k", "2", "-s", "2", "-q")
    assert cli(*asked, "--to", "pytorch").out == f"1,3,4,4\n{call}\n"
    assert cli(*asked, "--dilations", "2", "--to", "ngraph").out == "1,3,3,3\n"  # without a call there
