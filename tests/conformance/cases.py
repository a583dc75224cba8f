"""Generated cases: an operator that is legal under a peer's dialect, and an input for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, Phase, given, reject, settings, strategies as st

from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, LpPool, MaxPool, RequestError
from poolcli.layouts import default_layout
from poolcli.plan import Plan
from tests.conformance.peers import HALVES, WIDE, Array, Peer

ROOM = (13, 8, 5)  # how much longer than its window an axis may be, for 1, 2 and 3 axes


@dataclass(frozen=True)
class Case:
    """One legal pooling."""

    op: Any
    plan: Plan
    x: Array

    def __repr__(self) -> str:
        elements = self.x.ravel().tolist() if self.x.size <= 40 else "..."
        return f"{self.op} on {self.x.shape} {self.x.dtype} {elements}"

    @property
    def key(self) -> tuple[str, str, bytes]:
        """Two cases are the same when their keys are."""
        return repr(self.op), f"{self.x.shape} {self.x.dtype}", self.x.tobytes()


def case_of(op: Any, x: Array) -> Case:
    """The case of `op` on `x`."""
    return Case(op, op.plan(x.shape, x.dtype, layout=default_layout(x.ndim)), x)


def generated(count: int) -> settings:
    """The settings of hypothesis for `count` examples, the same in every run."""
    checks = list(HealthCheck)
    shared: dict[str, Any] = {"database": None, "deadline": None, "suppress_health_check": checks}
    return settings(max_examples=count, derandomize=True, phases=[Phase.generate], **shared)


def distinct_cases(peer: Peer, op_name: str, count: int, dtypes: tuple[str, ...] | None = None) -> list[Case]:
    """About `count` cases, the same in every run, no two alike; of the peer's types those in `dtypes`."""
    found: dict[Any, Case] = {}

    @generated(count)
    @given(cases(peer, op_name, dtypes))
    def collect(case: Case) -> None:
        found[case.key] = case

    collect()
    return list(found.values())


@st.composite
def cases(draw: st.DrawFn, peer: Peer, op_name: str, dtypes: tuple[str, ...] | None) -> Case:
    """A case that poolcli plans under the peer's dialect."""
    rank = draw(st.integers(1, 3))
    dtype = draw(st.sampled_from([name for name in peer.dtypes[op_name] if dtypes is None or name in dtypes]))
    if peer.name == "PyTorch" and "avg" in op_name and rank == 3 and dtype in HALVES:
        dtype = "float32"  # avg_pool3d has no halves, adaptive_avg_pool3d sums in them (table: halves-pytorch)
    if peer.name == "TensorFlow" and rank == 3:
        dtype = "float32"  # its kernels over three axes are of floats (table: types-3d-tensorflow)
    op, sizes = draw(
        _adaptive(peer, op_name, rank) if op_name.startswith("adaptive") else _sliding(peer, op_name, rank)
    )
    lone = peer.framework != "openvino" or dtype not in WIDE  # it lacks kernels for wide integers of one channel
    channels = draw(st.integers(1, 3) if lone else st.just(3))
    x = draw(_inputs((draw(st.integers(1, 2)), channels, *sizes), dtype))
    if peer.framework == "openvino" and dtype == "float64":
        x = np.nan_to_num(x.astype(np.float32), nan=np.nan, posinf=9, neginf=-9).astype(np.float64)  # table: float64
    try:
        return case_of(op, x)
    except RequestError:
        reject()


@st.composite
def _adaptive(draw: st.DrawFn, peer: Peer, op_name: str, rank: int) -> tuple[Any, list[int]]:
    sizes = [draw(st.integers(1, ROOM[rank - 1] + 2)) for _ in range(rank)]
    output = tuple(draw(st.integers(1, ROOM[rank - 1] + 4)) for _ in range(rank))
    if op_name == "adaptive-avg":
        return AdaptiveAvgPool(output, like=peer.like), sizes
    return AdaptiveMaxPool(
        output, like=peer.like, index_element_type="i32" if peer.like == "openvino" else "i64"
    ), sizes


@dataclass(frozen=True)
class _Axis:
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    size: int


