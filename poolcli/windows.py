"""The windows of one axis: which input indices each output index reads, and what its sum is divided by.

All index arithmetic of the project is here, in integers. Methods that take "an index or an array of indices" work for
`int` and for numpy arrays of int64, because they use + - * // and comparisons only.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Index = TypeVar("Index", int, "NDArray[np.int64]")
Ranges = tuple[range, ...]  # of an array: the indices along each axis
Counted = Literal["inside", "clipped", "kernel"]
MAX_COUNTED = 100_000  # taps, above which unused input is not counted


def ceil_div(a: Index, b: int) -> Index:
    """Division rounded up, for any sign of `a`."""
    return -(-a // b)


def slices(region: Ranges, inside: Ranges | None = None) -> tuple[slice, ...]:
    """The region as an index for numpy and h5py, relative to the region `inside` if that is given."""
    starts = [axis.start for axis in inside] if inside is not None else [0] * len(region)
    return tuple(slice(axis.start - start, axis.stop - start) for axis, start in zip(region, starts, strict=True))


def _at_least_0(a: Index) -> Index:
    return a * (a > 0)


@dataclass(frozen=True, slots=True)
class Sliding:
    """Sliding windows: output o reads its taps `o*stride - pad_begin + j*dilation`, j < kernel, in the input."""

    size: int
    output: int
    kernel: int
    stride: int
    dilation: int
    pad_begin: int
    pad_end: int
    counted: Counted = "inside"  # by the divisor: taps inside the input, inside it and its padding (clipped), or all

    def reads(self, outputs: range) -> range:
        """The range of input indices from the first to the last window, at least one index; all for all windows."""
        if len(outputs) == self.output:
            return range(self.size)
        low = min(max(self.start(outputs.start), 0), self.size - 1)
        return range(low, max(low + 1, min(self.start(outputs.stop - 1) + self.extent, self.size)))

    @property
    def grain(self) -> int:
        """The smallest step between cuts that keeps the order of additions: kernel // gcd(kernel, stride)."""
        return self.kernel // gcd(self.kernel, self.stride)

    @property
    def longest(self) -> int:
        """The number of taps of a window, inside and outside the input."""
        return self.kernel

    @property
    def extent(self) -> int:
        """The length of a window from its first to its last tap."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def slack(self) -> int:
        """How far a window can move along the padded axis; negative if it does not fit."""
        return self.size + self.pad_begin + self.pad_end - self.extent

    @property
    def overhang(self) -> int:
        """How far the last window reaches past the padded axis; negative if elements are left there."""
        return (self.output - 1) * self.stride - self.slack

    def start(self, o: Index) -> Index:
        """Position of the first tap of window o (an index or an array of indices); negative in the padding."""
        return o * self.stride - self.pad_begin

    def first_tap(self, o: Index) -> Index:
        """The number of taps of window o that lie before the input."""
        return self._taps_below(o, 0)

    def _taps_below(self, o: Index, end: int) -> Index:
        """The number of taps of window o at positions below `end`."""
        taps = _at_least_0(ceil_div(end - self.start(o), self.dilation))
        return taps - (taps - self.kernel) * (taps > self.kernel)

    def inside(self, o: Index) -> Index:
        """The number of taps of window o that lie inside the input."""
        return _at_least_0(self._taps_below(o, self.size) - self.first_tap(o))

    def divisor(self, o: Index) -> Index:
        """This axis' factor of the divisor of window o; 0 where the window counts nothing."""
        if self.counted == "inside":
            return self.inside(o)
        if self.counted == "clipped":
            return self._taps_below(o, self.size + self.pad_end)
        return o * 0 + self.kernel

    def span(self, o: int) -> range:
        """The input indices that window o reads."""
        start, step = o * self.stride - self.pad_begin, self.dilation
        taps = range(start, start + self.kernel * step, step)
        first = max(0, -(start // step))
        return taps[first : max(first, -((start - self.size) // step))]

    def taps(self, outputs: range) -> range:
        """The taps that lie inside the input for any of `outputs` (a kernel may be far longer than the input)."""
        low = max(0, ceil_div(-self.start(outputs.stop - 1), self.dilation))
        high = (self.size - 1 - self.start(outputs.start)) // self.dilation + 1
        return range(low, max(low, min(self.kernel, high)))

    def outputs_of_tap(self, j: int, outputs: range) -> range:
        """Those of `outputs` whose tap j lies inside the input."""
        offset = self.pad_begin - j * self.dilation
        low = max(outputs.start, ceil_div(offset, self.stride))
        return range(low, max(low, min(outputs.stop, ceil_div(self.size + offset, self.stride))))

    @property
    def interior(self) -> range:
        """The outputs whose windows lie entirely inside the input."""
        low = min(ceil_div(self.pad_begin, self.stride), self.output)
        high = (self.size + self.pad_begin - self.extent) // self.stride + 1
        return range(low, max(low, min(high, self.output)))

    @property
    def empty_windows(self) -> int:
        """The number of windows without any input element, in closed form."""
        past = self.output - min(self.output, ceil_div(self.size + self.pad_begin, self.stride))
        before = min(self.output, max(0, ceil_div(self.pad_begin - self.extent + 1, self.stride)))
        if self.size >= self.dilation:
            return past + before
        every = range(self.output)  # taps step over the input, so at most one of each window lies in it
        return self.output - sum(len(self.outputs_of_tap(j, every)) for j in self.taps(every))

    @property
    def unused(self) -> int | None:
        """The number of input indices that no window reads; None if there are too many to count."""
        if self.kernel >= self.stride and self.dilation == 1:
            return max(0, self.size - max(0, self.start(self.output - 1) + self.kernel))
        every = range(self.output)
        taps = self.taps(every)
        if len(taps) > MAX_COUNTED:
            return None
        reached = [(j * self.dilation - self.pad_begin, self.outputs_of_tap(j, every)) for j in taps]
        read = sum(len(outputs) for _, outputs in reached)
        if self.dilation == 1:  # windows do not overlap
            return self.size - read
        if read > MAX_COUNTED:
            return None
        return self.size - len({offset + o * self.stride for offset, outputs in reached for o in outputs})


@dataclass(frozen=True, slots=True)
class Bins:
    """Adaptive windows: output i reads `[i*size // output, ceil((i+1)*size / output))`, in integers."""

    size: int
    output: int

    grain = 1  # bins can be cut anywhere
    empty_windows = unused = overhang = 0  # every bin holds an element, and bins cover the input
    pad_begin = pad_end = 0
    dilation = 1

    def reads(self, outputs: range) -> range:
        """The range of input indices from the first to the last bin."""
        return range(self.start(outputs.start), self.stop(outputs.stop - 1))

    def start(self, i: Index) -> Index:
        """The first input index of bin i (an index or an array of indices)."""
        return i * self.size // self.output

    def stop(self, i: Index) -> Index:
        """One past the last input index of bin i."""
        return ceil_div((i + 1) * self.size, self.output)

    def inside(self, i: Index) -> Index:
        """The number of input elements of bin i."""
        return self.stop(i) - self.start(i)

    divisor = inside  # this axis' factor of it

    def span(self, i: int) -> range:
        """The input indices that bin i reads."""
        return range(self.start(i), self.stop(i))

    @property
    def lengths(self) -> tuple[int, int]:
        """The lengths of the shortest and the longest bin; they differ by at most 1."""
        whole, rest = divmod(self.size, self.output)
        if rest == 0:
            return whole, whole
        return whole + 1, whole + 1 + (rest > gcd(rest, self.output))

    @property
    def longest(self) -> int:
        """The elements of the longest bin."""
        return self.lengths[1]

    @property
    def equal_to(self) -> tuple[int, int] | None:
        """The (kernel, stride) that give the same windows, or None."""
        whole, rest = divmod(self.size, self.output)
        return (whole + rest, whole) if whole and rest <= 1 else None


@dataclass(frozen=True, slots=True)
class Cells(Bins):
    """Bins in which an element counts by its part in [i*size/output, (i+1)*size/output), in the largest common unit."""

    @property
    def parts(self) -> tuple[int, int]:
        """The length of a cell and of an element in that unit."""
        common = gcd(self.size, self.output)
        return self.size // common, self.output // common

    def weight(self, i: Index, element: Index) -> Index:
        """The parts of an element (an index or an array of indices) that lie in cell i, at least 1 of what it reads."""
        cell, one = self.parts
        stop, begin = (i + 1) * cell, i * cell
        last, first = (element + 1) * one, element * one
        return stop - (stop - last) * (stop > last) - (begin + (first - begin) * (first > begin))

    def weights(self, i: int) -> tuple[int, int, int]:
        """The weights of the first element of cell i, of each one between, and of the last."""
        return self.weight(i, self.start(i)), self.parts[1], self.weight(i, self.stop(i) - 1)

    def divisor(self, i: Index) -> Index:
        """The sum of the weights: of every cell the same."""
        return i * 0 + self.parts[0]

    @property
    def equal_to(self) -> None:
        """Always None: in no window of a kernel does an element count in part."""
        return None


def cells(size: int, output: int) -> Bins:
    """The areas of `output` equal parts of an axis; plain bins where no element counts in part."""
    return Cells(size, output) if size % output and output % size else Bins(size, output)


AxisWindows = Sliding | Bins


def extent(kernel: int, dilation: int) -> int:
    """The length of a dilated window: (kernel - 1) * dilation + 1."""
    return (kernel - 1) * dilation + 1


def same_pads(size: int, kernel: int, stride: int, dilation: int, upper: bool) -> tuple[int, int]:
    """The pads of same_upper (extra at the end) or same_lower (extra at the beginning)."""
    total = max(0, (ceil_div(size, stride) - 1) * stride + extent(kernel, dilation) - size)
    return (total // 2, total - total // 2) if upper else (total - total // 2, total // 2)


def sliding_output(size: int, window: int, stride: int, pad_begin: int, pad_end: int, rounding: str) -> int:
    """The number of outputs under `floor`, `ceil` or `ceil_torch` (which drops a window that starts past the input)."""
    span = size + pad_begin + pad_end - window
    if rounding == "floor":
        return span // stride + 1
    output = ceil_div(span, stride) + 1
    if rounding == "ceil_torch" and (output - 1) * stride >= size + pad_begin:
        return output - 1
    return output
