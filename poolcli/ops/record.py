"""What the record of every operator can do: plan, and run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from poolcli.core.errors import RequestError
from poolcli.core.values import PerAxis, whole_number
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class RunOptions(TypedDict, total=False):
    """Keywords of everything that runs: names of axes, result type, result array, engine and threads."""

    layout: str | None
    dtype: object
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
    ) -> Plan:
        """The Plan for an input of this shape, dtype and layout; nothing is computed.

        Raises RequestError when the attributes do not fit the shape or dtype.

        >>> from poolcli import AvgPool
        >>> AvgPool(kernel=3, strides=2, pads_begin=1, pads_end=1).plan((1, 64, 112, 112)).output_shape
        (1, 64, 56, 56)
        """
        attributes: Attributes = self
        return make_plan(attributes, shape, dtype, layout=layout, output_dtype=output_dtype)

    def _run(self, x: Array, indices: bool, options: RunOptions) -> tuple[Array, Array | None]:
        from poolcli.engine import run

        _check(options)
        array = _array(x)
        plan = _planned(self, array.shape, array.dtype, options.get("layout"), options.get("dtype"))
        return run(
            plan,
            array,
            out=options.get("out"),
            indices=indices,
            engine=options.get("engine", "auto"),
            threads=options.get("threads"),
        )


class Single(Runs):
    """Gives values alone."""

    def __call__(self, x: Array, **options: Unpack[RunOptions]) -> Array:
        """The pooled `x`; keywords as in the function of the operator."""
        return self._run(x, False, options)[0]


class Picking(Runs):
    """Gives values, and their indices where they are asked for."""

    @overload
    def __call__(self, x: Array, *, return_indices: Literal[False] = False, **options: Unpack[RunOptions]) -> Array: ...
    @overload
    def __call__(
        self, x: Array, *, return_indices: Literal[True], **options: Unpack[RunOptions]
    ) -> tuple[Array, Array]: ...
    @overload
    def __call__(
        self, x: Array, *, return_indices: bool, **options: Unpack[RunOptions]
    ) -> Array | tuple[Array, Array]: ...

    def __call__(
        self, x: Array, *, return_indices: bool = False, **options: Unpack[RunOptions]
    ) -> Array | tuple[Array, Array]:
        """The pooled `x`, and where its elements were when `return_indices` is true; keywords as in the function."""
        values, indices = self._run(x, return_indices, options)
        return values if indices is None else (values, indices)


def _planned(op: Any, shape: tuple[int, ...], dtype: object, layout: str | None, output_dtype: object) -> Plan:
    """The plan, kept for calls to come: planning takes longer than pooling a few thousand elements."""
    try:
        return _kept_plan(op, shape, dtype, layout, output_dtype)
    except TypeError:  # a type given as something that is no key, which the plan refuses in its own words
        return make_plan(op, shape, dtype, layout=layout, output_dtype=output_dtype)


@lru_cache(maxsize=64)
def _kept_plan(op: Attributes, shape: tuple[int, ...], dtype: object, layout: str | None, output_dtype: object) -> Plan:
    return make_plan(op, shape, dtype, layout=layout, output_dtype=output_dtype)


def _array(x: Any) -> Array:
    """`x` as an array; a masked one is refused, because its mask would be passed over."""
    import numpy as np

    if isinstance(x, np.ma.MaskedArray):
        raise RequestError("x is a masked array, whose mask would be ignored; give x.filled(value), or x.data for all")
    return np.asanyarray(x)


def _check(options: RunOptions) -> None:
    """Refuses keywords of other types than they are read as."""
    import numpy as np

    layout, out, threads = options.get("layout"), options.get("out"), options.get("threads")
    if layout is not None and not isinstance(layout, str):
        raise RequestError(f"layout is {layout!r}, a word such as 'NCHW' is needed")
    if out is not None and (not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray)):
        raise RequestError(f"out is a {type(out).__name__}, a numpy array is needed")
    if threads is not None:
        whole_number("threads", threads)
