"""Words that nothing answers to: what to type instead, out of all that exists."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from poolcli.cli.commands import BY_NAME, COMMANDS
from poolcli.cli.meant import COMMANDS_MEANT, instead
from poolcli.cli.options import OPTIONS, SETTINGS, Option
from poolcli.cli.parameters import parameters
from poolcli.cli.values import is_number_list
from poolcli.cli.words import operator_named
from poolcli.errors import RequestError
from poolcli.formats.table import suffixes_of
from poolcli.message_fields import field
from poolcli.suggestions import did_you_mean, listed

OF_THE_PROGRAM = ("--help", "--version", "--install-completion", "--show-completion")


def usage_error(error: Any, words: Sequence[str]) -> RequestError:
    """What Typer refuses, in poolcli's words. Its exceptions are told apart by name: their module is not public."""
    kind, context = type(error).__name__, getattr(error, "ctx", None)
    command = BY_NAME.get(getattr(context, "info_name", "") or "")
    if command is None:
        return no_command(words)
    if kind == "NoSuchOption":
        taken = parameters(command)
        flags = [flag for each in taken if isinstance(each.row, Option) for flag in each.row.all_flags]
        return no_option(command.name, error.option_name, flags)
    return RequestError(f"{error.format_message()}; poolcli {command.name} --help shows how it is used")


def no_option(command: str, word: str, flags: Iterable[str]) -> RequestError:
    """The refusal of an option that the command does not have: the nearest that it has, or whose option it is."""
    known = tuple(flags)
    name = word.partition("=")[0]
    field_name = _field_of(name)
    others = _commands_with(field_name) if field_name else []
    if others:
        is_size = any(row.op and field_name == row.needs[0] for row in COMMANDS)
        goes_by = f"{command} goes by {field(BY_NAME[command].needs[0])}" if is_size and BY_NAME[command].op else ""
        own = f"; {goes_by or 'leave it out'}"
        return RequestError(f"{command} has no {name}, which is an option of {listed(others, 'and')}{own}")
    if word[1:].replace(",", "").replace(".", "").isdigit():
        if command == "shape":
            return RequestError(
                f"{word}: a length in a shape is 0 or more; one that is not known may be any, such as 1"
            )
        return RequestError(f"{command} has no option {word}{_valued(command, word)}")
    meant = instead(BY_NAME[command], name, known) or did_you_mean(
        name if len(name) > 2 else word, [flag for flag in known if len(flag) > 2]
    )
    return RequestError(f"{command} has no option {name}{meant or f'; poolcli {command} --help-all shows all'}")


def _valued(command: str, value: str) -> str:
    """Where a value stands that looks like an option."""
    rows = [each.row for each in parameters(BY_NAME[command]) if isinstance(each.row, Option) and each.row.metavar]
    example = f", as in {rows[0].names[-1]}={value}" if rows else ""
    return f"; a value that begins with - follows its option{example}"


def no_command(words: Sequence[str]) -> RequestError:
    """The refusal of a first word that is no command: the nearest one, or the command line that was meant."""
    word, rest = words[0], words[1:]
    if word in ("-h", "--help"):
        return RequestError(f"there is no command {rest[0]}{_alike(rest[0])}")
    if word.startswith("-"):
        found = next((each for each in rest if each in BY_NAME), None)
        if found:
            others = [each for each in words if each != found]
            return RequestError(f"the command comes first: poolcli {found} {shlex.join(others)}")
        meant = "; did you mean -V?" if word == "-v" else did_you_mean(word, OF_THE_PROGRAM)
        meant = meant or "; options follow a command, as in poolcli avg x.npy -o y.npy -k 2"
        return RequestError(f"poolcli has no option {word.partition('=')[0]} of its own{meant}")
    if os.path.lexists(word) or word.lower().endswith(suffixes_of(lambda row: row.reads)):
        named = next((each for each in rest if each in BY_NAME), None)
        others = [each for each in words if each != named]
        alone = all(each.startswith("-") for each in rest)
        line = f"{shlex.quote(word)} -o OUTPUT -k 2" if alone else shlex.join(others)
        return RequestError(f"{word} is no command, it comes behind one: poolcli {named or 'avg'} {line}")
    if is_number_list(word):
        return RequestError(f"{word} is no command; for a shape write poolcli shape avg {shlex.join(words)}")
    if word.lower().startswith("global"):
        op = operator_named(word[6:].strip("-_")) or "avg"
        return RequestError(
            f"there is no command {word}; write poolcli adaptive-{op.removeprefix('adaptive-')} --output-size 1"
        )
    return RequestError(f"there is no command {word}{_alike(word)}")


def _alike(word: str) -> str:
    """The end of the refusal of a command: what does the like, the nearest one, or all that there are."""
    known = COMMANDS_MEANT.get(word.lower().strip("-_"))
    meant = f"; write poolcli {known}" if known else did_you_mean(word, [*BY_NAME, "help"])
    return meant or f"; there are {listed(BY_NAME, 'and')}"


def refuse_misplaced(command: str, placed: Sequence[str], left: Sequence[str], words: Sequence[str]) -> None:
    """Refuses words at the places of others, and words that nothing is `left` to take; `words` are all of the line."""
    if command == "shape" and placed and is_number_list(placed[0]):
        op = next((word for word in (*placed, *left) if operator_named(word)), "avg")
        raise RequestError(f"the operator comes before the shape: poolcli shape {op} {placed[0]}")
    before = words[words.index(left[0]) - 1] if left else ""
    if before.startswith("--"):
        raise RequestError(f"{before} takes no value, found {left[0]}; write {before} alone")
    lengths = [word.strip(",") for word in (*placed[1:], *left)]
    if command == "shape" and left and all(word.isdecimal() for word in left) and all(map(is_number_list, lengths)):
        value = ", and a value follows its option" if "," in lengths[0] else ""
        raise RequestError(f"a shape is one word: poolcli shape {placed[0]} {','.join(lengths)}{value}")
    if left:
        more = f"{command} takes no further word, found {left[0]}"
        raise RequestError(f"{more}; poolcli {command} --help shows what it takes")


def _field_of(name: str) -> str | None:
    """The field that any command reads a flag as."""
    if name in SETTINGS:
        return SETTINGS[name][0]
    rows = ((each, row) for each, row in OPTIONS.items() if isinstance(row, Option))
    return next((each for each, row in rows if name in row.all_flags), None)


def _commands_with(field_name: str) -> list[str]:
    """The commands that have the field; those that pool, where any does."""
    found = [row for row in COMMANDS if any(each.name == field_name for each in parameters(row))]
    return [row.name for row in found if row.op] or [row.name for row in found]
