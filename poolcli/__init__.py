"""Average, max, adaptive-average and adaptive-max pooling as OpenVINO's operators define them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from poolcli.core.errors import FileError, PoolError, RequestError
    from poolcli.core.layouts import convert_layout
    from poolcli.ops.functions import (
        AdaptiveAvgPool,
        AdaptiveMaxPool,
        AvgPool,
        MaxPool,
        adaptive_avg_pool,
        adaptive_max_pool,
        avg_pool,
        max_pool,
    )
    from poolcli.plan import Plan

    __version__: str

__all__ = [
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "AvgPool",
    "FileError",
    "MaxPool",
    "Plan",
    "PoolError",
    "RequestError",
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "avg_pool",
    "convert_layout",
    "max_pool",
]

# A command that needs one module must not pay for the others: names are loaded on first use.
_HOMES = {
    "core.errors": ("FileError", "PoolError", "RequestError"),
    "core.layouts": ("convert_layout",),
    "plan.plan": ("Plan",),
    "ops.functions": tuple(name for name in __all__ if name.endswith(("Pool", "_pool"))),
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("poolcli")
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"poolcli.{module}"), name)
    raise AttributeError(f"module 'poolcli' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
