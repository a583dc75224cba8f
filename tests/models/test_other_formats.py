"""Models of TensorFlow Lite and of torch.export, written by those; and files that are no model."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from poolcli import check
from tests.conftest import Cli

SAMPLES = Path(__file__).parent / "samples"
TFLITE = [
    ("MAX_POOL_2D", ["?", 32, 33, 8], ["?", 16, 17, 8]),
    ("AVERAGE_POOL_2D", ["?", 16, 17, 8], ["?", 8, 8, 8]),
    ("REDUCE_MAX", ["?", 8, 8, 8], ["?", 1, 1, 8]),
    ("MEAN", ["?", 8, 8, 8], ["?", 8]),
    ("AVERAGE_POOL_2D", ["?", 32, 33, 8], ["?", 16, 17, 8]),
]
PT2 = [
    ("max_pool2d", ["s77", 8, 31, 38], ["s77", 8, 16, 20]),
    ("avg_pool2d", ["s77", 8, 16, 20], ["s77", 8, 8, 10]),
    ("adaptive_avg_pool2d", ["s77", 8, 8, 10], ["s77", 8, 1, 1]),
    ("avg_pool2d", ["s77", 8, 16, 20], ["s77", 8, 8, 10]),
    ("adaptive_max_pool2d", ["s77", 8, 16, 20], ["s77", 8, 3, 3]),
    ("mean", ["s77", 8, 16, 20], ["s77", 8]),
    ("amax", ["s77", 8, 16, 20], ["s77", 8]),
    ("max_pool2d_with_indices", ["s77", 8, 16, 20], ["s77", 8, 8, 10]),
    ("avg_pool2d", ["s77", 8, 16, 20], ["s77", 8, 8, 10]),
]


@pytest.mark.parametrize(("name", "layers"), [("pooling.tflite", TFLITE), ("pooling.pt2", PT2)])
def test_the_shapes_that_the_framework_wrote_are_the_computed_ones(
    name: str, layers: list[tuple[str, list[object], list[object]]], cli: Cli
) -> None:
    found = cli("check", SAMPLES / name, "--json").json["layers"]
    assert [(each["type"], each["input"], each["declared"]) for each in found] == layers
    assert [(each["computed"], each["verdict"]) for each in found] == [(shape, "agrees") for _, _, shape in layers]


def test_a_shape_that_was_changed_differs(cli: Cli, tmp_path: Path) -> None:
    old, new = (b"".join(size.to_bytes(4, "little") for size in sizes) for sizes in ((16, 17), (16, 18)))
    data = (SAMPLES / "pooling.tflite").read_bytes()
    (tmp_path / "m.tflite").write_bytes(data.replace(old, new))
    done = cli("check", tmp_path / "m.tflite", "--json")
    first = done.json["layers"][0]
    assert (done.code, first["verdict"], first["reason"]) == (
        1, "differs", "axis W: declared 18, computed (33+1+1-3)//2 + 1 = 17"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "verdict", "reason"),
    [
        ('{"as_name": "sym_size_int"}, {"as_int": 1}', "unknown", "its output_size depends on a dynamic length"),
        ('{"as_int": 1}, {"as_int": 1}', "agrees", None),
    ],
)
def test_output_sizes_that_torch_export_writes_with_dynamic_lengths(
    sizes: str, verdict: str, reason: str | None, cli: Cli, tmp_path: Path
) -> None:
    """As for torch.nn.AdaptiveAvgPool2d((None, 1)) and a dynamic height."""
    edited, (fixed, dynamic) = tmp_path / "m.pt2", ('"as_ints": [1, 1]', f'"as_sym_ints": [{sizes}]')
    with zipfile.ZipFile(SAMPLES / "pooling.pt2") as old, zipfile.ZipFile(edited, "w") as new:
        for name in old.namelist():
            before, operator, after = old.read(name).decode("latin1").partition("aten.adaptive_avg_pool2d")
            new.writestr(name, (before + operator + after.replace(fixed, dynamic, 1)).encode("latin1"))
    layer = cli("check", edited, "--json").json["layers"][2]
    assert (layer["type"], layer["verdict"], layer["reason"]) == ("adaptive_avg_pool2d", verdict, reason)


def call(kind: str, x: str, y: str, *more: tuple[str, str, Any]) -> dict[str, Any]:
    """A node as torch.export 2.13 writes it, without what poolcli does not read."""
    given = [("self", "as_tensor", {"name": x}), *more]
    inputs = [{"name": name, "arg": {type_: value}, "kind": 1} for name, type_, value in given]
    return {"target": f"torch.ops.{kind}", "inputs": inputs, "outputs": [{"as_tensor": {"name": y}}]}


def graph(shapes: dict[str, list[int | str]], *nodes: dict[str, Any]) -> dict[str, Any]:
    def size(length: int | str) -> dict[str, Any]:
        symbol = {"as_expr": {"expr_str": f"Symbol('{length}', positive=True, integer=True)"}}
        return {"as_int": length} if isinstance(length, int) else symbol

    sizes = {name: {"sizes": list(map(size, shape))} for name, shape in shapes.items()}
    return {"nodes": list(nodes), "tensor_values": sizes}


def pt2(path: Path, content: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("m/models/model.json", json.dumps({"graph_module": {"graph": content}}))
    return path


def test_calls_within_loops_branches_and_contexts_are_found(cli: Cli, tmp_path: Path) -> None:
    """As for torch.while_loop with a body under torch.autocast."""
    pool = call("aten.max_pool2d.default", "a", "max_pool2d", ("kernel_size", "as_ints", [2, 2]))
    inner = graph({"a": [1, 3, 8, 8], "max_pool2d": [1, 3, 4, 4]}, pool)
    region = {"target": "torch.ops.higher_order.wrap_with_autocast", "outputs": [],
               "inputs": [{"name": "", "arg": {"as_graph": {"name": "submod_1", "graph": inner}}}]}  # fmt: skip
    loop = {"target": "torch.ops.higher_order.while_loop", "outputs": [],
            "inputs": [{"name": "", "arg": {"as_graph": {"name": "b" * 300, "graph": graph({}, region)}}}]}  # fmt: skip
    (layer,) = cli("check", pt2(tmp_path / "m.pt2", graph({"a": [1, 3, 9, 9]}, loop)), "--json").json["layers"]
    assert (layer["name"], layer["input"], layer["computed"], layer["verdict"]) == (
        "b" * 190 + "/submod_1/max_pool2d", [1, 3, 8, 8], [1, 3, 4, 4], "agrees"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("node", "output", "listed"),
    [
        (call("aten.max.dim", "x", "y", ("dim", "as_int", 2), ("keepdim", "as_bool", True)), [2, 3, 1], True),
        (call("aten.max.dim", "x", "y", ("dim", "as_int", -1)), [2, 3], True),
        (call("aten.max.dim", "x", "y", ("dim", "as_int", 1)), [2, 8], False),
        (call("aten.max.other", "x", "y", ("other", "as_tensor", {"name": "x"})), [2, 3, 8], False),
        (call("other.mean.dim", "x", "y", ("dim", "as_ints", [2])), [2, 3], False),
    ],
)
def test_maxima_over_the_spatial_axis_are_global_poolings(
    node: dict[str, Any], output: list[int | str], listed: bool, tmp_path: Path
) -> None:
    """As PointNet's torch.max(x, 2)[0] is exported."""
    found = check(pt2(tmp_path / "m.pt2", graph({"x": [2, 3, 8], "y": output}, node)))
    assert [(each.computed, each.verdict) for each in found] == [(tuple(output), "agrees")] * listed


