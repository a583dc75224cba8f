"""Messages about mistakes on the command line: what is wrong, and what to type instead."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from poolcli.cli.line import HELP, canonical, own_flags
from poolcli.cli.operators import OPERATOR_HELP, adaptive
from poolcli.cli.program import COMMANDS, PROGRAM_OPTIONS, load_command
from poolcli.cli.values import attribute_of_others, is_number_list, offers
from poolcli.errors import RequestError
from poolcli.message_fields import field, for_cli
from poolcli.ops import OPERATORS
from poolcli.suggestions import ALIASES, FLAGS, MEANT, did_you_mean, join_words

SHORT = {"k": "kernel", "s": "strides", "p": "pads"}
# Parts of names that are not suggested for each other.
OPPOSITES = (("input", "output"), ("begin", "end"), ("include", "exclude"), ("min", "max"), ("atol", "rtol"))


def usage_error(error: Any, words: Sequence[str]) -> RequestError:
    """The refusal for an error of Click, which is known by the name of its class: the classes are private."""
    kind, param = type(error).__name__, getattr(error, "param", None)
    command = error.ctx.info_name if error.ctx is not None and error.ctx.parent is not None else None
    if command is None:
        return unknown_command(words)
    if kind == "NoSuchOption":
        return unknown_option(command, error.option_name)
    if kind == "MissingParameter" and param is not None:
        named = for_cli(field(param.name))
        return RequestError(f"{command} needs {named}; {command} --help shows examples", field=param.name)
    if kind == "BadParameter" and param is not None:
        wanted = "a whole number" if "valid int" in error.message else "a number"
        return RequestError(f"{field(param.name)} needs {wanted}")
    if extra := re.search(r"extra argument.*? \((.*)\)", error.message):
        return extra_argument(command, extra[1])
    return RequestError(f"{error.message.rstrip('.')}; {command} --help shows examples")


def unknown_option(command: str, flag: str) -> RequestError:
    """The refusal of an option that the command does not have."""
    own = own_flags(load_command(command).params)
    name = canonical(flag.lstrip("-"))
    has_no = f"{command} has no option {flag}"
    if os.path.lexists(flag):
        return RequestError(f"{has_no}; the file of that name is typed as ./{flag}")
    if flag[1:2].isdecimal():
        return RequestError(f"{has_no}; a value that begins with - follows its option and =")
    attribute, value, _ = FLAGS.get(name) or (SHORT.get(name, name).replace("-", "_"), None, None)
    if command in OPERATORS and any(offers(op, attribute) for op in OPERATORS):
        return attribute_of_others(command, attribute, value)
    positive = f"--{name.removeprefix('no-')}"
    if positive != f"--{name}" and positive in own:
        opposite = [each for each in (*own[positive].opts, *own[positive].secondary_opts) if each != positive]
        return RequestError(f"{has_no}; {f'use {opposite[-1]}' if opposite else f'leave {positive} out'}")
    if len(flag) == 2 and flag.swapcase() in own:
        return RequestError(f"{has_no}; did you mean {flag.swapcase()}?")
    for each in load_command(command).params:
        if not each.opts[0].startswith("-") and name in (str(each.name), str(each.name).rstrip("s"), "input"):
            return RequestError(f"{has_no}; {each.metavar} is written without an option")
    meant = MEANT.get(name, "")
    flags = re.findall(r"--[a-z-]+", meant)
    if meant.startswith("poolcli") or (flags and own.keys() >= {*flags}):
        return RequestError(f"{has_no}; use {meant}")
    names = (*own, *HELP, *(f"--{alias}" for alias, known in ALIASES.items() if f"--{known}" in own))
    known = [each for each in names if len(each) > 2 and not _are_opposites(name, each[2:])]
    return RequestError(f"{has_no}{did_you_mean(flag, known) or f'; poolcli {command} --help-all shows all'}")


def _are_opposites(name: str, other: str) -> bool:
    """Whether a part of one name contradicts a part of the other: --input-layout is not --output-layout."""
    parts, others = set(name.split("-")), set(other.split("-"))
    pairs = (pair for one in OPPOSITES for pair in (one, one[::-1]))
    return any(a in parts and a not in others and b in others for a, b in pairs)


def unknown_command(words: Sequence[str]) -> RequestError:
    """The refusal of a first word that is no command."""
    word = words[0]
    if word.startswith("--") and (meant := did_you_mean(word, PROGRAM_OPTIONS)):
        return RequestError(f"poolcli has no option {word}{meant}")
    if word.lower().startswith("global"):
        return RequestError(f"there is no command {word}; use poolcli {adaptive(word)} --output-size 1")
    if word.startswith("-") or os.path.lexists(word) or "." in word or is_number_list(word):
        example = "shape avg 1,3,32,32 -k 2" if is_number_list(word) else "avg x.npy -o y.npy -k 2"
        return RequestError(f"{word} is not a command; the command comes first, as in poolcli {example}")
    meant = MEANT.get(word.lower().replace("_", "-"), "")
    if meant.startswith("poolcli"):
        return RequestError(f"there is no command {word}; use {meant}")
    known = [*COMMANDS, "help", *(alias for row in OPERATOR_HELP.values() for alias in row.aliases)]
    end = did_you_mean(word, known) or f"; there are {join_words(COMMANDS, 'and')}"
    return RequestError(f"there is no command {word}{end}")


def extra_argument(command: str, extra: str) -> RequestError:
    """The refusal of arguments beyond those that a command takes."""
    numbers = command == "shape" and all(map(str.isdecimal, extra.split()))
    end = "a shape or a value is one word: 1,3,32,32" if numbers else f"{command} --help shows what it takes"
    return RequestError(f"{command}: unexpected argument {extra}; {end}")
