"""What computing needs is got while the input is read: kernels that are kept, and none is built for it."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from poolcli.engine import compiled, prefetched_kernel, run
from poolcli.errors import RequestError
from poolcli.ops import AvgPool, MaxPool

PLAN = AvgPool(2, strides=2).plan((1, 1, 8, 8), "int64")


@pytest.mark.compiles
def test_a_kept_kernel_is_loaded_when_the_input_has_been_read(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(64).reshape(1, 1, 8, 8)
    run(PLAN, x, engine="numba")  # which keeps it
    monkeypatch.setattr(compiled, "_kernels", {})
    with prefetched_kernel(PLAN, False, "numba"):
        pass
    assert len(compiled._kernels) == 1
    monkeypatch.setattr(compiled.kernel_cache, "read", pytest.fail)
    assert run(PLAN, x, engine="numba")[0].ravel().tolist() == [
        4,
        6,
        8,
        10,
        20,
        22,
        24,
        26,
        36,
        38,
        40,
        42,
        52,
        54,
        56,
        58,
    ]


def test_none_is_built_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_kernels", {})
    monkeypatch.setattr(compiled.kernel_cache, "read", lambda variant: None)
    monkeypatch.setattr(compiled, "_compiled", pytest.fail)
    with prefetched_kernel(PLAN, False, "numba"):
        pass
    assert compiled._kernels == {}


def test_what_cannot_be_computed_is_refused_by_whoever_computes_it() -> None:
    with prefetched_kernel(PLAN, True, "numba"):
        pass
    with pytest.raises(RequestError, match=r"^avg has no indices: it does not select elements$"):
        run(PLAN, np.zeros((1, 1, 8, 8), np.int64), indices=True, engine="numba")


def test_no_thread_is_left_where_reading_fails(tmp_path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(FileNotFoundError), prefetched_kernel(MaxPool(2).plan((1, 1, 8, 8)), True, "auto"):
        open(tmp_path / "none").close()
    assert threading.active_count() == before
