"""The attributes of operators as the caller gives them, before a shape is known, and the record of a reducer.

An operator (`poolcli.ops`) is one of these records with a name and a reducer. The metadata of each field parse and
validate its value; values that are wrong for every shape are refused when the record is created.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar, Literal

from poolcli import arguments
from poolcli.arguments import Fit, PerAxis, fit_from, flag, numbers_from, one_of, optional, word_of
from poolcli.dialects import DIALECTS, Dialect
from poolcli.errors import RequestError
from poolcli.layouts import check_layout, check_shape, size_of
from poolcli.message_fields import field as shown
from poolcli.windows import Bins


@dataclass(frozen=True, slots=True)
class Reducer:
    """How the elements of a window become one number: as its fields say, one of `better`, `adds` and `statistic`."""

    name: str
    noun: str  # for its result in sentences
    # An element of the window; a number between them, rounded half to even for integer types; their sum, by default in
    # 64 bits for integers; any number, which needs a float type; the same, by default float32 or float64.
    result: Literal["element", "number", "total", "float", "deviation"]
    better: Callable[[Any, Any], Any] | None = None  # operator.gt or .lt: whether its first argument wins
    nothing: Literal[0, 1] = 0  # the identity of that comparison: the lowest value of the type, or the highest
    divides: bool = False  # the sum by the plan's divisor
    power: float | None = None  # adds abs(x)**power and takes the root of the sum
    signed: bool = False  # adds x**power, and multiplies by the kernel size before taking the root
    adds: bool = False  # elements or their powers
    # Of all elements of a window, by `statistics` of both engines; a mode is the smallest of the most frequent values.
    statistic: Literal["mode", "median", "deviation"] | None = None
    ddof: float = 0  # is subtracted from the number of elements, the divisor of a standard deviation

    @property
    def picks(self) -> bool:
        """Whether it selects one element of each window, which has an index."""
        return self.better is not None

    @property
    def votes(self) -> bool:
        """Whether it takes the most frequent value."""
        return self.statistic == "mode"

    @property
    def example_dtype(self) -> str:
        """A type that it accepts, for plans from a shape alone."""
        return "uint8" if self.votes else "float32"

    @property
    def is_sum(self) -> bool:
        """Whether the result is the plain sum."""
        return self.adds and self.power is None and not self.divides


MEAN = Reducer("mean", "average", "number", divides=True, adds=True)
MAXIMUM = Reducer("max", "maximum", "element", better=operator.gt)


def short_repr(record: Any) -> str:
    """The repr of a record, without the fields that have their defaults on every axis."""
    shown = list[str]()
    for own in fields(record):
        value = getattr(record, own.name)
        is_default = own.default in (value, *(value[:1] if isinstance(value, tuple) and len({*value}) == 1 else ()))
        shown += [] if is_default or not own.repr else [f"{own.name}={value!r}"]
    return f"{type(record).__name__}({', '.join(shown)})"


@dataclass(frozen=True)
class Operator:
    """The base of all operators: its name, its title in sentences, and its reducer."""

    name: ClassVar[str]
    title: ClassVar[str]
    reducer: ClassVar[Reducer]
    rules_of: ClassVar[str | None] = None  # whose limits it follows, as no framework has it
    plan_type: ClassVar[type[Any]]  # the class of its plans, which a record of `poolcli.ops` names

    def __post_init__(self) -> None:
        for own in fields(self):
            value = own.metadata["read"](own.name, getattr(self, own.name))
            object.__setattr__(self, own.name, value)

    def reduction(self, dialect: Dialect) -> Reducer:
        """The reducer under the rules of `dialect`."""
        return self.reducer


def expand_pads(given: Mapping[str, Any]) -> dict[str, Any]:
    """Replace `pads` by `pads_begin` and `pads_end`."""
    if "pads" in given and not given.keys().isdisjoint(("pads_begin", "pads_end")):
        pads, begin, end = map(shown, ("pads", "pads_begin", "pads_end"))
        raise RequestError(f"{pads} sets both ends; give either {pads} or {begin} and {end}")
    if "pads" not in given:
        return dict(given)
    pads = numbers_from(0)("pads", given["pads"])
    return {name: value for name, value in given.items() if name != "pads"} | {"pads_begin": pads, "pads_end": pads}


@dataclass(frozen=True)
class SlidingAttributes(Operator):
    """Attributes of sliding windows. A single number applies to every axis; None is the dialect's default."""

    kernel: PerAxis = field(metadata={"read": numbers_from(1)})
    _: KW_ONLY
    strides: PerAxis | None = field(default=None, metadata={"read": optional(numbers_from(1))})
    pads_begin: PerAxis = field(default=0, metadata={"read": numbers_from(0)})
    pads_end: PerAxis = field(default=0, metadata={"read": numbers_from(0)})
    dilations: PerAxis = field(default=1, metadata={"read": numbers_from(1)})
    auto_pad: str = field(default="explicit", metadata={"read": word_of(arguments.AUTO_PADS)})
    rounding_type: str = field(default="floor", metadata={"read": word_of(arguments.ROUNDING_TYPES)})
    like: str = field(default="openvino", metadata={"read": word_of(tuple(DIALECTS))})
    pads: InitVar[PerAxis | None] = field(default=None, kw_only=True)  # sets pads_begin and pads_end

    def __post_init__(self, pads: PerAxis | None) -> None:
        if pads is not None:
            both = {"pads_begin": self.pads_begin, "pads_end": self.pads_end}
            own = {name: value for name, value in both.items() if not isinstance(value, int) or value}
            for name, value in expand_pads({"pads": pads} | own).items():
                object.__setattr__(self, name, value)
        if str(self.auto_pad).lower() == "same" and one_of("like", self.like, tuple(DIALECTS)) == "tensorflow":
            object.__setattr__(self, "auto_pad", "same_upper")  # TensorFlow's own word
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class DividingAttributes(SlidingAttributes):
    """Sliding windows with the attributes of averages."""

    exclude_pad: bool | None = field(default=None, metadata={"read": optional(flag)})
    divisor_override: int | None = field(default=None, metadata={"read": optional(arguments.divisor)})


