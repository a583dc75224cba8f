"""Comparisons of frameworks, held against the planner."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from poolcli import AvgPool, MaxPool, RequestError
from poolcli.explain import explain
from poolcli.explain.compare_dialects import compare_dialects, sentences
from tests.conftest import Cli
from tests.explain.drawn import ops
from tests.profiles import sized


def test_comparison_names_the_rule_that_makes_the_difference() -> None:
    op = AvgPool(3, strides=2, pads=1, rounding_type="ceil", exclude_pad=False)
    rows = {row.title: row for row in compare_dialects(op, op.plan((1, 3, 4, 7)))}
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
    op = AvgPool(1, strides=2, pads=0, rounding_type="ceil")
    (dropped,) = [r for r in compare_dialects(op, op.plan((1, 1, 4))) if r.title == "OpenVINO ceil_torch"]
    assert dropped.causes == (
        "drops a last window that would start past the input (ceil_torch: PyTorch, ONNX, OpenVINO AvgPool-14 on)",
    )
    rows = {row.title: row for row in compare_dialects(MaxPool(3), MaxPool(3).plan((1, 1, 9)))}
    assert rows["PyTorch"].causes == ("PyTorch has strides 3 by default",)
    rows = {
        row.title: row
        for row in compare_dialects(AvgPool(3, strides=2, pads=1), AvgPool(3, strides=2, pads=1).plan((1, 1, 9)))
    }
    assert rows["PyTorch"].causes == ("PyTorch counts padding in the divisor by default",)


def test_rules_that_change_nothing_at_this_size_are_no_difference() -> None:
    """One window of three elements is the same whatever its stride."""
    rows = {row.title: row for row in compare_dialects(MaxPool(3), MaxPool(3).plan((1, 1, 3)))}
    assert not rows["PyTorch"].differs
    assert not rows["PyTorch"].causes


@settings(max_examples=sized(30, 150), derandomize=True)
@given(st.data())
def test_rows_that_do_not_differ_have_the_same_shape_and_divisors(data: st.DataObject) -> None:
    op, size = data.draw(ops()), data.draw(st.integers(1, 12))
    try:
        plan = op.plan((1, 1, size))
    except RequestError:
        return
    for row in compare_dialects(op, plan):
        if row.plan is None:
            assert row.refusal
        elif not row.differs:
            assert row.plan.output_shape == plan.output_shape
            assert [w.divisor(o) for w in row.plan.windows for o in range(w.output)] == [
                w.divisor(o) for w in plan.windows for o in range(w.output)
            ] or plan.reducer.picks


def test_comparison_says_who_keeps_a_window_that_is_longer_than_its_axis() -> None:
    """PyTorch 2.13 and ONNX Runtime 1.31 give one window; OpenVINO 2026.4 raises."""
    op = AvgPool(32, strides=32, rounding_type="ceil", like="pytorch")
    plan = op.plan((1, 128, 16))
    found = {row.title: row.refusal or (row.plan and row.plan.output_shape) for row in plan.compare()}
    refused = "axis W is 16 long, kernel 32 without padding leaves no window; use kernel=16 or pads=8"
    assert found == {
        "OpenVINO floor": refused, "OpenVINO ceil": refused, "OpenVINO ceil_torch": refused, "nGraph": refused,
        "ONNX": (1, 128, 1), "PyTorch": (1, 128, 1),
        "TensorFlow": "TensorFlow has no rounding_type ceil; use floor",
    }  # fmt: skip
    assert [str(fact) for fact in plan.facts if fact.kind == "window_kept"] == [
        "axis W: the window is longer than the padded input; ceil keeps one over what there is"
    ]
    assert "steps: -16 / 32, rounded up (ceil) to 0" in explain(plan).axes[0].steps
    with pytest.raises(RequestError, match="kernel 33 without padding at stride 17 leaves no window"):
        AvgPool(33, strides=17, rounding_type="ceil", like="onnx").plan((1, 128, 16))


def test_all_of_it_is_in_the_document(cli: Cli) -> None:
    line = "avg 1,3,4,7 -k 3 -s 2 -p 1 --rounding-type ceil --include-pad"
    document = cli("shape", *line.split(), "--explain", "--compare", "--to", "pytorch", "--json").json
    assert [axis["overhanging"] for axis in document["explain"]["axes"]] == [1, 0]
    assert [row["as"] for row in document["compare"]["rows"] if row["differs"]] == [
        "OpenVINO floor", "ONNX", "PyTorch", "TensorFlow",
    ]  # fmt: skip
    assert document["to"] == {
        "like": "pytorch",
        "text": "torch.nn.functional.avg_pool2d(torch.nn.functional.pad(x, (1, 2, 1, 2), value=0), 3, stride=2, "
        "padding=0, ceil_mode=False, count_include_pad=False)",
        "reason": None,
        "only_this_size": False,
        "layout": None,
    }


def test_the_table_keeps_its_marks_and_wraps_long_shapes_in_80_columns(cli: Cli) -> None:
    shape = "1000000,100000,100000,100000,100000"
    done = cli(
        "shape", "avg", shape, "-k", "2,3,4", "-s", 1, "-p", 1, "--include-pad", "--rounding-type=ceil", "--compare"
    )
    assert "\n=  OpenVINO ceil " in done.out
    assert "\n*  TensorFlow " in done.out
    assert "…" not in done.out
