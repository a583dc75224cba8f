"""The examples in docstrings of the package show what really comes out."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "poolcli").rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run_as_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolcli.engine.choose.work_of", lambda plan: 0)  # so that no kernel is built
    result = doctest.testmod(import_module(name), raise_on_error=False)
    assert result.attempted > 0
    assert result.failed == 0