@st.composite
def _axes(draw: st.DrawFn, peer: Peer, room: int, dilated: bool, limit: bool, auto_pad: str, rounding: str) -> _Axis:
    """Numbers of one axis that the dialect allows together; `limit`: pads must be smaller than the window."""
    kernel = draw(st.integers(1, 5))
    dilation = draw(st.sampled_from([1, 1, 2, 3])) if dilated else 1
    extent = (kernel - 1) * dilation + 1
    most = {"pytorch": kernel // 2, "onnx": kernel - 1, "tensorflow": kernel - 1}.get(
        peer.like, extent - 1 if limit else 5
    )
    pads = st.just(0) if auto_pad == "bare" else st.one_of(st.just(min(most, 5)), st.integers(0, min(most, 5)))
    begin = draw(pads)
    end = begin if peer.like == "pytorch" else draw(pads)
    stride = draw(st.integers(1, 4))
    least = {"explicit": extent - begin - end, "valid": extent, "bare": extent}.get(auto_pad, 1)
    if peer.like in ("onnx", "pytorch") and rounding == "ceil":  # these keep a window that is longer than its axis
        least -= stride - 1
    size = max(1, least) + draw(st.one_of(st.integers(0, 1), st.integers(0, room - 1)))
    return _Axis(kernel, stride, dilation, begin, end, size)


@st.composite
def _sliding(draw: st.DrawFn, peer: Peer, op_name: str, rank: int) -> tuple[Any, list[int]]:
    auto_pad = draw(st.sampled_from(peer.auto_pads))
    exclude = draw(st.sampled_from([True, False, None])) if op_name == "avg" else None
    limit = op_name == "avg" and exclude is not False
    dilated = peer.dilates(op_name) and draw(st.booleans())
    bare = peer.like == "tensorflow" and (op_name == "avg" or rank == 3)  # these take no list of pads
    rounding = draw(st.sampled_from(peer.roundings))
    word = "bare" if bare else auto_pad
    axes = [draw(_axes(peer, ROOM[rank - 1], dilated, limit, word, rounding)) for _ in range(rank)]
    shared: dict[str, Any] = {
        "kernel": tuple(axis.kernel for axis in axes),
        "strides": tuple(axis.stride for axis in axes) if draw(st.integers(0, 5)) else None,
        "pads_begin": tuple(axis.begin for axis in axes),
        "pads_end": tuple(axis.end for axis in axes),
        "dilations": tuple(axis.dilation for axis in axes),
        "auto_pad": auto_pad,
        "rounding_type": rounding,
        "like": peer.like,
    }
    sizes = [axis.size for axis in axes]
    if peer.like == "tensorflow":
        shared["strides"] = tuple(axis.stride for axis in axes)
        exclude = exclude or None
    if op_name == "lp":
        if peer.like == "pytorch":
            shared |= {"pads_begin": 0, "pads_end": 0}
        return LpPool(**shared, p=draw(st.sampled_from([1, 2, 2, 3, 4] + [2.5] * (peer.like == "pytorch")))), [
            max(n, axis.kernel - (rounding == "ceil") * (axis.stride - 1)) if peer.like == "pytorch" else n
            for n, axis in zip(sizes, axes, strict=True)
        ]
    if op_name == "max":
        if peer.like == "openvino":
            shared["axis"] = draw(st.one_of(st.none(), st.integers(-rank - 2, rank + 1)))
            shared["index_element_type"] = draw(st.sampled_from(["i64", "i32"]))
        return MaxPool(**shared), sizes
    if peer.like == "pytorch" and rank > 1:
        shared["divisor_override"] = draw(st.sampled_from([None, None, None, 1, 3, -7, 1000]))
    return AvgPool(**shared, exclude_pad=exclude), sizes


@st.composite
def _inputs(draw: st.DrawFn, shape: tuple[int, ...], dtype: str) -> Array:
    """Few values and so many ties, any values, or (floats) with nan and infinities among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["few", "any", "special"]))
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if "int" in dtype:
        limits = np.iinfo(dtype)
        span = 3 if kind == "few" else 300  # float32, in which OpenVINO computes, holds the sums exactly
        return rng.integers(max(limits.min, -span), min(limits.max, span), shape, endpoint=True).astype(dtype)
    numbers = rng.integers(-3, 4, shape) / 4 if kind == "few" else rng.normal(scale=4, size=shape)
    if kind == "special":
        numbers = np.where(rng.random(shape) < 0.15, rng.choice([np.nan, np.inf, -np.inf], shape), numbers)
    return numbers.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
