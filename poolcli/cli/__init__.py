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

SAME = (("avg", "adaptive-avg", "area"), ("max", "adaptive-max"))  # operators that compute the same of a window
WHOLE = re.compile(".* (-k|--kernel|--fit|--output-size)")  # lines with a window
MAX_WORDS = 12  # of a line in a message
ANY = "99999"  # pixels: more than images have
SIZE = re.compile(r"(?=x?\d)([\d.]*)(%?)(?:(x)([\d.]*)%?)?[!^<>]?")  # a number, a share, 200x150, or 300x


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
    from poolcli.message_fields import field, for_cli
    from poolcli.suggestions import MEANT, did_you_mean, join_words

    words = [each for each in words if each != "--json"] or ["--json"]
    kind, word, command = type(error).__name__, words[0], known.find_command(words[0])
    if command is None:
        meant, others = known.instead_of(word), (each for each in words if each[:1] != "-")
        typed = {name: each for each in others if (name := known.find_command(each))}
        if op := next((each for each in typed if each in known.OPERATOR_HELP), None):  # as in pool2d x.npy --mode max
            meant = re.sub("^poolcli avg( or poolcli max)?", f"poolcli {op}", meant)
        aliases = {alias: op for op, row in known.OPERATOR_HELP.items() for alias in row.aliases.split()}
        end = did_you_mean(word, (*known.COMMANDS, *known.PROGRAM_OPTIONS), aliases)
        if os.path.exists(word) or (word[:1] == "-" and not end):
            first = next(iter(typed), "avg")
            line = [each for each in words if each != typed.get(first)]
            lines = [_line(each, line) for each in (first, *["area"] * (not typed))]
            lines.append(f"poolcli {shlex.join((first, *line[:MAX_WORDS]))}")
            end = f"; the command comes first, as in {next(filter(None, lines))}"
        elif meant.startswith("poolcli"):
            at = [i for i, each in enumerate(words) if SIZE.fullmatch(each) and words[i - 1][:1] != "-"][:2]
            key = next(f"--{key}" for key, row in MEANT.items() if row == known.instead_of(word))
            rest = [*(each for i, each in enumerate(words) if i not in (0, *at)), key, *(words[i] for i in at)]
            lines = [_line(meant.split()[1], line) for line in (words[1:], rest) if "--" in meant]
            end = f"; use {next(filter(WHOLE.match, lines), meant)}"
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
        same = next((row[:: -1 if attribute == "fit" else 1] for row in SAME if command in row), ())
        lines = (_line(each, words[1:]) for each in same)
        return attribute_of_others(command, attribute, setting, next(filter(WHOLE.match, lines), ""))
    if command == "chain" and attribute in known:
        return RequestError(f"chain has no option {flag}; write it in the layer, as in max:k3,s2,p1")
    params: list[Any] = load_command(command).params
    own, inputs = own_flags(params), " ".join(each.metavar for each in params if each.param_type_name == "argument")
    if name.upper() in re.split("[ |]", inputs):
        return RequestError(f"{command} has no option {flag}; write the value alone: poolcli {command} {inputs}")
    at = next((i for i, word in enumerate(words) if word.partition("=")[0] == flag), 0)
    values, meant = _proposal(words[at:], words, "--fit" in own and "--kernel" not in own)
    op = find_operator("".join(values or words[at + 1 : at + 2]))
    if op and not (op in words[:2] and meant.startswith("none")):  # as in --reduce mean
        use = f"use --op {op}" if "--op" in own else f"use poolcli {'shape ' * (command == 'shape')}{op}"
        return RequestError(f"{command} has no option {flag}; {'leave it out' if op in words[:2] else use}")
    if line := _line(command, words[1:]):
        return RequestError(f"{command} has no option {flag}; use {line}")
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


