"""Where no kernel can be built or loaded, for whatever reason, `auto` computes with numpy and says so once, and the
numba engine is refused by one line. Each case is a process of its own with an empty folder of kernels.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import poolcli

pytestmark = pytest.mark.compiles

FAKE = "from pathlib import Path as P\nP('numba').mkdir(); P('numba/__init__.py').write_text({!r}); sys.path[:0] = ['']"
# What breaks numba or llvmlite before poolcli is imported, and what the reason must hold.
BROKEN = {
    "numba is missing": ("sys.modules['numba'] = None", "numba"),
    "llvmlite is missing": ("sys.modules['llvmlite'] = None", "llvmlite"),
    "numba fails in the middle of its import": (FAKE.format("from math import no_such_name"), "no_such_name"),
    "numba is for another numpy": (FAKE.format("raise SystemError('Numba needs NumPy 1.0')"), "Numba needs NumPy 1.0"),
    "numba has lost njit": ("import numba; del numba.njit", "njit"),
    "compiling raises": (
        "import numba.core.dispatcher as d\ndef fail(*_, **__): raise KeyError('lowering')\n"
        "d.Dispatcher.compile = fail", "lowering",
    ),
    "the module cannot be read": (
        "import llvmlite.binding as b\ndef fail(text): raise RuntimeError('LLVM IR parsing error\\nline 2')\n"
        "b.parse_assembly = fail", "LLVM IR parsing error",
    ),
    "a kernel asks for an unknown symbol": (
        "import numba.core.dispatcher as d\nd.Dispatcher.inspect_llvm = lambda *_: "
        "'declare void @strange()\\ndefine void @k() {\\n call void @strange()\\n ret void\\n}'", "strange",
    ),
    "machine code cannot be loaded": (
        "import llvmlite.binding as b\ndef fail(*_): raise RuntimeError('out of pages')\n"
        "b.ExecutionEngine.finalize_object = fail", "out of pages",
    ),
    "machine code lacks its function": (
        "import llvmlite.binding as b; b.ExecutionEngine.get_function_address = lambda *_: 0", "function",
    ),
    "numba is switched off": ("os.environ['NUMBA_DISABLE_JIT'] = '1'", "NUMBA_DISABLE_JIT"),
    "numba is switched off once imported": (
        "import numba; numba.config.DISABLE_JIT = True", "NUMBA_DISABLE_JIT",
    ),
}  # fmt: skip

CALLS = """
import json, os, sys, warnings
{broken}
import numpy as np
import poolcli
x = np.random.default_rng(3).integers(-100, 100, (1, 4, 80, 80))  # whose kernels compile fast
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    means = [poolcli.avg_pool(x, 2, strides=2) for _ in range(2)]
    sums = [int(found.sum()) for found in (*means, *poolcli.max_pool(x, 2, return_indices=True))]
try:
    poolcli.avg_pool(x, 2, engine="numba")
    refusal = None
except poolcli.PoolError as error:
    refusal = str(error)
print(json.dumps({{"sums": sums, "warnings": [str(one.message) for one in caught], "refusal": refusal}}))
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_auto_falls_back_and_says_so_once_and_numba_is_refused(name: str, tmp_path: Path) -> None:
    broken, reason = BROKEN[name]
    done = run(tmp_path, "-c", CALLS.format(broken=broken))
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    x = np.random.default_rng(3).integers(-100, 100, (1, 4, 80, 80))
    means = [poolcli.avg_pool(x, 2, strides=2, engine="numpy")] * 2
    maxima = poolcli.max_pool(x, 2, return_indices=True, engine="numpy")
    assert found["sums"] == [int(each.sum()) for each in (*means, *maxima)]
    assert len(found["warnings"]) == 1
    assert found["warnings"][0].startswith("poolcli computes with numpy: ")
    assert reason in found["warnings"][0]
    assert reason in found["refusal"]
    assert found["refusal"].endswith("; use engine numpy or auto")
    assert "\n" not in found["refusal"]


@pytest.mark.slow
def test_a_processor_that_does_not_convert_float16_computes_it_by_numpy(tmp_path: Path) -> None:
    old = "import os\nos.environ.update(NUMBA_CPU_NAME='x86-64', NUMBA_CPU_FEATURES='')\n"
    x = "import numpy as np, poolcli\nx = np.arange(65536.0).reshape(1, 4, 128, 128) / 7\n"
    calls = "for kind in ('f4', 'f2'): print(poolcli.avg_pool(x.astype(kind), 2, strides=2, engine='numba').sum())"
    done = run(tmp_path, "-c", old + x + calls.replace("numba", "auto"))
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2), done.stderr
    assert "this processor does not convert float16" in done.stderr
    assert done.stderr.count("poolcli computes with numpy") == 1


COMMAND = "import os, sys\n{broken}\nfrom poolcli.__main__ import main\nmain()"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["numba is missing", "llvmlite is missing", "compiling raises"])
def test_a_command_notes_that_numpy_computed(name: str, tmp_path: Path) -> None:
    broken, reason = BROKEN[name]
    np.save(tmp_path / "x.npy", np.ones((1, 4, 800, 800), np.float32))
    words = ("avg", "x.npy", "-o", "y.npy", "-k", "2", "-s", "2", "--json")
    done = run(tmp_path, "-c", COMMAND.format(broken=broken), *words)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    report = json.loads(done.stdout)
    (note,) = (note for note in report["notes"] if note.startswith("computed by numpy: "))
    assert reason in note
    assert (report["engine"], report["threads"]) == ("numpy", 1)
    assert np.array_equal(np.load(tmp_path / "y.npy"), np.ones((1, 4, 400, 400), np.float32))
    refused = run(tmp_path, "-c", COMMAND.format(broken=broken), *words, "--engine", "numba", "--overwrite")
    assert refused.returncode in (1, 2)
    assert reason in refused.stdout + refused.stderr


def notes_of_numpy(folder: Path, *words: str) -> list[str]:
    """The notes of a command in whose processes numba is switched off, that numpy computed."""
    command = "import os; os.environ['NUMBA_DISABLE_JIT'] = '1'; from poolcli.__main__ import main; main()"
    done = run(folder, "-c", command, *words)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    return [line for line in (done.stdout + done.stderr).splitlines() if "computed by numpy" in line]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "cluster"),
    [(("pyramid", "--levels", "3"), ("--cluster", "local:2")), (("avg", "-k", "2", "-s", "2"), ())],
)
def test_the_reason_is_said_once_for_an_array_wherever_it_is_computed(
    words: tuple[str, ...], cluster: tuple[str, ...], tmp_path: Path
) -> None:
    import zarr

    made = zarr.create_array(tmp_path / "x.zarr", shape=(1, 4, 2000, 2000), chunks=(1, 1, 500, 500), dtype="uint8")
    made[:] = 1
    command, *more = words
    said = notes_of_numpy(tmp_path, command, "x.zarr", "-o", "y.ome.zarr", "--layout", "NCHW", *more, *cluster)
    assert [line.split(maxsplit=1) for line in said] == [
        ["note", "computed by numpy: NUMBA_DISABLE_JIT switches numba off"]
    ]


@pytest.mark.slow
def test_the_reason_is_said_once_for_many_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for i in range(3):
        np.save(tmp_path / "in" / f"{i}.npy", np.ones((1, 4, 800, 800), np.float32))
    (said,) = notes_of_numpy(tmp_path, "avg", "in", "-o", "out", "-k", "2", "-s", "2")
    assert said.endswith("computed by numpy: NUMBA_DISABLE_JIT switches numba off (3 of 3 files)")