def test_a_reduction_over_axes_that_are_not_constant_is_left_out(tmp_path: Path) -> None:
    node = call("aten.mean.dim", "x", "y", ("dim", "as_sym_ints", [{"as_name": "s"}]))
    assert list(check(pt2(tmp_path / "m.pt2", graph({"x": [1, 3, 8, 8], "y": [1, 3, 8]}, node)))) == []


@pytest.mark.parametrize(
    "kind", ["aten.fractional_max_pool2d", "quantized.max_pool2d", "mine.soft_pool", "torchvision.roi_align"]
)
def test_other_calls_that_pool_by_their_name_are_listed_as_unknown(kind: str, cli: Cli, tmp_path: Path) -> None:
    node = call(f"{kind}.default", "x", "y")
    (layer,) = cli("check", pt2(tmp_path / "m.pt2", graph({"x": [1, 3, 8, 8]}, node)), "--json").json["layers"]
    assert (layer["verdict"], layer["reason"]) == ("unknown", f"{kind.partition('.')[2]} is not checked")


def test_a_window_longer_than_the_input_counts_its_own_length_as_stride(cli: Cli, tmp_path: Path) -> None:
    """PyTorch 2.13: max_pool2d(torch.rand(1, 2, 3, 8), 5, ceil_mode=True) is of shape 1, 2, 1, 2."""
    node = call("aten.max_pool2d.default", "x", "y", ("kernel_size", "as_ints", [5, 5]), ("ceil_mode", "as_bool", True))
    content = graph({"x": [1, 2, 3, 8], "y": [1, 2, 1, 2]}, node)
    (layer,) = cli("check", pt2(tmp_path / "m.pt2", content), "--json").json["layers"]
    assert (layer["computed"], layer["verdict"]) == ([1, 2, 1, 2], "agrees")


