"""Pooling of dask arrays: lazy, for any chunks, with the bits that poolcli gives for the whole array.

Each function takes what poolcli's function of that name takes, except `out` and `threads`, and a dask array for `x`; it
gives a dask array, or two where indices are asked for. A block of the result reads those elements of the input that its
windows lie in, and no others: there is no rechunking, and no array of margins. Where every block reads one block of the
input alone (windows that do not overlap, in chunks that they divide), the work is fused with what is before and after.

>>> import dask.array as da
>>> y = avg_pool(da.ones((1, 1, 512, 512), chunks=(1, 1, 128, 128)), 2, strides=2)
>>> y.shape, y.dtype, y.chunksize
((1, 1, 256, 256), dtype('float64'), (1, 1, 64, 64))
>>> float(y.sum().compute())
65536.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import wraps
from inspect import signature
from math import isnan
from typing import Any

from poolcli import ops
from poolcli.coordinates import are_longitudes, means
from poolcli.dask.graph import pooled
from poolcli.errors import RequestError
from poolcli.layouts import layout_of_dimensions
from poolcli.ops.api import unknown_keyword, warn_of_layout
from poolcli.plan import Plan
from poolcli.plan.attributes import Attributes
from poolcli.system.lazy_imports import need

SHORT_LAYOUTS = {1: "W", 2: "HW"}  # of arrays with fewer axes than N, C and one more


def is_labelled(x: object) -> bool:
    """Whether it is a DataArray; xarray itself is not imported for that."""
    return type(x).__name__ == "DataArray" and type(x).__module__.startswith("xarray.")


def layout_of(x: Any, layout: str | None) -> str | None:
    """The layout that is asked for, that of the names of the dimensions, or that of an array with one or two axes."""
    return layout or layout_of_dimensions(x.dims) or SHORT_LAYOUTS.get(x.ndim)


def around(x: Any, result: Any, plan: Plan) -> Any:
    """The result as `x` was: coordinates along pooled dimensions are the means of the windows, others stay.

    What has no mean (words) is left out.
    """
    coordinates = dict(_coordinates(x, plan))
    return type(x)(result, dims=x.dims, coords=coordinates, attrs=x.attrs, name=x.name)


def _coordinates(x: Any, plan: Plan) -> Iterator[tuple[str, Any]]:
    windows = {x.dims[axis.position]: axis.windows for axis in plan.axes}
    for name, values in x.coords.items():
        pooled = [dim for dim in values.dims if dim in windows]
        if not pooled:
            yield name, values.variable
        elif values.dtype.kind in "iufMm":
            along = {values.dims.index(dim): windows[dim] for dim in pooled}
            yield name, (values.dims, means(values.values, along, are_longitudes(values.attrs)), values.attrs)


OWN = ("out", "threads")  # what dask decides


def lazily(record: type[Attributes], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of the same name and keywords for dask arrays; `record` is that of the operator."""
    parameters = signature(function)

    @wraps(function)
    def pool(x: Any, *values: Any, **keywords: Any) -> Any:
        for name in OWN:
            if name in keywords:
                raise RequestError(f"{name} is chosen by dask; leave it out")
        for name, value in keywords.items():
            if name not in parameters.parameters:
                raise TypeError(unknown_keyword(function.__name__, name, value, parameters.parameters))
        given = parameters.bind(x, *values, **keywords)
        given.apply_defaults()
        words = given.arguments
        names = [own.name for own in fields(record)]
        op: Any = record(**{name: words[name] for name in (*names, "pads") if name in words})
        labelled = is_labelled(x)
        data = x.data if labelled else x
        layout = layout_of(x, words["layout"]) if labelled else words["layout"]
        if not labelled or hasattr(data, "dask"):
            _check(data)
        if layout is None:
            warn_of_layout(x.shape)
        missing = {name: words.get(name) for name in ("missing", "min_count")}
        plan = op.plan(x.shape, x.dtype, layout=layout, output_dtype=words["dtype"], **missing)
        if hasattr(data, "dask"):
            found = pooled(plan, data, words.get("return_indices", False), words["engine"], function.__name__)
        else:
            found = function(
                data, **{name: word for name, word in words.items() if name != "x"} | {"layout": plan.layout}
            )
        if not labelled:
            return found
        return tuple(around(x, each, plan) for each in found) if isinstance(found, tuple) else around(x, found, plan)

    pool.__doc__ = (
        f"`poolcli.{function.__name__}` of a dask array, as one. Same keywords, less `out` and `threads`; same bits."
    )
    pool.__module__ = "poolcli.dask"
    return pool


def _check(x: Any) -> None:
    """Refuses what is no dask array of numpy's arrays, and chunks of which nobody knows how long they are."""
    import numpy as np

    (array,) = need("dask.array", why="poolcli.dask needs dask")
    if not isinstance(x, array.Array):
        raise RequestError(f"x is a {type(x).__name__}; a dask array is needed; dask.array.from_array makes one")
    if any(isnan(size) for size in x.shape):
        raise RequestError("x has chunks of unknown lengths; call x.compute_chunk_sizes() first")
    if type(x._meta) is not np.ndarray:
        raise RequestError(f"x has chunks of {type(x._meta).__name__}; x.map_blocks(numpy.asarray) makes them numpy's")


FUNCTIONS = {
    name: lazily(record, getattr(ops, name))
    for name, record in ((f"{name.replace('-', '_')}_pool", record) for name, record in ops.OPERATORS.items())
}
globals().update(FUNCTIONS)
__all__ = [*FUNCTIONS]


def __getattr__(name: str) -> Callable[..., Any]:  # tells type checkers that there are such functions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
