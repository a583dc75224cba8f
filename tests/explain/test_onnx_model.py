"""Models of one pooling, held against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from poolcli import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AreaPool,
    AvgPool,
    LpPool,
    MaxPool,
    MinPool,
    ModePool,
    RequestError,
)
from poolcli.engine import run
from poolcli.plan import Plan, make_plan


def _run(model: Any, x: Any) -> Any:
    content = model.SerializeToString() if hasattr(model, "SerializeToString") else model
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def _saved(plan: Any, folder: Path, **options: Any) -> Any:
    plan.save_onnx(folder / "layer.onnx", **options)
    return onnx.load(folder / "layer.onnx")


def _ulp(found: Any, op: Any, x: Any) -> float:
    """The largest error of averages, in ulp of the mean of the absolute values of a window."""
    plan = op.plan(x.shape, "float64")
    exact, scale = (run(plan, each, engine="numpy")[0] for each in (x.astype(np.float64), np.abs(x.astype(np.float64))))
    return float((np.abs(found - exact) / np.spacing(scale.astype(np.float32))).max())


@pytest.mark.parametrize("sizes", [(13,), (57, 53), (17, 12, 8)], ids=["1d", "2d", "3d"])
def test_adaptive_averages_are_products_with_matrices_within_1_ulp_and_maxima_are_equal(
    sizes: tuple[int, ...], tmp_path: Path
) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, *sizes)).astype(np.float32)
    average, maximum = AdaptiveAvgPool((5,) * len(sizes)), AdaptiveMaxPool((5,) * len(sizes))
    model = _saved(average.plan(x.shape), tmp_path)
    assert sum(node.op_type == "MatMul" for node in model.graph.node) == len(sizes)
    assert _ulp(_run(model, x), average, x) <= 1
    area = AreaPool(tuple(range(4, 4 + len(sizes))))
    assert _ulp(_run(_saved(area.plan(x.shape), tmp_path, overwrite=True), x), area, x) <= 1
    model = _saved(maximum.plan(x.shape), tmp_path, overwrite=True)
    assert [node.op_type for node in model.graph.node if node.op_type != "Constant"] == ["Gather"] * len(sizes) + [
        "MaxPool"
    ]
    np.testing.assert_array_equal(_run(model, x), run(maximum.plan(x.shape), x, engine="numpy")[0])


OPS: dict[str, Any] = {
    "average": AvgPool(3, strides=2, pads=1, exclude_pad=False),
    "ceil": AvgPool(3, strides=2, pads=1, rounding_type="ceil"),
    "dilated": AvgPool(3, strides=2, pads=1, dilations=2),
    "maximum": MaxPool(3, strides=2, pads=1, dilations=2, rounding_type="ceil"),
    "dropped window": MaxPool(3, strides=2, pads_begin=0, pads_end=2, rounding_type="ceil_torch"),
    "dropped window of averages": AvgPool(2, strides=3, pads_begin=0, pads_end=1, rounding_type="ceil_torch"),
    "long pads": MaxPool(2, strides=2, pads=3),
    "minimum": MinPool(3, strides=2),
    "norm": LpPool(3, strides=2, p=3),
    "dilated norm": LpPool(3, strides=2, dilations=2),
    "whole": AdaptiveMaxPool(1),
    "bins": AdaptiveAvgPool((3, 4)),
}


def test_without_an_opset_the_first_that_does_it_is_taken(tmp_path: Path) -> None:
    ceil = LpPool(3, strides=4, rounding_type="ceil").plan((1, 3, 9, 9))
    for plan, opset in (
        (OPS["average"].plan((1, 3, 9, 9)), 17),
        (ceil, 18),
        (OPS["dilated norm"].plan((1, 3, 9, 9)), 18),
    ):
        assert [each.version for each in _saved(plan, tmp_path, overwrite=True).opset_import] == [opset]


@pytest.mark.parametrize("opset", [11, 17, 22])
@pytest.mark.parametrize("name", OPS)
def test_models_of_each_opset_run(name: str, opset: int, tmp_path: Path) -> None:
    plan: Plan = OPS[name].plan((2, 3, 8, 11))
    if opset < 19 and name.startswith("dilated"):
        with pytest.raises(RequestError, match="Unrecognized attribute: dilations for operator"):
            _saved(plan, tmp_path, opset=opset)
        return
    model = _saved(plan, tmp_path, opset=opset)
    assert [each.version for each in model.opset_import] == [opset]
    assert [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim] == list(plan.output_shape)
    x = np.random.default_rng(0).standard_normal(plan.input_shape).astype(np.float32)
    np.testing.assert_allclose(_run(model, x), run(plan, x, engine="numpy")[0], 1e-5, 2e-6)


def test_models_take_the_type_and_axes_of_tensors(tmp_path: Path) -> None:
    plan = make_plan(MaxPool(2), (6, 8, 3), "uint8", layout="HWC")
    model = _saved(plan, tmp_path)
    x = np.random.default_rng(0).integers(0, 255, (6, 8, 3)).astype(np.uint8)
    expected = run(plan, x, engine="numpy")[0].transpose(2, 0, 1)[None]
    np.testing.assert_array_equal(_run(model, x.transpose(2, 0, 1)[None]), expected)


@pytest.mark.parametrize(
    ("plan", "path", "options", "message"),
    [
        (AvgPool(2).plan((1, 1, 4)), "there.onnx", {}, "there.onnx exists; use overwrite=True to replace it"),
        (AvgPool(2).plan((1, 1, 4)), "y.pb", {}, "y.pb: a model needs the extension .onnx; write y.onnx"),
        (AvgPool(2).plan((1, 1, 4)), "y.onnx", {"opset": 10}, "opset is 10; it must be from 11 to"),
        (ModePool(2).plan((1, 1, 4), "uint8"), "y.onnx", {}, "no ONNX model: ONNX has no mode pooling"),
        (AvgPool(2).plan((1, 1, 4), "uint8"), "y.onnx", {}, "has unsupported type: tensor(uint8); no opset takes it"),
        (
            AvgPool(2, dilations=3, pads=2, exclude_pad=False).plan((1, 1, 2)),
            "y.onnx",
            {"opset": 17},
            "dilations for operator Av",
        ),
    ],
    ids=["exists", "extension", "opset", "operator", "type", "attribute"],
)
def test_what_no_model_can_be_is_refused_in_one_line(
    plan: Any, path: str, options: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.onnx").write_bytes(b"old")
    with pytest.raises(RequestError) as error:
        plan.save_onnx(path, **options)
    assert message in str(error.value)
    assert [each.name for each in tmp_path.iterdir()] == ["there.onnx"]
    assert Path("there.onnx").read_bytes() == b"old"
