"""What is public in Python is what the commands answer with."""

from __future__ import annotations

import inspect
import json
import pickle
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poolcli
import poolcli.ops
from poolcli import AvgPool
from poolcli.message_fields import for_cli
from tests.conftest import Cli

PLAN = AvgPool(3, strides=2, pads=1, rounding_type="ceil").plan((1, 1, 6, 6))
SHAPE = ("shape", "avg", "1,1,6,6", "-k", "3", "-s", "2", "-p", "1", "--rounding-type", "ceil", "--json")
CALLS: Any = poolcli  # for calls that type checkers refuse, too
PLANNED: Any = PLAN
X = np.random.default_rng(0).standard_normal((1, 1, 6, 6)).astype("float32")
Y = poolcli.max_pool(X, 2, strides=2)
MODEL = "samples/backbone.xml"
NO_FILE = "a str, not an array; read the file first:"


def _compared() -> list[Any]:
    """With refusals as the command line has them."""
    return [
        (row.title, row.plan.output_shape if row.plan else None, row.refusal and for_cli(row.refusal))
        for row in PLAN.compare()
    ]


def told_in_python(warning: str) -> str:
    return warning.replace("another --like", "another like").replace("--to tensorflow", "to='tensorflow'")


QUESTIONS: dict[str, tuple[tuple[str, ...], Any, Any]] = {
    "Plan.compare": (
        (*SHAPE, "--compare"),
        lambda told: [(r["as"], tuple(r["output"]) if r["output"] else None, r["refusal"])
                      for r in told["compare"]["rows"]],
        _compared,
    ),
    "Plan.to": ((*SHAPE, "--to", "pytorch"), lambda told: told["to"]["text"], lambda: PLAN.to("pytorch").text),
    "convert": (
        (*SHAPE, "--to", "ngraph"),
        lambda told: (told["to"]["text"], told["to"]["only_this_size"]),
        lambda: ((found := poolcli.convert(PLAN, "ngraph")).text, found.only_this_size),
    ),
    "solve": (
        ("shape", "max", "1,1,6,6", "--solve", "3", "--json"),
        lambda told: [a["attributes"] for a in told["answers"]],
        lambda: [answer.plan.attributes for answer in poolcli.solve("max", (1, 1, 6, 6), 3)],
    ),
    "identify": (
        ("identify", "x.npy", "y.npy", "--op", "max", "-k", "2", "--json"),
        lambda told: [(c["op"], c["like"], c["attributes"]) for c in told["candidates"]],
        lambda: [(c.op.name, c.op.like, c.plan.attributes) for c in poolcli.identify(X, Y, op="max", kernel=2)],
    ),
    "compare": (
        ("compare", "x.npy", "z.npy", "--json"),
        lambda told: (told["different"], told["max_abs"], told["max_ulp"], tuple(told["where"])),
        lambda: (36, (found := poolcli.compare(X, X + 1)).max_abs, found.max_ulp, found.where),
    ),
    "check": (
        ("check", MODEL, "--against", "tensorflow", "--json"),
        lambda told: [(each["verdict"], tuple(each["computed"]), [told_in_python(w) for w in each["warnings"]])
                      for each in told["layers"]],
        lambda: [(f.verdict, f.computed, list(f.warnings)) for f in poolcli.check(MODEL, against="tensorflow")],
    ),
}  # fmt: skip


def _message(call: Any) -> str:
    with pytest.raises(poolcli.RequestError) as raised:
        call()
    return str(raised.value)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_command_and_its_function_give_one_answer(name: str, cli: Cli, tmp_path: Path) -> None:
    arguments, told, answered = QUESTIONS[name]
    for path, array in (("x.npy", X), ("y.npy", Y), ("z.npy", X + 1)):
        np.save(tmp_path / path, array)
    answer = cli(*(str(tmp_path / each) if each.endswith(".npy") else each for each in arguments))
    assert told(json.loads(answer.out)) == answered()
    assert name.startswith("Plan.") or name in poolcli.__all__


