"""Where kernels read and write, as records of integers and arrays of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Indices = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


class Geometry(NamedTuple):
    """The windows of the axes D, H and W, and the arrays (outer, D, H, W * inner) that they lie in.

    Window o of an axis reads begins[o] + j * step for j < counts[o]; `input` is D, H and W * inner of what is read,
    `output` is D and H of what is made, whose rows are of `size`. An output is divided by the product of its axes'
    divisors.
    """

    inner: int
    input: tuple[int, int, int]
    output: tuple[int, int]
    size: int
    begins: Indices
    counts: Indices
    steps: tuple[int, int, int]
    divisors: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


class Across(NamedTuple):
    """Regular windows along W; rows are taken in pieces of `piece` outputs, which reach over `reach` inputs."""

    kernel: int
    stride: int
    dilation: int
    pad: int
    reach: int
    outputs: int
    piece: int


class Down(NamedTuple):
    """Regular windows along H, whose rows, from `pad` before the first one, are cut into `blocks` of a window's."""

    kernel: int
    stride: int
    pad: int
    blocks: int


class Wide(NamedTuple):
    """64-bit integers (unsigned ones given as int64), whose means are rounded half to even or else floats."""

    unsigned: bool
    rounded: bool
