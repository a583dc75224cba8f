"""Comparisons, conversions and inverse questions, held against planner and frameworks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool, RequestError
from poolcli.dialects import DIALECTS
from poolcli.engine import run
from poolcli.explain.compare import compare, sentences
from poolcli.explain.convert import convert
from poolcli.explain.solve import solve
from poolcli.ops import OPERATORS
from poolcli.plan import Plan, make_plan
from tests.conftest import Cli
from tests.profiles import sized, slow


def test_comparison_names_the_rule_that_makes_the_difference() -> None:
    op = AvgPool(3, 2, 1, 1, rounding_type="ceil", exclude_pad=False)
    rows = {row.title: row for row in compare(op, op.plan((1, 3, 4, 7)))}
    assert [row.title for row in rows.values() if row.chosen] == ["OpenVINO ceil"]
    assert {title: row.divisors for title, row in rows.items()} == {
        "OpenVINO floor": (9, 9), "OpenVINO ceil": (9, 9), "OpenVINO ceil_torch": (9, 9), "ONNX": (9, 6),
        "PyTorch": (9, 6), "TensorFlow": None, "nGraph": (9, 9),
    }  # fmt: skip
    assert {title for title, row in rows.items() if row.differs} == {"OpenVINO floor", "ONNX", "PyTorch", "TensorFlow"}
    assert sentences(tuple(rows.values())) == [
        "OpenVINO floor: rounds down: a last window that does not fit is dropped (floor)",
        "ONNX, PyTorch: it counts only the part of an overhanging window that lies in the input and its pads",
    ]


def test_comparison_tells_ceil_from_ceil_torch_and_finds_defaults() -> None:
    op = AvgPool(1, 2, 0, 0, rounding_type="ceil")
    (dropped,) = [r for r in compare(op, op.plan((1, 1, 4))) if r.title == "OpenVINO ceil_torch"]
    assert dropped.causes == (
        "drops a last window that would start past the input (ceil_torch: PyTorch, ONNX, OpenVINO AvgPool-14 on)",
    )
    rows = {row.title: row for row in compare(MaxPool(3), MaxPool(3).plan((1, 1, 9)))}
    assert rows["PyTorch"].causes == ("PyTorch takes 3 as strides where none are given",)
    rows = {row.title: row for row in compare(AvgPool(3, 2, 1, 1), AvgPool(3, 2, 1, 1).plan((1, 1, 9)))}
    assert rows["PyTorch"].causes == ("PyTorch counts padding in the divisor where nothing is said",)


@settings(max_examples=sized(30, 150), derandomize=True)
@given(st.data())
def test_rows_that_do_not_differ_have_the_same_shape_and_divisors(data: st.DataObject) -> None:
    op, size = data.draw(ops()), data.draw(st.integers(1, 12))
    try:
        plan = op.plan((1, 1, size))
    except RequestError:
        return
    for row in compare(op, plan):
        if row.plan is None:
            assert row.refusal
        elif not row.differs:
            assert row.plan.output_shape == plan.output_shape
            assert [w.divisor(o) for w in row.plan.windows for o in range(w.output)] == [
                w.divisor(o) for w in plan.windows for o in range(w.output)
            ] or plan.reducer.picks


@st.composite
def ops(draw: st.DrawFn) -> Any:
    like = draw(st.sampled_from(list(DIALECTS)))
    dialect = DIALECTS[like]
    kernel, begin = draw(st.integers(1, 5)), draw(st.integers(0, 2))
    end = begin if dialect.symmetric_pads else draw(st.integers(0, 2))
    shared: dict[str, Any] = {
        "strides": draw(st.integers(1, 4)), "pads_begin": begin, "pads_end": end,
        "auto_pad": draw(st.sampled_from(dialect.auto_pads)),
        "rounding_type": draw(st.sampled_from(dialect.rounding_types)), "like": like,
    }  # fmt: skip
    if draw(st.booleans()):
        return MaxPool(kernel, dilations=draw(st.integers(1, 2)) if dialect.operators["max"].dilations else 1, **shared)
    return AvgPool(kernel, exclude_pad=draw(st.sampled_from([True, False, None])), **shared)


def _answer(plan: Plan, x: Any) -> Any:
    return run(plan, x, engine="numpy")[0]


@st.composite
def plans(draw: st.DrawFn) -> Plan | None:
    """Plans of one to three axes, fixed and adaptive; None where they are refused."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    op = draw(ops())
    if draw(st.integers(0, 3)) == 0:
        output = tuple(draw(st.integers(1, size + 1)) for size in sizes)
        op = draw(st.sampled_from([AdaptiveAvgPool, AdaptiveMaxPool]))(output)
    try:
        plan: Plan = op.plan((1, 2, *sizes))
    except RequestError:
        return None
    return plan


