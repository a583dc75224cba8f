"""Holding poolcli's answer against a peer's."""

from __future__ import annotations

import numpy as np

from poolcli.engine import run
from tests.conformance.cases import Case
from tests.conformance.exclusions import excluded
from tests.conformance.peers import Answer, Array

CLOSE = {"float16": 1e-3, "bfloat16": 8e-3}  # a unit in the last place; other floats 1e-5


def compare(peer: str, case: Case, answer: Answer, engine: str) -> None:
    """Asserts equal shapes, types and indices, equal maxima and integers, and averages of floats within 1e-5.

    Outputs that a row of the table of differences takes out are compared in shape only.
    """
    values, indices = answer
    ours, at = run(case.plan, case.x, engine=engine, indices=indices is not None)
    assert (ours.shape, ours.dtype) == (values.shape, values.dtype), case
    kept = ~excluded(peer, "value", case)
    if case.plan.reducer.picks or case.x.dtype.kind in "iub":
        np.testing.assert_array_equal(_exact(ours[kept]), _exact(values[kept]), str(case))
    else:
        # TensorFlow sums float16 in float16.
        close = 4e-3 if (peer, case.x.dtype.name) == ("TensorFlow", "float16") else CLOSE.get(case.x.dtype.name, 1e-5)
        np.testing.assert_allclose(
            ours[kept].astype(np.float64), values[kept].astype(np.float64), close, 1e-5, err_msg=str(case)
        )
    if at is not None and indices is not None:
        kept = ~excluded(peer, "index", case)
        np.testing.assert_array_equal(at[kept], indices[kept], str(case))


def _exact(values: Array) -> Array:
    """bfloat16 as float32, which numpy can compare."""
    return values.astype(np.float32) if values.dtype.name == "bfloat16" else values
