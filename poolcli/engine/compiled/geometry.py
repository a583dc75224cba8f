"""Where kernels read and write, as records of integers and arrays of them, and all of a record as two flat arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Indices = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


class Strides(NamedTuple):
    """How far elements lie apart: of the outer axis those that are `many` further, and neighbours; of D and of H. Along
    W * inner they lie side by side.
    """

    many: int
    far: int
    near: int
    deep: int
    high: int


def in_order(depth: int, height: int, line: int) -> Strides:
    """In C order."""
    return Strides(1, depth * height * line, 0, height * line, line)


class Geometry(NamedTuple):
    """The windows of the axes D, H and W, and the arrays (outer, D, H, W * inner) that they lie in.

    Window o of an axis reads begins[o] + j * step for j < counts[o]; `input` is D, H and W * inner of what is read,
    `output` is D and H of what is made, whose rows are of `size`. An output is divided by the product of its axes'
    divisors. `rows` is the number of output rows, `apart` how far elements of what is read lie apart, `elements` the
    number of those of a whole kernel where results are multiplied by it. `weights` are those of each window along H,
    and then along W, as many for each as the longest one has elements.
    """

    rows: int
    inner: int
    input: tuple[int, int, int]
    output: tuple[int, int]
    size: int
    begins: Indices
    counts: Indices
    steps: tuple[int, int, int]
    divisors: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
    apart: Strides
    elements: int = 0
    weights: tuple[NDArray[np.int64], ...] = ()

    def reciprocals(self, of_all: bool) -> tuple[NDArray[Any], ...]:
        """Those of the divisors; no product of them is beyond the reciprocal of the product. `of_all`: the exact one of
        the one divisor of all outputs, a power of two, as that of the first axis.
        """
        d, h, w = self.divisors
        if of_all:
            return 1 / (d * h[0] * w[0]), np.ones_like(h), np.ones_like(w)
        with np.errstate(divide="ignore"):
            return 1 / d, 1 / h, (1 - 2.0**-50) / w

    def of_planes(self, group: int) -> Geometry:
        """The same with the divisors of `group` whole planes, one output row after the other, as those along W."""
        (d,), h, w = self.divisors
        return self._replace(
            divisors=(np.ones_like(h[:1]), np.ones_like(h), np.tile(np.outer(d * h, w).reshape(-1), group))
        )


VECTORS = 16  # elements that fill vectors, several at once
LINE = 1 << 12  # elements of a line, of which the best is found at once
SHORT = 4  # elements along W of windows that are joined one tap of all of them at a time
LANES = 8  # sums that the elements of a longer window are added in, every eighth in one, so that they fill vectors
CACHE_LINE = 64  # bytes
APART = 14  # where in the flat integers those of `apart` are
MORE = APART + 5  # where in the flat integers those begin that one kernel alone is given
ARRAYS = MORE + 14  # where the begins follow, and then the counts


def flat(geometry: Geometry, more: tuple[Any, ...], result: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """All integers of a geometry and what one kernel alone is given; and all divisors, with their reciprocals where the
    `result` of the arithmetic asks for them.
    """
    own = [number for given in more for number in (given if isinstance(given, tuple) else (given,))]
    sizes = geometry.begins[2].size, geometry.elements, geometry.divisors[2].size
    rest = (geometry.size, *geometry.steps, *sizes, *geometry.apart)
    head = [geometry.rows, geometry.inner, *geometry.input, *geometry.output, *rest, *own]
    head += [0] * (ARRAYS - len(head))
    inverse = geometry.reciprocals(result == "scaled") if result in ("scaled", "by_reciprocal") else ()
    integers: list[Any] = [head, *geometry.begins, *geometry.counts, *geometry.weights]
    return np.concatenate(integers), np.concatenate([*geometry.divisors, *inverse])


class Divisors(NamedTuple):
    """What the sums of one output row are divided by: a number for all of them, and an array along it; the reciprocals
    of both, and the elements of a whole kernel, where the arithmetic asks for them.
    """

    outer: Any
    along: Any
    outer_reciprocal: Any
    reciprocals: Any
    elements: Any


class Taps(NamedTuple):
    """The size and the stride of windows along W, as constants of a kernel; the number of their rows, where it is one
    too.
    """

    kernel: int
    stride: int
    rows: int = 1

    @property
    def pass_on(self) -> bool:
        """Whether a window shares nothing, one element or half of its own with the next one."""
        return self.stride > 1 and self.kernel - self.stride in (0, 1, self.stride)


class RowWindows(NamedTuple):
    """Regular windows along W; rows are taken in pieces of `piece` outputs, which reach over `reach` inputs. Outputs
    from `whole` to before `cut` have one divisor.
    """

    kernel: int
    stride: int
    dilation: int
    pad: int
    reach: int
    outputs: int
    piece: int
    whole: int
    cut: int


class ColumnWindows(NamedTuple):
    """Regular windows along H, whose rows, from `pad` before the first one, are cut into `blocks` of a window's."""

    kernel: int
    stride: int
    pad: int
    blocks: int
