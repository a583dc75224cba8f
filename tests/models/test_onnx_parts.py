"""Large ONNX graphs are read in parts: the shapes of the whole, in the memory of a part."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from poolcli.models import onnx_parts
from poolcli.models.read import read_model
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


@pytest.mark.parametrize(("at_once", "before"), [(3, 5), (1, 5), (7, 6)])
def test_a_graph_in_parts_has_the_layers_of_the_whole(
    at_once: int, before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mixed(tmp_path / "m.onnx")
    whole = read_model(str(path))
    assert [(each.name, each.input_shape, each.declared_shape) for each in whole] == [
        ("a", (1, 3, 32, "W"), (1, 3, "h", "w")),
        ("If_6/else_branch/e", (1, 3, 16, "w"), None),
        ("If_6/then_branch/t", (1, 3, 16, "w"), None),
        ("d", (1, 3, 24, 24), (1, 3, 12, "w")),
        ("l", (1, 3, 16, "w"), None),
        ("y", (1, 3, 12, 12), None),
        ("z", (1, 3, 32, "W"), None),
    ]
    monkeypatch.setattr(onnx_parts, "AT_ONCE", at_once)
    monkeypatch.setattr(onnx_parts, "BEFORE", before)
    assert read_model(str(path)) == whole


def chain(path: Path, count: int) -> Path:
    """So many pools one after the other."""
    names = ["x", *(f"/features/pool_{i}_output" for i in range(count - 1)), "y"]
    same: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [node("MaxPool", a, b, name=f"/features/{b}/MaxPool", **same) for a, b in pairwise(names)]
    return model(path, nodes, [1, 3, 32, 32], values=[value(name, [1, 3, 32, 32]) for name in names[1:-1]])


@pytest.mark.slow
def test_30_000_layers_take_less_than_100_mb(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    chain(folder / "m.onnx", 30_000)
    done = fresh(folder, "check", "m.onnx", timeout=None)
    lines = done.out.decode().splitlines()
    assert (done.code, lines[-1]) == (0, "m.onnx: 30000 pooling layers: 29999 agrees, 1 computed"), done.err
    assert lines[-3] == "and 29,000 more, which --json lists, too"
    assert done.peak < 100 << 10
