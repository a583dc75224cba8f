"""Average, max, adaptive-average and adaptive-max pooling as OpenVINO's operators define them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolcli.errors import FileError, PoolError, RequestError
from poolcli.layouts import convert_layout
from poolcli.ops import (
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

if TYPE_CHECKING:
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


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version

        return version("poolcli")
    raise AttributeError(f"module 'poolcli' has no attribute {name!r}")
