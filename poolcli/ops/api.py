"""What the record of every operator can do: plan, and run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

from poolcli.arguments import PerAxis, whole_number
from poolcli.errors import RequestError
from poolcli.nodata import Missing, missing_from
from poolcli.ops.array_interop import as_array
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes
from poolcli.plan.region import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.call import Call
    from poolcli.ops.array_interop import Given

    Array = NDArray[Any]


Record = TypeVar("Record")


class RunOptions(TypedDict, total=False):
    """Keywords of everything that runs: names of axes, result type, numbers that stand for no value, result array,
    engine and threads.
    """

    layout: str | None
    dtype: object
    missing: float | Sequence[float] | None
    out: Array | None
    engine: str
    threads: int | None


class PickingOptions(RunOptions, total=False):
    """Keywords of functions that pick an element of each window, beside `return_indices`."""

    strides: PerAxis | None
    pads_begin: PerAxis
    pads_end: PerAxis
    dilations: PerAxis
    auto_pad: str
    rounding_type: str
    axis: int | None
    index_element_type: str
    like: str


class PickingBinOptions(RunOptions, total=False):
    """The same for adaptive windows."""

    index_element_type: str
    like: str


class Runs:
    """What every record can do."""

    def plan(
        self: Any,
        shape: Sequence[int],
        dtype: object = "float32",
        *,
        layout: str | None = None,
        output_dtype: object = None,
        missing: float | Sequence[float] | None = None,
    ) -> Plan:
        """The Plan for an input of this shape, dtype and layout, in which some numbers may be `missing`; nothing is
        computed.

        Raises RequestError when the attributes do not fit the shape or dtype.

        >>> from poolcli import AvgPool
        >>> AvgPool(kernel=3, strides=2, pads_begin=1, pads_end=1).plan((1, 64, 112, 112)).output_shape
        (1, 64, 56, 56)
        """
        attributes: Attributes = self
        if not isinstance(shape, Iterable):
            raise RequestError(f"shape is {shape!r}, the lengths of all axes are needed, such as (1, 3, 32, 32)")
        return make_plan(attributes, shape, dtype, layout=layout, output_dtype=output_dtype, missing=missing)


class Single(Runs):
    """Gives values alone."""

    def __call__(self, x: Given, **options: Unpack[RunOptions]) -> Array:
        """The pooled `x`; keywords as in the function of the operator."""
        return run(self, x, False, **options)[0]


class Picking(Runs):
    """Gives values, and their indices where they are asked for."""

    @overload
    def __call__(self, x: Given, *, return_indices: Literal[False] = False, **options: Unpack[RunOptions]) -> Array: ...
    @overload
    def __call__(
        self, x: Given, *, return_indices: Literal[True], **options: Unpack[RunOptions]
    ) -> tuple[Array, Array]: ...
    @overload
    def __call__(
        self, x: Given, *, return_indices: bool, **options: Unpack[RunOptions]
    ) -> Array | tuple[Array, Array]: ...

    def __call__(
        self, x: Given, *, return_indices: bool = False, **options: Unpack[RunOptions]
    ) -> Array | tuple[Array, Array]:
        """The pooled `x`, and where its elements were when `return_indices` is true; keywords as in the function."""
        return asked_for(run(self, x, return_indices, **options))


def run(
    op: Any,
    x: Given,
    indices: bool,
    layout: str | None = None,
    dtype: object = None,
    missing: float | Sequence[float] | None = None,
    out: Array | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> tuple[Array, Array | None]:
    """The pooled `x`, and where its elements were where that is asked for; keywords are those of RunOptions."""
    if layout is not None or out is not None or threads is not None:
        _check(layout, out, threads)
    array = as_array(x)
    call = _call(op, array.shape, array.dtype, layout, dtype, engine, missing_from(missing), indices)
    return call(array, out, threads)


def asked_for(found: tuple[Array, Array | None]) -> Array | tuple[Array, Array]:
    """Values alone, or with their indices where they were asked for."""
    values, indices = found
    return values if indices is None else (values, indices)


def made(record: type[Record], *values: Any) -> Record:
    """The record of these values, kept for calls to come: reading them takes longer than pooling hundreds of elements.

    Records are kept by whole numbers and words alone, because other values may equal them and yet be refused.
    """
    if tuple in map(type, values) and not all(map(_is_of_whole_numbers, values)):
        return record(*values)
    try:
        kept: Record = _kept_record(record, *values)  # type: ignore[arg-type]  # values that are no keys are caught
    except TypeError:  # lists, arrays
        return record(*values)
    return kept


def _is_of_whole_numbers(value: object) -> bool:
    return type(value) is not tuple or all(type(number) is int for number in value)


@lru_cache(maxsize=256, typed=True)
def _kept_record(record: Any, *values: Any) -> Any:
    return record(*values)


def _call(op: Any, *words: Any) -> Call:
    """The call that computes an array of a shape and dtype, kept for calls to come: planning takes longer than pooling
    thousands of elements.
    """
    try:
        return _kept_call(op, *words)
    except TypeError:  # a type given as something that is no key, which the plan refuses in its own words
        return _new_call(op, *words)


def _new_call(
    op: Attributes,
    shape: tuple[int, ...],
    dtype: Any,
    layout: Any,
    output_dtype: Any,
    engine: str,
    missing: Missing,
    indices: bool,
) -> Call:
    from poolcli.engine import call_of

    plan = make_plan(op, shape, dtype, layout=layout, output_dtype=output_dtype, missing=missing)
    return call_of(whole(plan), indices=indices, engine=engine)


_kept_call = lru_cache(maxsize=64)(_new_call)


def _check(layout: object, out: object, threads: object) -> None:
    """Refuses keywords of other types than they are read as."""
    if layout is not None and not isinstance(layout, str):
        raise RequestError(f"layout is {layout!r}, a word such as 'NCHW' is needed")
    if out is not None:
        import numpy as np

        if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
            raise RequestError(f"out is a {type(out).__name__}, a numpy array is needed")
    if threads is not None:
        whole_number("threads", threads)
