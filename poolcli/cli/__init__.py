"""Runs the command line: the one place where errors and mistakes become messages and exit codes."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from itertools import takewhile
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
    from poolcli.cli import program as known
    from poolcli.cli.values import canonical
    from poolcli.message_fields import field, for_cli
    from poolcli.suggestions import MEANT, did_you_mean, join_words

    kind, word, command = type(error).__name__, words[0], known.find_command(words[0])
    if command is None:
        meant, others = known.instead_of(word), (each for each in words if each[:1] != "-")
        typed = {name: each for each in others if (name := known.find_command(each))}
        if op := next((each for each in typed if each in known.OPERATOR_HELP), None):  # as in pool2d x.npy --mode max
            meant = re.sub("^poolcli avg( or poolcli max)?", f"poolcli {op}", meant)
        aliases = {alias: op for op, row in known.OPERATOR_HELP.items() for alias in row.aliases.split()}
        end = did_you_mean(word, (*known.COMMANDS, *known.PROGRAM_OPTIONS), aliases)
        if os.path.exists(word) or (word[:1] == "-" and not end):
            sizes = (canonical(each.lstrip("-").partition("=")[0]) for each in words if each[:1] == "-")
            is_sized = any(each in ("fit", "output-size") or "poolcli area" in MEANT.get(each, "") for each in sizes)
            first = next(iter(typed), "area" if is_sized else "avg")
            line = [first, *(each for each in words if each not in (typed.get(first), "--json"))]
            end = f"; the command comes first, as in poolcli {shlex.join(line)}"
        elif meant.startswith("poolcli"):
            end = f"; use {meant}"
        every = f"; there are {join_words(known.COMMANDS, 'and')}"
        return RequestError(f"there is no command {word}{end or every}")
    if kind == "NoSuchOption":
        flag = error.option_name[any(each.partition("=")[0] == error.option_name[1:] for each in words) :]  # as typed
        return _unknown_option(command, flag, words)
    examples = f"poolcli {command} --help shows examples"
    if kind == "MissingParameter":
        if "op" in error.ctx.params:
            known.parse_operator("op", error.ctx.params["op"])  # which may be missing instead
        params: list[Any] = known.load_command(command).params
        missing = params[[each.name for each in params].index(error.param.name) :]
        needed = [for_cli(field(str(each.name))) for each in missing if each.required]
        told = f" ({missing[0].help.rstrip('.')})" if len(needed) == 1 else ""
        return RequestError(f"{command} needs {join_words(needed, 'and')}{told}; {examples}")
    return RequestError(f"{error.message.rstrip('.')}; {examples}")


def _unknown_option(command: str, flag: str, words: Sequence[str]) -> RequestError:
    """The refusal of an option that the command does not have, with what to type instead."""
    from poolcli.arguments import refuse_words
    from poolcli.cli.pool import attribute_of_others, own_options
    from poolcli.cli.program import COMMANDS, OPERATOR_HELP, find_operator, load_command
    from poolcli.cli.values import HELP, canonical, own_flags
    from poolcli.suggestions import ALIASES, FLAGS, KEYWORDS, MEANT, did_you_mean

    name = canonical(flag.lstrip("-"))
    attribute, setting, _ = FLAGS.get(name) or (name.replace("-", "_"), None, None)
    known = set[str]().union(*map(own_options, OPERATOR_HELP))
    if attribute not in known:
        attribute = KEYWORDS.get(attribute, attribute)
    if command in OPERATOR_HELP and attribute in known and name not in MEANT:
        return attribute_of_others(command, attribute, setting)
    if command == "chain" and attribute in known:
        return RequestError(f"chain has no option {flag}; write it in the layer, as in max:k3,s2,p1")
    params: list[Any] = load_command(command).params
    own, inputs = own_flags(params), " ".join(each.metavar for each in params if each.param_type_name == "argument")
    if name.upper() in re.split("[ |]", inputs):
        return RequestError(f"{command} has no option {flag}; write the value alone: poolcli {command} {inputs}")
    at = next(i for i, word in enumerate(words) if word.partition("=")[0] == flag)
    values = [*takewhile(str.isdecimal, words[at + 1 : at + 3])] or words[at + 1 : at + 2]  # as in -outsize 9 6
    value, only_fits = words[at].partition("=")[2] or "x".join(values), "--fit" in own and "--kernel" not in own
    if "=" in value and name in MEANT:  # lat=2,lon=3
        refuse_words("kernel", value)
    op, meant = find_operator(value), _with_values(MEANT.get(name, ""), name, value, words, only_fits)
    if op and not (op in words[:2] and meant.startswith("none")):  # as in --reduce mean
        use = f"use --op {op}" if "--op" in own else f"use poolcli {'shape ' * (command == 'shape')}{op}"
        return RequestError(f"{command} has no option {flag}; {'leave it out' if op in words[:2] else use}")
    meant = re.sub(r" --strides \S+.*", "", meant) if "--levels" in own else meant  # of pyramids
    is_own = own.keys() >= {*re.findall(r"--[a-z-]+", meant)}
    if meant and (is_own or meant.startswith("poolcli")):
        use = re.sub("poolcli [a-z-]+ (?=--)", "", meant) if is_own else meant
        use = use.replace("none", "leave it out", 1) if use.startswith("none: ") else f"use {use}"
        return RequestError(f"{command} has no option {flag}; {use}")
    if other := next((each for each in COMMANDS if flag in own_flags(load_command(each).params)), None):
        return RequestError(f"{command} has no option {flag}, which poolcli {other} has")
    short = {f"--{alias}": f"--{other}" for alias, other in ALIASES.items() if f"--{other}" in own}
    end = did_you_mean(flag, [each for each in (*own, *HELP) if len(each) > 2], short)
    return RequestError(f"{command} has no option {flag}{end or f'; poolcli {command} --help-all shows all'}")


def _with_values(meant: str, name: str, value: str, words: Sequence[str], only_fits: bool) -> str:
    """What is proposed in place of an option, with the numbers and names that were typed in place of the examples."""
    if re.fullmatch(r"\d+(x\d+|\.?\d*%)?", value):
        meant = meant.replace("256, WxH or 50%", value)
        meant = meant.replace("new pixel size", f"new pixel size, {value.partition('x')[0]},")
    found = re.fullmatch(r"[\[(]?((\d*\.?\d+)(%?)([,x] ?[\d.]+%?)*)[\])]?", value)
    if "--kernel 2 " in meant and found and (number := float(found[2])) not in (0, 1):
        number /= 100 if found[3] or name.startswith("percent") else 1  # the part of a size, or what divides it
        numbers = found[1].replace(" ", "") if number >= 1 and not found[3] else f"{1 / number:.6g}"
        meant = f"poolcli avg --kernel {numbers} --strides {numbers}"
        if only_fits or numbers.strip("0123456789,x"):
            meant = f"poolcli area --fit {100 * min(number, 1 / number):.6g}%"
    if kernel := re.search(r"(?<!\S)(?:-k|--kernel)[ =](\d+)(?!\S)", " ".join(words)):
        meant = re.sub(r"\b7\b", kernel[1], meant)
    return meant.replace("'mask.npy'", repr(value or "mask.npy"))
