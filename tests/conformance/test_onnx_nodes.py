"""The tests of pooling that the `onnx` package brings for every backend, read by `check` and computed by poolcli."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolcli.engine import run
from poolcli.models import read_model
from poolcli.models.layer import Layer
from poolcli.plan import make_plan

MODULES = ("averagepool", "globalaveragepool", "globalmaxpool", "lppool", "maxpool", "maxunpool")


def node_tests() -> list[Any]:
    """The cases, which onnx computes anew when it imports them."""
    node = importlib.import_module("onnx.backend.test.case.node")
    for name in MODULES:
        importlib.import_module(f"onnx.backend.test.case.node.{name}")
    return [case for case in node._NodeTestCases if "pool" in case.name and case.name.startswith("test_")]


def by_columns(indices: Any, shape: tuple[int, ...]) -> Any:
    """Flat indices as storage_order 1 counts them: along a column first, inside the same plane."""
    plane, at = np.divmod(indices, shape[-1] * shape[-2])
    row, column = np.divmod(at, shape[-1])
    return plane * shape[-1] * shape[-2] + column * shape[-2] + row


def computed(layer: Layer, x: Any, count: int) -> list[Any]:
    """The values of the layer, and indices where the case has them."""
    assert layer.op is not None, layer
    assert not layer.invalid, layer
    plan = make_plan(layer.op, x.shape, x.dtype)
    values, indices = run(plan, x, indices=count > 1)
    if indices is not None and layer.given.get("storage_order") == "1":
        indices = by_columns(indices, x.shape)
    return [values, indices][:count]


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
