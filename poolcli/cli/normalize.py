"""Normalizes the arguments of a command before Typer parses them: spellings of other frameworks, optional values."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import NoReturn

from poolcli.cli import mistakes
from poolcli.cli.program import HELP, HELP_ALL, Command, Parameter, foreign_flags, foreign_setting
from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.suggestions import FLAGS

# Hyphens, dashes and minus signs that word processors and web pages make of "-".
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d"
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
TAKES_BOOLEAN = ("--exclude-pad", *(f"--{flag}" for flag in FLAGS))  # flags that have a value in other programs


def normalize(command: Command, words: Sequence[str]) -> list[str]:
    """The arguments in the form that Typer parses; refuses what Typer would misread. A call for help stays as it is."""
    if not {*HELP, HELP_ALL}.isdisjoint(words):
        return list(words)
    return _Line(command, words).normalize()


class _Line:
    """The arguments of one command, read from left to right."""

    def __init__(self, command: Command, words: Sequence[str]) -> None:
        self.command, self.parameters, self.words = str(command.name), command.parameters, words
        self.flags = {flag: each for each in self.parameters for flag in each.names if each.flags}
        self.foreign = foreign_flags(self.parameters)
        self.rest = list(words)  # what is still to be read
        self.result = list[str]()  # what Typer gets
        self.given = dict[str, str]()  # the value that was typed for each parameter
        self.positional = list[str]()
        self.places = list[int]()  # in `words`, of the positional arguments

    def normalize(self) -> list[str]:
        while self.rest:
            word = self.rest.pop(0)
            if word == "--":
                self.places += range(len(self.words) - len(self.rest), len(self.words))
                self.positional += self.rest
                self.result += [word, *self.rest]
                break
            _refuse_dash(word)
            _refuse_without_dashes(word, self.flags, self.foreign)
            self._read(word)
        places = [each for each in self.parameters if not each.flags]
        if "" in self.positional:
            _refuse_empty(places[min(self.positional.index(""), len(places) - 1)])
        if not any(each.multiple for each in places):
            filled, extra = self.positional[: len(places)], self.positional[len(places) :]
            if self.command == "shape" and filled:
                mistakes.refuse_no_operator(filled[0], self.words)
            if extra:
                raise mistakes.extra_argument(self.command, self.words, self.places, len(places))
        return self.result

    def _read(self, word: str) -> None:
        name, equals, typed = word.partition("=")
        value = typed if equals else None
        flag = name.lower().replace("_", "-") if name.startswith("--") else name
        if flag in self.foreign:
            self._read(foreign_setting(flag, self._is_on(flag, value)).replace(" ", "="))
        elif flag in self.flags and self.flags[flag].is_flag:
            self._read_flag(self.flags[flag], flag, value)
        elif flag in self.flags:
            self._read_option(self.flags[flag], value)
        elif re.match("-[A-Za-z].", word):
            self._read_short_options(word)
        elif word != "-" and word.startswith("-"):
            raise mistakes.unknown_option(self.command, word, self.words)
        else:
            self.result.append(word)
            self.places.append(len(self.words) - len(self.rest) - 1)
            self.positional.append(word)

    def _read_short_options(self, word: str) -> None:
        """Reads short options in one word, as in -qk2; refuses -kernel, a long option with one dash."""
        name, equals, value = word.partition("=")
        long = f"-{name}".lower().replace("_", "-")
        if long in self.flags or long in self.foreign:
            raise RequestError(f"{word} has one dash; write {long}{equals}{value}")
        for at, letter in enumerate(word[1:], 1):
            each = self.flags.get(f"-{letter}")
            if each is None:
                raise mistakes.unknown_option(self.command, word, self.words)
            if not each.is_flag:
                self._read_option(each, word[at + 1 :].removeprefix("=") or None)
                return
            self.result.append(each.flags[-1])

    def _read_flag(self, each: Parameter, flag: str, value: str | None) -> None:
        on = (flag not in each.off_flags) == self._is_on(flag, value)
        chosen = each.flags[-1] if on else next(iter(each.off_flags), "")
        if each.off_flags and self.given.setdefault(each.name, chosen) != chosen:
            raise RequestError(f"{each.flags[-1]} and {each.off_flags[-1]} contradict each other; give one")
        self.result += [chosen] if chosen else []

    def _is_on(self, flag: str, value: str | None) -> bool:
        """Whether a flag is on: `--flag=false` and `--flag false` turn it off."""
        if value is None:
            word = self.rest[0].lower() if self.rest and not os.path.lexists(self.rest[0]) else ""
            is_number = word.isdecimal() and int(word) > 1 and self.command != "shape"
            is_word = word.isalpha() and flag in TAKES_BOOLEAN and self.positional
            if word not in TRUE + FALSE and not is_number and not is_word:
                return True
            value = self.rest.pop(0)
        if value.lower() not in TRUE + FALSE:
            raise mistakes.unexpected_value(self.command, flag, value, self.words)
        return value.lower() in TRUE

    def _read_option(self, each: Parameter, value: str | None) -> None:
        if value is None:
            value = self._next_value(each)
            if each.per_axis:
                _refuse_split_numbers(each.name, value, self.rest)
        if not value:
            _refuse_empty(each)
        if each.is_output and value.lower() in TRUE + FALSE and not os.path.lexists(value):
            raise RequestError(f"{field(each.name)} takes a path, not {value}; write {each.usage}")
        parsed = each.parse(value)
        before = self.given.setdefault(each.name, value)
        if not each.multiple and before != value and each.parse(before) != parsed:
            raise RequestError(f"{field(each.name)} is given twice, as {before} and as {value}; give it once")
        self.result += [each.flags[-1], parsed]
        for _ in range(1, each.nargs):
            self.result += [each.flags[-1], self._next_value(each) or _refuse_empty(each)]

    def _next_value(self, each: Parameter) -> str:
        """The value of an option from the next word; refuses another option in its place."""
        if each.flag_value and not (self.rest and _is_value(each.value_pattern, self.rest[0], bool(self.positional))):
            return each.flag_value
        if not self.rest or self.rest[0].partition("=")[0] in self.flags:
            raise RequestError(f"{field(each.name)} needs a value, for example {each.usage}")
        return self.rest.pop(0)


def _refuse_empty(each: Parameter) -> NoReturn:
    """Refuses a value without characters, which is usually an unset variable of a script."""
    raise RequestError(f"{field(each.name)} is empty (an unset variable?); it needs a value, for example {each.usage}")


def _is_value(pattern: str, word: str, has_input: bool) -> bool:
    """Whether a word is the value of the option before it, which can do without, rather than an input.

    If there is an input already, any word that is not a file is a value, right or wrong.
    """
    if os.path.lexists(word):
        return has_input and bool(re.fullmatch(pattern, word))
    return bool(re.fullmatch(pattern, word)) or (has_input and not re.match("-|.*[*?[]", word))


def _refuse_dash(word: str) -> None:
    """Refuses an option that begins with a typographic dash."""
    name = word.lstrip(DASHES + "-")
    if not name or word[0] not in DASHES + "-" or not set(word[:2]) & set(DASHES) or os.path.lexists(word):
        return
    hyphens = "-" if name[0].isalpha() and not (name[1:2].isalpha() or name[1:2] == "-") else "--"
    raise RequestError(f"{word} begins with a dash that is not a hyphen; write {hyphens}{name}")


def _refuse_without_dashes(word: str, flags: Mapping[str, Parameter], foreign: Collection[str]) -> None:
    """Refuses an option that is written as a Python keyword: padding=1."""
    name, equals, value = word.partition("=")
    flag = f"--{name.lower().replace('_', '-')}" if len(name) > 1 else f"-{name}"
    if not equals or not (flag in flags or flag in foreign) or os.path.lexists(word):
        return
    joint = "=" if flag in foreign or flags[flag].is_flag else " "
    raise RequestError(f"{word} is not a file; an option begins with dashes: {flag}{joint if value else ''}{value}")


def _refuse_split_numbers(name: str, value: str, rest: Sequence[str]) -> None:
    """Refuses numbers in several words, as in -k 3 3."""
    numbers = [value, *takewhile(lambda word: word.isdecimal() and not os.path.lexists(word), rest)]
    if len(numbers) > 1:
        written = field(name, ",".join(numbers))
        if name == "pads" and len(numbers) > 3:  # both ends in one list, as in ONNX
            half = len(numbers) // 2
            ends = (field("pads_begin", ",".join(numbers[:half])), field("pads_end", ",".join(numbers[half:])))
            written = field(name, numbers[0]) if len({*numbers}) == 1 else " ".join(ends)
        raise RequestError(f"{field(name)} takes one comma-separated value, not {' '.join(numbers)}; write {written}")
