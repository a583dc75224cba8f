"""The operators: records of attributes, the functions of the same names, and their table."""

from __future__ import annotations

from poolcli.ops.avg import AdaptiveAvgPool, AreaPool, AvgPool, adaptive_avg_pool, area_pool, avg_pool
from poolcli.ops.max import AdaptiveMaxPool, MaxPool, MinPool, adaptive_max_pool, max_pool, min_pool
from poolcli.ops.signatures import with_name_suggestions
from poolcli.ops.statistics import (
    LpPool,
    MedianPool,
    ModePool,
    StdPool,
    SumPool,
    lp_pool,
    median_pool,
    mode_pool,
    std_pool,
    sum_pool,
)
from poolcli.plan.attributes import OPERATORS as OPERATORS
from poolcli.plan.attributes import Attributes, SlidingAttributes, short_repr

__all__ = [
    "AdaptiveAvgPool", "AdaptiveMaxPool", "AreaPool", "AvgPool", "LpPool", "MaxPool", "MedianPool", "MinPool",
    "ModePool", "StdPool", "SumPool", "adaptive_avg_pool", "adaptive_max_pool", "area_pool", "avg_pool", "lp_pool",
    "max_pool", "median_pool", "min_pool", "mode_pool", "std_pool", "sum_pool",
]  # fmt: skip
# In the order of the commands.
RECORDS: tuple[type[Attributes], ...] = (
    AvgPool, MaxPool, MinPool, ModePool, MedianPool, SumPool, StdPool, LpPool,
    AdaptiveAvgPool, AdaptiveMaxPool, AreaPool,
)  # fmt: skip
OPERATORS.update({record.name: record for record in RECORDS})
# Sliding windows, and results of the input's type.
PYRAMID_OPERATORS = tuple(
    r.name for r in RECORDS if issubclass(r, SlidingAttributes) and r.reducer.result in ("element", "number")
)
for _record in RECORDS:
    _record.__repr__ = short_repr  # type: ignore[method-assign]  # of a dataclass
    _record.__init__ = with_name_suggestions(_record.__init__, _record.__name__)  # type: ignore[method-assign]  # of a dataclass
