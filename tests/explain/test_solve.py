"""The inverse question: which attributes give a length."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest

from poolcli import RequestError
from poolcli.dialects import DIALECTS
from poolcli.explain.solve import solve
from poolcli.ops import OPERATORS
from poolcli.plan import make_plan
from tests.conftest import Cli
from tests.profiles import slow


def test_solve_puts_the_plainest_answer_first_and_keeps_what_is_given() -> None:
    first = solve("avg", (1, 3, 56, 56), 28)[0].op
    assert (first.kernel, first.strides, first.pads_begin, first.rounding_type) == ((2,), (2,), (0,), "floor")
    kept = solve("max", (1, 64, 112, 112), 56, kernel=3, strides=2)
    assert [(a.op.pads_begin, a.op.auto_pad, a.op.rounding_type) for a in kept][:3] == [
        ((1,), "explicit", "floor"), ((0,), "explicit", "ceil"), ((0,), "same_upper", "floor"),
    ]  # fmt: skip
    assert solve("max", (1, 1, 9), 9, kernel=3, strides=2, pads_begin=0, pads_end=0) == []


@pytest.mark.parametrize(
    ("size", "wanted", "given", "numbers"),
    [(56, 1, {}, (56, 56, 1)), (56, 27, {}, (30, 1, 0)), (112, 56, {"pads": 1}, (59, 1, 1))],
)
def test_long_kernels_with_simple_numbers_are_found(
    size: int, wanted: int, given: Any, numbers: tuple[int, ...]
) -> None:
    found: list[Any] = [answer.op for answer in solve("avg", (1, 64, size, size), wanted, **given)]
    assert numbers in [(op.kernel[0], op.strides[0], op.pads_begin[0]) for op in found if op.pads_begin == op.pads_end]


def test_the_options_that_solve_prints_lead_to_that_shape(cli: Cli) -> None:
    done = cli("shape", "max", "1,3,57,80", "--solve", "28,40", "--json")
    for answer in done.json["answers"]:
        shape = cli("shape", "max", "1,3,57,80", *answer["options"].split(), "-q").out
        assert shape == "1,3,28,40\n"


def _reached(op: str, size: int, given: dict[str, Any]) -> set[int]:
    """Every length that small numbers give, each by itself, with pads shorter than the window."""
    dialect, record = DIALECTS[given.get("like", "openvino")], cast("Any", OPERATORS[op])
    kernels = [given["kernel"]] if "kernel" in given else range(1, 7)
    strides = [given["strides"]] if "strides" in given else range(1, 7)
    begins = [given["pads_begin"]] if "pads_begin" in given else range(6)
    roundings = [given["rounding_type"]] if "rounding_type" in given else dialect.rounding_types
    reached = set()
    for kernel, stride, begin, rounding, more in product(kernels, strides, begins, roundings, (0, 1)):
        numbers = {"kernel": kernel, "strides": stride, "pads_begin": begin, "pads_end": begin + more}
        if begin + more < kernel or not begin + more:
            with suppress(RequestError):
                plan = record(**{"rounding_type": rounding} | given | numbers).plan((1, 1, size))
                reached |= {plan.output_shape[2]} if not plan.empty_windows else set()
    return reached


@pytest.mark.parametrize(
    ("op", "given"),
    [
        slow("max", {}),
        ("avg", {"like": "pytorch"}),
        slow("max", {"like": "onnx", "strides": 3}),
        ("avg", {"kernel": 4, "rounding_type": "ceil"}),
        ("max", {"like": "tensorflow", "kernel": 3, "strides": 2}),
        slow("avg", {"like": "ngraph", "pads_begin": 2}),
        ("max", {"dilations": 2, "strides": 2}),
    ],
)
@pytest.mark.parametrize("size", [slow(1), 2, slow(5), slow(12)])
def test_solve_finds_an_answer_for_every_length_that_small_numbers_give(
    op: str, given: dict[str, Any], size: int
) -> None:
    for wanted in _reached(op, size, given):
        answers = solve(op, (1, 1, size), wanted, **given)
        assert answers, wanted
        for answer in answers:
            assert make_plan(answer.op, (1, 1, size)).output_shape[2] == wanted
            kept = {name: getattr(answer.op, name) for name in given}
            assert {name: value[0] if isinstance(value, tuple) else value for name, value in kept.items()} == given


def test_where_nothing_gives_a_length_json_says_what_was_searched(cli: Cli) -> None:
    done = cli("shape", "max", "1,3,9", "-k", "3", "-s", "4", "--solve", "5", "--json")
    assert (done.code, done.json["answers"], done.json["searched"][:9]) == (1, [], "searched,")


def test_the_first_answer_of_solve_is_drawn_and_explained_where_that_is_asked(cli: Cli, tmp_path: Path) -> None:
    asked = ("shape", "max", "1,1,5,5", "--solve", "1,2", "--picture", str(tmp_path / "a.svg"), "--to", "pytorch")
    done = cli(*asked)
    assert done.out.splitlines()[2] == "-k 5,2 -s 5,2"
    assert done.out.endswith("torch.nn.functional.max_pool2d(x, (5, 2), stride=(5, 2), padding=0, ceil_mode=False)\n")
    assert "<svg" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("shape", "given", "message"),
    [
        ("1,3,9", {}, "shape is '1,3,9'; give whole numbers, such as (1, 3, 32, 32)"),
        ((1, 3, 9.0), {}, "shape is (1, 3, 9.0); give whole numbers, such as (1, 3, 32, 32)"),
        ((1, 3, 0), {}, "axis W of the input is 0 long, but a window needs at least 1 element"),
        ((1, 3, 9), {"kernal": 3}, "avg has no kernal; did you mean kernel?"),
    ],
)
def test_what_is_no_question_is_refused_in_words_of_python(shape: Any, given: Any, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        solve("avg", shape, 3, **given)
    assert str(caught.value) == message


@pytest.mark.slow
def test_solve_enlarges_by_pads_alone_and_takes_no_kernel_longer_than_the_input() -> None:
    assert solve("avg", (1, 3, 224, 224), 500) == []
    assert [answer.op.kernel for answer in solve("avg", (1, 3, 8, 8), 9)][:1] == [(2,)]
    kernels = [answer.op.kernel for answer in solve("max", (1, 3, 224, 224), 5)]
    assert all(isinstance(kernel, tuple) and max(kernel) <= 224 for kernel in kernels)


def test_a_given_kernel_that_ceil_keeps_on_a_shorter_axis_is_an_answer() -> None:
    for given in ({"rounding_type": "ceil"}, {}):
        answers = solve("avg", (1, 1, 16), 1, kernel=32, strides=32, like="pytorch", **given)
        assert (answers[0].op.rounding_type, answers[0].op.pads_end) == ("ceil", (0,))
    assert all(answer.op.rounding_type == "floor" for answer in solve("avg", (1, 1, 16), 1, kernel=32))
