"""A region: some of a plan's outputs, and so the task of one tile, one chunk or one process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from poolcli.dtypes import lookup
from poolcli.plan.plan import Plan

Ranges = tuple[range, ...]  # of an array: the indices along each axis of the layout


@dataclass(frozen=True, slots=True)
class Region:
    """A whole plan and a range of its outputs along each axis of the layout.

    Whatever depends on lengths (a kernel, an order of additions) is chosen by the whole plan, so that regions that
    begin at multiples of `grains` give the bits of the whole.
    """

    plan: Plan
    outputs: Ranges

    @property
    def reads(self) -> Ranges:
        """The input that the outputs are computed from, along each axis."""
        found = list(self.outputs)
        for axis in self.plan.axes:
            found[axis.position] = axis.windows.reads(self.outputs[axis.position])
        return tuple(found)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of what it reads."""
        return tuple(map(len, self.reads))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of what it computes."""
        return tuple(map(len, self.outputs))

    @property
    def nbytes(self) -> int:
        """The bytes of what it reads and computes together."""
        read, computed = prod(self.input_shape), prod(self.output_shape)
        return read * lookup(self.plan.dtype).itemsize + computed * lookup(self.plan.output_dtype).itemsize

    @property
    def grains(self) -> tuple[int, ...]:
        """Along each axis, the multiple of outputs at which it may be cut."""
        found = [1] * len(self.outputs)
        for axis in self.plan.axes:
            found[axis.position] = axis.windows.grain
        return tuple(found)

    @property
    def aligned(self) -> Region:
        """The region with the outputs before it that make it begin at multiples of its grains, and so have the bits of
        the whole.
        """
        cuts = zip(self.outputs, self.grains, strict=True)
        return Region(self.plan, tuple(range(span.start // grain * grain, span.stop) for span, grain in cuts))

    def cut(self, axis: int, outputs: range) -> Region:
        """The region of other outputs along `axis`."""
        return Region(self.plan, (*self.outputs[:axis], outputs, *self.outputs[axis + 1 :]))


def whole(plan: Plan) -> Region:
    """The region of all outputs of `plan`."""
    return Region(plan, tuple(map(range, plan.output_shape)))


def parts_of(region: Region, most: int) -> Iterator[Region]:
    """The region in parts that lie one behind the other in C order, each with its input at most about `most` bytes."""
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
