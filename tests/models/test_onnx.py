"""ONNX models: attributes against ONNX Runtime, shapes that follow, bodies and functions, weights that are not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import poolcli
from tests.conftest import Cli
from tests.models.onnxs import model, node, value

K: dict[str, Any] = {"kernel_shape": [2, 2]}
NODES: list[tuple[str, int, dict[str, Any]]] = [
    *(("AveragePool", opset, K | {"ceil_mode": 1}) for opset in (7, 8, 10)),
    *(("AveragePool", opset, K | {"dilations": [2, 2]}) for opset in (18, 19)),
    ("AveragePool", 7, K | {"count_include_pad": 1, "pads": [1, 1, 1, 1]}),
    *(("MaxPool", opset, K | {"storage_order": 1}) for opset in (7, 8)),
    *(("MaxPool", opset, K | {"dilations": [2, 2]}) for opset in (8, 10)),
    ("MaxPool", 22, K | {"count_include_pad": 1}),
    ("MaxPool", 22, {"strides": [2, 2]}),
    *(("MaxPool", 22, K | {"pads": pads}) for pads in ([1, 1], [1, 1, 1], [-1, 0, 0, 0], [2, 0, 0, 0], [1, 0, 1, 1])),
    *(("MaxPool", 22, K | {"strides": strides}) for strides in ([1], [0, 1], [-1, 1], [3, 2])),
    *(("MaxPool", 22, K | {"dilations": dilations}) for dilations in ([1], [0, 1], [3, 2])),
    *(("MaxPool", 22, {"kernel_shape": kernel}) for kernel in ([2], [2, 2, 2], [0], [2.0, 2.0], 2)),
    *(("MaxPool", 22, K | {"auto_pad": word}) for word in ("SAME", "same_upper", "SAME_LOWER", "NOTSET", "VALID")),
    ("MaxPool", 22, K | {"auto_pad": "SAME_UPPER", "pads": [1, 1, 1, 1]}),
    ("MaxPool", 22, K | {"ceil_mode": 2, "strides": [2, 2]}),
    ("MaxPool", 22, K | {"ceil_mode": [1]}),
    ("MaxPool", 22, K | {"kernel_size": [3, 3]}),
    *(("LpPool", opset, K | {"ceil_mode": 1}) for opset in (11, 18)),
    *(("LpPool", opset, K | {"p": p}) for opset, p in ((2, 2), (2, 2.0), (18, 3))),
    ("GlobalAveragePool", 22, {}),
    ("GlobalMaxPool", 22, {}),
    ("GlobalAveragePool", 22, {"keepdims": 1}),
    *((kind, 13, {"axes": [2, 3]}) for kind in ("ReduceMean", "ReduceMax")),
    ("ReduceMean", 13, {"axes": [-1, -2], "keepdims": 0}),
    *(("AveragePool", 22, {"kernel_shape": [k, 2], "strides": [2, 2], "ceil_mode": ceil})
      for k in (9, 10, 11, 14) for ceil in (0, 1)),
    *(("MaxPool", 22, {"kernel_shape": [k, 2], "strides": [2, 2], "auto_pad": "VALID", "pads": [1, 0, 1, 0]})
      for k in (9, 10, 11, 12, 14)),
]  # fmt: skip


@pytest.mark.parametrize("opset", sorted({opset for _, opset, _ in NODES}))
def test_what_onnx_runtime_refuses_is_invalid_and_its_shapes_are_the_computed_ones(
    opset: int, cli: Cli, tmp_path: Path
) -> None:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    of_opset = [(kind, attributes) for kind, its_opset, attributes in NODES if its_opset == opset]
    nodes = [node(kind, "x", f"y{i}", **attributes) for i, (kind, attributes) in enumerate(of_opset)]
    found = cli("check", model(tmp_path / "m.onnx", nodes, opset=opset), "--json").json["layers"]
    for (kind, attributes), layer in zip(of_opset, found, strict=True):
        alone = model(tmp_path / "alone.onnx", [node(kind, **attributes)], opset=opset)
        try:
            session = ort.InferenceSession(alone.read_bytes(), options, providers=["CPUExecutionProvider"])
            theirs = list(session.run(None, {"x": np.ones((1, 3, 9, 9), np.float32)})[0].shape)
        except Exception:  # its errors have no root of their own
            theirs = None
        expected = ("invalid", None) if theirs is None else ("computed", theirs)
        assert (layer["verdict"], layer["computed"]) == expected, (kind, attributes)


@pytest.mark.parametrize(
    ("opset", "attributes", "reason"),
    [
        (8, K | {"ceil_mode": 1}, "MaxPool has no attribute ceil_mode in opset 8"),
        (22, {"kernelshape": [2, 2]}, "MaxPool has no attribute kernelshape in opset 22; did you mean kernel_shape?"),
        (22, {"kernel_shape": 2}, "kernel_shape is INT; it must be INTS"),
        (22, {}, "it has no attribute kernel_shape"),
        (22, K | {"pads": [1, 1]}, "pads has 2 numbers, but 2 spatial axes need 4"),
        (22, K | {"pads": [2, 2, 2, 2]}, "ONNX allows pads of at most 1 for a kernel of 2: axis H has pads 2,2; "
         "use pads=1"),
        (22, {"kernel_shape": [12, 2]}, "axis H is 9 long, kernel 12 without padding leaves no window; "
         "use kernel=(9, 2) or pads=(2, 0)"),
        (22, K | {"dilations": [9, 1], "kernel_shape": [3, 2]}, "axis H is 9 long, kernel 3 with dilation 9 spans 19 "
         "and without padding leaves no window; use kernel=(1, 2)"),
    ],
)  # fmt: skip
def test_why_a_node_is_invalid(opset: int, attributes: dict[str, Any], reason: str, cli: Cli, tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", [node("MaxPool", **attributes)], opset=opset)
    done = cli("check", path, "--json")
    (found,) = done.json["layers"]
    assert (done.code, found["verdict"], found["reason"]) == (1, "invalid", f"ONNX Runtime refuses it: {reason}")


@pytest.mark.parametrize(("declared", "verdict"), [((1, 3, 1, 8), "differs"), (None, "computed")])
def test_an_output_that_is_empty_is_no_unknown_one(
    declared: tuple[int, ...] | None, verdict: str, cli: Cli, tmp_path: Path
) -> None:
    nodes = [node("MaxPool", kernel_shape=[10, 2])]
    done = cli("check", model(tmp_path / "m.onnx", nodes, outputs=[value("y", declared)]), "--json")
    (found,) = done.json["layers"]  # ONNX Runtime gives (1, 3, 0, 8)
    assert (done.code, found["verdict"], found["computed"]) == (int(verdict == "differs"), verdict, [1, 3, 0, 8])
    assert found["warnings"] == ["axis H: the window is longer than the padded input, which other frameworks refuse"]


@pytest.mark.parametrize(
    ("against", "said"),
    [
        ("onnx", []),
        ("pytorch", []),
        ("openvino", ["OpenVINO: not in the same attributes (axis H is 9 long, kernel 12 without padding leaves no "
                      "window; use --kernel 9,3 or --pads 2,0); --to openvino writes it"]),
    ],
)  # fmt: skip
def test_a_window_longer_than_its_axis_that_ceil_keeps(against: str, said: list[str], cli: Cli, tmp_path: Path) -> None:
    nodes = [node("MaxPool", kernel_shape=[12, 3], strides=[4, 3], ceil_mode=1)]
    done = cli("check", model(tmp_path / "m.onnx", nodes), "--against", against, "--json")
    (found,) = done.json["layers"]
    assert (done.code, found["verdict"], found["computed"]) == (0, "computed", [1, 3, 1, 3])
    kept = "axis H: the window is longer than the padded input; ceil keeps one over what there is"
    assert (found["warnings"], found["alike"]) == ([kept, *said], not said)


def test_what_depends_on_dynamic_lengths_is_not_known(cli: Cli, tmp_path: Path) -> None:
    nodes = [
        node("MaxPool", "x", "a", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", "a", "r"),
        node("AveragePool", "r", "b", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("GlobalMaxPool", "b", "y"),
    ]
    values = [value("a", ["N", 3, "h", "w"]), value("y", ["N", 3, 1, 1])]
    path = model(tmp_path / "m.onnx", nodes, ["N", 3, "H", "W"], values=values)
    found = cli("check", path, "--json").json["layers"]
    assert [(each["input"], each["declared"], each["computed"], each["verdict"]) for each in found] == [
        (["N", 3, "H", "W"], ["N", 3, "h", "w"], ["N", 3, "?", "?"], "agrees"),
        (["N", 3, "h", "w"], None, ["N", 3, "?", "?"], "computed"),
        (["N", 3, "?", "?"], ["N", 3, 1, 1], ["N", 3, 1, 1], "agrees"),
    ]
    made = cli("check", path, "--json", "--input-shape", "x=2,3,640,481").json["layers"]
    assert [each["computed"] for each in made] == [[2, 3, 320, 241], [2, 3, 160, 121], [2, 3, 1, 1]]


@pytest.mark.parametrize("nothing", [-1, 0, None])
def test_lengths_that_are_no_numbers_are_dynamic(nothing: int | None, cli: Cli, tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", [node("MaxPool", **K)], [nothing, 3, 16, nothing])
    (found,) = cli("check", path, "--json").json["layers"]
    assert (found["input"], found["computed"]) == (["?", 3, 16, "?"], ["?", 3, 15, "?"])


def test_declared_shapes_are_for_the_lengths_that_the_file_states(cli: Cli, tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", [node("MaxPool", **K)], outputs=[value("y", [1, 3, 8, 8])])
    assert cli("check", path, "--json").json["layers"][0]["verdict"] == "agrees"
    (found,) = cli("check", path, "--json", "--input-shape", "x=1,3,20,20").json["layers"]
    assert (found["verdict"], found["computed"], found["reason"]) == (
        "computed", [1, 3, 19, 19], "the file states shapes for another input"
    )  # fmt: skip


@pytest.mark.parametrize("opset", [22, 18])
def test_calls_of_a_function_are_told_apart(opset: int, cli: Cli, tmp_path: Path) -> None:
    long, halve = "Pool" * 99, node("MaxPool", "a", "b", name="halve", kernel_shape=[2, 2], strides=[2, 2])
    function = helper.make_function("my", long, ["a"], ["b"], [halve], [helper.make_opsetid("", opset)])
    nodes = [node(long, "x", "p", domain="my"), node(long, "p", "y", domain="my")]
    found = cli("check", model(tmp_path / "m.onnx", nodes, ["N", 3, 64, "W"], functions=[function]), "--json")
    assert [(each["name"], each["computed"]) for each in found.json["layers"]] == [
        ("Pool" * 50 + "/halve__1", ["N", 3, 32, "?"]), ("Pool" * 50 + "/halve__2", ["N", 3, 16, "?"])
    ]  # fmt: skip


@pytest.mark.parametrize("opset", [7, 22])
def test_lengths_that_are_a_constant_under_another_name_are_known(opset: int, cli: Cli, tmp_path: Path) -> None:
    nodes = [node("Identity", "three", "wanted"), node("Reshape", "x wanted", "r"), node("GlobalMaxPool", "r", "y")]
    constants = [helper.make_tensor("three", TensorProto.INT64, [3], [1, 3, -1])]
    path = model(tmp_path / "m.onnx", nodes, (1, 3, 9, 9), opset=opset, constants=constants)
    (found,) = cli("check", path, "--json").json["layers"]
    assert (found["input"], found["computed"]) == ([1, 3, 81], [1, 3, 1])


def test_channels_last_and_quantised_forms(cli: Cli, tmp_path: Path) -> None:
    scales = "x s z s z"
    nodes = [
        node("QLinearAveragePool", scales, "a", domain="com.microsoft", kernel_shape=[2, 2], channels_last=1),
        node("QLinearAveragePool", scales, "b", domain="com.microsoft", kernel_shape=[2, 2]),
        node("QLinearGlobalAveragePool", scales, "c", domain="com.microsoft", channels_last=1),
        node("MaxUnpool", "x i", "y", kernel_shape=[2, 2]),
    ]
    found = cli("check", model(tmp_path / "m.onnx", nodes, (1, 9, 9, 3)), "--json").json["layers"]
    assert [(each["type"], each["computed"], each["reason"]) for each in found] == [
        ("QLinearAveragePool", [1, 8, 8, 3], None),
        ("QLinearAveragePool", [1, 9, 8, 2], None),
        ("QLinearGlobalAveragePool", [1, 1, 1, 3], None),
        ("MaxUnpool", None, "MaxUnpool is not checked"),
    ]


@pytest.mark.parametrize(
    ("kind", "domain", "reason"),
    [
        ("MaxRoiPool", "", "MaxRoiPool is not checked"),
        ("GlobalLpPool", "", "GlobalLpPool is not checked"),
        ("MaxPool", "com.microsoft.nchwc", "com.microsoft.nchwc.MaxPool is not checked"),
        ("SoftPool2d", "mine", "mine.SoftPool2d is not checked"),
    ],
)
def test_other_operators_that_pool_by_their_name_are_listed_as_unknown(
    kind: str, domain: str, reason: str, cli: Cli, tmp_path: Path
) -> None:
    """ONNX Runtime writes operators of com.microsoft.nchwc into models that it has optimised for a processor."""
    path = model(tmp_path / "m.onnx", [node(kind, domain=domain)])
    (found,) = cli("check", path, "--json").json["layers"]
    assert (found["verdict"], found["reason"]) == ("unknown", reason)


LOST = "--input-shape or value_info gives its lengths"
RANK_LOST = f"the rank of its input is not known; {LOST}"
COMPUTED = "its list of axes is not a constant; fold constants (onnxsim)"
HIDING = node("FusedConv", "x", "c", domain="com.microsoft", name="conv")  # whose shape is not known


@pytest.mark.parametrize(
    ("before", "inputs", "attributes", "declared", "reasons"),
    [
        (HIDING, "c", {"axes": [2, 3]}, None, [RANK_LOST]),
        (HIDING, "c", {"axes": [-2, -1], "keepdims": 0}, [1, 3], [RANK_LOST]),
        (HIDING, "c", {"axes": [2], "keepdims": 0}, [1, 3], [RANK_LOST]),
        (HIDING, "c", {"axes": [2], "keepdims": 0}, [1, 3, 8], []),
        (HIDING, "c", {"axes": [2, 3]}, [1, 3, 1, 1, 8], []),
        (HIDING, "c", {"axes": [-1]}, None, []),
        (node("Shape", "x", "a"), "x a", {}, None, [COMPUTED]),
        (node("Shape", "x", "a"), "x a", {}, [1, 3, 1, 1], [COMPUTED]),
        (node("Shape", "x", "a"), "x a", {}, [1, 3, 9, 1], []),
        (node("Shape", "x", "a"), "x", {}, None, []),  # which reduces all axes
    ],
)
def test_reductions_whose_shape_or_axes_are_not_known_are_listed_if_they_may_pool(
    before: Any, inputs: str, attributes: dict[str, Any], declared: list[int] | None, reasons: list[str],
    cli: Cli, tmp_path: Path,
) -> None:  # fmt: skip
    nodes = [before, node("ReduceMean", inputs, **attributes)]
    path = model(tmp_path / "m.onnx", nodes, opset=13 if attributes else 18, outputs=[value("y", declared)])
    found = cli("check", path, "--json").json["layers"]
    assert [(each["verdict"], each["reason"]) for each in found] == [("unknown", reason) for reason in reasons]


def test_a_reduction_on_a_shape_that_is_not_known_is_not_converted(cli: Cli, tmp_path: Path) -> None:
    """Its axes alone do not tell the layout."""
    nodes = [node("FusedConv", "x", "c", domain="com.microsoft"), node("ReduceMean", "c", axes=[1, 2])]
    path = model(tmp_path / "m.onnx", nodes, opset=13)
    (found,) = cli("check", path, "--to", "pytorch", "--json").json["layers"]
    assert (found["to"]["text"], found["to"]["reason"]) == (None, RANK_LOST)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("where", ["initializer", "node"])
def test_axes_of_reductions_may_be_a_constant(opset: int, where: str, cli: Cli, tmp_path: Path) -> None:
    tensor = helper.make_tensor("ax", TensorProto.INT64, [2], [2, -1])
    stated: dict[str, Any] = {"axes": [2, -1]} if opset == 13 else {}
    nodes = [node("Constant", "", "ax", value=tensor)] if where == "node" else []
    nodes.append(node("ReduceMean", "x" if opset == 13 else "x ax", keepdims=0, **stated))
    path = model(tmp_path / "m.onnx", nodes, opset=opset, constants=[tensor] if where == "initializer" else [])
    assert [each["computed"] for each in cli("check", path, "--json").json["layers"]] == [[1, 3]]


def test_a_model_that_takes_more_memory_than_the_limit_is_refused(cli: Cli, tmp_path: Path) -> None:
    big = TensorProto(name="big", dims=[1 << 25], data_type=2, raw_data=bytes(1 << 25))
    path = model(tmp_path / "m.onnx", [node("MaxPool", **K)], constants=[big])
    done = cli("check", path, "--max-memory", "50M")
    told = "reading it takes 64 MiB of memory, but the limit is 50 MiB; raise --max-memory"
    assert (done.code, done.err) == (2, f"poolcli: {path}: {told}\n")
    assert cli("check", path, "--max-memory", "70M").code == 0  # the weights are not passed on to onnx


@pytest.mark.parametrize(
    ("nodes", "declared", "verdict", "computed", "reason"),
    [
        ([node("Foo", "x", "f", domain="com.microsoft"), node("Relu", "f", "r"), node("MaxPool", "r", **K)], (1, 4, 5),
         "unknown", None, "the rank of its input is not known; {}"),
        ([node("NonZero", "x", "n"), node("Unsqueeze", "n", "u", axes=[0]), node("MaxPool", "u", kernel_shape=[2])],
         (1, 4, 5), "unknown", [1, 4, "?"], "axis W: declared, but dynamic in the input; {}"),
    ],
    ids=["rank", "declared"],
)  # fmt: skip
def test_what_shape_inference_does_not_find_can_be_given(
    nodes: list[Any], declared: tuple[int, ...], verdict: str, computed: Any, reason: str, cli: Cli, tmp_path: Path
) -> None:
    path = model(tmp_path / "m.onnx", nodes, (1, 3, 9, 9), 11, outputs=[value("y", declared)])
    (found,) = cli("check", path, "--json").json["layers"]
    assert (found["verdict"], found["computed"], found["reason"]) == (verdict, computed, reason.format(LOST))


def test_an_unknown_batch_does_not_make_a_layer_unknown(cli: Cli, tmp_path: Path) -> None:
    """As behind an Expand by lengths that nodes compute."""
    nodes = [node("Foo", "x", "f", domain="com.microsoft"), node("MaxPool", "f", **K)]
    values = [value("f", ["?", 3, 9, 9])]
    path = model(tmp_path / "m.onnx", nodes, values=values, outputs=[value("y", (1, 3, 8, 8))])
    (found,) = cli("check", path, "--json").json["layers"]
    assert (found["input"], found["computed"], found["verdict"]) == (["?", 3, 9, 9], ["?", 3, 8, 8], "agrees")


def test_lengths_of_the_only_input_need_no_name(cli: Cli, tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", [node("MaxPool", **K)], ["N", 3, "H", "W"])
    (found,) = cli("check", path, "--input-shape", "2x3x8x9", "--json").json["layers"]
    (same,) = poolcli.check(path, input_shape=(2, 3, 8, 9))
    assert (found["computed"], same.computed) == ([2, 3, 7, 8], (2, 3, 7, 8))
    done = cli("check", path, "--input-shape", "1,4,8,8")
    told = "input x has 3 channels, but 4 are given in --input-shape 1,4,8,8"
    assert (done.code, done.err) == (2, f"poolcli: {path}: {told}\n")
    graph = helper.make_graph(
        [node("MaxPool", "b", **K)], "g", [value(n, [1, 3, "H", 9]) for n in "ab"], [value("y", None)]
    )
    path.write_bytes(helper.make_model(graph).SerializeToString())
    done = cli("check", path, "--input-shape", "1,3,8,8")
    told = "it has 2 inputs; name one, as in --input-shape a=1,3,640,640"
    assert (done.code, done.err) == (2, f"poolcli: {path}: {told}\n")


def test_a_layer_behind_one_that_differs_names_it(cli: Cli, tmp_path: Path) -> None:
    """The file states what onnx infers for opset 10: a last window that ONNX Runtime drops."""
    pool = {"kernel_shape": [1, 1], "strides": [2, 2], "ceil_mode": 1}
    nodes = [node("MaxPool", "x", "a", name="first", **pool), node("AveragePool", "a", **K)]
    values = [value("a", [1, 3, 6, 6])]
    path = model(tmp_path / "m.onnx", nodes, (1, 3, 10, 10), 10, values=values, outputs=[value("y", [1, 3, 5, 5])])
    first, second = cli("check", path, "--json").json["layers"]
    assert (first["verdict"], first["computed"], second["verdict"], second["computed"]) == (
        "differs", [1, 3, 5, 5], "differs", [1, 3, 4, 4]
    )  # fmt: skip
    assert second["reason"].endswith("; its input is not the stated one, because first differs")


def test_openvino_imports_ceil_of_averages_but_not_of_maxima_as_ceil_torch(cli: Cli, tmp_path: Path) -> None:
    """OpenVINO 2026.4: (1, 3, 5, 5) and (1, 3, 6, 6)."""
    pool = {"kernel_shape": [1, 1], "strides": [2, 2], "ceil_mode": 1}
    nodes = [node("AveragePool", "x", "a", **pool), node("MaxPool", "x", "y", **pool)]
    path = model(tmp_path / "m.onnx", nodes, (1, 3, 10, 10))
    average, maximum = cli("check", path, "--against", "openvino", "--json").json["layers"]
    assert [each for each in average["warnings"] if each.startswith("OpenVINO:")] == []
    assert maximum["warnings"] == [
        "OpenVINO: keeps a last window that starts past the input (ceil: OpenVINO AvgPool-1 on, nGraph)"
    ]


def test_a_framework_that_has_no_such_layer_is_named_though_lengths_are_dynamic(cli: Cli, tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", [node("LpPool", **K)], ["N", 3, "H", 9])
    (found,) = cli("check", path, "--against", "ngraph", "--json").json["layers"]
    assert found["warnings"][0].startswith("nGraph: refuses it: ")
