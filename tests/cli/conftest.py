"""Fixtures that several tests of commands share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with 12 arrays in `in`, two of them in a subfolder."""
    monkeypatch.chdir(tmp_path)
    Path("in/deep").mkdir(parents=True)
    for i in range(12):
        np.save(f"in/{'deep/' if i > 9 else ''}{i:02}.npy", np.full((1, 1, 4, 4), i, np.float32))
    return tmp_path
