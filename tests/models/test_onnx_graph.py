"""ONNX graphs with bodies and functions, and large ones: the shapes of all layers, without the weights."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from poolcli.models import read_model
from tests.models.onnxs import model, node, value
from tests.processes import fresh


def mixed(path: Path) -> Path:
    """Pools of values that come from far above, from a body, and from a Reshape to lengths that nodes compute."""
    halves = {"kernel_shape": [2, 2], "strides": [2, 2]}
    then = helper.make_graph([node("GlobalMaxPool", "a", "t")], "then", [], [value("t", None)])
    other = helper.make_graph([node("AveragePool", "a", "e", **halves)], "else", [], [value("e", None)])
    nodes = [
        node("Constant", "", "two", value=helper.make_tensor("", TensorProto.INT64, [2], [24, 24])),
        node("Constant", "", "spatial", value_ints=[2, 3]),
        node("MaxPool", "x", "a", **halves),
        node("Shape", "a", "s", end=2),
        node("Concat", "s two", "wanted", axis=0),
        node("Relu", "x", "r"),
        node("If", "c", "f", then_branch=then, else_branch=other),
        node("Reshape", "r wanted", "b"),
        node("AveragePool", "b", "d", **halves),
        node("LpPool", "a", "l", **halves),
        node("Relu", "d", "g"),
        node("ReduceMean", "g spatial", "y"),
        node("MaxPool", "x", "z", **halves),
    ]
    constants = [helper.make_tensor("c", TensorProto.BOOL, [], [True])]
    stated = [value("d", [1, 3, 12, "w"]), value("a", [1, 3, "h", "w"])]
    return model(path, nodes, [1, 3, 32, "W"], values=stated, constants=constants)


LAYERS = [
    ("a", (1, 3, 32, "W"), (1, 3, "h", "w")),
    ("If_6/else_branch/e", (1, 3, 16, "w"), None),
    ("If_6/then_branch/t", (1, 3, 16, "w"), None),
    ("d", (1, 3, 24, 24), (1, 3, 12, "w")),
    ("l", (1, 3, 16, "w"), None),
    ("y", (1, 3, 12, 12), None),
    ("z", (1, 3, 32, "W"), None),
]


def test_lengths_are_inferred_through_bodies_and_from_what_nodes_compute(tmp_path: Path) -> None:
    found = read_model(str(mixed(tmp_path / "m.onnx")))
    assert [(each.name, each.input_shape, each.declared_shape) for each in found] == LAYERS


def nested(path: Path) -> Path:
    """A function with an attribute that its nodes take and an If in which another body and an outer value are; a Loop
    whose state keeps its shape and one that gives a value of each round; a pool after each.
    """
    halves = {"kernel_shape": [2, 2], "strides": [2, 2]}
    deep = helper.make_graph([node("MaxPool", "m", "d", **halves)], "deep", [], [value("d", None)])
    flat = helper.make_graph([node("AveragePool", "m", "g", **halves)], "flat", [], [value("g", None)])
    inner = node("If", "c", "i", name="inner", then_branch=deep, else_branch=flat)
    then = helper.make_graph([inner], "then", [], [value("i", None)])
    other = helper.make_graph([node("LpPool", "m", "o", **halves)], "else", [], [value("o", None)])
    first = node("MaxPool", "a", "m", name="first")
    refers = onnx.AttributeProto(name="kernel_shape", ref_attr_name="size", type=onnx.AttributeProto.INTS)
    first.attribute.append(refers)
    outer = node("If", "c", "b", name="outer", then_branch=then, else_branch=other)
    function = helper.make_function(
        "my", "F", ["a", "c"], ["b"], [first, outer], [helper.make_opsetid("", 22)], ["size"]
    )
    number, on, still = (
        helper.make_tensor_value_info(name, kind, [])
        for name, kind in (("n", TensorProto.INT64), ("on", TensorProto.BOOL), ("still", TensorProto.BOOL))
    )
    body = helper.make_graph(
        [node("Identity", "on", "still"), node("Relu", "s", "next"), node("GlobalMaxPool", "p", "each")], "body",
        [number, on, value("s", None)], [still, value("next", [1, 3, 8, 8]), value("each", None)],
    )  # fmt: skip
    nodes = [
        node("F", "x c", "p", domain="my", size=[3, 3]),
        node("MaxPool", "p", "q", **halves),
        node("Loop", "times c q", "r rounds", name="loop" * 99, body=body),
        node("MaxPool", "rounds", "y", kernel_shape=[1, 1, 1]),
    ]
    constants = [
        helper.make_tensor("c", TensorProto.BOOL, [], [True]),
        helper.make_tensor("times", TensorProto.INT64, [], [4]),
    ]
    return model(path, nodes, [1, 3, 34, 34], constants=constants, functions=[function])


def test_bodies_in_bodies_and_in_functions_know_what_is_around_them(tmp_path: Path) -> None:
    found = read_model(str(nested(tmp_path / "m.onnx")))
    assert [(each.name, each.type, each.input_shape) for each in found] == [
        ("F/first__1", "MaxPool", (1, 3, 34, 34)),
        ("F/outer__1/else_branch/o__1", "LpPool", (1, 3, 32, 32)),
        ("F/outer__1/then_branch/inner__1/else_branch/g__1", "AveragePool", (1, 3, 32, 32)),
        ("F/outer__1/then_branch/inner__1/then_branch/d__1", "MaxPool", (1, 3, 32, 32)),
        ("q", "MaxPool", (1, 3, 16, 16)),
        ("loop" * 50 + "#3/body/each", "GlobalMaxPool", (1, 3, 16, 16)),
        ("y", "MaxPool", ("?", 1, 3, 1, 1)),
    ]


def chain(count: int, first: str, last: str) -> list[Any]:
    """So many pools one after the other."""
    names = [first, *(f"/features/{last}/pool_{i}_output" for i in range(count - 1)), last]
    same: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    return [node("MaxPool", a, b, name=f"/features/{b}/MaxPool", **same) for a, b in pairwise(names)]


@pytest.mark.slow
def test_30_000_layers_take_less_than_400_mb(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    opsets = [helper.make_opsetid("", 22)]
    function = helper.make_function("my", "F", ["x"], ["y"], chain(30_000, "x", "y"), opsets)
    model(folder / "m.onnx", [node("F", domain="my")], [1, 3, 32, 32], functions=[function])
    done = fresh(folder, "check", "m.onnx", timeout=None)
    told = "m.onnx: 30000 pooling layers of opset 22: 30000 computed (nothing to compare with)"
    assert (done.code, " ".join(done.out.decode().split())[-len(told) :]) == (0, told), done.err
    assert "and 29,000 more, which --json lists, too" in done.out.decode().splitlines()
    assert done.peak < 400 << 10
