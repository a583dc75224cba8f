"""The engines as a table: where each is, and what it cannot do; whatever runs, reports or chooses one asks here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from poolcli.engine.compiled import ability
from poolcli.plan import Plan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pool = Callable[..., NDArray[np.int64] | None]  # pool(region, slab, out, *, indices, threads)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine by its name; `module` holds its `pool`, `refusal` says why a plan is not for it."""

    name: str
    module: str
    is_threaded: bool
    refusal: Callable[[Plan], str | None]

    def load(self) -> Pool:
        """Its function that pools, imported at need."""
        pool: Pool = import_module(self.module).pool
        return pool


NUMBA = Engine("numba", "poolcli.engine.compiled.pool", True, ability.refusal)
NUMPY = Engine("numpy", "poolcli.engine.numpy.pool", False, lambda plan: None)
ENGINES = {engine.name: engine for engine in (NUMBA, NUMPY)}
