"""Validates values of attributes: numbers for each axis, words of a list, flags, nodata values.

A `Reader` takes the name of a field and a value, and returns the validated value or raises RequestError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf, nan
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, get_args

from poolcli.errors import RequestError
from poolcli.layouts import DIMENSION_NAMES, SPATIAL
from poolcli.message_fields import brief, field
from poolcli.suggestions import MEANT, did_you_mean

if TYPE_CHECKING:
    from numpy import dtype

PerAxis = int | Sequence[int]
Numbers = tuple[int, ...]
AutoPad = Literal["explicit", "same_upper", "same_lower", "valid"]
RoundingType = Literal["floor", "ceil", "ceil_torch"]
IndexType = Literal["i32", "i64"]
Like = Literal["openvino", "ngraph", "onnx", "pytorch", "tensorflow"]
Engine = Literal["auto", "numba", "numpy"]
DTypeName = Literal[
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
    "bfloat16", "bool",
]  # fmt: skip
DType: TypeAlias = "DTypeName | dtype[Any] | type[Any]"
Reader = Callable[[str, object], Any]
AUTO_PADS: tuple[AutoPad, ...] = get_args(AutoPad)
ROUNDING_TYPES: tuple[RoundingType, ...] = get_args(RoundingType)
PAD_MODES = ("reflect", "replicate", "circular", "symmetric", "edge", "wrap", "constant", "nearest", "mirror")
NO_NODATA = "none"  # of missing
ENDS = ("pads_begin", "pads_end")
INDEX_TYPES = {"i32": "int32", "i64": "int64"}
MAX_INT = 2**63 - 1
SHORT_FORMS = {  # other names that are accepted; notset is ONNX's auto_pad
    "ov": "openvino", "ort": "onnx", "onnxruntime": "onnx", "torch": "pytorch", "tf": "tensorflow",
    "keras": "tensorflow", "tflite": "tensorflow", "notset": "explicit",
}  # fmt: skip


def per_axis(
    name: str, value: PerAxis, axes: Sequence[str], layout: str = "", assumed: bool = False, other: str | None = None
) -> Numbers:
    """The numbers of an attribute, one for each spatial axis; refusals name `layout`, and an `other` one that fits."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    if len(numbers) == 1:
        numbers *= len(axes)
    if len(numbers) != len(axes):
        axes_of = f"{len(axes)} spatial {'axis' if len(axes) == 1 else 'axes'} ({','.join(axes)})"
        remedy = f"give {'1' if len(axes) == 1 else f'1 or {len(axes)}'}"
        if len(axes) < len(numbers) <= len(layout):
            rest = {n for n, axis in zip(numbers, layout, strict=False) if axis not in axes}
            if len({*numbers}) == 1 or (len(numbers) == len(layout) and rest == {int(not name.startswith("pads"))}):
                own = (n for n, axis in zip(numbers, layout, strict=False) if axis in axes)
                remedy = f"use {field(name, tuple(own))}"
            remedy += ": batch and channels have no numbers"
        of_all = len(numbers) == len(layout) and 1 in (numbers[0], numbers[-1] if "C" in layout else 0)
        if name == "pads" and len(numbers) == 2 * len(axes):  # as ONNX has them
            remedy = "use " + " and ".join(map(field, ENDS, (numbers[: len(axes)], numbers[len(axes) :])))
        elif of_all and len(numbers) > 3 and numbers[1] != numbers[0] == numbers[-1]:  # as TensorFlow has them
            remedy = f"use {field(name, numbers[1:-1])} and {field('layout', ''.join(('N', *axes, 'C')))}"
        elif 0 < len(layout) < len(numbers):
            remedy = f"the array has {len(layout)} {'axis' if len(layout) == 1 else 'axes'}"
        elif other and not of_all:
            remedy = f"for {len(numbers)} axes, use {field('layout', other)}"
            fitting = numbers[:1] if len({*numbers}) == 1 else numbers[-len(axes) :]
            if name not in ("kernel", "output_size") and len(fitting) in (1, len(axes)):
                remedy = f"use {field(name, fitting)}; {remedy}"
        read_as = f"layout {layout}{' (assumed)' * assumed}" if layout else "the input"
        found = f"{field(name)} has {len(numbers)} numbers, but {read_as} has {axes_of}"
        raise RequestError(f"{found}; {remedy}")
    return numbers


