"""Every cell of the notebooks runs, and shows what the notebook shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.documents.console import workplace
from tests.documents.markdown import ROOT
from tests.documents.notebook import NOTEBOOKS, renewed_notebook


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=[path.relative_to(ROOT).as_posix() for path in NOTEBOOKS])
def test_cells_show_what_the_notebook_shows(notebook: Path, tmp_path: Path) -> None:
    with workplace(tmp_path):
        now, kept = (
            json.loads(text)["cells"] for text in (renewed_notebook(notebook.read_text()), notebook.read_text())
        )
    assert now == kept


def test_the_walk_through_is_there_and_shows_a_plan_with_its_picture() -> None:
    assert [path.name for path in NOTEBOOKS] == ["walkthrough.ipynb"]
    cells = json.loads(NOTEBOOKS[0].read_text())["cells"]
    forms = [sorted(output["data"]) for cell in cells for output in cell.get("outputs", []) if "data" in output]
    assert ["image/svg+xml", "text/plain"] in forms


def test_a_cell_shows_what_it_prints_and_the_value_of_its_last_line() -> None:
    cell = {"cell_type": "code", "source": ["a = 2\n", "print(a)\n", "a + 1"], "outputs": [], "execution_count": None}
    after = {"cell_type": "code", "source": ["a = a * 2"], "outputs": ["old"], "execution_count": 7}
    made = json.loads(renewed_notebook(json.dumps({"cells": [cell, {"cell_type": "markdown"}, after]})))["cells"]
    assert made[0]["outputs"] == [
        {"name": "stdout", "output_type": "stream", "text": ["2\n"]},
        {"data": {"text/plain": ["3"]}, "execution_count": 1, "metadata": {}, "output_type": "execute_result"},
    ]
    assert (made[2]["outputs"], made[2]["execution_count"]) == ([], 2)
