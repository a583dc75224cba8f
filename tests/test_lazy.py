"""Heavy packages are imported in one place, when they are first used, and asked for by the names they have."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from poolcli.errors import FileError, RequestError
from poolcli.formats.files import filesystem
from poolcli.pooling.tiles import Clock
from poolcli.system.lazy_imports import COMPILED, Lazy, loading, need
from tests.processes import HEAVY

PACKAGE = Path(__file__).parents[1] / "poolcli"
# What numba compiles cannot be written without it, nor subclasses of distributed's and zarr's classes; all are imported
# when needed.
SUBJECT = ("engine/compiled/", "runs/cluster.py", "formats/zarr/stores.py")
SOURCES = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}


def imported(tree: ast.AST) -> Iterator[str]:
    """The packages that a module imports anywhere, but for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module).partition(".")[0]
        yield from imported(node)


@pytest.mark.slow
def test_no_heavy_package_is_imported_outside_the_seam() -> None:
    heavy = {name: HEAVY.intersection(imported(ast.parse(text))) for name, text in SOURCES.items()}
    assert {name for name, found in heavy.items() if found and not name.startswith(SUBJECT)} == set()
    assert heavy["engine/compiled/kernels/operations.py"] == {"llvmlite", "numba"}


def test_the_check_of_imports_sees_them_everywhere() -> None:
    text = "import a\nif TYPE_CHECKING:\n    import b\ndef f():\n    from c.d import e\n    try:\n        import g.h\n"
    assert list(imported(ast.parse(text + "    finally: pass"))) == ["a", "c", "g"]


def test_no_text_proposes_to_install_poolcli_from_the_index() -> None:
    proposed = ("poolcli[", "install poolcli")
    assert [name for name, text in SOURCES.items() if any(words in text for words in proposed)] == []


def test_what_is_missing_is_named_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIL.Image", "onnx"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RequestError, match=r"^x\.onnx: a reason: pip install pillow onnx$"):
        need("json", "PIL.Image", "onnx", why="x.onnx: a reason")
    with pytest.raises(FileError, match=r"^a reason: pip install onnx$"):
        need("onnx", "json", "onnx", why="a reason", kind=FileError)


def test_what_a_url_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, url in (("gcsfs", "gs://b/x.zarr"), ("fsspec.core", "memory://b/x.zarr")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(RequestError, match=rf"^{url}: .*install {name.partition('.')[0]}"):
            filesystem(url)


def test_a_module_that_is_lazy_is_imported_by_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Lazy("json.tool")
    monkeypatch.delitem(sys.modules, "json.tool", raising=False)
    assert "json.tool" not in sys.modules
    assert late.main.__name__ == "main"
    assert "json.tool" in sys.modules
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(RequestError, match=r"^this needs h5py: pip install h5py$"):
        _ = Lazy("h5py").File


@pytest.mark.slow
def test_pooling_a_small_array_loads_nothing_that_it_does_not_use(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((1, 1, 4, 4), np.float32))
    script = (
        "import sys; from poolcli.cli import run\n"
        "code = run(['avg', 'x.npy', '-k', '2', '-o', 'y.npy', '-q'])\n"
        "unused = ('hashlib', 'multiprocessing', 'poolcli.explain',"
        " 'poolcli.formats.zarr', 'poolcli.report', 'rich')\n"
        "print(code, [name for name in unused if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "0 []\n"


def test_a_phase_leaves_out_what_loading_took_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))  # each look at a clock is one second later
    monkeypatch.setattr("poolcli.system.lazy_imports.perf_counter", lambda: next(now))
    monkeypatch.setattr("poolcli.pooling.tiles.time.perf_counter", lambda: next(now))
    clock = Clock()
    with clock.phase("read"), loading():
        need("json", why="within another")
    with clock.phase("compute"), loading(COMPILED):
        pass
    assert clock.seconds == {"load": 3.0, "read": 2.0, "compile": 1.0, "compute": 2.0, "write": 0.0}
