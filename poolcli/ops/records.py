"""What operators share: keywords, records that plan and run, and planned calls that are kept for the next time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeAlias, TypedDict, TypeVar, Unpack, cast

from poolcli import arguments
from poolcli.arguments import DType, Engine, Like, PerAxis
from poolcli.array_interop import Given, Pooled, as_array, is_lazy, like_input, named_layout, warn_of_layout
from poolcli.errors import RequestError, warn_caller
from poolcli.message_fields import brief, field, for_python
from poolcli.ops.plan import Plan
from poolcli.plan import make_plan
from poolcli.plan.attributes import Attributes
from poolcli.plan.plan import whole
from poolcli.suggestions import no_member
from poolcli.system.lazy_imports import Array, numpy as np

if TYPE_CHECKING:
    from poolcli.engine.call import Call

P = ParamSpec("P")
R = TypeVar("R")
PLAN_WORDS = ("layout", "named", "output_dtype", "missing", "min_count")
Picked: TypeAlias = Any  # Pooled, or with `return_indices` a pair of values and indices; Any for type checkers
LONG_AXIS = 2**16  # elements, above which few calls are cached
MAX_PREPARED = 64  # calls of each function


class RunOptions(TypedDict, total=False):
    """Keywords of every function and of every call of a record."""

    layout: str | None
    dtype: DType | None
    missing: float | str | Sequence[float | str] | None
    min_count: int | str | None
    out: Array | None
    engine: Engine
    threads: int | None


class SlidingOptions(RunOptions, total=False):
    strides: PerAxis | None
    pads: PerAxis | None
    pads_begin: PerAxis
    pads_end: PerAxis
    dilations: PerAxis
    auto_pad: arguments.AutoPad
    rounding_type: arguments.RoundingType
    like: Like


class PickingOptions(SlidingOptions, total=False):  # beside `return_indices`
    axis: int | None
    index_element_type: arguments.IndexType


class BinOptions(RunOptions, total=False):
    like: Like


class PickingBinOptions(BinOptions, total=False):
    index_element_type: arguments.IndexType


class Plans:
    """The methods of every record."""

    plan_type: ClassVar[type[Plan]] = Plan
    if not TYPE_CHECKING:
        __getattr__ = no_member

    def plan(
        self: Any,
        shape: Sequence[int],
        dtype: object = "float32",
        *,
        layout: str | None = None,
        output_dtype: object = None,
        missing: float | str | Sequence[float | str] | None = None,
        min_count: int | str | None = None,
    ) -> Plan:
        """Plan the pooling of an input without computing it.

        Parameters
        ----------
        shape : sequence of int
        dtype : str or dtype, default "float32"
        layout : str, optional
            One letter per axis, such as "NHWC"; default N, C and spatial axes.
        output_dtype : str or dtype, optional
            Type of the result; default `dtype`.
        missing : float, str or sequence of them, optional
            Nodata values, excluded from every window.
        min_count : int or str, optional
            Least number of valid elements of a window, or their least share, such as "50%".

        Returns
        -------
        Plan

        Raises
        ------
        RequestError
            If the attributes do not fit the shape or the type.

        Examples
        --------
        >>> from poolcli import AvgPool
        >>> AvgPool(kernel=3, strides=2, pads_begin=1, pads_end=1).plan((1, 64, 112, 112)).output_shape
        (1, 64, 56, 56)
        """
        attributes: Attributes = self
        if not isinstance(shape, Iterable):
            raise RequestError(f"shape is {brief(shape)}; the lengths of all axes are needed, such as (1, 3, 32, 32)")
        words: Any = {"layout": layout, "output_dtype": output_dtype, "missing": missing, "min_count": min_count}
        _check_min_count(missing, min_count)
        return cast("Plan", make_plan(attributes, shape, dtype, **words))


class Single(Plans):
    """A record whose result is an array."""

    def __call__(self, x: Given, **options: Unpack[RunOptions]) -> Pooled:
        """Pool `x`; keywords as in the function of the operator."""
        return run(self, x, False, **options)


class Picking(Plans):
    """A record whose result is an array, or two with `return_indices`."""

    def __call__(self, x: Given, *, return_indices: bool = False, **options: Unpack[RunOptions]) -> Picked:
        """Pool `x`; keywords as in the function of the operator."""
        return run(self, x, return_indices, **options)


def run(
    op: Any,
    x: Given,
    indices: bool,
    layout: str | None = None,
    dtype: DType | None = None,
    missing: float | str | Sequence[float | str] | None = None,
    min_count: int | str | None = None,
    out: Array | None = None,
    engine: Engine = "auto",
    threads: int | None = None,
) -> Any:
    """The pooled `x`, or a pair of it and its `indices`; keywords are those of RunOptions."""
    if out is not None and (not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray)):
        raise RequestError(f"out is a {type(out).__name__}; a numpy array is needed")
    if threads is not None:
        arguments.whole_number("threads", threads)
    if is_lazy(x):
        from poolcli.dask import pool_lazily

        for name, value in (("out", out), ("threads", threads)):
            if value is not None:
                raise RequestError(f"{name} is chosen by dask; leave it out")
        words = {"layout": layout, "dtype": dtype, "missing": missing, "min_count": min_count}
        return _result(*pool_lazily(op, x, indices, engine, **words))
    array = as_array(x)
    if type(x).__module__.startswith("PIL.") and getattr(x, "palette", None) and not op.reducer.votes:
        raise RequestError("x is an image with a palette; give x.convert('RGB'), or numpy.asarray(x) for the indices")
    _latest.array_type = np.ndarray
    named = named_layout(x) if layout is None and array is not x else None
    if missing is None and getattr(x, "attrs", None):
        from poolcli.formats.cf import declared_missing

        missing = declared_missing(x, array.dtype.name)
    _check_min_count(missing, min_count)
    given = layout, named, dtype, arguments.missing_from(missing), arguments.min_count_from(min_count)
    key: tuple[Any, ...] = (op, array.shape, array.dtype, indices, engine, *given)
    is_short = max(array.shape, default=0) <= LONG_AXIS
    try:
        call = (_cached_call if is_short else _cached_long_call)(*key)
    except TypeError:  # a dtype or an engine that cannot be hashed: planning refuses it with a better message
        call = _new_call(*key)
    plan = call.region.plan
    is_silent = not warn_of_layout(plan)
    values, positions = call(array, out, threads)
    if array is x:
        if out is None and is_silent and is_short:
            _latest.call = call if threads is None else partial(call, threads=threads)
        return _result(values, positions)
    _warn_of_result(x, values, plan, missing, positions is not None)
    indexed = None if positions is None else like_input(x, positions, plan, warns=False)
    return _result(like_input(x, values, plan), indexed)


def _warn_of_result(x: Any, values: Array, plan: Any, missing: object, indices: bool) -> None:
    """Warns of NaN from a DataArray, whose own means skip NaN, and of indices that PyTorch does not take."""
    if missing is None and hasattr(x, "coarsen") and values.dtype.kind == "f" and (count := np.isnan(values).sum()):
        known = "missing=numpy.nan leaves NaN out, as coarsen().mean() does, and missing=() keeps it"
        warn_caller(f"{count} of {values.size} results are NaN: {known}", UserWarning)
    if indices and plan.index and plan.unpool_note and type(x).__module__ == "torch":
        warn_caller(for_python(f"indices are the {plan.index.rule}; {plan.unpool_note}"), UserWarning)


def _result(values: Pooled, indices: Pooled | None) -> Picked:
    return values if indices is None else (values, indices)


def prepared(function: Callable[P, R]) -> Callable[P, R]:
    """Makes a function of an operator look up what it did the last time that it was called with the same words, and an
    array of the same shape and type: what leads to a planned call takes 10 us, as long as pooling 10,000 elements.
    """
    calls: dict[Any, Callable[[Array], tuple[Array, Array | None]]] = {}

    @wraps(function)
    def pool(*args: P.args, **keywords: P.kwargs) -> R:
        key: Any = None
        if len(args) > 1 and type(args[0]) is _latest.array_type:
            x: Any = args[0]
            values = *args[1:], *keywords.values()
            key = x.shape, x.dtype, tuple(keywords), values, tuple(map(type, values))
            try:
                call = calls.get(key)
            except TypeError:  # a list, or an array for the output
                call = key = None
            # The type of a value distinguishes it from all that equal it; inside of a tuple types are not compared.
            if call is not None and all(type(n) is int for value in values if type(value) is tuple for n in value):
                return cast("R", _result(*call(x)))
        _latest.call = None
        result = function(*args, **keywords)
        if key is not None and _latest.call is not None:
            if len(calls) >= MAX_PREPARED:
                calls.clear()
            calls[key] = _latest.call
        return result

    return pool


class _Latest(threading.local):
    """The call that the latest function of this thread ran, if it may be kept, and numpy's array once it is known."""

    call: Callable[[Array], tuple[Array, Array | None]] | None = None
    array_type: Any = None


