"""Attributes of IR layers, against what OpenVINO itself does with the same layer; bodies, reductions, encodings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Cli
from tests.models.irs import AVG, dims, layer, model, runnable

MAX = AVG.replace('exclude-pad="true" ', "")
PADDED = 'kernel="3,3" strides="2,2" pads_begin="1,1" pads_end="1,1"'
WITHOUT = {name: " ".join(part for part in AVG.split() if not part.startswith(name)) for name in ("kernel", "strides")}


def with_(name: str, value: str, data: str = AVG) -> str:
    """The attributes with another value of one, or with one more."""
    kept = [part for part in data.split('" ') if not part.startswith(f"{name}=")]
    return '" '.join([*(part.rstrip('"') for part in kept), f'{name}="{value}']) + '"'


ATTRIBUTES = [
    ("AvgPool", "opset1", AVG),
    ("avgpool", "opset1", AVG),
    *(("AvgPool", version, AVG) for version in ("opset2", "opset8", "opset15", "", "extension")),
    *(("AvgPool", "opset1", data) for data in WITHOUT.values()),
    ("AvgPool", "opset1", 'kernel="2,2" strides="2,2"'),
    *(("AvgPool", version, with_("dilations", "2,2")) for version in ("opset1", "opset14", "opset16")),
    *(("AvgPool", version, with_("rounding_type", "ceil_torch")) for version in ("opset1", "opset14")),
    *(("AvgPool", "opset1", with_("kernel", value)) for value in ("2", "a,2", "2, 2", "2.0,2", "12,2", "0,2")),
    ("AvgPool", "opset1", with_("kernel", "9" * 25 + ",2")),
    *(("AvgPool", "opset1", with_("strides", value)) for value in ("2", "0,2", "2,2,2")),
    *(("AvgPool", "opset1", with_("pads_begin", value)) for value in ("", "0", "-1,0", "2,2", "1,1")),
    *(("AvgPool", "opset1", with_("exclude-pad", value)) for value in ("TRUE", "0", "maybe", "false")),
    *(("AvgPool", "opset1", with_("rounding_type", value)) for value in ("CEIL", "round")),
    *(("AvgPool", "opset1", with_("auto_pad", value)) for value in ("SAME_UPPER", "notset", "same", "valid")),
    *(("AvgPool", "opset1", with_(name, "ceil")) for name in ("rounding-type", "exclude_pad", "auto-pad")),
    ("MaxPool", "opset1", with_("dilations", "2,2", MAX)),
    ("MaxPool", "opset3", MAX),
    *(("MaxPool", version, MAX) for version in ("opset8", "opset14", "opset16")),
    *(("MaxPool", version, with_("dilations", "2,2", MAX)) for version in ("opset8", "opset14")),
    *(("MaxPool", version, with_("rounding_type", "ceil_torch", MAX)) for version in ("opset8", "opset14")),
    *(("MaxPool", "opset8", with_("axis", value, MAX)) for value in ("7", "x", "²", "--5", "-4", "3", "-5")),
    *(("MaxPool", "opset8", with_("index_element_type", value, MAX)) for value in ("u8", "I32")),
    *(("AdaptiveAvgPool", version, "") for version in ("opset1", "opset7")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "version", "data"), ATTRIBUTES)
def test_what_openvino_refuses_is_invalid_and_its_shapes_are_the_computed_ones(
    kind: str, version: str, data: str, cli: Cli, tmp_path: Path
) -> None:
    import openvino as ov

    path = runnable(tmp_path / "m.xml", layer(data, (1, 3, 9, 9), (), kind, version), (1, 3, 9, 9))
    try:
        read = ov.Core().read_model(path.read_text(), ov.Tensor(np.zeros(1, np.uint8)))
        theirs = list(read.get_ordered_ops()[1].output(0).shape)
    except RuntimeError:
        theirs = None
    (found,) = cli("check", path, "--json").json["layers"]
    assert (found["verdict"], found["computed"]) == (("invalid", None) if theirs is None else ("computed", theirs))


IGNORED = "attribute {} is not one of AvgPool's{} and is ignored{}"
ANSWERS: list[tuple[str, str, str, tuple[object, ...], tuple[object, ...], str, str | None, list[str]]] = [
    ("AvgPool", "opset99", AVG, (1, 3, 9, 9), (1, 3, 4, 4), "unknown",
     "opset99 is newer than opset16, the newest that is known here", []),
    ("AvgPool", "opset16", AVG, (1, 3, 9, 9), (1, 3, 4, 4), "invalid",
     "OpenVINO refuses it: AvgPool of opset16 without dilations crashes; write 1 for each axis", []),
    ("AvgPool", "opset1", with_("dilations", "2,2"), (1, 3, 8, 8), (1, 3, 4, 4), "agrees", None,
     [IGNORED.format("dilations", " before opset16", "")]),
    ("AvgPool", "opset1", with_("rounding-type", "ceil"), (1, 3, 8, 8), (1, 3, 4, 4), "agrees", None,
     [IGNORED.format("rounding-type", "", "; did you mean rounding_type?")]),
    ("AvgPool", "opset1", with_("exclude-pad", "maybe"), (1, 3, 8, 8), (1, 3, 4, 4), "agrees", None,
     ["exclude-pad is 'maybe', which OpenVINO reads as true"]),
    *(("AvgPool", "opset1", AVG, (dim, 3, 32, dim), (dim, 3, 16, dim), "agrees", None, list[str]())
      for dim in ("-1", "", "1..10")),
    ("AvgPool", "opset1", AVG, (1, 3, 32, "W"), (1, 3, 16, 16), "unknown",
     "axis W: declared, but dynamic in the input; --input-shape gives its lengths", []),
    ("AvgPool", "opset1", with_("rounding_type", "ceil"), (1, 3, 33, 33), (1, 3, 16, 16), "differs",
     "axes H, W: declared 16, as rounding_type floor gives; the file says ceil: 17", []),
    ("AvgPool", "opset1", with_("auto_pad", "valid", PADDED), (1, 3, 33, 33), (1, 3, 17, 17), "differs",
     "axes H, W: declared 17, as auto_pad explicit gives; the file says valid: 16",
     ["the given pads are ignored: auto_pad valid sets them"]),
    ("AvgPool", "opset1", with_("strides", "1,1"), (1, 3, 33, 33), (1, 3, 16, 16), "differs",
     "axes H, W: declared 16, as strides 2,2 gives; the file says 1,1: 32", []),
    ("AvgPool", "opset1", AVG, (1, 3, 33, 33), (1, 3, 11, 11), "differs",
     "axes H, W: declared 11, computed (33+0+0-2)//2 + 1 = 16", []),
    ("AvgPool", "opset1", AVG.replace('begin="0', 'begin="2'), (1, 3, 8, 8), (1, 3, 4, 4), "invalid",
     "OpenVINO refuses it: exclude_pad=True needs pads smaller than the window: axis H has pads 2,0 and a window of 2; "
     "use pads of at most 1", []),
    *((kind, "opset1", 'method="max"', (1, 3, 8, 8), (1, 3, 4, 4), "unknown", f"{kind} is not checked", list[str]())
      for kind in ("ROIAlign", "MaxPoolWithArgmax", "Pooling")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "version", "data", "shape", "declared", "verdict", "reason", "warnings"), ANSWERS)
def test_the_verdict_says_why(
    kind: str, version: str, data: str, shape: tuple[object, ...], declared: tuple[object, ...], verdict: str,
    reason: str | None, warnings: list[str], cli: Cli, tmp_path: Path,
) -> None:  # fmt: skip
    path = model(tmp_path / "m.xml", layer(data, shape, declared, kind, version))
    done = cli("check", path, "--json")
    (found,) = done.json["layers"]
    assert (found["verdict"], found["reason"], found["warnings"]) == (verdict, reason, warnings)
    assert done.code == (verdict in ("differs", "invalid"))


def test_layers_in_bodies_are_found_and_their_identities_hold_within_them(cli: Cli, tmp_path: Path) -> None:
    inner = layer(AVG, (1, 3, 8, 8), (1, 3, 4, 4))
    both = "".join(f"<{side}_body><layers>{inner}</layers><edges/></{side}_body>" for side in ("then", "else"))
    outer = f'<layer id="0" name="if" type="If" version="opset8">{both}</layer>'
    path = model(tmp_path / "m.xml", outer, layer(AVG, (1, 3, 6, 6), (1, 3, 3, 3)))
    found = cli("check", path, "--json").json["layers"]
    assert [(each["name"], each["computed"], each["verdict"]) for each in found] == [
        ("if/then_body/pool", [1, 3, 4, 4], "agrees"),
        ("if/else_body/pool", [1, 3, 4, 4], "agrees"),
        ("pool", [1, 3, 3, 3], "agrees"),
    ]


def reduction(tmp_path: Path, kind: str, shape: tuple[int, ...], axes: list[int], keep: str, declared: object) -> Path:
    """A model that reduces these axes, which are a constant in the weights."""
    (tmp_path / "m.bin").write_bytes(b"\0" * 8 + np.array(axes, "<i8").tobytes())
    constant = f'<layer id="c" type="Const"><data element_type="i64" offset="8" size="{8 * len(axes)}"/></layer>'
    ports = f'<port id="0">{dims(shape)}</port><port id="1">{dims([len(axes)])}</port>'
    one = (
        f'<layer id="0" name="mean" type="{kind}" version="opset1">'
        f'<data keep_dims="{keep}"/><input>{ports}</input>'
        f'<output><port id="2">{dims(declared)}</port></output></layer>'  # type: ignore[arg-type]  # a list of any kind
    )
    return model(
        tmp_path / "m.xml", constant, one, edges='<edge from-layer="c" from-port="0" to-layer="0" to-port="1"/>'
    )


@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceMax"])
@pytest.mark.parametrize(
    ("shape", "axes", "keep", "declared"),
    [
        ((1, 3, 8, 8), [2, 3], "true", [1, 3, 1, 1]),
        ((1, 3, 8, 8), [-1, -2], "false", [1, 3]),
        ((1, 8, 8, 3), [1, 2], "true", [1, 1, 1, 3]),
        ((1, 3, 2, 8, 8), [2, 3, 4], "1", [1, 3, 1, 1, 1]),
        ((1, 3, 8), [2], "true", [1, 3, 1]),
        ((1, 3, 8), [-1], "false", [1, 3]),
    ],
)
def test_reductions_of_the_spatial_axes_are_pooling(
    kind: str, shape: tuple[int, ...], axes: list[int], keep: str, declared: list[int], cli: Cli, tmp_path: Path
) -> None:
    (found,) = cli("check", reduction(tmp_path, kind, shape, axes, keep, declared), "--json").json["layers"]
    assert (found["type"], found["computed"], found["verdict"]) == (kind, declared, "agrees")


OTHER = [
    ((1, 3, 8, 8), [1]), ((1, 3, 8, 8), [3]), ((2, 5, 8), [-1]), ((1, 3, 8, 8), [1, 2, 3]), ((4, 4), [1]),
    ((1, 3, 8, 8), [2, 9]),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axes"), OTHER)
def test_other_reductions_are_no_pooling(shape: tuple[int, ...], axes: list[int], cli: Cli, tmp_path: Path) -> None:
    assert cli("check", reduction(tmp_path, "ReduceMean", shape, axes, "true", [1]), "--json").json["layers"] == []


@pytest.mark.parametrize(
    ("shape", "keep", "declared", "listed"),
    [
        ((1, 3, 8, 8), "true", [1, 3, 1, 1], True),
        ((1, 8, 8, 3), "false", [1, 3], True),
        ((1, 3, 8), "true", [1, 3, 1], True),
        ((1, 3, 8, 8), "true", [1, 3, 8, 1], False),
        ((1, 3, 8, 8), "false", [1, 3, 8], False),
        ((3, 8), "false", [3], False),
    ],
)
def test_reductions_whose_axes_are_missing_are_listed_if_they_may_pool(
    shape: tuple[int, ...], keep: str, declared: list[int], listed: bool, cli: Cli, tmp_path: Path
) -> None:
    path = reduction(tmp_path, "ReduceMean", shape, [2, 3], keep, declared)
    path.with_suffix(".bin").unlink()
    found = cli("check", path, "--json").json["layers"]
    assert [(each["verdict"], each["reason"]) for each in found] == [
        ("unknown", "its list of axes is a constant in m.bin, which is not beside the model; put it there")
    ] * listed


def dynamic(folder: Path) -> Path:
    """A model of an input `x` with dynamic lengths, its maxima and their mean, as OpenVINO saves it."""
    import openvino as ov
    from openvino import opset8

    x = opset8.parameter([-1, 3, -1, -1], np.float32, name="x")
    pool = opset8.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [3, 3], "ceil")
    mean = opset8.reduce_mean(pool.output(0), np.array([2, 3], np.int64), True)
    ov.save_model(ov.Model([mean.output(0)], [x], "m"), folder / "m.xml")
    return folder / "m.xml"


def test_openvino_says_what_follows_from_given_lengths(cli: Cli, tmp_path: Path) -> None:
    path = dynamic(tmp_path)
    found = cli("check", path, "--json").json["layers"]
    assert [each["computed"] for each in found] == [["?", 3, "?", "?"], ["?", 3, 1, 1]]
    for shape in ("x=1,3,33,40", "x:1x3x33x40"):
        found = cli("check", path, "--json", "--input-shape", shape).json["layers"]
        assert [(each["input"], each["computed"]) for each in found] == [
            ([1, 3, 33, 40], [1, 3, 16, 20]), ([1, 3, 16, 20], [1, 3, 1, 1])
        ]  # fmt: skip
    found = cli("check", "samples/backbone.xml", "--json", "--input-shape", "1,3,640,640").json["layers"]
    assert [each["computed"] for each in found] == [[1, 12, 160, 160], [1, 12, 80, 80], [1, 192, 14, 14]]
    done = cli("check", path, "--input-shape", "y=1,3,33,40")
    assert (done.code, done.err) == (2, f"poolcli: {path}: no input is called y; there are: x\n")
    done = cli("check", path, "--input-shape", "x=1,3,33")
    assert (done.code, done.err.count("\n"), "OpenVINO does not accept these lengths" in done.err) == (2, 1, True)


def branching(folder: Path) -> Path:
    """A model whose pooling lies in the bodies of an If and of a Loop, as OpenVINO saves it."""
    import openvino as ov
    from openvino import opset8

    shape = [-1, 3, -1, -1]
    x, bodies = opset8.parameter(shape, np.float32, name="x"), []
    for name, kernel in (("then", 2), ("else", 3), ("again", 1)):
        given = opset8.parameter(shape, np.float32)
        pool = opset8.max_pool(given, [kernel] * 2, [1, 1], [0, 0], [0, 0], [kernel] * 2, name=name)
        truth = [opset8.constant(True, np.bool_).output(0)] if kernel == 1 else []
        bodies.append((given, ov.Model([pool.output(0), *truth], [given], name)))
    condition = opset8.parameter([], np.bool_, name="c")
    (a, then), (b, other), (c, again) = bodies
    branch = opset8.if_op(condition.output(0))
    branch.set_then_body(then)
    branch.set_else_body(other)
    branch.set_input(x.output(0), a, b)
    branch.set_friendly_name("branch")
    loop = opset8.loop(opset8.constant(2, np.int64).output(0), opset8.constant(True, np.bool_).output(0))
    loop.set_function(again)
    loop.set_special_body_ports([-1, 1])
    loop.set_invariant_input(c, x.output(0))
    loop.set_friendly_name("loop")
    outputs = [branch.set_output(then.results[0], other.results[0]), loop.get_iter_value(again.output(0), -1)]
    ov.save_model(ov.Model(outputs, [x, condition], "m"), folder / "m.xml")
    return folder / "m.xml"


def test_given_lengths_reach_into_bodies(cli: Cli, tmp_path: Path) -> None:
    found = cli("check", branching(tmp_path), "--json", "--input-shape", "x=1,3,33,40").json["layers"]
    assert sorted((each["name"], each["input"], each["computed"]) for each in found) == [
        ("branch/else_body/else", [1, 3, 33, 40], [1, 3, 11, 13]),
        ("branch/then_body/then", [1, 3, 33, 40], [1, 3, 16, 20]),
        ("loop/body/again", [1, 3, 33, 40], [1, 3, 33, 40]),
    ]


CONSTANT = (
    '<layer id="3" name="c" type="Const" version="opset1"><data element_type="i64" shape="{}" offset="{}" size="{}"/>'
    '<output><port id="0" precision="I64"><dim>2</dim></port></output></layer>'
)
IN, OUT = dims((1, 3, 8, 8)), dims((1, 3, 4, 2))
ADAPTIVE = (
    f'<layer id="0" name="a" type="AdaptiveAvgPool" version="opset8"><input><port id="0" precision="FP32">{IN}</port>'
    '<port id="2" precision="I64"><dim>2</dim></port></input>'
    f'<output><port id="1" precision="FP32">{OUT}</port></output></layer>'
)
EDGE = '<edge from-layer="3" from-port="0" to-layer="0" to-port="2"/>'


@pytest.mark.parametrize(
    ("shape", "offset", "size", "there"),
    [
        ("2", 0, 16, 16),
        ("2", 0, 32, 32),  # more bytes than the shape has elements
        ("2", 0, 32, 16),
        ("2", 100, 16, 16),
        ("2", 0, 16, 0),
        ("2", 0, 8, 16),
        ("4", 0, 16, 16),
        ("2", -8, 16, 16),
    ],
)
def test_a_constant_is_judged_by_its_bytes_as_openvino_does(
    shape: str, offset: int, size: int, there: int, cli: Cli, tmp_path: Path
) -> None:
    openvino = pytest.importorskip("openvino")
    (tmp_path / "m.bin").write_bytes(np.array([4, 2, 9, 9], "<i8").tobytes()[:there])
    path = runnable(tmp_path / "m.xml", CONSTANT.format(shape, offset, size) + ADAPTIVE, (1, 3, 8, 8))
    path.write_text(path.read_text().replace("</edges>", f"{EDGE}</edges>"))
    (found,) = cli("check", path, "--json").json["layers"]
    try:
        read = list(openvino.Core().read_model(path).output(0).shape)
    except RuntimeError:
        said = f"offset='{offset}', size='{size}', shape='{shape}' of i64, and m.bin {min(there, 32)} bytes"
        assert found["reason"] == f"OpenVINO refuses it: its output size: the Const has {said}"
        read = None
    assert (found["verdict"], found["computed"]) == ("invalid" if read is None else "agrees", read)


def test_an_output_size_that_cannot_be_read_says_where_it_is(cli: Cli, tmp_path: Path) -> None:
    for edges, shape, reason in (
        (EDGE, "2", "its output size is a constant in m.bin, which is not beside the model; put it there"),
        (EDGE, "9", "its output size is a constant of 9 numbers, too many to be read"),
        ("", "2", "its output size is computed by other layers; only constants are read"),
    ):
        path = model(tmp_path / "m.xml", CONSTANT.format(shape, 0, 16), ADAPTIVE, edges=edges)
        done = cli("check", path, "--json")
        (found,) = done.json["layers"]
        assert (done.code, found["verdict"], found["reason"]) == (0, "unknown", reason)
