"""poolcli under each dialect against the framework itself, on generated cases."""

from __future__ import annotations

import numpy as np
import pytest

from poolcli import MaxPool
from tests.conformance.cases import case_of, distinct_cases
from tests.conformance.exclusions import compare, excluded
from tests.conformance.peers import OPENVINO, PEERS, Peer
from tests.profiles import sized

CASES = {"numpy": sized(50, 700), "numba": sized(6, 150)}  # drawn; what is drawn twice or refused does not count
BATCH = 50  # questions in one model
ON_ENGINES = [
    pytest.param(peer, op, engine, id=f"{peer.framework}-{peer.like}-{op}-{engine}", marks=marks)
    for peer in PEERS
    for op in peer.dtypes
    for engine, marks in (("numpy", []), ("numba", [pytest.mark.slow] * (op == "lp")))  # a kernel for each power
]


@pytest.mark.parametrize(("peer", "op", "engine"), ON_ENGINES)
def test_the_framework_gives_the_same_shapes_values_and_indices(peer: Peer, op: str, engine: str) -> None:
    # every further type has kernels of its own to compile
    dtypes = sized(("float32", "uint8") if "avg" in op else ("float32",), None) if engine == "numba" else None
    count = CASES[engine] // (2 if (op, engine) == ("lp", "numba") else 1)  # each power has a kernel, too
    found = distinct_cases(peer, op, count, dtypes)
    assert len(found) > 0.6 * count
    asked = [case for case in found if not excluded(peer.name, "case", case).any()]
    for i in range(0, len(asked), BATCH):
        batch = asked[i : i + BATCH]
        for case, answer in zip(batch, peer.ask([(case.op, case.x) for case in batch]), strict=True):
            compare(peer.name, case, answer, engine)


def test_the_comparison_notices_a_wrong_value_and_a_wrong_index() -> None:
    case = case_of(MaxPool(2, strides=1), np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4))
    ((values, indices),) = OPENVINO.ask([(case.op, case.x)])
    assert indices is not None
    for wrong in ((values + 1, indices), (values, indices + 1), (values.astype(np.float64), indices)):
        with pytest.raises(AssertionError):
            compare("OpenVINO", case, wrong, "numpy")
