"""The attributes of operators on the command line: which options each has, and from what is typed to its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from poolcli.arguments import AUTO_PADS
from poolcli.cli.options import Windows
from poolcli.cli.values import parse_numbers
from poolcli.errors import RequestError
from poolcli.message_fields import BOTH_ENDS, field
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import Attributes
from poolcli.suggestions import listed

Value = int | float | str | bool | tuple[int, ...]
PADDINGS = {"same": "same_upper", "valid": "valid"} | {word: word for word in AUTO_PADS}  # which Keras has as padding
# The options that take a number for each axis.
NUMBERS = {own.name for op in OPERATORS.values() for own in fields(op) if "PerAxis" in str(own.type)} | {*BOTH_ENDS}


def attribute_names(op: str) -> tuple[str, ...]:
    """The options of operator `op`: the fields of its record, and `pads` for both ends of pads."""
    own = [each.name for each in fields(OPERATORS[op])]
    return (*own, *(both for both, ends in BOTH_ENDS.items() if {*ends} <= {*own}))


def attributes_of(op: str | None, asked: Windows) -> dict[str, Value]:
    """The attributes of operator `op` that were given; refuses options of others, and pads that are given twice.

    Without an operator those of all are read.
    """
    options = {each.name: getattr(asked, each.name) for each in fields(Windows)}
    given = {name: value for name, value in options.items() if value is not None}
    values: dict[str, Value] = {}
    for name, value in given.items():
        if op and name not in attribute_names(op):
            raise _of_others(op, name, value)
        ends = BOTH_ENDS.get(name, (name,))
        if len(ends) > 1 and not given.keys().isdisjoint(ends):
            both = " and ".join(map(field, ends))
            raise RequestError(f"{field(name)} sets both ends; give either {field(name)} or {both}")
        if name == "pads" and value.lower() in ("zero", "zeros", "constant"):
            raise RequestError(f"{field(name)} takes numbers, found {value}; write {field(name, 1)}, which adds zeros")
        if name == "pads" and value.lower().replace("-", "_") in PADDINGS:
            word = PADDINGS[value.lower().replace("-", "_")]
            raise RequestError(f"{field(name)} takes numbers, found {value}; write {field('auto_pad', word)}")
        values |= dict.fromkeys(ends, parse_numbers(field(name), value) if name in NUMBERS else value)
    return values


def _of_others(op: str, name: str, value: object) -> RequestError:
    """The refusal of an attribute that other operators have."""
    others = listed([other for other in OPERATORS if name in attribute_names(other)], "and")
    own = next(each.name for each in fields(OPERATORS[op]) if each.default is MISSING)
    instead = f"; {op} goes by {field(own)}" if own != "kernel" or name == "output_size" else ""
    named = field(name, value if isinstance(value, bool) else None)
    return RequestError(f"{op} has no {named}, which is for {others}{instead}")


def operator_of(op: str, given: Mapping[str, Value]) -> Attributes:
    """The record of operator `op` with the given attributes; refuses a missing one."""
    record, values = OPERATORS[op], dict[str, Any](given)
    for own in fields(record):
        if own.default is MISSING and own.name not in values:
            raise RequestError(f"{op} needs {field(own.name)}, for example {field(own.name, 2)}")
    return record(**values)
