"""The values of options: how `2`, `2,2`, `2x2` or `[2,2]` are read, and which attributes an operator gets."""

from __future__ import annotations

import re
import unicodedata
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
_ITEM = re.compile(r"[^,xX×\s]+|[,xX×]")
_SEPARATORS = tuple(",xX×")
MAX_DIGITS = 20  # digits; 2**63 has 19
_LIST = re.compile(rf"\d{{1,{MAX_DIGITS}}}(,\d{{1,{MAX_DIGITS}}})*")
_OTHER_SEPARATORS = re.compile(r"\s*[\s;:/*+|,xX×]\s*")
UNKNOWN_LENGTHS = ("none", "null", "batch", "dynamic", "any")
# The words that other libraries take as padding, and the setting for each.
PADDING_MODES: dict[str, tuple[str, object]] = {
    **{str(word): ("auto_pad", word) for word in AUTO_PADS},
    "same": ("auto_pad", "same_upper"),
    **dict.fromkeys(("zero", "zeros", "constant"), ("pads", 1)),
}


def parse_numbers(option: str, text: str) -> tuple[int, ...]:
    """The integers in `text`; a bad element is shown with a caret under it."""
    inner_start, inner_stop = _inside_brackets(text)
    numbers: list[int] = []
    number_next = True
    for match in _ITEM.finditer(text, inner_start, inner_stop):
        item = match.group()
        if (item in _SEPARATORS) == number_next or (number_next and not _is_number(item)):
            raise _number_error(option, text, match.start(), item)
        if number_next:
            numbers.append(int(item))
        number_next = not number_next
    if number_next:
        raise _number_error(option, text, inner_stop, "")
    return tuple(numbers)


def refuse_shape(text: str) -> None:
    """Refuses text that looks like a shape but is none, such as one with names or spaces; accepts all other text."""
    items = [item for item in re.split(r"[,;:\sx*]+", text.strip("[](){} ")) if item]
    if len(items) > 1 and all(item.isascii() and item.isdigit() for item in items) and not all(map(_is_number, items)):
        raise RequestError(f"{text[:60]} is not a file, and as a shape it has a dimension above 2**63 - 1")
    numbers = [re.fullmatch(r"[-+]?\d*\.?\d*(e[-+]?\d+)?", item, re.IGNORECASE) for item in items]
    if len(items) > 1 and all(numbers) and not all(map(_is_number, items)):
        raise RequestError(
            f"{text} is neither a file nor a shape; write whole numbers separated by commas, such as 1,3,32,32"
        )
    if len(items) < 2 or not all(
        _is_number(item) or (item.isalpha() and (len(item) == 1 or item.lower() in UNKNOWN_LENGTHS)) or item == "?"
        for item in items
    ):
        return
    number = ",".join(item if _is_number(item) else "64" if i else "1" for i, item in enumerate(items))
    known = "" if number == ",".join(items) else " (for a dynamic axis use any positive number)"
    raise RequestError(
        f"{text} is neither a file nor a shape (whole numbers separated by commas); write {number}{known}"
    )


def is_number_list(text: str) -> bool:
    """Whether `parse_numbers` accepts `text`."""
    try:
        parse_numbers("", text)
    except RequestError:
        return False
    return True


def _inside_brackets(text: str) -> tuple[int, int]:
    start, stop = len(text) - len(text.lstrip()), len(text.rstrip())
    if stop - start >= 2 and text[start] + text[stop - 1] in ("[]", "()"):
        return start + 1, stop - 1
    return start, stop


def _is_number(item: str) -> bool:
    digits = item.removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS


def _number_error(option: str, text: str, at: int, item: str) -> RequestError:
    if item.isascii() and item.isdigit() and len(item) > MAX_DIGITS:
        return RequestError(f"{option} is above 2**63 - 1, the largest number that is read")
    found = "nothing" if not item else f"{item[:30]!r}"
    wrong = f"no comma before {found}" if _is_number(item) else f"{found} where a whole number is needed"
    joined = _OTHER_SEPARATORS.sub(",", text.strip().strip("[](){}")).removesuffix(",")
    meant = ",".join(map(_as_integer, joined.split(",")))
    example = "1,3,224,224" if option == "SHAPE" else "2 or 2,3 or 2x3"
    remedy = f"; write {meant}" if meant != text and _LIST.fullmatch(meant) else f", for example {example}"
    return RequestError(f"{option} has {wrong}{remedy}", pointed=(f"  {text[:70]}", f"  {' ' * at}^"))


def _as_integer(item: str) -> str:
    """A whole number in plain digits if the item is one, such as `2.0`, `1e1` or digits of another script."""
    try:
        number = float(unicodedata.normalize("NFKC", item))
    except ValueError:
        return item
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else item


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