@pytest.mark.slow
@settings(max_examples=sized(15, 150), derandomize=True)
@given(plans())
def test_what_is_pasted_into_a_framework_gives_the_same_numbers_there(plan: Plan | None) -> None:
    if plan is None or plan.empty_windows:
        return  # windows of nothing are rows of the table of differences
    x = np.random.default_rng(0).standard_normal(plan.input_shape).astype(np.float32)
    expected = _answer(plan, x)
    frameworks: dict[str, Any] = {"onnx": _onnx, "openvino": _openvino}
    if find_spec("torch"):
        frameworks["pytorch"] = _pytorch
    for like, ask in frameworks.items():
        found = convert(plan, like)
        if found.text is None:
            assert found.reason
            assert like != plan.like, found
            continue
        np.testing.assert_allclose(ask(found.text, x), expected, 1e-5, 1e-6, err_msg=f"{plan.attributes}: {found.text}")


def _pytorch(text: str, x: Any) -> Any:
    import torch

    return eval(text, {"torch": torch, "x": torch.from_numpy(x)}).numpy()  # noqa: S307


def _onnx(text: str, x: Any) -> Any:
    import onnx
    import onnxruntime

    node = eval(text, {"onnx": onnx})  # noqa: S307
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, list(x.shape))], [value("y", 1, [None] * x.ndim)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def _openvino(text: str, x: Any) -> Any:
    import openvino as ov

    if "Adaptive" in text:
        return _openvino_bins(text, x)
    kind, opset = text.split(":")[0].split()
    given = dict(re.findall(r'([\w-]+)="([^"]*)"', text))
    lists = {k: [int(n) for n in given[k].split(",")] for k in ("strides", "pads_begin", "pads_end")}
    options: dict[str, Any] = lists | {
        "kernel_shape": [int(n) for n in given["kernel"].split(",")],
        "rounding_type": given["rounding_type"], "auto_pad": given["auto_pad"],
    }  # fmt: skip
    if "dilations" in given:
        options["dilations"] = [int(n) for n in given["dilations"].split(",")]
    if kind == "AvgPool":
        options["exclude_pad"] = given["exclude-pad"] == "true"
    module = getattr(__import__(f"openvino.{opset}"), opset)
    parameter = module.parameter(list(x.shape), ov.Type.f32)
    node = module.avg_pool(parameter, **options) if kind == "AvgPool" else module.max_pool(
        parameter, axis=int(given["axis"]), index_element_type=given["index_element_type"], **options
    )  # fmt: skip
    model = ov.Model([module.result(node.output(0))], [parameter])
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return compiled([x])[0]


def _openvino_bins(text: str, x: Any) -> Any:
    import openvino as ov
    from openvino import opset8

    given, sizes = text.split(" second input: ")
    parameter = opset8.parameter(list(x.shape), ov.Type.f32)
    output = opset8.constant(np.array([int(n) for n in sizes.split(",")], np.int64))
    index_type = re.findall(r'index_element_type="(\w+)"', given)
    node = opset8.adaptive_max_pool(parameter, output, *index_type) if index_type else opset8.adaptive_avg_pool(
        parameter, output
    )  # fmt: skip
    model = ov.Model([opset8.result(node.output(0))], [parameter])
    return ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])[0]


