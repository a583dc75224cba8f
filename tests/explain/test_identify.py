"""From two arrays to the pooling between them, held against dumps of real frameworks, made here."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from poolcli import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    LpPool,
    MaxPool,
    MinPool,
    RequestError,
    identify,
    max_pool,
)
from poolcli.explain.equivalence import same_pooling
from poolcli.report.explain import where as where_differences
from tests.conformance.peers import ONNX, OPENVINO, PYTORCH, Peer
from tests.conftest import Cli
from tests.profiles import sized, slow

ROUNDINGS: dict[str, Any] = {
    "halves away from zero": lambda q: np.trunc(q + np.copysign(0.5, q)),
    "halves up": lambda q: np.floor(q + 0.5),
    "halves down": lambda q: np.ceil(q - 0.5),
    "toward zero": np.trunc,
    "down": np.floor,
}
PEERS = [peer for peer in (ONNX, OPENVINO, PYTORCH) if peer is not PYTORCH or find_spec("torch")]


def _random(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


CEIL: dict[str, Any] = {"kernel": 3, "strides": 2, "rounding_type": "ceil"}
MADE: dict[str, tuple[Any, dict[str, Any], tuple[int, ...]]] = {
    "max": (MaxPool, {"kernel": 3, "strides": 2, "pads": 1}, (1, 8, 24, 31)),
    "max-ceil": (MaxPool, CEIL | {"pads": 1}, (1, 8, 24, 31)),
    "max-dilated": (MaxPool, {"kernel": (3, 2), "strides": (2, 1), "pads": 1, "dilations": 2}, (1, 4, 17, 19)),
    "exclude-ceil": (AvgPool, CEIL | {"pads": 1, "exclude_pad": True}, (2, 3, 16, 19)),
    "include-ceil": (AvgPool, CEIL | {"pads": 1, "exclude_pad": False}, (2, 3, 16, 19)),
    "include-asymmetric": (AvgPool, {"kernel": (2, 3), "strides": (2, 3), "pads_begin": (1, 0), "pads_end": (0, 1),
        "exclude_pad": False}, (1, 3, 13, 14)),
    "avg-dilated": (AvgPool, {"kernel": 3, "strides": 1, "pads": 2, "dilations": 2, "exclude_pad": False},
        (1, 3, 13, 14)),
    "lp-ceil": (LpPool, CEIL | {"p": 2}, (1, 3, 16, 16)),
    "adaptive": (AdaptiveAvgPool, {"output_size": (5, 4)}, (1, 3, 13, 14)),
    "3-d": (AvgPool, {"kernel": (3, 2, 2), "strides": (2, 2, 1), "exclude_pad": True}, (1, 2, 7, 8, 9)),
}  # fmt: skip
DUMPS = [  # of one framework for each operator, by turns, and of all for one; with --full of all for all
    pytest.param(peer, *made, id=f"{name}-{peer.name}", marks=[pytest.mark.slow] * (not every or peer is PYTORCH))
    for number, (name, made) in enumerate(MADE.items())
    for place, peer in enumerate(PEERS)
    for every in [name == "exclude-ceil"]
    if every or sized((number + place) % len(PEERS) == 0, True)
]


@pytest.mark.parametrize(("peer", "record", "given", "shape"), DUMPS)
def test_the_dump_of_a_framework_leads_to_what_made_it(
    peer: Peer, record: Any, given: dict[str, Any], shape: tuple[int, ...]
) -> None:
    try:
        made = record(**given, like=peer.like)
        plan = made.plan(shape)
    except RequestError:
        return  # the framework has no such operator or attributes
    if made.name not in peer.dtypes:
        return
    x = _random(shape)
    ((y, _),) = peer.ask([(made, x)])
    found = identify(x, y, like=peer.like)
    assert found[0].fits
    own = [candidate for candidate in found if candidate.op.like == peer.like and same_pooling(candidate.plan, plan)]
    assert own, [(candidate.op, candidate.deviation) for candidate in found]
    ((again, _),) = peer.ask([(own[0].op, x)])
    np.testing.assert_allclose(again, y, 1e-5, 1e-6)


@st.composite
def poolings(draw: st.DrawFn) -> Any:
    rank = draw(st.integers(1, 3))
    sizes = tuple(draw(st.integers(4, (30, 20, 9)[rank - 1])) for _ in range(rank))

    def each(low: int, high: int) -> int | tuple[int, ...]:
        numbers = tuple(draw(st.integers(low, high)) for _ in sizes)
        return numbers if rank < 3 and draw(st.booleans()) else numbers[0]

    geometry: dict[str, Any] = {
        "kernel": each(1, 5), "strides": each(1, 3), "pads_begin": each(0, 1), "pads_end": each(0, 1),
        "dilations": draw(st.integers(1, 2)), "rounding_type": draw(st.sampled_from(["floor", "ceil"])),
    }  # fmt: skip
    op = draw(st.sampled_from([MaxPool, MinPool, AvgPool, AvgPool, LpPool, AdaptiveAvgPool, AdaptiveMaxPool]))
    if op in (AdaptiveAvgPool, AdaptiveMaxPool):
        return op(tuple(draw(st.integers(1, size)) for size in sizes)), (1, 16, *sizes)
    if op is AvgPool:
        geometry["exclude_pad"] = draw(st.booleans())
    if op is LpPool:
        geometry["p"] = draw(st.sampled_from([1, 2, 3]))
    return op(**geometry), (1, 16, *sizes)  # of few numbers many poolings give the same


@settings(max_examples=sized(2, 40), derandomize=True)
@given(poolings())
def test_every_pooling_is_found_by_what_it_does(pooling: Any) -> None:
    op, shape = pooling
    try:
        plan = op.plan(shape)
    except RequestError:
        return
    if plan.empty_windows:
        return
    x = _random(shape)
    found = identify(x, op(x, layout=plan.layout, engine="numpy"))
    assert found[0].deviation.exact
    assert any(same_pooling(candidate.plan, plan) for candidate in found), (op, [candidate.op for candidate in found])


def test_operators_that_no_framework_has_are_not_searched() -> None:
    with pytest.raises(RequestError, match=r"^op is 'median'; it must be one of avg, max, min, sum, lp, "):
        identify(np.zeros((1, 1, 4)), np.zeros((1, 1, 2)), op="median")


@pytest.mark.parametrize(
    ("op", "shape", "layout"),
    [
        (MaxPool(2), (48,), "W"),
        (MaxPool((3, 2)), (20, 17), "HW"),
        (MaxPool(2), (3, 12, 16), "NCW"),
        (MaxPool((2, 3)), (3, 12, 16), "CHW"),
        (MaxPool((2, 3)), (12, 16, 3), "HWC"),
        (MaxPool((2, 3)), (12, 16, 10), "CHW"),
        slow(MaxPool((2, 3, 2)), (12, 10, 9), "DHW"),
        (MaxPool(2), (1, 3, 12, 9), "NCHW"),
        (MaxPool(2, like="tensorflow", strides=1), (2, 12, 12, 5), "NHWC"),
        slow(MaxPool(2), (2, 2, 6, 6, 7), "NCDHW"),
    ],
)
def test_an_array_is_read_as_by_the_operator_itself(op: MaxPool, shape: tuple[int, ...], layout: str) -> None:
    plan, x = op.plan(shape), _random(shape)
    first = identify(x, op(x, layout=plan.layout, engine="numpy"), op="max")[0]
    assert (plan.layout, first.plan.layout) == (layout, layout)
    assert (first.deviation.exact, first.plan.windows) == (True, plan.windows)


@pytest.mark.parametrize(("shape", "layout"), [((1, 12, 13, 3), "NHWC"), slow((2, 9, 8, 7), "CDHW")])
def test_what_the_reading_proposes_is_tried_next_and_a_layout_is_kept(shape: tuple[int, ...], layout: str) -> None:
    x = _random(shape)
    y = MaxPool(2, strides=2)(x, layout=layout, engine="numpy")
    assert [identify(x, y, op="max", layout=given)[0].plan.layout for given in (None, layout)] == [layout, layout]


def test_equal_arrays_are_the_identity_and_nothing_else(cli: Cli, tmp_path: Path) -> None:
    x, file = _random((1, 3, 6, 8)), str(tmp_path / "x.npy")
    np.save(file, x)
    found = identify(x, x, like="openvino")
    assert [(each.op.name, each.plan.attributes["kernel"]) for each in found] == [("max", [1, 1])] * 2
    shown = cli("identify", file, file, "--like", "openvino").out
    assert shown.startswith("layout NCHW; the arrays are equal: kernel 1 is the identity\n")


@pytest.mark.slow
def test_what_is_given_is_held_fixed() -> None:
    x = _random((1, 2, 17, 17))
    y = MaxPool(3, strides=2, pads=1)(x, engine="numpy")
    assert {c.op.like for c in identify(x, y, like="pytorch")} == {"pytorch"}
    assert {c.op.name for c in identify(x, y, op="max")} == {"max"}
    held = identify(x, y, kernel=3, rounding_type="ceil")
    assert {(c.op.name, c.plan.attributes["rounding_type"]) for c in held} == {("max", "ceil")}
    assert not identify(x, y, kernel=4)[0].fits
    framed = AvgPool(3, strides=2, pads=1, exclude_pad=False)(x, engine="numpy")
    (only,) = identify(x, framed, exclude_pad=True)
    assert (only.fits, only.plan.attributes["exclude_pad"]) == (False, True)
    divided = AvgPool(3, strides=2, pads=1, divisor_override=5)(x, engine="numpy")
    assert identify(x, divided, divisor_override=5)[0].deviation.exact
    with pytest.raises(RequestError, match=r"^max has no p$"):
        identify(x, y, op="max", p=2)


def _last_column(y: Any) -> None:
    y[..., -1] += 1


def _channel(y: Any) -> None:
    y[:, 2] *= 2


def _one(y: Any) -> None:
    y[0, 1, 4, 3] += 1


@pytest.mark.parametrize(
    ("spoil", "where"), [(_last_column, "last W"), slow(_channel, "last C"), slow(_one, "a single element")]
)
def test_where_nothing_fits_the_nearest_is_said_and_where_it_differs(spoil: Any, where: str) -> None:
    x = _random((1, 3, 17, 17))
    y = MaxPool(3, strides=2, pads=1)(x, engine="numpy")
    spoil(y)
    (only,) = identify(x, y, op="max")
    said = where_differences("NCHW", only.deviation)
    assert (only.fits, only.op.name, only.plan.attributes["kernel"], said) == (False, "max", [3, 3], where)


@pytest.mark.parametrize("shape", [(1, 2, 32, 48), (1, 3, 32, 32), (1, 3, 40, 32), (2, 3, 36, 44)])
def test_of_poolings_that_are_all_far_off_none_is_farther_than_a_simple_one(shape: tuple[int, ...]) -> None:
    x = _random(shape)
    y = AvgPool(2, strides=2)(x, engine="numpy")
    (nearest,) = identify(x, y, op="max")
    ops: list[Any] = [nearest.op, MaxPool(1, strides=2)]
    own, simple = (float(np.square(op(x, engine="numpy") - y).mean()) for op in ops)
    assert own < 1.1 * simple


def _noisy(y: Any) -> Any:
    return (y + 1e-3 * np.random.default_rng(1).standard_normal(y.shape)).astype(np.float32)


def _rounded(y: Any) -> Any:
    return np.round(y, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "spoil"),
    [
        (MaxPool(3, strides=2, pads=1), _noisy),
        (AvgPool(3, strides=2, pads=1, exclude_pad=False), _rounded),
        (AdaptiveAvgPool((5, 4)), _noisy),
        (LpPool(2, strides=2, p=3), _rounded),
    ],
)
def test_noise_does_not_hide_a_pooling_and_its_size_is_the_tolerance_that_accepts_it(made: Any, spoil: Any) -> None:
    x = _random((1, 3, 16, 19))
    exact = made(x, engine="numpy")
    y = spoil(exact)
    (nearest,) = identify(x, y)
    assert same_pooling(nearest.plan, made.plan(x.shape))
    off = float(np.abs(exact.astype(float) - y).max())
    assert (nearest.fits, nearest.deviation.max_abs <= off) == (False, True)
    assert nearest.noise is not None
    assert off <= nearest.noise <= 1.2 * off
    accepted = identify(x, y, op=made.name, atol=nearest.noise)
    assert accepted[0].fits
    assert any(same_pooling(each.plan, nearest.plan) for each in accepted)
    assert not identify(x, y, op=made.name, atol=off / 2)[0].fits


@pytest.mark.slow
def test_the_command_says_the_tolerance_that_accepts_noise(cli: Cli, tmp_path: Path) -> None:
    x = _random((1, 3, 16, 19))
    before, after = str(tmp_path / "x.npy"), str(tmp_path / "y.npy")
    np.save(before, x)
    np.save(after, _noisy(max_pool(x, 3, strides=2, pads=1)))
    refused = cli("identify", before, after)
    assert refused.code == 1
    said = re.fullmatch(r"as small as noise; (--atol (0\.\d+)) accepts it", refused.out.splitlines()[-1])
    assert said
    accepted = cli("identify", before, after, *said[1].split())
    assert (accepted.code, accepted.out.splitlines()[3].split()[:5]) == (0, ["1", "OpenVINO", "max", "-k", "3"])
    assert cli("identify", before, after, "--json").json["noise"] == float(said[2])


@pytest.mark.parametrize(
    ("rounding", "values"), [*((each, (-128, 128)) for each in ROUNDINGS), ("toward zero", (0, 3))]
)
def test_integers_that_are_rounded_otherwise_are_named(
    cli: Cli, tmp_path: Path, rounding: str, values: tuple[int, int]
) -> None:  # of few values other poolings are nearer
    x = np.random.default_rng(0).integers(*values, (1, 2, 16, 16), np.int8)
    y = ROUNDINGS[rounding](exact := AvgPool(2, strides=2)(x.astype(float))).astype(np.int8)
    files = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(files[0], x)
    np.save(files[1], y)
    answer = cli("identify", *files, "--op", "avg")
    said = f"of 128 outputs differ by rounding alone: the output rounds {rounding}, poolcli to the nearest"
    assert (answer.code, f"{(y != np.rint(exact)).sum()} {said}" in " ".join(answer.out.split())) == (1, True)
    assert cli("identify", *files, "--op", "avg", "--json").json["rounding"] == rounding


def test_an_output_larger_than_the_input_has_padding_or_repeats_elements() -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 8, 8), np.float32)
    found, expected = identify(x, max_pool(x, 2, pads=1))[0], MaxPool((2, 2), strides=(1, 1), pads=(1, 1))
    assert (found.fits, str(found.op)) == (True, str(expected))
    assert identify(x, AdaptiveAvgPool((16, 4))(x))[0].fits
    with pytest.raises(RequestError, match="give the larger one first"):
        identify(MaxPool(2, strides=2)(x), x)


def test_rounding_errors_of_long_windows_do_not_let_any_array_fit() -> None:
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((1, 1, n, n), np.float32) for n in (400, 11))
    assert not identify(x, y / 100)[0].fits


def test_operators_that_fit_alike_are_all_named() -> None:
    """In an image that was enlarged by repeating its pixels, the elements of each window are equal."""
    x = np.kron(_random((1, 2, 5, 5)), np.ones((1, 1, 2, 2), np.float32))
    found = identify(x, x[:, :, ::2, ::2], like="openvino", kernel=2, strides=2)
    assert {candidate.op.name for candidate in found} == {"max", "min", "avg"}
    assert all(candidate.deviation.exact for candidate in found)


def test_arrays_of_no_pooling_are_refused() -> None:
    for shapes, text in (
        (((1, 3, 9, 9), (1, 4, 4, 3)), "the input looks like NCHW and the output like NHWC; transpose one in Python, "),
        (((1, 2, 9, 9), (1, 3, 4, 4)), "differ along N or C; if these are wrong, name the axes with layout, "),
        (((1, 2, 9, 9), (1, 2, 4)), "^the input has 4 axes and the output 3; pooling keeps the number of axes$"),
        (((1, 2, 0, 9), (1, 2, 4, 4)), "^an empty array cannot be identified$"),
    ):
        with pytest.raises(RequestError, match=text):
            identify(*(np.zeros(shape, np.float32) for shape in shapes))


@pytest.mark.slow
def test_the_command_shows_candidates_and_ends_with_whether_one_fits(cli: Cli, tmp_path: Path) -> None:
    x = _random((1, 8, 24, 31))
    y = MaxPool(3, strides=2, pads=1, rounding_type="ceil")(x, engine="numpy")
    before, after, spoilt = (str(tmp_path / name) for name in ("x.npy", "y.npy", "z.npy"))
    np.save(before, x)
    np.save(after, y)
    _last_column(y)
    np.save(spoilt, y)
    done = cli("identify", before, after)
    first = " ".join(done.out.splitlines()[3].split())
    assert (done.code, first) == (0, "1 OpenVINO max -k 3 -s 2 -p 1 --rounding-type ceil exact")
    done = cli("identify", before, spoilt)
    assert (done.code, done.out.splitlines()[0], done.out.splitlines()[-1]) == (
        1,
        "nothing fits (layout NCHW; not searched: mode, median, std); the nearest is:",
        "104 of 1,664 outputs differ by more than rounding error: last W",
    )
    assert cli("identify", before, str(tmp_path / "none.npy")).code == 2
    document = cli("identify", before, after, "--like", "torch", "--json").json
    assert {key: document["candidates"][0][key] for key in ("op", "like", "exact", "max_abs", "max_ulp")} == {
        "op": "max", "like": "pytorch", "exact": True, "max_abs": 0, "max_ulp": 0,
    }  # fmt: skip


def test_a_picture_and_an_array_that_was_made_of_it_are_brought_to_the_same_axes(cli: Cli, folder: Path) -> None:
    assert cli("avg", "photo.png", "-o", "y.npy", "-k", "2", "-s", "2", "-q").code == 0
    found = cli("identify", "photo.png", "y.npy", "--op", "avg", "-k", "2", "--json").json["candidates"][0]
    assert (found["op"], found["exact"], found["attributes"]["kernel"]) == ("avg", True, [2, 2])


@pytest.mark.slow
def test_files_that_were_swapped_are_named_in_the_order_that_works(cli: Cli, tmp_path: Path) -> None:
    large, small = str(tmp_path / "large.npy"), str(tmp_path / "small.npy")
    x = np.random.default_rng(0).random((1, 2, 20, 20), np.float32)
    np.save(large, x)
    np.save(small, max_pool(x, 3, strides=2))
    swapped = cli("identify", small, large)
    assert (swapped.code, swapped.out) == (2, "")
    assert swapped.err.endswith("makes an array of 1,2,20,20 of one of 1,2,9,9; give the larger one first\n")


def test_the_order_of_bytes_changes_no_answer() -> None:
    x = _random((1, 1, 9, 9))
    for y in (max_pool(x, 3, strides=2), max_pool(x, 3, strides=2) + np.float32(1e-3)):
        expected = identify(x, y, op="max", kernel=3)
        for before, after in ("<>", "><", ">>"):
            assert identify(x.astype(f"{before}f4"), y.astype(f"{after}f4"), op="max", kernel=3) == expected


def test_sums_that_are_too_large_are_one_pooling_less() -> None:
    x = np.random.default_rng(1).integers(-(2**63), 2**63, (1, 1, 8, 8))
    assert not identify(x, x[..., :4, :4])[0].fits


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [(np.nan, np.inf, -np.inf, 1), (1.7e308, 1.7e308, -1.7e308, 5e-324)])
def test_errors_that_numpy_would_raise_for_the_program_are_not_raised(values: tuple[float, ...]) -> None:
    x = np.random.default_rng(0).standard_normal((1, 1, 8, 8))
    odd = np.random.default_rng(1).choice(values, x.shape)
    with np.errstate(all="raise"):
        assert not identify(x, odd[..., :4, :4], op="avg")[0].fits
        assert not identify(odd, x[..., :4, :4])[0].fits


@pytest.mark.parametrize("dtype", ["complex128", "datetime64[s]", "V8"])
@pytest.mark.parametrize("which", [0, 1])
def test_types_that_are_not_pooled_are_refused(dtype: str, which: int) -> None:
    arrays = [np.ones((1, 1, 4, 4)), np.ones((1, 1, 2, 2))]
    arrays[which] = np.empty(arrays[which].shape, dtype)
    with pytest.raises(RequestError, match=r"^dtype \S+ is not supported; use one of bool, uint8, "):
        identify(*arrays)


def test_a_misspelt_attribute_is_answered_without_a_double_negative() -> None:
    with pytest.raises(RequestError, match=r"^no operator that is searched has kernal; did you mean kernel\?$"):
        identify(np.zeros((1, 1, 4)), np.zeros((1, 1, 2)), kernal=2)


def test_beyond_its_time_it_compares_the_first_outputs(cli: Cli, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("poolcli.explain.identify.CPU_SECONDS", 0)
    np.save(tmp_path / "x.npy", x := _random((1, 5, 180, 180)))
    np.save(tmp_path / "y.npy", max_pool(x, 3, strides=3))
    done = cli("identify", tmp_path / "x.npy", tmp_path / "y.npy", "--op", "adaptive-max")
    assert "compared are 9,216 of 18,000 outputs, for which there was time" in done.out
