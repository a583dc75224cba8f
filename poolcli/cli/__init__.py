"""Runs the command line: the one place where errors and mistakes become messages and exit codes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from typing import Any

from poolcli import __version__
from poolcli.errors import PoolError, RequestError


def run(arguments: Sequence[str]) -> int:
    """Runs the command line and returns its exit code. Exceptions are bugs, or any error with --debug."""
    try:
        return _run(list(arguments))
    except PoolError as error:
        if "--debug" in arguments:
            error.args = (error.cli_message,)  # for the last line of the traceback
            raise
        from poolcli.cli.messages import report_error

        report_error(error, arguments)
        return error.exit_code


def _run(words: list[str]) -> int:
    if words[:1] in (["--version"], ["-V"]):  # without importing Typer, because scripts call it
        print(f"poolcli {__version__}")
        return 0
    if words[:1] in (["help"], ["--help-all"], ["--help"], ["-h"]):
        words = [*words[1:], "--help"]
    from poolcli.cli.program import program

    if any(name.startswith("_POOLCLI_COMPLETE") for name in os.environ):
        os.environ["COLUMNS"] = "1000"  # Typer wraps descriptions, and fish takes each of their lines for a word
    elif not words:
        with redirect_stdout(sys.stderr):
            program().main(["--help"], prog_name="poolcli", standalone_mode=False)
        return 2
    try:
        code = program().main(words, prog_name="poolcli", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except Exception as error:
        if not hasattr(error, "format_message"):  # no error of Click, whose classes are private in some versions
            raise
        raise _usage_error(error, words) from None


def _usage_error(error: Any, words: Sequence[str]) -> RequestError:
    """The refusal for an error of Click in the words of a line."""
    from poolcli.cli.program import (
        COMMANDS,
        OPERATOR_HELP,
        PROGRAM_OPTIONS,
        find_command,
        instead_of,
        load_command,
        parse_operator,
    )
    from poolcli.message_fields import field, for_cli
    from poolcli.suggestions import did_you_mean, join_words, with_numbers

    kind, word, command = type(error).__name__, words[0], find_command(words[0])
    if command is None:
        numbers = next((each for each in words[1:] if re.fullmatch(r"\d[\d.,x]*%?", each)), "")
        meant = with_numbers(instead_of(word), word, numbers)
        aliases = {alias: op for op, row in OPERATOR_HELP.items() for alias in row.aliases.split()}
        end = did_you_mean(word, (*COMMANDS, *PROGRAM_OPTIONS), aliases)
        if os.path.exists(word) or (word[:1] == "-" and not end):
            end = f"; the command comes first, as in poolcli avg {word}"
        elif meant.startswith("poolcli"):
            end = f"; use {meant}"
        known = f"; there are {join_words(COMMANDS, 'and')}"
        return RequestError(f"there is no command {word}{end or known}")
    if kind == "NoSuchOption":
        flag = error.option_name[any(each.partition("=")[0] == error.option_name[1:] for each in words) :]  # as typed
        return _unknown_option(command, flag, words)
    examples = f"poolcli {command} --help shows examples"
    if kind == "MissingParameter":
        if "op" in error.ctx.params:
            parse_operator("op", error.ctx.params["op"])  # which may be missing instead
        params: list[Any] = load_command(command).params
        missing = params[[each.name for each in params].index(error.param.name) :]
        needed = [for_cli(field(str(each.name))) for each in missing if each.required]
        told = f" ({missing[0].help.rstrip('.')})" if len(needed) == 1 else ""
        return RequestError(f"{command} needs {join_words(needed, 'and')}{told}; {examples}")
    return RequestError(f"{error.message.rstrip('.')}; {examples}")


def _unknown_option(command: str, flag: str, words: Sequence[str]) -> RequestError:
    """The refusal of an option that the command does not have, with what to type instead."""
    from poolcli.arguments import PAD_MODES
    from poolcli.cli.pool import attribute_of_others, own_options
    from poolcli.cli.program import COMMANDS, OPERATOR_HELP, load_command
    from poolcli.cli.values import HELP, canonical, own_flags
    from poolcli.suggestions import ALIASES, FLAGS, KEYWORDS, MEANT, did_you_mean, with_numbers

    name = canonical(flag.lstrip("-"))
    attribute, value, _ = FLAGS.get(name) or (name.replace("-", "_"), None, None)
    known = set[str]().union(*map(own_options, OPERATOR_HELP))
    if attribute not in known:
        attribute = KEYWORDS.get(attribute, attribute)
    if command in OPERATOR_HELP and attribute in known:
        return attribute_of_others(command, attribute, value)
    if command == "chain" and attribute in known:
        return RequestError(f"chain has no option {flag}; write it in the layer, as in max:k3,s2,p1")
    own = own_flags(load_command(command).params)
    behind = " ".join(words).replace("=", " ").partition(f"{flag} ")[2]
    argument, numbers = behind.partition(" ")[0], re.sub(r"[^\d.,:xX% ].*", "", behind)
    meant = MEANT.get("cval" if argument in PAD_MODES and (name == "mode" or name not in MEANT) else name, "")
    is_axis, meant = meant == MEANT["dim"], with_numbers(meant, name, numbers, partial(_image_size, words))
    is_own = own.keys() >= {*re.findall(r"--[a-z-]+", meant)}
    if meant and (is_own or meant.startswith("poolcli")):
        use = re.sub("poolcli [a-z-]+ (?=--)", "", meant) if is_own else meant
        use = (_layout_pooling(argument, words) if is_axis else "") or use
        use = use.replace("none", "leave it out", 1) if use.startswith("none: ") else f"use {use}"
        return RequestError(f"{command} has no option {flag}; {use}")
    letters = [f"-{letter}" for letter in dict.fromkeys(flag[1:])]
    if own.keys() >= {*letters} and argument[:1].isdigit():  # as in -ks 2
        use = " ".join(each if own[each].is_flag else f"{each} {argument}" for each in letters)
        return RequestError(f"{command} has no option {flag}; use {use}")
    if use := _option_with_value(name, own):
        return RequestError(f"{command} has no option {flag}; use {use}")
    if (valued := f"--{canonical(name.removeprefix('no-'))}") in own:
        return RequestError(f"{command} has no option {flag}; leave it out, as {valued} takes a value")
    if other := next((each for each in COMMANDS if flag in own_flags(load_command(each).params)), None):
        return RequestError(f"{command} has no option {flag}, which poolcli {other} has")
    short = {f"--{alias}": f"--{other}" for alias, other in ALIASES.items() if f"--{other}" in own}
    end = did_you_mean(flag, [each for each in (*own, *HELP) if len(each) > 2], short)
    return RequestError(f"{command} has no option {flag}{end or f'; poolcli {command} --help-all shows all'}")


def _option_with_value(word: str, own: Collection[str]) -> str:
    """The option with this word as its value, such as --dtype float16 for fp16; "" without one."""
    from poolcli.arguments import ROUNDING_TYPES, word_of
    from poolcli.cli.program import parse_operator
    from poolcli.cli.values import auto_pad, dtype
    from poolcli.dialects import DIALECTS
    from poolcli.message_fields import field, for_cli

    framework = word_of(tuple(DIALECTS))
    readers = {
        "dtype": dtype, "like": framework, "against": framework, "auto_pad": auto_pad, "pooling": parse_operator,
        "rounding_type": word_of(ROUNDING_TYPES),
    }  # fmt: skip
    for name, read in readers.items():
        with suppress(RequestError):
            if len(word) > 1 and for_cli(field(name)) in own:
                return for_cli(field(name, read(name, word)))
    return ""


def _layout_pooling(asked: str, words: Sequence[str]) -> str:
    """The layout that pools the axes of these names of the first file, or that they are pooled already; "" without."""
    from poolcli.layouts import BATCH, SPATIAL, layout_of_dimensions

    source, names, header = _first_file(words)
    axes = asked.split(",")
    if not {*axes} <= {*names} or len(axes) > len(SPATIAL):
        return ""
    own = header.layout or layout_of_dimensions(names) or ""
    if {name for name, letter in zip(names, own, strict=False) if letter in SPATIAL} == {*axes}:
        return f"none: {asked} are pooled already"
    spatial, others = iter(SPATIAL[-len(axes) :]), iter(BATCH)
    layout = "".join(next(spatial if name in axes else others) for name in names)
    return f"--layout {layout} to pool {asked} alone of the axes {','.join(names)} of {source}"


def _image_size(words: Sequence[str]) -> tuple[int, ...]:
    """Height and width of the first file; () if it is not an image."""
    _, _, header = _first_file(words)
    return tuple(header.shape[header.layout.index(axis)] for axis in "HW") if header and header.mode else ()


def _first_file(words: Sequence[str]) -> tuple[Any, list[str], Any]:
    """The first file that the words name, the names of its axes and its header; None for both without one."""
    from poolcli.formats import in_subprocess_if_fragile, open_array, parse_source

    def read() -> tuple[list[str], Any]:
        with open_array(source) as file:
            found = file.metadata.dimensions if file.streams else ()
            return [os.path.basename(each.label or next(iter(each.scales), "")) for each in found], file.header

    with suppress(PoolError):
        for source in filter(lambda each: os.path.exists(each.path), map(parse_source, words)):
            return source, *in_subprocess_if_fragile(source.path, read)
    return None, [], None
