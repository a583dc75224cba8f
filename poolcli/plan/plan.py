"""The plan: everything that is known about a pooling before data is read (`Plan`), its facts, and its regions: parts of
the outputs that one tile, chunk or process computes, with the input that they read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from math import prod

from poolcli.arguments import MinCount, Missing
from poolcli.dialects import IndexBase
from poolcli.dtypes import lookup
from poolcli.layouts import Reading, named_shape
from poolcli.message_fields import field as setting, for_python
from poolcli.plan.attributes import Attributes, Reducer
from poolcli.windows import AxisWindows, Cells, Ranges

# Sums of squares of integers of up to 16 bits, in windows of fewer than 2**15 elements, are exact in 64 bits.
EXACT_SQUARES_BITS = 16
EXACT_SQUARES_ELEMENTS = 1 << 15


@dataclass(frozen=True, slots=True)
class Fact:
    """A note for the user about a plan; its message marks its fields, which `str` spells as in Python."""

    kind: str  # such as "strides", for callers that look for one
    message: str

    def __str__(self) -> str:
        return for_python(self.message)


@dataclass(frozen=True, slots=True)
class AxisPlan:
    """One spatial axis: its letter, its position in the layout, its windows, and the formula of its output length."""

    name: str
    position: int
    windows: AxisWindows
    formula: str


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What max indices count: `modulus` elements under base `axis`; under `channels_last`, (y*W + x)*C + c."""

    dtype: str
    base: IndexBase
    modulus: int
    rule: str


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """Everything about one pooling, made from a shape alone; `poolcli.ops.plan.Plan` says what each field is."""

    op: str
    reducer: Reducer
    like: str
    attributes: dict[str, object] = field(hash=False)
    layout: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    dtype: str
    output_dtype: str
    axes: tuple[AxisPlan, ...]
    divisor_rule: str | None
    divisor_override: int | None
    index: IndexPlan | None
    empty_windows: int
    facts: tuple[Fact, ...]
    reading: Reading = field(compare=False)
    given: Attributes = field(compare=False)
    missing: Missing = ()
    min_count: MinCount | None = None
    nodata: float | None = None

    def __repr__(self) -> str:
        before = f"{named_shape(self.layout, self.input_shape)} {self.dtype}"
        after = f"{named_shape(self.layout, self.output_shape)} {self.output_dtype}"
        return f"<Plan of {self.op} pooling, like {self.like}: {before} to {after}>"

    @property
    def layout_warnings(self) -> tuple[Fact, ...]:
        """A note on how else the axes can be read; empty if they were given or are likely."""
        return (Fact("layout", self.reading.note),) if self.reading.note else ()

    @property
    def guessed(self) -> bool:
        """Whether neither the caller nor the file has named the axes."""
        return self.reading.assumed

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user, a sentence each."""
        return tuple(map(str, self.facts))

    @property
    def is_weighted(self) -> bool:
        """Whether elements have weights (areas)."""
        return any(isinstance(axis.windows, Cells) for axis in self.axes)

    @property
    def has_exact_squares(self) -> bool:
        """Whether the sum of squares of a window is exact in 64 bits."""
        source, elements = lookup(self.dtype), prod(windows.longest for windows in self.windows)
        return source.kind != "float" and source.bits <= EXACT_SQUARES_BITS and elements < EXACT_SQUARES_ELEMENTS

    @property
    def unpool_note(self) -> str:
        """Which setting gives the indices that PyTorch's max_unpool takes, where OpenVINO's default counts others."""
        is_default = self.like == "openvino" and getattr(self.given, "axis", 0) is None
        if not is_default or self.index is None or self.index.modulus == prod(w.size for w in self.windows):
            return ""
        return f"PyTorch's max_unpool needs {setting('axis', 2)} or {setting('like', 'pytorch')}"

    @property
    def windows(self) -> tuple[AxisWindows, ...]:
        """The windows of each spatial axis, in the order of attributes."""
        return tuple(axis.windows for axis in self.axes)


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

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the part of the input that it reads."""
        return tuple(map(len, self.reads))

    @cached_property
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


def blocks_of(region: Region, shape: Sequence[int]) -> Iterator[Region]:
    """Cuts the region into blocks of one shape in C order; the last one along an axis may be shorter."""
    for place in product(*_starts(region, shape)):
        yield _block_at(region, shape, place)


def largest_block(region: Region, shape: Sequence[int]) -> Region:
    """The block that takes the most memory: the first one, or the second along every axis, which has neighbours."""
    starts = _starts(region, shape)
    if not all(starts):
        return region
    first, second = (_block_at(region, shape, [each[: i + 1][-1] for each in starts]) for i in (0, 1))
    return max(first, second, key=lambda block: block.aligned.nbytes)


def part_shape(region: Region, unit: Sequence[int], most: int) -> tuple[int, ...]:
    """The shape of blocks of whole units in C order, of about `most` bytes of input and output, at least one unit."""
    shape = list(unit)

    def size(axis: int, length: int) -> int:
        return largest_block(region, (*shape[:axis], length, *shape[axis + 1 :])).aligned.nbytes

    for axis in reversed(range(len(shape))):
        lengths = range(unit[axis], max(1, len(region.outputs[axis])) + unit[axis], unit[axis])
        fits = size(axis, lengths[-1]) <= most
        count = len(lengths) if fits else bisect_right(lengths, most, key=partial(size, axis))
        shape[axis] = lengths[max(count, 1) - 1]
        if not fits:
            break
    return tuple(shape)


def parts_of(region: Region, most: int) -> Iterator[Region]:
    """Cuts the region into parts in C order, each of about `most` bytes of input and output."""
    return blocks_of(region, part_shape(region, region.grains, most))


def _starts(region: Region, shape: Sequence[int]) -> list[range]:
    return [span[::length] for span, length in zip(region.outputs, shape, strict=True)]


def _block_at(region: Region, shape: Sequence[int], place: Sequence[int]) -> Region:
    spans = zip(place, shape, region.outputs, strict=True)
    return Region(region.plan, tuple(range(start, min(start + length, span.stop)) for start, length, span in spans))