def test_check_is_of_one_layer_and_against_a_framework_where_they_are_given() -> None:
    names = [finding.layer.name for finding in poolcli.check(MODEL)]
    assert [f.layer.name for f in poolcli.check(Path(MODEL), layer=names[1])] == names[1:2]
    assert [f.warnings for f in poolcli.check(MODEL, against="tf")] == [
        (), (
            "TensorFlow: not in the same attributes (TensorFlow has no rounding_type ceil; use floor); "
            "to='tensorflow' writes it",
        ), (),
    ]  # fmt: skip
    assert _message(lambda: poolcli.check(MODEL, layer="none")).startswith(f"{MODEL}: no pooling layer is called none;")
    assert _message(lambda: poolcli.check(MODEL, against="caffe")).startswith("against is 'caffe'; it must be one of")
    assert _message(lambda: PLAN.to("caffe")).startswith("like is 'caffe'; it must be one of")


def test_a_conversion_is_shown_as_its_text_or_as_its_reason() -> None:
    assert str(PLAN.to("pytorch")) == PLAN.to("pytorch").text
    counted = AvgPool(3, strides=2, pads=1, rounding_type="ceil", exclude_pad=False, like="pytorch").plan((1, 1, 6, 6))
    assert str(counted.to("ngraph")).splitlines() == [
        "none: nGraph has no attributes that give these windows and divisors",
    ]


@pytest.mark.parametrize("name", poolcli.__all__)
def test_a_name_is_looked_for_once_and_can_be_pickled(name: str) -> None:
    found = getattr(poolcli, name)
    assert vars(poolcli)[name] is found
    assert pickle.loads(pickle.dumps(found)) is found  # noqa: S301  # the name of a function or of a class


@pytest.mark.parametrize(
    ("typed", "use"),
    [
        ("max_pool2d", "; use poolcli.max_pool(x, 2, strides=2)"),
        ("AvgPool2d", "; use poolcli.AvgPool(2, strides=2)"),
        ("MaxPooling1D", "; use poolcli.MaxPool(2, strides=2)"),
        ("global_avg_pool", "; use poolcli.adaptive_avg_pool(x, 1)"),
        ("GlobalAveragePooling2D", "; use poolcli.AdaptiveAvgPool(1)"),
        ("adaptive_max_pool3d", "; use poolcli.adaptive_max_pool(x, output_size)"),
        ("AdaptiveAvgPool2d", "; use poolcli.AdaptiveAvgPool(output_size)"),
        ("avgpool", "; use poolcli.avg_pool(x, 2, strides=2)"),
        ("mean_pool", "; use poolcli.avg_pool(x, 2, strides=2)"),
        ("pool", "; use poolcli.avg_pool or max_pool"),
        ("block_reduce", "; use poolcli.avg_pool(x, 2, strides=2), or max_pool, ..."),
        ("maximum_filter", "; use poolcli.max_pool(x, kernel, pads=...)"),
        ("var_pool", "; use poolcli.std_pool(x, kernel) ** 2"),
        ("max_unpool2d", "; numpy does it in one line ('Put maxima back' in docs/recipes.md)"),
        ("shape", "; use poolcli.AvgPool(kernel, strides=...).plan(shape).output_shape"),
        ("load", "; poolcli pools arrays; read files with numpy.load, h5py, Pillow, ..."),
        ("identfy", "; did you mean identify?"),
        ("nothing_like_it", ""),
    ],
)
def test_names_of_other_libraries_lead_to_the_own_ones(typed: str, use: str) -> None:
    with pytest.raises(AttributeError) as found:
        getattr(poolcli, typed)
    assert str(found.value) == f"module 'poolcli' has no attribute {typed!r}{use}"
    called = use.removeprefix("; use poolcli.").split("(")[0].split(" ")[0] if "; use" in use else "avg_pool"
    assert callable(getattr(poolcli, called))


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("avg_pool(x, 2, 2)", "avg_pool(x, 2, strides=2)"),
        ("avg_pool(x, 2, 2, padding=1)", "avg_pool(x, 2, strides=2, pads=1, like='pytorch')"),
        ("max_pool(x, 3, 2, 1)", "max_pool(x, 3, strides=2, pads=1, like='pytorch')"),
        (
            "max_pool(x, 3, 2, 1, ceil_mode=True)",
            "max_pool(x, 3, strides=2, pads=1, rounding_type='ceil', like='pytorch')",
        ),
        ("max_pool(x, 2, 2, return_indices=True)[0]", "max_pool(x, 2, return_indices=True, strides=2, like='pytorch')"),
        ("AvgPool(3, 2, padding=[1, 0])(x)", "AvgPool(3, strides=2, like='pytorch', pads=[1, 0])"),
        ("lp_pool(x, 2, 3, 4)", "lp_pool(x, 3, p=2, strides=4, like='pytorch')"),
        ("lp_pool(x, 1, kernel_size=3)", "lp_pool(x, 3, p=1, like='pytorch')"),
        ("max_pool(x, 3, 2, 'SAME', 'NCHW')", "max_pool(x, 3, strides=2, auto_pad='same_upper', layout='NCHW')"),
        (
            "avg_pool(x, ksize=[1, 2, 3, 1], strides=[1, 2, 1, 1])",
            "avg_pool(x, [2, 3], strides=[2, 1], layout='channels_last')",
        ),
        (
            "max_pool(x, kernel_shape=[3, 3], pads=[1, 0, 1, 1])",
            "max_pool(x, [3, 3], pads_begin=[1, 0], pads_end=[1, 1], like='onnx')",
        ),
        ("avg_pool(x, block_size=(1, 1, 2, 2), func=np.nanmax)", "max_pool(x, (2, 2), strides=(2, 2))"),
        ("adaptive_max_pool(x, 2, True)[0]", "adaptive_max_pool(x, 2, return_indices=True)"),
    ],
)
def test_calls_in_words_of_other_libraries_are_answered_with_the_whole_call(typed: str, shown: str) -> None:
    names = {
        **vars(poolcli.ops),
        **{name: getattr(poolcli, name) for name in poolcli.__all__},
        "np": np,
        "x": np.ones((1, 8, 8, 8)),
    }
    with pytest.raises(TypeError) as found:
        eval(typed, names)  # noqa: S307  # a line of this table
    assert str(found.value).endswith(f"; use {shown}")
    eval(shown, names)  # noqa: S307  # the line that it shows


