"""Lp norms: what frameworks compute is in the tests of conformance; here is what they cannot tell."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poolcli
from poolcli import LpPool, RequestError
from poolcli.arguments import DTypeName, Engine
from poolcli.explain.compare_dialects import compare_dialects
from poolcli.explain.export import convert
from tests.conftest import Cli
from tests.profiles import by_engine, slow
from tests.reducers import windows_of
from tests.test_numbers import root_of, units_from

ENGINES = ("numpy", "numba")
POWERS = (1, 1.5, 2, 3, 6, 7, 40)
NORMS = by_engine(*product(("float16", "float32", "float64"), POWERS), compiled=(("float32", 1.5), ("float32", 2)))


def line(*values: float, dtype: DTypeName = "float64") -> Any:
    return np.array(values, dtype).reshape(1, 1, -1)


@pytest.mark.parametrize(("dtype", "p", "engine"), NORMS)
@pytest.mark.parametrize("scale", [1.0, 2.0**-300, 2.0**300], ids=["near 1", "tiny", "huge"])
def test_every_window_has_its_norm_at_any_power_and_size(
    scale: float, dtype: DTypeName, p: float, engine: Engine
) -> None:
    if dtype != "float64" and scale != 1.0:
        scale = {"float16": 2.0**12, "float32": 2.0**110}[dtype] ** (1 if scale > 1 else -1)
    x = (np.random.default_rng(7).normal(size=(2, 3, 9, 8)) * scale).astype(dtype)
    op = LpPool((3, 2), strides=(2, 2), p=p, like="onnx" if isinstance(p, int) else "pytorch")
    if op.like == "pytorch":
        x = abs(x)
    found = op(x, engine=engine)
    assert found.dtype == dtype
    for place, elements in windows_of(op.plan(x.shape, dtype), x):
        assert units_from(found[place], root_of(elements, p)) <= 2


@pytest.mark.parametrize("engine", ENGINES)
def test_padding_and_windows_of_nothing_add_0_and_special_values_stay_in_their_windows(engine: Engine) -> None:
    x = line(3, 4, 0, np.nan, 1, -np.inf, 2, 2, dtype="float32")
    found = poolcli.lp_pool(x, 2, strides=2, engine=engine).ravel()
    np.testing.assert_array_equal(found, np.array([5, np.nan, np.inf, 8**0.5], np.float32))
    ends = poolcli.lp_pool(line(3, 4), 2, strides=3, pads_begin=1, pads_end=1, engine=engine)
    np.testing.assert_array_equal(ends, line(3))
    assert poolcli.lp_pool(line(7), 2, dilations=2, pads_begin=1, pads_end=1, engine=engine).tolist() == [[[0.0]]]
    assert LpPool(2, dilations=2, pads_begin=1, pads_end=1).plan((1, 1, 1)).notes[-1].endswith("the Lp norm is 0")


@pytest.mark.parametrize("engine", ["numpy", slow("numba")])
def test_integers_need_a_float_type_and_are_then_exact(engine: Engine) -> None:
    x = line(3, 4, 255, 0, dtype="uint8")
    found = poolcli.lp_pool(x, 2, strides=2, dtype="float32", engine=engine)
    np.testing.assert_array_equal(found, line(5, 255, dtype="float32"))
    with pytest.raises(RequestError) as caught:
        poolcli.lp_pool(x, 2)
    assert str(caught.value) == "an Lp norm of uint8 needs a float type: add dtype='float32' or float64"


REFUSED: tuple[tuple[str, Any, str], ...] = (
    ("OpenVINO", LpPool(2, like="openvino"), "OpenVINO has no Lp pooling; use like='onnx' or like='pytorch'"),
    ("a broken power in ONNX", LpPool(2, p=2.5),
     "ONNX: the p of LpPool is a whole number, not 2.5; use like='pytorch'"),
    ("pads in PyTorch", LpPool(3, strides=1, pads=1, like="pytorch"),
     "PyTorch has no explicit pads in Lp pooling; leave them out, or another like"),
    ("dilation in PyTorch", LpPool(2, dilations=2, like="pytorch"),
     "PyTorch has no dilation in Lp pooling; use dilations=1, or another like"),
)  # fmt: skip


@pytest.mark.parametrize(("op", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_a_framework_lacks_is_refused_by_name(op: Any, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        op.plan((1, 1, 8))
    assert str(caught.value) == message


def test_a_power_below_1_is_refused_and_a_whole_one_is_an_integer() -> None:
    for p in (0.5, 0, -2, -float("inf"), float("nan"), True, "2"):
        with pytest.raises(RequestError, match=r"^p is .*; a finite number of at least 1 is needed$"):
            LpPool(2, p=p)  # type: ignore[arg-type]
    assert LpPool(2, p=3.0) == LpPool(2, p=3)
    assert LpPool(2, p=3.0).plan((1, 1, 4)).attributes["p"] == 3


@pytest.mark.parametrize("p", [2, 3, 7])
def test_a_term_below_the_range_changes_no_bit_beside_others(p: float) -> None:
    x = np.random.default_rng(0).random((1, 1, 500, 3))
    x[..., 2] = 0
    expected = poolcli.lp_pool(x, (1, 3), strides=(1, 3), p=p, engine="numpy", layout="NCHW")
    x[..., 2] = 1e-200
    np.testing.assert_array_equal(
        poolcli.lp_pool(x, (1, 3), strides=(1, 3), p=p, engine="numpy", layout="NCHW"), expected
    )


@pytest.mark.parametrize(("scale", "vanishing"), [(2.0**-453, 2.0**-530), (2.0**-454, 0)], ids=["2**-900", "less"])
def test_small_sums_that_lose_no_digits_are_exact(scale: float, vanishing: float) -> None:
    x = line(*(scale * np.array([7, 3, 2, 1, 1])), vanishing)  # the squares add up to 2**-900, or 2**-902
    assert poolcli.lp_pool(x, 6, engine="numpy").tolist() == [[[8 * scale]]]


def test_comparison_and_conversion_tell_where_signs_matter() -> None:
    even, odd = LpPool(2, strides=2, p=2), LpPool(2, strides=2, p=3)
    rows = {row.like: row for row in compare_dialects(odd, odd.plan((1, 1, 8)))}
    assert rows["pytorch"].causes == (
        "it adds x**p with its sign, and multiplies the mean of a window by the kernel's size",
    )
    causes = {row.like: row.causes for row in compare_dialects(even, even.plan((1, 1, 8))) if row.plan}
    assert causes == {"onnx": (), "pytorch": ()}
    assert convert(even.plan((1, 1, 8, 8)), "pytorch").text == (
        "torch.nn.functional.lp_pool2d(x, 2, 2, stride=2, ceil_mode=False)"
    )
    assert "lp_pool" not in str(convert(odd.plan((1, 1, 8)), "pytorch").text)
    assert convert(LpPool(2, p=4, like="pytorch").plan((1, 1, 8)), "onnx").text == (
        'onnx.helper.make_node("LpPool", ["x"], ["y"], kernel_shape=[2], strides=[2], pads=[0, 0], ceil_mode=0, p=4)'
    )


def test_pads_without_a_power_are_noted_on_the_command_line_alone(cli: Cli) -> None:
    line = ("shape", "lp", "1,1,9", "-k", 3, "-s", 1, "-p", 1, "-q")
    note = "poolcli: --pads is padding, and the power of the norm is --p\n"
    assert [cli(*line[:-1]).err, cli(*line).err, cli(*line[:-1], "--p", 2).err] == [note, "", ""]
    assert LpPool(3, strides=1, pads=1).plan((1, 1, 9)).notes == ()


def test_the_command_line_reports_the_power_and_json_holds_it(cli: Cli) -> None:
    assert "rules  auto_pad explicit, rounding_type floor, p 3\n" in cli("shape", "lp", "1,1,8", "-k", 2, "--p", 3).out
    document = cli("shape", "lp", "1,1,8", "-k", 2, "--p", "2.5", "--like", "pytorch", "--json").json
    assert (document["op"], document["like"], document["attributes"]["p"]) == ("lp", "pytorch", 2.5)
    assert "(lp: onnx)" in cli("lp", "--help-all", columns=120).out


def test_check_reads_lp_layers_of_onnx_models(cli: Cli, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="ONNX models are checked where onnx is installed")
    node = onnx.helper.make_node("LpPool", ["x"], ["y"], "norm", kernel_shape=[3, 3], strides=[2, 2], p=3)
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 3, 9, 9]), ("y", [1, 3, 5, 5]))
    ]
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "m.onnx")
    result = cli("check", tmp_path / "m.onnx", "--json")
    (layer,) = json.loads(result.out)["layers"]
    assert (result.code, layer["verdict"], layer["computed"]) == (1, "differs", [1, 3, 4, 4])
    assert (layer["type"], layer["attributes"]["p"], layer["warnings"]) == ("LpPool", "3", [])
