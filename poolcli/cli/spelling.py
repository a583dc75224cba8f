"""The words of a command before Typer parses them: spellings of other frameworks, values that lost their option."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile

from poolcli.cli.options import SETTINGS, Option
from poolcli.cli.parameters import Parameter
from poolcli.errors import RequestError
from poolcli.message_fields import TURNED_OFF, field

DASHES = (
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d"  # hyphens, dashes and minus signs, none of which is typed
)
TRUTHS = ("true", "false", "yes", "no", "on", "off")


def spelt(taken: Sequence[Parameter], words: Sequence[str]) -> list[str]:
    """The words with options as the table has them; refuses words that belong to the option before them."""
    flags = {flag: each for each in taken if isinstance(each.row, Option) for flag in each.row.all_flags}
    names = {each.name for each in taken}
    settings = {flag: to for flag, (name, to) in SETTINGS.items() if name in names}
    found, rest, placed = list[str](), list(words), False
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*found, word, *rest]
        _refuse_dash(word)
        _refuse_without_dashes(word, flags, settings)
        name, sign, value = word.partition("=")
        plain = name.lower().replace("_", "-") if name.startswith("--") else name
        parameter = flags.get(plain)
        if plain in settings or (parameter and parameter.is_flag):
            _refuse_value(plain, parameter, value if sign else next(_truths(rest), ""))
            found.append(settings.get(plain, plain))
        elif parameter and (not sign or len(plain) == 2):  # -k=3, of which parsers make "=3"
            rest[:0] = [value] if sign else []
            found += [plain, _value(parameter, flags, rest, placed)]
        else:
            if parameter:
                _refuse_truth(parameter, value)
            found.append(plain + sign + value if parameter else word)
            placed = placed or not word.startswith("-")
    _refuse_opposites(found)
    return found


def _value(parameter: Parameter, flags: dict[str, Parameter], rest: list[str], placed: bool) -> str:
    """The word that is the value of an option; refuses another option in its place, and numbers in several words."""
    row = parameter.row
    if isinstance(row, Option) and row.alone and not (rest and _is_value(row, rest[0], placed)):
        return row.alone
    if not rest or rest[0].partition("=")[0] in flags:
        raise RequestError(f"{field(parameter.name)} needs a value, for example {parameter.example}")
    value = rest.pop(0)
    _refuse_truth(parameter, value)
    if parameter.numbers:
        _refuse_apart(parameter.name, value, rest)
    return value


def _is_value(row: Option, word: str, placed: bool) -> bool:
    """Whether a word belongs to the option before it, which may stand alone, and is no input: a wrong value, too, where
    there is an input already.
    """
    if os.path.lexists(word):
        return placed and bool(re.fullmatch(row.value, word))
    return bool(re.fullmatch(row.value, word)) or (placed and not re.match("-|.*[*?[]", word))


def _refuse_dash(word: str) -> None:
    """Refuses what looks like an option: word processors and web pages make other dashes of hyphens."""
    name = word.lstrip(DASHES + "-")
    if not name or word[0] not in DASHES + "-" or not set(word[:2]) & set(DASHES) or os.path.lexists(word):
        return
    hyphens = "-" if name[0].isalpha() and not (name[1:2].isalpha() or name[1:2] == "-") else "--"
    raise RequestError(f"{word} begins with a dash that is no hyphen; type {hyphens}{name}")


def _refuse_without_dashes(word: str, flags: Mapping[str, Parameter], settings: Collection[str]) -> None:
    """Refuses an option as Python has it: padding=1."""
    name, sign, value = word.partition("=")
    flag = f"--{name.lower().replace('_', '-')}"
    if not sign or not (flag in flags or flag in settings) or os.path.lexists(word):
        return
    if flag in settings or flags[flag].is_flag:
        value = ""
    raise RequestError(f"{word} is no file; an option begins with dashes: {flag} {value}".rstrip())


def _refuse_truth(parameter: Parameter, value: str) -> None:
    """Refuses a truth where a path is needed, which other programs take to give a second result."""
    if parameter.row.path == "output" and value.lower() in TRUTHS and not os.path.lexists(value):
        raise RequestError(f"{field(parameter.name)} takes a path, found {value}; write {parameter.example}")


def _refuse_apart(name: str, value: str, rest: Sequence[str]) -> None:
    apart = [value, *takewhile(lambda word: word.isdecimal() and not os.path.lexists(word), rest)]
    if len(apart) > 1:
        raise RequestError(
            f"{field(name)} takes its numbers as one word, found {' '.join(apart)}; "
            f"write {field(name, ','.join(apart))}"
        )


def _truths(rest: Sequence[str]) -> Iterator[str]:
    """The next word, where it is a truth and no file."""
    yield from (word for word in rest[:1] if word.lower() in TRUTHS and not os.path.lexists(word))


def _refuse_value(flag: str, parameter: Parameter | None, value: str) -> None:
    if not value:
        return
    other = TURNED_OFF.get(parameter.name) if parameter else None
    opposite = f", or {other} for the opposite" if other and flag != other else ""
    raise RequestError(f"{flag} takes no value, found {value}; write {flag} alone{opposite}")


def _refuse_opposites(words: Sequence[str]) -> None:
    for name, off in TURNED_OFF.items():
        if off in words and field_flag(name) in words:
            raise RequestError(f"{field(name)} and {off} contradict each other; give one of them")


def field_flag(name: str) -> str:
    """The flag of a field."""
    return "--" + name.replace("_", "-")
