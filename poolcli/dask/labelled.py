"""Arrays of xarray: what is in them is pooled; dimensions, attributes and coordinates go around the result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from poolcli.plan import Plan
from poolcli.windows import AxisWindows

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHORT_LAYOUTS = {1: "W", 2: "HW"}  # of arrays with fewer axes than N, C and one more


def is_labelled(x: object) -> bool:
    """Whether it is a DataArray; xarray itself is not imported for that."""
    return type(x).__name__ == "DataArray" and type(x).__module__.startswith("xarray.")


def layout_of(x: Any, layout: str | None) -> str | None:
    """The layout that is asked for, or that of an array with one or two axes."""
    return layout or SHORT_LAYOUTS.get(x.ndim)


def around(x: Any, result: Any, plan: Plan) -> Any:
    """The result as `x` was: coordinates along pooled dimensions are the means of the windows, others stay.

    What has no mean (words) or runs along several pooled dimensions is left out.
    """
    coordinates = dict(_coordinates(x, plan))
    return type(x)(result, dims=x.dims, coords=coordinates, attrs=x.attrs, name=x.name)


def _coordinates(x: Any, plan: Plan) -> Iterator[tuple[str, Any]]:
    windows = {x.dims[axis.position]: axis.windows for axis in plan.axes}
    for name, values in x.coords.items():
        pooled = [dim for dim in values.dims if dim in windows]
        if not pooled:
            yield name, values.variable
        elif values.ndim == 1 and values.dtype.kind in "iufMm":
            yield name, (values.dims, _means(values.values, windows[pooled[0]]), values.attrs)


def _means(values: NDArray[Any], windows: AxisWindows) -> NDArray[Any]:
    """The mean of the values in each window; nan (of times NaT) for a window of nothing."""
    import numpy as np

    exact = values.astype(np.int64) if values.dtype.kind in "Mm" else values.astype(np.float64)
    nothing = np.iinfo(np.int64).min if values.dtype.kind in "Mm" else np.nan
    spans = (windows.span(o) for o in range(windows.output))
    means = [exact[span.start : span.stop : span.step].mean() if span else nothing for span in spans]
    found = np.array(means)
    return found.round().astype(np.int64).view(values.dtype) if values.dtype.kind in "Mm" else found