def one_of(name: str, value: object, words: Sequence[str]) -> str:
    """The one of `words` that `value` is, in any case, with - or _, or in its short form; refuses other values."""
    if isinstance(value, str):
        plain = value.lower().replace("-", "_")
        plain = SHORT_FORMS.get(plain, plain)
        found = next((word for word in words if word.replace("-", "_") == plain), None)
        if found is not None:
            return found
    short = {each: word for each, word in SHORT_FORMS.items() if word in words}
    meant = did_you_mean(value, words, short) if isinstance(value, str) else ""
    raise RequestError(f"{field(name)} is {brief(value)}; it must be one of {', '.join(words)}{meant}")


def optional(reader: Reader) -> Reader:
    """As `reader`; None stays None."""
    return lambda name, value: None if value is None else reader(name, value)


def word_of(words: Sequence[str]) -> Reader:
    """One of `words`."""
    return lambda name, value: one_of(name, value, words)


def numbers_from(least: int) -> Reader:
    """A whole number that serves every axis, or a tuple with one for each axis; each at least `least`."""

    def numbers(name: str, value: Any) -> PerAxis:
        if getattr(value, "ndim", 0) > 1 and (name, value.shape[-1]) != ("pads", 2):
            first = " (x comes first)" if name in ("kernel", "output_size") else ""
            raise RequestError(f"{field(name)} is {brief(value)}; whole numbers are needed{first}")
        items = _items(value)
        if items is None:
            return _in_range(name, whole_number(name, value), least, "every axis")
        found = tuple(whole_number(name, item) for item in items)
        if not found:
            raise RequestError(f"{field(name)} is empty; give one number, or one for each spatial axis")
        letters = SPATIAL[-len(found) :].rjust(len(found), "?")
        places = [f"axis {letter}" for letter in letters] if len(found) > 1 else ["every axis"]
        return tuple(_in_range(name, n, least, place) for n, place in zip(found, places, strict=False))

    return numbers


def flag(name: str, value: object) -> bool:
    """True or False, also of numpy; refuses other values."""
    plain = _plain(value)
    if not isinstance(plain, int) or plain not in (0, 1):
        raise RequestError(f"{field(name)} is {brief(value)}; it must be True or False")
    return bool(plain)


def whole_number(name: str, value: object) -> int:
    """A whole number, also of numpy or an array of one; refuses fractions, words and booleans."""
    if type(value) is int:  # ten times faster than the general path
        return value
    with suppress(TypeError):  # of an array of several
        if not isinstance(_plain(value), bool) and isinstance(value, SupportsIndex):
            return value.__index__()
    refuse_words(name, str(value))
    if name == "pads" and _items(value):
        raise RequestError(f"{field(name)} has the pair {value!r:.60}; use {field(ENDS[0])} and {field(ENDS[1])}")
    raise RequestError(f"{field(name)} has {brief(value)}; a whole number is needed")


def refuse_words(name: str, text: str) -> None:
    """Refuses a word of auto_pad as the value of pads, and numbers beside the names of axes."""
    word = text.lower().replace("-", "_")
    if name.startswith("pads") and word in ("same", *AUTO_PADS, *PAD_MODES):
        padding = field("auto_pad", "same_upper" if word == "same" else word)
        raise RequestError(f"{field(name)} takes numbers; use {MEANT['cval'] if word in PAD_MODES else padding}")
    if named := re.findall(r"(\w+)['\"]?\s*[:=]\s*(\d+)", text):
        of = {DIMENSION_NAMES.get(axis.lower(), axis): int(number) for axis, number in named}
        numbers, first = tuple(of.values()), f"; {field('layout', 'WNC')} pools the first of three"
        if of.keys() <= {*"DHW"}:
            other, first = 0 if name.startswith("pads") else 1, ""
            numbers = tuple(of.get(letter, other) for letter in ("DHW" if "D" in of else "HW"))
        alone = f"write {field(name, numbers if len(numbers) > 1 else numbers[0])}, without names, in the order D,H,W"
        raise RequestError(f"{field(name)} is {text[:40]!r}; {alone}{first}")


def number_from(least: float) -> Reader:
    """A finite number of at least `least`; a whole one that 64 bits hold becomes an integer."""

    def number(name: str, value: object) -> float:
        found = _float(value)
        if name == "p" and found == inf:
            maximum = "an infinite power gives the maximum of absolute values: max_pool(abs(x), ...) in Python"
            raise RequestError(f"{field(name)} is inf; {maximum}")
        if not least <= found < inf:
            raise RequestError(f"{field(name)} is {brief(value)}; a finite number of at least {least:g} is needed")
        return int(found) if found == int(found) <= MAX_INT else found

    return number


