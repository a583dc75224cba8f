"""Other numba code in the process changes nothing of what is compiled here, nor the reverse: each case is a process of
its own with an empty folder of kernels, in which code of a user's runs before, between and after calls of poolcli.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.profiles import sized

pytestmark = pytest.mark.compiles

# What a user may compile or do. Each defines check(), which asserts that the user's own code gives what it should.
USER = {
    "min and max": """
@numba.njit
def f(a, b): return min(a, b), max(a, b), min(a, b, 2.5)
def check(): assert f(1.5, 2) == (1.5, 2, 1.5) and f(4, 3) == (3, 4, 2.5)
""",
    "overload": """
def least(a, b): raise NotImplementedError
@overload(least)
def _least(a, b): return lambda a, b: a if a < b else b
@numba.njit
def f(a, b): return least(a, b) + abs(a) + max(a, b)
def check(): assert f(-2.0, 3.0) == 3.0
""",
    "overloaded builtins": """
class Point:
    pass
@overload(max)
def _max(a, b):
    if isinstance(a, types.UnicodeType): return lambda a, b: a if len(a) > len(b) else b
@numba.njit
def f(a, b): return max(a, b)
def check(): assert f("abc", "z") == "abc" and f(3, 4) == 4
""",
    "parallel": """
@numba.njit(parallel=True)
def f(x):
    total = 0.0
    for i in numba.prange(x.size): total += x[i]
    return total
def check(): assert f(np.ones(1000)) == 1000
""",
    "jitclass": """
@numba.experimental.jitclass([("total", types.float32)])
class Counter:
    def __init__(self): self.total = np.float32(0)
    def add(self, x): self.total = min(self.total + x, np.float32(9))
def check():
    c = Counter(); c.add(np.float32(4)); c.add(np.float32(8)); assert c.total == 9
""",
    "vectorize": """
@numba.vectorize(["float32(float32, float32)", "int64(int64, int64)"])
def f(a, b): return a if a > b else b
def check(): assert f(np.float32([1, 5]), np.float32([3, 2])).tolist() == [3, 5]
""",
    "guvectorize": """
@numba.guvectorize(["void(float32[:], float32[:])"], "(n)->()")
def f(x, out):
    out[0] = x[0]
    for v in x: out[0] = max(out[0], v)
def check(): assert f(np.float32([[1, 5], [7, 2]])).tolist() == [5, 7]
""",
    "fastmath and inline": """
@numba.njit(inline="always", fastmath=True)
def g(a): return np.sqrt(a) + 0.0
@numba.njit(fastmath=True, error_model="python", boundscheck=True)
def f(x): return g(x[1]) / x[0]
def check():
    assert f(np.array([2.0, 16.0])) == 2
    try: f(np.array([0.0, 1.0]))
    except ZeroDivisionError: pass
    else: raise AssertionError
""",
}
WHEN = ("before", "between", "after", "around", "in threads", "in a fork", "beside torch")

CODE = """
import os, sys, threading
{torch}
import numba, numba.experimental
import numpy as np
from numba import types
from numba.extending import overload
import poolcli
x = np.random.default_rng(3).standard_normal((1, 4, 90, 90), np.float32)
x[0, 0, 5, 5], x[0, 1, 7, 7] = np.nan, -0.0
{user}
CALLS = [
    (poolcli.adaptive_max_pool, dict(output_size=45)), (poolcli.adaptive_avg_pool, dict(output_size=45)),
    (poolcli.min_pool, dict(kernel=5)), (poolcli.adaptive_max_pool, dict(output_size=45, return_indices=True)),
]
def pool(calls):
    for function, words in calls:
        found, other = (function(x, engine=engine, **words) for engine in ("numba", "numpy"))
        for one, two in zip(*((a if isinstance(a, tuple) else (a,)) for a in (found, other))):
            assert np.allclose(one, two, rtol=1e-6, equal_nan=True), function
"""
STEPS = {
    "before": "check()\npool(CALLS[:2])",
    "between": "pool(CALLS[:1])\ncheck()\npool(CALLS[1:3])",
    "after": "pool(CALLS[2:])\ncheck()",
    "around": "check()\npool(CALLS[:1])\ncheck()\npool(CALLS[3:])\ncheck()",
    "in threads": """
errors = []
def work(i):
    try:
        check() if i % 4 == 0 else pool(CALLS[i % 4 - 1:][:1])
    except BaseException as error:
        errors.append(repr(error))
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert not errors, errors
""",
    "in a fork": """
pool(CALLS[:1])
child = os.fork()
if child == 0:
    try:
        check() if "parallel" not in {name!r} else None
        pool(CALLS[1:2])
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
check()
""",
    "beside torch": "torch.ones(1, 1, 8, 8).max()\npool(CALLS[:1])\ncheck()\npool(CALLS[1:2])",
}
CASES = [
    (name, when)
    for number, name in enumerate(USER)
    for place, when in enumerate(WHEN)
    if sized(number % 2 == 0 and number % len(WHEN) == place, True)  # half at one of the times; with --full all at all
]


@pytest.mark.parametrize(("name", "when"), CASES)
def test_code_of_users_and_kernels_leave_each_other_alone(name: str, when: str, tmp_path: Path) -> None:
    torch = "import torch" if when == "beside torch" else ""
    assert_runs(CODE.format(user=USER[name], torch=torch) + STEPS[when].format(name=name), tmp_path)


def assert_runs(code: str, folder: Path, warnings: str = "error::RuntimeWarning", **more: str) -> None:
    """The code ends well and silently in a fresh process, with an empty folder of kernels."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder), "PYTHONWARNINGS": warnings, **more}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )
    assert (done.returncode, done.stderr[-2000:]) == (0, "")


def test_variables_with_which_users_debug_their_own_code_change_nothing(tmp_path: Path) -> None:
    names = ("DEBUGINFO", "ENABLE_PROFILING", "BOUNDSCHECK", "ALWAYS_WARN_UNINIT_VAR", "FULL_TRACEBACKS")
    variables = {f"NUMBA_{name}": "1" for name in names}
    code = CODE.format(user="", torch="") + "pool(CALLS[1:2])"
    assert_runs(code, tmp_path, "error", NUMBA_OPT="0", **variables)


# Single free pages, and 8 GiB that nothing else may use: LLVM places constants and code further apart than 2 GiB.
FAR_APART = """
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
pages = [mmap(-1, 4096) for _ in range(20_000)]
between = mmap(-1, 2**33, flags=MAP_PRIVATE | MAP_ANONYMOUS | 0x4000, prot=0)  # 0x4000: MAP_NORESERVE
for page in pages[::2]: page.close()
pool(CALLS[1:2] + CALLS[3:])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="how Linux places what is mapped")
def test_kernels_are_loaded_where_free_memory_lies_far_apart(tmp_path: Path) -> None:
    assert_runs(CODE.format(user="", torch="") + FAR_APART, tmp_path)