def _behaviour(plan: Plan) -> tuple[object, ...]:
    """What each window reads, and what it is divided by, counted one by one."""
    reads = tuple(tuple(tuple(w.span(o)) for o in range(w.output)) for w in plan.windows)
    if not plan.reducer.divides:
        return plan.reducer.name, reads
    every = product(*(range(w.output) for w in plan.windows))
    divisors = (prod(w.divisor(o) for w, o in zip(plan.windows, at, strict=True)) for at in every)
    return plan.reducer.name, reads, tuple(plan.divisor_override or divisor for divisor in divisors)


def _every_plan(like: str, shape: tuple[int, ...]) -> Iterator[Plan]:
    """All that a dialect can write with small numbers, equal on all axes."""
    dialect, size = DIALECTS[like], shape[2]
    numbers = product(range(1, size + 3), range(1, size + 2), (1, 2), range(3), range(3), dialect.rounding_types)
    for kernel, stride, dilation, begin, end, rounding in numbers:
        shared: dict[str, Any] = {"dilations": dilation, "rounding_type": rounding, "like": like}
        made: list[Any] = [MaxPool(kernel, stride, begin, end, **shared)]
        made += [AvgPool(kernel, stride, begin, end, exclude_pad=exclude, **shared) for exclude in (True, False)]
        for op in made:
            with suppress(RequestError):
                yield op.plan(shape)
    for adaptive, output in product((AdaptiveAvgPool, AdaptiveMaxPool), range(1, size + 2)):
        with suppress(RequestError):
            yield adaptive(output, like=like).plan(shape)


@pytest.mark.parametrize("shape", [(1, 1, 3), pytest.param((1, 1, 2, 2), marks=pytest.mark.slow)])
def test_a_conversion_is_found_wherever_there_is_one(shape: tuple[int, ...]) -> None:
    have: dict[str, dict[object, Plan]] = {}
    for like, dialect in DIALECTS.items():
        found = (plan for plan in _every_plan(like, shape) if not plan.empty_windows)
        have[like] = {_behaviour(plan): plan for plan in found if dialect.cannot_write(plan) is None}
    every = {key: plan for plans in have.values() for key, plan in plans.items()}
    for behaviour, plan in list(every.items())[:: sized(60, 10)]:
        for like in DIALECTS:
            op: Any = convert(plan, like).op
            assert op is not None or behaviour not in have[like], (plan.attributes, have[like][behaviour].attributes)
            assert op is None or _behaviour(op.plan(shape)) == behaviour, (plan.attributes, op)


def test_conversions_that_have_no_answer_say_why() -> None:
    even, uneven = AdaptiveAvgPool(3).plan((1, 1, 9)), AdaptiveMaxPool(4).plan((1, 1, 10))
    assert convert(even, "tensorflow").text == 'tf.nn.avg_pool1d(x, [3], [3], "VALID", data_format="NWC")'
    assert convert(uneven, "pytorch").text == "torch.nn.functional.adaptive_max_pool1d(x, 4)"
    assert convert(uneven, "onnx").reason == (
        "bins of 10 into 4 are no windows of one kernel and stride, with padding or without, and ONNX has no others"
    )
    override = AvgPool(2, 2, divisor_override=3, like="pytorch").plan((1, 1, 4, 4))
    assert convert(override, "openvino").reason == (
        "OpenVINO has no divisor_override, and none of its divisors is always 3"
    )
    asymmetric = AvgPool(3, 1, 1, 0).plan((1, 1, 9))
    assert convert(asymmetric, "tensorflow").reason == (
        "TensorFlow has no explicit pads in average pooling; use auto_pad='same_upper' or valid"
    )


