"""The program under test, run in this process: its exit code and both of its streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from poolcli.cli import run
from poolcli.engine.compiled import kernel_cache

pytest_plugins = ("tests.processes", "tests.profiles", "tests.clusters")
SAMPLES = Path(__file__).parents[1] / "samples"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on standard output."""
        return json.loads(self.out)


Cli = Callable[..., Result]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs `poolcli ARGUMENTS...` at a fixed width without colour."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def call(*arguments: object, columns: int = 80) -> Result:
        monkeypatch.setenv("COLUMNS", str(columns))
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder of its own, beside which processes leave what they print."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own working folder with `x.npy` (1, 2, 6, 8), `photo.png` 8 x 6 RGB and `bad.npy`, which is broken."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(96, dtype=np.float32).reshape(1, 2, 6, 8))
    pixels = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
    Image.fromarray(pixels).save("photo.png")
    Path("bad.npy").write_bytes(b"not an array")
    return tmp_path


@pytest.fixture
def own_kernel_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty kernel cache below `tmp_path`, which the test may clear; no later test writes to it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    reopen_kernel_cache()
    yield
    reopen_kernel_cache()


def reopen_kernel_cache() -> None:
    """Let this process look for the folder of kernels as for the first time."""
    kernel_cache.opened.cache_clear()
