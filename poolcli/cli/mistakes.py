"""Messages about mistakes on the command line: what is wrong, and what to type instead."""

from __future__ import annotations

import re
from typing import Any

from poolcli.cli.line import HELP, canonical, own_flags
from poolcli.cli.operators import OPERATOR_HELP, instead_of
from poolcli.cli.pool import attribute_of_others, own_options
from poolcli.cli.program import COMMANDS, PROGRAM_OPTIONS, find_command, load_command
from poolcli.errors import RequestError
from poolcli.message_fields import field, for_cli
from poolcli.ops import OPERATORS
from poolcli.suggestions import ALIASES, FLAGS, KEYWORDS, MEANT, did_you_mean, join_words


def usage_error(error: Any, word: str) -> RequestError:
    """The refusal for an error of Click, which is known by the name of its class: the classes are private. `word` is
    the first one of the line.
    """
    kind, command = type(error).__name__, find_command(word)
    if command is None:
        return unknown_command(word)
    if kind == "NoSuchOption":
        return unknown_option(command, error.option_name)
    if kind == "MissingParameter":
        params = load_command(command).params
        missing = params[[each.name for each in params].index(error.param.name) :]
        needed = [for_cli(field(str(each.name))) for each in missing if each.required]
        return RequestError(f"{command} needs {join_words(needed, 'and')}; {command} --help shows examples")
    return RequestError(f"{error.message.rstrip('.')}; {command} --help shows examples")


def unknown_option(command: str, flag: str) -> RequestError:
    """The refusal of an option that the command does not have."""
    name = canonical(flag.lstrip("-"))
    attribute, value, _ = FLAGS.get(name) or (name.replace("-", "_"), None, None)
    if not any(attribute in own_options(op) for op in OPERATORS):
        attribute = KEYWORDS.get(attribute, attribute)
    if command in OPERATORS and any(attribute in own_options(op) for op in OPERATORS):
        return attribute_of_others(command, attribute, value)
    own, meant = own_flags(load_command(command).params), MEANT.get(name, "")
    flags = re.findall(r"--[a-z-]+", meant)
    if meant.startswith("poolcli") or (flags and own.keys() >= {*flags}):
        return RequestError(f"{command} has no option {flag}; use {meant}")
    short = {f"--{alias}": f"--{other}" for alias, other in ALIASES.items() if f"--{other}" in own}
    end = did_you_mean(flag, [each for each in (*own, *HELP) if len(each) > 2], short)
    return RequestError(f"{command} has no option {flag}{end or f'; poolcli {command} --help-all shows all'}")


def unknown_command(word: str) -> RequestError:
    """The refusal of a first word that is no command."""
    meant = instead_of(word)
    known = [*COMMANDS, *PROGRAM_OPTIONS, *(alias for row in OPERATOR_HELP.values() for alias in row.aliases)]
    end = f"; use {meant}" if meant.startswith("poolcli") else did_you_mean(word, known)
    return RequestError(f"there is no command {word}" + (end or f"; there are {join_words(COMMANDS, 'and')}"))
