"""A kernel that was chosen, and all that it is given: the record that choosing, building, loading and running share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.compiled.arithmetic import NONE, Arithmetic, ByReciprocal, Itself, OfKernel, Plain
from poolcli.engine.compiled.geometry import APART, Apart, Geometry, Taps, Wide, flat
from poolcli.engine.compiled.launch import address
from poolcli.engine.compiled.view import View
from poolcli.windows import ceil_div

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Choice:
    """A kernel by its name, and what it is given beside the arrays.

    `dtype` is the type of the elements, `source` as which the kernel sees them, `made` that of what it writes, `more`
    what this kernel alone is given. A run of its tasks needs row buffers of `scratch` totals, and of `lines` numbers.
    `taps` are constants of the kernel, where it is made for one size of windows. `pieces` tasks one after the other
    make the same `group` output rows.
    """

    kernel: str
    taps: Taps | None
    dtype: str
    view: View
    how: Arithmetic | Wide
    source: np.dtype[Any]
    made: np.dtype[Any]
    geometry: Geometry
    more: tuple[Any, ...]
    tasks: int
    scratch: int
    lines: int
    pieces: int
    group: int

    @cached_property
    def variant(self) -> str:
        """What tells it from other kernels that are compiled for themselves, in one word."""
        steps = [_word(step) for step in self.how if isinstance(step, tuple) and not isinstance(step, Plain | Itself)]
        steps += ["odd"] if isinstance(self.how, Wide) and self.how.odd else []
        types = [self.made.name, *([self.divisor.name] if self.divisor != NONE else [])]
        size = [] if self.taps is None else [self.taps.word]
        return "-".join([self.kernel, *size, self.dtype, *steps, *types])

    @property
    def totals(self) -> np.dtype[Any]:
        """The type of totals."""
        return np.dtype(np.int64) if isinstance(self.how, Wide) else self.how.total.nothing.dtype

    @property
    def divisor(self) -> np.dtype[Any]:
        """The type of divisors."""
        return self.geometry.divisors[0].dtype

    @cached_property
    def numbers(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The integers that the kernel is given, and the divisors."""
        result = None if isinstance(self.how, Wide) else self.how.result
        elements = int(result.elements) if isinstance(result, OfKernel) else 0
        return flat(self.geometry, self.more, elements, isinstance(result, ByReciprocal))

    def with_apart(self, apart: Apart) -> NDArray[np.int64]:
        """The integers for an array whose elements lie that far apart."""
        integers = self.numbers[0].copy()
        integers[APART : APART + len(apart)] = apart
        return integers

    @cached_property
    def addresses(self) -> tuple[int, int]:
        """Where those are."""
        integers, divisors = self.numbers
        return address(integers), address(divisors)

    @cached_property
    def lines_at(self) -> int:
        """Bytes of the buffer of totals, behind which that of lines is."""
        return ceil_div(self.scratch * self.totals.itemsize, 64) * 64

    @cached_property
    def buffered(self) -> int:
        """Bytes of both."""
        return self.lines_at + self.lines * 4

    @cached_property
    def work(self) -> int:
        """Elements that go through it, those of windows of several rows as often as they are read."""
        d, h, _ = self.view.axes
        joined = (
            prod(self.view.output_shape[:3]) * self.view.input_shape[3] * min(d.entire.longest * h.entire.longest, 8)
        )
        return max(prod(self.view.input_shape), prod(self.view.output_shape), joined)


def _word(step: Any) -> str:
    """The name of a step, the type of totals, and the power or the bits, as constants of the kernel."""
    constants = [value.dtype.name if isinstance(value, np.generic) else str(value) for value in step]
    own = [] if isinstance(step, OfKernel) else constants
    return "-".join([type(step).__name__.lower(), *own])
