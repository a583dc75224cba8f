"""A region: the part of a plan's outputs that one tile, chunk or process computes, and the input that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from poolcli.dtypes import lookup
from poolcli.plan.plan import Plan

Ranges = tuple[range, ...]  # of an array: the indices along each axis of the layout


@dataclass(frozen=True)
class Region:
    """A plan and a range of its outputs along each axis of the layout.

    The whole plan determines the kernel and the order of additions. So a region that begins at multiples of `grains`
    gives the same bits as the whole.
    """

    plan: Plan
    outputs: Ranges

    @cached_property
    def reads(self) -> Ranges:
        """The range of input indices along each axis that the outputs are computed from."""
        found = list(self.outputs)
        for axis in self.plan.axes:
            found[axis.position] = axis.windows.reads(self.outputs[axis.position])
        return tuple(found)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the part of the input that it reads."""
        return tuple(map(len, self.reads))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of its outputs."""
        return tuple(map(len, self.outputs))

    @property
    def nbytes(self) -> int:
        """The bytes of its input and its outputs together."""
        read, computed = prod(self.input_shape), prod(self.output_shape)
        return read * lookup(self.plan.dtype).itemsize + computed * lookup(self.plan.output_dtype).itemsize

    @property
    def grains(self) -> tuple[int, ...]:
        """The step between possible cuts along each axis."""
        found = [1] * len(self.outputs)
        for axis in self.plan.axes:
            found[axis.position] = axis.windows.grain
        return tuple(found)

    @property
    def aligned(self) -> Region:
        """The region, extended to begin at multiples of its grains."""
        cuts = zip(self.outputs, self.grains, strict=True)
        return Region(self.plan, tuple(range(span.start // grain * grain, span.stop) for span, grain in cuts))

    def cut(self, axis: int, outputs: range) -> Region:
        """The region with these outputs along `axis`."""
        return Region(self.plan, (*self.outputs[:axis], outputs, *self.outputs[axis + 1 :]))


def whole(plan: Plan) -> Region:
    """The region of all outputs of `plan`."""
    return Region(plan, tuple(map(range, plan.output_shape)))


def parts_of(region: Region, most: int) -> Iterator[Region]:
    """Cut the region into parts in C order, each of about `most` bytes of input and output."""
    if prod(region.output_shape):
        yield from _parts(region, 0, most)


def _parts(region: Region, axis: int, most: int) -> Iterator[Region]:
    if region.nbytes <= most or axis == len(region.outputs):
        yield region
        return
    grain, outputs = region.grains[axis], region.outputs[axis]

    def cut(start: int, stop: int) -> Region:
        return region.cut(axis, range(start, min(stop, outputs.stop)))

    first = outputs.start
    one = cut(first, first + grain).nbytes
    more = cut(first, first + 2 * grain).nbytes - one
    grains = 1 + max(0, most - one) // max(more, 1)
    for start in range(first, outputs.stop, grain * grains):
        part = cut(start, start + grain * grains)
        if one > most and grain == 1:
            yield from _parts(part, axis + 1, most)
        else:
            yield part