def tolerance(name: str, value: object) -> float:
    """A number of at least 0, also infinity."""
    found = _float(value)
    if not found >= 0:
        shown = f"{found:g}" if isinstance(_plain(value), int | float) and abs(found) < inf else brief(value)
        raise RequestError(f"{field(name)} is {shown}; it must be at least 0")
    return found


def divisor(name: str, value: object) -> int:
    """A divisor of sums: a whole number other than 0, below 2**31."""
    number = _plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or number == 0 or abs(number) >= 2**31:
        raise RequestError(f"{field(name)} is {brief(value)}; a whole number other than 0 and below 2**31 is needed")
    return number


def _float(value: object) -> float:
    """A number as a float; NaN for what is none, and for whole numbers beyond float64."""
    plain = _plain(value)
    try:
        return float(plain) if isinstance(plain, int | float) and not isinstance(plain, bool) else nan
    except OverflowError:
        return nan


def _in_range(name: str, number: int, least: int, where: str) -> int:
    if number < least:
        raise RequestError(f"{field(name)} is {number} on {where}; it must be at least {least}")
    if number > MAX_INT:
        raise RequestError(f"{field(name)} on {where} is above 2**63 - 1, the largest number that is read")
    return number


def _items(value: object) -> Sequence[object] | None:
    """The items of a list, a tuple or an array; None for a single value."""
    tolist = getattr(value, "tolist", None)  # a numpy array or scalar
    plain = tolist() if tolist is not None else value
    return plain if isinstance(plain, Sequence) and not isinstance(plain, str | bytes | bytearray) else None


def _plain(value: object) -> object:
    """A numpy scalar as a Python number; any other value unchanged."""
    item = getattr(value, "item", None)
    return item() if item is not None and getattr(value, "shape", None) == () else value


Missing = tuple[int | float, ...]
MinCount = int | str


def missing_from(value: object) -> Missing:
    """The nodata values as a tuple, from one number, several, None or "none"; numbers may be texts."""
    items = () if value is None or (isinstance(value, str) and value == NO_NODATA) else _items(value)
    numbers = list[int | float]()
    for number in map(_plain, (value,) if items is None else items):
        if isinstance(number, str):
            with suppress(ValueError):
                number = int(number) if re.fullmatch(r"[-+]?\d+", number.strip()) else float(number)
        if isinstance(number, bool) or not isinstance(number, int | float):
            found = brief(value if isinstance(number, list) else number)
            raise RequestError(f"{field('missing')} is {found}; write a number, nan, or {NO_NODATA} (no nodata value)")
        if isinstance(number, int) and abs(number) > 2**64:
            raise RequestError(f"{field('missing')} is a whole number beyond 2**64; give larger ones as floats")
        numbers.append(number)
    return tuple(numbers)


def min_count_from(value: object) -> MinCount | None:
    """The least number of valid elements of a window, or their least share as text such as "50%"."""
    if value is None:
        return None
    text, share = str(value).strip(), None
    with suppress(ValueError):
        if text.endswith("%"):
            share = float(text[:-1])
        elif not isinstance(value, float | bool) and int(text) >= 1:
            return int(text)
    if share is None or not 0 < share <= 100:
        wanted = "a whole number of at least 1, or a share above 0% and up to 100%"
        raise RequestError(f"{field('min_count')} is {brief(value)}; give {wanted}")
    return f"{share:.15g}%"


@dataclass(frozen=True, slots=True)
class Fit:
    """The largest size of an image in pixels, and as a share of its own."""

    width: int = MAX_INT
    height: int = MAX_INT
    percent: str = "100"


def fit_from(fit: object) -> Fit:
    """The size from `150`, `200x150` (width by height) or `50%`; refuses other values."""
    words = str(fit) if isinstance(fit, str | int) and not isinstance(fit, bool) else ""
    found = re.fullmatch(r"\s*0*([1-9]\d{0,18})(?:\s*[xX×]\s*0*([1-9]\d{0,18}))?\s*", words)
    if share := re.fullmatch(r"\s*(?=.*[1-9])(\d{1,9}(?:\.\d{1,9})?)\s*%\s*", words):
        return Fit(percent=share[1])
    if not found:
        needed = "a size in pixels is needed, such as 800, 800x600 (width by height), or a share such as 50%"
        raise RequestError(f"{field('fit')} is {brief(fit)}; {needed}")
    return Fit(int(found[1]), int(found[2] or found[1]))
