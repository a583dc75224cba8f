"""Compiled kernels between runs: right numbers whatever happens to the place where they are kept."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from poolcli.engine import compiled as compiled_engine
from poolcli.engine.compiled.choice import Kernel
from tests.conftest import Cli
from tests.profiles import sized

CHEAP = "int64"  # its three kernels compile fast

# Takes maxima, and means unless it is told not to, of an array of each named type with numba, and prints them.
CODE = """
import sys, json, numpy as np, poolcli
results = []
for dtype, _, alone in (words.partition(":") for words in sys.argv[1:]):
    x = np.arange(1, 17).astype(dtype).reshape(1, 1, 4, 4)
    values, at = poolcli.adaptive_max_pool(x, 2, return_indices=True, engine="numba")
    results.append(values.ravel().tolist() + at.ravel().tolist())
    if not alone:
        results.append(poolcli.adaptive_avg_pool(x, 2, engine="numba").ravel().tolist())
print(json.dumps(results))
print("numba" in sys.modules, file=sys.stderr)
"""
MAXIMA = f"{CHEAP}:maxima alone"  # without those of means
BUILT, LOADED = "True\n", "False\n"  # whether numba was needed


def expected(dtype: str) -> list[list[float]]:
    means: list[float] = [3.5, 5.5, 11.5, 13.5] if "float" in dtype else [4, 6, 12, 14]
    maxima = [6.0, 8, 14, 16, 5, 7, 13, 15]
    return [maxima] if ":" in dtype else [maxima, means]


def run(cache: Path, *dtypes: str, before: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("HOME", "XDG_CACHE_HOME")}
    places = {"XDG_CACHE_HOME": str(cache), "HOME": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", CODE, *dtypes],
        env=kept | places, capture_output=True, text=True, timeout=300, preexec_fn=before,
    )  # fmt: skip


def assert_right(done: subprocess.CompletedProcess[str], *dtypes: str, said: str = BUILT) -> None:
    assert done.stderr == said
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


@pytest.mark.compiles
def test_a_kernel_is_built_once_and_then_loaded_without_numba(warm: Path) -> None:
    first = {path: path.stat().st_mtime_ns for path in entries(warm, "*.kernel")}
    assert len(first) == 3
    assert_right(run(warm, CHEAP), CHEAP, said=LOADED)
    assert {path: path.stat().st_mtime_ns for path in entries(warm, "*") if path.is_file()} == first


@pytest.mark.slow
def test_many_cold_processes_at_once_with_mixed_types_all_get_their_own_kernel(tmp_path: Path) -> None:
    types = sized([MAXIMA, "float32:maxima alone"], ["float32", "float64", "uint8", "int16"])
    count, many = sized(2, 16), len(types)
    with ThreadPoolExecutor(count) as pool:
        runs = [pool.submit(run, tmp_path, types[i % many], types[(i + 1) % many]) for i in range(count)]
    for i, done in enumerate(runs):
        both = types[i % many], types[(i + 1) % many]
        assert_right(done.result(), *both, said=done.result().stderr)
    assert entries(tmp_path, "*.part") == []


@pytest.mark.slow
def test_flipped_machine_code_is_never_run_and_built_anew(warm: Path) -> None:
    for path in entries(warm, "*.kernel"):
        text = bytearray(path.read_bytes())
        text[len(text) // 2] ^= 1
        path.write_bytes(text)
    assert_right(run(warm, CHEAP), CHEAP)
    assert_right(run(warm, CHEAP), CHEAP, said=LOADED)


@pytest.mark.slow
def test_on_a_full_disk_kernels_are_built_for_the_run(tmp_path: Path) -> None:
    full = run(tmp_path, MAXIMA, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
    assert_right(full, MAXIMA)
    assert [path for path in entries(tmp_path, "*") if path.is_file()] == []


@pytest.mark.slow
def test_without_a_writable_place_kernels_are_compiled_for_the_run(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where the cache folder would be")
    assert_right(run(blocked, MAXIMA), MAXIMA)
    assert blocked.read_text().startswith("a file")


def poolcli(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return subprocess.run(
        [sys.executable, "-m", "poolcli", *arguments], env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
def test_the_command_line_says_when_it_compiles_and_only_then(tmp_path: Path) -> None:
    sample = str(Path(__file__).parents[1] / "samples" / "features.npy")
    outputs = ("-o", str(tmp_path / "y.npy"), "--indices", str(tmp_path / "w.npy"), "--overwrite")
    arguments = ("max", sample, "-k", "5", "-s", "3", "--engine", "numba", "--layout", "NCHW", *outputs)
    said = [poolcli(tmp_path, *arguments).stderr for _ in range(2)]
    assert said == ["poolcli: compiling kernels for float32 (first run only)\n", ""]


def info(cache: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(poolcli(cache, "cache", "info", "--json").stdout)
    return found


@pytest.mark.compiles
def test_cache_info_names_the_kernels_and_clear_removes_them(warm: Path, tmp_path: Path) -> None:
    found = info(warm)
    assert found["kernels"] == [
        "bins-0-True-False-0-int64-max-int64-int64",
        "bins-0-True-False-0-int64-sum-int64-half_even_int64-int64",
        "search-0-0-0-int64-max-int64-int64",
    ]
    assert poolcli(warm, "cache", "clear").stdout.startswith("removed ")
    assert not (warm / "poolcli").exists()
    assert (info(warm)["kernels"], info(warm)["bytes"]) == ([], 0)
    assert not (warm / "poolcli").exists()


# How many kernels are named so: of averages and of maxima, or of maxima with indices alone.
USUAL = {
    (kernel, dtype): kinds
    for kernel, kinds in {"long.long": 2, "bins.bins": 2, "search.search": 1}.items()
    for dtype in ("uint8", "uint16", "float32", "float64")
}
KEPT = "search-0-0-0-uint8-max-uint8-uint8"


@pytest.mark.compiles
@pytest.mark.usefixtures("own_kernel_cache")
def test_cache_warm_compiles_what_the_usual_types_need(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel is built; of the others it is only noted that they are asked for."""
    asked = dict[str, tuple[str, str]]()

    def noting(kernel: Kernel) -> Callable[..., int]:
        asked[kernel.name] = kernel.maker, kernel.dtype
        return compiled_engine.load(kernel) if kernel.name == KEPT else lambda *_: 0

    monkeypatch.setattr("poolcli.engine.compiled.pool.load", noting)
    monkeypatch.setattr(compiled_engine, "_kernels", {})
    found = cli("cache", "warm", "--json")
    assert (found.code, found.json["kernels"]) == (0, [KEPT])
    assert Counter(asked.values()) == USUAL
