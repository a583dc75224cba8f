"""The values of options: how `2`, `2,2`, `2x2` or `[2,2]` are read, and which attributes an operator gets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from poolcli.arguments import AUTO_PADS
from poolcli.errors import RequestError
from poolcli.layouts import fit_from
from poolcli.message_fields import BOTH_ENDS, field
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import Attributes, expand_pads
from poolcli.suggestions import join_words

PER_AXIS = ("kernel", "output_size", "strides", "pads", "pads_begin", "pads_end", "dilations")
# The attributes of all operators, in the order of the help.
ATTRIBUTES = (
    *PER_AXIS, "fit", "auto_pad", "rounding_type", "exclude_pad", "divisor_override", "p", "ddof", "like", "axis",
    "index_element_type",
)  # fmt: skip
MAX_DIGITS = 20  # digits; 2**63 has 19
# What stands in shapes for a length that is not known.
_UNKNOWN = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?|[a-z]|\?|none|null|batch|dynamic|any", re.IGNORECASE)
# The words that other libraries take as padding, and the setting for each.
PADDING_MODES: dict[str, tuple[str, object]] = {
    **{str(word): ("auto_pad", word) for word in AUTO_PADS},
    "same": ("auto_pad", "same_upper"),
    **dict.fromkeys(("zero", "zeros", "constant"), ("pads", 1)),
}


def parse_numbers(option: str, text: str) -> tuple[int, ...]:
    """The integers in `text`, separated by commas or x, in brackets or not; refuses other text."""
    inner = text.strip()
    inner = inner[1:-1] if inner[:1] + inner[-1:] in ("[]", "()") else inner
    items = [item.strip() for item in re.split("[,xX×]", inner)]
    if all(map(_is_number, items)):
        return tuple(map(int, items))
    if len(items) == 1 and inner.isascii() and inner.isdigit():
        raise RequestError(f"{option} is above 2**63 - 1, the largest number that is read")
    example = "1,3,224,224" if option == "SHAPE" else "2 or 2,3 or 2x3"
    raise RequestError(f"{option} is {text[:40]!r}; whole numbers are needed, for example {example}")


def refuse_shape(text: str) -> None:
    """Refuses text that looks like a shape but is none, such as one with names or spaces; accepts all other text."""
    items = [item for item in re.split(r"[,;:\sx*]+", text.strip("[](){} ")) if item]
    if len(items) > 1 and all(map(_UNKNOWN.fullmatch, items)):
        raise RequestError(
            f"{text[:60]} is neither a file nor a shape; write whole numbers separated by commas, such as 1,3,32,32 "
            "(for a dynamic axis any positive number)"
        )


def is_number_list(text: str) -> bool:
    """Whether `parse_numbers` accepts `text`."""
    try:
        parse_numbers("", text)
    except RequestError:
        return False
    return True


def _is_number(item: str) -> bool:
    digits = item.removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS


def attribute_names(op: str) -> tuple[str, ...]:
    """The options of an operator: the fields of its record, `pads`, and `fit` if it has an output size."""
    own = [each.name for each in fields(OPERATORS[op])]
    fit = ("fit",) if "output_size" in own else ()
    return (*own, *fit, *(both for both, ends in BOTH_ENDS.items() if {*ends} <= {*own}))


def offers(op: str, name: str) -> bool:
    """Whether the command of an operator has this option, which not all of them have."""
    reducer = OPERATORS[op].reducer
    return {"indices": reducer.picks, "linear_light": reducer.divides}.get(name, name in attribute_names(op))


def attributes_of(op: str | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of operator `op`, or of any operator if `op` is None, among the values of options; refuses those
    of other operators.
    """
    given = {name: value for name in ATTRIBUTES if (value := values.get(name)) is not None}
    for name in given:
        if op and name not in attribute_names(op):
            raise attribute_of_others(op, name, given[name])
    padding = str(given.get("pads", "")).lower().replace("-", "_")
    if padding in PADDING_MODES:
        name, value = PADDING_MODES[padding]
        raise RequestError(f"{field('pads')} takes numbers, not {given['pads']}; write {field(name, value)}")
    fit = given.pop("fit", None)
    if fit is not None and "output_size" in given:
        raise RequestError(f"{field('fit')} sets the output size; give either {field('fit')} or {field('output_size')}")
    read = {name: parse_numbers(field(name), value) if name in PER_AXIS else value for name, value in given.items()}
    return expand_pads(read | ({} if fit is None else {"output_size": fit_from(fit)}))


def make_operator(op: str, given: Mapping[str, Any]) -> Attributes:
    """The record of operator `op` with the given attributes; refuses a call without a required one."""
    record = OPERATORS[op]
    for own in fields(record):
        if own.default is MISSING and own.name not in given:
            raise RequestError(f"{op} needs {field(own.name)}, for example {field(own.name, 2)}")
    return record(**given)


def attribute_of_others(op: str, name: str, value: object = None) -> RequestError:
    """The refusal of an attribute that only other operators have."""
    others = join_words([other for other in OPERATORS if offers(other, name)], "and")
    own = "kernel" if "kernel" in attribute_names(op) else "output_size"
    instead = f"; {op} uses {field(own)}" if own != "kernel" or name == "output_size" else ""
    named = field(name, value if isinstance(value, bool) else None)
    return RequestError(f"{op} has no {named}, which is for {others}{instead}")
