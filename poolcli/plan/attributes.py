"""The attributes of operators as they are given, before a shape is known.

An operator (`poolcli.ops`) is one of these records with a name and a reducer. The metadata of each field say how its
value is read; values that are wrong for every shape are refused when the record is created.
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
from poolcli.layouts import Fit
from poolcli.message_fields import field as shown
from poolcli.windows import Bins


@dataclass(frozen=True, slots=True)
class Reducer:
    """How the elements of a window become one number: by comparing them, by votes, by a sum, or as a statistic.

    Its fields alone decide what is computed, never its name. An engine refuses a reducer that has not exactly one of
    `better`, `votes`, `adds` and `statistic`, or that sets a field which the engine does not read.

    Attributes
    ----------
    name, noun : str
        Its name, and that of its result in a sentence.
    result : {"element", "number", "total", "float", "deviation"}
        An element of the window; a number between them, rounded half to even for integer types; their sum, for integers
        of 64 bits; any number, which needs a float type; or the same, by default of 32 or 64 bits.
    better : function, optional
        `better(a, b)`: whether a wins over b.
    nothing : {0, 1}
        The limit of a type that loses against every element: 0 the lowest, 1 the highest.
    divides : bool
        Whether the sum is divided by the count of the plan.
    power : float, optional
        Adds abs(x)**power and takes the root of the sum; None adds x.
    signed : bool
        Adds x**power, and multiplies by the kernel size before the root is taken.
    votes : bool
        Takes the most frequent value, of equally frequent ones the smallest; for integers and bool.
    adds : bool
        Adds elements or their powers.
    statistic : str, optional
        Takes all elements of a window at once, as `STATISTICS` in `poolcli/engine/numpy/statistics.py` says.
    ddof : float
        How much less than the number of elements a standard deviation is divided by.
    """

    name: str
    noun: str
    result: Literal["element", "number", "total", "float", "deviation"]
    better: Callable[[Any, Any], Any] | None = None
    nothing: Literal[0, 1] = 0
    divides: bool = False
    power: float | None = None
    signed: bool = False
    votes: bool = False
    adds: bool = False
    statistic: str | None = None
    ddof: float = 0

    @property
    def picks(self) -> bool:
        """Whether one element of each window wins, so that it has a position."""
        return self.better is not None

    @property
    def usual_dtype(self) -> str:
        """A type that it takes, where only a shape is given."""
        return "uint8" if self.votes else "float32"

    @property
    def is_sum(self) -> bool:
        """Whether the result is the sum itself, as if it were divided by 1."""
        return self.adds and self.power is None and not self.divides


@lru_cache(maxsize=64)
def is_known(reducer: Reducer, read: frozenset[str]) -> bool:
    """Whether an engine that reads these fields can compute the reducer."""
    ways = (reducer.better is not None, reducer.votes, reducer.adds, reducer.statistic is not None)
    others = (own for own in fields(reducer) if own.name not in read)
    return sum(ways) == 1 and all(getattr(reducer, own.name) == own.default for own in others)


MEAN = Reducer("mean", "average", "number", divides=True, adds=True)
MAXIMUM = Reducer("max", "maximum", "element", better=operator.gt)


@dataclass(frozen=True)
class Operator:
    """The base of all records: the name of the operator, its title in sentences, and its reducer.

    An operator that no framework has takes the limits of the operator `rules_of`.
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
        """The reducer under the rules of `dialect`."""
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
    """Attributes of sliding windows. A single number is for every axis; None is the dialect's default."""

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
    """With the attributes of averages: what the divisor counts."""

    exclude_pad: bool | None = field(default=None, metadata=read(optional(flag)))
    divisor_override: int | None = field(default=None, metadata=read(optional(divisor)))


@dataclass(frozen=True)
class PickingAttributes(SlidingAttributes):
    """With the attributes of indices: the first axis that they count over, and their type."""

    axis: int | None = field(default=None, metadata=read(optional(whole_number)))
    index_element_type: str = field(default="i64", metadata=read(word_of(tuple(INDEX_TYPES))))


def _size(name: str, value: object) -> PerAxis | Fit:
    """Numbers for each axis, or the pixels that images are fitted into."""
    found: PerAxis | Fit = value if isinstance(value, Fit) else numbers_from(1)(name, value)
    return found


@dataclass(frozen=True)
class BinAttributes(Operator):
    """Attributes of adaptive windows: the spatial size of the output."""

    output_size: PerAxis | Fit = field(metadata=read(_size))
    like: str = field(default="openvino", metadata=read(word_of(tuple(DIALECTS))))

    def windows_of(self, size: int, output: int) -> Bins:
        """The windows of an axis."""
        return Bins(size, output)


@dataclass(frozen=True)
class PickingBinAttributes(BinAttributes):
    """With the type of indices."""

    index_element_type: str = field(default="i64", metadata=read(word_of(tuple(INDEX_TYPES))))


Attributes = SlidingAttributes | BinAttributes
# The fields of more than one operator; others, such as the p of LpPool, belong to one.
SHARED = {own.name for record in (DividingAttributes, PickingAttributes) for own in fields(record)}
