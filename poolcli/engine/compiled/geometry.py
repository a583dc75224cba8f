"""The geometry of a kernel: shapes, strides and windows, as tuples that kernels read from memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Indices = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    Factors = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]

CACHE_LINE = 64  # bytes
VECTOR_BYTES = 64
VECTOR_ELEMENTS = 16  # a multiple of the elements of a vector register
LANES = 8  # partial sums of a long window, which fill vectors: element i is added to sum i % LANES
SHORT_WINDOW = 4  # elements along W, up to which irregular windows have a constant number of taps
ARGMAX_BLOCK = 1 << 12  # elements that are searched at once for a maximum with its position


class Strides(NamedTuple):
    """Strides in elements: outer index o is at (o // split) * far + (o % split) * near; `plane` is the stride along D,
    `row` along H. Elements along W * inner are contiguous.
    """

    split: int
    far: int
    near: int
    plane: int
    row: int


class Geometry(NamedTuple):
    """The windows along D, H and W, and the arrays (outer, D, H, W * inner) that they are in.

    Parameters
    ----------
    strides
        Of the input.
    rows, inner
        The numbers of output rows and of inner elements.
    input_shape, output_shape, row_size
        (D, H, W * inner) of the input, (D, H) of the output, and the elements of an output row.
    starts, counts, dilations
        Of each axis: window o has the elements starts[o] + j * dilation, j < counts[o]. Along W, starts are multiplied
        by `inner`, and windows repeated for each inner element, only for some kernels.
    divisors, reciprocals
        Of each axis: the divisor of an output is the product of those of its windows. Reciprocals are the divisors
        again if the arithmetic does not need them.
    kernel_elements
        The number of elements of a whole kernel, if results are multiplied by it.
    weights
        Of the windows along H and along W: as many for each window as the longest one has elements.
    """

    strides: Strides
    rows: int
    inner: int
    input_shape: tuple[int, int, int]
    output_shape: tuple[int, int]
    row_size: int
    starts: Indices
    counts: Indices
    dilations: tuple[int, int, int]
    divisors: Factors
    reciprocals: Factors
    kernel_elements: int = 0
    weights: tuple[NDArray[np.int64], ...] = ()

    def with_reciprocals(self, is_single: bool) -> Geometry:
        """The same with the reciprocals of the divisors; no product of them exceeds the reciprocal of the product.

        is_single: all outputs have one divisor, a power of two, whose exact reciprocal is that of the first axis.
        """
        d, h, w = self.divisors
        if is_single:
            return self._replace(reciprocals=(1 / (d * h[0] * w[0]), np.ones_like(h), np.ones_like(w)))
        with np.errstate(divide="ignore"):
            return self._replace(reciprocals=(1 / d, 1 / h, (1 - 2.0**-50) / w))

    def with_joined_rows(self, rows: int) -> Geometry:
        """The same with the divisors of `rows` output rows as those along W."""
        d, h, w = self.divisors
        return self._replace(divisors=(d, h, np.tile(w, rows)))

    def with_joined_planes(self, rows: int) -> Geometry:
        """The same for all rows of whole planes; those along W are the products of all three."""
        (d,), h, w = self.divisors
        products = np.tile(np.outer(d * h, w).ravel(), rows // len(h))
        return self._replace(divisors=(np.ones_like(h[:1]), np.ones_like(h), products))


class Divisors(NamedTuple):
    """The divisors of one output row: the product of those along D and H, and an array along the row; the reciprocals
    of both, and the number of elements of a whole kernel, if the arithmetic needs them.
    """

    outer: Any
    along_w: Any
    outer_reciprocal: Any
    reciprocals: Any
    kernel_elements: Any


class FixedWindow(NamedTuple):
    """The kernel size and the stride along W as constants of a compiled kernel; for some also the number of rows."""

    kernel: int
    stride: int
    rows: int = 1

    @property
    def shares_part(self) -> bool:
        """Whether a window shares none, one or half of its elements with the next one."""
        return self.stride > 1 and self.kernel - self.stride in (0, 1, self.stride)


class ReadAhead(NamedTuple):
    """What a kernel asks for before it combines the rows of a window; all 0 for nothing.

    `lines` cache lines of `elements` elements each are prefetched, from `first` elements after the beginning of the
    first row on, and `late` more after the rows are combined. If `touches`, one element of each cache line of the rows
    is loaded instead.
    """

    lines: int = 0
    elements: int = 0
    first: int = 0
    late: int = 0
    touches: int = 0


class RowWindows(NamedTuple):
    """Regular windows along W. Rows are processed in pieces of `piece` outputs, which read `reach` elements.

    The outputs full_start to full_stop - 1 have the same divisor.
    """

    kernel: int
    stride: int
    dilation: int
    pad: int
    reach: int
    outputs: int
    piece: int
    full_start: int
    full_stop: int


class ColumnWindows(NamedTuple):
    """Regular windows along H. Rows, from `pad` before the first one, are divided into `blocks` of `kernel` rows."""

    kernel: int
    stride: int
    pad: int
    blocks: int
