"""The operators: records of attributes, the functions of the same names, and their table."""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Any

from poolcli.ops.operators import *  # noqa: F403  # every record is public
from poolcli.ops.operators import RECORDS
from poolcli.ops.plan import Plan
from poolcli.ops.records import Picking, Plans, Single, run
from poolcli.ops.signatures import with_answers, with_signature
from poolcli.plan.attributes import OPERATORS as OPERATORS, SlidingAttributes, short_repr

__all__ = [  # noqa: F405  # of operators
    "AdaptiveAvgPool", "AdaptiveMaxPool", "AreaPool", "AvgPool", "LpPool", "MaxPool", "MedianPool", "MinPool",
    "ModePool", "StdPool", "SumPool", "adaptive_avg_pool", "adaptive_max_pool", "area_pool", "avg_pool", "lp_pool",
    "max_pool", "median_pool", "min_pool", "mode_pool", "std_pool", "sum_pool",
]  # fmt: skip
# The modules of the functions, which are imported on first use.
_MODULES = {
    **dict.fromkeys(("avg_pool", "adaptive_avg_pool", "area_pool"), "avg"),
    **dict.fromkeys(("max_pool", "adaptive_max_pool", "min_pool"), "max"),
    **dict.fromkeys(("lp_pool", "median_pool", "mode_pool", "std_pool", "sum_pool"), "statistics"),
}
OPERATORS.update({record.name: record for record in RECORDS})
# Sliding windows, and results of the input's type.
PYRAMID_OPERATORS = tuple(
    r.name for r in RECORDS if issubclass(r, SlidingAttributes) and r.reducer.result in ("element", "number")
)
for _record in RECORDS:
    _record.__repr__ = short_repr  # type: ignore[method-assign]  # of a dataclass
    _record.__init__ = with_signature(_record.__init__, title=_record.__name__)  # type: ignore[method-assign]  # of a dataclass
for _class, _names in ((Plans, ("plan",)), (Plan, ("explain", "picture", "compare", "to", "save_onnx"))):
    for _name in _names:
        setattr(_class, _name, with_answers(getattr(_class, _name)))
_options = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in [*signature(run).parameters.values()][3:]]
for _kind in (Single, Picking):
    *_own, _ = signature(_kind.__call__).parameters.values()
    _kind.__call__ = with_signature(_kind.__call__, Signature([*_own, *_options]), "op")  # type: ignore[method-assign]  # of a class


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"poolcli.ops.{_MODULES[name]}"), name)