_latest = _Latest()


def pool_with(record: type[Attributes], x: Given, size: PerAxis, indices: bool = False, **options: Any) -> Any:
    """The pooled `x`, or a pair of it and its `indices`; `options` are attributes of the record and RunOptions."""
    own = {name: options.pop(name) for name in [*options] if name in record.__dataclass_fields__}
    return run(cast("Any", record)(size, **own), x, indices, **options)


def _new_call(op: Any, shape: tuple[int, ...], dtype: Any, indices: bool, engine: str, *words: Any) -> Call:
    from poolcli.engine import call_of

    indices = arguments.flag("return_indices", indices)
    plan = make_plan(op, shape, dtype, **dict(zip(PLAN_WORDS, words, strict=True)))
    return call_of(whole(plan), indices=indices, engine=engine)


# Calls are cached, because planning takes longer than pooling thousands of elements. A call with a long axis has tables
# of its windows, up to 32 bytes for each element, so few of those are cached.
_cached_call = lru_cache(maxsize=64)(_new_call)
_cached_long_call = lru_cache(maxsize=4)(_new_call)


def _check_min_count(missing: object, min_count: object) -> None:
    """Refuses `min_count` without `missing`."""
    if min_count is not None and missing is None:
        raise RequestError(f"{field('min_count')} has no effect without {field('missing')}; give both, or neither")
