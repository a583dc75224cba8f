"""The four operators: records of attributes that plan and run, and the functions of the same names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from poolcli.core.values import PerAxis
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import (
    AdaptiveAvgAttributes,
    AdaptiveMaxAttributes,
    Attributes,
    AvgAttributes,
    MaxAttributes,
)

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


class MaxPoolOptions(RunOptions, total=False):
    """Keywords of `max_pool` beside `return_indices`."""

    strides: PerAxis | None
    pads_begin: PerAxis
    pads_end: PerAxis
    dilations: PerAxis
    auto_pad: str
    rounding_type: str
    axis: int | None
    index_element_type: str
    like: str


class AdaptiveMaxPoolOptions(RunOptions, total=False):
    """Keywords of `adaptive_max_pool` beside `return_indices`."""

    index_element_type: str
    like: str


class _Operator:
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

        >>> AvgPool(kernel=3, strides=2, pads_begin=1, pads_end=1).plan((1, 64, 112, 112)).output_shape
        (1, 64, 56, 56)
        """
        attributes: Attributes = self
        return make_plan(attributes, shape, dtype, layout=layout, output_dtype=output_dtype)

    def _run(self, x: Array, indices: bool, options: RunOptions) -> tuple[Array, Array | None]:
        import numpy as np

        from poolcli.engine import run

        array = np.asanyarray(x)
        plan = self.plan(array.shape, array.dtype, layout=options.get("layout"), output_dtype=options.get("dtype"))
        return run(
            plan,
            array,
            out=options.get("out"),
            indices=indices,
            engine=options.get("engine", "auto"),
            threads=options.get("threads"),
        )


class _AvgOperator(_Operator):
    def __call__(self, x: Array, **options: Unpack[RunOptions]) -> Array:
        """The averages of `x`; keywords as in `avg_pool`."""
        return self._run(x, False, options)[0]


class _MaxOperator(_Operator):
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
        """The maxima of `x`, and where they are when `return_indices` is true; keywords as in `max_pool`."""
        values, indices = self._run(x, return_indices, options)
        return values if indices is None else (values, indices)


@dataclass(frozen=True)
class AvgPool(AvgAttributes, _AvgOperator):
    """Average pooling: OpenVINO AvgPool-1, -14, -16 and nGraph AvgPool, with PyTorch's divisor_override."""


@dataclass(frozen=True)
class MaxPool(MaxAttributes, _MaxOperator):
    """Max pooling: OpenVINO MaxPool-8, -14."""


@dataclass(frozen=True)
class AdaptiveAvgPool(AdaptiveAvgAttributes, _AvgOperator):
    """Adaptive average pooling: OpenVINO AdaptiveAvgPool-8."""


@dataclass(frozen=True)
class AdaptiveMaxPool(AdaptiveMaxAttributes, _MaxOperator):
    """Adaptive max pooling: OpenVINO AdaptiveMaxPool-8."""


OPS = {record.name: record for record in (AvgPool, MaxPool, AdaptiveAvgPool, AdaptiveMaxPool)}


