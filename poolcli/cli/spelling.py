"""The words of a command before Typer parses them: spellings of other frameworks, and values that need their option."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile

from poolcli.arguments import one_of
from poolcli.cli.mistakes import no_option, refuse_misplaced, unread_number
from poolcli.cli.operators import OPERATOR_WORDS, operator_called
from poolcli.cli.program import HELP, HELP_ALL, SETTINGS, Command, Parameter, settings
from poolcli.dtypes import DTYPES, dtype_from_alias
from poolcli.errors import RequestError
from poolcli.message_fields import field

DASHES = (
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d"  # hyphens, dashes and minus signs, none of which is typed
)
TRUTHFUL = ("--include-pad", "--exclude-pad", *SETTINGS)  # what other programs give a truth value
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def spelt(command: Command, words: Sequence[str]) -> list[str]:
    """The words with options and values as Typer knows them; refuses words that belong to the option before them.

    A line that asks for help needs no spelling.
    """
    if not {*HELP, HELP_ALL}.isdisjoint(words):
        return list(words)
    return _Line(str(command.name), command.taken, words).spelt()


class _Line:
    """The words of one command, read from the left; `found` are those that Typer gets."""

    def __init__(self, command: str, taken: Sequence[Parameter], words: Sequence[str]) -> None:
        self.command, self.taken, self.words = command, taken, words
        self.flags = {flag: each for each in taken for flag in each.names if each.flags}
        self.settings = settings(taken)
        self.rest = list(words)
        self.found = list[str]()
        self.given = dict[str, str]()  # by the names of parameters: the words that were typed for them
        self.placed = list[str]()  # words that no option takes
        self.unknown = False  # whether there is an option that the command does not have, which Typer refuses

    def spelt(self) -> list[str]:
        while self.rest:
            word = self.rest.pop(0)
            if word == "--":
                self.placed += self.rest
                self.found += [word, *self.rest]
                break
            _refuse_dash(word)
            _refuse_without_dashes(word, self.flags, self.settings)
            self._read(word)
        places = [each for each in self.taken if not each.flags]
        if not self.unknown and not any(each.many for each in places):
            refuse_misplaced(self.command, self.placed[: len(places)], self.placed[len(places) :], self.words)
        return self.found

    def _read(self, word: str) -> None:
        name, sign, value = word.partition("=")
        flag = name.lower().replace("_", "-") if name.startswith("--") else name
        if flag in self.settings:
            true, false = self.settings[flag]
            meant = true if self._truth(flag, value if sign else None) else false
            self._read(meant)
        elif flag not in self.flags and re.match("-[A-Za-z].", word):
            self._read_joined(word)
        elif flag not in self.flags:
            self.found.append(word)
            if word == "-" or not word.startswith("-"):
                self.placed.append(word)
            else:
                self.unknown = True
        elif self.flags[flag].is_flag:
            self._read_flag(self.flags[flag], flag, value if sign else None)
        else:
            self._read_option(self.flags[flag], value if sign else None)

    def _read_joined(self, word: str) -> None:
        """Short options in one word, the last with its value, as in -qk2; -kernel is --kernel with a dash missing."""
        named = f"-{word.partition('=')[0]}".lower().replace("_", "-")
        if named in self.flags or named in self.settings:
            _, sign, value = word.partition("=")
            raise RequestError(f"{word} has one dash; write {named}{sign}{value}")
        for at, letter in enumerate(word[1:], 1):
            each = self.flags.get(f"-{letter}")
            if each is None:
                raise no_option(self.command, word, (self.command, *self.words))
            if not each.is_flag:
                value = word[at + 1 :].removeprefix("=")
                return self._read_option(each, value or None)
            self.found.append(each.flags[-1])
        return None

    def _read_flag(self, each: Parameter, flag: str, value: str | None) -> None:
        on = (flag not in each.off) == self._truth(flag, value)
        chosen = each.flags[-1] if on else next(iter(each.off), "")
        if chosen and each.off:
            other = self.given.setdefault(each.name, chosen)
            if other != chosen:
                first, second = each.flags[-1], each.off[-1]
                raise RequestError(f"{first} and {second} contradict each other; give one of them")
        self.found += [chosen] if chosen else []

    def _truth(self, flag: str, value: str | None) -> bool:
        """Whether a flag is on: `=false` and the word `false` behind it turn it off."""
        if value is None:
            word = self.rest[0].lower() if self.rest and not os.path.lexists(self.rest[0]) else ""
            if word.isdecimal() and int(word) > 1 and self.command != "shape":
                raise unread_number(flag, word, self.taken, self.words)
            if word not in TRUE + FALSE:
                if word.isalpha() and flag in TRUTHFUL and self.placed:
                    raise RequestError(f"{flag} takes no value, found {self.rest[0]}; write {flag} alone")
                return True
            value = self.rest.pop(0)
        if value.lower() not in TRUE + FALSE:
            raise RequestError(f"{flag} takes no value, found {value}; write {flag} alone")
        return value.lower() in TRUE

    def _read_option(self, each: Parameter, value: str | None) -> None:
        if value is None:
            value = self._value(each)
            if each.numbers:
                _refuse_apart(each.name, value, self.rest)
        if each.writes and value.lower() in TRUE + FALSE and not os.path.lexists(value):
            raise RequestError(f"{field(each.name)} takes a path, found {value}; write {each.setting}")
        word = _read_value(each, value)
        before = self.given.setdefault(each.name, value)
        if not each.many and before != value and _read_value(each, before) != word:
            raise RequestError(f"{field(each.name)} is given twice, as {before} and as {value}; give it once")
        self.found += [each.flags[-1], word]

    def _value(self, each: Parameter) -> str:
        """The word that is the value of an option; refuses another option in its place."""
        rest = self.rest
        if each.alone and not (rest and _follows(each.value, rest[0], bool(self.placed))):
            return each.alone
        if not rest or rest[0].partition("=")[0] in self.flags:
            raise RequestError(f"{field(each.name)} needs a value, for example {each.setting}")
        return rest.pop(0)


def _read_value(each: Parameter, value: str) -> str:
    """The value as Typer knows it: one of the option's words in whatever spelling, or a number."""
    words = each.words
    if words == tuple(OPERATOR_WORDS):
        return operator_called(value, each.name)
    if words == tuple(DTYPES):
        return dtype_from_alias(value) or one_of(each.name, value, words)
    if words:
        return one_of(each.name, value, words)
    if each.kind not in (int, float):
        return value
    try:
        return str(each.kind(value))
    except ValueError:
        wanted = "a whole number" if each.kind is int else "a number"
        named = field(each.name)
        raise RequestError(f"{named} is {value!r}, {wanted} is needed, for example {each.setting}") from None


