"""Plain command lines: read by the table alone, because to load Typer takes longer than most of what they ask for.

Whatever is in doubt (letters together, values that begin with -, words too many or of no option) is left to Typer,
which then reads the whole line and refuses what is wrong. What is read here is read there alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poolcli.cli.commands import Command
from poolcli.cli.options import Argument, Option
from poolcli.cli.parameters import Parameter, parameters
from poolcli.cli.spelling import spelt
from poolcli.cli.values import is_number_list
from poolcli.cli.which import command_called
from poolcli.message_fields import TURNED_OFF

DOUBT = "--"
Typed = dict[str, Any]  # by the names of fields: the words of an option or argument, or whether a flag is on


def plainly_typed(words: Sequence[str]) -> tuple[Command, Typed] | None:
    """The command that a plain line names and what is typed for it; None where Typer must judge."""
    command = command_called(words[0]) if words else None
    if command is None:
        return None
    taken = list(parameters(command))
    typed = _typed(taken, spelt(taken, words[1:]))
    return None if typed is None else (command, typed)


def _typed(taken: Sequence[Parameter], words: Sequence[str]) -> Typed | None:
    flags = {flag: each for each in taken if isinstance(each.row, Option) for flag in each.row.all_flags}
    typed, placed, rest = Typed(), list[str](), iter(words)
    for word in rest:
        flag, sign, value = word.partition("=") if word.startswith("--") else (word, "", "")
        each = flags.get(flag)
        if each and each.is_flag and not sign:
            typed[each.name] = flag != TURNED_OFF.get(each.name)
            continue
        value = word if each is None else value if sign else next(rest, DOUBT)
        if value.startswith("-") and value != "-":
            return None
        (typed.setdefault(each.name, []) if each else placed).append(value)
    return _with_placed(typed, placed, [each for each in taken if isinstance(each.row, Argument)])


def _with_placed(typed: Typed, words: Sequence[str], places: Sequence[Parameter]) -> Typed | None:
    """What is typed and the words at their places; None where they seem to be at those of others."""
    if not words:
        return typed
    if places[0].many:
        return typed | {places[0].name: words}
    if len(words) > len(places) or is_number_list(words[0]):
        return None
    return typed | {each.name: word for each, word in zip(places, words, strict=False)}
