"""The attributes of operators on the command line: which options each has, and from what is typed to its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, get_type_hints

from poolcli.arguments import AUTO_PADS, PerAxis
from poolcli.cli.values import parse_numbers
from poolcli.errors import RequestError
from poolcli.message_fields import BOTH_ENDS, field
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import Attributes
from poolcli.suggestions import listed

Value = int | float | str | bool | tuple[int, ...]
PADDINGS = {"same": "same_upper", "valid": "valid"} | {word: word for word in AUTO_PADS}  # which Keras has as padding
NUMBERS = (PerAxis, PerAxis | None)  # types of fields that are typed as 2 or 2,3 or 2x3


def attribute_options(op: str) -> dict[str, tuple[Any, bool]]:
    """The options of operator `op`: its fields, and `pads` for both ends of pads.

    Of each the type that it is read as, and whether it is numbers of axes.
    """
    options: dict[str, tuple[Any, bool]] = {}
    for name, kind in _types(op).items():
        read_as = (str | None, True) if kind in NUMBERS else (kind | None, False)
        short = [both for both, ends in BOTH_ENDS.items() if name == ends[0]]
        options |= dict.fromkeys((*short, name), read_as)
    return options


def all_attribute_options() -> dict[str, tuple[Any, bool]]:
    """Those of all operators; a TypeError where two read an option of the same name as different types."""
    options: dict[str, tuple[Any, bool]] = {}
    for op in OPERATORS:
        for name, kind in attribute_options(op).items():
            if options.setdefault(name, kind) != kind:
                raise TypeError(f"operators read {name} as different types")
    return options


def parse_attributes(op: str | None, typed: Mapping[str, Any]) -> dict[str, Value]:
    """The attributes of operator `op` that were given; refuses options of others, and pads that are given twice.

    Without an operator those of all are read.
    """
    given = {name: value for name, value in typed.items() if value is not None}
    known = attribute_options(op) if op else all_attribute_options()
    for name, value in given.items():
        if op and name not in known:
            others = listed([other for other in OPERATORS if name in attribute_options(other)], "and")
            own = next(each.name for each in fields(OPERATORS[op]) if each.default is MISSING)
            is_size = own != "kernel" or name == "output_size"
            instead = f"; {op} goes by {field(own)}" if is_size else ""
            named = field(name, value if isinstance(value, bool) else None)
            raise RequestError(f"{op} has no {named}, which is for {others}{instead}")
    values: dict[str, Value] = {}
    for name, value in given.items():
        ends = BOTH_ENDS.get(name, (name,))
        if len(ends) > 1 and not given.keys().isdisjoint(ends):
            both = " and ".join(map(field, ends))
            raise RequestError(f"{field(name)} sets both ends; give either {field(name)} or {both}")
        _, in_numbers = known[name]
        if name == "pads" and isinstance(value, str) and value.lower().replace("-", "_") in PADDINGS:
            word = PADDINGS[value.lower().replace("-", "_")]
            raise RequestError(f"{field(name)} takes numbers, found {value}; write {field('auto_pad', word)}")
        values |= dict.fromkeys(ends, parse_numbers(field(name), value) if in_numbers else value)
    return values


def operator_of(op: str, given: Mapping[str, Value]) -> Attributes:
    """The record of operator `op` with the given attributes; refuses a missing one."""
    record, values = OPERATORS[op], dict[str, Any](given)
    for own in fields(record):
        if own.default is MISSING and own.name not in values:
            raise RequestError(f"{op} needs {field(own.name)}, for example {field(own.name, 2)}")
    return record(**values)


@cache
def _types(op: str) -> dict[str, Any]:
    """The type of each field of operator `op`."""
    hints = get_type_hints(OPERATORS[op])
    return {own.name: hints[own.name] for own in fields(OPERATORS[op])}
