"""The tests of pooling that the `onnx` package brings for every backend, read by `check` and computed by poolcli."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolcli import max_pool
from poolcli.engine import run
from poolcli.models import read_model
from poolcli.models.layer import Layer
from poolcli.plan import make_plan
from tests.conftest import Cli

MODULES = ("averagepool", "globalaveragepool", "globalmaxpool", "lppool", "maxpool", "maxunpool")


def node_tests() -> list[Any]:
    """The cases, which onnx computes anew when it imports them."""
    node = importlib.import_module("onnx.backend.test.case.node")
    for name in MODULES:
        importlib.import_module(f"onnx.backend.test.case.node.{name}")
    return [case for case in node._NodeTestCases if "pool" in case.name and case.name.startswith("test_")]


def by_columns(i: Any, shape: tuple[int, ...]) -> Any:
    """Flat indices as storage_order 1 counts them, by the formula of the message about it (tests/test_keywords.py)."""
    *_, h, w = shape
    return i // (h * w) * h * w + i % w * h + i // w % h


def computed(layer: Layer, x: Any, count: int) -> list[Any]:
    """The values of the layer, and indices where the case has them."""
    assert layer.op is not None, layer
    assert not layer.invalid, layer
    plan = make_plan(layer.op, x.shape, x.dtype)
    values, indices = run(plan, x, indices=count > 1)
    if indices is not None and layer.given.get("storage_order") == "1":
        indices = by_columns(indices, x.shape)
    return [values, indices][:count]


def test_indices_along_columns_are_those_of_onnx_in_every_plane(cli: Cli, tmp_path: Path) -> None:
    import onnx.reference

    from tests.models.onnxs import model, node, value

    given: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 2], "storage_order": 1}
    pool = node("MaxPool", outputs="y at", name="choose/else_branch/branch_pool", **given)
    path = model(tmp_path / "m.onnx", [pool], (2, 3, 7, 9), outputs=[value("y", None), value("at", None)])
    x = np.random.default_rng(0).random((2, 3, 7, 9)).astype("f4")
    at = by_columns(max_pool(x, (3, 2), strides=2, return_indices=True, like="onnx")[1], x.shape)
    reference: Any = onnx.reference.ReferenceEvaluator(onnx.load(path))
    np.testing.assert_array_equal(at, reference.run(None, {"x": x})[1])
    said = cli("check", path).out.partition(
        "\nchoose/else_branch/branc  storage_order 1: its indices count along columns"
    )
    assert "\nh_pool  " in said[2]  # a long name is folded, not cut


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # onnx's own, of arithmetic in its references
def test_the_node_tests_of_onnx_pass(tmp_path: Path) -> None:
    passed: dict[str, int] = {}
    for case in node_tests():
        path = tmp_path / "m.onnx"
        path.write_bytes(case.model.SerializeToString())
        (layer,) = read_model(str(path))
        passed[layer.type] = passed.get(layer.type, 0) + 1
        if layer.type == "MaxUnpool":
            assert layer.problem == "MaxUnpool is not checked"
            continue
        for inputs, outputs in case.data_sets:
            for ours, theirs in zip(computed(layer, inputs[0], len(outputs)), outputs, strict=True):
                assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), case.name
                np.testing.assert_allclose(ours, theirs, case.rtol, case.atol, err_msg=case.name)
    least = {"AveragePool": 16, "GlobalAveragePool": 2, "GlobalMaxPool": 2, "LpPool": 8, "MaxPool": 16, "MaxUnpool": 2}
    assert passed.keys() == least.keys()
    assert all(passed[kind] >= count for kind, count in least.items()), passed