def avg_pool(
    x: Array,
    kernel: PerAxis,
    *,
    strides: PerAxis | None = None,
    pads_begin: PerAxis = 0,
    pads_end: PerAxis = 0,
    dilations: PerAxis = 1,
    auto_pad: str = "explicit",
    rounding_type: str = "floor",
    exclude_pad: bool | None = None,
    divisor_override: int | None = None,
    like: str = "openvino",
    layout: str | None = None,
    dtype: object = None,
    out: Array | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> Array:
    """The average of every window of `x`, in the input's dtype unless `dtype` names another.

    `x` is [N, C, spatial...] or as `layout` says, of any integer, float or (with `dtype`) bool type.
    Numbers are per spatial axis in the order D, H, W; one integer serves all. None is the dialect's
    default. Integers are averaged exactly and rounded half to even; a window without any input element
    gives nan (0 when padding is counted). `out` receives the result and must have its shape and dtype.
    Raises RequestError for attributes that do not fit. Rule: OpenVINO AvgPool-1, -14, -16.

    >>> import numpy as np
    >>> x = np.arange(1, 5, dtype="float32").reshape(1, 1, 4)
    >>> avg_pool(x, 3, strides=2, pads_begin=1, pads_end=1, rounding_type="ceil", exclude_pad=False)
    array([[[1.       , 3.       , 1.3333334]]], dtype=float32)
    """
    op = AvgPool(
        kernel, strides, pads_begin, pads_end, dilations, auto_pad, rounding_type, like, exclude_pad, divisor_override
    )
    return op(x, layout=layout, dtype=dtype, out=out, engine=engine, threads=threads)


@overload
def max_pool(
    x: Array, kernel: PerAxis, *, return_indices: Literal[False] = False, **options: Unpack[MaxPoolOptions]
) -> Array: ...
@overload
def max_pool(
    x: Array, kernel: PerAxis, *, return_indices: Literal[True], **options: Unpack[MaxPoolOptions]
) -> tuple[Array, Array]: ...
@overload
def max_pool(
    x: Array, kernel: PerAxis, *, return_indices: bool, **options: Unpack[MaxPoolOptions]
) -> Array | tuple[Array, Array]: ...


def max_pool(
    x: Array,
    kernel: PerAxis,
    *,
    strides: PerAxis | None = None,
    pads_begin: PerAxis = 0,
    pads_end: PerAxis = 0,
    dilations: PerAxis = 1,
    auto_pad: str = "explicit",
    rounding_type: str = "floor",
    axis: int | None = None,
    index_element_type: str = "i64",
    return_indices: bool = False,
    like: str = "openvino",
    layout: str | None = None,
    dtype: object = None,
    out: Array | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """The maximum of every window of `x`, and with `return_indices` where it is (int64, or int32 for `i32`).

    The first maximum in row-major order wins, NaN wins over every number, -inf is kept; a window without
    any input element gives -inf (the lowest value of an integer type) and index -1. Indices count from
    `axis` on: 0 (the default of OpenVINO and ONNX) over the whole tensor, 2 (PyTorch) inside one plane.
    Raises RequestError for attributes that do not fit. Rule: OpenVINO MaxPool-8, -14.

    >>> import numpy as np
    >>> x = np.array([[[[1, 5, 2, 7]]]], dtype="uint8")
    >>> max_pool(x, (1, 2), strides=2, return_indices=True)
    (array([[[[5, 7]]]], dtype=uint8), array([[[[1, 3]]]]))
    """
    op = MaxPool(
        kernel, strides, pads_begin, pads_end, dilations, auto_pad, rounding_type, like, axis, index_element_type
    )
    return op(x, return_indices=return_indices, layout=layout, dtype=dtype, out=out, engine=engine, threads=threads)


def adaptive_avg_pool(
    x: Array,
    output_size: PerAxis,
    *,
    like: str = "openvino",
    layout: str | None = None,
    dtype: object = None,
    out: Array | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> Array:
    """The average of `output_size` bins for each spatial axis of `x`; sizes may exceed the input's.

    Bin i of an axis of length n is [i*n // out, ceil((i+1)*n / out)), in integers. Types and rounding as
    in `avg_pool`. Raises RequestError for sizes that do not fit. Rule: OpenVINO AdaptiveAvgPool-8.

    >>> import numpy as np
    >>> adaptive_avg_pool(np.arange(1, 6, dtype="float32").reshape(1, 1, 5), 2)
    array([[[2., 4.]]], dtype=float32)
    """
    return AdaptiveAvgPool(output_size, like)(x, layout=layout, dtype=dtype, out=out, engine=engine, threads=threads)


@overload
def adaptive_max_pool(
    x: Array, output_size: PerAxis, *, return_indices: Literal[False] = False, **options: Unpack[AdaptiveMaxPoolOptions]
) -> Array: ...
@overload
def adaptive_max_pool(
    x: Array, output_size: PerAxis, *, return_indices: Literal[True], **options: Unpack[AdaptiveMaxPoolOptions]
) -> tuple[Array, Array]: ...
@overload
def adaptive_max_pool(
    x: Array, output_size: PerAxis, *, return_indices: bool, **options: Unpack[AdaptiveMaxPoolOptions]
) -> Array | tuple[Array, Array]: ...


def adaptive_max_pool(
    x: Array,
    output_size: PerAxis,
    *,
    index_element_type: str = "i64",
    return_indices: bool = False,
    like: str = "openvino",
    layout: str | None = None,
    dtype: object = None,
    out: Array | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> Array | tuple[Array, Array]:
    """The maximum of every bin of `x` (bins as in `adaptive_avg_pool`), and with `return_indices` where it is.

    Indices are flat inside one (n, c) plane. Ties, NaN and -inf as in `max_pool`.
    Raises RequestError for sizes that do not fit. Rule: OpenVINO AdaptiveMaxPool-8.

    >>> import numpy as np
    >>> adaptive_max_pool(np.array([[[1, 5, 2, 7, 3]]], dtype="int16"), 2, return_indices=True)
    (array([[[5, 7]]], dtype=int16), array([[[1, 3]]]))
    """
    op = AdaptiveMaxPool(output_size, like, index_element_type)
    return op(x, return_indices=return_indices, layout=layout, dtype=dtype, out=out, engine=engine, threads=threads)
