"""Each row of the table of differences is real: the framework and poolcli are both run on its example."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolcli import RequestError
from poolcli.engine import run
from poolcli.layouts import default_layout
from tests.conformance.cases import case_of
from tests.conformance.differences import DIFFERENCES, REFUSED, Difference
from tests.conformance.exclusions import EXCLUSIONS, Exclusion
from tests.conformance.peers import PEERS, Peer
from tests.conformance.sweep import DOCUMENT, MARKS, SWEPT, split, tables
from tests.profiles import sized

PEER = {peer.name: peer for peer in PEERS}
ROW = {row.name: row for row in DIFFERENCES}
RANKS = sized((2,), (1, 2, 3))  # numbers of axes that frameworks are asked


def theirs(row: Difference) -> Any:
    """The framework's answer to the row's example, flat, or REFUSED."""
    peer = PEER[row.peer]
    if peer.refuses(row.op, row.x):
        return REFUSED
    try:
        ((values, indices),) = peer.adapter.ask([(row.op, row.x)], indices=row.asked != "values alone")
    except RuntimeError:  # OpenVINO's, of a node that can be built, but not compiled
        return REFUSED
    wanted = indices if row.asked == "indices" else values
    assert wanted is not None
    return wanted.ravel().tolist()


def ours(row: Difference, engine: str) -> Any:
    """poolcli's answer, flat, or REFUSED."""
    try:
        plan = row.op.plan(row.x.shape, row.x.dtype, layout=default_layout(row.x.ndim))
    except RequestError:
        return REFUSED
    values, indices = run(plan, row.x, engine=engine, indices=row.asked == "indices")
    wanted = values if indices is None else indices
    return wanted.ravel().tolist()


def written(answer: Any) -> list[str]:
    """Each number as text, so that nan equals nan and -0.0 is not 0."""
    return [REFUSED] if answer == REFUSED else ["nan" if v != v else repr(float(v)) for v in answer]


@pytest.mark.slow  # what a framework does by accident depends on its version and the processor: compared in CI alone
@pytest.mark.parametrize("row", DIFFERENCES, ids=list(ROW))
def test_the_framework_gives_what_the_table_says(row: Difference) -> None:
    accepted = [row.theirs] if row.also is None else [row.theirs, row.also]
    assert written(theirs(row)) in [written(answer) for answer in accepted]


ON_ENGINES = [
    *(pytest.param(row, "numpy", id=f"{row.name}-numpy") for row in DIFFERENCES),
    *(pytest.param(row, "numba", id=f"{row.name}-numba") for row in DIFFERENCES[:: sized(25, 1)]),
]


@pytest.mark.parametrize(("row", "engine"), ON_ENGINES)
def test_poolcli_gives_what_the_table_says(row: Difference, engine: str) -> None:
    assert written(ours(row, engine)) == written(row.ours)


def test_every_row_is_a_difference_and_has_its_own_name() -> None:
    assert [row.name for row in DIFFERENCES if written(row.theirs) == written(row.ours)] == []
    assert len(ROW) == len(DIFFERENCES)


@pytest.mark.parametrize("exclusion", EXCLUSIONS, ids=[f"{e.peer}-{e.row}-{e.what}" for e in EXCLUSIONS])
def test_what_is_excluded_from_the_comparison_meets_its_row(exclusion: Exclusion) -> None:
    row = ROW[exclusion.row]
    assert row.peer == exclusion.peer or PEER[exclusion.peer].framework == PEER[row.peer].framework
    mask = np.asarray(exclusion.mask(case_of(row.op, row.x)))
    if exclusion.what == "case":
        assert mask.all()
        return
    assert mask.any()
    if (exclusion.what == "index") == (row.asked == "indices"):
        differ = [a != b for a, b in zip(written(row.theirs), written(row.ours), strict=True)]
        shown = np.broadcast_to(mask, row.op.plan(row.x.shape, row.x.dtype).output_shape).ravel()
        assert not (np.array(differ) & ~shown).any()


@pytest.mark.parametrize("part", ["marks", "poolcli", "differences"])
def test_the_document_shows_the_same_table(part: str) -> None:
    assert split(DOCUMENT.read_text(), part)[1] == tables([])[part]


@pytest.mark.slow  # 5 to 30 seconds of each framework; what it does by accident depends on its version
@pytest.mark.parametrize("peer", SWEPT, ids=[peer.name for peer in SWEPT])
def test_the_framework_takes_the_types_and_differs_where_its_table_says(peer: Peer) -> None:
    assert peer.adapter
    found, shown = tables([peer], RANKS)[peer.name], split(DOCUMENT.read_text(), peer.name)[1]
    if "avx512f" in Path("/proc/cpuinfo").read_text():  # not the processor of the tables: their numbers may differ
        found, shown = (re.sub(r"(?<=\| )[=a-z]+(?= \|)", _taken, text) for text in (found, shown))
    assert marks(found) == marks(shown)


def marks(table: str) -> dict[tuple[str, int], list[str]]:
    """The cells of each operator and number of axes that are asked."""
    _, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    return {(name, n): cells for name, axes, *cells in lines for n in map(int, axes.split(",")) if n in RANKS}


def _taken(cell: re.Match[str]) -> str:
    """A cell that says where numbers differ as one that says that the type is taken."""
    return "taken" if {*cell[0]} <= {*MARKS} else cell[0]
