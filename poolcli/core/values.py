"""Reading numbers and words of attributes: one number for each axis, one word of a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from poolcli.core.errors import RequestError
from poolcli.core.fields import field

PerAxis = int | Sequence[int]
AUTO_PADS = ("explicit", "same_upper", "same_lower", "valid")
ROUNDING_TYPES = ("floor", "ceil", "ceil_torch")
INDEX_TYPES = {"i32": "int32", "i64": "int64"}
LARGEST = 2**63 - 1


def option(field: str) -> str:
    """The command-line option of an attribute: `pads_begin` is `--pads-begin`."""
    return "--" + field.replace("_", "-")


def per_axis(name: str, value: object, axes: Sequence[str], lowest: int) -> tuple[int, ...]:
    """`value` as one integer for each spatial axis; refuses other lengths, fractions and values below `lowest`."""
    items = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else _listed(value)
    numbers = tuple(_integer(name, item) for item in items)
    if len(numbers) == 1:
        numbers *= len(axes)
    if len(numbers) != len(axes):
        letters = ",".join(axes)
        raise RequestError(
            f"{field(name)} has {len(numbers)} numbers, the input has {len(axes)} spatial "
            f"{'axis' if len(axes) == 1 else 'axes'} ({letters}); give 1{'' if len(axes) == 1 else f' or {len(axes)}'}"
        )
    for axis, number in zip(axes, numbers, strict=True):
        if number < lowest:
            raise RequestError(f"{field(name)} is {number} on axis {axis}, it must be at least {lowest}")
        if number > LARGEST:
            raise RequestError(f"{field(name)} on axis {axis} is above 2**63 - 1, the largest number that is read")
    return numbers


def one_of(name: str, value: str, words: Sequence[str]) -> str:
    """`value`, refused with the known words when it is not one of them."""
    if value not in words:
        raise RequestError(f"{field(name)} is {value!r}, it must be one of {', '.join(words)}")
    return value


def _listed(value: object) -> list[object]:
    tolist = getattr(value, "tolist", None)  # a numpy array or scalar
    plain = tolist() if tolist is not None else value
    return plain if isinstance(plain, list) else [plain]


def _integer(name: str, item: object) -> int:
    if not isinstance(item, bool) and isinstance(item, SupportsIndex):
        return item.__index__()
    raise RequestError(f"{field(name)} has {item!r}, a whole number is needed")
