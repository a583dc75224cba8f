"""What a framework refuses by rule, poolcli refuses under its dialect, and the reverse."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, LpPool, MaxPool, RequestError
from poolcli.layouts import default_layout
from tests.conformance.cases import case_of, generated
from tests.conformance.differences import DIFFERENCES, Unchecked
from tests.conformance.exclusions import compare, excluded
from tests.conformance.peers import NGRAPH, ONNX, OPENVINO, PYTORCH, TENSORFLOW, Array, Peer, spread
from tests.profiles import sized

ASKED = sized(60, 400)
NAMES = {row.name for row in DIFFERENCES}


@st.composite
def doubtful(draw: st.DrawFn, peer: Peer, op_name: str) -> tuple[Any, Array]:
    """An operator and an input that may or may not be legal together."""
    rank = draw(st.integers(1, 3))
    lowest = 0 if peer.framework == "openvino" else -1  # its numbers have no sign: a negative one is no question to it

    def numbers(low: int, high: int, often: int = 7) -> tuple[int, ...]:
        """Numbers of every axis, mostly legal."""
        odd = draw(st.integers(0, often)) == 0
        return tuple(draw(st.integers(lowest if odd else low, high)) for _ in range(rank))

    lengths = tuple(draw(st.integers(1, 7)) for _ in range(rank))
    x = np.ones((1, 1, *lengths), np.float32)
    if op_name.startswith("adaptive"):
        record = AdaptiveAvgPool if op_name == "adaptive-avg" else AdaptiveMaxPool
        return Unchecked(record, output_size=numbers(1, 2, 1), like=peer.like), x
    dilated = peer.dilates(op_name)
    begin = numbers(0, 4)
    shared: dict[str, Any] = {
        "kernel": numbers(1, 7),
        "strides": numbers(1, 3),
        "pads_begin": begin,
        "pads_end": begin if peer.like == "pytorch" else numbers(0, 4),
        "dilations": numbers(1, 2) if dilated else 1,
        "auto_pad": draw(st.sampled_from(peer.auto_pads)),
        "rounding_type": draw(st.sampled_from(peer.roundings)),
        "like": peer.like,
    }
    if peer is TENSORFLOW and shared["auto_pad"] != "explicit":
        shared |= {"pads_begin": 0, "pads_end": 0}  # its calls have one argument for both
    if op_name == "lp":
        return Unchecked(LpPool, **shared, p=draw(st.integers(1, 3))), x
    if op_name == "max":
        if peer.like == "openvino":
            shared["axis"] = draw(st.integers(-7, 7))
        return Unchecked(MaxPool, **shared), x
    if peer.like == "pytorch" and rank > 1:
        shared["divisor_override"] = draw(st.sampled_from([None, None, 0, 2, -1]))
    return Unchecked(AvgPool, **shared, exclude_pad=draw(st.sampled_from([True, False, None]))), x


def refused(op: Any, x: Array) -> bool:
    """Whether poolcli refuses the operator on this input."""
    try:
        op.plan(x.shape, x.dtype, layout=default_layout(x.ndim))
    except RequestError:
        return True
    return False


def row_of(peer: Peer, op: Any, x: Array, by_poolcli: bool) -> str | None:
    """The row of the table of differences that this disagreement belongs to."""
    rank, sizes = x.ndim - 2, x.shape[2:]
    if op.name.startswith("adaptive"):
        return "output-size-0-pytorch" if by_poolcli and 0 in op.output_size and min(op.output_size) >= 0 else None
    kernel, strides, dilations, begin, end = (
        spread(getattr(op, name), rank) for name in ("kernel", "strides", "dilations", "pads_begin", "pads_end")
    )
    given = begin + end
    if op.auto_pad != "explicit":
        begin = end = [0] * rank
    if not by_poolcli:
        if peer is ONNX and op.auto_pad != "explicit" and any(np.array(given) >= np.array(kernel * 2)):
            return "ignored-pads-onnx"
        if peer is ONNX and op.auto_pad.startswith("same") and max(dilations) > 1:
            return "same-dilated"
        return None
    if min(kernel + strides + dilations) < 1 or op.auto_pad.startswith("same"):
        return None
    windows = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    missing = [w - n - b - e for w, n, b, e in zip(windows, sizes, begin, end, strict=True)]
    if peer is TENSORFLOW and max(missing) > 0 and all(m < 2 * s for m, s in zip(missing, strides, strict=True)):
        return "too-large-tensorflow"
    if peer is ONNX and max(missing) > 0 and all(m < 2 * s for m, s in zip(missing, strides, strict=True)):
        one = all(m < s for m, s in zip(missing, strides, strict=True))
        return "far-too-large-onnx" if not one else "too-large-onnx" if op.rounding_type == "floor" else None
    return None


# OpenVINO refuses no adaptive attributes; its sizes of 0 are a row of the table
PAIRS = [
    (peer, op)
    for peer in (OPENVINO, ONNX, PYTORCH, TENSORFLOW)
    for op in peer.dtypes
    if not (peer is OPENVINO and op.startswith("adaptive"))
]


@pytest.mark.parametrize(("peer", "op_name"), PAIRS, ids=[f"{peer.like}-{op}" for peer, op in PAIRS])
def test_poolcli_refuses_what_the_framework_refuses_and_nothing_else(peer: Peer, op_name: str) -> None:
    seen: Counter[str] = Counter()

    @generated(ASKED)
    @given(doubtful(peer, op_name))
    def hold(question: tuple[Any, Array]) -> None:
        op, x = question
        ours, theirs = refused(op, x), peer.refuses(op, x)
        row = row_of(peer, op, x, ours) if ours != theirs else None
        assert ours == theirs or row in NAMES, f"{'poolcli' if ours else peer.name} alone refuses {op} on {x.shape}"
        seen["refused by both" if ours and theirs else "accepted by both" if ours == theirs else "in the table"] += 1

    hold()
    assert min(seen["refused by both"], seen["accepted by both"]) > ASKED / 40, seen


@pytest.mark.parametrize(
    ("op", "sizes", "is_refused"),
    [
        # pads as large as the window: OpenVINO refuses exclude and takes include; ONNX and PyTorch have own limits
        *((AvgPool(2, strides=1, pads=pad, exclude_pad=exclude, like=like), (6,), expected)
          for like, pad, exclude, expected in (("openvino", 2, True, True), ("openvino", 2, False, False),
                                               ("onnx", 2, False, True), ("onnx", 1, False, False),
                                               ("pytorch", 2, False, True), ("pytorch", 1, False, False))),
        *((MaxPool(1, strides=1, like=like), (0,), True) for like in ("onnx", "pytorch")),
        # averages and norms of PyTorch over three axes alone take no kernel that is longer than its axis
        *((record(5, strides=2, rounding_type="ceil", like="pytorch"), (4, 4, 4), record is not MaxPool)
          for record in (AvgPool, MaxPool, LpPool)),
    ],
)  # fmt: skip
def test_limits_are_those_of_the_framework(op: Any, sizes: tuple[int, ...], is_refused: bool) -> None:
    (peer,) = (peer for peer in (OPENVINO, ONNX, PYTORCH) if peer.like == op.like)
    x = np.ones((1, 1, *sizes), np.float32)
    assert (refused(op, x), peer.refuses(op, x)) == (is_refused, is_refused)


@pytest.mark.parametrize(
    ("peer", "op_name"),
    [(peer, op) for peer in (OPENVINO, NGRAPH, ONNX, PYTORCH) for op in ("avg", "max", "lp") if op in peer.dtypes],
    ids=lambda value: getattr(value, "like", value),
)
def test_ceil_keeps_a_window_longer_than_its_axis_where_the_framework_does(peer: Peer, op_name: str) -> None:
    # values of what is accepted; of what is refused too, ONNX Runtime makes nothing (table: far-too-large-onnx)
    asked: list[tuple[Any, Array]] = []
    options: dict[str, tuple[dict[str, Any], ...]] = {"avg": ({"exclude_pad": True}, {"exclude_pad": False})}
    pads = [(0, 0)] if (peer, op_name) == (PYTORCH, "lp") else [(0, 0), (1, 1), (2, 2), (0, 1), (1, 0)]
    dilations = (1, 2) if peer.dilates(op_name) else (1,)
    for n, k, s, d, (begin, end) in product((1, 2, 4), (2, 3, 5, 6, 8), (1, 2, 4), dilations, pads):
        legal = max(begin, end) < k if peer is not PYTORCH else begin == end <= k // 2
        if not legal or n + begin + end > (k - 1) * d:
            continue
        shared: dict[str, Any] = {"kernel": k, "strides": s, "dilations": d, "rounding_type": "ceil", "like": peer.like}
        shared |= {"pads_begin": begin, "pads_end": end}
        x = np.arange(1, n + 1, dtype=np.float32).reshape(1, 1, n)
        for more in options.get(op_name, ({},)):
            op = {"avg": AvgPool, "max": MaxPool, "lp": LpPool}[op_name](**shared, **more)
            if refused(op, x):
                assert peer.refuses(op, x) or peer.ask([(op, x)])[0][0].size == 0, op
            else:
                asked.append((op, x))
    assert bool(asked) == (peer in (ONNX, PYTORCH))
    for (op, x), answer in zip(asked, peer.ask(asked) if asked else (), strict=True):
        case = case_of(op, x)
        if not excluded(peer.name, "case", case).any():
            compare(peer.name, case, answer, "numpy")
