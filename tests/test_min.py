"""Minima: the dual of maxima, which frameworks have. What holds of every operator is tested with the others."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import poolcli
from poolcli import MaxPool, MinPool, RequestError
from poolcli.arguments import DTypeName, Engine
from poolcli.engine import run
from tests.conformance.cases import Case, distinct_cases
from tests.conformance.exclusions import excluded
from tests.conformance.peers import ONNX, OPENVINO, PYTORCH, Peer
from tests.profiles import by_engine, sized
from tests.reducers import by_loop

ENGINES = ("numpy", "numba")
DTYPES = (("uint8",), ("int16",), ("uint32",), ("int64",), ("uint64",), ("float16",), ("float64",))


def dual(case: Case) -> Any:
    """The minima of -x by the attributes of the maxima of x."""
    return MinPool(**{own.name: getattr(case.op, own.name) for own in fields(case.op)})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("peer", [OPENVINO, ONNX, PYTORCH], ids=lambda peer: peer.framework)
def test_minima_are_the_maxima_that_frameworks_find_in_the_negated_input(peer: Peer, engine: Engine) -> None:
    cases = [case for case in distinct_cases(peer, "max", sized(15, 300)) if case.x.dtype.name == "float32"]
    asked = [case for case in cases if not excluded(peer.name, "case", case).any()]
    assert asked
    for case, (values, indices) in zip(asked, peer.ask([(case.op, case.x) for case in asked]), strict=True):
        op = dual(case)
        found, at = run(op.plan(case.x.shape, case.x.dtype), -case.x, engine=engine, indices=True)
        kept = ~excluded(peer.name, "value", case)
        np.testing.assert_array_equal(found[kept], -values[kept], str(op))
        kept = ~excluded(peer.name, "index", case)
        assert at is not None
        assert indices is not None
        np.testing.assert_array_equal(at[kept], indices[kept], str(op))


@pytest.mark.parametrize(("dtype", "engine"), by_engine(*DTYPES, compiled=()))
def test_minima_are_those_of_a_slow_loop(dtype: DTypeName, engine: Engine) -> None:
    rng = np.random.default_rng(5)
    limits = np.iinfo(dtype) if "int" in dtype else None
    x = rng.integers(limits.min, limits.max, (2, 2, 9, 7), dtype) if limits else rng.normal(size=(2, 2, 9, 7))
    x = x.astype(dtype)
    for op in (
        MinPool(3, strides=2),
        MinPool(2, strides=1, dilations=2),
        MinPool((9, 1), strides=1),
        MinPool((4, 7), strides=3),
    ):
        plan = op.plan(x.shape, x.dtype)
        expected, _ = by_loop(plan, x)
        values, at = op(x, return_indices=True, engine=engine)
        np.testing.assert_array_equal(values.ravel(), np.array(expected, dtype))
        np.testing.assert_array_equal(x.ravel()[at], values)
        np.testing.assert_array_equal(op(x, engine=engine), values)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_minimum_wins_nan_wins_over_all_and_nothing_gives_the_highest_value(engine: Engine) -> None:
    def found(*values: float, dtype: DTypeName = "float32", **more: Any) -> Any:
        x = np.array(values, dtype).reshape(1, 1, -1)
        pooled, at = poolcli.min_pool(x, 2, strides=2, return_indices=True, engine=engine, **more)
        return pooled.ravel().tolist(), at.ravel().tolist()

    assert found(3, 3, 5, 1, np.inf, np.inf) == ([3, 1, np.inf], [0, 3, 4])
    values, at = found(1, np.nan, np.nan, 0)
    assert (np.isnan(values).all(), at) == (True, [1, 2])
    x = np.ones((1, 1, 7), "int16")
    pooled, at = poolcli.min_pool(x, 2, strides=4, rounding_type="ceil", return_indices=True, engine=engine)
    assert (pooled.tolist(), at.tolist()) == ([[[1, 1, 2**15 - 1]]], [[[0, 4, -1]]])
    pooled = poolcli.min_pool(x.astype("float32"), 2, strides=4, rounding_type="ceil", engine=engine)
    assert pooled.tolist() == [[[1, 1, np.inf]]]


def test_a_dialect_sets_the_windows_of_minima_and_they_are_written_as_maxima() -> None:
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    plan: Any = MinPool(2, like="pytorch").plan(x.shape)
    assert plan.strides == plan.attributes["strides"] == [2, 2]
    values, at = poolcli.min_pool(x, 2, strides=1, like="tensorflow", return_indices=True, layout="NCHW")
    assert (values.tolist(), at.tolist()) == ([[[[0, 1], [3, 4]]]], [[[[0, 1], [3, 4]]]])
    with pytest.raises(RequestError, match=r"^PyTorch allows pads of at most 1 for a kernel of 2:"):
        MinPool(2, pads_begin=2, pads_end=2, like="pytorch").plan(x.shape)
    from poolcli.explain.export import convert
    from poolcli.plan import make_plan

    found = convert(MinPool(2, strides=2).plan(x.shape), "pytorch")
    assert found.text == "-torch.nn.functional.max_pool2d(-x, 2, stride=2, padding=0, ceil_mode=False)"
    integers = convert(make_plan(MinPool(2, strides=2), x.shape, "uint8"), "pytorch")
    assert (integers.text, integers.reason) == (None, "PyTorch has no min pooling")
    assert MaxPool(2, strides=2).plan(x.shape).output_shape == MinPool(2, strides=2).plan(x.shape).output_shape
