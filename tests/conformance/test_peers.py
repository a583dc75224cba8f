"""poolcli under each dialect against the framework itself, on generated cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.cases import Case, Peer, cases, check, stretched
from tests.conformance.onnx_peer import ask as ask_onnx
from tests.conformance.openvino_peer import ask as ask_openvino

FLOATS = ("float32", "float32", "float16", "float64")
OPENVINO = Peer(
    "OpenVINO",
    "openvino",
    {
        "avg": (*FLOATS, "uint8", "int8"),
        "max": (*FLOATS, "uint8", "int8", "int32"),
        "adaptive-avg": (*FLOATS, "uint8", "int8"),
        "adaptive-max": FLOATS,
    },
    roundings=("floor", "ceil", "ceil_torch"),
)
ONNX = Peer("ONNX Runtime", "onnx", {"avg": ("float32", "float16"), "max": ("float32", "float64", "uint8", "int8")})
PYTORCH = Peer(
    "PyTorch",
    "pytorch",
    {
        "avg": ("float32", "float64"),
        "max": ("float32", "float64", "uint8", "int8", "int16", "int32", "int64"),
        "adaptive-avg": ("float32", "float64"),
        "adaptive-max": ("float32", "float64"),
    },
    auto_pads=("explicit",),
)
BATCH = 40  # cases in one model
bounded = settings(max_examples=40, deadline=None, derandomize=True, database=None)
ENGINES = ("numpy", "numba")


@pytest.mark.parametrize("op", ["avg", "max", "adaptive-avg", "adaptive-max"])
def test_openvino_gives_the_same_shapes_values_and_indices(op: str) -> None:
    @bounded
    @given(st.lists(cases(OPENVINO, op), min_size=BATCH, max_size=BATCH))
    def compare(batch: list[Case]) -> None:
        asked = [case for case in batch if not _means_of_all_integers(case)]
        for case, (values, indices) in zip(asked, ask_openvino([(c.op, c.x) for c in asked]), strict=True):
            check("OpenVINO", case, values, indices)

    compare()


def _means_of_all_integers(case: Case) -> bool:
    """Integers to one bin are truncated by OpenVINO (table of differences: adaptive-integers)."""
    return case.plan.op == "adaptive-avg" and case.x.dtype.kind in "iu" and set(case.plan.output_shape[2:]) == {1}


@pytest.mark.parametrize("op", ["avg", "max"])
def test_onnx_runtime_gives_the_same_shapes_values_and_indices(op: str) -> None:
    @bounded
    @given(st.lists(cases(ONNX, op), min_size=BATCH, max_size=BATCH))
    def compare(batch: list[Case]) -> None:
        asked = [case for case in batch if not stretched(case)]  # table of differences: same-dilated, same-short
        for case, (values, indices) in zip(asked, ask_onnx([(c.op, c.x) for c in asked]), strict=True):
            check("ONNX Runtime", case, values, indices)

    compare()


@pytest.mark.parametrize("op", ["avg", "max", "adaptive-avg", "adaptive-max"])
def test_pytorch_gives_the_same_shapes_values_and_indices(op: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is compared where it is installed")
    from tests.conformance.pytorch_peer import ask

    @settings(bounded, max_examples=1500)
    @given(cases(PYTORCH, op))
    def compare(case: Case) -> None:
        if op == "avg" and case.x.ndim == 5 and _shorter_than_kernel(case):
            return  # table of differences: avg-3d-short
        check("PyTorch", case, *ask(case.op, case.x))

    compare()


def _shorter_than_kernel(case: Case) -> bool:
    return any(w.size < w.kernel for w in case.plan.windows)  # type: ignore[union-attr]  # sliding windows


@pytest.mark.parametrize("op", ["avg", "max", "adaptive-avg", "adaptive-max"])
def test_openvino_agrees_with_the_compiled_engine_too(op: str) -> None:
    @settings(bounded, max_examples=5)
    @given(st.lists(cases(OPENVINO, op), min_size=BATCH, max_size=BATCH))
    def compare(batch: list[Case]) -> None:
        asked = [case for case in batch if not _means_of_all_integers(case)]
        for case, (values, indices) in zip(asked, ask_openvino([(c.op, c.x) for c in asked]), strict=True):
            check("OpenVINO", case, values, indices, engine="numba")

    compare()


def test_the_comparison_notices_a_wrong_value_and_a_wrong_index() -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    from poolcli import MaxPool

    op = MaxPool(2, 1)
    case = Case(op, op.plan(x.shape), x)
    ((values, indices),) = ask_openvino([(op, x)])
    assert indices is not None
    check("OpenVINO", case, values, indices)
    with pytest.raises(AssertionError):
        check("OpenVINO", case, values + 1, indices)
    with pytest.raises(AssertionError):
        check("OpenVINO", case, values, indices + 1)