def _follows(pattern: str, word: str, placed: bool) -> bool:
    """Whether a word is the value of the option before it, which may stand alone, and is no input: a wrong value, too,
    where there is an input already.
    """
    if os.path.lexists(word):
        return placed and bool(re.fullmatch(pattern, word))
    return bool(re.fullmatch(pattern, word)) or (placed and not re.match("-|.*[*?[]", word))


def _refuse_dash(word: str) -> None:
    """Refuses what looks like an option: word processors and web pages make other dashes of hyphens."""
    name = word.lstrip(DASHES + "-")
    if not name or word[0] not in DASHES + "-" or not set(word[:2]) & set(DASHES) or os.path.lexists(word):
        return
    hyphens = "-" if name[0].isalpha() and not (name[1:2].isalpha() or name[1:2] == "-") else "--"
    raise RequestError(f"{word} begins with a dash that is no hyphen; type {hyphens}{name}")


def _refuse_without_dashes(word: str, flags: Mapping[str, Parameter], others: Collection[str]) -> None:
    """Refuses an option as Python has it: padding=1."""
    name, sign, value = word.partition("=")
    flag = f"--{name.lower().replace('_', '-')}"
    if not sign or not (flag in flags or flag in others) or os.path.lexists(word):
        return
    joint = "=" if flag in others or flags[flag].is_flag else " "
    raise RequestError(f"{word} is not a file; an option begins with dashes: {flag}{joint if value else ''}{value}")


def _refuse_apart(name: str, value: str, rest: Sequence[str]) -> None:
    """Refuses numbers in several words, as in -k 3 3."""
    apart = [value, *takewhile(lambda word: word.isdecimal() and not os.path.lexists(word), rest)]
    if len(apart) > 1:
        written = field(name, ",".join(apart))
        if name == "pads" and len(apart) > 3:  # of both ends, as ONNX has them
            half = len(apart) // 2
            ends = [
                field(f"pads_{end}", ",".join(each)) for end, each in (("begin", apart[:half]), ("end", apart[half:]))
            ]
            written = field(name, apart[0]) if len({*apart}) == 1 else " ".join(ends)
        raise RequestError(f"{field(name)} takes its numbers as one word, found {' '.join(apart)}; write {written}")
