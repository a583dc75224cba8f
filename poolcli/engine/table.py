"""The engines as a table: where each is, and what it cannot do; whatever runs, reports or chooses one asks here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from poolcli.engine.compiled import ability
from poolcli.plan import Plan
from poolcli.plan.attributes import is_known

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from poolcli.plan.region import Region

    Array = NDArray[Any]
    # pool(slab, out, threads) writes the pooled values to `out` and returns positions inside the plane of the slab (-1:
    # none) where they were asked for; None for threads is as many as pay
    Pool = Callable[[Array, Array, int | None], NDArray[np.int64] | None]


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine by its name; `module` holds its `prepare`, `refusal` says why a plan is not for it."""

    name: str
    module: str
    is_threaded: bool
    refusal: Callable[[Plan], str | None]

    def load(self) -> Callable[[Region, bool], Pool]:
        """What makes of a region, and whether positions are wanted, the function that pools it; imported at need."""
        prepare: Callable[[Region, bool], Pool] = import_module(self.module).prepare
        return prepare


# The fields of a reducer that the numpy engine reads; whoever teaches it a new one adds that here.
READ = frozenset(["name", "noun", "result", "better", "nothing", "divides", "power", "signed", "votes", "adds"])


def _refused_by_numpy(plan: Plan) -> str | None:
    return None if is_known(plan.reducer, READ) else f"numpy has no {plan.reducer.noun}"


NUMBA = Engine("numba", "poolcli.engine.compiled.pool", True, ability.refusal)
NUMPY = Engine("numpy", "poolcli.engine.numpy.pool", False, _refused_by_numpy)
ENGINES = {engine.name: engine for engine in (NUMBA, NUMPY)}