@dataclass(frozen=True, kw_only=True)
class PickingAttributes(SlidingAttributes):
    """Sliding windows with the attributes of indices: the first axis that they count over, and their type."""

    axis: int | None = field(default=None, metadata={"read": optional(arguments.whole_number)})
    index_element_type: str = field(default="i64", metadata={"read": word_of(tuple(arguments.INDEX_TYPES))})


def _output_size(name: str, value: object) -> Any:
    """Parse an output size: numbers for each axis, None for the length of the input, or the box of images."""
    if isinstance(value, Fit):
        return value
    items = [*value] if isinstance(value, tuple | list) else [value]
    kept = [len(items) > 1 and item is None for item in items]
    if not any(kept):
        return numbers_from(1)(name, value)
    found = numbers_from(1)(name, [1 if item is None else item for item in items])
    return tuple(None if keeps else n for n, keeps in zip(found, kept, strict=True))


@dataclass(frozen=True)
class BinAttributes(Operator):
    """Attributes of adaptive windows: the spatial size of the output."""

    output_size: PerAxis | Fit = field(metadata={"read": _output_size})
    _: KW_ONLY
    like: str = field(default="openvino", metadata={"read": word_of(tuple(DIALECTS))})

    def windows_of(self, size: int, output: int) -> Bins:
        """The windows of an axis."""
        return Bins(size, output)


@dataclass(frozen=True, kw_only=True)
class PickingBinAttributes(BinAttributes):
    """Adaptive windows with the type of indices."""

    index_element_type: str = field(default="i64", metadata={"read": word_of(tuple(arguments.INDEX_TYPES))})


Attributes = SlidingAttributes | BinAttributes


def values_of(op: Attributes) -> int:
    """The number of values in the first list of the attributes; 1 without a list."""
    for name in ("kernel", "output_size", "strides", "dilations", "pads_begin", "pads_end"):
        value = getattr(op, name, None)
        if isinstance(value, Fit):
            return 2
        if isinstance(value, tuple) and len(value) > 1:
            return len(value)
    return 1


def fit_size(shape: Sequence[int], layout: str, fit: str | int | Fit) -> tuple[int, int]:
    """The size of an image that is scaled to fit into some pixels, its aspect kept.

    Parameters
    ----------
    shape : sequence of int
        The shape of the image.
    layout : str
        One letter per axis, such as "HWC", with H and W and no D.
    fit : str or int
        Pixels: `800` for both sides, or `"800x600"`, width by height; or a share of both sides, such as `"50%"`.

    Returns
    -------
    tuple of int
        Height and width, an `output_size`: the nearest whole numbers, at least 1, and never larger than the image.

    Raises
    ------
    RequestError
        For a layout without H or W or with D, and for other values of `fit`.

    Examples
    --------
    >>> from poolcli import fit_size
    >>> fit_size((3000, 4000, 3), "HWC", "800x800"), fit_size((3000, 4000, 3), "HWC", "50%")
    ((600, 800), (1500, 2000))
    """
    shape = check_shape(shape)
    layout = check_layout(layout, len(shape))
    box = fit if isinstance(fit, Fit) else fit_from(fit)
    if {*layout} - {*"NC"} != {*"HW"}:
        text = f"{shown('fit')} is for the axes H and W of images, and the layout is {layout}"
        raise RequestError(f"{text}; use {shown('output_size')}")
    height, width = size_of("H", layout, shape), size_of("W", layout, shape)
    sides = Fraction(box.width, max(width, 1)), Fraction(box.height, max(height, 1))
    scale = min(Fraction(1), Fraction(box.percent) / 100, *sides)
    return max(1, round(height * scale)), max(1, round(width * scale))


# The fields that several operators share; others, such as the p of LpPool, belong to one.
SHARED = {own.name for record in (DividingAttributes, PickingAttributes) for own in fields(record)}
# The records of all operators by name, which `poolcli.ops` fills: their methods need what explains plans.
OPERATORS: dict[str, type[Attributes]] = {}