@pytest.mark.slow
@pytest.mark.parametrize("name", ["avg_pool", "max_pool"])
def test_calls_in_pytorchs_words_are_answered_with_calls_that_give_its_results(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    theirs: Any = getattr(torch.nn.functional, f"{name}2d")
    options = {"stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False, "divisor_override": 5}
    if name == "max_pool":
        options = {"stride": 2, "padding": 1, "dilation": 2, "ceil_mode": True, "return_indices": True}
    x = torch.rand(2, 3, 13, 14)
    for count, chosen in product(range(5), product([False, True], repeat=5)):  # how many by place, and which by name
        values = [*options.values()][:count]
        named = {name: options[name] for name, is_named in zip([*options][count:], chosen, strict=False) if is_named}
        with pytest.raises(TypeError) as error:
            getattr(CALLS, name)(x, *([3, *values] if count else []), **named, **({} if count else {"kernel_size": 3}))
        call = "poolcli." + str(error.value).split("; use ")[1]
        found = eval(call, {"poolcli": poolcli, "x": x})  # noqa: S307  # the line that it shows
        torch.testing.assert_close(found, theirs(x, 3, *values, **named))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: CALLS.avg_pool(X, 2, pads="same"), ValueError, "pads takes numbers; use auto_pad='same_upper'"),
        (lambda: CALLS.AvgPool(2, pads_end="VALID"), ValueError, "pads_end takes numbers; use auto_pad='valid'"),
        (lambda: CALLS.convert(PLAN, to="onnx"), TypeError, "convert() has no to; use convert(plan, 'onnx')"),
        (
            lambda: CALLS.AvgPool(3).plan(64, 112, 112),
            TypeError,
            "plan() takes shape as one tuple, as in plan((64, 112, 112))",
        ),
        (
            lambda: CALLS.area_pool(X, 2, 3),
            TypeError,
            "area_pool() takes output_size as one tuple, as in area_pool(x, (2, 3))",
        ),
        (
            lambda: CALLS.chain((1, 1, 8), "max:k2", CALLS.AvgPool(2)),
            TypeError,
            "chain() takes layers as one list, as in chain((1, 1, 8), ['max:k2', AvgPool(kernel=2)])",
        ),
        (
            lambda: CALLS.AvgPool(3).plan(),
            TypeError,
            "plan() missing 1 required positional argument: 'shape'",
        ),
        (
            lambda: CALLS.Plan.save_onnx(PLAN, "a.onnx", 17),
            TypeError,
            "save_onnx() takes path by place, and opset and overwrite by name; 2 values were given",
        ),
        (
            lambda: CALLS.AvgPool(2).plan((1, 1, 4)).compare("tf"),
            TypeError,
            "compare() takes no values; 1 value was given",
        ),
        (
            lambda: CALLS.MaxPool(2)(X, return_mask=True, strides=2),
            TypeError,
            "op() has no return_mask or strides; use op(x, return_indices=True); strides: it takes x, return_indices, "
            "layout, dtype, missing, min_count, out, engine and threads",
        ),
        (lambda: PLANNED.kernel_size, AttributeError, "'Plan' object has no attribute 'kernel_size'; use kernel"),
        (lambda: CALLS.MaxPool(2).stride, AttributeError, "'MaxPool' object has no attribute 'stride'; use strides"),
        (lambda: CALLS.convert(PLAN, "onnx", X), TypeError, "convert() takes plan and like; 3 values were given"),
        (
            lambda: CALLS.convert(CALLS.AvgPool(2), "onnx"),
            ValueError,
            "plan is AvgPool(kernel=2); give a plan, as of AvgPool(2).plan((1, 3, 32, 32))",
        ),
        (
            lambda: CALLS.check("m", "pytorch"),
            TypeError,
            "check() takes model by place, and input_shape, against, layer and max_memory by name; 2 values were given",
        ),
        (
            lambda: CALLS.max_pool(X, {"time": 3, "lat": 2}),
            ValueError,
            "kernel is \"{'time': 3, 'lat': 2}\"; write kernel=(3, 2), without names, in the order D,H,W; "
            "layout='WNC' pools the first of three",
        ),
        (lambda: CALLS.compare(X, X, tol=1), TypeError, "compare() has no tol; did you mean atol or rtol?"),
        (lambda: CALLS.compare(X, "x.npy"), ValueError, f"b is {NO_FILE} b = numpy.load('x.npy')"),
        (lambda: CALLS.identify(X, "y.npy"), ValueError, f"y is {NO_FILE} y = numpy.load('y.npy')"),
        (
            lambda: CALLS.avg_pool(X, (1, 2, 2, 1), like="tensorflow", strides=1),
            ValueError,
            "kernel has 4 numbers, but layout NCHW (assumed) has 2 spatial axes (H,W); "
            "use kernel=(2, 2) and layout='NHWC'",
        ),
        (
            lambda: CALLS.adaptive_avg_pool(X, (1, 1, 3, 2)),
            ValueError,
            "output_size has 4 numbers, but layout NCHW (assumed) has 2 spatial axes (H,W); "
            "use output_size=(3, 2): batch and channels have no numbers",
        ),
        (
            lambda: CALLS.avg_pool(X, 2, pads=((1, 1), (0, 1))),
            ValueError,
            "pads has the pair (1, 1); use pads_begin and pads_end",
        ),
        (
            lambda: CALLS.check(type("Net", (), {"__module__": "torch.nn.modules.module"})()),
            TypeError,
            "model is a Net; give a file, as of torch.export.save(torch.export.export(model, (x,)), 'model.pt2')",
        ),
        (lambda: CALLS.check(PLAN), TypeError, "model is a Plan; give a file, as of onnx.save(model, 'model.onnx')"),
        (lambda: PLANNED.shape, AttributeError, "'Plan' object has no attribute 'shape'; use output_shape"),
        (lambda: PLANNED.run, AttributeError, "'Plan' object has no attribute 'run'; use op(x) of the operator"),
        (lambda: PLANNED.divisor, AttributeError, "'Plan' object has no attribute 'divisor'; use divisors"),
        (
            lambda: CALLS.AvgPool(2).padding,
            AttributeError,
            "'AvgPool' object has no attribute 'padding'; use pads_begin and pads_end",
        ),
        (lambda: CALLS.AvgPool(2).forward, AttributeError, "'AvgPool' object has no attribute 'forward'; use op(x)"),
        (
            lambda: CALLS.convert_layout(np.zeros(2), "W", np.zeros(2)),
            ValueError,
            "layouts are 'W' and an array of shape (2,); words such as 'NCHW' are needed",
        ),
    ],
)
def test_words_of_the_command_line_lead_to_those_of_python(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()


def test_records_are_shown_with_what_is_not_as_usual() -> None:
    assert repr(AvgPool(3, strides=2, pads=0)) == "AvgPool(kernel=3, strides=2)"
    assert repr(poolcli.solve("max", (1, 1, 6, 6), 3)[0].op) == "MaxPool(kernel=(2,), strides=(2,))"
    assert len(repr(poolcli.check(MODEL)[0])) < 450
    assert str(poolcli.chain((1, 3, 8, 8), ["max:k3,s2"])).splitlines() == [
        "input: N=1 C=3 H=8 W=8", "max:k3,s2: N=1 C=3 H=3 W=3, stride (2, 2), field (3, 3)",
    ]  # fmt: skip


def test_none_in_an_output_size_keeps_the_length_of_that_axis() -> None:
    x: Any = np.arange(48.0).reshape(1, 1, 6, 8)
    np.testing.assert_array_equal(CALLS.adaptive_avg_pool(x, (2, None)), poolcli.adaptive_avg_pool(x, (2, 8)))
    np.testing.assert_array_equal(CALLS.area_pool(x, [None, 3]), poolcli.area_pool(x, (6, 3)))
    with pytest.raises(poolcli.RequestError, match="whole number"):
        CALLS.adaptive_max_pool(x, None)


def test_a_model_that_does_not_exist_is_a_file_that_is_not_found() -> None:
    with pytest.raises(FileNotFoundError, match=r"^nope.onnx: no such file$") as found:
        poolcli.check("nope.onnx")
    assert isinstance(found.value, poolcli.RequestError)


def test_the_weights_of_a_model_name_the_file_of_its_layers(tmp_path: Path) -> None:
    for name in ("m.xml", "m.bin"):
        (tmp_path / name).write_bytes(bytes(range(256)))
    with pytest.raises(
        poolcli.RequestError, match=r"m\.bin: holds the weights of an OpenVINO IR; .*m\.xml: give that$"
    ):
        poolcli.check(tmp_path / "m.bin")


@pytest.mark.parametrize("name", list(poolcli.ops.__all__))
def test_signatures_show_types_that_everybody_knows(name: str) -> None:
    shown = str(inspect.signature(getattr(poolcli, name)))
    assert not {"Given", "PerAxis", "DType", "Like", "Engine", "InitVar"} & {*re.findall(r"\w+", shown)}
    assert "int | Sequence[int]" in shown


def test_lists_of_operators_follow_the_one_table() -> None:
    import poolcli.dask
    from poolcli.explain.identify.samples import rules

    functions = {f"{name.replace('-', '_')}_pool" for name in poolcli.ops.OPERATORS}
    assert set(poolcli.dask.__all__) == functions <= set(poolcli.__all__)
    assert all(callable(getattr(poolcli.dask, name)) for name in functions)
    assert poolcli.ops.PYRAMID_OPERATORS == ("avg", "max", "min", "mode", "median")
    assert {rule.record.name for rule in rules({})} == {"avg", "max", "min", "sum", "lp"}