def test_what_makes_lengths_known_depends_on_the_kind_of_file(cli: Cli, tmp_path: Path) -> None:
    """`--input-shape` is for IR and ONNX models."""
    pool = call("aten.adaptive_avg_pool1d.default", "x", "y", ("output_size", "as_ints", [3]))
    path = pt2(tmp_path / "m.pt2", graph({"x": [1, 3, "s0"], "y": [1, 3, 3]}, pool))
    (layer,) = cli("check", path, "--against", "pytorch", "--to", "onnx", "--json").json["layers"]
    assert layer["warnings"] == ["PyTorch: not compared, because axes are dynamic; export the model with fixed lengths"]
    assert layer["to"]["reason"] == "the call depends on dynamic lengths; export the model with fixed lengths"


def test_poolings_that_tensorflow_lite_takes_from_tensorflow_are_listed_as_unknown(cli: Cli) -> None:
    """The sample is Keras' MaxPooling3D, AveragePooling3D and GlobalAveragePooling3D, converted by TensorFlow 2.21."""
    found = cli("check", SAMPLES / "flex.tflite", "--json").json["layers"]
    assert [(each["type"], each["verdict"], each["reason"]) for each in found] == [
        ("FlexMaxPool3D", "unknown", "FlexMaxPool3D is not checked"),
        ("FlexAvgPool3D", "unknown", "FlexAvgPool3D is not checked"),
        ("MEAN", "agrees", None),
    ]


READ = "; check reads ONNX, OpenVINO IR (.xml), TensorFlow Lite and torch.export (.pt2)"
EXPORT = (
    f"{READ}; to export: torch.onnx.export(model, inputs, 'model.onnx'), model.export('model.onnx', format='onnx') of "
    "Keras, tf2onnx of TensorFlow"
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a model: the file is empty" + READ),
        (b"# A page\n", "a text file, not a model" + READ),
        (b"<net><layers><layer", "not well-formed XML: unclosed token: line 1, column 13"),
        (b"<html></html>", "not an OpenVINO IR: its root is not <net>"),
        (b"\x93NUMPY\x01\0", "an image or an array, not a model" + READ),
        (b"\x80\x02}q\0.", "a pickle, which is never opened" + EXPORT),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file, such as of Keras" + EXPORT),
        (["m/data.pkl", "m/version"], "a file of torch.save without a torch.export program" + EXPORT),
        (["m/data.pkl", "m/code/__torch__.py"], "a TorchScript file without a torch.export program" + EXPORT),
        (b"GGUF\x03\0\0\0", "a GGUF file, which holds weights and no layers" + EXPORT),
        (["m/models/model.json"], "not a torch.export program: it has no nodes"),
        (b"\x08\x01\x12\x02\x0a\0", "not an ONNX model: it has no nodes or no opset" + EXPORT),
        (b"\x08\x0a\x3a\x7f\x0a", "a damaged or cut ONNX model (copy or export it again), or none" + EXPORT),
        (b"PK\x03\x04", "a zip archive that cannot be read: File is not a zip file"),
        (b"\x10\0\0\0TFL3" + b"\xff" * 40, "not a readable TensorFlow Lite model: byte 65,555 is outside the file"),
    ],
)
def test_what_is_no_model_that_is_read_is_named_in_one_line(
    content: bytes | list[str], message: str, cli: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "m"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as made:
            for name in content:
                made.writestr(name, "{}")
    done = cli("check", path)
    assert (done.code, done.out, done.err) == (2, "", f"poolcli: {path}: {message}\n")


def test_a_name_that_no_file_can_have_is_refused_in_one_line(cli: Cli) -> None:
    done, error = cli("check", "a\0b"), cli("check", "a\0b", "--json").json["error"]
    assert (done.code, done.out, done.err) == (2, "", "poolcli: a\\x00b: no such file\n")
    assert error == {"kind": "request", "message": "a\\x00b: no such file", "field": None}


def test_lengths_cannot_be_given_where_shapes_do_not_follow(cli: Cli) -> None:
    for name in ("pooling.tflite", "pooling.pt2"):
        done = cli("check", SAMPLES / name, "--input-shape", "x=1,3,8,8")
        what = f"--input-shape is for ONNX models and IR; a .{name.rpartition('.')[2]} states its shapes"
        assert (done.code, done.err) == (2, f"poolcli: {SAMPLES / name}: {what}\n")
