"""Lazy pooling of dask arrays with any chunks; results are bit-identical to those of the whole array.

The functions are those of poolcli, with the same keywords less `out` and `threads`; they take and return dask arrays.
A block of the result reads exactly the elements in its windows, without rechunking. If every block reads a single block
of the input, as for non-overlapping windows that divide the chunks, dask fuses the work with its neighbours.

>>> import dask.array as da
>>> y = avg_pool(da.ones((1, 1, 512, 512), chunks=(1, 1, 128, 128)), 2, strides=2)
>>> y.shape, y.dtype, y.chunksize
((1, 1, 256, 256), dtype('float64'), (1, 1, 64, 64))
>>> float(y.sum().compute())
65536.0
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from poolcli import ops
from poolcli.array_interop import is_labelled, is_lazy
from poolcli.dask_graph import check_dask_array
from poolcli.errors import RequestError

OWN = ("out", "threads")  # keywords that do not apply to dask arrays


def lazily(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of an operator for dask arrays alone."""
    known = signature(function).parameters.keys()

    @wraps(function)
    def pool(x: Any, *values: Any, **keywords: Any) -> Any:
        for name in OWN:
            if name in keywords:
                raise RequestError(f"{name} is chosen by dask; leave it out")
        if not (is_lazy(x) or is_labelled(x)) and keywords.keys() <= known:  # of others the function tells
            check_dask_array(x)
        return function(x, *values, **keywords)

    pool.__doc__ = (
        f"`poolcli.{function.__name__}` of a dask array, as one. Same keywords, less `out` and `threads`; same bits."
    )
    pool.__module__ = "poolcli.dask"
    return pool


FUNCTIONS = {name: lazily(getattr(ops, name)) for name in (f"{op.replace('-', '_')}_pool" for op in ops.OPERATORS)}
globals().update(FUNCTIONS)
__all__ = [*FUNCTIONS]


def __getattr__(name: str) -> Callable[..., Any]:  # lets type checkers accept the names in FUNCTIONS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
