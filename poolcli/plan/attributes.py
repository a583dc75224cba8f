"""The attributes of pooling as a person gives them, before any shape is known: one record a geometry.

An operator is a record of these with a name and a reducer (`poolcli.ops`). Every field says how it is read; a value
that no shape could make right is refused when the record is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import ClassVar

from poolcli.arguments import (
    AUTO_PADS,
    INDEX_TYPES,
    ROUNDING_TYPES,
    PerAxis,
    divisor,
    flag,
    numbers_from,
    optional,
    read,
    whole_number,
    word_of,
)
from poolcli.dialects import DIALECTS, Dialect
from poolcli.plan.reducers import Reducer


@dataclass(frozen=True)
class Operator:
    """What every operator has: its name, what it is called in a sentence, and what becomes of a window's elements.

    An operator that no framework has takes the limits of the one that it names in `rules_of`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    reducer: ClassVar[Reducer]
    rules_of: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        for own in fields(self):
            value = own.metadata["read"](own.name, getattr(self, own.name))
            object.__setattr__(self, own.name, value)

    def reduction(self, dialect: Dialect) -> Reducer:
        """What becomes of the elements under the rules of `dialect`."""
        return self.reducer


@dataclass(frozen=True)
class SlidingAttributes(Operator):
    """Sliding windows. One number serves every axis; None is the dialect's default."""

    kernel: PerAxis = field(metadata=read(numbers_from(1)))
    strides: PerAxis | None = field(default=None, metadata=read(optional(numbers_from(1))))
    pads_begin: PerAxis = field(default=0, metadata=read(numbers_from(0)))
    pads_end: PerAxis = field(default=0, metadata=read(numbers_from(0)))
    dilations: PerAxis = field(default=1, metadata=read(numbers_from(1)))
    auto_pad: str = field(default="explicit", metadata=read(word_of(AUTO_PADS)))
    rounding_type: str = field(default="floor", metadata=read(word_of(ROUNDING_TYPES)))
    like: str = field(default="openvino", metadata=read(word_of(tuple(DIALECTS))))


@dataclass(frozen=True)
class DividingAttributes(SlidingAttributes):
    """Of sums that are divided: what the divisor counts."""

    exclude_pad: bool | None = field(default=None, metadata=read(optional(flag)))
    divisor_override: int | None = field(default=None, metadata=read(optional(divisor)))


@dataclass(frozen=True)
class PickingAttributes(SlidingAttributes):
    """Of elements that win: what the indices count from, and their type."""

    axis: int | None = field(default=None, metadata=read(optional(whole_number)))
    index_element_type: str = field(default="i64", metadata=read(word_of(tuple(INDEX_TYPES))))


@dataclass(frozen=True)
class BinAttributes(Operator):
    """Adaptive windows: the output's spatial size."""

    output_size: PerAxis = field(metadata=read(numbers_from(1)))
    like: str = field(default="openvino", metadata=read(word_of(tuple(DIALECTS))))


@dataclass(frozen=True)
class PickingBinAttributes(BinAttributes):
    """The same of elements that win: the type of the indices."""

    index_element_type: str = field(default="i64", metadata=read(word_of(tuple(INDEX_TYPES))))


Attributes = SlidingAttributes | BinAttributes
# The fields that geometries and reducers share; what an operator has beyond them is its own.
SHARED = {own.name for record in (DividingAttributes, PickingAttributes) for own in fields(record)}