def _line(command: str, words: Sequence[str]) -> str:
    """The line that is meant, with options in place of those of other programs, and a remark; "" if it is not clear."""
    from poolcli.cli.program import OPERATOR_HELP, find_operator, load_command
    from poolcli.cli.values import canonical, own_flags
    from poolcli.formats.table import format_by_suffix

    own, rest, line, remark, op = own_flags(load_command(command).params), list(words), list[str](), "", "avg"
    while rest:
        flag, equals, _ = (word := rest[0]).partition("=")
        if word == "-r" and (named := find_operator("".join(rest[1:2]))):  # of gdalwarp
            op, rest = named, rest[2:]
            continue
        if word[:1] != "-" or {flag, f"--{canonical(flag.lstrip('-'))}"} & own.keys():
            line.append(rest.pop(0))
            continue
        values, meant = _proposal(rest, words, "--kernel" not in own)
        found = re.fullmatch(r"(?:poolcli ([a-z-]+) )?(--[a-z-]+( [\w.%,]+( --[a-z-]+ [\w.%,]+)?)?)((:| \().*)?", meant)
        if not found:
            return ""
        options, remark = found[2].split(), found[5] or remark
        if found[1] in OPERATOR_HELP and not own.keys() >= {*options[::2]}:
            command, own = found[1], own_flags(load_command(found[1]).params)
        takes = len(options) == 1 and not getattr(own.get(options[0]), "is_flag", False)
        values = values or [each for each in rest[1:][:takes] if each[:1] != "-" and not os.path.exists(each)]
        rest = rest[1 + len(values) * (not equals) :]
        options += (values or ["-"]) * takes
        line += options if options != line[-2:] else []
    command = command if op == "avg" else op
    own, flags = own_flags(load_command(command).params), [each.partition("=")[0] for each in line if each[:1] == "-"]
    names = [getattr(own.get(each) or own.get(f"--{canonical(each.lstrip('-'))}"), "name", "") for each in flags]
    if "" in names or len({*names}) < len(names) or len(line) > MAX_WORDS:
        return ""
    if command in OPERATOR_HELP and not {"output", "dry_run"} & {*names}:
        new = [i for i, each in enumerate(line) if format_by_suffix(each) and not os.path.lexists(each)] or [len(line)]
        line[new[-1] :] = ["-o", *(line[new[-1] :] or ["small/"])]
    return f"poolcli {shlex.join((command, *line))}{remark}"


def _proposal(rest: Sequence[str], words: Sequence[str], only_fits: bool) -> tuple[list[str], str]:
    """The values of the option at the start of `rest`, and what is proposed in place of it, with them."""
    from poolcli.cli.values import canonical
    from poolcli.suggestions import MEANT

    flag, equals, value = rest[0].partition("=")
    name, meant = canonical(flag.lstrip("-")), MEANT.get(canonical(flag.lstrip("-")), "")
    sizes = takewhile(lambda each: SIZE.fullmatch(each) and not os.path.exists(each), rest[1:3])
    values = [value] if equals else [*sizes]
    sides = dict(re.findall(r"--?(width|height)[ =](\d+)", " ".join(words)))
    typed = "x".join(map(sides.get, ("width", "height"), ("", "")) if name in sides else values)
    if (size := SIZE.fullmatch(typed.strip("[]()").replace(",", "x"))) and (number := float(size[1] or 1)):
        first, share, x, second = size.groups()
        number /= 100 if share or name.startswith("percent") else 1  # the part of a size, or what divides it
        fit = "x".join(each if each.strip("0") else ANY for each in ((first, second) if x else (first,)))
        fit = f"{100 * number:.6g}%" if share or (number < 1 and not x) else fit
        meant = meant.replace("H,W", f"{second},{first}" if x and not share and ANY not in fit else "H,W")
        meant = meant.replace("256, WxH or 50%", fit).replace("new pixel size", f"new pixel size, {first},")
        numbers = ",".join(filter(None, (first, second))) if number >= 1 and not share else f"{1 / number:.6g}"
        if "--kernel 2 " in meant and number != 1:
            meant = f"poolcli avg --kernel {numbers} --strides {numbers}"
            if only_fits or "." in numbers:
                meant = f"poolcli area --fit {100 * min(number, 1 / number):.6g}%"
    if kernel := re.search(r"(?<!\S)(?:-k|--kernel)[ =](\d+)(?!\S)", " ".join(words)):
        meant = re.sub(r"\b7\b", kernel[1], meant)
    return values, meant.replace("'mask.npy'", repr("".join(values or rest[1:2]) or "mask.npy"))