@pytest.mark.parametrize(
    ("op", "shape", "like", "expected"),
    [
        (AdaptiveAvgPool(3), (1, 1, 5, 5), "onnx", {"kernel": (3, 3), "strides": (2, 2), "pads_begin": (1, 1)}),
        (AdaptiveAvgPool(2**61 + 1), (1, 1, 2**61), "onnx", {"kernel": (2,), "strides": (1,), "pads_begin": (1,)}),
        (MaxPool(1, 2, dilations=3), (1, 1, 9), "ngraph", {"kernel": (1,), "dilations": (1,)}),
        (MaxPool(3, 2, 0, 1), (1, 1, 8, 8, 8), "pytorch", {"pads_end": (0, 0, 0), "rounding_type": "ceil"}),
        (MaxPool(2, 1, 1, 1), (1, 1, 2, 2, 2), "tensorflow", {}),
        (AvgPool(3, 2, 0, 1, exclude_pad=False), (1, 1, 8, 8), "pytorch", {"divisor_override": 9}),
        (AvgPool(2, 2, divisor_override=4, like="pytorch"), (1, 1, 9, 9), "onnx", {"kernel": (2, 2)}),
        (MaxPool(1, 3, 1, 0), (1, 1, 2), "pytorch", {"kernel": (2,), "dilations": (3,), "pads_begin": (1,)}),
        (AvgPool(2, 1, 1, 1, 3, exclude_pad=False), (1, 1, 2), "ngraph", {"kernel": (2,), "pads_begin": (2,)}),
    ],
    ids=["bins-padded", "bins-huge", "dilated-1", "overhang", "none", "override", "no-override", "empty", "empty-0"],
)  # fmt: skip
def test_equivalents_are_other_numbers_and_other_operators(
    op: Any, shape: tuple[int, ...], like: str, expected: dict[str, object]
) -> None:
    found = convert(op.plan(shape), like).op
    assert {name: getattr(found, name, None) for name in expected} == expected


def test_one_output_of_adaptive_windows_is_written_for_axes_of_any_length() -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 6)).astype(np.float32)
    for op, there, name in (
        (AdaptiveAvgPool(1), "GlobalAveragePool", "reduce_mean"), (AdaptiveMaxPool(1), "GlobalMaxPool", "reduce_max")
    ):  # fmt: skip
        plan = op.plan(x.shape)
        text = convert(plan, "onnx").text
        assert text == f'onnx.helper.make_node("{there}", ["x"], ["y"])'
        np.testing.assert_allclose(_onnx(text, x), _answer(plan, x), 1e-5, 1e-6)
        assert convert(plan, "tensorflow").text == f"tf.{name}(x, [1, 2], keepdims=True)"


def test_same_upper_becomes_explicit_pads_and_back() -> None:
    plan = AvgPool(3, 2, auto_pad="same_upper").plan((1, 1, 10, 10))
    assert convert(plan, "tensorflow").text == 'tf.nn.avg_pool2d(x, [3, 3], [2, 2], "SAME", data_format="NHWC")'
    text = convert(plan, "onnx").text
    assert text is not None
    assert "pads=[0, 0, 1, 1]" in text


