"""Generated cases: an operator under one dialect, an input, and poolcli's own answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool, RequestError
from poolcli.engine import run
from poolcli.plan import Plan
from poolcli.windows import Sliding

Array = np.ndarray[Any, np.dtype[Any]]
COMPARED: Counter[tuple[str, str]] = Counter()  # (peer, operator): cases; shown at the end of the test run


@dataclass(frozen=True)
class Case:
    """One legal pooling."""

    op: Any
    plan: Plan
    x: Array

    def __repr__(self) -> str:
        return f"{self.op} on {self.x.shape} {self.x.dtype}"


@dataclass(frozen=True)
class Peer:
    """What a peer can be asked: its dialect, dtypes by operator, and words."""

    name: str
    like: str
    dtypes: dict[str, tuple[str, ...]]
    auto_pads: tuple[str, ...] = ("explicit", "explicit", "same_upper", "same_lower", "valid")
    roundings: tuple[str, ...] = ("floor", "ceil")


@st.composite
def cases(draw: st.DrawFn, peer: Peer, op_name: str) -> Case:
    """A case that is legal in the peer's dialect."""
    rank = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(peer.dtypes[op_name]))
    while True:
        op = _operator(rng, peer, op_name, rank)
        x = _values(rng, (rng.integers(1, 3), rng.choice([1, 3]), *rng.integers(1, (13, 10, 7)[rank - 1], rank)), dtype)
        try:
            return Case(op, op.plan(x.shape, x.dtype), x)
        except RequestError:
            continue


def _operator(rng: np.random.Generator, peer: Peer, op_name: str, rank: int) -> Any:
    def numbers(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.integers(low, high + 1, rank).tolist())

    if op_name.startswith("adaptive"):
        record = AdaptiveAvgPool if op_name == "adaptive-avg" else AdaptiveMaxPool
        return record(numbers(1, 14), like=peer.like)
    pads = numbers(0, 3)
    shared: dict[str, Any] = {
        "kernel": numbers(1, 5),
        "strides": numbers(1, 4),
        "pads_begin": pads,
        "pads_end": pads if peer.like == "pytorch" else numbers(0, 3),
        "auto_pad": str(rng.choice(peer.auto_pads)),
        "rounding_type": str(rng.choice(peer.roundings)),
        "like": peer.like,
    }
    dilated = op_name == "max" or peer.like != "pytorch"
    shared["dilations"] = numbers(1, 3) if dilated and rng.random() < 0.4 else (1,) * rank
    if op_name == "max":
        axis = int(rng.integers(-rank - 2, rank + 2)) if peer.like == "openvino" else None
        return MaxPool(**shared, axis=axis)
    return AvgPool(**shared, exclude_pad=bool(rng.integers(2)))


def _values(rng: np.random.Generator, shape: tuple[Any, ...], dtype: str) -> Array:
    """Small numbers with ties, exact in every type of every peer; no lowest value, whose index OpenVINO loses."""
    if dtype.startswith("u"):
        return rng.integers(1, 9, shape).astype(dtype)
    if dtype.startswith("int"):
        return rng.integers(-9, 10, shape).astype(dtype)
    return (rng.integers(-40, 41, shape) / 8).astype(dtype)


def filled(case: Case) -> Array:
    """Which outputs have a window that holds input, shaped to broadcast over the output."""
    held = np.ones((1,) * case.x.ndim, bool)
    for axis in case.plan.axes:
        inside = axis.windows.inside(np.arange(axis.windows.output)) > 0
        held = held & inside.reshape([-1 if i == axis.position else 1 for i in range(case.x.ndim)])
    return np.broadcast_to(held, case.plan.output_shape)


def check(peer: str, case: Case, values: Array, indices: Array | None, engine: str = "numpy") -> None:
    """Holds poolcli's answer against the peer's: shapes and indices exact, averages of floats within 1e-5.

    Windows without input are compared in shape only: their values are a row of the table of differences.
    """
    ours, at = run(case.plan, case.x, engine=engine, indices=indices is not None)
    assert values.shape == ours.shape
    held = filled(case)
    if case.plan.reducer == "max" or case.x.dtype.kind in "iu":
        np.testing.assert_array_equal(ours[held], values[held])
    else:
        tolerance = 1e-3 if case.x.dtype == np.float16 else 1e-5  # a unit in the last place of float16
        np.testing.assert_allclose(
            ours[held].astype(np.float64), values[held].astype(np.float64), rtol=tolerance, atol=tolerance / 100
        )
    if at is not None and indices is not None:
        np.testing.assert_array_equal(at[held], indices[held])
    COMPARED[peer, case.plan.op] += 1


def stretched(case: Case) -> bool:
    """Whether same_* pads an axis whose window is dilated or shorter than its stride."""
    auto_pad = case.plan.attributes.get("auto_pad", "")
    sliding = [w for w in case.plan.windows if isinstance(w, Sliding)]
    return str(auto_pad).startswith("same") and any(w.dilation > 1 or w.kernel < w.stride for w in sliding)
