"""Each row of the table of differences is real: the framework and poolcli are both run on its example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from poolcli import RequestError
from tests.conformance import onnx_peer, openvino_peer
from tests.conformance.differences import DIFFERENCES, REFUSED, Difference, markdown

README = Path(__file__).parents[2] / "README.md"


def theirs(row: Difference) -> Any:
    """The framework's answer to the row's example, flat, or REFUSED."""
    try:
        if row.peer == "PyTorch":
            pytest.importorskip("torch", reason="PyTorch is compared where it is installed")
            from tests.conformance.pytorch_peer import ask

            answer = ask(row.op, row.x)
        else:
            peer = openvino_peer if row.peer == "OpenVINO" else onnx_peer
            (answer,) = peer.ask([(row.op, row.x)])
    except Exception:
        return REFUSED
    wanted = answer[1] if row.indices else answer[0]
    assert wanted is not None
    return wanted.ravel().tolist()


def ours(row: Difference, engine: str) -> Any:
    """poolcli's answer, flat, or REFUSED."""
    try:
        plan = row.op.plan(row.x.shape, row.x.dtype)
    except RequestError:
        return REFUSED
    from poolcli.engine import run

    values, indices = run(plan, row.x, engine=engine, indices=row.indices)
    wanted = indices if row.indices else values
    assert wanted is not None
    return wanted.ravel().tolist()


def same(a: Any, b: Any) -> bool:
    """Equal, with nan equal to nan and the sign of zero told apart."""
    if REFUSED in (a, b):
        return bool(a == b)
    texts = [["nan" if v != v else repr(float(v)) for v in values] for values in (a, b)]
    return texts[0] == texts[1]


@pytest.mark.parametrize("row", DIFFERENCES, ids=[row.name for row in DIFFERENCES])
def test_the_framework_gives_what_the_table_says(row: Difference) -> None:
    found = theirs(row)
    assert same(found, row.theirs), found


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("row", DIFFERENCES, ids=[row.name for row in DIFFERENCES])
def test_poolcli_gives_what_the_table_says(row: Difference, engine: str) -> None:
    found = ours(row, engine)
    assert same(found, row.ours), found


def test_every_row_is_a_difference() -> None:
    assert [row.name for row in DIFFERENCES if same(row.theirs, row.ours)] == []


def test_the_readme_shows_the_same_table() -> None:
    text = README.read_text()
    shown = text.split("<!-- differences -->\n")[1].split("\n<!-- /differences -->")[0]
    assert shown == markdown()
