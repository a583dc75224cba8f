"""Arrays of other libraries as numpy arrays, zero-copy where possible, and results as their arrays."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from posixpath import basename
from typing import TYPE_CHECKING, Any, TypeAlias

from poolcli.errors import LayoutWarning, PoolError, RequestError, error_text, warn_caller
from poolcli.layouts import layout_of_dimensions
from poolcli.system.lazy_imports import Array, numpy as np
from poolcli.windows import AxisWindows, Cells

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from poolcli.plan import Plan

    Given = ArrayLike  # inputs of the operators
else:
    Given = Any

# A result: an array of the kind of the input, a torch.Tensor, DataArray or dask array, else an ndarray. Any for type
# checkers, which must not need these libraries.
Pooled: TypeAlias = Any
# The ends of the names of types that have a shape and no values: of tracing in PyTorch and JAX, and symbols of Keras.
WITHOUT_VALUES = ("FakeTensor", "Tracer", "KerasTensor", "SymbolicTensor", "ShapeDtypeStruct")

READERS = {".npy": "numpy.load({!r})", ".nc": "xarray.open_dataarray({!r})", ".h5": "h5py.File({!r})['NAME'][:]"}


def as_array(x: Any, name: str = "x") -> Array:
    """The argument as a numpy array, zero-copy where possible; refuses masks, other devices, gradients, lazy arrays."""
    if type(x) is np.ndarray:
        return x
    given = f"{name} is {_describe(x)}"
    if isinstance(x, str | bytes | os.PathLike):
        read = READERS.get(os.path.splitext(path := os.fsdecode(x))[1].lower(), "numpy.asarray(PIL.Image.open({!r}))")
        raise RequestError(f"{given}, not an array; read the file first: {name} = {read.format(path)}")
    if not hasattr(x, "shape") and callable(getattr(x, "keys", None)):  # a Dataset, an HDF5 group, an archive
        raise RequestError(f"{given}; give one of its arrays, as in {name}[{next(iter(x.keys()), 'name')!r}]")
    first = x
    while isinstance(first, tuple | list) and first:
        first = first[0]
    if first is not x and getattr(first, "ndim", _package_of(first) == "PIL"):  # numpy would add axes for the lists
        both = f"numpy.concatenate({name}) along their first axis, or numpy.stack({name}) along a new one"
        raise RequestError(f"{given} of arrays; give one of them, as {name}[0], or {both}")
    if getattr(x, "is_meta", False) is True or type(x).__name__.endswith(WITHOUT_VALUES):
        plan = f"AvgPool(kernel).plan({name}.shape), for example, gives the shape of a result"
        raise RequestError(f"{given} without values; give an array that has them; {plan}")
    if getattr(x, "requires_grad", False) is True:
        raise RequestError(f"{given} that requires a gradient, which is not computed here; give {name}.detach()")
    try:
        array = _convert(x)
    except (PoolError, MemoryError):
        raise
    except Exception as error:  # each library raises its own
        why = error_text(error).rstrip(". ")
        if "inhomogeneous" in why:  # of numpy
            raise RequestError(f"{given} of rows that are not equally long; make them so") from error
        give = "{0}.int_repr() or {0}.dequantize()" if getattr(x, "is_quantized", False) is True else "a numpy array"
        raise RequestError(f"{given} that cannot be converted ({why}); give {give.format(name)}") from error
    if isinstance(array, np.ma.MaskedArray):  # also of variables of netCDF4
        array = _without_mask(array, x, name)
    if array.dtype.kind in "OUST":  # also of containers, such as HDF5 groups, which numpy reads as a list of names
        remedy = "give a numpy array of numbers, such as numpy.array(..., float), with missing=numpy.nan for None"
        remedy = "what should have read it may have failed" if x is None else remedy
        raise RequestError(f"{given}, whose elements are not numbers of one type; {remedy}")
    return np.asarray(array)  # subclasses, such as numpy.matrix, may redefine what follows


def named_layout(x: Any) -> str | None:
    """The layout by the dimension names of a DataArray, a Zarr array or an HDF5 dataset, or that of an image of Pillow;
    None if they are not known.
    """
    names, package = getattr(x, "dims", None), _package_of(x)
    if package == "PIL":
        return "HWC" if len(x.getbands()) > 1 else "HW"
    if package == "zarr":
        names = getattr(x.metadata, "dimension_names", None) or x.attrs.get("_ARRAY_DIMENSIONS")
    elif package == "h5py":
        names = [axis.label or (basename(axis[0].name) if len(axis) else None) for axis in names or ()]
    return layout_of_dimensions(names) if isinstance(names, tuple | list) else None


def warn_of_layout(plan: Plan) -> bool:
    """Warns if an axis of an array without a layout looks like channels, and of an image that is turned."""
    reading, turned = plan.reading, [fact for fact in plan.facts if fact.kind == "turned"]
    for fact in turned:
        warn_caller(str(fact), LayoutWarning)
    if reading.other:
        place = "last" if reading.other[-1] == "C" else "first" if len(reading.other) == 3 else "second"
        known = f"layout={reading.other!r} if the {place} axis holds channels, else layout={reading.layout!r}"
        warn_caller(f"shape {plan.input_shape} was read as {reading.layout}; give {known}", LayoutWarning)
    return bool(turned or reading.other)


def _convert(x: Any) -> Array:
    if str(getattr(x, "dtype", "")) == "torch.bfloat16":  # PyTorch cannot convert it, because numpy has no bfloat16
        from poolcli.dtypes import numpy_dtype

        bits: Array = x.view(sys.modules["torch"].int16).numpy()
        return bits.view(numpy_dtype("bfloat16"))
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        return np.from_dlpack(x)
    return np.asanyarray(x)


def _without_mask(array: Any, x: Any, name: str) -> Array:
    """The data of the masked array `x`, or that `x` was converted to; refused if elements are masked."""
    if array.dtype.names or np.ma.is_masked(array):  # numpy.ma cannot tell of structured arrays
        what, masked = ("a masked array", name) if array is x else (_describe(x), f"numpy.asanyarray({name})")
        remedy = f"give {masked}.filled(value) with missing=value, or {masked}.data for all"
        raise RequestError(f"{name} is {what}, whose mask would be ignored; {remedy}")
    return np.asarray(array.data)


def is_labelled(x: object) -> bool:
    """Whether `x` is an xarray DataArray, without importing xarray."""
    return type(x).__name__ == "DataArray" and _package_of(x) == "xarray"


def is_lazy(x: Any) -> bool:
    """Whether `x` is a dask array, or a DataArray of one."""
    return _package_of(x.data if is_labelled(x) else x) == "dask"


def like_input(x: Any, result: Any, plan: Plan, warns: bool = True) -> Any:
    """The result as the library of the input has it: a tensor of PyTorch, a DataArray, else the array itself."""
    if _package_of(x) == "torch":
        torch: Any = sys.modules["torch"]
        if result.dtype.name == "bfloat16":  # numpy has none of its own
            return torch.from_numpy(result.view("int16")).view(torch.bfloat16)
        return torch.from_numpy(result)
    return _data_array(x, result, plan, warns) if is_labelled(x) else result


def _data_array(x: Any, result: Any, plan: Plan, warns: bool) -> Any:
    """The result like `x`: 1-D coordinates of pooled dimensions become means of windows; warns of others."""
    windows = {x.dims[axis.position]: axis.windows for axis in plan.axes}
    coords = {}
    for name, values in x.coords.items():
        pooled = [dim for dim in values.dims if dim in windows]
        if not pooled:
            coords[name] = values.variable
        elif values.ndim == 1 and values.dtype.kind in "iufMm":
            coords[name] = (values.dims, window_means(values.values, windows[pooled[0]]), values.attrs)
    if warns and (lost := ", ".join(str(name) for name in x.coords if name not in coords)):
        known = "only 1-D numbers and times are averaged; xarray's coarsen averages numbers of more dimensions"
        warn_caller(f"left out: the coordinates {lost}: {known}", UserWarning)
    return type(x)(result, dims=x.dims, coords=coords, attrs=x.attrs).rename(x.name)


def window_means(values: Array, windows: AxisWindows, missing: Sequence[float] = ()) -> Array:
    """The mean of valid coordinates in each window, as float64 or times; of none the first missing value or NaN."""
    with np.errstate(all="ignore"):  # odd numbers in files, such as 1e308
        is_time = values.dtype.kind in "mM"
        nothing: Any = np.array("NaT", values.dtype) if is_time else missing[0] if missing else np.nan
        valid = ~np.isnat(values) if is_time else np.isfinite(values) & ~np.isin(values, missing)
        if not valid.any():
            return np.full(windows.output, nothing)
        begin = values[valid].min() if is_time else 0
        numbers = np.where(valid, (values - begin).astype(np.float64), 0)
        sums, weights = np.zeros(windows.output), np.zeros(windows.output)
        for o in range(windows.output):
            span = windows.span(o)
            read = np.arange(span.start, span.stop, span.step)
            weight: Array = valid[read]
            if isinstance(windows, Cells):
                weight = weight * windows.weight(np.array(o), read)
            sums[o], weights[o] = (numbers[read] * weight).sum(), weight.sum()
        means = np.divide(sums, weights, out=np.zeros_like(sums), where=weights > 0)
        if is_time:
            means = begin + means.round().astype(np.int64).astype((values[valid] - begin).dtype)
        return np.asarray(np.where(weights > 0, means, nothing))


def _package_of(x: Any) -> str:
    return type(x).__module__.partition(".")[0]


def _describe(x: Any) -> str:
    """The type of an argument in words: `a torch Tensor`, `a list`."""
    kind, root = type(x).__name__, _package_of(x)
    words = kind if root in ("builtins", kind.lower()) else f"{root} {kind}"
    return f"{'an' if words[0].lower() in 'aeiox' else 'a'} {words}"