@pytest.mark.parametrize(
    ("shape", "wanted"), [((1, 3, 56, 56), (28,)), slow((1, 3, 56, 57), (28, 29)), slow((1, 3, 100), (7,))]
)
def test_every_answer_of_solve_gives_the_wanted_length(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    answers = solve("avg", shape, wanted)
    assert answers
    for answer in answers:
        sizes = make_plan(answer.op, shape).output_shape[2:]
        assert sizes == (wanted if len(wanted) > 1 else wanted * len(sizes))


def test_solve_puts_the_plainest_answer_first_and_keeps_what_is_given() -> None:
    first = solve("avg", (1, 3, 56, 56), 28)[0].op
    assert (first.kernel, first.strides, first.pads_begin, first.rounding_type) == ((2,), (2,), (0,), "floor")
    kept = solve("max", (1, 64, 112, 112), 56, kernel=3, strides=2)
    assert [(a.op.pads_begin, a.op.auto_pad, a.op.rounding_type) for a in kept][:3] == [
        ((1,), "explicit", "floor"), ((0,), "explicit", "ceil"), ((0,), "same_upper", "floor"),
    ]  # fmt: skip
    assert solve("max", (1, 1, 9), 9, kernel=3, strides=2, pads_begin=0, pads_end=0) == []


def test_the_options_that_solve_prints_lead_to_that_shape(cli: Cli) -> None:
    done = cli("shape", "max", "1,3,57,80", "--solve", "28,40", "--json")
    for answer in done.json["answers"]:
        shape = cli("shape", "max", "1,3,57,80", *answer["options"].split(), "-q").out
        assert shape == "1,3,28,40\n"


def _record(op: str) -> Any:
    return OPERATORS[op]


def _reached(op: str, size: int, given: dict[str, Any]) -> set[int]:
    """Every length that small numbers give, each by itself, with pads shorter than the window."""
    dialect, record = DIALECTS[given.get("like", "openvino")], _record(op)
    kernels = [given["kernel"]] if "kernel" in given else range(1, 7)
    strides = [given["strides"]] if "strides" in given else range(1, 7)
    begins = [given["pads_begin"]] if "pads_begin" in given else range(6)
    roundings = [given["rounding_type"]] if "rounding_type" in given else dialect.rounding_types
    reached = set()
    for kernel, stride, begin, rounding, more in product(kernels, strides, begins, roundings, (0, 1)):
        numbers = {"kernel": kernel, "strides": stride, "pads_begin": begin, "pads_end": begin + more}
        if begin + more < kernel or not begin + more:
            with suppress(RequestError):
                plan = record(**{"rounding_type": rounding} | given | numbers).plan((1, 1, size))
                reached |= {plan.output_shape[2]} if not plan.empty_windows else set()
    return reached


@pytest.mark.parametrize(
    ("op", "given"),
    [
        slow("max", {}),
        ("avg", {"like": "pytorch"}),
        slow("max", {"like": "onnx", "strides": 3}),
        ("avg", {"kernel": 4, "rounding_type": "ceil"}),
        ("max", {"like": "tensorflow", "kernel": 3, "strides": 2}),
        slow("avg", {"like": "ngraph", "pads_begin": 2}),
        ("max", {"dilations": 2, "strides": 2}),
    ],
)
@pytest.mark.parametrize("size", [slow(1), 2, slow(5), slow(12)])
def test_solve_finds_an_answer_for_every_length_that_small_numbers_give(
    op: str, given: dict[str, Any], size: int
) -> None:
    for wanted in _reached(op, size, given):
        answers = solve(op, (1, 1, size), wanted, **given)
        assert answers, wanted
        for answer in answers:
            assert make_plan(answer.op, (1, 1, size)).output_shape[2] == wanted
            kept = {name: getattr(answer.op, name) for name in given}
            assert {name: value[0] if isinstance(value, tuple) else value for name, value in kept.items()} == given


def test_solve_refuses_what_it_cannot_ask(cli: Cli) -> None:
    for arguments, text in (
        (("adaptive-avg", "1,3,9", "--output-size", "3"), "adaptive-avg has its output size given"),
        (("avg", "1,3,9,9", "-k", "x"), "--kernel has 'x' where"),
    ):
        done = cli("shape", *arguments, "--solve", "3")
        assert (done.code, text in done.err) == (2, True), done.err


def test_where_nothing_gives_a_length_the_nearest_that_can_be_had_are_named(cli: Cli) -> None:
    done = cli("shape", "avg", "1,3,9,8", "-k", "3", "-s", "1", "-p", "0", "--solve", "9,6")
    assert (done.code, done.out) == (
        1,
        "nothing gives that with the given kernel, strides, pads; searched: usual kernels\n"
        "and those that fit, pads shorter than the window\n"
        "axis H: 9 cannot be had, the nearest that can: 7\n",
    )
    document = cli("shape", "max", "1,3,9", "-k", "3", "-s", "4", "--solve", "5", "--json").json
    assert (document["answers"], document["nearest"]) == ([], [{"axis": "W", "wanted": 5, "lengths": [3]}])


def test_the_first_answer_of_solve_is_drawn_and_explained_where_that_is_asked(cli: Cli, tmp_path: Path) -> None:
    asked = ("shape", "max", "1,1,5,5", "--solve", "1,2", "--picture", str(tmp_path / "a.svg"), "--to", "pytorch")
    done = cli(*asked)
    assert done.out.splitlines()[2] == "-k 5,2 -s 5,2"
    assert done.out.endswith("torch.nn.functional.max_pool2d(x, (5, 2), stride=(5, 2), padding=0, ceil_mode=False)\n")
    assert "<svg" in (tmp_path / "a.svg").read_text()
