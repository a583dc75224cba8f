"""From the words of a command line to values, one for each parameter of the command."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from typing import Any

from poolcli.cli.mistakes import no_option, operator_first, too_many
from poolcli.cli.options import SETTINGS, Argument, Option
from poolcli.cli.parameters import Parameter
from poolcli.cli.words import operator_called
from poolcli.core.errors import RequestError
from poolcli.core.fields import TURNED_OFF, field
from poolcli.core.values import one_of

TRUTHS = ("true", "false", "yes", "no", "on", "off")


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag: what it is of, and the value that it sets; None where the value follows."""

    parameter: Parameter
    value: str | bool | None = None


def flags_of(parameters: Sequence[Parameter]) -> dict[str, Flag]:
    """Every flag of a command, those included that other frameworks have for it."""
    flags: dict[str, Flag] = {}
    by_name = {each.name: each for each in parameters}
    for each in parameters:
        if isinstance(each.row, Option):
            value = True if each.kind is bool else None
            flags |= dict.fromkeys((*each.row.names, *each.row.also.split()), Flag(each, value))
            if each.row.turns_off:
                flags[each.row.turns_off] = Flag(each, False)
    settings = {flag: Flag(by_name[name], to) for flag, (name, to) in SETTINGS.items() if name in by_name}
    return flags | settings


def parse(command: str, parameters: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any]:
    """The value of each parameter, its default where nothing was typed; refuses what nothing is meant by."""
    reader = _Reader(command, flags_of(parameters))
    reader.read(words)
    values: dict[str, Any] = {each.name: each.default for each in parameters}
    values |= _placed([each for each in parameters if isinstance(each.row, Argument)], reader.placed, command)
    for name, given in reader.given.items():
        values[name] = given
    return values


class _Reader:
    """Takes one word after the other: `given` are the options, `placed` the rest."""

    def __init__(self, command: str, flags: dict[str, Flag]) -> None:
        self._command, self._flags = command, flags
        self._waiting: deque[str] = deque()
        self.given: dict[str, Any] = {}
        self.placed: list[str] = []

    def read(self, words: Sequence[str]) -> None:
        self._waiting.extend(words)
        while self._waiting:
            word = self._waiting.popleft()
            if word == "--":
                self.placed += self._waiting
                return
            if word.startswith("-") and word != "-":
                self._option(word)
            else:
                self.placed.append(word)

    def _option(self, word: str) -> None:
        """One option, with its value behind = or in the next word; `-qn` are two."""
        name, sign, value = word.partition("=")
        if not word.startswith("--"):
            name, value = word[:2], word[2:].removeprefix("=")
            sign = value and "="
        flag = self._flags.get(name) or self._flags.get(_plain(name))
        if flag is None:
            raise no_option(self._command, word, self._flags)
        if flag.value is None:
            self._take(flag.parameter, value if sign else self._next(flag.parameter))
        elif not sign or (not word.startswith("--") and "-" + value[0] in self._flags):
            self._set(flag.parameter, flag.value, name)
            if sign:
                self._waiting.appendleft("-" + value)
        else:
            raise _takes_none(name, flag, value)

    def _next(self, parameter: Parameter) -> str:
        row = parameter.row
        if isinstance(row, Option) and row.alone and not (self._waiting and self._is_value(row, self._waiting[0])):
            return row.alone
        if not self._waiting or self._waiting[0] in self._flags:
            raise RequestError(f"{field(parameter.name)} needs a value, for example {_example(parameter)}")
        return self._waiting.popleft()

    def _is_value(self, row: Option, word: str) -> bool:
        """Whether a word belongs to the option before it, which may stand alone, and is no input."""
        return bool(re.fullmatch(row.value, word)) and (bool(self.placed) or not os.path.lexists(word))

    def _take(self, parameter: Parameter, text: str) -> None:
        if parameter.numbers or parameter.name == "solve":
            self._refuse_apart(parameter, text)
        value = read_value(parameter, text)
        if parameter.many:
            self.given[parameter.name] = (*self.given.get(parameter.name, ()), value)
            return
        if self.given.get(parameter.name, value) != value:
            first = self.given[parameter.name]
            raise RequestError(f"{field(parameter.name)} is given twice, as {first} and as {text}; give it once")
        self.given[parameter.name] = value

    def _set(self, parameter: Parameter, value: str | bool, name: str) -> None:
        if self.given.get(parameter.name, value) != value:
            raise RequestError(f"{name} contradicts what is given of {field(parameter.name)}; give one of them")
        self.given[parameter.name] = value
        if self._waiting and self._waiting[0].lower() in TRUTHS and not os.path.lexists(self._waiting[0]):
            raise _takes_none(name, Flag(parameter, value), self._waiting[0])

    def _refuse_apart(self, parameter: Parameter, text: str) -> None:
        """Numbers of axes that are words of their own would be taken for inputs."""
        apart = [text]
        while self._waiting and self._waiting[0].isdecimal() and not os.path.lexists(self._waiting[0]):
            apart.append(self._waiting.popleft())
        if len(apart) > 1:
            flag = field(parameter.name)
            raise RequestError(
                f"{flag} takes its numbers as one word, found {' '.join(apart)}; "
                f"write {field(parameter.name, ','.join(apart))}"
            )


def read_value(parameter: Parameter, text: str) -> Any:
    """The value that is typed as `text`."""
    if parameter.row.words and parameter.name not in ("op", "dtype", "input_dtype"):
        return one_of(parameter.name, text, parameter.row.words)
    if parameter.kind not in (int, float):
        return text
    try:
        return parameter.kind(text)
    except ValueError:
        wanted = "whole number" if parameter.kind is int else "number"
        raise RequestError(
            f"{field(parameter.name)} is {text!r}, a {wanted} is needed, for example {_example(parameter)}"
        ) from None


def _placed(arguments: Sequence[Parameter], words: list[str], command: str) -> dict[str, Any]:
    """The values of what is given by its place: one word each, and all that are left to the one that collects."""
    values: dict[str, Any] = {}
    left = deque(words)
    for each in arguments:
        if each.many:
            values[each.name] = tuple(left)
            left.clear()
        elif left:
            values[each.name] = _operator(words) if each.name == "op" else read_value(each, left[0])
            left.popleft()
        if each.default is MISSING and not values.get(each.name):
            raise RequestError(f"{command} needs {field(each.name)}, for example {each.row.example}")
    if left:
        raise too_many(command, [*words], left[0])
    return values


def _operator(words: list[str]) -> str:
    reversed_words = operator_first(words)
    if reversed_words is not None:
        raise reversed_words
    return operator_called(words[0])


def _takes_none(name: str, flag: Flag, text: str) -> RequestError:
    other = TURNED_OFF.get(flag.parameter.name)
    opposite = f", or {other} for the opposite" if other and flag.value is True else ""
    return RequestError(f"{name} takes no value, found {text}; write {name} alone{opposite}", field=flag.parameter.name)


def _example(parameter: Parameter) -> str:
    return field(parameter.name, parameter.row.example or (parameter.row.words or ("X",))[0])


def _plain(name: str) -> str:
    return name.lower().replace("_", "-") if name.startswith("--") else name
