"""The attributes of pooling as a person gives them, before any shape is known: one record a geometry.

An operator is a record of these with a name and a reducer (`poolcli.ops`). Every field says how it is read; a value
that no shape could make right is refused when the record is made.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field, fields
from functools import lru_cache
from typing import Any, ClassVar, Literal

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
from poolcli.errors import RequestError
from poolcli.message_fields import field as shown


@dataclass(frozen=True, slots=True)
class Reducer:
    """How the elements of a window become one number.

    Either elements are compared and one of them wins, or they vote, or something of each is added up. Nothing asks a
    reducer for its name: what a new one does follows from its fields. An engine refuses a reducer whose fields say none
    of this, or that sets a field which the engine does not read.

    `better(a, b)`: whether a wins over b; None where nothing is compared so. `votes`: whether the value that occurs
    most often is taken, of equally frequent ones the smallest; of whole numbers only, and of nothing there is none.
    `adds`: whether elements, or powers of them, are added up.
    `nothing`: of the limits of a type, the one that loses against every element, 0 the lowest, 1 the highest.
    `divides`: whether the sum is divided by what the plan counts. `power`: elements are added as abs(x)**power and the
    root is taken of the sum; None adds them as they are; `signed` adds x**power instead, and multiplies by the whole
    kernel before the root is taken. `result`: `element` is one of the window's, `number` lies between them (rounded
    half to even where the type is an integer's), `float` lies beyond them and needs a float type.
    """

    name: str
    noun: str
    result: Literal["element", "number", "float"]
    better: Callable[[Any, Any], Any] | None = None
    nothing: Literal[0, 1] = 0
    divides: bool = False
    power: float | None = None
    signed: bool = False
    votes: bool = False
    adds: bool = False

    @property
    def picks(self) -> bool:
        """Whether one element of each window wins, so that it has a position."""
        return self.better is not None


@lru_cache(maxsize=64)
def is_known(reducer: Reducer, read: frozenset[str]) -> bool:
    """Whether the fields that an engine reads say how the elements become one number, and no other field is set."""
    ways = (reducer.better is not None, reducer.votes, reducer.adds)
    others = (own for own in fields(reducer) if own.name not in read)
    return sum(ways) == 1 and all(getattr(reducer, own.name) == own.default for own in others)


MEAN = Reducer("mean", "average", "number", divides=True, adds=True)
MAXIMUM = Reducer("max", "maximum", "element", better=operator.gt)


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


BOTH_AND_ENDS = (
    f"{shown('pads')} sets both ends; give either {shown('pads')} or {shown('pads_begin')} and {shown('pads_end')}"
)


def with_both_ends(given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes with `pads` as `pads_begin` and `pads_end`.

    >>> with_both_ends({"kernel": 3, "pads": 1})
    {'kernel': 3, 'pads_begin': 1, 'pads_end': 1}
    """
    if "pads" in given and not given.keys().isdisjoint(("pads_begin", "pads_end")):
        raise RequestError(BOTH_AND_ENDS)
    ends = {end: given["pads"] for end in ("pads_begin", "pads_end") if "pads" in given}
    return {name: value for name, value in given.items() if name != "pads"} | ends


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
    pads: InitVar[PerAxis | None] = field(default=None, kw_only=True)  # sets pads_begin and pads_end

    def __post_init__(self, pads: PerAxis | None) -> None:
        if pads is not None:
            if any(not isinstance(each, int) or each for each in (self.pads_begin, self.pads_end)):
                raise RequestError(BOTH_AND_ENDS)
            object.__setattr__(self, "pads_begin", pads)
            object.__setattr__(self, "pads_end", pads)
        super().__post_init__()


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
