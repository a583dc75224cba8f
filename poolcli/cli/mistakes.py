"""Messages about mistakes on the command line: what is wrong, and what to type instead."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from poolcli.cli.line import HELP, canonical, own_flags
from poolcli.cli.operators import OPERATOR_HELP, adaptive
from poolcli.cli.pool import attribute_of_others, offers
from poolcli.cli.program import COMMANDS, PROGRAM_OPTIONS, find_command, load_command
from poolcli.cli.values import is_number_list
from poolcli.errors import RequestError
from poolcli.message_fields import field, for_cli
from poolcli.ops import OPERATORS
from poolcli.suggestions import ALIASES, FLAGS, MEANT, did_you_mean, join_words

SHORT = {"k": "kernel", "s": "strides", "p": "pads"}


def usage_error(error: Any, words: Sequence[str]) -> RequestError:
    """The refusal for an error of Click, which is known by the name of its class: the classes are private."""
    kind, command = type(error).__name__, find_command(words[0])
    if command is None:
        return unknown_command(words)
    params = load_command(command).params
    if kind == "NoSuchOption":
        return unknown_option(command, error.option_name)
    if kind == "MissingParameter":
        needed = [for_cli(field(str(each.name))) for each in params if each.required]
        return RequestError(f"{command} needs {join_words(needed, 'and')}; {command} --help shows examples")
    return RequestError(f"{error.message.rstrip('.')}; {command} --help shows examples")


def unknown_option(command: str, flag: str) -> RequestError:
    """The refusal of an option that the command does not have."""
    name = canonical(flag.lstrip("-"))
    attribute, value, _ = FLAGS.get(name) or (SHORT.get(name, name).replace("-", "_"), None, None)
    if command in OPERATORS and any(offers(op, attribute) for op in OPERATORS):
        return attribute_of_others(command, attribute, value)
    return RequestError(f"{command} has no option {flag}; {_remedy(command, flag, name)}")


def _remedy(command: str, flag: str, name: str) -> str:
    """What to type instead of an unknown option; `name` is its name in lower case without dashes."""
    params = load_command(command).params
    own = own_flags(params)
    if os.path.lexists(flag):
        return f"the file of that name is typed as ./{flag}"
    if flag[1:2].isdecimal():
        return "a value that begins with - follows its option and ="
    positive = f"--{name.removeprefix('no-')}"
    if positive != f"--{name}" and positive in own:
        opposite = [each for each in (*own[positive].opts, *own[positive].secondary_opts) if each != positive]
        return f"use {opposite[-1]}" if opposite else f"leave {positive} out"
    if len(flag) == 2 and flag.swapcase() in own:
        return f"did you mean {flag.swapcase()}?"
    for each in params:
        if not each.opts[0].startswith("-") and name in (str(each.name), str(each.name).rstrip("s"), "input"):
            return f"{each.metavar} is written without an option"
    meant = MEANT.get(name, "")
    flags = re.findall(r"--[a-z-]+", meant)
    if meant.startswith("poolcli") or (flags and own.keys() >= {*flags}):
        return f"use {meant}"
    known = (*own, *HELP, *(f"--{alias}" for alias, other in ALIASES.items() if f"--{other}" in own))
    found = did_you_mean(flag, (each for each in known if len(each) > 2))
    return found.removeprefix("; ") or f"poolcli {command} --help-all shows all"


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
