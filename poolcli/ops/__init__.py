"""The operators: records of attributes, the functions of the same names, and their table."""

from __future__ import annotations

from poolcli.ops import avg, statistics
from poolcli.ops import max as extremes
from poolcli.ops.api import with_name_suggestions
from poolcli.ops.avg import *  # noqa: F403
from poolcli.ops.avg import AdaptiveAvgPool, AreaPool, AvgPool
from poolcli.ops.max import *  # noqa: F403
from poolcli.ops.max import AdaptiveMaxPool, MaxPool, MinPool
from poolcli.ops.statistics import *  # noqa: F403
from poolcli.ops.statistics import LpPool, MedianPool, ModePool, StdPool, SumPool
from poolcli.plan.attributes import OPERATORS as OPERATORS
from poolcli.plan.attributes import Attributes, SlidingAttributes

__all__ = list[str]()
__all__ += avg.__all__
__all__ += extremes.__all__
__all__ += statistics.__all__

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
    _record.__init__ = with_name_suggestions(_record.__init__, _record.__name__)  # type: ignore[method-assign]  # of a dataclass
