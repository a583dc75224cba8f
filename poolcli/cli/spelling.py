"""The words of a command before Typer parses them: spellings of other frameworks, and values that need their option."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile

from poolcli.cli.mistakes import no_option, no_value, refuse_misplaced
from poolcli.cli.program import HELP, HELP_ALL, Command, Parameter, settings
from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.suggestions import FLAGS

DASHES = (
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d"  # hyphens, dashes and minus signs, none of which is typed
)
TRUTHFUL = ("--exclude-pad", *(f"--{flag}" for flag in FLAGS))  # what other programs give a truth value
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def spelt(command: Command, words: Sequence[str]) -> list[str]:
    """The words with options and values as Typer knows them; refuses words that belong to the option before them.

    A line that asks for help needs no spelling.
    """
    if not {*HELP, HELP_ALL}.isdisjoint(words):
        return list(words)
    return _Line(command, words).spelt()


class _Line:
    """The words of one command, read from the left; `found` are those that Typer gets."""

    def __init__(self, command: Command, words: Sequence[str]) -> None:
        self.command, self.taken, self.words = str(command.name), command.taken, words
        self.flags = {flag: each for each in self.taken for flag in each.names if each.flags}
        self.settings = settings(self.taken)
        self.rest = list(words)
        self.found = list[str]()
        self.given = dict[str, str]()  # by the names of parameters: the words that were typed for them
        self.placed = list[str]()  # words that no option takes

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
        if not any(each.many for each in places):
            refuse_misplaced(self.command, self.placed[: len(places)], self.placed[len(places) :], self.words)
        return self.found

    def _read(self, word: str) -> None:
        name, sign, typed = word.partition("=")
        value = typed if sign else None
        flag = name.lower().replace("_", "-") if name.startswith("--") else name
        if flag in self.settings:
            true, false = self.settings[flag]
            self._read((true if self._truth(flag, value) else false).replace(" ", "="))
        elif flag in self.flags and self.flags[flag].is_flag:
            self._read_flag(self.flags[flag], flag, value)
        elif flag in self.flags:
            self._read_option(self.flags[flag], value)
        elif re.match("-[A-Za-z].", word):
            self._read_joined(word)
        elif word != "-" and word.startswith("-"):
            raise no_option(self.command, word, self.words)
        else:
            self.found.append(word)
            self.placed.append(word)

    def _read_joined(self, word: str) -> None:
        """Short options in one word, the last with its value, as in -qk2; -kernel is --kernel with a dash missing."""
        name, sign, value = word.partition("=")
        named = f"-{name}".lower().replace("_", "-")
        if named in self.flags or named in self.settings:
            raise RequestError(f"{word} has one dash; write {named}{sign}{value}")
        for at, letter in enumerate(word[1:], 1):
            each = self.flags.get(f"-{letter}")
            if each is None:
                raise no_option(self.command, word, self.words)
            if not each.is_flag:
                return self._read_option(each, word[at + 1 :].removeprefix("=") or None)
            self.found.append(each.flags[-1])
        return None

    def _read_flag(self, each: Parameter, flag: str, value: str | None) -> None:
        on = (flag not in each.off) == self._truth(flag, value)
        chosen = each.flags[-1] if on else next(iter(each.off), "")
        if each.off and self.given.setdefault(each.name, chosen) != chosen:
            raise RequestError(f"{each.flags[-1]} and {each.off[-1]} contradict each other; give one")
        self.found += [chosen] if chosen else []

    def _truth(self, flag: str, value: str | None) -> bool:
        """Whether a flag is on: `=false` and the word `false` behind it turn it off."""
        if value is None:
            word = self.rest[0].lower() if self.rest and not os.path.lexists(self.rest[0]) else ""
            is_number = word.isdecimal() and int(word) > 1 and self.command != "shape"
            is_word = word.isalpha() and flag in TRUTHFUL and self.placed
            if word not in TRUE + FALSE and not is_number and not is_word:
                return True
            value = self.rest.pop(0)
        if value.lower() not in TRUE + FALSE:
            raise no_value(self.command, flag, value, self.words)
        return value.lower() in TRUE

    def _read_option(self, each: Parameter, value: str | None) -> None:
        if value is None:
            value = self._value(each)
            if each.numbers:
                _refuse_apart(each.name, value, self.rest)
        if each.writes and value.lower() in TRUE + FALSE and not os.path.lexists(value):
            raise RequestError(f"{field(each.name)} takes a path, not {value}; write {each.setting}")
        word = each.read(value)
        before = self.given.setdefault(each.name, value)
        if not each.many and before != value and each.read(before) != word:
            raise RequestError(f"{field(each.name)} is given twice, as {before} and as {value}; give it once")
        self.found += [each.flags[-1], word]
        for _ in range(1, each.words_each):
            self.found += [each.flags[-1], self._value(each)]

    def _value(self, each: Parameter) -> str:
        """The word that is the value of an option; refuses another option in its place."""
        if each.alone and not (self.rest and _follows(each.value, self.rest[0], bool(self.placed))):
            return each.alone
        if not self.rest or self.rest[0].partition("=")[0] in self.flags:
            raise RequestError(f"{field(each.name)} needs a value, for example {each.setting}")
        return self.rest.pop(0)


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
    raise RequestError(f"{word} begins with a dash that is not a hyphen; write {hyphens}{name}")


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
            ends = (field("pads_begin", ",".join(apart[:half])), field("pads_end", ",".join(apart[half:])))
            written = field(name, apart[0]) if len({*apart}) == 1 else " ".join(ends)
        raise RequestError(f"{field(name)} takes one comma-separated value, not {' '.join(apart)}; write {written}")
