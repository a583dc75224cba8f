"""From option values to the record of an operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from poolcli.cli.values import parse_numbers
from poolcli.core.errors import RequestError
from poolcli.core.values import option
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import Attributes

NUMBER_LISTS = ("kernel", "strides", "pads", "pads_begin", "pads_end", "dilations", "output_size")
REQUIRED = ("kernel", "output_size")


def attribute_options(name: str) -> tuple[str, ...]:
    """The options of operator `name`: its attributes, and `pads` for both ends where it has pads."""
    names = [field.name for field in fields(OPERATORS[name])]
    if "pads_begin" in names:
        names.insert(names.index("pads_begin"), "pads")
    return tuple(names)


SHAPE_ATTRIBUTES = tuple(dict.fromkeys(name for op in OPERATORS for name in attribute_options(op)))


def operator_from(name: str, values: Mapping[str, Any]) -> Attributes:
    """The record of operator `name` with the attributes in `values`; refuses missing and contradicting ones."""
    given: dict[str, Any] = {
        key: parse_numbers(option(key), value) if key in NUMBER_LISTS and isinstance(value, str) else value
        for key, value in values.items()
        if key in attribute_options(name) and value is not None
    }
    pads = given.pop("pads", None)
    if pads is not None:
        if "pads_begin" in given or "pads_end" in given:
            raise RequestError("--pads sets both ends; give either --pads or --pads-begin and --pads-end")
        given |= {"pads_begin": pads, "pads_end": pads}
    record = OPERATORS[name]
    for field in fields(record):
        if field.name in REQUIRED and field.name not in given:
            raise RequestError(f"{name} needs {option(field.name)}, for example {option(field.name)} 2")
    operator: Attributes = record(**given)
    return operator
