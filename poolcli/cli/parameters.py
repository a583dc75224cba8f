"""What a command takes: its parameters derive from the fields of its request and of operators' records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_args, get_type_hints

from poolcli.arguments import one_of
from poolcli.cli.attributes import all_attribute_options, attribute_options, parse_attributes
from poolcli.cli.commands import Command
from poolcli.cli.options import ELEMENTS, OPTIONS, TYPES, Argument, Option
from poolcli.cli.requests.request import Request
from poolcli.cli.words import OPERATOR_WORDS, operator_called
from poolcli.dtypes import dtype_from_alias
from poolcli.errors import RequestError
from poolcli.message_fields import field as field_called
from poolcli.ops import OPERATORS

NUMBERS = ("solve", "chunks", "shards")  # of axes, though no attributes of an operator


@dataclass(frozen=True, slots=True)
class Parameter:
    """A field as it is typed: its row, the type of one value, and what it is where it is left out (MISSING: needed).

    `many` collects values; `numbers` are typed as 2 or 2,3; `text` is its help.
    """

    name: str
    row: Option | Argument
    kind: type
    default: Any
    text: str
    many: bool = False
    numbers: bool = False

    @property
    def is_flag(self) -> bool:
        """Whether it is given without a value."""
        return self.kind is bool

    @property
    def example(self) -> str:
        """How it may be given, for a message."""
        value = self.row.example or next(iter(self.row.words), "X")
        return field_called(self.name, value) if isinstance(self.row, Option) else value


def parameters(command: Command) -> Iterator[Parameter]:
    """What a command takes, in the order of the table of options; attributes stand for those of operators.

    A TypeError for a field that has no row in the table.
    """
    found = {each.name: each for each in _parameters(command)}
    yield from (found[name] for name in OPTIONS if name in found)


def _parameters(command: Command) -> Iterator[Parameter]:
    """The same in the order of the fields."""
    hints = get_type_hints(command.request)
    elements = OPERATOR_WORDS[command.op].elements if command.op else ""
    for field in fields(command.request):
        if field.name == "attributes":
            yield from _attributes(command.op, "pooling" in hints)
        elif field.name not in command.without and not (field.name == "op" and command.op):
            yield _parameter(field.name, hints[field.name], field.default, elements)


def needed(command: Command) -> tuple[str, ...]:
    """The names of what a command cannot do without."""
    own = [each.name for each in parameters(command) if each.default is MISSING]
    return (*own, *command.needs)


def request_of(command: Command, typed: Mapping[str, Any]) -> Request:
    """The request of a command from the words that were typed for each option.

    Refuses what cannot be read, what is missing, and attributes that are none of the operator's.
    """
    own = {field.name for field in fields(command.request)}
    given = {each.name: read_value(each, typed[each.name]) for each in parameters(command) if typed.get(each.name)}
    given |= {name: value for name, value in typed.items() if value is False}
    for each in parameters(command):
        if each.default is MISSING and each.name not in given:
            raise RequestError(f"{command.name} needs {field_called(each.name)}, for example {each.example}")
    values = {name: value for name, value in given.items() if name in own}
    if "attributes" in own:
        op = command.op or given.get("op") or given.get("pooling")
        values |= {"op": op} if "op" in own else {}
        values["attributes"] = parse_attributes(op, {name: given[name] for name in given if name not in own})
    return command.request(**values)


def read_value(parameter: Parameter, typed: str | Sequence[str] | bool) -> Any:
    """The value of a parameter from the words that were typed for it; refuses several where one is meant."""
    if isinstance(typed, bool):
        return typed
    words = [typed] if isinstance(typed, str) else typed
    values = tuple(_read_word(parameter, word) for word in words)
    if parameter.many:
        return values
    for word, value in zip(words, values, strict=True):
        if value != values[0] and word != words[0]:
            both = f"as {words[0]} and as {word}"
            raise RequestError(f"{field_called(parameter.name)} is given twice, {both}; give it once")
    return values[0]


def _read_word(parameter: Parameter, word: str) -> Any:
    if parameter.name in ("op", "pooling"):
        return operator_called(word, parameter.name)
    if parameter.row.words == TYPES:
        return dtype_from_alias(word) or one_of(parameter.name, word, TYPES)
    if parameter.row.words:
        return one_of(parameter.name, word, parameter.row.words)
    if parameter.kind not in (int, float):
        return word
    try:
        return parameter.kind(word)
    except ValueError:
        wanted = "a whole number" if parameter.kind is int else "a number"
        named = field_called(parameter.name)
        raise RequestError(f"{named} is {word!r}, {wanted} is needed, for example {parameter.example}") from None


def _attributes(op: str | None, sought: bool) -> Iterator[Parameter]:
    """The options of attributes; where the attributes are what is sought, none of them has a default."""
    options = attribute_options(op) if op else all_attribute_options()
    default = {} if sought else {"like": OPERATORS[op or "avg"].like}
    for name, (kind, numbers) in options.items():
        yield _parameter(name, kind, None, marked=default.get(name), numbers=numbers)


def _parameter(
    name: str, kind: Any, default: Any, elements: str = "", marked: str | None = None, numbers: bool = False
) -> Parameter:
    if name not in OPTIONS:
        raise TypeError(f"the field {name} has no row in OPTIONS")
    row = OPTIONS[name]
    text = row.text.replace(ELEMENTS, elements)
    if marked:
        text = text.replace(marked, f"{marked} (default)", 1)
    plain = next((each for each in get_args(kind) if each not in (type(None), ...)), kind)
    return Parameter(
        name, row, plain, default, text, many=str(kind).startswith("tuple"), numbers=numbers or name in NUMBERS
    )
