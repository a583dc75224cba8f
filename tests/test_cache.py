"""Compiled kernels between runs: right numbers whatever happens to the place where they are kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.profiles import slow

pytestmark = pytest.mark.xdist_group("cache")  # one compiled folder serves them all
CHEAP = "int64"  # its two kernels compile in 2 seconds

# Pools one array of each named type with numba and prints the results, which numpy can tell to be right.
CODE = """
import sys, json, numpy as np, poolcli
results = []
for dtype in sys.argv[1:]:
    x = np.arange(1, 17).astype(dtype).reshape(1, 1, 4, 4)
    results.append(poolcli.avg_pool(x, 2, strides=2, engine="numba").ravel().tolist())
    values, at = poolcli.max_pool(x, 2, strides=2, return_indices=True, engine="numba")
    results.append(values.ravel().tolist() + at.ravel().tolist())
print(json.dumps(results))
"""


def expected(dtype: str) -> list[list[float]]:
    means: list[float] = [3.5, 5.5, 11.5, 13.5] if "float" in dtype else [4, 6, 12, 14]
    return [means, [6.0, 8, 14, 16, 5, 7, 13, 15]]


def run(cache: Path, *dtypes: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("HOME", "XDG_CACHE_HOME")}
    places = {"XDG_CACHE_HOME": str(cache), "HOME": str(cache)} | environment
    return subprocess.run(
        [sys.executable, "-c", CODE, *dtypes], env=kept | places, capture_output=True, text=True, timeout=300
    )


def assert_right(done: subprocess.CompletedProcess[str], *dtypes: str) -> None:
    assert done.stderr == ""
    assert json.loads(done.stdout) == [row for dtype in dtypes for row in expected(dtype)]


def entries(cache: Path, pattern: str) -> list[Path]:
    return sorted(cache.rglob(pattern))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds the kernels of one type. To be copied, because tests do damage."""
    folder = tmp_path_factory.mktemp("compiled") / "cache"
    assert_right(run(folder, CHEAP), CHEAP)
    return folder


@pytest.fixture
def warm(compiled: Path, tmp_path: Path) -> Path:
    """A cache of one's own that holds the kernels of one type."""
    return Path(shutil.copytree(compiled, tmp_path / "warm"))


def test_a_kernel_is_compiled_once_and_then_loaded(warm: Path) -> None:
    first = {path: path.stat().st_mtime_ns for path in entries(warm, "*.nb[ci]")}
    assert first
    assert_right(run(warm, CHEAP), CHEAP)
    assert {path: path.stat().st_mtime_ns for path in entries(warm, "*.nb[ci]")} == first


@pytest.mark.slow
def test_many_cold_processes_at_once_with_mixed_types_all_get_their_own_kernel(tmp_path: Path) -> None:
    types = ["float32", "float64", "uint8", "int16"]
    with ThreadPoolExecutor(16) as pool:
        runs = [pool.submit(run, tmp_path, types[i % 4], types[(i + 1) % 4]) for i in range(16)]
    for i, done in enumerate(runs):
        assert_right(done.result(), types[i % 4], types[(i + 1) % 4])


@pytest.mark.parametrize(
    ("pattern", "keep"), [slow("*.nbi", 0), slow("*.nbi", 40), slow("*.nbc", 0), ("*.nbc", 500)],
    ids=["empty index", "truncated index", "empty kernel", "truncated kernel"],
)  # fmt: skip
def test_damaged_entries_are_thrown_away_and_compiled_again(warm: Path, pattern: str, keep: int) -> None:
    for path in entries(warm, pattern):
        path.write_bytes(path.read_bytes()[:keep])
    damaged = {path: path.stat().st_mtime_ns for path in entries(warm, pattern)}
    assert_right(run(warm, CHEAP), CHEAP)
    made = {path: path.stat().st_mtime_ns for path in entries(warm, pattern)}
    assert not set(damaged.items()) & set(made.items())
    assert_right(run(warm, CHEAP), CHEAP)


def test_without_a_writable_place_kernels_are_compiled_for_the_run(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where the cache folder would be")
    assert_right(run(blocked, CHEAP), CHEAP)
    assert blocked.read_text().startswith("a file")


def test_without_a_home_kernels_are_compiled_or_kept_wherever_the_system_says(tmp_path: Path) -> None:
    assert_right(run(tmp_path, CHEAP, XDG_CACHE_HOME="", HOME="/nonexistent"), CHEAP)


def test_a_folder_that_others_may_write_to_is_not_used(warm: Path) -> None:
    (folder,) = (warm / "poolcli").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    before = entries(warm, "*")
    assert_right(run(warm, "uint64"), "uint64")
    assert entries(warm, "*") == before


def test_another_numba_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from poolcli.engine.compiled import cache

    today = cache.folder()
    monkeypatch.setattr(cache, "version", lambda name: "99.0")
    assert cache.folder() != today
    assert cache.folder().name.startswith("numba-99.0-")


def poolcli(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return subprocess.run(
        [sys.executable, "-m", "poolcli", *arguments], env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
def test_the_command_line_says_when_it_compiles_and_only_then(tmp_path: Path) -> None:
    sample = str(Path(__file__).parents[1] / "samples" / "features.npy")
    arguments = ("avg", sample, "-o", "-", "-k", "2", "--engine", "numba")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    said = [
        subprocess.run([sys.executable, "-m", "poolcli", *arguments], env=environment, capture_output=True).stderr
        for _ in range(2)
    ]
    assert said == [b"poolcli: compiling slide for float32 (first use only)\n", b""]


def info(cache: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(poolcli(cache, "cache", "info", "--json").stdout)
    return found


def test_cache_info_names_the_kernels_and_clear_removes_them(warm: Path, tmp_path: Path) -> None:
    found = info(warm)
    assert found["kernels"] == ["best_at-int64-largest-int64-int64", "mean_wide-int64-int64-int64"]
    assert poolcli(warm, "cache", "clear").stdout.startswith("removed ")
    assert not (warm / "poolcli").exists()
    assert (info(warm)["kernels"], info(warm)["bytes"]) == ([], 0)
    assert not (warm / "poolcli").exists()


@pytest.mark.slow
def test_cache_warm_compiles_what_the_usual_types_need(tmp_path: Path) -> None:
    assert poolcli(tmp_path, "cache", "warm", "-q").returncode == 0
    kernels = info(tmp_path)["kernels"]
    assert isinstance(kernels, list)
    assert {"slide-float32-sum-float64-quotient-float32-float64", "best_at-uint8-largest-uint8-uint8"} <= set(kernels)
